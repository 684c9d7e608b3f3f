//! `pmixctl doctor`: what is wrong with the jobs of a server, or with finding one, and what to do.
//!
//! It looks from outside, at what the kernel tells of processes and files, and asks the server for its ranks. So it needs no help
//! from ranks that hang.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use pmix_dstore::model::ProcInfo;
use serde_json::json;

use super::Printout;
use super::args::Server;
use super::connection::Connection;
use super::servers;
use super::value::escaped;
use crate::prrte;

/// A file system with less room than this is as good as full: a segment of a large job does not fit.
const ROOM_MIN: u64 = 4 << 20;
/// No more ranks are named in a line.
const RANKS_MAX: usize = 16;

/// Something that is wrong.
#[derive(Debug, PartialEq)]
struct Finding {
    /// What it is, for programs.
    code: &'static str,
    what: String,
    /// What to do.
    next: &'static str,
}

/// Looks for troubles.
pub fn doctor(server: &Server, json: bool) -> Result<Printout, String> {
    let mut findings = of_files()?;
    let mut seen = String::new();
    match Connection::open(server) {
        Ok(connection) => {
            let host = connection.client().hostname();
            for name in connection.namespaces().unwrap_or_default() {
                let procs = connection.processes(&name).unwrap_or_default();
                seen += &format!("looked at job {}: {} ranks\n", escaped(&name), procs.len());
                let here =
                    |proc: &&ProcInfo| proc.hostname.as_ref().is_some_and(|name| name.to_bytes() == host.as_bytes());
                let ranks: Vec<Rank> = procs.iter().filter(here).map(Rank::of).collect();
                findings.extend(of_ranks(&name, &ranks));
            }
            connection.close();
        }
        Err(reason) => findings.push(Finding {
            code: "no-server",
            what: reason,
            next: "A job of mpirun 4 or Slurm has a server that takes no tools; look at its processes instead.",
        }),
    }
    let is_good = findings.is_empty();
    let text = if json { as_json(&findings) } else { seen + &as_text(&findings) };
    Ok(Printout { text, is_good })
}

fn as_text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing wrong found\n".to_owned();
    }
    findings.iter().map(|finding| format!("* {}\n  {}\n", escaped(&finding.what), finding.next)).collect()
}

fn as_json(findings: &[Finding]) -> String {
    let one = |finding: &Finding| json!({ "code": finding.code, "what": finding.what, "next": finding.next });
    format!("{:#}\n", json!({ "findings": findings.iter().map(one).collect::<Vec<_>>() }))
}

/// Rendezvous files that lead to no server.
fn of_files() -> Result<Vec<Finding>, String> {
    let found = servers::found()?;
    let bad = found.iter().filter_map(|server| Some((server.files.first()?, server.unusable.as_ref()?)));
    let finding = |(file, reason): (&PathBuf, &_)| Finding {
        code: "rendezvous-file",
        what: format!("the rendezvous file {} leads to no server: {reason}", file.display()),
        next: "If the server has ended without removing it, remove the file; tools skip it meanwhile.",
    };
    Ok(bad.map(finding).collect())
}

/// A rank's process as the kernel shows it.
struct Rank {
    rank: u32,
    /// `None` if the server knows no process.
    process: Option<Process>,
}

/// A process.
#[derive(Debug, Default)]
struct Process {
    pid: i32,
    /// Whether it is there and may be looked at.
    is_seen: bool,
    is_stopped: bool,
    /// The PMIx libraries that it has mapped.
    libraries: Vec<PathBuf>,
    has_segments: bool,
    /// The directory of its segments, if its server made some.
    directory: Option<PathBuf>,
    /// `PMIX_DSTORE_SHM=0` in its environment.
    is_switched_off: bool,
}

impl Rank {
    fn of(proc: &ProcInfo) -> Rank {
        Rank { rank: proc.proc.rank.0, process: (proc.pid > 0).then(|| Process::look(proc.pid)) }
    }
}

