//! Open MPI's mpirun on several hosts, which are namespaces of this machine (`tests/openmpi/cluster.sh`). Its daemons,
//! each with its own server, exchange the ranks' values over Open MPI's own network. Our library is on both sides or on
//! one.
//!
//! Part of `make test-mpirun`. With `PMIX_TEST_LARGE=1` they are larger: 32 ranks, many more runs.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Pair, Run, Traces, left_out, pmixrun, repository, times};

/// Whether this machine can make the hosts. Reports the test as left out if not.
fn can_make_hosts() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        left_out("root", "making hosts of namespaces takes root");
    }
    is_root
}

/// A job of the program `mpi` on `hosts`, in the form of mpirun's `--host`: the host `login`, where mpirun runs, and
/// n0, n1 ... `options` are mpirun's, `args` the program's.
fn job(pair: Pair, traces: &Traces, hosts: &str, options: &str, args: &str) -> Run {
    let others = hosts.split(',').filter(|host| !host.starts_with("login")).count();
    // Like ssh, the agent passes no environment.
    let daemon = format!("env LD_LIBRARY_PATH={} orted", pair.server.directory().display());
    let run = Run::new(repository().join("tests/openmpi/cluster.sh"), pair.server).traced(traces);
    let run = run.args(&format!("--hosts {others} mpirun --oversubscribe --mca orte_launch_agent")).arg(daemon);
    let run = run.args(&format!("--host {hosts} {options}"));
    pair.program().iter().fold(run, Run::arg).args(args)
}

/// A job's leftovers on the hosts, from the script's list.
fn left(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("cluster.sh: left")).collect()
}

/// Runs a job, and asserts that it succeeds, has `count` processes, and leaves nothing on any host.
fn runs_well(pair: Pair, hosts: &str, options: &str, args: &str, count: usize) -> Ended {
    let (traces, mut ended) = pair.run(|traces| job(pair, traces, hosts, options, args));
    // mpirun and the agent both create the agent's process group; the second one may print a warning.
    let is_usual = |line: &&str| !line.contains("plm:rsh: Warning: setpgid(");
    ended.stderr = ended.stderr.lines().filter(is_usual).flat_map(|line| [line, "\n"]).collect();
    pair.assert_well(&ended, count);
    traces.assert_none_left(&ended);
    ended
}

/// The number of ranks that reported to be on `host`.
fn ranks_on(ended: &Ended, host: &str) -> usize {
    ended.stdout.lines().filter(|line| line.contains(": library ") && line.ends_with(&format!(" on {host}"))).count()
}

/// Two and four daemons; ranks in turn, in blocks, unevenly; no ranks on mpirun's host.
const LAYOUTS: [(&str, &str); 4] = [
    ("login:2,n0:2", "--map-by slot"),
    ("login:2,n0:2,n1:2,n2:2", "--map-by node"),
    ("login:1,n0:4,n1:1,n2:2", "--map-by slot"),
    ("n0:1,n1:3", "--map-by node"),
];

/// The hosts of a layout, with the number of ranks on each if all slots are used.
fn places(hosts: &str) -> impl Iterator<Item = (&str, usize)> {
    hosts.split(',').filter_map(|host| host.split_once(':')).map(|(host, slots)| (host, slots.parse().unwrap_or(0)))
}

/// Daemons in a chain, so that each exchange passes through all of them.
const CHAIN: &str = "--mca routed_radix 1 --map-by node";

#[test]
fn daemons_exchange_the_ranks_values() {
    if !can_make_hosts() {
        return;
    }
    for pair in Pair::all() {
        for (hosts, mapping) in LAYOUTS {
            let ended = runs_well(pair, hosts, mapping, "collectives", places(hosts).map(|(_, count)| count).sum());
            for (host, count) in places(hosts) {
                assert_eq!(ranks_on(&ended, host), count, "{host}: {ended}");
            }
        }
        let (hosts, size) = times(("login:2,n0:2,n1:2,n2:2", 8), ("login:8,n0:8,n1:8,n2:8", 32));
        runs_well(pair, hosts, CHAIN, "collectives", size);
    }
}

