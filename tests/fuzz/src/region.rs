//! Segments in memory whose end is noticed, and whose hashes fit.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

use pmix_dstore::segment::{FINGERPRINT, FORMAT_VERSION, HEADER_LEN, MAGIC, Region, content_hash};
use xxhash_rust::xxh3::xxh3_64;

/// A copy of a segment that ends where its allocation ends: the address sanitizer sees a read of the next byte.
pub struct Exact {
    address: *mut u8,
    layout: Layout,
}

impl Exact {
    /// A copy of `bytes`.
    pub fn new(bytes: &[u8]) -> Exact {
        let layout = Layout::from_size_align(bytes.len().max(1), 64).expect("a length in memory");
        // SAFETY: the layout is of at least one byte.
        let address = unsafe { alloc(layout) };
        if address.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the allocation is new and holds as many bytes.
        unsafe { address.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Exact { address, layout: Layout::from_size_align(bytes.len(), 64).expect("as before") }
    }

    /// From where to where it lies.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.address as usize..self.address as usize + self.layout.size()
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        let layout = Layout::from_size_align(self.layout.size().max(1), 64).expect("as in new");
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.address, layout) };
    }
}

// SAFETY: the bytes are owned, and never changed after `new`.
unsafe impl Send for Exact {}
// SAFETY: as above.
unsafe impl Sync for Exact {}

// SAFETY: the allocation stays where it is until the region is dropped.
unsafe impl Region for Exact {
    fn bytes(&self) -> &[u8] {
        // SAFETY: allocated and written in `new`.
        unsafe { std::slice::from_raw_parts(self.address, self.layout.size()) }
    }
}

/// Where the header's fields are, as `docs/segment-format.md` says.
const VERSION_AT: usize = 8;
const HEADER_LEN_AT: usize = 12;
const FINGERPRINT_AT: usize = 32;
const TOTAL_LEN_AT: usize = 48;
const CONTENT_HASH_AT: usize = 56;
const META_HASH_AT: usize = 64;
const TOC_POS_AT: usize = 72;
const TOC_LEN_AT: usize = 80;
const KIND_AT: usize = 40;
/// The kind of modex segments.
const MODEX: u32 = 2;

/// The bytes of an entry, or of a line of numbers, before its check and from there on: all forms of section 3 of the format.
const ENTRIES: [usize; 8] = [8, 12, 16, 20, 24, 28, 44, 60];

/// The check of bytes at a position, as the format has it.
fn check_of(bytes: &[u8], pos: usize) -> u32 {
    const KEYS: [u64; 8] = [
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
        0x4528_21e6_38d0_1377,
        0xbe54_66cf_34e9_0c6c,
        0xc0ac_29b7_c97c_50dd,
        0x3f84_d5b5_b547_0917,
    ];
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(all);
    }
    let mut sum = (pos as u64).wrapping_mul(KEYS[0]);
    for at in (0..bytes.len().div_ceil(8)).step_by(2) {
        let product = u128::from(words[at] ^ KEYS[at]) * u128::from(words[at + 1] ^ KEYS[at + 1]);
        sum ^= product as u64 ^ (product >> 64) as u64;
    }
    (sum ^ sum >> 32) as u32
}

/// All that has a check of its own in a segment: where it begins, and how many bytes the check is of.
pub fn checked_in(bytes: &[u8]) -> Vec<(usize, usize)> {
    let is_entry = |start: usize, len: usize| {
        let check = bytes.get(start + len..).and_then(|rest| rest.first_chunk());
        check.is_some_and(|check| check_of(&bytes[start..start + len], start) == u32::from_le_bytes(*check))
    };
    let starts = (HEADER_LEN..bytes.len()).step_by(8);
    starts.flat_map(|start| ENTRIES.map(|len| (start, len))).filter(|(start, len)| is_entry(*start, *len)).collect()
}

