//! Servers of `pmixrun --restart`, which are killed and started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::build::{Library, pmixrun};
use crate::run::Run;
use crate::traces::Traces;

/// What the command line of a server's process has.
const MODE: &str = "--server-process";

/// The processes of servers of launchers of this test, answering or not.
pub fn server_processes(traces: &Traces) -> Vec<u32> {
    traces.processes().into_iter().filter(|(_, words)| words.contains(MODE)).map(|(pid, _)| pid).collect()
}

/// Kills a process.
pub fn kill_process(pid: u32) {
    // One that has ended meanwhile is as good.
    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
}

/// The server that answers, as a user finds it.
pub fn answering_server(directory: &Path) -> Option<u32> {
    let run = Run::new(pmixrun().with_file_name("pmixctl"), Library::ours()).env("TMPDIR", directory);
    let listed = run.args("servers --json").run();
    let json: serde_json::Value = serde_json::from_str(&listed.stdout).ok()?;
    let usable = json["servers"].as_array()?.iter().find(|server| server["unusable"].is_null())?;
    usable["pid"].as_u64()?.try_into().ok()
}

/// Keeps the number of the server's process in a file, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    /// The file.
    pub file: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the server that has its files in the test's directory for temporary files.
    pub fn begin(traces: &Traces) -> Watch {
        let (file, is_over) = (traces.own().join("server"), Arc::new(AtomicBool::new(false)));
        let (path, stop, directory) = (file.clone(), Arc::clone(&is_over), traces.directory());
        let thread = std::thread::spawn(move || {
            let mut last = None;
            while !stop.load(Ordering::Relaxed) {
                let found = answering_server(&directory);
                if let Some(pid) = found.filter(|pid| last != Some(*pid)) {
                    let new = path.with_extension("new");
                    fs::write(&new, pid.to_string()).and_then(|()| fs::rename(&new, &path)).expect("a file");
                    last = found;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Watch { file, is_over, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
