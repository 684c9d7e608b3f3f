//! Output of other processes: its channels, who takes it, and how the library writes it as directives say.

pub(crate) mod format;
mod writer;

use std::sync::Arc;

pub use pmix_wire::IoDelivery;

pub use self::format::Format;
pub use self::writer::Writer;

/// `PMIX_FWD_STDIN_CHANNEL`.
pub const STDIN: u16 = 1;
/// `PMIX_FWD_STDOUT_CHANNEL`.
pub const STDOUT: u16 = 2;
/// `PMIX_FWD_STDERR_CHANNEL`.
pub const STDERR: u16 = 4;
/// `PMIX_FWD_STDDIAG_CHANNEL`.
pub const STDDIAG: u16 = 8;

/// Takes the output of a pull; the number is the pull's.
pub type OutputHandler = Arc<dyn Fn(u64, IoDelivery) + Send + Sync>;
