//! PRRTE's daemons on several hosts: Open MPI 5 and 6 in the roots that `PMIX_TEST_OPENMPI5` and `PMIX_TEST_OPENMPI6` name, on hosts that
//! are namespaces of this machine (`tests/openmpi/cluster.sh`, which runs in the root). Our library is in daemons and ranks or in one
//! of them.
//!
//! A part of `make test-openmpi5`. `mpirun_hosts.rs` is the same for Open MPI 4.

use std::time::Duration;

use pmix_tests::foreign::{self, PRRTE_CRASHES_IN_CONNECT, PRRTE_LOSES_A_DAEMON};
use pmix_tests::sides::{self, AGENTS_GROUP, assert_like_stock, is_beyond_stock, on_all_sides, with_roots};
use pmix_tests::{Ended, Pair, Root, Run, Traces, times};

/// An abort takes a second or two.
const STANDS_AFTER: Duration = Duration::from_secs(40);

/// PRRTE 3.0.8 reads wrongly what a connect over several hosts brings, complains of it, and goes on: the connect succeeds. With the stock
/// library the complaint is of reading (line 1048), with ours of the registration that the misread data lead to (1063).
const CONNECT_COMPLAINTS: [&str; 2] =
    ["/src/prted/pmix/pmix_server_dyn.c at line 1048", "/src/prted/pmix/pmix_server_dyn.c at line 1063"];

/// Four hosts with two ranks each.
const HOSTS: &str = "login:2,n0:2,n1:2,n2:2";

/// Daemons in a chain, or as near to it as the release goes: the narrowest tree of PRRTE 5 has two branches.
fn chain(root: &Root) -> &'static str {
    if root.generation() == 5 {
        "--prtemca rml_base_radix 1 --map-by node"
    } else {
        "--prtemca rml_base_radix 2 --map-by node"
    }
}

/// A command on `hosts`, in the form of mpirun's `--host`: the host `login`, where it runs, and n0, n1 ... `options` are the script's.
fn on_hosts(root: &Root, traces: &Traces, hosts: &str, options: &str) -> Run {
    let others = hosts.split(',').filter(|host| !host.starts_with("login")).count();
    let run = root.enter().traced(traces).arg("/mnt/project/tests/openmpi/cluster.sh");
    run.args(&format!("--hosts {others} {options}"))
}

/// `mpirun` there. Like ssh, the agent hands over no environment: daemons get our library by PRRTE's own means.
fn mpirun(root: &Root, pair: Pair, traces: &Traces, hosts: &str) -> Run {
    launcher(pair, on_hosts(root, traces, hosts, "")).args(&format!("--host {hosts}"))
}

/// `mpirun` with the library of the pair's server in all daemons, as further words of a command.
fn launcher(pair: Pair, run: Run) -> Run {
    let run = match pair.server.is_ours() {
        true => run.args(&format!("env LD_LIBRARY_PATH={0} PRTE_MCA_plm_ssh_pass_libpath={0}", Root::FACADE)),
        false => run,
    };
    run.arg("mpirun")
}

/// A job of the program `mpi`: `options` are mpirun's, `args` the program's.
fn job(root: &Root, pair: Pair, traces: &Traces, hosts: &str, options: &str, args: &str) -> Run {
    mpirun(root, pair, traces, hosts).args(options).args(Root::program(pair)).args(args)
}

/// As [`sides::assert_well`], without the lines that any job on several hosts may print, and asserts that nothing is left.
fn assert_well(pair: Pair, traces: &Traces, ended: &mut Ended, count: usize) {
    let is_usual = |line: &&str| [AGENTS_GROUP].iter().chain(&CONNECT_COMPLAINTS).any(|usual| line.contains(usual));
    ended.stderr = ended.stderr.lines().filter(|line| !is_usual(line)).flat_map(|line| [line, "\n"]).collect();
    sides::assert_well(pair, ended, count);
    traces.assert_none_left(&*ended);
}

/// Runs a job, and asserts that it succeeds, has `count` processes, and leaves nothing on any host.
fn runs_well(root: &Root, pair: Pair, hosts: &str, options: &str, args: &str, count: usize) -> Ended {
    let traces = Traces::begin();
    let mut ended = job(root, pair, &traces, hosts, options, args).run();
    assert_well(pair, &traces, &mut ended, count);
    ended
}

/// The same for a job whose processes connect.
fn connects_well(root: &Root, pair: Pair, hosts: &str, options: &str, args: &str, count: usize) -> Ended {
    let faults = if root.generation() == 5 { &[PRRTE_LOSES_A_DAEMON, PRRTE_CRASHES_IN_CONNECT][..] } else { &[] };
    let (traces, mut ended) = foreign::despite(pair, faults, || {
        let traces = Traces::begin();
        let outcome = job(root, pair, &traces, hosts, options, args).attempt();
        (traces, outcome)
    });
    assert_well(pair, &traces, &mut ended, count);
    ended
}

/// The hosts of a layout, with the number of ranks on each if all slots are used.
fn places(hosts: &str) -> impl Iterator<Item = (&str, usize)> {
    hosts.split(',').filter_map(|host| host.split_once(':')).map(|(host, slots)| (host, slots.parse().unwrap_or(0)))
}

