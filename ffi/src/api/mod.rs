//! The functions of the interface. Each one translates its arguments, makes a call and translates the result, in a few lines.

mod arguments;
pub mod argv;
pub mod buffer;
pub mod client;
pub mod compare;
pub mod data;
pub mod directives;
pub mod events;
pub mod frameworks;
mod get;
pub mod groups;
pub mod helpers;
pub mod info_list;
pub mod iof;
pub mod lifecycle;
pub mod loading;
pub mod names;
pub mod numbers;
pub mod publish;
pub mod query;
pub mod resources;
pub mod security;
pub mod server;
pub mod sessions;
pub mod spawn;
pub mod strings;
pub mod tool;
pub mod topology;
pub mod version;

use std::ffi::c_char;

use pmix_client::{Client, process};
use pmix_dstore::model::{Result, Status};

use arguments::{InfoResults, Out, c_str, infos, object, optional_object, present, procs, writable};

/// The client of this process, which stays while the caller has it.
///
/// # Errors
/// `INIT` where the process is not initialised.
fn client() -> Result<Client> {
    process::hold().ok_or(Status::ERR_INIT)
}

/// A C string of the library's own.
fn c_text(text: &'static std::ffi::CStr) -> *const c_char {
    text.as_ptr()
}

/// What `abi/functions.tsv` lists is there, or else this does not compile.
mod listed {
    use std::ffi::{c_char, c_int, c_void};

    use super::argv::*;
    use super::buffer::*;
    use super::client::*;
    use super::compare::*;
    use super::data::*;
    use super::directives::*;
    use super::events::*;
    use super::frameworks::*;
    use super::groups::*;
    use super::helpers::*;
    use super::info_list::*;
    use super::iof::*;
    use super::lifecycle::*;
    use super::loading::*;
    use super::names::*;
    use super::numbers::*;
    use super::publish::*;
    use super::query::*;
    use super::resources::*;
    use super::security::*;
    use super::server::*;
    use super::sessions::*;
    use super::spawn::*;
    use super::strings::*;
    use super::tool::*;
    use super::topology::*;
    use super::version::*;
    use crate::types::*;

    include!("exports.rs");
}
