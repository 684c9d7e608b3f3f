//! The tables of contents: the root archives of segments, and the fingerprint of the layout.

use std::mem::offset_of;

use rkyv::Archive;

use super::header::{FORMAT_VERSION, Header};
use super::page::{PageEntry, PageHeader};

/// An array in the file.
#[derive(Archive, Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(super) struct Extent {
    /// Position of the first item; 0 for an empty array.
    pub(super) pos: u64,
    /// Number of items.
    pub(super) count: u64,
    /// Size of an item in bytes.
    pub(super) width: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// The interned keys of a segment.
#[derive(Archive, Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(super) struct KeysToc {
    /// Open-addressed table of [`KeySlot`]s; a power of two of them.
    pub(super) slots: Extent,
    /// Per key id the index of its slot, of 4 bytes.
    pub(super) ids: Extent,
    /// The texts, each with a NUL behind it.
    pub(super) text: Extent,
}

/// One key of one realm: where its values are.
#[derive(Archive, Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(super) struct ColumnToc {
    /// Key id.
    pub(super) key: u32,
    /// Code of the realm.
    pub(super) realm: u32,
    /// Type of the values, `pmix_data_type_t`.
    pub(super) ty: u32,
    /// Rows that the column covers; others have no value.
    pub(super) rows: u32,
    /// [`SOURCE_NONE`], [`SOURCE_FORMULA`], [`SOURCE_DENSE`] or [`SOURCE_RANKS`].
    pub(super) source: u32,
    /// Zero.
    pub(super) reserved: u32,
    /// Formula `start + ((row / divisor) % modulus) * step`, modulo 2^64; no modulus where it is 0.
    pub(super) start: u64,
    /// See `start`.
    pub(super) step: u64,
    /// See `start`; not 0.
    pub(super) divisor: u64,
    /// See `start`.
    pub(super) modulus: u64,
    /// Dense numbers of 1, 2, 4 or 8 bytes in lines, one per row.
    pub(super) numbers: Extent,
    /// 64-bit words in lines, one bit per row: 1 where the column has a value. Empty where all rows have one.
    pub(super) presence: Extent,
    /// [`DictEntry`]s; where there are any, the number of a row is an index into them.
    pub(super) dictionary: Extent,
    /// [`SparseEntry`]s in row order: values of rows that `presence` leaves out.
    pub(super) sparse: Extent,
}

/// All values are in the sparse table.
pub(super) const SOURCE_NONE: u32 = 0;
/// Numbers are computed.
pub(super) const SOURCE_FORMULA: u32 = 1;
/// Numbers are stored.
pub(super) const SOURCE_DENSE: u32 = 2;
/// Texts of ranks, which readers make.
pub(super) const SOURCE_RANKS: u32 = 3;

/// Table of contents of a job segment.
#[derive(Archive, Clone, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(super) struct JobToc {
    /// The columns, sorted by realm and key.
    pub(super) columns: Vec<ColumnToc>,
    /// The keys.
    pub(super) keys: KeysToc,
    /// Rows per realm: session, job, app, node, proc.
    pub(super) rows: [u32; 5],
    /// Number of processes of the job.
    pub(super) proc_count: u32,
    /// [`NODE_IDS_ARE_ROWS`], [`APPNUMS_ARE_ROWS`], [`NODES_ARE_BLOCKS`].
    pub(super) flags: u32,
    /// Zero.
    pub(super) reserved: u32,
    /// Open-addressed table of [`NameSlot`]s: node names and aliases.
    pub(super) node_names: Extent,
    /// [`IdRow`]s sorted by node id.
    pub(super) node_ids: Extent,
    /// [`IdRow`]s sorted by application number.
    pub(super) appnums: Extent,
    /// Bytes of strings, byte objects and structures.
    pub(super) heap: Extent,
}

/// A node's id is its row; `node_ids` is empty.
pub(super) const NODE_IDS_ARE_ROWS: u32 = 1;
/// An application's number is its row; `appnums` is empty.
pub(super) const APPNUMS_ARE_ROWS: u32 = 2;
/// The ranks of a node are those that the formula of their node ids says, and so does each node's list of them.
pub(super) const NODES_ARE_BLOCKS: u32 = 4;

