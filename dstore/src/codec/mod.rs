//! The packing of values on the wire, in the forms that released PMIx libraries speak.

use crate::model::{DataType, Result, Status, Value};

/// Packs a structure for a store: the flexible encoding, not described, without its type tag.
pub fn pack_stored(_value: &Value) -> Result<Vec<u8>> {
    Err(Status::ERR_NOT_SUPPORTED)
}

/// Unpacks what [`pack_stored`] packed.
pub fn unpack_stored(_ty: DataType, _bytes: &[u8]) -> Result<Value> {
    Err(Status::ERR_NOT_SUPPORTED)
}
