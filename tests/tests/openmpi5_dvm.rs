//! A DVM of PRRTE: `prte`, jobs of `prun`, `pterm`, and the tools of `libpmix-bin`, in the root directories of `openmpi5.rs`.
//!
//! The daemon, its tools and the ranks have our library or that of the release, in each combination. What holds with the stock library
//! everywhere holds in all of them; `docs/openmpi.md` has what was found.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pmix_tests::foreign::{PRRTE_NAMES_NOBODY, despite};
use pmix_tests::sides::{self, with_roots};
use pmix_tests::{Deadline, Ended, Library, Living, Pair, Root, Run, Traces, left_out, times};

/// The libraries of a DVM's daemon and ranks, and of the tools that connect to it.
#[derive(Clone, Copy, Debug)]
struct Sides {
    pair: Pair,
    tools: Library,
}

impl Sides {
    /// All combinations, the stock library everywhere among them.
    fn all() -> Vec<Sides> {
        let libraries = || [Library::ours(), Library::Stock];
        let pairs = libraries().into_iter().flat_map(|server| libraries().map(|ranks| Pair { server, ranks }));
        pairs.flat_map(|pair| libraries().map(|tools| Sides { pair, tools })).collect()
    }

    /// Those in which the daemon and its ranks have the same library.
    fn of_tools() -> Vec<Sides> {
        Sides::all().into_iter().filter(|sides| sides.pair.server == sides.pair.ranks).collect()
    }
}

impl fmt::Display for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, tools {}", self.pair, if self.tools.is_ours() { "ours" } else { "stock" })
    }
}

/// Runs a test in each root with these combinations.
fn on_sides(all: &[Sides], test: impl Fn(&Root, Sides)) {
    with_roots(|root| all.iter().for_each(|sides| test(root, *sides)));
}

/// Whether the daemon has the stock library of Open MPI 5, some of whose faults end a test.
fn is_stock_5(root: &Root, sides: Sides) -> bool {
    root.generation() == 5 && !sides.pair.server.is_ours()
}

/// A program of the release with a library.
fn with_library(run: Run, library: Library) -> Run {
    if library.is_ours() { run.args(&format!("env LD_LIBRARY_PATH={}", Root::FACADE)) } else { run }
}

/// Waits for something as long as for the end of a command.
///
/// # Panics
/// If it does not come.
fn wait_for(what: &str, mut has_come: impl FnMut() -> bool) {
    let mut deadline = Deadline::new(Run::deadline_by_default());
    while !has_come() {
        assert!(deadline.pause(), "waiting for {what}");
    }
}

/// A daemon that runs jobs until a tool ends it. If it is dropped before, it is killed.
struct Dvm<'a> {
    root: &'a Root,
    sides: Sides,
    traces: &'a Traces,
    /// Where its output is, and what it reports: `.out`, `.err`, `.uri`, `.pid`.
    file: PathBuf,
    /// Its number, once it takes jobs.
    pid: i32,
    running: Option<JoinHandle<Ended>>,
}

