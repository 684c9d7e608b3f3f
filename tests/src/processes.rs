//! Processes beside a test.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that is stopped until this is dropped.
#[derive(Debug)]
pub struct Stopped(Pid);

impl Stopped {
    /// Stops the process.
    ///
    /// # Panics
    /// If this user may not.
    pub fn new(process: u32) -> Stopped {
        let process = Pid::from_raw(process.cast_signed());
        kill(process, Signal::SIGSTOP).expect("a process of this user");
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// The number of descriptors that a process has open.
///
/// # Panics
/// If it has ended, or is another user's.
pub fn descriptors_of(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).expect("a process of this user").count()
}
