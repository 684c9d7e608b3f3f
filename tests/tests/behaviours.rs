//! Undocumented behaviour that hosts rely on: one test for each row of the table in `docs/hosts.md`, in its order.
//! The host is `tests/programs/host.c`, the ranks are `tests/programs/behave.c`.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;

use pmix_tests::{Ended, Library, Pair, Run, Traces, plugin, program, program_with};

/// A host with the pair's server library and the arguments `host_args`. Its ranks run `command` with the pair's rank
/// library.
fn hosted(pair: Pair, traces: &Traces, host_args: &str, command: &str) -> Run {
    commanded(Run::new(program("host"), pair.server).traced(traces), pair, host_args, command)
}

fn commanded(run: Run, pair: Pair, host_args: &str, command: &str) -> Run {
    let run = run.args(host_args).arg("--rank-lib").arg(pair.ranks.directory());
    run.arg(program("behave")).args(command)
}

/// Runs a host. Asserts that `count` ranks succeeded, that the host had the server's library, and that nothing is left.
fn run(pair: Pair, traces: &Traces, run: Run, count: usize) -> Ended {
    let ended = run.run();
    assert_eq!(ended.code(), 0, "{pair:?}: {ended}");
    assert_eq!(ended.count("FAIL"), 0, "{pair:?}: {ended}");
    assert_eq!(ended.count(": through"), count, "{pair:?}: {ended}");
    for line in ended.stderr.lines().filter(|line| line.contains(": library ")) {
        assert!(pair.server.is_named_in(line), "{pair:?}: {ended}");
    }
    traces.assert_none_left(&ended);
    ended
}

/// As [`run`], in each of `pairs`; `check` inspects each result.
fn in_pairs(pairs: &[Pair], host_args: &str, command: &str, count: usize, check: impl Fn(&Ended)) {
    for &pair in pairs {
        let traces = Traces::begin();
        check(&run(pair, &traces, hosted(pair, &traces, host_args, command), count));
    }
}

/// The number of lines with `text` in the host's log.
fn told(ended: &Ended, text: &str) -> usize {
    ended.stderr.lines().filter(|line| line.starts_with("host ") && line.contains(text)).count()
}

/// 1
#[test]
fn client_connecteds_return_value_admits_the_client() {
    for (way, said) in [("callback", ", callback none"), ("silent", ", callback none"), ("second", ": connected2 ")] {
        in_pairs(&Pair::all(), &format!("-n 2 --connected {way}"), "meet", 2, |ended| {
            assert_eq!(told(ended, ": connected"), 2, "{ended}");
            assert_eq!(told(ended, said), 2, "{ended}");
            assert_eq!(told(ended, ": finalized "), 2, "{ended}");
            assert_eq!(told(ended, "object right, callback given"), 2, "{ended}");
        });
    }
}

