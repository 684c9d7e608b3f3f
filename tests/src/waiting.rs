//! A job whose ranks wait outside the library while a test attacks their server.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Ended, Library, Living, Run, Traces, pmixrun, program};

/// Each rank writes its environment, waits until the gate file is removed, and then does its Gets.
const WAIT_AND_WORK: &str = r#"
while test -e "$1"; do sleep 0.02; done
"$2" --gets 100 || exit
"#;
/// Each rank publishes, reports that, waits until the gate file is removed, and reads. Then another program of the rank
/// reads again.
const READ_TWICE: &str = r#"
"$3" "$1" && "$3" || exit
"#;
/// The last rank ends at once, the others when the gate file is removed.
const LEAVE: &str = r#"
test "$PMIX_RANK" = 0 || { > "$1.$PMIX_RANK.over"; exit; }
while test -e "$1"; do sleep 0.02; done
echo gets done
"#;

/// The beginning of each rank's script.
const INTRODUCTION: &str = r#"
{ env | grep ^PMIX_; echo "PID=$$"; } > "$1.$PMIX_RANK.part" && mv "$1.$PMIX_RANK.part" "$1.$PMIX_RANK"
# The launcher is the parent of the process that starts the ranks.
sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status > "$1.$PMIX_RANK.part" && mv "$1.$PMIX_RANK.part" "$1.pid"
"#;
/// The end of a rank's script for tests that inspect the server after the ranks' finalize and before the job ends.
const STAY: &str = r#"
> "$1.$PMIX_RANK.over"
while test -e "$1.stay"; do sleep 0.02; done
"#;

/// A job whose ranks have been started and wait.
pub struct WaitingJob {
    gate: PathBuf,
    traces: Traces,
    running: Option<JoinHandle<Ended>>,
    ranks: u32,
    /// The server's resources before the attack, if they were recorded.
    server: Option<Living>,
    /// The number of programs that report that they have done their Gets.
    done: u32,
}

impl WaitingJob {
    /// Starts `ranks` ranks with our launcher. `limits` are shell commands before it (`ulimit`, or `:`).
    ///
    /// # Panics
    /// If the ranks do not start.
    pub fn start(ranks: u32, limits: &str) -> WaitingJob {
        WaitingJob::of(ranks, limits, WAIT_AND_WORK, ranks)
    }

    /// Starts `ranks` ranks, which attach the segments and publish. When the job continues, the same process reads
    /// again, and then a new one.
    ///
    /// # Panics
    /// If the ranks do not start.
    pub fn reading(ranks: u32) -> WaitingJob {
        let job = WaitingJob::of(ranks, ":", READ_TWICE, 2 * ranks);
        (0..ranks).for_each(|rank| drop(job.written(&format!("{rank}.ready"))));
        job
    }

    /// Starts two ranks, the second of which ends at once.
    ///
    /// # Panics
    /// If the ranks do not start.
    pub fn left_by_one() -> WaitingJob {
        WaitingJob::of(2, ":", LEAVE, 1)
    }

    fn of(ranks: u32, limits: &str, script: &str, done: u32) -> WaitingJob {
        let traces = Traces::begin();
        let gate = traces.own().join("gate");
        fs::write(&gate, "").expect("the gate");
        let run = Run::new("/bin/sh", Library::ours())
            .traced(&traces)
            .arg("-c")
            .arg(format!("{limits}; exec \"$@\""))
            .arg("sh")
            .arg(pmixrun())
            .args(&format!("-n {ranks} --json --tmpdir"))
            .arg(traces.directory())
            .args("sh -c")
            .arg([INTRODUCTION, script, STAY].concat())
            .arg("rank")
            .arg(&gate)
            .arg(program("latency"))
            .arg(program("reader"));
        let running = thread::spawn(move || run.run());
        let job = WaitingJob { gate, traces, running: Some(running), ranks, server: None, done };
        (0..ranks).for_each(|rank| drop(job.written(&rank.to_string())));
        job
    }