/// The number of ranks that reported to be on `host`.
fn ranks_on(ended: &Ended, host: &str) -> usize {
    ended.stdout.lines().filter(|line| line.contains(": library ") && line.ends_with(&format!(" on {host}"))).count()
}

/// Asserts that each host has as many ranks as it has slots.
fn assert_placed(ended: &Ended, hosts: &str) {
    for (host, count) in places(hosts) {
        assert_eq!(ranks_on(ended, host), count, "{host}: {ended}");
    }
}

/// Two and four daemons; ranks in turn, in blocks, unevenly; no ranks on mpirun's host.
const LAYOUTS: [(&str, &str); 4] = [
    ("login:2,n0:2", "--map-by slot"),
    (HOSTS, "--map-by node"),
    ("login:1,n0:4,n1:1,n2:2", "--map-by slot"),
    ("n0:1,n1:3", "--map-by slot"),
];

#[test]
fn daemons_exchange_the_ranks_values() {
    on_all_sides(|root, pair| {
        for (hosts, mapping) in LAYOUTS {
            let ended =
                runs_well(root, pair, hosts, mapping, "collectives", places(hosts).map(|(_, count)| count).sum());
            assert_placed(&ended, hosts);
        }
        let (hosts, size) = times((HOSTS, 8), ("login:8,n0:8,n1:8,n2:8", 32));
        runs_well(root, pair, hosts, chain(root), "collectives", size);
    });
}

#[test]
fn hosts_from_a_file() {
    on_all_sides(|root, pair| {
        let (traces, hosts) = (Traces::begin(), "login:1,n0:2,n1:1");
        let file = traces.own().join("hosts");
        std::fs::write(&file, "# a comment\nlogin slots=1\nn0 slots=2\nn1 slots=1\n").expect("a file of hosts");
        let run = launcher(pair, on_hosts(root, &traces, hosts, "")).arg("--hostfile").arg(&file);
        let mut ended = run.args("--map-by slot").args(Root::program(pair)).arg("collectives").run();
        assert_well(pair, &traces, &mut ended, 4);
        assert_placed(&ended, hosts);
    });
}

/// Under a stock server some of these jobs fail under Open MPI 4.
#[test]
fn values_of_other_hosts_that_are_asked_for_before_they_are_put() {
    on_all_sides(|root, pair| {
        for mapping in ["--map-by node", chain(root)] {
            for _ in 0..times(1, 25) {
                let options = format!("--mca pmix_base_async_modex 1 {mapping}");
                runs_well(root, pair, HOSTS, &options, "collectives", 8);
            }
        }
    });
}

/// Nothing is exchanged at the start, so daemons request each value from each other. One rank is later than all others.
#[test]
fn values_of_a_rank_that_begins_late() {
    on_all_sides(|root, pair| {
        // By node PRRTE 3.0.8 gives the ranks 0, 1, 2 and 4 on these hosts.
        let options = "--mca pmix_base_async_modex 1 --mca pmix_base_collect_data 0 --map-by slot";
        runs_well(root, pair, "login:1,n0:2,n1:1", options, "late", 4);
    });
}

#[test]
fn values_of_other_hosts_are_in_shared_memory() {
    let [both, daemons, _] = Pair::all();
    with_roots(|root| {
        for pair in [both, daemons] {
            runs_well(root, pair, "login:1,n0:2,n1:1", "--map-by slot", "segments /mnt/bin/pmixctl", 4);
        }
    });
}

#[test]
fn several_applications_in_one_job() {
    on_all_sides(|root, pair| {
        if is_beyond_stock(root, pair, "several applications crash") {
            return;
        }
        let traces = Traces::begin();
        let mut run = mpirun(root, pair, &traces, HOSTS);
        for (number, size) in [2, 1, 4].into_iter().enumerate() {
            run = if number > 0 { run.arg(":") } else { run };
            run = run.args(&format!("-np {size}")).args(Root::program(pair)).args("apps 3");
        }
        let mut ended = run.run();
        assert_well(pair, &traces, &mut ended, 7);
        for (application, size) in [(0, 2), (1, 1), (2, 4)] {
            assert_eq!(ended.count(&format!("is of application {application} of 3")), size, "{ended}");
        }
    });
}

/// The parents fill whole hosts, so the children are on other hosts.
#[test]
fn children_on_other_hosts() {
    on_all_sides(|root, pair| {
        for (hosts, size, args) in [("login:2,n0:2", 2, "spawn 2 1"), (HOSTS, 4, "spawn 4 1")] {
            let ended = connects_well(root, pair, hosts, &format!("-np {size} --map-by slot"), args, 2 * size);
            assert_eq!(ranks_on(&ended, "login"), 2, "{ended}");
        }
        if !is_beyond_stock(root, pair, "MPI_Comm_spawn_multiple crashes") {
            connects_well(root, pair, "login:2,n0:2,n1:1,n2:2", "-np 4 --map-by slot", "spawn-multiple", 4 + 3);
        }
    });
}

