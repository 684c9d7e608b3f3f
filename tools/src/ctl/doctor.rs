//! `pmixctl doctor`: what is wrong with the jobs of a server, or with finding one, and what to do.
//!
//! It looks from outside, at what the kernel tells of processes and files, and asks the server for its ranks. So it needs no help
//! from ranks that hang. Of ranks that record their steps it tells the last ones, of those that have been killed, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use pmix_client::inspection::{Connection, Lost};
use pmix_client::rendezvous::Unusable;
use pmix_dstore::model::{Nspace, ProcInfo};
use serde_json::json;

use super::Printout;
use super::args::Server;
use super::connection::{self, Inspected};
use super::jobs::has_ended;
use super::process::Process;
use super::servers;
use super::steps::{self, LastSteps};
use crate::value::escaped;
use crate::waits::{self, Processes};

/// A file system with less room than this is as good as full: a segment of a large job does not fit.
const ROOM_MIN: u64 = 4 << 20;
/// What has waited for less may be over in a moment.
const WAIT_MIN: Duration = Duration::from_secs(1);

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
    let mut last_steps = Vec::new();
    match connection::Connection::open(server) {
        Ok(connection) => {
            let host = connection.client().hostname();
            let inspected = connection.inspected();
            let in_trouble = of_troubles(&inspected);
            let mut all = Vec::new();
            for name in connection.namespaces().unwrap_or_default() {
                let procs = connection.processes(&name).unwrap_or_default();
                seen += &format!("looked at job {}: {} ranks\n", escaped(&name), procs.len());
                let here =
                    |proc: &&ProcInfo| proc.hostname.as_ref().is_some_and(|name| name.to_bytes() == host.as_bytes());
                let ranks: Vec<Rank> = procs.iter().filter(here).map(Rank::of).collect();
                findings.extend(of_ranks(&name, &ranks));
                last_steps
                    .extend(in_trouble.get(&name).map_or_else(Vec::new, |wanted| of_steps(&name, &ranks, wanted)));
                all.extend(procs);
            }
            findings.extend(of_waits(&inspected, &inspected.known(all)));
            findings.extend(of_releases(&inspected));
            connection.close();
        }
        Err(reason) => findings.push(Finding {
            code: "no-server",
            what: reason,
            next: "Without its server doctor does not know a job's ranks; /proc/PID/maps shows which library a process has.",
        }),
    }
    let is_good = findings.is_empty();
    let text =
        if json { as_json(&findings, &last_steps) } else { seen + &as_text(&findings) + &steps::as_text(&last_steps) };
    Ok(Printout { text, is_good })
}

/// Tells the last steps of ranks from the files that they have left in the directory of a namespace, whose server may be gone.
pub fn of_left_directory(directory: &Path, json: bool) -> Result<Printout, String> {
    let outer = steps::outer_of(directory);
    let found = steps::of_job(&outer, None, None).map_err(|error| format!("{}: {error}", directory.display()))?;
    if found.is_empty() {
        let place = directory.display();
        return Err(format!(
            "{place}: no rank has recorded its steps here: PMIX_DSTORE_RECORD=1 in a job's environment does that"
        ));
    }
    Ok(Printout::good(if json { as_json(&[], &found) } else { steps::as_text(&found) }))
}

/// Whether something has waited for longer than a moment.
fn is_long(age: Duration) -> bool {
    age >= WAIT_MIN
}

/// The ranks of each job that wait, are waited for, or have been lost.
fn of_troubles(inspected: &Inspected) -> BTreeMap<String, BTreeSet<u32>> {
    let collectives = inspected.collectives.iter().filter(|collective| is_long(collective.age));
    let participants = collectives.flat_map(|collective| collective.absent.iter().chain(&collective.entered));
    let gets = inspected.waits.iter().filter(|wait| is_long(wait.age)).flat_map(|wait| [&wait.asker, &wait.of]);
    let lost = inspected.lost.iter().map(|lost| &lost.proc);
    let mut jobs: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for proc in participants.chain(gets).chain(lost) {
        jobs.entry(proc.nspace.to_string()).or_default().insert(proc.rank.0);
    }
    jobs
}

/// The last steps of those ranks, if they record them. A rank that has ended is found by the directory of another one.
fn of_steps(job: &str, ranks: &[Rank], wanted: &BTreeSet<u32>) -> Vec<LastSteps> {
    let directory = ranks.iter().find_map(|rank| rank.process.as_ref()?.directory_from_here());
    let found = directory.map(|directory| steps::of_job(&directory.join(".."), Some(job), Some(wanted)));
    // Another user's directory tells nothing.
    found.and_then(Result::ok).unwrap_or_default()
}

fn as_text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing wrong found: no rank waits in PMIx for longer than a second\n".to_owned();
    }
    findings.iter().map(|finding| format!("* {}\n  {}\n", escaped(&finding.what), finding.next)).collect()
}

