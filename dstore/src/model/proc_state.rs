//! States of a process: `pmix_proc_state_t` (standard, section 3.4.1).

/// Nothing is known.
pub const UNDEFINED: u8 = 0;
/// The host is about to launch it.
pub const PREPPED: u8 = 1;
/// It runs.
pub const RUNNING: u8 = 5;
/// It is connected to its server.
pub const CONNECTED: u8 = 6;
/// It has ended; this and all higher states are of processes that are over.
pub const TERMINATED: u8 = 20;
/// It was killed on request.
pub const KILLED_BY_COMMAND: u8 = 51;
/// A signal ended it.
pub const ABORTED_BY_SIGNAL: u8 = 54;
/// It ended without a finalize.
pub const TERMINATED_WITHOUT_FINALIZE: u8 = 55;
/// Its exit status is not 0.
pub const TERMINATED_NON_ZERO: u8 = 62;
