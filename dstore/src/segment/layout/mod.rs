//! The bytes that writers and readers of segments and pages agree on; `docs/segment-format.md` describes each.

pub(crate) mod bytes;
pub(crate) mod error;
pub(crate) mod fingerprint;
pub(crate) mod header;
pub(crate) mod page;
pub(crate) mod raw_header;
pub(crate) mod toc;