/// 2: a stock server hangs.
#[test]
fn a_host_may_notify_inside_its_own_notify_upcall() {
    for pair in &Pair::all()[..2] {
        let traces = Traces::begin();
        let run = Run::new(program("host"), pair.server).traced(&traces).args("-n 3 --events echo --rank-lib");
        let ended = run.arg(pair.ranks.directory()).arg(program("client")).arg("--echo").succeed();
        assert_eq!(ended.count(" checks, 0 failed"), 3, "{ended}");
        assert_eq!(told(&ended, ": echo "), 1, "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// 3
#[test]
fn collectives_reach_the_host_only_across_servers() {
    let given = "given pmix.sorted.parr=bool:1 pmix.loc.col.st=status:0";
    let collecting = "given pmix.collect=bool:1 pmix.sorted.parr=bool:1 pmix.loc.col.st=status:0";
    in_pairs(&Pair::all(), "-n 3", "fence", 3, |ended| {
        for upcall in [": fence ", ": connect ", ": disconnect "] {
            assert_eq!(told(ended, upcall), 0, "{ended}");
        }
    });
    in_pairs(&Pair::all(), "-s 2 -n 2", "fence", 4, |ended| {
        // Fences of all ranks, with data and without. A fence of ranks 0 and 1, which are on one node, causes no
        // upcall.
        assert_eq!(told(ended, ": fence test-job:4294967294, "), 4, "{ended}");
        for server in 0..2 {
            let own = |text: &str| told(ended, &format!("host {server}: {text}"));
            assert_eq!(own("fence "), 2, "{ended}");
            assert_eq!(own(&format!("fence test-job:4294967294, 0 bytes, {given}")), 1, "{ended}");
            let with_data =
                |line: &&str| line.starts_with(&format!("host {server}: fence ")) && line.ends_with(collecting);
            let line = ended.stderr.lines().find(with_data);
            assert!(line.is_some_and(|line| !line.contains(" 0 bytes")), "{ended}");
            for upcall in ["connect", "disconnect"] {
                assert_eq!(own(&format!("{upcall} test-job:4294967294, 0 bytes, {given}")), 1, "{ended}");
                assert_eq!(own(&format!("{upcall} ")), 1, "{ended}");
            }
        }
    });
}

/// 4
#[test]
fn direct_modex_names_the_key_and_waits_for_the_commit() {
    in_pairs(&Pair::all(), "-n 3", "ask", 3, |ended| assert_eq!(told(ended, "direct modex"), 0, "{ended}"));
    in_pairs(&Pair::all(), "-s 2 -n 2", "ask", 4, |ended| {
        for rank in [2, 3] {
            assert_eq!(told(ended, &format!("host 0: direct modex test-job:{rank} t.late")), 1, "{ended}");
        }
        assert_eq!(told(ended, "direct modex"), 2, "{ended}");
    });
}

/// 5
#[test]
fn init_and_finalize_twice_and_fences_without_procs() {
    in_pairs(&Pair::all(), "-n 2", "twice", 2, |ended| {
        assert_eq!(told(ended, ": connected "), 2, "{ended}");
        assert_eq!(told(ended, ": finalized "), 2, "{ended}");
    });
}

/// 6
#[test]
fn fence_and_connect_span_two_namespaces() {
    in_pairs(&Pair::all(), "-n 3", "spawn", 5, |ended| {
        assert_eq!(told(ended, ": spawn "), 1, "{ended}");
        assert_eq!(told(ended, ": fence ") + told(ended, ": connect "), 0, "{ended}");
    });
    in_pairs(&Pair::all(), "-s 2 -n 2", "spawn", 6, |ended| {
        let both = " test-job:4294967294 test-job-0-1:4294967294, ";
        for (upcall, count) in [("connect", 2), ("fence", 4), ("disconnect", 2)] {
            assert_eq!(told(ended, &format!(": {upcall}{both}")), count, "{upcall}: {ended}");
        }
    });
}

/// 7
#[test]
fn a_lookup_may_be_answered_long_after() {
    let user = nix::unistd::geteuid();
    let given = format!("pmix.euid=uint32:{user}");
    for host_args in ["-n 3", "-s 2 -n 2"] {
        let count = if host_args.contains("-s") { 4 } else { 3 };
        in_pairs(&Pair::all(), host_args, "publish", count, |ended| {
            let waits = format!(", given pmix.wait=bool:1 pmix.timeout=int:600 {given}");
            assert_eq!(told(ended, &waits), 2 * (count - 1), "{ended}");
            let lookups = told(ended, ": lookup PORT:nextcid:send:0 by ");
            assert_eq!(lookups, count - 1, "{ended}");
            let published = format!(": publish PORT:nextcid:send:0 by 0, given PORT:nextcid:send:0 {given}");
            assert_eq!(told(ended, &published), 1, "{ended}");
        });
    }
}

/// 8
#[test]
fn internally_stored_values_are_found_at_once() {
    in_pairs(&Pair::all(), "-n 2 --as mpirun", "store", 2, |ended| {
        assert_eq!(told(ended, ": own t.uri: test-host.uri"), 1, "{ended}");
        assert_eq!(told(ended, ": own t.not.stored: NOT-FOUND"), 1, "{ended}");
        assert_eq!(told(ended, "direct modex"), 0, "{ended}");
    });
}

/// 9
#[test]
fn clean_up_is_registered_without_the_host() {
    for pair in Pair::all() {
        let traces = Traces::begin();
        let directory = traces.own().join("clean-up");
        fs::create_dir(&directory).expect("a directory of the test");
        let command = format!("clean-up {}", directory.display());
        let ended = run(pair, &traces, hosted(pair, &traces, "-n 2", &command), 2);
        assert_eq!(told(&ended, "job control"), 0, "{ended}");
        let left: Vec<_> = fs::read_dir(&directory).expect("the directory").collect();
        assert!(left.is_empty(), "{left:?}: {ended}");
    }
}

/// 10
#[test]
fn bytes_are_logged_with_their_source() {
    in_pairs(&Pair::all(), "-n 2", "log", 2, |ended| {
        for rank in 0..2 {
            let line =
                format!("log pmix.log.msg by {rank}: help of {rank}, given pmix.log.source=proc:test-job:{rank}");
            assert_eq!(told(ended, &line), 1, "{ended}");
        }
    });
}

/// 11: how Slurm finds the library, what it omits from registrations, and its types.
#[test]
fn a_host_that_opens_the_library_by_its_path() {
    for pair in Pair::all() {
        let traces = Traces::begin();
        // The environment names the other library: the path decides.
        let other = if pair.server == Library::Stock { Library::ours() } else { Library::Stock };
        let opener = Run::new(program("opener"), other).traced(&traces);
        let opener = opener.arg(pair.server.directory().join("libpmix.so")).arg(plugin("host"));
        let command = if pair.server == Library::Stock { "types" } else { "types leader" };
        let ended = run(pair, &traces, commanded(opener, pair, "-n 2 --as slurm", command), 2);
        assert_eq!(told(&ended, ": library "), 1, "{ended}");
    }
}

/// 12: the other ranks commit nothing before all requests are answered.
#[test]
fn unknown_values_are_not_waited_for() {
    in_pairs(&Pair::all(), "-n 3 --as mpirun", "miss", 3, |ended| {
        assert_eq!(told(ended, "direct modex"), 0, "{ended}");
    });
    in_pairs(&Pair::all(), "-s 2 -n 2 --as mpirun", "miss", 4, |_| ());
}

/// 13: under a stock server without ranks of the namespace, one of two ranks gets no data of it.
#[test]
fn namespaces_without_data_and_without_local_ranks() {
    in_pairs(&Pair::all()[..2], "-s 2 -n 2 --as mpirun", "spawn nodeB", 6, |ended| {
        assert_eq!(told(ended, "host 0: open test-job-0-1, 0 ranks here"), 1, "{ended}");
        assert_eq!(told(ended, "host 1: open test-job-0-1, 2 ranks here"), 1, "{ended}");
    });
}

/// 14
#[test]
fn unpublish_without_keys_is_the_hosts_matter() {
    in_pairs(&Pair::all(), "-n 2", "unpublish", 2, |ended| {
        assert_eq!(told(ended, ": unpublish nothing by "), 2, "{ended}");
        assert_eq!(told(ended, ": unpublish t."), 2, "{ended}");
    });
}

/// 15: the name of the variable with the server's address selects a release, and the client uses that release's
/// encoding.
#[test]
fn client_and_server_of_different_versions_meet() {
    let names = ["URI41", "URI4", "URI3", "URI21", "URI2"];
    for pair in Pair::all() {
        for kept in names {
            let traces = Traces::begin();
            let run_it = Run::new(program("host"), pair.server).traced(&traces).args("-s 2 -n 2 --rank-lib");
            let mut run_it = run_it.arg(pair.ranks.directory()).arg("env");
            for name in names.iter().filter(|name| **name != kept) {
                run_it = run_it.arg("-u").arg(format!("PMIX_SERVER_{name}"));
            }
            run(pair, &traces, run_it.arg(program("behave")).arg("spawn"), 6);
        }
    }
}

/// 16
#[test]
fn open_mpi_under_another_launcher_knows_its_job_by_a_variable() {
    for pair in Pair::all() {
        for (variable, said) in [("JSM_JSRUN_PORT=1", " of 3: library "), ("UNRELATED=1", "rank 0 of 1: library ")] {
            let traces = Traces::begin();
            // Make Open MPI's session directory here, with one in it: singletons all try to make it, and in Open MPI a process
            // fails if another one makes it first, or removes it between two steps because it is empty.
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
            let sessions = traces.directory().join(format!("ompi.{}.{}", host.trim(), nix::unistd::getuid()));
            DirBuilder::new().mode(0o700).create(&sessions).unwrap();
            let kept = sessions.join("kept");
            fs::create_dir(&kept).unwrap();
            let run = Run::new(program("host"), pair.server).traced(&traces).args("-n 3 --env").arg(variable);
            let ended = run.arg("--rank-lib").arg(pair.ranks.directory()).arg(program("mpi")).arg("hello").succeed();
            assert_eq!(ended.count(said), 3, "{pair:?}: {ended}");
            assert_eq!(ended.count("FAIL"), 0, "{pair:?}: {ended}");
            fs::remove_dir(&kept).unwrap();
            fs::remove_dir(&sessions).unwrap();
            traces.assert_none_left(&ended);
        }
    }
}

/// 17: each rank is started before the next one is registered, with an environment that was made before its
/// registration.
#[test]
fn flux_registers_a_rank_after_its_environment_was_made() {
    for pair in Pair::all().into_iter().chain([Pair::stock()]) {
        let command = match (pair.server, pair.ranks) {
            (Library::Stock, _) => "flux",
            (_, Library::Stock) => "flux early",
            _ => "flux early shared",
        };
        for (host_args, count) in [("-n 2 --as flux", 2), ("-s 2 -n 2 --as flux", 4)] {
            let traces = Traces::begin();
            let ended = run(pair, &traces, hosted(pair, &traces, host_args, command), count);
            assert_eq!(told(&ended, ": fence of some refused"), 0, "{ended}");
        }
    }
}

/// A forked child must not create files for the server: in a child the environment names TCP only.
#[test]
fn flux_in_a_forked_child_has_ranks_without_shared_memory() {
    in_pairs(&Pair::all(), "-s 2 -n 2 --as flux --environment child", "flux", 4, |_| ());
}

#[test]
fn open_mpi_runs_under_a_host_like_flux() {
    for pair in Pair::all().into_iter().chain([Pair::stock()]) {
        for host_args in ["-n 3 --as flux", "-s 2 -n 2 --as flux"] {
            let traces = Traces::begin();
            let run =
                Run::new(program("host"), pair.server).traced(&traces).args(host_args).args("--env JSM_JSRUN_PORT=1");
            let run = run.arg("--rank-lib").arg(pair.ranks.directory()).arg(program("mpi")).arg("hello");
            let ended = run.succeed();
            let count = if host_args.contains("-s 2") { 4 } else { 3 };
            assert_eq!(ended.count(&format!(" of {count}: library ")), count, "{pair:?}: {ended}");
            assert_eq!(ended.count("FAIL"), 0, "{pair:?}: {ended}");
            traces.assert_none_left(&ended);
        }
    }
}

/// Not in the table: when a rank ends, a stock server releases only ranks that are waiting, and it does not track
/// connects.
#[test]
fn a_rank_that_has_ended_well_is_not_waited_for() {
    in_pairs(&Pair::all()[..2], "-n 3", "leave", 3, |ended| {
        assert_eq!(ended.stderr.matches(" goes on without test-job:2, which finalized").count(), 4, "{ended}");
    });
}

/// Not in the table: a stock server tells stock ranks that such a key does not exist, and jobs of Open MPI 5 hang.
#[test]
fn immediate_gets_of_a_rank_that_has_committed_await_the_first_commits_of_its_neighbours() {
    for host_args in ["-n 3", "-n 3 --as slurm", "-n 3 --as mpirun"] {
        in_pairs(&Pair::all(), host_args, "early", 3, |_| ());
    }
}

/// Not in the table: those Gets end, though the neighbours wait for their end. Later ones find what is put then.
#[test]
fn immediate_gets_end_though_no_neighbour_commits() {
    in_pairs(&Pair::all(), "-n 2", "late", 2, |_| ());
}

/// Not in the table: ranks name all ranks of their node at once.
#[test]
fn ranks_of_a_node_fence_and_tell_each_other() {
    in_pairs(&Pair::all()[..2], "-s 2 -n 2", "node", 4, |ended| {
        assert_eq!(told(ended, ": fence "), 2, "{ended}");
    });
}

/// Not in the table: an attribute of queries has another key from 7.0 on, and a host may know either.
#[test]
fn a_host_hears_both_keys_of_a_query_for_qualifiers() {
    in_pairs(&Pair::all()[..2], "-n 1", "query", 1, |ended| {
        for (key, first, second) in [("qst", "quals", "supqual"), ("qlst", "supqual", "quals")] {
            let asked = format!("query pmix.qry.{key} by 0, given pmix.qry.{first}=bool:1");
            let line = ended.stderr.lines().find_map(|line| line.split_once(&asked));
            let rest = line.unwrap_or_else(|| panic!("{asked}: {ended}")).1;
            assert!(rest.contains(&format!(" pmix.qry.{second}=bool:1")), "{asked}: {ended}");
        }
    });
}

/// Not in the table: our headers pass the number of slots to our library; Debian's library reads the slots that it
/// knows.
#[test]
fn a_host_with_our_headers_is_asked_by_the_later_slots() {
    for (pair, log2) in [(Pair::all()[0], 1), (Pair::stock(), 0)] {
        let traces = Traces::begin();
        let host = Run::new(program_with("host", Library::ours()), pair.server).traced(&traces);
        let ended = run(pair, &traces, commanded(host, pair, "-n 1", "log"), 1);
        assert_eq!(told(&ended, "log2 by 0"), log2, "{ended}");
        assert_eq!(told(&ended, "log pmix.log.msg by 0: help of 0"), 1, "{ended}");
    }
}
