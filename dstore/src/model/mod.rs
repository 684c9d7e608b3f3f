//! The data model: the nouns of the PMIx standard as Rust types.

pub mod attributes;
mod bytes;
mod data_type;
pub mod keys;
mod names;
pub mod proc_state;
pub mod renamed;
mod scalar;
mod value;

pub use crate::status::{Result, Status};
pub use bytes::{Backing, Bytes};
pub use data_type::DataType;
pub use names::{KEY_LEN_MAX, Key, KeyRef, NSPACE_LEN_MAX, NameError, Nspace, Proc, Rank};
pub use value::{
    App, Coord, DataArray, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags, Kval,
    NetStats, NodeStats, Pdata, ProcInfo, ProcStats, Query, Regattr, Scope, Value,
};
