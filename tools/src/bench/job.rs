//! The job of which this process is a rank.

use std::env;
use std::ffi::CStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use pmix_dstore::model::{Status, keys};
use serde_json::{Value, json};

use super::library::{Library, Process, c_key};
use super::sampling::{Sampled, cost_of_clock};
use crate::machine::Machine;

/// The key under which a rank publishes its figures. What begins with `pmix` is reserved.
const FIGURES: &str = "bench.figures";
/// Shorter runs say nothing about their progress.
const SILENCE: Duration = Duration::from_secs(2);
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// This rank, the other ranks, and the library that connects them.
pub struct Job {
    pub library: Library,
    pub me: Process,
    pub size: u32,
    /// The ranks on this node, this one among them.
    pub on_node: Vec<u32>,
    begun: Instant,
    last_line: Option<Instant>,
}

/// A kind of figure of this rank.
pub struct Figure {
    pub class: &'static str,
    pub size: Option<usize>,
    pub unit: &'static str,
    pub sampled: Sampled,
}

impl Figure {
    /// A figure that a run has once.
    pub fn single(class: &'static str, unit: &'static str, figure: f64) -> Figure {
        Figure { class, size: None, unit, sampled: Sampled::of(vec![figure], None) }
    }

    fn json(&self) -> Value {
        let [p50, p99, p99_9] = [500, 990, 999].map(|part| self.sampled.at_most_for(part));
        json!({
            "class": self.class, "size": self.size, "unit": self.unit, "p50": p50, "p99": p99, "p99_9": p99_9,
            "most": self.sampled.most(), "first": self.sampled.first, "samples": self.sampled.count(),
            "batch": self.sampled.batch,
        })
    }
}

/// The figures of a rank whose job goes on.
pub struct Measured {
    pub job: Job,
    pub figures: Vec<Figure>,
}

/// Opens the library of a process that a PMIx server has started.
///
/// # Errors
/// That there is no server, or no library.
pub fn open() -> Result<Library, String> {
    if env::var_os("PMIX_NAMESPACE").is_none() {
        return Err(
            "no PMIx server has started this process (PMIX_NAMESPACE is not set); start it as the ranks of a job: \
                    pmixrun -n 4 pmixbench ..., mpirun -n 4 pmixbench ..., or srun -n 4 --mpi=pmix pmixbench ..."
                .into(),
        );
    }
    Library::open()
}

impl Job {
    /// Makes this process a rank.
    ///
    /// # Errors
    /// What failed.
    pub fn init(library: Library) -> Result<Job, String> {
        let begun = Instant::now();
        let me = library.init().map_err(|status| {
            format!("rank {}: PMIx_Init: {status}", env::var("PMIX_RANK").unwrap_or_else(|_| "unknown".into()))
        })?;
        let on_node = vec![me.rank()];
        Ok(Job { library, me, size: 1, on_node, begun, last_line: None })
    }

    /// Asks who the other ranks are.
    ///
    /// # Errors
    /// What the server does not tell.
    pub fn learn(&mut self) -> Result<(), String> {
        let get = |key: &str| {
            let value = self.library.get(&self.me.job(), &c_key(key), None);
            value.map_err(|status| self.failed(&format!("PMIx_Get of {key}"), status))
        };
        let unreadable = |key| format!("rank {}: {key} has another type than in the standard", self.me.rank());
        let size = get(keys::JOB_SIZE)?.number().ok_or_else(|| unreadable("PMIX_JOB_SIZE"))?;
        let peers = get(keys::LOCAL_PEERS)?;
        let peers = peers.bytes().and_then(|list| std::str::from_utf8(list).ok()).and_then(ranks_of);
        self.on_node = peers.ok_or_else(|| unreadable("PMIX_LOCAL_PEERS"))?;
        self.size = size;
        Ok(())
    }

    /// What a user is told of a call that failed.
    pub fn failed(&self, what: &str, status: Status) -> String {
        format!("rank {}: {what}: {status}", self.me.rank())
    }

