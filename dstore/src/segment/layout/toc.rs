//! The tables of contents, which are the root archives of segments, and the entries of the tables that they list.

use rkyv::Archive;

/// An array in the file.
#[derive(Archive, Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(crate) struct Extent {
    /// Position of the first item; 0 for an empty array.
    pub(crate) pos: u64,
    /// Number of items.
    pub(crate) count: u64,
    /// Size of an item in bytes.
    pub(crate) width: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// The interned keys of a segment.
#[derive(Archive, Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(crate) struct KeysToc {
    /// Open-addressed table of [`KeySlot`]s; a power of two of them.
    pub(crate) slots: Extent,
    /// Per key id the index of its slot, of 4 bytes.
    pub(crate) ids: Extent,
    /// The texts, each followed by a NUL.
    pub(crate) text: Extent,
}

/// One key of one realm: the location of its values.
#[derive(Archive, Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(crate) struct ColumnToc {
    /// Key id.
    pub(crate) key: u32,
    /// Code of the realm.
    pub(crate) realm: u32,
    /// Type of the values, `pmix_data_type_t`.
    pub(crate) ty: u32,
    /// Number of rows that the column covers; other rows have no value.
    pub(crate) rows: u32,
    /// [`SOURCE_NONE`], [`SOURCE_FORMULA`], [`SOURCE_DENSE`], [`SOURCE_RANKS`] or [`SOURCE_PIECES`].
    pub(crate) source: u32,
    /// Zero.
    pub(crate) reserved: u32,
    /// Formula `start + ((row / divisor) % modulus) * step`, modulo 2^64. A modulus of 0 means none.
    pub(crate) start: u64,
    /// See `start`.
    pub(crate) step: u64,
    /// See `start`; not 0.
    pub(crate) divisor: u64,
    /// See `start`.
    pub(crate) modulus: u64,
    /// Dense numbers of 1, 2, 4 or 8 bytes in lines, one per row; or [`PieceEntry`]s.
    pub(crate) numbers: Extent,
    /// 64-bit words in lines, one bit per row: 1 if the column has a value. Empty if all rows have one.
    pub(crate) presence: Extent,
    /// [`DictEntry`]s; if there are any, the number of a row is an index into them.
    pub(crate) dictionary: Extent,
    /// [`SparseEntry`]s in row order: values of rows whose bit in `presence` is 0.
    pub(crate) sparse: Extent,
}

/// All values are in the sparse table.
pub(crate) const SOURCE_NONE: u32 = 0;
/// Numbers are computed.
pub(crate) const SOURCE_FORMULA: u32 = 1;
/// Numbers are stored.
pub(crate) const SOURCE_DENSE: u32 = 2;
/// Texts of ranks, which readers build from the runs of nodes.
pub(crate) const SOURCE_RANKS: u32 = 3;
/// Numbers are computed, by another formula in each piece of the rows.
pub(crate) const SOURCE_PIECES: u32 = 4;

/// Table of contents of a job segment.
#[derive(Archive, Clone, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(crate) struct JobToc {
    /// The columns, sorted by realm and key.
    pub(crate) columns: Vec<ColumnToc>,
    /// The keys.
    pub(crate) keys: KeysToc,
    /// Rows per realm: session, job, app, node, proc.
    pub(crate) rows: [u32; 5],
    /// Number of processes of the job.
    pub(crate) proc_count: u32,
    /// [`NODE_IDS_ARE_ROWS`], [`APPNUMS_ARE_ROWS`].
    pub(crate) flags: u32,
    /// Zero.
    pub(crate) reserved: u32,
    /// Open-addressed table of [`NameSlot`]s: node names and aliases.
    pub(crate) node_names: Extent,
    /// [`IdRow`]s sorted by node id.
    pub(crate) node_ids: Extent,
    /// [`IdRow`]s sorted by application number.
    pub(crate) appnums: Extent,
    /// [`RunEntry`]s in the order of nodes, then of parts: the ranks of each node. Empty if they are not known, or irregular.
    pub(crate) node_runs: Extent,
    /// Bytes of strings, byte objects and structures.
    pub(crate) heap: Extent,
}

/// A node's id is its row; `node_ids` is empty.
pub(crate) const NODE_IDS_ARE_ROWS: u32 = 1;
/// An application's number is its row; `appnums` is empty.
pub(crate) const APPNUMS_ARE_ROWS: u32 = 2;