impl<'a> Dvm<'a> {
    /// Starts one and waits until it takes jobs; `name` is unique in the test.
    fn start(root: &'a Root, sides: Sides, traces: &'a Traces, name: &str, options: &str) -> Dvm<'a> {
        const SCRIPT: &str =
            r#"f=$1; shift; exec "$@" --report-uri "$f.uri" --report-pid "$f.pid" >"$f.out" 2>"$f.err""#;
        let file = traces.own().join(name);
        // It outlives its tools, each of which may take as long as any command.
        let run = root.enter().traced(traces).within(100).args("sh -c").arg(SCRIPT).arg("dvm").arg(&file);
        // Jobs at once need more slots than the machine has processors; `--bind-to none` does the rest.
        let run = with_library(run, sides.pair.server).args("prte --host localhost:64").args(options);
        let mut dvm = Dvm { root, sides, traces, file, pid: 0, running: Some(thread::spawn(move || run.run())) };
        wait_for("the DVM to be ready", || {
            // The number may come last.
            dvm.pid = dvm.said("pid").trim().parse().unwrap_or_default();
            let has_ended = dvm.running.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!has_ended, "{sides}: {}{}", dvm.said("out"), dvm.said("err"));
            dvm.pid > 0 && dvm.said("out").contains("DVM ready") && dvm.said("uri").contains('\n')
        });
        dvm
    }

    /// What a file of the daemon has.
    fn said(&self, what: &str) -> String {
        fs::read_to_string(self.file.with_extension(what)).unwrap_or_default()
    }

    /// Its address.
    fn uri(&self) -> String {
        self.said("uri").lines().next().expect("prte reports its address").to_owned()
    }

    /// A tool of the release.
    fn tool(&self, words: &str) -> Run {
        with_library(self.root.enter().traced(self.traces), self.sides.tools).args(words)
    }

    /// The ways to name this DVM, of which the first names none.
    fn ways(&self) -> Vec<String> {
        let file = self.file.display();
        let (pid, uri) = (self.pid, self.uri());
        let namespace = uri.split(";").next().and_then(|name| name.rsplit_once('.')).expect("NAMESPACE.RANK;ADDRESS").0;
        vec![
            String::new(),
            format!("--pid {pid}"),
            format!("--pid file:{file}.pid"),
            format!("--dvm-uri {uri}"),
            format!("--dvm-uri file:{file}.uri"),
            format!("--namespace {namespace}"),
        ]
    }

    /// A job of the program `mpi`.
    fn job(&self, way: &str, size: usize, args: &str) -> Run {
        self.tool(&format!("prun {way} --bind-to none -n {size}")).args(Root::program(self.sides.pair)).args(args)
    }

    /// What a tool has said. A stock daemon counts help texts that several ranks have sent, and tells the tools that are there by then.
    fn without_counts(&self, said: &str) -> String {
        if self.sides.pair.server.is_ours() {
            return said.to_owned();
        }
        let mut kept = said.replace('\0', "");
        for (text, is_counted) in [(" more process", true), ("Set MCA parameter \"base_help_aggregate\"", false)] {
            while let Some(at) = kept.find(text) {
                let number = kept[..at].chars().rev().take_while(|c| is_counted && c.is_ascii_digit()).count();
                let end = kept[at..].find('\n').map_or(kept.len(), |length| at + length + 1);
                kept.replace_range(at - number..end, "");
            }
        }
        kept
    }

    /// Runs a job of two ranks, and asserts that it ends well.
    fn runs(&self, way: &str) {
        let mut ended = self.job(way, 2, "collectives").run();
        ended.stderr = self.without_counts(&ended.stderr);
        sides::assert_well(self.sides.pair, &ended, 2);
    }

    /// The name of `pterm`, which differs from release to release.
    fn pterm_name(&self) -> String {
        let programs = fs::read_dir(self.root.path().join("usr/bin")).expect("the root has programs").flatten();
        let mut names = programs.filter_map(|entry| entry.file_name().into_string().ok());
        names.find(|name| name.starts_with("pterm")).expect("pterm of Open MPI")
    }

    fn pterm(&self, way: &str) -> Run {
        self.tool(&format!("{} {way}", self.pterm_name()))
    }

    /// Ends the daemon by `pterm`, and returns what it ended with.
    fn ends(mut self, way: &str) -> Ended {
        let ended = self.pterm(way).succeed();
        let said = (ended.stdout.as_str(), &*self.without_counts(&ended.stderr));
        assert_eq!(said, ("", "TERMINATING DVM...DONE\n"), "{}: {ended}", self.sides);
        self.ended()
    }

    /// Waits until the daemon has ended.
    fn ended(&mut self) -> Ended {
        wait_for("the DVM to end", || self.running.as_ref().is_none_or(JoinHandle::is_finished));
        let running = self.running.take().expect("a DVM ends once");
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// As [`Dvm::ends`], and asserts that the daemon said nothing and left nothing.
    fn ends_well(self, way: &str) {
        let (sides, traces, file) = (self.sides, self.traces, self.file.clone());
        let ended = self.ends(way);
        let said = |what| fs::read_to_string(file.with_extension(what)).unwrap_or_default();
        // PRRTE 3.0 may have input for a job that has ended.
        let err: Vec<_> = said("err").lines().filter(|line| !line.contains("iof_hnp.c")).map(str::to_owned).collect();
        assert_eq!((said("out").as_str(), &err[..], ended.code()), ("DVM ready\n", &[][..], 0), "{sides}: {ended}");
        traces.assert_none_left(format_args!("{sides}: {ended}"));
    }
}