impl Process {
    fn look(pid: i32) -> Process {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let Ok(maps) = read("maps") else { return Process { pid, ..Process::default() } };
        let state = read("status").unwrap_or_default();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let variable = |name: &str| {
            let value = environment.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(name.as_bytes()));
            value.and_then(|value| value.strip_prefix(b"=")).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let directory = variable("PMIX_DSTORE_SEGMENTS").map(PathBuf::from);
        let mut libraries: Vec<PathBuf> = mapped(&maps).filter(|path| is_library(path)).map(PathBuf::from).collect();
        libraries.sort();
        libraries.dedup();
        let is_segment =
            |path: &str| directory.as_ref().is_some_and(|directory| Path::new(path).starts_with(directory));
        Process {
            pid,
            is_seen: true,
            is_stopped: state
                .lines()
                .any(|line| line.strip_prefix("State:").is_some_and(|word| word.trim().starts_with('T'))),
            libraries,
            has_segments: mapped(&maps).any(is_segment),
            is_switched_off: variable("PMIX_DSTORE_SHM").as_deref() == Some("0"),
            directory,
        }
    }
}

/// The files of `/proc/PID/maps`.
fn mapped(maps: &str) -> impl Iterator<Item = &str> {
    maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]))
}

fn is_library(path: &str) -> bool {
    Path::new(path).file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("libpmix"))
}

/// What is wrong with the ranks of a job on this node: one finding of a kind for all of them.
fn of_ranks(job: &str, ranks: &[Rank]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |code, is_it: &dyn Fn(&Process) -> bool, what: &str, next| {
        let found: Vec<&Rank> = ranks.iter().filter(|rank| rank.process.as_ref().is_some_and(is_it)).collect();
        if !found.is_empty() {
            findings.push(Finding { code, what: format!("job {job}, {}: {what}", named(&found)), next });
        }
    };
    let has = |process: &Process, wanted: bool| {
        process.libraries.iter().any(|library| prrte::is_ours(library).is_ok_and(|is_ours| is_ours == wanted))
    };
    say(
        "stopped",
        &|process| process.is_stopped,
        "stopped (SIGSTOP, or a debugger)",
        "pmixctl resume lets them go on.",
    );
    say(
        "not-seen",
        &|process| !process.is_seen,
        "the process has ended, or is another user's",
        "If the job hangs, its other ranks may wait for these; as root doctor sees more.",
    );
    say(
        "no-library",
        &|process| process.is_seen && process.libraries.is_empty(),
        "no libpmix is loaded: not started yet, or a program without PMIx",
        "If the program is one with PMIx, it is still loading, or linked statically.",
    );
    say(
        "stock-library",
        &|process| has(process, false) && !has(process, true),
        "the stock libpmix is loaded, so values come over the socket",
        "LD_LIBRARY_PATH does not reach these ranks: pmixctl info, run as a rank, shows what they would load.",
    );
    say(
        "two-libraries",
        &|process| has(process, false) && has(process, true),
        "two libpmix are loaded, this one and the stock one",
        "A library or plugin of the program has a path to the stock one of its own; the one that is asked last knows nothing.",
    );
    say(
        "switched-off",
        &|process| process.is_switched_off,
        "PMIX_DSTORE_SHM=0 is set, so values come over the socket",
        "Unset the variable.",
    );
    say(
        "no-segments",
        &|process| {
            has(process, true) && process.directory.is_some() && !process.is_switched_off && !process.has_segments
        },
        "no segment of the job is mapped, so values come over the socket",
        "The rank's standard error says why; pmixctl inspect DIRECTORY shows whether the segments are whole.",
    );
    findings.extend(of_directories(job, ranks));
    findings
}

/// Full file systems below the segments.
fn of_directories(job: &str, ranks: &[Rank]) -> Option<Finding> {
    let directory = ranks.iter().find_map(|rank| rank.process.as_ref()?.directory.clone())?;
    let room = statvfs(&directory).ok().map(|stat| stat.blocks_available() * stat.fragment_size())?;
    (room < ROOM_MIN).then(|| Finding {
        code: "full",
        what: format!("job {job}: the file system of {} has {} KiB left", directory.display(), room / 1024),
        next: "New values may not fit and come over the socket; make room, or give the server another directory (PMIX_SERVER_TMPDIR).",
    })
}

/// "rank 3 (process 17)", or "ranks 0, 1 and 2 more".
fn named(ranks: &[&Rank]) -> String {
    let word = |rank: &&Rank| rank.rank.to_string();
    match ranks {
        [one] => format!("rank {} (process {})", one.rank, one.process.as_ref().map_or(0, |process| process.pid)),
        some if some.len() <= RANKS_MAX => format!("ranks {}", some.iter().map(word).collect::<Vec<_>>().join(", ")),
        many => {
            let first: Vec<_> = many[..RANKS_MAX].iter().map(word).collect();
            format!("ranks {} and {} more", first.join(", "), many.len() - RANKS_MAX)
        }
    }
}