/// Table of contents of a modex segment.
#[derive(Archive, Clone, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(super) struct ModexToc {
    /// The keys.
    pub(super) keys: KeysToc,
    /// Lowest rank.
    pub(super) first_rank: u32,
    /// Highest rank.
    pub(super) last_rank: u32,
    /// Distance between the ranks of neighbouring indices.
    pub(super) rank_step: u32,
    /// [`PLACE_STRIDE`], [`PLACE_TABLE`], [`PLACE_SORTED`] or [`PLACE_SLOTS`].
    pub(super) placement: u32,
    /// Bytes from one record to the next, for [`PLACE_STRIDE`] and [`PLACE_SLOTS`].
    pub(super) stride: u64,
    /// Number of ranks that have values.
    pub(super) rank_count: u64,
    /// [`ShapeEntry`] per shape.
    pub(super) shapes: Extent,
    /// [`FieldEntry`]s of all shapes.
    pub(super) fields: Extent,
    /// Shape per index, of 1, 2 or 4 bytes in lines, all bits set where the rank has no record; empty where all have
    /// shape 0.
    pub(super) shape_ids: Extent,
    /// [`PlaceEntry`] per index, for [`PLACE_TABLE`]; in ascending order of ranks, for [`PLACE_SORTED`].
    pub(super) places: Extent,
    /// The records.
    pub(super) records: Extent,
}

/// Record `index = (rank - first_rank) / rank_step` is at `index * stride`.
pub(super) const PLACE_STRIDE: u32 = 0;
/// The place of record `index = (rank - first_rank) / rank_step` is in `places`.
pub(super) const PLACE_TABLE: u32 = 1;
/// The index is that of the entry of the rank in `places`.
pub(super) const PLACE_SORTED: u32 = 2;
/// As [`PLACE_STRIDE`], but that a shape id with all bits but the lowest set means a [`PlaceEntry`] there instead of a record.
pub(super) const PLACE_SLOTS: u32 = 3;

/// A slot of the key table: all about one key in one cache line.
#[repr(C)]
pub(super) struct KeySlot {
    /// xxh3 of the key.
    pub(super) hash: u64,
    /// Where its text begins in the text region.
    pub(super) text_pos: u32,
    /// Length of the text without its NUL.
    pub(super) text_len: u32,
    /// Key id, [`NO_ID`] for an empty slot.
    pub(super) id: u32,
    /// Realms that hold the key, one bit per realm code; zero in modex segments.
    pub(super) realms: u32,
    /// Column per realm, [`NO_ID`] for none. In modex segments the first is where in the field list of a shape to look
    /// first, the second the lowest rank that has the key, the others [`NO_ID`].
    pub(super) columns: [u32; 5],
    /// Of all before it, as in every entry below.
    pub(super) check: u32,
    /// Zero.
    pub(super) reserved: [u32; 4],
}

/// A variable value that several rows may share.
#[repr(C)]
pub(super) struct DictEntry {
    /// Position in the heap region.
    pub(super) pos: u64,
    /// Length without the NUL of a string; [`NULL_LEN`] for a NULL string.
    pub(super) len: u32,
    /// Check.
    pub(super) check: u32,
}

/// A value of a row whose type is not that of the column.
#[repr(C)]
pub(super) struct SparseEntry {
    /// The row.
    pub(super) row: u32,
    /// Type of the value.
    pub(super) ty: u32,
    /// The number, or the position in the heap region of a variable value.
    pub(super) value: u64,
    /// Length of a variable value, as in [`DictEntry`]; 0 for a number.
    pub(super) len: u32,
    /// Check.
    pub(super) check: u32,
}