/// Table of contents of a modex segment.
#[derive(Archive, Clone, Debug, Default)]
#[cfg_attr(feature = "builder", derive(rkyv::Serialize))]
pub(crate) struct ModexToc {
    /// The keys.
    pub(crate) keys: KeysToc,
    /// Lowest rank.
    pub(crate) first_rank: u32,
    /// Highest rank.
    pub(crate) last_rank: u32,
    /// Distance between the ranks of neighbouring indices.
    pub(crate) rank_step: u32,
    /// [`PLACEMENT_STRIDE`], [`PLACEMENT_TABLE`], [`PLACEMENT_SORTED`] or [`PLACEMENT_SLOTS`].
    pub(crate) placement: u32,
    /// Bytes from one record to the next, for [`PLACEMENT_STRIDE`] and [`PLACEMENT_SLOTS`].
    pub(crate) stride: u64,
    /// Number of ranks that have values.
    pub(crate) rank_count: u64,
    /// [`ShapeEntry`] per shape.
    pub(crate) shapes: Extent,
    /// [`FieldEntry`]s of all shapes.
    pub(crate) fields: Extent,
    /// Shape per index, of 1, 2 or 4 bytes in lines, with all bits set if the rank has no record; empty if all ranks have shape
    /// 0.
    pub(crate) shape_ids: Extent,
    /// [`LocationEntry`] per index, for [`PLACEMENT_TABLE`]; in ascending order of ranks, for [`PLACEMENT_SORTED`].
    pub(crate) places: Extent,
    /// The records.
    pub(crate) records: Extent,
}

/// Record `index = (rank - first_rank) / rank_step` is at `index * stride`.
pub(crate) const PLACEMENT_STRIDE: u32 = 0;
/// `places` has the location of record `index = (rank - first_rank) / rank_step`.
pub(crate) const PLACEMENT_TABLE: u32 = 1;
/// The index is that of the rank's entry in `places`.
pub(crate) const PLACEMENT_SORTED: u32 = 2;
/// As [`PLACEMENT_STRIDE`]; but a shape id with all bits but the lowest set means that the slot holds a [`LocationEntry`] instead
/// of a record.
pub(crate) const PLACEMENT_SLOTS: u32 = 3;

/// A slot of the key table: all data of one key in one cache line.
#[repr(C)]
pub(crate) struct KeySlot {
    /// xxh3 of the key.
    pub(crate) hash: u64,
    /// Start of its text in the text region.
    pub(crate) text_pos: u32,
    /// Length of the text without its NUL.
    pub(crate) text_len: u32,
    /// Key id, [`NO_ID`] for an empty slot.
    pub(crate) id: u32,
    /// Realms that hold the key, one bit per realm code; zero in modex segments.
    pub(crate) realms: u32,
    /// Column per realm, [`NO_ID`] for none. In modex segments the first is the index in the field list of a shape to try first,
    /// the second the lowest rank that has the key, the others [`NO_ID`].
    pub(crate) columns: [u32; 5],
    /// Check of all fields before it, as in every entry below.
    pub(crate) check: u32,
    /// Zero.
    pub(crate) reserved: [u32; 4],
}

/// A variable value that several rows may share.
#[repr(C)]
pub(crate) struct DictEntry {
    /// Position in the heap region.
    pub(crate) pos: u64,
    /// Length without the NUL of a string; [`NULL_LEN`] for a NULL string.
    pub(crate) len: u32,
    /// Check.
    pub(crate) check: u32,
}

/// A value of a row whose type differs from the column's.
#[repr(C)]
pub(crate) struct SparseEntry {
    /// The row.
    pub(crate) row: u32,
    /// Type of the value.
    pub(crate) ty: u32,
    /// The number, or the position of a variable value in the heap region.
    pub(crate) value: u64,
    /// Length of a variable value, as in [`DictEntry`]; 0 for a number.
    pub(crate) len: u32,
    /// Check.
    pub(crate) check: u32,
}

/// The numbers of the rows of a piece: `start + (((row - first) / divisor) % modulus) * step`, modulo 2^64. A modulus of 0 means
/// none.
#[repr(C)]
pub(crate) struct PieceEntry {
    /// See above.
    pub(crate) start: u64,
    /// The first row.
    pub(crate) first: u32,
    /// One more than the last row; the next piece begins there.
    pub(crate) end: u32,
    /// Signed.
    pub(crate) step: i32,
    /// Not 0.
    pub(crate) divisor: u32,
    /// See above.
    pub(crate) modulus: u32,
    /// Check.
    pub(crate) check: u32,
}

