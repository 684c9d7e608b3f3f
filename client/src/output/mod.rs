//! Output of other processes: its channels, its handlers, and the library's own writer.

pub(crate) mod format;
mod writer;

use std::sync::Arc;

pub use pmix_wire::IoDelivery;

pub use self::format::{Format, default_to_files_only, text_of};
pub use self::writer::Writer;

/// `PMIX_FWD_STDIN_CHANNEL`.
pub const STDIN: u16 = 1;
/// `PMIX_FWD_STDOUT_CHANNEL`.
pub const STDOUT: u16 = 2;
/// `PMIX_FWD_STDERR_CHANNEL`.
pub const STDERR: u16 = 4;
/// `PMIX_FWD_STDDIAG_CHANNEL`.
pub const STDDIAG: u16 = 8;

/// Handles the output of jobs that this process has spawned.
pub type ConsoleHandler = Arc<dyn Fn(&IoDelivery) + Send + Sync>;

/// Handles the output of a pull; the first argument is the pull's number.
pub type OutputHandler = Arc<dyn Fn(u64, IoDelivery) + Send + Sync>;