/// Writes into what has a check, which is made to fit.
pub fn forge(bytes: &mut [u8], (start, len): (usize, usize), at: usize, lie: &[u8]) {
    let at = start + at % len;
    let end = (at + lie.len()).min(start + len);
    bytes[at..end].copy_from_slice(&lie[..end - at]);
    let check = check_of(&bytes[start..start + len], start);
    bytes[start + len..start + len + 4].copy_from_slice(&check.to_le_bytes());
}

/// The bytes of a column's description, and of the root of a table of contents, which stands last in it.
const COLUMN_LEN: usize = 152;
const JOB_ROOT_LEN: usize = 240;
const MODEX_ROOT_LEN: usize = 224;
/// Where in a column's description its source is, and the numbers of items of its tables.
const SOURCE_AT: usize = 16;
const COLUMN_TABLES_AT: [usize; 4] = [64, 88, 112, 136];
/// Where in a modex segment's table of contents the placement is, and the numbers of shapes, fields, shape ids and places.
const PLACEMENT_AT: usize = 84;
const MODEX_TABLES_AT: [usize; 4] = [112, 136, 160, 184];

/// More items than these are treated otherwise than fewer, by some readers.
const STEPS: [u64; 3] = [0, 256, 2048];

/// What sections of tables of contents have in common that readers treat alike: length, source or placement, and about how many items
/// each of the tables has.
pub type Likeness = [u32; 6];

/// The parts of a table of contents, the descriptions of columns and the root, with the positions of their 32-bit words.
pub fn sections(bytes: &[u8]) -> Vec<(Likeness, Vec<usize>)> {
    let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("in the segment"));
    let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("in the segment"));
    let section = |start: usize, len: usize, form: usize, tables: [usize; 4]| {
        let [a, b, c, d] = tables.map(|at| STEPS.iter().filter(|step| long(start + at) > **step).count() as u32);
        ([len as u32, word(start + form), a, b, c, d], (start..start + len).step_by(4).collect())
    };
    if word(KIND_AT) == MODEX {
        return vec![section(bytes.len() - MODEX_ROOT_LEN, MODEX_ROOT_LEN, PLACEMENT_AT, MODEX_TABLES_AT)];
    }
    let root = bytes.len() - JOB_ROOT_LEN;
    let columns = root.wrapping_add_signed(long(root) as isize);
    let starts = (0..long(root + 8) as usize).map(|number| columns + COLUMN_LEN * number);
    let columns = starts.map(|start| section(start, COLUMN_LEN, SOURCE_AT, COLUMN_TABLES_AT));
    columns.chain([([0; 6], (root..bytes.len()).step_by(4).collect())]).collect()
}

/// Makes the bytes pass for a whole segment, as a liar would who knows the format: what a reader compares is right.
pub fn sign(bytes: &mut [u8]) {
    let len = bytes.len() as u64;
    if len < HEADER_LEN as u64 {
        return;
    }
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &MAGIC);
    put(VERSION_AT, &FORMAT_VERSION.to_le_bytes());
    put(HEADER_LEN_AT, &(HEADER_LEN as u32).to_le_bytes());
    put(FINGERPRINT_AT, &FINGERPRINT.to_le_bytes());
    put(TOTAL_LEN_AT, &len.to_le_bytes());
    put(CONTENT_HASH_AT, &[0; 8]);
    put(META_HASH_AT, &[0; 8]);
    let toc_pos = u64::from_le_bytes(*bytes[TOC_POS_AT..].first_chunk().expect("in the header"));
    if toc_pos <= len {
        bytes[TOC_LEN_AT..TOC_LEN_AT + 8].copy_from_slice(&(len - toc_pos).to_le_bytes());
        let meta = xxh3_64(&[&bytes[..HEADER_LEN], &bytes[toc_pos as usize..]].concat());
        bytes[META_HASH_AT..META_HASH_AT + 8].copy_from_slice(&meta.to_le_bytes());
    }
    let content = content_hash(bytes).expect("longer than a header");
    bytes[CONTENT_HASH_AT..CONTENT_HASH_AT + 8].copy_from_slice(&content.to_le_bytes());
}
