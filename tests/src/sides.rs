//! Jobs of Open MPI 5 and 6 in the roots that are named, with our library in daemons and ranks, in one of them, and in neither.

use crate::foreign::{self, PRRTE_IS_TOO_EARLY, PRRTE_STANDS};
use crate::{Ended, Library, Pair, Root, Run, Traces, left_out};

/// Runs a test in each root that is named, and reports what is not named as left out.
///
/// # Panics
/// As [`Root::named`].
pub fn with_roots(test: impl Fn(&Root)) {
    let roots = match Root::named() {
        Ok(roots) => roots,
        Err((what, reason)) => return left_out(what, reason),
    };
    roots.iter().for_each(test);
    for release in [5, 6] {
        if !roots.iter().any(|root| root.generation() == release) {
            left_out("openmpi5", format_args!("no root with Open MPI {release} is named"));
        }
    }
}

/// Runs a test in each root with our library in daemons and ranks, in the daemons, and in the ranks.
///
/// # Panics
/// As [`with_roots`].
pub fn on_all_sides(test: impl Fn(&Root, Pair)) {
    with_roots(|root| Pair::all().into_iter().for_each(|pair| test(root, pair)));
}

/// A job of `size` ranks of the program `mpi`.
pub fn job(root: &Root, pair: Pair, traces: &Traces, size: usize, args: &str) -> Run {
    root.mpirun(traces, pair).args(&format!("-np {size}")).args(Root::program(pair)).args(args)
}

/// Asserts that a job of `count` processes ended well and said nothing else, and which library they and their daemon had.
///
/// # Panics
/// If one of these does not hold.
pub fn assert_well(pair: Pair, ended: &Ended, count: usize) {
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{pair}: {ended}");
    assert_eq!(ended.count(" done"), count, "{pair}: {ended}");
    assert_eq!(ended.count("FAIL"), 0, "{pair}: {ended}");
    assert_mapped(pair, ended, count, count);
}

/// Asserts that a job is of `count` processes, that `ours` of them had our library where its ranks have it, and that all their daemons
/// had it where the server has it.
///
/// # Panics
/// If one of these does not hold.
pub fn assert_mapped(pair: Pair, ended: &Ended, count: usize, ours: usize) {
    let identity = Library::ours().identity();
    let expected = |is_ours: bool, count| if is_ours { count } else { 0 };
    assert_eq!(ended.count(": library "), count, "{pair}: {ended}");
    let in_ranks = expected(pair.ranks.is_ours(), ours);
    assert_eq!(ended.count(&format!(": library {identity} daemon ")), in_ranks, "{pair}: {ended}");
    let in_daemons = expected(pair.server.is_ours(), count);
    assert_eq!(ended.count(&format!(" daemon {identity} offers pmix-dstore,")), in_daemons, "{pair}: {ended}");
}

/// Of a warning on standard error: mpirun and its agent for other hosts both create the agent's process group, and the second one may
/// find it there.
pub const AGENTS_GROUP: &str = "plm:ssh: Warning: setpgid(";

/// What a user sees of a job, without what differs from job to job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The exit status.
    pub code: i32,
    /// The lines of standard output, sorted: those of several ranks come in any order.
    pub stdout: Vec<String>,
    /// The lines of standard error, sorted, without our server's own (`docs/openmpi.md`, "What a failed job prints").
    pub stderr: Vec<String>,
}

impl Seen {
    /// What is seen of this job. The lines with which `mpi` says what it has mapped are left out.
    pub fn of(ended: &Ended) -> Seen {
        let sorted = |text: &str, leave_out: &[&str]| {
            let lines = text.lines().filter(|line| !leave_out.iter().any(|text| line.contains(text)));
            let mut lines: Vec<_> = lines.map(constant).collect();
            lines.sort();
            lines
        };
        let stdout = sorted(&ended.stdout, &[": library "]);
        let stderr = sorted(&ended.stderr, &["pmix-dstore server ", AGENTS_GROUP]);
        Seen { code: ended.code(), stdout, stderr }
    }

    /// The number of lines with `text` on both streams.
    pub fn count(&self, text: &str) -> usize {
        self.stdout.iter().chain(&self.stderr).filter(|line| line.contains(text)).count()
    }
}

