//! The bytes of a directory page: its header and its entries. `segment::directory` describes how they are read and written.

use std::mem::offset_of;

/// First eight bytes of every page.
pub(crate) const PAGE_MAGIC: [u8; 8] = *b"PMIXDPAG";
/// Version of the page's layout.
pub(crate) const PAGE_VERSION: u32 = 2;
/// Length of a page file.
pub(crate) const PAGE_LEN: usize = 65536;
/// Length of the page's header; the entries follow.
pub(crate) const PAGE_HEADER_LEN: usize = 512;

/// Layout of a page's header; `count` and `retired` are accessed as atomics only.
#[repr(C)]
pub(crate) struct PageHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) page_len: u32,
    pub(crate) number: u32,
    pub(crate) entry_len: u32,
    pub(crate) creator_pid: u32,
    pub(crate) nspace_len: u32,
    pub(crate) reserved: [u8; 32],
    /// Number of complete entries of all pages, encoded by `counted`; only page 0's word is used.
    pub(crate) count: u64,
    /// 1 after the namespace was deregistered; only page 0's word is used.
    pub(crate) retired: u32,
    pub(crate) reserved2: [u8; 4],
    /// Number of the first page that readers need, encoded by `first_word`; only page 0's word is used. It came later than the other
    /// fields, and former readers ignore it: so it is no part of the fingerprint.
    pub(crate) first: u64,
    pub(crate) reserved3: [u8; 168],
    pub(crate) nspace: [u8; 256],
}

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER_LEN);
// The mutable words have their own cache line.
const _: () = assert!(offset_of!(PageHeader, count) == 64 && offset_of!(PageHeader, first) == 80);
const _: () = assert!(offset_of!(PageHeader, nspace) == 256);
const _: () = assert!(size_of::<PageEntry>() == 64);

/// Layout of one entry, numbers little-endian.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PageEntry {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) file: u64,
    pub(crate) len: u64,
    pub(crate) content_hash: u64,
    pub(crate) replaces_first: u64,
    pub(crate) replaces_last: u64,
    pub(crate) place: u64,
    /// xxh3-64 of all fields before it, seeded with the entry's position in the page.
    pub(crate) check: u64,
}

/// The fields `replaces_first` and `replaces_last` are valid.
pub(crate) const ENTRY_REPLACES: u32 = 1;
/// The entry repeats that of a live segment, so that readers do not need the pages before this one.
pub(crate) const ENTRY_CARRIED: u32 = 2;