impl Drop for Dvm<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Its number is not known where it has not begun to take jobs.
            while let Some(pid) = process(self.traces, "prte ") {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                thread::sleep(Duration::from_millis(5));
            }
            let _ = running.join();
        }
    }
}

#[test]
fn jobs_in_turn_and_at_once() {
    on_sides(&Sides::all(), |root, sides| {
        let traces = Traces::begin();
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        let ways = dvm.ways();
        ways.iter().for_each(|way| dvm.runs(way));
        let in_turn = || (0..times(4, 194)).for_each(|job| dvm.runs(&ways[job % ways.len()]));
        // A prun with the stock library is a server that a search finds, too.
        let named = if sides.tools.is_ours() { &ways[..] } else { &ways[1..] };
        let at_once = || {
            thread::scope(|scope| {
                let jobs = (0..times(4, 20)).map(|job| (scope, &dvm, &named[job % named.len()]));
                let jobs: Vec<_> = jobs.map(|(scope, dvm, way)| scope.spawn(move || dvm.runs(way))).collect();
                jobs.into_iter().for_each(|job| job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            });
        };
        at_once();
        let before = Living::watch(dvm.pid as u32);
        in_turn();
        at_once();
        before.assert_holds_no_more();
        dvm.ends_well("");
    });
}

#[test]
fn children_of_a_job_of_a_dvm() {
    on_sides(&Sides::all(), |root, sides| {
        let traces = Traces::begin();
        if is_stock_5(root, sides) {
            return left_out("stock", format_args!("{sides}: with PRRTE 3.0 a prun after children hangs"));
        }
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        for _ in 0..times(2, 10) {
            let ended = dvm.job("", 1, "spawn 1 1").run();
            assert_eq!((ended.code(), ended.stderr.as_str(), ended.count("FAIL")), (0, "", 0), "{sides}: {ended}");
            assert_eq!(ended.count("spawn rank 0 done"), 1, "{sides}: {ended}");
            // The library of 5.0 forwards no output of children to prun. The last line may come when prun has ended.
            if root.generation() >= 6 {
                assert_eq!(ended.count("child rank 0 of 1"), 1, "{sides}: {ended}");
            }
        }
        dvm.ends_well("");
    });
}

#[test]
fn a_search_that_finds_two_is_no_choice() {
    on_sides(&Sides::of_tools(), |root, sides| {
        let traces = Traces::begin();
        let dvms = ["one", "two"].map(|name| Dvm::start(root, sides, &traces, name, ""));
        for tool in [dvms[0].job("", 1, "hello"), dvms[0].pterm("")] {
            let ended = tool.run();
            assert_eq!(ended.code(), 1, "{sides}: {ended}");
            assert!(ended.stderr.contains("failed to initialize"), "{sides}: {ended}");
        }
        let [one, two] = &dvms;
        for dvm in [one, two, one] {
            dvm.ways()[1..].iter().for_each(|way| dvm.runs(way));
        }
        let [one, two] = dvms;
        let way = one.ways()[1].clone();
        one.ends(&way);
        two.runs("");
        two.ends_well("");
    });
}

#[test]
fn the_files_of_a_killed_dvm_lead_nowhere() {
    on_sides(&Sides::of_tools(), |root, sides| {
        let traces = Traces::begin();
        let mut dead = Dvm::start(root, sides, &traces, "dead", "");
        dead.runs("");
        let ways = dead.ways();
        kill(Pid::from_raw(dead.pid), Signal::SIGKILL).expect("prte runs");
        dead.ended();
        for way in &ways {
            for tool in [dead.job(way, 1, "hello"), dead.pterm(way)] {
                let ended = tool.run();
                assert_eq!(ended.code(), 1, "{sides}: {ended}");
                assert!(ended.stderr.contains("failed to initialize"), "{sides}: {ended}");
            }
        }
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        dvm.ways()[1..].iter().for_each(|way| dvm.runs(way));
        // Tools with the stock library take the dead one for a second one.
        if sides.tools.is_ours() {
            dvm.runs("");
        }
        let way = dvm.ways()[1].clone();
        let ended = dvm.ends(&way);
        traces.assert_no_process_left(&ended);
    });
}

#[test]
fn a_dvm_that_serves_the_node_is_found_as_such() {
    on_sides(&Sides::of_tools(), |root, sides| {
        let traces = Traces::begin();
        let system = Dvm::start(root, sides, &traces, "system", "--system-server");
        system.runs("");
        let other = Dvm::start(root, sides, &traces, "other", "");
        for way in ["--system-server-only", "--system-server-first"] {
            system.runs(way);
        }
        // Without a word the stock library looks for sessions only, and finds two.
        if sides.tools.is_ours() {
            system.runs("");
        }
        let way = other.ways()[1].clone();
        other.runs(&way);
        other.ends(&way);
        system.ends_well("--system-server-only");
    });
}

#[test]
fn jobs_that_fail_leave_the_dvm_as_it_was() {
    on_sides(&Sides::all(), |root, sides| {
        let traces = Traces::begin();
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        for (args, code, reason) in [
            ("exit 3", 3, "exited with non-zero status"),
            ("early 4", 4, "exited with non-zero status"),
            ("abort 7", 7, "MPI_ABORT was invoked on rank 1"),
            ("crash", 139, ""),
        ] {
            let ended = dvm.job("", 2, args).run();
            assert_eq!(ended.code(), code, "{sides}: {ended}");
            assert!(ended.stderr.contains(reason), "{sides}: {ended}");
            dvm.runs("");
        }
        let ended = dvm.tool("prun -n 1 missing-program").run();
        assert_eq!(ended.code(), 75, "{sides}: {ended}");
        dvm.runs("");
        let ended = dvm.tool("prun -n 65 true").run();
        assert_eq!(ended.code(), 77, "{sides}: {ended}");
        // What PRRTE has to say goes through the stock library: to the tool where that is the server, else to prte's own stream.
        let said = if sides.pair.server.is_ours() { dvm.said("err") } else { ended.stderr.clone() };
        assert!(said.contains("not enough slots"), "{sides}: {said} {ended}");
        dvm.runs("");
        let ended = dvm.ends("");
        traces.assert_none_left(&ended);
    });
}

#[test]
fn input_and_output_pass_through_the_dvm() {
    on_sides(&Sides::of_tools(), |root, sides| {
        let traces = Traces::begin();
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        let text = "0123456789abcde\n".repeat(times(1 << 16, 20 << 16));
        let ended = dvm.tool("prun -n 1 cat").input(text.clone().into_bytes()).run();
        assert_eq!((ended.code(), ended.stderr.as_str(), ended.stdout.len()), (0, "", text.len()), "{sides}");
        assert!(ended.stdout == text, "{sides}: other bytes");
        let ended = dvm.tool("prun -n 2 --output tag sh -c").arg("echo out; echo err >&2").run();
        // Where one side is stock, 5.0.7 gives all lines the name of prun, or leaves the tags out.
        let is_ours = sides.tools.is_ours() && sides.pair.server.is_ours();
        if root.generation() == 5 && !is_ours {
            left_out("stock", format_args!("{sides}: 5.0.7 marks no line of prun with its stream"));
            return dvm.ends_well("");
        }
        let counts = ["<stdout>: out", "<stderr>: err"]
            .map(|line| ended.stdout.matches(line).count() + ended.stderr.matches(line).count());
        assert_eq!((ended.code(), counts), (0, [2, 2]), "{sides}: {ended}");
        let (_, ended) = despite(sides.pair, &[PRRTE_NAMES_NOBODY], || {
            ((), dvm.tool("prun -n 2 --output tag-detailed sh -c").arg("echo rank $$").attempt())
        });
        // "[JOB,RANK][HOST:PID]<stdout>: rank PID"
        let is_right = |line: &str| {
            let (mark, pid) = line.split_once("<stdout>: rank ").unwrap_or_default();
            !pid.is_empty() && mark.ends_with(&format!(":{pid}]")) && !mark.contains("unknown")
        };
        assert_eq!(ended.code(), 0, "{sides}: {ended}");
        assert_eq!(ended.stdout.lines().filter(|line| is_right(line)).count(), 2, "{sides}: {ended}");
        dvm.ends_well("");
    });
}

/// A job that lasts until it is killed: it has begun when this returns.
fn lasting_job(dvm: &Dvm<'_>, traces: &Traces) -> JoinHandle<Ended> {
    let begun = traces.own().join("begun");
    let _ = fs::remove_file(&begun);
    let run = dvm.tool("prun -n 1 sh -c").arg("echo $PPID >\"$1\"; exec sleep 1000").arg("job").arg(&begun);
    let running = thread::spawn(move || run.run());
    wait_for("the job to begin", || begun.exists() || running.is_finished());
    assert!(begun.exists(), "{:?}", running.join());
    running
}

/// The process of a traced command line that begins so.
fn process(traces: &Traces, words: &str) -> Option<i32> {
    traces.processes().into_iter().find(|(_, line)| line.starts_with(words)).map(|(pid, _)| pid as i32)
}

#[test]
fn a_killed_prun_leaves_the_dvm_as_it_was() {
    on_sides(&Sides::of_tools(), |root, sides| {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let traces = Traces::begin();
            let dvm = Dvm::start(root, sides, &traces, "dvm", "");
            let job = lasting_job(&dvm, &traces);
            let prun = process(&traces, "prun ").expect("prun runs");
            kill(Pid::from_raw(prun), signal).expect("prun runs");
            let ended = job.join().expect("prun ends");
            assert_eq!(ended.code(), 128 + signal as i32, "{sides}: {ended}");
            let way = dvm.ways()[1].clone();
            dvm.runs(&way);
            // The job itself may go on until the DVM ends; a killed prun leaves its directory.
            let ended = dvm.ends(&way);
            traces.assert_no_process_left(&ended);
        }
    });
}