fn as_json(findings: &[Finding], last_steps: &[LastSteps]) -> String {
    let one = |finding: &Finding| json!({ "code": finding.code, "what": finding.what, "next": finding.next });
    let findings: Vec<_> = findings.iter().map(one).collect();
    format!("{:#}\n", json!({ "findings": findings, "steps": steps::as_json(last_steps) }))
}

/// Rendezvous files that lead to no server.
fn of_files() -> Result<Vec<Finding>, String> {
    let found = servers::found()?;
    // Files of other users are no trouble of this user's, and cannot be removed by them.
    let is_foreign = |reason: &Unusable| matches!(reason, Unusable::NotTrusted(_) | Unusable::OtherUser(..));
    let bad = found.iter().filter_map(|server| Some((server.files.first()?, server.unusable.as_ref()?)));
    let bad = bad.filter(|(_, reason)| !is_foreign(reason));
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
    /// The process has mapped this project's library.
    has_ours: bool,
    /// The process has mapped a stock library.
    has_stock: bool,
}

impl Rank {
    fn of(proc: &ProcInfo) -> Rank {
        let process = (proc.pid > 0 && !has_ended(proc)).then(|| Process::look(proc.pid));
        let (has_ours, has_stock) = process.as_ref().map_or((false, false), Process::has_ours_and_stock);
        Rank { rank: proc.proc.rank.0, process, has_ours, has_stock }
    }
}

/// What is wrong with the ranks of a job on this node: one finding of a kind for all of them.
fn of_ranks(job: &str, ranks: &[Rank]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |code, is_it: &dyn Fn(&Rank, &Process) -> bool, what: &str, next| {
        let is_meant = |rank: &&Rank| rank.process.as_ref().is_some_and(|process| is_it(rank, process));
        let found: Vec<&Rank> = ranks.iter().filter(is_meant).collect();
        if !found.is_empty() {
            findings.push(Finding { code, what: format!("job {job}, {}: {what}", named(&found)), next });
        }
    };
    say(
        "stopped",
        &|_, process| process.is_stopped,
        "stopped (SIGSTOP, or a debugger)",
        "pmixctl resume lets them go on.",
    );
    say(
        "not-seen",
        &|_, process| !process.is_seen,
        "the process has ended, or is another user's",
        "If the job hangs, its other ranks may wait for these; as root doctor sees more.",
    );
    say(
        "no-library",
        &|_, process| process.is_seen && process.libraries.is_empty(),
        "no libpmix is loaded: not started yet, or a program without PMIx",
        "If the program is one with PMIx, it is still loading, or linked statically.",
    );
    say(
        "stock-library",
        &|rank, _| rank.has_stock && !rank.has_ours,
        "the stock libpmix is loaded, so values come over the socket",
        "LD_LIBRARY_PATH does not reach these ranks: pmixctl info, run as a rank, shows what they would load.",
    );
    say(
        "two-libraries",
        &|rank, _| rank.has_stock && rank.has_ours,
        "two libpmix are loaded, this one and the stock one",
        "A library or plugin of the program has a path to the stock one of its own; the one that is asked last knows nothing.",
    );
    of_shared_memory(&mut say);
    findings.extend(of_directories(job, ranks));
    findings
}

/// Adds a finding about the ranks of which something is true: code, what is true, in words, what to do.
type Say<'a> = dyn FnMut(&'static str, &dyn Fn(&Rank, &Process) -> bool, &str, &'static str) + 'a;

/// Why ranks have their values over the socket, or could be thought to.
fn of_shared_memory(say: &mut Say<'_>) {
    say(
        "switched-off",
        &|_, process| process.is_switched_off,
        "PMIX_DSTORE_SHM=0 is set, so values come over the socket",
        "Unset the variable.",
    );
    say(
        "stock-store",
        &|rank, process| rank.has_ours && process.directory.is_some() && process.has_stock_store,
        "PMIX_MCA_gds is set, which chooses a store of the stock library and has no effect here",
        "Under this server PMIX_DSTORE_SHM alone decides whether values are in shared memory; unset PMIX_MCA_gds unless other jobs need it.",
    );
    say(
        "no-segments",
        &|rank, process| {
            rank.has_ours && process.directory.is_some() && !process.is_switched_off && !process.has_segments
        },
        "no segment of the job is mapped, so values come over the socket",
        "The rank's standard error says why; pmixctl inspect DIRECTORY shows whether the segments are whole.",
    );
}

/// What waits for longer than a moment, and what was waited for in vain.
fn of_waits(inspected: &Inspected, processes: &Processes) -> Vec<Finding> {
    let collectives = inspected.collectives.iter().filter(|collective| is_long(collective.age));
    let collectives = collectives.map(|collective| Finding {
        code: if collective.at_host { "host-silent" } else { "collective-waits" },
        what: waits::of_collective(collective, processes),
        next: match collective.at_host {
            true => {
                "The processes of other nodes have not entered, or the host does not answer: ask the servers there."
            }
            false => "Look at the processes that are missing: gdb -p, or their output.",
        },
    });
    let gets = inspected.waits.iter().filter(|wait| is_long(wait.age)).map(|wait| Finding {
        code: if wait.at_host { "host-silent" } else { "get-waits" },
        what: waits::of_wait(wait, processes),
        next: match wait.at_host {
            true => "The other node's server has no such value yet, or the host does not answer.",
            false => {
                "That process has not called PMIx_Commit with this key; PMIX_TIMEOUT or PMIX_OPTIONAL bounds the wait."
            }
        },
    });
    let missed = inspected.missed.iter().map(|missed| Finding {
        code: "key-not-put",
        what: waits::of_missed(missed),
        next: "If the program can do without it, PMIX_OPTIONAL or PMIX_IMMEDIATE saves the wait.",
    });
    collectives.chain(gets).chain(missed).chain(of_losses(inspected)).collect()
}

