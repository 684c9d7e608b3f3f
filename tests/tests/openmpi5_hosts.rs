//! PRRTE's daemons on several hosts: Open MPI 5 and 6 in the roots that `PMIX_TEST_OPENMPI5` and `PMIX_TEST_OPENMPI6` name, on hosts that
//! are namespaces of this machine (`tests/openmpi/cluster.sh`, which runs in the root). Our library is in daemons and ranks or in one
//! of them.
//!
//! A part of `make test-openmpi5`. `mpirun_hosts.rs` is the same for Open MPI 4.

use std::time::Duration;

use pmix_tests::foreign::{self, PRRTE_STANDS};
use pmix_tests::{Ended, Library, Pair, Root, Run, Traces, left_out, times};

/// An abort takes a second or two.
const STANDS_AFTER: Duration = Duration::from_secs(40);

/// PRRTE 3.0.8 complains of the data of a connect over several hosts, with the stock library (`PMIX_ERROR ... at line 1048`) as with ours
/// (line 1063), and goes on: the connect succeeds.
const CONNECT_COMPLAINTS: [&str; 2] =
    ["/src/prted/pmix/pmix_server_dyn.c at line 1048", "/src/prted/pmix/pmix_server_dyn.c at line 1063"];

/// Four hosts with two ranks each.
const HOSTS: &str = "login:2,n0:2,n1:2,n2:2";

/// Runs a test in each root that is named, and reports it as left out if none is.
fn with_roots(test: impl Fn(&Root)) {
    match Root::named() {
        Ok(roots) => roots.iter().for_each(test),
        Err((what, reason)) => left_out(what, reason),
    }
}

/// Runs a test in each root with our library in daemons and ranks, in the daemons, and in the ranks.
fn on_all_sides(test: impl Fn(&Root, Pair)) {
    with_roots(|root| Pair::all().into_iter().for_each(|pair| test(root, pair)));
}

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

/// Asserts that a job of `count` processes ended well, said nothing else, had the libraries of `pair`, and left nothing.
fn assert_well(pair: Pair, traces: &Traces, ended: &mut Ended, count: usize) {
    // mpirun and the agent both create the agent's process group; the second one may print a warning.
    let is_complaint = |line: &str| CONNECT_COMPLAINTS.iter().any(|complaint| line.contains(complaint));
    let is_usual = |line: &&str| !line.contains("plm:ssh: Warning: setpgid(") && !is_complaint(line);
    ended.stderr = ended.stderr.lines().filter(is_usual).flat_map(|line| [line, "\n"]).collect();
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{pair}: {ended}");
    assert_eq!((ended.count(" done"), ended.count("FAIL")), (count, 0), "{pair}: {ended}");
    // Children have what their daemon has, or their parents.
    assert_eq!(ended.count(": library "), count, "{pair}: {ended}");
    let identity = Library::ours().identity();
    let of_ranks = if pair.ranks.is_ours() { count } else { 0 };
    assert_eq!(ended.count(&format!(": library {identity} daemon ")), of_ranks, "{pair}: {ended}");
    let of_daemons = if pair.server.is_ours() { count } else { 0 };
    assert_eq!(ended.count(&format!(" daemon {identity} offers pmix-dstore,")), of_daemons, "{pair}: {ended}");
    traces.assert_none_left(&*ended);
}

/// Runs a job, and asserts that it succeeds, has `count` processes, and leaves nothing on any host.
fn runs_well(root: &Root, pair: Pair, hosts: &str, options: &str, args: &str, count: usize) -> Ended {
    let traces = Traces::begin();
    let mut ended = job(root, pair, &traces, hosts, options, args).run();
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
        let options = "--mca pmix_base_async_modex 1 --mca pmix_base_collect_data 0 --map-by node";
        runs_well(root, pair, "login:1,n0:2,n1:1", options, "late", 4);
    });
}

#[test]
fn values_of_other_hosts_are_in_shared_memory() {
    on_all_sides(|root, pair| {
        if pair.server.is_ours() {
            runs_well(root, pair, "login:1,n0:2,n1:1", "--map-by slot", "segments /mnt/bin/pmixctl", 4);
        }
    });
}

/// PRRTE 3 with the stock library crashes on more than one application.
fn takes_several_applications(root: &Root, pair: Pair) -> bool {
    pair.server.is_ours() || root.generation() > 5
}