/// A slot of the table of node names.
#[repr(C)]
pub(super) struct NameSlot {
    /// xxh3 of the name.
    pub(super) hash: u64,
    /// Position of the name in the heap region.
    pub(super) pos: u64,
    /// Its length without the NUL.
    pub(super) len: u32,
    /// Row of the node, [`NO_ID`] for an empty slot.
    pub(super) row: u32,
    /// Check.
    pub(super) check: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// A number and the row that it names.
#[repr(C)]
pub(super) struct IdRow {
    /// The number.
    pub(super) id: u32,
    /// The row.
    pub(super) row: u32,
    /// Check.
    pub(super) check: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// A list of fields that records of several ranks share.
#[repr(C)]
pub(super) struct ShapeEntry {
    /// First of its fields.
    pub(super) field_first: u32,
    /// Number of its fields.
    pub(super) field_count: u32,
    /// Check.
    pub(super) check: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// A field of a record.
#[repr(C)]
pub(super) struct FieldEntry {
    /// Key id; ascending within a shape.
    pub(super) key: u32,
    /// Type of the value.
    pub(super) ty: u16,
    /// [`FIELD_NUMBER`], [`FIELD_FIXED`] or [`FIELD_VARIABLE`].
    pub(super) form: u16,
    /// Offset in the record of the number, of the bytes, or of the [`VariableEntry`].
    pub(super) offset: u32,
    /// Length of the bytes, for [`FIELD_FIXED`]; a string's NUL is not counted.
    pub(super) len: u32,
    /// Check.
    pub(super) check: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// Where in a record a value of [`FIELD_VARIABLE`] is.
#[repr(C)]
pub(super) struct VariableEntry {
    /// Offset in the record.
    pub(super) start: u32,
    /// Length in bytes; [`NULL_LEN`] for a NULL string.
    pub(super) len: u32,
    /// Check.
    pub(super) check: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// A number of eight bytes.
pub(super) const FIELD_NUMBER: u16 = 0;
/// Bytes of one length at one offset in all records of the shape.
pub(super) const FIELD_FIXED: u16 = 1;
/// Bytes whose offset and length stand in the record; length [`NULL_LEN`] for a NULL string.
pub(super) const FIELD_VARIABLE: u16 = 2;

/// Where a record is.
#[repr(C)]
pub(super) struct PlaceEntry {
    /// Position in the record region.
    pub(super) pos: u64,
    /// Length in bytes.
    pub(super) len: u32,
    /// Shape, [`NO_ID`] where the rank has no record.
    pub(super) shape: u32,
    /// The rank.
    pub(super) rank: u32,
    /// Check.
    pub(super) check: u32,
}

/// No key, column, row or shape.
pub(super) const NO_ID: u32 = u32::MAX;
/// Length of a NULL string.
pub(super) const NULL_LEN: u32 = u32::MAX;

const _: () = assert!(size_of::<KeySlot>() == 64);
const _: () = assert!(size_of::<DictEntry>() == 16);
const _: () = assert!(size_of::<SparseEntry>() == 24);
const _: () = assert!(size_of::<NameSlot>() == 32);
const _: () = assert!(size_of::<IdRow>() == 16);
const _: () = assert!(size_of::<ShapeEntry>() == 16);
const _: () = assert!(size_of::<FieldEntry>() == 24);
const _: () = assert!(size_of::<VariableEntry>() == 16);
const _: () = assert!(size_of::<PlaceEntry>() == 24);

// The options of rkyv are shared by a whole build, and any crate in it can switch one on. These lines do not compile
// where the options are not those of the format: little-endian, aligned, 64-bit relative pointers.
const _: fn(rkyv::primitive::ArchivedU64) -> rkyv::rend::u64_le = |number| number;
const _: fn(rkyv::primitive::ArchivedIsize) -> rkyv::rend::i64_le = |number| number;

/// A struct of the format: name, size, alignment, and its fields with their offsets.
pub(super) type StructLayout = (&'static str, usize, usize, &'static [(&'static str, usize)]);

macro_rules! layouts {
    ($($ty:ident { $($field:ident),+ $(,)? })+) => {
        &[$((stringify!($ty), size_of::<$ty>(), align_of::<$ty>(),
            &[$((stringify!($field), offset_of!($ty, $field))),+])),+]
    };
}

/// Every struct of the format with the offsets of its fields, as this build has them.
pub(super) const LAYOUT: &[StructLayout] = layouts! {
    Header { magic, format_version, header_len, features, features_optional, fingerprint, kind, nspace_len, total_len,
        content_hash, meta_hash, toc_pos, toc_len, reserved, creator, nspace }
    ArchivedExtent { pos, count, width, reserved }
    ArchivedKeysToc { slots, ids, text }
    ArchivedColumnToc { key, realm, ty, rows, source, reserved, start, step, divisor, modulus, numbers, presence,
        dictionary, sparse }
    ArchivedJobToc { columns, keys, rows, proc_count, flags, reserved, node_names, node_ids, appnums, heap }
    ArchivedModexToc { keys, first_rank, last_rank, rank_step, placement, stride, rank_count, shapes, fields, shape_ids,
        places, records }
    KeySlot { hash, text_pos, text_len, id, realms, columns, check, reserved }
    DictEntry { pos, len, check }
    SparseEntry { row, ty, value, len, check }
    NameSlot { hash, pos, len, row, check, reserved }
    IdRow { id, row, check, reserved }
    ShapeEntry { field_first, field_count, check, reserved }
    FieldEntry { key, ty, form, offset, len, check, reserved }
    VariableEntry { start, len, check, reserved }
    PlaceEntry { pos, len, shape, rank, check }
    PageHeader { magic, version, page_len, number, entry_len, creator_pid, nspace_len, reserved, count, retired, reserved2,
        nspace }
    PageEntry { kind, flags, file, len, content_hash, replaces_first, replaces_last, place, check }
};

/// Identity of the layout: FNV-1a over version, rkyv options, and names, sizes and offsets of every struct, so that
/// nobody has to remember to change it.
pub const FINGERPRINT: u64 = fingerprint();

const fn fingerprint() -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    hash = fold(hash, FORMAT_VERSION as u64);
    // Pointer width, byte order (1: little) and alignment (1: aligned) of rkyv, checked above.
    hash = fold(hash, size_of::<rkyv::primitive::ArchivedIsize>() as u64);
    hash = fold(hash, 1);
    hash = fold(hash, 1);
    let mut i = 0;
    while i < LAYOUT.len() {
        let (name, size, align, fields) = LAYOUT[i];
        hash = fold_text(hash, name);
        hash = fold(fold(hash, size as u64), align as u64);
        let mut j = 0;
        while j < fields.len() {
            hash = fold(fold_text(hash, fields[j].0), fields[j].1 as u64);
            j += 1;
        }
        i += 1;
    }
    hash
}

const fn fold(mut hash: u64, number: u64) -> u64 {
    let bytes = number.to_le_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

const fn fold_text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

macro_rules! native {
    ($archived:ty => $native:ident { $($number:ident),*; $($part:ident),* }) => {
        impl From<&$archived> for $native {
            fn from(archived: &$archived) -> $native {
                $native {
                    $($number: archived.$number.to_native(),)*
                    $($part: (&archived.$part).into(),)*
                }
            }
        }
    };
}

native!(ArchivedExtent => Extent { pos, count, width, reserved; });
native!(ArchivedKeysToc => KeysToc {; slots, ids, text });
native!(ArchivedColumnToc => ColumnToc { key, realm, ty, rows, source, reserved, start, step, divisor, modulus;
    numbers, presence, dictionary, sparse });
native!(ArchivedModexToc => ModexToc { first_rank, last_rank, rank_step, placement, stride, rank_count;
    keys, shapes, fields, shape_ids, places, records });

impl From<&ArchivedJobToc> for JobToc {
    fn from(archived: &ArchivedJobToc) -> JobToc {
        JobToc {
            columns: archived.columns.iter().map(ColumnToc::from).collect(),
            keys: (&archived.keys).into(),
            rows: archived.rows.map(|rows| rows.to_native()),
            proc_count: archived.proc_count.to_native(),
            flags: archived.flags.to_native(),
            reserved: archived.reserved.to_native(),
            node_names: (&archived.node_names).into(),
            node_ids: (&archived.node_ids).into(),
            appnums: (&archived.appnums).into(),
            heap: (&archived.heap).into(),
        }
    }
}
