//! What the fuzz targets have in common.

pub mod input;
#[path = "../../../client/wire/tests/recorded/memory.rs"]
pub mod memory;
#[path = "../../../client/wire/tests/recorded/message.rs"]
pub mod message;
#[allow(dead_code)]
#[path = "../../../dstore/src/segment/tests/random.rs"]
mod random;
mod region;
pub mod samples;
#[path = "../../../client/wire/tests/recorded/vectors.rs"]
pub mod vectors;

use pmix_dstore::codec::{BufferType, Dialect, Module};
use pmix_dstore::model::DataType;
// By these names the shared modules know them.
use pmix_dstore::{job, model, modex, qualified};

pub use region::{Exact, checked_in, forge, sections, sign};

/// How many selectors [`dialect`] tells apart.
pub const DIALECTS: u8 = 2 * Module::ALL.len() as u8;

/// Heap bytes that may be taken whatever the input is: what compresses has tables.
const HEAP_BASE: usize = 512 * 1024;

/// The dialect that a byte of the input chooses.
pub fn dialect(selector: u8) -> Dialect {
    let module = Module::ALL[usize::from(selector / 2) % Module::ALL.len()];
    let buffer = if selector.is_multiple_of(2) { BufferType::NonDescribed } else { BufferType::Described };
    Dialect::new(module, buffer)
}

/// The byte that chooses a dialect.
pub fn selector(dialect: Dialect) -> u8 {
    let module = Module::ALL.iter().position(|module| *module == dialect.module).expect("one of all");
    2 * module as u8 + u8::from(dialect.is_described())
}

/// Whether a message may contain an array of topologies or of arrays. Releases encode an item of these in two ways, which a reader tells
/// apart by the bytes that follow it; between items of an array these bytes can belong to either. So such a message need not decode
/// after it was encoded again.
pub fn is_ambiguous(message: &[u8]) -> bool {
    message.iter().any(|byte| [DataType::TOPO, DataType::DATA_ARRAY].contains(&DataType((*byte).into())))
}

/// Runs `work` and fails where it had more heap in use at once than `per_byte` for each of the `len` bytes of input.
pub fn bounded<T>(len: usize, per_byte: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = memory::peak(work);
    assert!(peak <= HEAP_BASE + len * per_byte, "{peak} heap bytes for {len} bytes of input");
    result
}
