//! Values, packed by peers and stored: what unpacks packs again, comes back, and takes no more heap than its bytes
//! justify.
//!
//! Input: the type, dialect and form, then the packed value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_dstore::codec::ValueRef;
use pmix_dstore::codec::{self, Dialect, Packer, Unpacker};
use pmix_dstore::compression;
use pmix_dstore::model::{DataType, Result, Value};
use pmix_fuzz::{DIALECTS, bounded, dialect, is_ambiguous};

/// Heap bytes for each byte of a value: an array of small structures weighs most, and vectors grow by doubling.
const HEAP_PER_BYTE: usize = 512;
/// What is compressed may expand by this.
const EXPANSION: usize = 1040;

fuzz_target!(|input: &[u8]| {
    let [ty, selector, bytes @ ..] = input else { return };
    let ty = DataType((*ty).into());
    let dialect = dialect(*selector);
    bounded(bytes.len(), HEAP_PER_BYTE, || match selector / DIALECTS % 3 {
        0 => recode(dialect, bytes, |from| from.bare(ty), |to, value| to.bare(value)),
        1 => recode(dialect, bytes, |from| from.value(), |to, value| to.value(value)),
        _ => stored(ty, bytes),
    });
    let compressed = match ty {
        DataType::COMPRESSED_STRING => Value::CompressedString(bytes.to_vec().into()),
        DataType::COMPRESSED_BYTE_OBJECT => Value::CompressedByteObject(bytes.to_vec().into()),
        _ => return,
    };
    bounded(bytes.len(), 4 * EXPANSION, || drop(compression::expand(&compressed)));
});

/// A value between peers.
fn recode(
    dialect: Dialect,
    bytes: &[u8],
    unpack: impl Fn(&mut Unpacker<'_>) -> Result<Value>,
    pack: impl Fn(&mut Packer, &Value) -> Result<()>,
) {
    let Ok(value) = unpack(&mut Unpacker::new(dialect, bytes)) else { return };
    let mut once = Packer::new(dialect);
    // A peer may send what its encoder does not know; then it does not pack.
    if pack(&mut once, &value).is_err() {
        return;
    }
    let mut again = Packer::new(dialect);
    let twice = unpack(&mut Unpacker::new(dialect, once.as_bytes())).and_then(|value| pack(&mut again, &value));
    assert!(twice == Ok(()) && once.as_bytes() == again.as_bytes() || is_ambiguous(once.as_bytes()), "{twice:?}");
}

/// A value in a segment.
fn stored(ty: DataType, bytes: &[u8]) {
    let Ok(value) = codec::unpack_stored(ty, bytes) else { return };
    assert_eq!(value.data_type(), ty);
    let once = codec::pack_stored(&value).expect("what is stored can be stored");
    let value = ValueRef::Packed { ty, bytes: &once }.to_value().expect("what was packed unpacks");
    assert_eq!(value.data_type(), ty);
    assert_eq!(codec::pack_stored(&value).as_ref(), Ok(&once));
}
