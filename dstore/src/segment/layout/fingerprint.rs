//! The layout of every struct of the format, and its fingerprint.

use std::mem::offset_of;

use super::header::{FORMAT_VERSION, Header};
use super::page::{PageEntry, PageHeader};
use super::toc::{
    ArchivedColumnToc, ArchivedExtent, ArchivedJobToc, ArchivedKeysToc, ArchivedModexToc, DictEntry, FieldEntry, IdRow,
    KeySlot, LocationEntry, NameSlot, PieceEntry, RunEntry, ShapeEntry, SparseEntry, VariableEntry,
};

/// A struct of the format: name, size, alignment, and its fields with their offsets.
pub(crate) type StructLayout = (&'static str, usize, usize, &'static [(&'static str, usize)]);

macro_rules! layouts {
    (@name $ty:ident) => { stringify!($ty) };
    (@name $ty:ident $name:literal) => { $name };
    ($($ty:ident $(as $name:literal)? { $($field:ident),+ $(,)? })+) => {
        &[$((layouts!(@name $ty $($name)?), size_of::<$ty>(), align_of::<$ty>(),
            &[$((stringify!($field), offset_of!($ty, $field))),+])),+]
    };
}

/// Every struct of the format with the offsets of its fields in this build.
pub(crate) const LAYOUT: &[StructLayout] = layouts! {
    Header { magic, format_version, header_len, features, features_optional, fingerprint, kind, nspace_len, total_len,
        content_hash, meta_hash, toc_pos, toc_len, reserved, creator, nspace }
    ArchivedExtent { pos, count, width, reserved }
    ArchivedKeysToc { slots, ids, text }
    ArchivedColumnToc { key, realm, ty, rows, source, reserved, start, step, divisor, modulus, numbers, presence,
        dictionary, sparse }
    ArchivedJobToc { columns, keys, rows, proc_count, flags, reserved, node_names, node_ids, appnums,
        node_runs, heap }
    ArchivedModexToc { keys, first_rank, last_rank, rank_step, placement, stride, rank_count, shapes, fields, shape_ids,
        places, records }
    KeySlot { hash, text_pos, text_len, id, realms, columns, check, reserved }
    DictEntry { pos, len, check }
    SparseEntry { row, ty, value, len, check }
    PieceEntry { start, first, end, step, divisor, modulus, check }
    RunEntry { first_node, part, first_rank, step, block, stride, count, check }
    NameSlot { hash, pos, len, row, check, reserved }
    IdRow { id, row, check, reserved }
    ShapeEntry { field_first, field_count, check, reserved }
    FieldEntry { key, ty, form, offset, len, check, reserved }
    VariableEntry { start, len, check, reserved }
    LocationEntry as "PlaceEntry" { pos, len, shape, rank, check }
    PageHeader { magic, version, page_len, number, entry_len, creator_pid, nspace_len, reserved, count, retired, reserved2,
        nspace }
    PageEntry { kind, flags, file, len, content_hash, replaces_first, replaces_last, place, check }
};

/// Identity of the layout: FNV-1a over version, rkyv options, and names, sizes and offsets of every struct. It changes with the
/// layout by itself.
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
