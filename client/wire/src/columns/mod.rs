//! The column form of a contribution to a fence: what the ranks of a node put, by keys instead of by ranks.
//!
//! The ranks of a job put values under the same keys that differ in few bytes. A column holds the values of one key and one length. It
//! states the bytes that are the same for all ranks once, and of each rank only the others. `docs/modex-format.md` defines the form.
//!
//! No released library reads it. Our servers send it where all servers of a fence have announced that they do
//! (`server/src/engine/forms.rs`).

mod number;
mod read;
mod runs;
mod write;

#[cfg(test)]
mod tests;

pub use read::read;
pub use write::write;

/// How a contribution in this form begins. For each released server these bytes are an error, so that it refuses the fence instead of
/// storing something else: 02 40 is an info byte without the bit for collected data, which releases up to 5.0 compare with the fence, and
/// for later ones a flag behind which a byte object begins; 7e is a count of 63 byte objects, where one is allowed.
const MAGIC: [u8; 3] = [0x02, 0x40, 0x7e];

/// Beginnings of names that programs put, by their number in the form: never changed, only added to. The number 0 is none.
const PREFIXES: [&str; 12] = [
    "",
    "btl.tcp.",
    "pml.base.",
    "pml.ucx.",
    "mtl.ofi.",
    "btl.ofi.",
    "btl.uct.",
    "btl.sm.",
    "btl.vader.",
    "osc.ucx.",
    "mtl.psm2.",
    "pmix.",
];
/// Numbers from here on denote a name that an earlier column of the contribution has.
const EARLIER_NAME: u64 = 32;

/// The kinds of segments of a column's values.
const ZEROS: u64 = 0;
const EQUAL: u64 = 1;
const DIFFERENT: u64 = 2;
/// Bits of a segment's number that hold its kind.
const KIND_BITS: u32 = 2;

/// What each rank and each value weighs beside its bytes, for [`Allowance`]: about the memory that a rank's first value takes, since
/// vectors begin with room for four.
const ITEM_WEIGHT: u64 = 256;
/// Limit of the weight of what is read for each byte of the contribution.
const WEIGHT_PER_BYTE: u64 = 4096;
/// Limit of the weight of what is read beyond the bytes of the contribution.
const WEIGHT_MAX: u64 = 256 << 20;

/// The weight that the values of a contribution may have: values that are the same for all ranks are few bytes in it. The writer keeps to
/// it as well.
struct Allowance(u64);

impl Allowance {
    /// That of a contribution of `len` bytes.
    fn of(len: usize) -> Allowance {
        let len = len as u64;
        Allowance(len.saturating_mul(WEIGHT_PER_BYTE).min(len.saturating_add(WEIGHT_MAX)))
    }

    /// Takes the weight of `count` items with `len` bytes each. Whether there was as much.
    fn take(&mut self, count: u64, len: u64) -> bool {
        let left = count.checked_mul(len.saturating_add(ITEM_WEIGHT)).and_then(|weight| self.0.checked_sub(weight));
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}