/// What is the same for each job in a line: `PID` for the number of a process in the name of a PRRTE job, `prterun-HOST-123@1`, and
/// behind a host's name, `[HOST:123]`; `TIME` for a time at the line's start. The stock library of 5.0.7 writes a zero byte behind some
/// texts.
fn constant(line: &str) -> String {
    const TIME: &str = "[Tue Nov 24 00:24:51 2026]";
    let line = line.replace('\0', "");
    let is_alike =
        |(c, of): (char, char)| c == of || c.is_alphanumeric() && of.is_alphanumeric() || of == '2' && c == ' ';
    let is_timed = line.len() > TIME.len() && line.chars().zip(TIME.chars()).all(is_alike);
    let (mut kept, mut rest) =
        if is_timed { ("[TIME]".to_owned(), &line[TIME.len()..]) } else { (String::new(), &*line) };
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| at + length);
        let around = (rest[..at].chars().next_back(), rest[end..].chars().next());
        let is_process = matches!(around, (Some('-'), Some('@')) | (Some(':'), Some(']')));
        kept.push_str(&rest[..at]);
        kept.push_str(if is_process { "PID" } else { &rest[at..end] });
        rest = &rest[end..];
    }
    kept + rest
}

/// Runs a job with the stock library on both sides and then on each side with ours, and asserts that it looks the same and leaves
/// nothing. `check` gets what is seen with the stock library.
///
/// # Panics
/// If it does not, or `check` does.
pub fn assert_like_stock(run: impl Fn(&Root, Pair, &Traces) -> Run, check: impl Fn(&Seen)) {
    compare(run, check, |_, _| ());
}

/// As [`assert_like_stock`], and asserts that `count` processes say that they have the library of their side.
///
/// # Panics
/// As [`assert_like_stock`], and if they do not.
pub fn assert_as_with_stock(run: impl Fn(&Root, Pair, &Traces) -> Run, count: usize, check: impl Fn(&Seen)) {
    compare(run, check, |pair, ended| assert_mapped(pair, ended, count, count));
}

fn compare(run: impl Fn(&Root, Pair, &Traces) -> Run, check_stock: impl Fn(&Seen), check_ours: impl Fn(Pair, &Ended)) {
    with_roots(|root| {
        let (_, stock) = ends(root, Pair::stock(), &run);
        let wanted = Seen::of(&stock);
        check_stock(&wanted);
        for pair in Pair::all() {
            let (traces, ended) = ends(root, pair, &run);
            assert_eq!(Seen::of(&ended), wanted, "{pair}: {ended}\nwith the stock library: {stock}");
            check_ours(pair, &ended);
            traces.assert_none_left(&ended);
        }
    });
}

/// Runs a job to its end.
///
/// # Panics
/// If it hangs, but not as PRRTE does with the stock library.
pub fn ends(root: &Root, pair: Pair, run: impl Fn(&Root, Pair, &Traces) -> Run) -> (Traces, Ended) {
    foreign::despite(pair, &[PRRTE_STANDS, PRRTE_IS_TOO_EARLY], || {
        let traces = Traces::begin();
        let outcome = run(root, pair, &traces).attempt();
        (traces, outcome)
    })
}

/// Whether the daemons cannot do this, since they are those of Open MPI 5 with the stock library. It is reported as left out then.
pub fn is_beyond_stock(root: &Root, pair: Pair, what: &str) -> bool {
    let is_beyond = root.generation() == 5 && !pair.server.is_ours();
    if is_beyond {
        left_out("stock", format_args!("{what}, Open MPI {}, {pair}: docs/openmpi.md", root.release()));
    }
    is_beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_processes_and_times_are_no_part_of_what_is_seen() {
        let line = "[prterun-n0-1234@1,10]<stdout>[n0:567]: rank 10 says 12@3:4";
        assert_eq!(constant(line), "[prterun-n0-PID@1,10]<stdout>[n0:PID]: rank 10 says 12@3:4");
        assert_eq!(constant("[Sun Nov  1 01:02:03 2026][1,0]<stdout>: it"), "[TIME][1,0]<stdout>: it");
    }
}
