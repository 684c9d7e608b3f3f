//! The data model: the nouns of the PMIx standard as Rust types.

pub mod attributes;
mod bytes;
mod data_type;
pub mod keys;
mod names;
pub mod renamed;
mod status;
mod value;
mod value_ref;

pub use bytes::{Bytes, Whole};
pub use data_type::DataType;
pub use names::{KEY_LEN_MAX, Key, KeyRef, NSPACE_LEN_MAX, NameError, Nspace, Proc, Rank};
pub use status::{Result, Status};
pub use value::{
    App, Coord, DataArray, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags, Kval,
    NetStats, NodeStats, Pdata, ProcInfo, ProcStats, Query, Regattr, Scope, Value,
};
pub use value_ref::ValueRef;