#[test]
fn several_applications_in_one_job() {
    on_all_sides(|root, pair| {
        if !takes_several_applications(root, pair) {
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
            let ended = runs_well(root, pair, hosts, &format!("-np {size} --map-by slot"), args, 2 * size);
            assert_eq!(ranks_on(&ended, "login"), 2, "{ended}");
        }
        if takes_several_applications(root, pair) {
            runs_well(root, pair, "login:2,n0:2,n1:1,n2:2", "-np 4 --map-by slot", "spawn-multiple", 4 + 3);
        }
    });
}

#[test]
fn halves_of_a_job_that_meet_by_a_published_name() {
    on_all_sides(|root, pair| {
        runs_well(root, pair, "login:1,n0:1", "", "rendezvous", 2);
        runs_well(root, pair, HOSTS, chain(root), "rendezvous", 8);
        runs_well(root, pair, "login:1,n0:1", "", "unpublish", 2);
    });
}

/// A job's output, in order, with the job's own number in the place of its name.
fn sorted_output(ended: &Ended) -> Vec<String> {
    let mut lines: Vec<String> = ended.stdout.lines().map(without_number).collect();
    lines.sort();
    lines
}

/// A line with `JOB` for the number in `prterun-login-NUMBER@1`.
fn without_number(line: &str) -> String {
    let Some((before, after)) = line.split_once("prterun-login-") else { return line.to_owned() };
    format!("{before}JOB{}", without_number(after.trim_start_matches(|c: char| c.is_ascii_digit())))
}

/// Runs a program without MPI on four hosts with these options of mpirun, with the stock library everywhere and with ours in the
/// daemons, and asserts that both print the same lines.
fn prints_as_stock(options: &str) {
    with_roots(|root| {
        let printed = |pair: Pair| {
            let traces = Traces::begin();
            let run = mpirun(root, pair, &traces, HOSTS).args(options).args("sh -c").arg("echo hello; echo oh >&2");
            let ended = run.run();
            traces.assert_none_left(&ended);
            assert_eq!(ended.code(), 0, "{pair}: {ended}");
            (sorted_output(&ended), ended)
        };
        let ((ours, ended), (stock, of_stock)) = (printed(Pair::all()[0]), printed(Pair::stock()));
        assert!(ours == stock, "{options}: {ended}\n{of_stock}");
        assert!(ended.count("hello") == 8, "{ended}");
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

/// Runs a job on four hosts that fails because of rank 1 on n0, and asserts that it ends with this status, says why and leaves
/// nothing.
fn fails(args: &str, code: i32, reason: &str) {
    on_all_sides(|root, pair| {
        let (traces, ended) = foreign::despite(pair, &[PRRTE_STANDS], || {
            let traces = Traces::begin();
            let run = job(root, pair, &traces, HOSTS, chain(root), args).deadline(STANDS_AFTER);
            (traces, run.attempt())
        });
        assert_eq!(ended.code(), code, "{pair}: {ended}");
        assert!(ended.stderr.contains(reason), "{pair}: {ended}");
        assert!(!ended.stderr.contains("failed inside the library"), "{pair}: {ended}");
        assert!(left(&ended).is_empty(), "{pair}: {ended}");
        traces.assert_none_left(&ended);
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
        // Under PRRTE 5 a job with daemons of both libraries does not begin: docs/openmpi.md.
        if root.generation() != 5 {
            return;
        }
        let [both, ..] = Pair::all();
        let traces = Traces::begin();
        let run = launcher(both, on_hosts(root, &traces, HOSTS, &format!("--lacks n1 {}", Root::FACADE)));
        let run = run.args(&format!("--host {HOSTS} {}", chain(root))).args(Root::program(both)).arg("collectives");
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
            let (traces, ended) = foreign::despite(pair, &[PRRTE_STANDS], || {
                let traces = Traces::begin();
                let run = job(root, pair, &traces, HOSTS, chain(root), "early-orphan").deadline(STANDS_AFTER);
                (traces, run.attempt())
            });
            assert!(left(&ended).iter().all(|line| line.ends_with(" on n0")), "{pair}: {ended}");
            assert!(!ended.stderr.contains("failed inside the library"), "{pair}: {ended}");
            traces.assert_none_left(&ended);
            ended.code()
        };
        let expected = ends(Pair::stock());
        for pair in Pair::all() {
            assert_eq!(ends(pair), expected, "{pair}");
        }
    });
}