#[test]
fn jobs_end_with_their_dvm() {
    on_sides(&Sides::of_tools(), |root, sides| {
        let traces = Traces::begin();
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        let job = lasting_job(&dvm, &traces);
        let way = dvm.ways()[1].clone();
        let ended = dvm.ends(&way);
        let of_job = job.join().expect("prun ends");
        assert!(of_job.code() != 0, "{sides}: {of_job}");
        traces.assert_no_process_left(format_args!("{sides}: {ended} {of_job}"));
    });
}

#[test]
fn tools_that_come_while_the_dvm_ends_do_not_hang() {
    on_sides(&Sides::of_tools(), |root, sides| {
        for _ in 0..times(2, 10) {
            let traces = Traces::begin();
            let dvm = Dvm::start(root, sides, &traces, "dvm", "");
            let way = dvm.ways()[3].clone();
            let pruns: Vec<_> = (0..4)
                .map(|wait| {
                    let run = dvm.tool("sh -c").arg("sleep 0.$0; exec \"$@\"").arg((5 * wait).to_string());
                    let run = run.args(&format!("prun {way} -n 1 true"));
                    thread::spawn(move || run.run())
                })
                .collect();
            let ended = dvm.ends(&way);
            pruns.into_iter().for_each(|prun| drop(prun.join().expect("prun ends")));
            traces.assert_no_process_left(format_args!("{sides}: {ended}"));
        }
    });
}

