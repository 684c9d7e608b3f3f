//! Published data as files that every process of a node maps.
//!
//! The server builds immutable segments (feature `builder`): a *job* segment from what the host registered, *modex*
//! segments from what ranks published. It writes each to a file of the namespace's directory and makes it known by an
//! entry in the *directory page*. Clients map page and segments read-only and answer lookups from them without a
//! lock, a system call or an allocation.
//!
//! * [`Region`]: where the bytes of a segment come from; what they mean is apart from that.
//! * [`JobReader`], [`ModexReader`]: one segment, opened and checked.
//! * [`NamespaceView`]: all segments of a namespace, kept up to date.
//! * `build_job`, `ModexBuilder`, `Publisher` (feature `builder`): the writing side.
//!
//! `docs/segment-format.md` describes every byte.

#[cfg(feature = "builder")]
mod build;
mod bytes;
mod checked;
mod column;
mod files;
mod header;
mod inspect;
mod job_reader;
mod key_table;
#[cfg(all(test, loom))]
mod model;
mod modex_reader;
mod page;
#[cfg(feature = "builder")]
mod publisher;
mod region;
mod short;
mod sync;
#[cfg(all(test, feature = "builder", not(loom)))]
mod tests;
mod toc;
mod view;

#[cfg(feature = "builder")]
pub use build::{BuildError, ModexBuilder, build_job};
pub use files::{Directory, FileId};
pub use header::{
    CREATOR_LEN, FEATURES_KNOWN, FORMAT_VERSION, HEADER_LEN, MAGIC, RawHeader, SegmentError, SegmentKind, content_hash,
};
pub use inspect::{InspectOptions, Report, inspect_directory, inspect_segment, layout_text};
pub use job_reader::{Instance, JobKey, JobReader};
pub use modex_reader::ModexReader;
pub use page::{Entry, PAGE_CAPACITY, PAGE_LEN, page_name, segment_name};
#[cfg(feature = "builder")]
pub use publisher::{LiveSegment, PublishError, Publisher};
pub use region::{HeapRegion, MappedRegion, Region};
pub use short::{Answer, Short};
pub use toc::FINGERPRINT;
pub use view::{AttachError, NamespaceView, ViewStats};
