//! What a server of this library says of what waits: collectives, Gets, keys that did not come.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_client::inspection::{Collective, Missed, Wait};
use pmix_dstore::model::{Proc, ProcInfo};

use crate::value::{escaped, state};

/// No more ranks are named in a line.
const RANKS_MAX: usize = 16;

/// The processes of the server's jobs, by name.
pub type Processes = BTreeMap<Proc, JobProcess>;

/// A process as the server knows it.
#[derive(Clone, Debug)]
pub struct JobProcess {
    /// Its row in the process table.
    pub process: ProcInfo,
    /// It is connected now.
    pub is_connected: bool,
}

/// "fence of job since 4.0 s: entered 0, 1, 3; missing 2 (process 17, not connected)".
pub fn of_collective(collective: &Collective, processes: &Processes) -> String {
    let Collective { operation, procs, named, age, entered, absent, at_host } = collective;
    let mut line = format!("{operation} of {} since {}: ", names(procs, *named), seconds(*age));
    if *at_host {
        line += &format!("all {} processes of this node have entered; the host has not answered", entered.len());
    } else {
        line += &format!("entered {}; missing {}", ranks(entered, procs), in_detail(absent, procs, processes));
    }
    line
}

/// "job:1 waits since 4.0 s for key K of job:0, which has not put it".
pub fn of_wait(wait: &Wait, processes: &Processes) -> String {
    let Wait { asker, of, key, age, at_host } = wait;
    let what = key.as_ref().map_or_else(|| "the values".to_owned(), |key| format!("key {}", escaped(key)));
    let why =
        if *at_host { "; the host has not answered a request for it".to_owned() } else { in_brackets(of, processes) };
    format!("{} waits since {} for {what} of {}{why}", name(asker), seconds(*age), name(of))
}

/// "job:0 has not put the key K, for which 3 Gets waited in vain".
pub fn of_missed(missed: &Missed) -> String {
    let gets = if missed.count == 1 { "a Get".to_owned() } else { format!("{} Gets", missed.count) };
    format!("{} has not put the key {}, for which {gets} waited in vain", name(&missed.of), escaped(&missed.key))
}

fn seconds(age: Duration) -> String {
    format!("{:.1} s", age.as_secs_f64())
}

fn name(proc: &Proc) -> String {
    escaped(&proc.to_string())
}

/// The participants; a job whose ranks all take part is named without them.
fn names(procs: &[Proc], named: u64) -> String {
    let one = |proc: &Proc| if proc.rank.is_process() { name(proc) } else { escaped(&proc.nspace.to_string()) };
    shortened_of(procs.iter().map(one).collect(), named)
}

/// The ranks, of a collective of one job; full names otherwise.
fn ranks(some: &[Proc], procs: &[Proc]) -> String {
    if some.is_empty() { "none".to_owned() } else { shortened(some.iter().map(|proc| short(proc, procs)).collect()) }
}

fn short(proc: &Proc, procs: &[Proc]) -> String {
    if procs.iter().all(|other| other.nspace == proc.nspace) { proc.rank.to_string() } else { name(proc) }
}

fn in_detail(some: &[Proc], procs: &[Proc], processes: &Processes) -> String {
    let one = |proc: &Proc| short(proc, procs) + &in_brackets(proc, processes);
    if some.is_empty() { "none of this node".to_owned() } else { shortened(some.iter().map(one).collect()) }
}

fn in_brackets(proc: &Proc, processes: &Processes) -> String {
    let condition = processes.get(proc).map(condition).filter(|condition| !condition.is_empty());
    condition.map_or_else(String::new, |condition| format!(" ({condition})"))
}

/// "process 17, not connected".
fn condition(known: &JobProcess) -> String {
    let state = state(known.process.state);
    let word = match state.as_str() {
        // The host has registered or started it.
        "prepared" | "running" | "connected" => (!known.is_connected).then_some("not connected"),
        other => Some(other),
    };
    let pid = (known.process.pid > 0).then(|| format!("process {}", known.process.pid));
    pid.into_iter().chain(word.map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

/// The first names, and how many more there are.
pub fn shortened(names: Vec<String>) -> String {
    let all = names.len() as u64;
    shortened_of(names, all)
}

/// The first names of `all`, of which more may not be listed.
fn shortened_of(mut names: Vec<String>, all: u64) -> String {
    names.truncate(RANKS_MAX);
    let more = all.saturating_sub(names.len() as u64);
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn known(rank: u32, state: u8, is_connected: bool) -> (Proc, JobProcess) {
        let process = ProcInfo {
            proc: proc(rank),
            hostname: None,
            executable: None,
            pid: 10 + rank.cast_signed(),
            exit_code: 0,
            state,
        };
        (proc(rank), JobProcess { process, is_connected })
    }

    #[test]
    fn a_fence_names_who_is_missing_and_why() {
        let processes = Processes::from([known(0, 6, true), known(1, 5, false), known(2, 55, false)]);
        let mut fence = Collective {
            operation: "fence".into(),
            procs: vec![Proc { rank: Rank::WILDCARD, ..proc(0) }],
            named: 1,
            age: Duration::from_millis(4020),
            entered: vec![proc(3)],
            absent: vec![proc(0), proc(1), proc(2)],
            at_host: false,
        };
        assert_eq!(
            of_collective(&fence, &processes),
            "fence of job since 4.0 s: entered 3; missing 0 (process 10), 1 (process 11, not connected), \
             2 (process 12, ended without finalize)"
        );
        (fence.at_host, fence.absent) = (true, Vec::new());
        fence.entered = (0..4).map(proc).collect();
        assert_eq!(
            of_collective(&fence, &processes),
            "fence of job since 4.0 s: all 4 processes of this node have entered; the host has not answered"
        );
    }

    #[test]
    fn many_ranks_are_counted() {
        let all: Vec<Proc> = (0..20).map(proc).collect();
        assert!(names(&all, 1000).ends_with("job:15 and 984 more"), "{}", names(&all, 1000));
        assert!(ranks(&all, &all).ends_with("14, 15 and 4 more"), "{}", ranks(&all, &all));
    }

    #[test]
    fn a_get_names_whom_it_waits_for() {
        let processes = Processes::from([known(1, 5, true)]);
        let wait =
            Wait { asker: proc(0), of: proc(1), key: Some("k".into()), age: Duration::from_secs(3), at_host: false };
        assert_eq!(of_wait(&wait, &processes), "job:0 waits since 3.0 s for key k of job:1 (process 11)");
        let wait = Wait { key: None, at_host: true, ..wait };
        assert_eq!(
            of_wait(&wait, &processes),
            "job:0 waits since 3.0 s for the values of job:1; the host has not answered a request for it"
        );
        let missed = Missed { of: proc(1), key: "k".into(), count: 2 };
        assert_eq!(of_missed(&missed), "job:1 has not put the key k, for which 2 Gets waited in vain");
    }
}