    /// # Errors
    /// What a user is told.
    pub fn put(&self, key: &CStr, bytes: &[u8]) -> Result<(), String> {
        self.library.put(key, bytes).map_err(|status| self.failed("PMIx_Put", status))
    }

    /// # Errors
    /// What a user is told.
    pub fn commit(&self) -> Result<(), String> {
        self.library.commit().map_err(|status| self.failed("PMIx_Commit", status))
    }

    /// # Errors
    /// What a user is told.
    pub fn fence(&self, collects: bool) -> Result<(), String> {
        self.library.fence(collects).map_err(|status| self.failed("PMIx_Fence", status))
    }

    /// Says on standard error what rank 0 does, at most once a second, in runs that take longer than a moment.
    pub fn say(&mut self, what: &str) {
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= BETWEEN_LINES);
        if self.me.rank() == 0 && self.begun.elapsed() >= SILENCE && is_due {
            let _ = writeln!(io::stderr(), "pmixbench: {:.0} s: {what}", self.begun.elapsed().as_secs_f64());
            self.last_line = Some(Instant::now());
        }
    }

    /// Where this rank runs, and with what.
    fn facts(&self) -> Value {
        let machine = Machine::here();
        let parent = fs::read_to_string(format!("/proc/{}/comm", parent_id())).unwrap_or_default();
        // pmixrun's ranks are children of a process of its own.
        let launcher = parent.trim().replace("pmix-watchdog", "pmixrun");
        let of_server = match env::var_os("PMIX_DSTORE_SEGMENTS") {
            Some(_) => "pmix-dstore".to_owned(),
            None => format!("OpenPMIx {}", env::var("PMIX_VERSION").unwrap_or_else(|_| "of an unknown release".into())),
        };
        json!({
            "rank": self.me.rank(), "size": self.size, "host": machine.host, "processor": machine.processor,
            "processors": machine.processors, "kernel": machine.kernel, "launcher": launcher, "clock_ns": cost_of_clock(),
            "version": self.library.version(), "path": self.library.path(), "server": of_server,
        })
    }
}

impl Measured {
    /// Publishes the figures of this rank, and ends it. Rank 0 returns those of all ranks.
    ///
    /// # Errors
    /// What a user is told.
    pub fn gather(self) -> Result<Option<Vec<Value>>, String> {
        let Measured { job, figures } = self;
        let mut mine = job.facts();
        mine["figures"] = figures.iter().map(Figure::json).collect();
        job.put(&c_key(FIGURES), mine.to_string().as_bytes())?;
        job.commit()?;
        job.fence(true)?;
        let all = match job.me.rank() {
            0 => Some((0..job.size).map(|rank| job.figures_of(rank)).collect::<Result<Vec<_>, _>>()?),
            _ => None,
        };
        // Until rank 0 has read everything, all are there to answer.
        job.fence(false)?;
        job.library.finalize().map_err(|status| job.failed("PMIx_Finalize", status))?;
        Ok(all)
    }
}

impl Job {
    fn figures_of(&self, rank: u32) -> Result<Value, String> {
        let value = self.library.get(&self.me.with_rank(rank), &c_key(FIGURES), None);
        let value = value.map_err(|status| self.failed(&format!("PMIx_Get of the figures of rank {rank}"), status))?;
        let read = value.bytes().and_then(|text| serde_json::from_slice(text).ok());
        read.ok_or_else(|| format!("rank 0: PMIx_Get of the figures of rank {rank}: this is not what it has put"))
    }
}

/// The ranks of a list such as `0,2,4-6`.
fn ranks_of(list: &str) -> Option<Vec<u32>> {
    let mut ranks = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        ranks.extend(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?);
    }
    Some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_are_read() {
        assert_eq!(ranks_of("0,2,4-6"), Some(vec![0, 2, 4, 5, 6]));
        assert_eq!(ranks_of("3"), Some(vec![3]));
        assert_eq!(ranks_of(""), None);
    }
}
