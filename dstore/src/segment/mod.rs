//! Published data as files that every process of a node maps.
//!
//! The server builds immutable segments (feature `builder`): a *job* segment from the host's registration, *modex* segments from
//! published values of ranks. It writes each to a file of the namespace's directory and makes it known by an entry in the
//! *directory page*. Clients map page and segments read-only and answer look-ups from them without a lock, a system call or an
//! allocation.
//!
//! Modules, each of which imports only from those above it:
//!
//! * `layout`: the bytes that writers and readers agree on, and the fingerprint of them.
//! * `directory`: the files of a namespace and its directory page.
//! * `read`: one segment opened and checked ([`JobReader`], [`ModexReader`]), wherever its bytes come from ([`Region`]); all
//!   segments of a namespace, kept up to date ([`NamespaceView`]).
//! * `write` (feature `builder`): segments made from data (`build_job`, `ModexBuilder`).
//! * `publish` (feature `builder`): the server's side of a directory (`Publisher`).
//! * `inspect`: reports for `pmixctl`.
//!
//! `docs/segment-format.md` describes every byte.

mod directory;
mod inspect;
mod layout;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(feature = "builder")]
mod publish;
mod read;
#[cfg(all(test, feature = "builder", not(loom)))]
mod tests;
#[cfg(feature = "builder")]
mod write;

pub use directory::error::AttachError;
pub use directory::files::{Directory, FileId};
#[cfg(feature = "builder")]
pub use directory::limit::check_length;
pub use inspect::{InspectOptions, Report, inspect_directory, inspect_segment, layout_text};
pub use layout::error::SegmentError;
pub use layout::fingerprint::FINGERPRINT;
pub use layout::header::{FORMAT_VERSION, HEADER_LEN, MAGIC, SegmentKind};
pub use layout::raw_header::{RawHeader, content_hash};
#[cfg(feature = "builder")]
pub use publish::abandoned::Abandoned;
#[cfg(feature = "builder")]
pub use publish::outer::{JOURNAL_NAME, JOURNAL_NEW_NAME, SOCKET_NAME};
#[cfg(feature = "builder")]
pub use publish::publisher::{LiveSegment, PublishError, Publisher};
#[cfg(feature = "builder")]
pub use publish::takeover::Taken;
pub use read::fast_path::{FastResult, FastValue};
pub use read::job_reader::{JobKey, JobReader, Target};
pub use read::modex_reader::ModexReader;
pub use read::region::{HeapRegion, MappedRegion, Region};
pub use read::view::{IsOver, NamespaceView, ViewStats};
#[cfg(feature = "builder")]
pub use write::{BuildError, ModexBuilder, build_job};