/// Under a stock server some of these jobs fail.
#[test]
fn values_of_other_hosts_that_are_asked_for_before_they_are_put() {
    if !can_make_hosts() {
        return;
    }
    let (hosts, size) = times(("login:2,n0:2,n1:2,n2:2", 8), ("login:8,n0:8,n1:8,n2:8", 32));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // The race occurs on a loaded machine.
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let all = scope.spawn(|| {
            for pair in Pair::all().into_iter().filter(|pair| pair.server != Library::Stock) {
                for round in 0..times(2, 50) {
                    let mapping = if round % 2 == 0 { "--map-by node" } else { CHAIN };
                    let options = format!("--mca pmix_base_async_modex 1 {mapping}");
                    runs_well(pair, hosts, &options, "collectives", size);
                }
            }
        });
        let ended = all.join();
        is_over.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Nothing is exchanged at the start, so daemons request each value from each other. One rank is later than all others.
#[test]
fn values_of_a_rank_that_begins_late() {
    if !can_make_hosts() {
        return;
    }
    for pair in Pair::all() {
        let options = "--mca pmix_base_async_modex 1 --mca pmix_base_collect_data 0 --map-by node";
        runs_well(pair, "login:1,n0:2,n1:1", options, "late", 4);
    }
}

#[test]
fn values_of_other_hosts_are_in_shared_memory() {
    if !can_make_hosts() {
        return;
    }
    let args = format!("segments {}", pmixrun().with_file_name("pmixctl").display());
    for pair in Pair::all().into_iter().filter(|pair| pair.server != Library::Stock) {
        runs_well(pair, "login:1,n0:2,n1:1", "--map-by slot", &args, 4);
    }
}

/// The parents fill whole hosts, so the children are on other hosts. On partly filled hosts the daemons disagree about
/// the placement, which each computes for itself, and Open MPI 4.1.4 then loses jobs.
#[test]
fn children_on_other_hosts() {
    if !can_make_hosts() {
        return;
    }
    let layouts = times(
        [("login:2,n0:2", 2, "spawn 2 1"), ("login:2,n0:2,n1:2,n2:2", 4, "spawn 4 1")],
        [("login:8,n0:8", 8, "spawn 8 1"), ("login:8,n0:8,n1:8,n2:8", 16, "spawn 16 1")],
    );
    for pair in Pair::all() {
        for (hosts, size, args) in layouts {
            let ended = runs_well(pair, hosts, &format!("-np {size}"), args, 2 * size);
            assert_eq!(ranks_on(&ended, "login"), times(2, 8), "{ended}");
        }
        runs_well(pair, "login:2,n0:2,n1:1,n2:2", "-np 4", "spawn-multiple", 4 + 3);
    }
}

#[test]
fn halves_of_a_job_that_meet_by_a_published_name() {
    if !can_make_hosts() {
        return;
    }
    let (hosts, size) = times(("login:2,n0:2,n1:2,n2:2", 8), ("login:8,n0:8,n1:8,n2:8", 32));
    for pair in Pair::all() {
        runs_well(pair, "login:1,n0:1", "", "rendezvous", 2);
        runs_well(pair, hosts, "--map-by node", "rendezvous", size);
        runs_well(pair, "login:1,n0:1", "", "unpublish", 2);
    }
}

/// Runs a job on four hosts that fails because of rank 1 on n0, and asserts that it ends as with the stock library.
fn fails(pairs: &[Pair], args: &str, code: i32, reason: &str) -> Vec<Ended> {
    let hosts = times("login:2,n0:2,n1:2,n2:2", "login:8,n0:8,n1:8,n2:8");
    let mut all = Vec::new();
    for pair in pairs.iter().filter(|_| can_make_hosts()) {
        for options in times(&[CHAIN][..], &[CHAIN, "--map-by node"]) {
            all.push(pair.assert_fails(|traces| job(*pair, traces, hosts, options, args), code, reason));
        }
    }
    all
}

/// The stock server deadlocks so often while a job is aborted that it is left out on several hosts.
#[test]
fn a_rank_on_another_host_that_aborts() {
    for ended in fails(&Pair::all()[..2], "abort 7", 7, "MPI_ABORT was invoked on rank 1") {
        assert!(left(&ended).is_empty(), "{ended}");
    }
}

#[test]
fn a_rank_on_another_host_that_is_killed() {
    for ended in fails(&Pair::all(), "crash 9", 137, "on node n0 exited on signal 9 (Killed)") {
        assert!(left(&ended).is_empty(), "{ended}");
    }
}

/// The daemon's ranks end, too. The files of both stay on its host, because no process is left there to remove them.
#[test]
fn a_daemon_that_is_killed() {
    for args in ["orphan", "early-orphan"] {
        for ended in fails(&Pair::all(), args, 205, "ORTE has lost communication with a remote daemon") {
            let left = left(&ended);
            assert!(left.iter().all(|line| line.ends_with(" on n0")), "{ended}");
        }
    }
}