/// Processes that the server has lost, by job.
fn of_losses(inspected: &Inspected) -> Vec<Finding> {
    let mut jobs: BTreeMap<&Nspace, Vec<u32>> = BTreeMap::new();
    for Lost { proc } in &inspected.lost {
        jobs.entry(&proc.nspace).or_default().push(proc.rank.0);
    }
    let finding = |(job, ranks): (&Nspace, Vec<u32>)| Finding {
        code: "lost",
        what: format!("job {}, {}: the process ended without PMIx_Finalize", escaped(&job.to_string()), listed(&ranks)),
        next: "It was killed, or crashed; the launcher's output may tell. Collectives go on without it.",
    };
    jobs.into_iter().map(finding).collect()
}

/// Jobs whose ranks have libraries of several releases.
fn of_releases(inspected: &Inspected) -> Vec<Finding> {
    let mut jobs: BTreeMap<&Nspace, BTreeMap<&str, Vec<u32>>> = BTreeMap::new();
    for Connection { proc, release, is_tool, .. } in &inspected.connections {
        if !is_tool {
            jobs.entry(&proc.nspace).or_default().entry(release).or_default().push(proc.rank.0);
        }
    }
    let mixed = jobs.into_iter().filter(|(_, releases)| releases.len() > 1);
    let finding = |(job, releases): (&Nspace, BTreeMap<&str, Vec<u32>>)| {
        let one = |(release, ranks): (&&str, &Vec<u32>)| format!("{} in {}", escaped(release), listed(ranks));
        let releases: Vec<_> = releases.iter().map(one).collect();
        Finding {
            code: "releases",
            what: format!(
                "job {}: libraries of several releases are connected: {}",
                escaped(&job.to_string()),
                releases.join("; ")
            ),
            next: "It may be meant. If not, LD_LIBRARY_PATH differs between ranks: pmixctl info, run as a rank, shows what they load.",
        }
    };
    mixed.map(finding).collect()
}

/// Full file systems below the segments.
fn of_directories(job: &str, ranks: &[Rank]) -> Option<Finding> {
    let process = ranks.iter().filter_map(|rank| rank.process.as_ref()).find(|process| process.directory.is_some())?;
    let (directory, from_here) = (process.directory.as_ref()?, process.directory_from_here()?);
    let room = statvfs(&from_here).ok().map(|stat| stat.blocks_available() * stat.fragment_size())?;
    (room < ROOM_MIN).then(|| Finding {
        code: "full",
        what: format!("job {job}: the file system of {} has {} KiB left", directory.display(), room / 1024),
        next: "New values may not fit and come over the socket; make room, or give the server another directory (PMIX_SERVER_TMPDIR).",
    })
}

/// "rank 3 (process 17)", or "ranks 0, 1 and 2 more".
fn named(ranks: &[&Rank]) -> String {
    match ranks {
        [one] => format!("rank {} (process {})", one.rank, one.process.as_ref().map_or(0, |process| process.pid)),
        some => listed(&some.iter().map(|rank| rank.rank).collect::<Vec<_>>()),
    }
}

/// "rank 3", or "ranks 0, 1 and 2 more".
fn listed(ranks: &[u32]) -> String {
    let names = waits::shortened(ranks.iter().map(ToString::to_string).collect());
    if ranks.len() == 1 { format!("rank {names}") } else { format!("ranks {names}") }
}

#[cfg(test)]
mod tests {
    use pmix_client::inspection::{Collective, Wait};
    use pmix_dstore::model::{Proc, Rank as Number};

    use super::*;

    /// The codes for a fence and a Get that have waited so long.
    fn codes(age: Duration) -> Vec<&'static str> {
        let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Number(rank));
        let fence = Collective {
            operation: "fence".into(),
            procs: vec![proc(0), proc(1)],
            named: 2,
            age,
            entered: vec![proc(0)],
            absent: vec![proc(1)],
            at_host: false,
        };
        let wait = Wait { asker: proc(0), of: proc(1), key: None, age, at_host: false };
        let inspected = Inspected { collectives: vec![fence], waits: vec![wait], ..Inspected::default() };
        of_waits(&inspected, &Processes::new()).into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn what_waits_for_a_moment_is_no_finding() {
        assert_eq!(codes(Duration::from_millis(900)), Vec::<&str>::new());
        assert_eq!(codes(Duration::from_millis(1100)), ["collective-waits", "get-waits"]);
    }
}