    /// The launcher's `--tmpdir`.
    pub fn directory(&self) -> PathBuf {
        self.traces.directory()
    }

    /// The launcher's process, which is also the server's.
    pub fn server(&self) -> u32 {
        self.written("pid").trim().parse().expect("a number")
    }

    /// Records the server's descriptors, threads and file mappings. It may hold no more when the job continues after
    /// the attack, nor when the ranks have finished.
    ///
    /// # Panics
    /// If the test's directory is not writable.
    pub fn watch_server(&mut self) {
        fs::write(self.stay(), "").expect("a file");
        self.server = Some(Living::watch(self.server()));
    }

    /// As [`WaitingJob::watch_server`], once threads and mappings have been the same for half a second: what an attack's first requests
    /// start in the background, such as munge's library, is there once.
    ///
    /// # Panics
    /// If they do not stay the same within a minute.
    pub fn watch_settled_server(&mut self) {
        let held = |server: u32| {
            let threads = fs::read_dir(format!("/proc/{server}/task")).expect("the server is running").count();
            let maps = fs::read_to_string(format!("/proc/{server}/maps")).expect("the server is running");
            (threads, maps.lines().count())
        };
        let server = self.server();
        let mut before = held(server);
        for _ in 0..120 {
            thread::sleep(Duration::from_millis(500));
            let now = held(server);
            if now == before {
                return self.watch_server();
            }
            before = now;
        }
        panic!("the server's threads and mappings change without end: {before:?}");
    }

    /// A rank's environment, with its process ID under `PID`.
    pub fn environment(&self, rank: u32) -> HashMap<String, String> {
        let text = self.written(&rank.to_string());
        text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// The bytes that the server has allocated and touched.
    ///
    /// # Panics
    /// If the server has ended.
    pub fn server_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server())).expect("the server is running");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a kernel from 4.5 on");
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
        kib * 1024
    }

    /// Lets the ranks begin and waits until they have done their work, while the attack continues. Only for a watched
    /// server.
    ///
    /// # Panics
    /// If they fail.
    pub fn let_work(&self) {
        assert!(self.stay().exists(), "the server is not watched");
        fs::remove_file(&self.gate).expect("the gate is there");
        (0..self.ranks).for_each(|rank| drop(self.written(&format!("{rank}.over"))));
    }

    /// Lets waiting ranks begin. Asserts that all of them do all their Gets, that the job leaves nothing, and that the
    /// attack leaves nothing in a watched server.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn finish(mut self) -> Ended {
        if let Some(server) = &self.server {
            if self.gate.exists() {
                server.assert_holds_no_more();
                self.let_work();
            }
            server.assert_holds_no_more();
            fs::remove_file(self.stay()).expect("the file is there");
        } else {
            fs::remove_file(&self.gate).expect("the gate is there");
        }
        let running = self.running.take().expect("a job is finished once");
        let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(ended.code(), 0, "{ended}");
        assert_eq!(ended.count("gets done"), self.done as usize, "{ended}");
        self.traces.assert_none_left(&ended);
        ended
    }

    /// The file that keeps the job from ending after its ranks have done their work.
    fn stay(&self) -> PathBuf {
        self.gate.with_extension("stay")
    }

    /// The contents of a file that a rank writes. Waits for it as long as the job may run.
    fn written(&self, name: &str) -> String {
        let file = self.gate.with_extension(name);
        loop {
            if let Ok(text) = fs::read_to_string(&file) {
                return text;
            }
            assert!(!self.running.as_ref().is_some_and(JoinHandle::is_finished), "the job has ended already");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for WaitingJob {
    fn drop(&mut self) {
        // Even a failing test must leave no ranks behind.
        let _ = fs::remove_file(self.stay());
        let _ = fs::remove_file(&self.gate);
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
    }
}