#[test]
fn halves_of_a_job_that_meet_by_a_published_name() {
    on_all_sides(|root, pair| {
        connects_well(root, pair, "login:1,n0:1", "", "rendezvous", 2);
        connects_well(root, pair, HOSTS, chain(root), "rendezvous", 8);
        runs_well(root, pair, "login:1,n0:1", "", "unpublish", 2);
    });
}

/// Runs a program without MPI on four hosts with these options of mpirun, and asserts that all it shows is as with the stock library.
fn prints_as_stock(options: &str) {
    let run = |root: &Root, pair: Pair, traces: &Traces| {
        mpirun(root, pair, traces, HOSTS).args(options).args("sh -c").arg("echo hello; echo oh >&2")
    };
    assert_like_stock(run, |stock| {
        assert_eq!((stock.code, stock.count("hello"), stock.count("oh")), (0, 8, 8), "{stock:?}");
    });
}

#[test]
fn output_of_other_hosts_is_tagged_as_by_the_stock_library() {
    prints_as_stock("--map-by node --output tag");
}

#[test]
fn the_mapping_is_shown_as_by_the_stock_library() {
    prints_as_stock("--map-by node --display map");
}

/// Runs a job on four hosts that fails because of rank 1 on n0, and asserts that no library says that it failed and that no process and
/// no file is left where mpirun is.
fn ends_badly(root: &Root, pair: Pair, args: &str) -> Ended {
    let (traces, ended) = sides::ends(root, pair, |root, pair, traces| {
        job(root, pair, traces, HOSTS, chain(root), args).deadline(STANDS_AFTER)
    });
    assert!(!ended.stderr.contains("failed inside the library"), "{pair}: {ended}");
    traces.assert_none_left(&ended);
    ended
}

/// Asserts that such a job ends with this status on all sides, says why, and leaves nothing on any host.
fn fails(args: &str, code: i32, reason: &str) {
    on_all_sides(|root, pair| {
        let ended = ends_badly(root, pair, args);
        assert_eq!(ended.code(), code, "{pair}: {ended}");
        assert!(ended.stderr.contains(reason), "{pair}: {ended}");
        assert!(left(&ended).is_empty(), "{pair}: {ended}");
    });
}

/// A job's leftovers on the hosts, from the script's list.
fn left(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("cluster.sh: left")).collect()
}

#[test]
fn a_rank_on_another_host_that_aborts() {
    fails("abort 7", 7, "MPI_ABORT was invoked on rank 1");
}

#[test]
fn a_rank_on_another_host_that_is_killed() {
    fails("crash 9", 137, "signal 9 (Killed)");
}

#[test]
fn a_rank_on_another_host_that_exits() {
    fails("exit 3", 3, "exited with non-zero status");
}

#[test]
fn a_rank_on_another_host_that_exits_before_it_begins() {
    fails("early 4", 4, "exited with non-zero status");
}

/// The directory with our library is missing on n1, so that its daemon, in the middle of the chain, takes the stock one. Its ranks have
/// ours.
#[test]
fn a_daemon_on_the_stock_library_is_named() {
    with_roots(|root| {
        // Left to itself, the stock library of 7.0 compresses with zstd, which ours does not read.
        let compression = if root.generation() == 5 { "" } else { "--pmixmca pcompress zlib" };
        let [both, ..] = Pair::all();
        let traces = Traces::begin();
        let run = launcher(both, on_hosts(root, &traces, HOSTS, &format!("--lacks n1 {}", Root::FACADE)));
        let run = run
            .args(&format!("--host {HOSTS} {} {compression}", chain(root)))
            .args(Root::program(both))
            .arg("collectives");
        let ended = run.run();
        assert_eq!((ended.code(), ended.count(" done"), ended.count("FAIL")), (0, 8, 0), "{ended}");
        let is_ours = |line: &&str| line.contains("offers pmix-dstore,");
        assert!(ended.stdout.lines().filter(is_ours).all(|line| !line.ends_with(" on n1")), "{ended}");
        assert_eq!((ended.stdout.lines().filter(is_ours).count(), ranks_on(&ended, "n1")), (6, 2), "{ended}");
        let told = ended.stderr.lines().filter(|line| line.contains("pmix-dstore server"));
        assert_eq!(told.clone().count(), 1, "{ended}");
        assert!(told.clone().all(|line| line.contains(": the stock library serves on n1; ")), "{ended}");
        traces.assert_none_left(&ended);
    });
}

/// The daemon's ranks end, too. The files of both stay on its host, because no process is left there to remove them.
#[test]
fn a_daemon_that_is_killed() {
    with_roots(|root| {
        let ends = |pair: Pair| {
            let ended = ends_badly(root, pair, "early-orphan");
            // Ranks that mpirun kills may leave Open MPI's own segments, with the stock library on both sides, too.
            let is_expected = |line: &&str| line.ends_with(" on n0") || line.contains("/dev/shm/sm_segment.");
            assert!(left(&ended).iter().all(is_expected), "{pair}: {ended}");
            ended.code()
        };
        let expected = ends(Pair::stock());
        for pair in Pair::all() {
            assert_eq!(ends(pair), expected, "{pair}");
        }
    });
}
