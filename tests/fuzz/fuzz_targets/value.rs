//! Values in every dialect: what unpacks packs again, and comes back.
//!
//! Input: the type, the dialect, then the packed value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_dstore::codec::{BufferType, Dialect, Module, Packer, Unpacker};
use pmix_dstore::model::DataType;

fuzz_target!(|input: &[u8]| {
    let [ty, selector, bytes @ ..] = input else {
        return;
    };
    let module = Module::ALL[usize::from(selector / 2) % Module::ALL.len()];
    let buffer = if selector % 2 == 0 { BufferType::NonDescribed } else { BufferType::Described };
    let dialect = Dialect { module, buffer };
    let ty = DataType((*ty).into());
    let Ok(value) = Unpacker::new(dialect, bytes).bare(ty) else {
        return;
    };
    let mut packer = Packer::new(dialect);
    // A peer may send what its encoder does not know; then it does not pack.
    if packer.bare(&value).is_err() {
        return;
    }
    let mut again = Packer::new(dialect);
    let value = Unpacker::new(dialect, packer.as_bytes()).bare(ty).unwrap();
    again.bare(&value).unwrap();
    assert_eq!(packer.as_bytes(), again.as_bytes());
});