/// A part of the ranks of neighbouring nodes. Rank `i` of `count` on `node` is
/// `first_rank + (node - first_node) * step + (i / block) * stride + i % block`.
#[repr(C)]
pub(crate) struct RunEntry {
    /// The first of these nodes. They end before the first node of a later entry.
    pub(crate) first_node: u32,
    /// Number of the part: 0 for the first ranks of the nodes. Entries with the same nodes follow each other.
    pub(crate) part: u32,
    /// See above.
    pub(crate) first_rank: u32,
    /// See above.
    pub(crate) step: u32,
    /// Not 0.
    pub(crate) block: u32,
    /// See above.
    pub(crate) stride: u32,
    /// Number of ranks of each node in this part.
    pub(crate) count: u32,
    /// Check.
    pub(crate) check: u32,
}

/// A slot of the table of node names.
#[repr(C)]
pub(crate) struct NameSlot {
    /// xxh3 of the name.
    pub(crate) hash: u64,
    /// Position of the name in the heap region.
    pub(crate) pos: u64,
    /// Its length without the NUL.
    pub(crate) len: u32,
    /// Row of the node, [`NO_ID`] for an empty slot.
    pub(crate) row: u32,
    /// Check.
    pub(crate) check: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// A number and the row that it names.
#[repr(C)]
pub(crate) struct IdRow {
    /// The number.
    pub(crate) id: u32,
    /// The row.
    pub(crate) row: u32,
    /// Check.
    pub(crate) check: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// A list of fields that records of several ranks share.
#[repr(C)]
pub(crate) struct ShapeEntry {
    /// First of its fields.
    pub(crate) field_first: u32,
    /// Number of its fields.
    pub(crate) field_count: u32,
    /// Check.
    pub(crate) check: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// A field of a record.
#[repr(C)]
pub(crate) struct FieldEntry {
    /// Key id; ascending within a shape.
    pub(crate) key: u32,
    /// Type of the value.
    pub(crate) ty: u16,
    /// [`FIELD_NUMBER`], [`FIELD_FIXED`] or [`FIELD_VARIABLE`].
    pub(crate) form: u16,
    /// Offset in the record of the number, of the bytes, or of the [`VariableEntry`].
    pub(crate) offset: u32,
    /// Length of the bytes, for [`FIELD_FIXED`]; a string's NUL is not counted.
    pub(crate) len: u32,
    /// Check.
    pub(crate) check: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// Location of a value of [`FIELD_VARIABLE`] in a record.
#[repr(C)]
pub(crate) struct VariableEntry {
    /// Offset in the record.
    pub(crate) start: u32,
    /// Length in bytes; [`NULL_LEN`] for a NULL string.
    pub(crate) len: u32,
    /// Check.
    pub(crate) check: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// A number of eight bytes.
pub(crate) const FIELD_NUMBER: u16 = 0;
/// Bytes of the same length at the same offset in all records of the shape.
pub(crate) const FIELD_FIXED: u16 = 1;
/// Bytes whose offset and length are in the record; length [`NULL_LEN`] for a NULL string.
pub(crate) const FIELD_VARIABLE: u16 = 2;

/// Location of a record.
#[repr(C)]
pub(crate) struct LocationEntry {
    /// Position in the record region.
    pub(crate) pos: u64,
    /// Length in bytes.
    pub(crate) len: u32,
    /// Shape, [`NO_ID`] if the rank has no record.
    pub(crate) shape: u32,
    /// The rank.
    pub(crate) rank: u32,
    /// Check.
    pub(crate) check: u32,
}

/// No key, column, row or shape.
pub(crate) const NO_ID: u32 = u32::MAX;
/// Length of a NULL string.
pub(crate) const NULL_LEN: u32 = u32::MAX;

const _: () = assert!(size_of::<KeySlot>() == 64);
const _: () = assert!(size_of::<DictEntry>() == 16);
const _: () = assert!(size_of::<SparseEntry>() == 24);
const _: () = assert!(size_of::<PieceEntry>() == 32);
const _: () = assert!(size_of::<RunEntry>() == 32);
const _: () = assert!(size_of::<NameSlot>() == 32);
const _: () = assert!(size_of::<IdRow>() == 16);
const _: () = assert!(size_of::<ShapeEntry>() == 16);
const _: () = assert!(size_of::<FieldEntry>() == 24);
const _: () = assert!(size_of::<VariableEntry>() == 16);
const _: () = assert!(size_of::<LocationEntry>() == 24);

// rkyv's options are shared by a whole build, and any crate in it can enable one. These lines compile only with the options of
// the format: little-endian, aligned, 64-bit relative pointers.
const _: fn(rkyv::primitive::ArchivedU64) -> rkyv::rend::u64_le = |number| number;
const _: fn(rkyv::primitive::ArchivedIsize) -> rkyv::rend::i64_le = |number| number;

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