/// Another user has the address, as from a listing of processes.
#[test]
fn tools_of_another_user_are_refused() {
    on_sides(&Sides::of_tools(), |root, sides| {
        if is_stock_5(root, sides) {
            return left_out("stock", format_args!("{sides}: PRRTE 3.0 lets another user run jobs and end the DVM"));
        }
        let traces = Traces::begin();
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        // The test's own directories are closed to other users.
        let theirs = tempfile::tempdir().expect("a directory");
        fs::set_permissions(theirs.path(), fs::Permissions::from_mode(0o1777)).expect("a directory of the test");
        let way = dvm.ways()[3].clone();
        let user = "setpriv --reuid 60001 --regid 60001 --clear-groups env HOME=/nonexistent";
        for words in [format!("prun {way} -n 1 id"), format!("{} {way}", dvm.pterm_name())] {
            let ended = dvm.tool(user).args(&words).env("TMPDIR", theirs.path()).run();
            assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{sides}: {ended}");
            assert!(ended.stderr.contains("failed to initialize"), "{sides}: {ended}");
        }
        dvm.runs("");
        let ended = dvm.ends("");
        traces.assert_none_left(&ended);
    });
}

/// The tools of Debian's `libpmix-bin` need private state of the stock library, which they keep. `pquery` of both releases fails for
/// most keys, or crashes, under any server: but for two keys it is run only to see that the server lives on.
#[test]
fn the_tools_of_the_release_keep_their_library() {
    on_sides(&Sides::of_tools(), |root, sides| {
        if !root.path().join("usr/bin/pps").exists() {
            return left_out("openmpi5", "libpmix-bin is not installed in the root");
        }
        let traces = Traces::begin();
        let dvm = Dvm::start(root, sides, &traces, "dvm", "");
        dvm.runs("");
        let tool = |words: &str| root.enter().traced(&traces).args(words).run();
        let pid = dvm.pid;
        let ended = tool(&format!("pps --pid {pid}"));
        assert_eq!(ended.code(), 0, "{sides}: {ended}");
        // PRRTE 5.0 knows only the tools that are there. 3.0 names nobody.
        let tools = ended.count("Namespace ");
        assert_eq!(tools, usize::from(root.generation() >= 6), "{sides}: {ended}");
        let ended = tool(&format!("pattrs --pid {pid} --host-fns"));
        assert!(ended.code() == 0 && ended.stderr.contains("PMIx_Spawn"), "{sides}: {ended}");
        let ended = tool(&format!("palloc --pid {pid} --nodes 2"));
        let answer = if root.generation() >= 6 { "Allocation granted" } else { "PMIX_ERR_NOT_SUPPORTED" };
        assert!(
            ended.code() == 0 && ended.count(answer) + ended.stderr.matches(answer).count() == 1,
            "{sides}: {ended}"
        );
        let ended = tool(&format!("pquery --pid {pid} PMIX_QUERY_SPAWN_SUPPORT"));
        assert_eq!(ended.code(), if root.generation() >= 6 { 229 } else { 0 }, "{sides}: {ended}");
        // There are none, of which PRRTE 3.0 says "not found".
        let ended = tool(&format!("pquery --pid {pid} PMIX_QUERY_PSET_NAMES"));
        assert_eq!(ended.code(), if root.generation() >= 6 { 229 } else { 210 }, "{sides}: {ended}");
        tool(&format!("pquery --pid {pid} PMIX_QUERY_NAMESPACES"));
        dvm.runs("");
        let ended = dvm.ends("");
        traces.assert_none_left(format_args!("{sides}: {ended}"));
    });
}
