//! Open MPI 5 and 6 with their PRRTE, from other Debian releases in directories that `PMIX_TEST_OPENMPI5` and `PMIX_TEST_OPENMPI6`
//! name: our library in daemons and ranks, in one of them, and what the installation makes for it.
//!
//! `make test-openmpi5 ROOT=DIRECTORY` runs these alone, and makes the directory where it is not there; `RELEASE=sid` for Open MPI 6.
//! `docs/openmpi.md` has what was found.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pmix_tests::sides::{assert_mapped, assert_well, ends, is_beyond_stock, job, on_all_sides, with_roots};
use pmix_tests::{Ended, Library, Pair, Root, Traces, times};

/// An abort takes a second or two.
const STANDS_AFTER: Duration = Duration::from_secs(30);

/// Runs a job, and asserts that it succeeds, has `count` processes, and leaves nothing.
fn runs_well(root: &Root, pair: Pair, size: usize, args: &str, count: usize) {
    let traces = Traces::begin();
    let ended = job(root, pair, &traces, size, args).run();
    assert_well(pair, &ended, count);
    traces.assert_none_left(&ended);
}

/// Runs a job that fails on each side, and asserts that it ends with this status and says why.
fn fails(size: usize, args: &str, code: i32, reason: &str) {
    on_all_sides(|root, pair| {
        let (traces, ended) =
            ends(root, pair, |root, pair, traces| job(root, pair, traces, size, args).deadline(STANDS_AFTER));
        assert_eq!(ended.code(), code, "{pair}: {ended}");
        assert!(ended.stderr.contains(reason), "{pair}: {ended}");
        assert!(!ended.stderr.contains("failed inside the library"), "{pair}: {ended}");
        traces.assert_none_left(&ended);
    });
}

#[test]
fn collectives() {
    on_all_sides(|root, pair| {
        for size in [1, 2, 8, 32] {
            runs_well(root, pair, size, "collectives", size);
        }
    });
}

#[test]
fn one_variable_gives_daemons_and_ranks_our_library() {
    with_roots(|root| {
        let [both, ..] = Pair::all();
        let traces = Traces::begin();
        let ended = root.mpirun(&traces, both).args("-np 4 /mnt/bin/mpi collectives").run();
        assert_well(both, &ended, 4);
        traces.assert_none_left(&ended);
    });
}

#[test]
fn several_applications_in_one_job() {
    on_all_sides(|root, pair| {
        if is_beyond_stock(root, pair, "several applications crash") {
            return;
        }
        let traces = Traces::begin();
        let mut run = root.mpirun(&traces, pair);
        for (number, size) in [2, 1, 3].into_iter().enumerate() {
            run = if number > 0 { run.arg(":") } else { run };
            run = run.args(&format!("-np {size}")).args(Root::program(pair)).args("apps 3");
        }
        let ended = run.run();
        assert_well(pair, &ended, 6);
        for (application, size) in [(0, 2), (1, 1), (2, 3)] {
            assert_eq!(ended.count(&format!("is of application {application} of 3")), size, "{ended}");
        }
        traces.assert_none_left(&ended);
    });
}

#[test]
fn values_that_are_asked_for_before_they_are_put() {
    on_all_sides(|root, pair| {
        for _ in 0..times(2, 20) {
            let traces = Traces::begin();
            let run = root.mpirun(&traces, pair).args("--mca pmix_base_async_modex 1 -np 8").args(Root::program(pair));
            let ended = run.arg("collectives").run();
            assert_well(pair, &ended, 8);
            traces.assert_none_left(&ended);
        }
    });
}

#[test]
fn a_job_of_both_libraries() {
    let run = |root: &Root, pair: Pair| {
        let traces = Traces::begin();
        // Every other rank has the library of the release. The stock server keeps one store for the whole job.
        let (ours, theirs) = (Root::WITH_OURS, Root::WITH_THEIRS);
        let store = if pair.server.is_ours() { "" } else { "export PMIX_MCA_gds=hash;" };
        let script = format!(
            "{store} case $PMIX_RANK in *[02468]) exec {ours} collectives;; *) exec {theirs} collectives;; esac"
        );
        let ended = root.mpirun(&traces, pair).args("-np 4 sh -c").arg(script).run();
        assert_eq!((ended.code(), ended.stderr.as_str(), ended.count(" done")), (0, "", 4), "{pair}: {ended}");
        assert_mapped(pair, &ended, 4, 2);
        traces.assert_none_left(&ended);
    };
    let [both, _, ranks] = Pair::all();
    with_roots(|root| [both, ranks].into_iter().for_each(|pair| run(root, pair)));
}

#[test]
fn spawned_children() {
    on_all_sides(|root, pair| {
        for (size, args, count) in [(2, "spawn 2 3", 2 + 3 * 2), (4, "spawn 4 1", 4 + 4)] {
            let traces = Traces::begin();
            let ended = job(root, pair, &traces, size, args).run();
            assert_eq!((ended.code(), ended.stderr.as_str(), ended.count(" done")), (0, "", count), "{pair}: {ended}");
            assert_eq!(ended.count("FAIL"), 0, "{pair}: {ended}");
            traces.assert_none_left(&ended);
        }
    });
}

#[test]
fn children_of_two_kinds() {
    on_all_sides(|root, pair| {
        if is_beyond_stock(root, pair, "MPI_Comm_spawn_multiple crashes") {
            return;
        }
        let traces = Traces::begin();
        let ended = job(root, pair, &traces, 2, "spawn-multiple").run();
        assert_eq!((ended.code(), ended.stderr.as_str(), ended.count(" done")), (0, "", 2 + 3), "{pair}: {ended}");
        assert_eq!(ended.count("FAIL"), 0, "{pair}: {ended}");
        traces.assert_none_left(&ended);
    });
}

#[test]
fn halves_of_a_job_that_meet_by_a_published_name() {
    on_all_sides(|root, pair| {
        runs_well(root, pair, times(4, 16), "rendezvous", times(4, 16));
        runs_well(root, pair, 2, "unpublish", 2);
    });
}

#[test]
fn halves_of_a_job_that_meet_by_a_port_alone() {
    on_all_sides(|root, pair| runs_well(root, pair, 4, "meet-by-port", 4));
}

#[test]
fn a_process_without_a_launcher() {
    with_roots(|root| {
        let traces = Traces::begin();
        // Open MPI itself leaves its session directory, with the stock library, too.
        let ended = root.enter().traced(&traces).args(Root::WITH_OURS).arg("hello").run();
        let [_, _, ranks] = Pair::all();
        assert_well(ranks, &ended, 1);
    });
}

/// Runs a process without a launcher that spawns. Its daemon, which it starts itself, has the environment `$2`, and it has `$3`.
const SPAWNS_ALONE: &str = r#"
dir=$1 daemon=$2 own=$3
real=$(readlink -f /usr/bin/prte)
cp "$real" "$dir/prte"
printf '#!/bin/sh\nexec env %s "%s" "$@"\n' "$daemon" "$dir/prte" > "$dir/daemon"
chmod +x "$dir/daemon"
mount --bind "$dir/daemon" "$real"
exec env $own /mnt/bin/mpi spawn 1 2
"#;

#[test]
fn a_process_without_a_launcher_that_spawns() {
    on_all_sides(|root, pair| {
        let (theirs, ours) = ("-u LD_LIBRARY_PATH".to_owned(), |directory| format!("LD_LIBRARY_PATH={directory}"));
        let daemon = if pair.server.is_ours() { ours(Root::FACADE) } else { theirs.clone() };
        let own = if pair.ranks.is_ours() { ours("/mnt/lib") } else { theirs };
        let traces = Traces::begin();
        let run = root.enter().traced(&traces).args("sh -euc").arg(SPAWNS_ALONE).arg("alone");
        let ended = run.arg(traces.own()).arg(daemon).arg(own).run();
        assert_eq!((ended.code(), ended.stderr.as_str(), ended.count("FAIL")), (0, "", 0), "{pair}: {ended}");
        assert_eq!(ended.count("spawn rank 0 done"), 1, "{pair}: {ended}");
        // The stock library loses output of children whose parent ends soon.
        let children = ended.count("child rank 0 of 1: ");
        assert!(children <= 2, "{pair}: {ended}");
        let identity = Library::ours().identity();
        let of_library = ended.count(&format!(": library {identity} "));
        assert_eq!(of_library, if pair.ranks.is_ours() { 1 + children } else { 0 }, "{pair}: {ended}");
        let of_daemon = ended.count(&format!(" daemon {identity} "));
        assert_eq!(of_daemon, if pair.server.is_ours() { children } else { 0 }, "{pair}: {ended}");
        // Open MPI itself leaves its session directory, as above.
        traces.assert_no_process_left(&ended);
    });
}

/// Stock releases before 7.0 crash at its end.
#[test]
fn a_process_whose_server_has_ended_is_a_job_of_one() {
    with_roots(|root| {
        let traces = Traces::begin();
        let run = root.enter().traced(&traces).args("env LD_LIBRARY_PATH=/mnt/lib PMIX_NAMESPACE=gone PMIX_RANK=0");
        let ended = run.arg("PMIX_SERVER_URI41=gone.0;tcp4://127.0.0.1:1").args("/mnt/bin/mpi hello").run();
        assert_eq!((ended.code(), ended.count("rank 0 of 1: library"), ended.count("FAIL")), (0, 1, 0), "{ended}");
        assert!(ended.stderr.contains(": no connection to server gone:0 at 127.0.0.1:1 "), "{ended}");
        traces.assert_no_process_left(&ended);
    });
}

#[test]
fn programs_without_mpi() {
    on_all_sides(|root, pair| {
        let traces = Traces::begin();
        let ended = root.mpirun(&traces, pair).args("-np 4 echo hello").run();
        assert_eq!((ended.code(), ended.stderr.as_str(), ended.count("hello")), (0, "", 4), "{pair}: {ended}");
        traces.assert_none_left(&ended);
    });
}

#[test]
fn ranks_that_fail() {
    fails(2, "exit 3", 3, "exited with non-zero status");
    fails(2, "exit 0", 1, "exited without calling \"finalize\"");
    fails(2, "crash", 139, "signal 11 (Segmentation fault)");
    fails(2, "early 4", 4, "exited with non-zero status");
}

#[test]
fn a_rank_that_aborts() {
    fails(4, "abort 7", 7, "MPI_ABORT was invoked on rank 1");
}

// ---- the installation ----------------------------------------------------------------------------------------------------------

/// The PMIx names in the dynamic symbols of a file that `nm` lists with this option.
fn names(option: &str, file: &PathBuf) -> BTreeSet<String> {
    let listed = Command::new("nm").args(["-D", option]).arg(file).output().expect("nm of binutils");
    assert!(listed.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8_lossy(&listed.stdout);
    names.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// What the stock library alone has would be called there, where nothing is initialised.
#[test]
fn no_public_function_of_the_releases_is_missing() {
    with_roots(|root| {
        let ours = names("--defined-only", &Library::ours().file());
        let stock = root.path().join("usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2");
        let theirs = names("--defined-only", &stock);
        let missing: Vec<_> = theirs.difference(&ours).filter(|name| name.starts_with("PMIx_")).collect();
        assert!(theirs.contains("PMIx_Init") && missing.is_empty(), "{missing:?}");
    });
}

#[test]
fn the_check_finds_nothing_missing_for_prrte() {
    with_roots(|root| {
        let ended = root.enter().args("/mnt/bin/pmixctl prrte").arg("--directory").arg(Root::FACADE).succeed();
        assert!(ended.stdout.contains("stock library: /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2."), "{ended}");
        assert_eq!((ended.count("libprrte.so."), ended.count(", 0 of neither")), (1, 1), "{ended}");
        assert_eq!(ended.count("good: "), 1, "{ended}");
        // The tools of the release that need more than both have are named.
        let told =
            root.enter().args("/mnt/bin/pmixctl prrte --json --directory /mnt/lib/prrte /usr/bin/prte").succeed();
        assert!(told.stdout.contains("\"problems\": []"), "{told}");
    });
}

#[test]
fn ranks_say_which_library_serves_them() {
    with_roots(|root| {
        let [both, _, ranks] = Pair::all();
        for (pair, answer, is_ours) in [(both, ": this library", true), (ranks, ": the stock library", false)] {
            let traces = Traces::begin();
            let ended = root.mpirun(&traces, pair).args("-np 2 /mnt/bin/pmixctl server").run();
            assert_eq!((ended.stdout.lines().count(), ended.code() == 0), (ended.count(answer), is_ours), "{ended}");
            // mpirun ends a job whose first rank has failed, and the second one may not have answered then.
            assert!(ended.count(answer) >= if is_ours { 2 } else { 1 }, "{ended}");
            traces.assert_none_left(&ended);
        }
    });
}

/// Runs a script in a root, with a directory `$1` of its own in which it makes `lib/prrte` for a copy of the stock library there.
fn with_own_facade(root: &Root, script: &str) -> (Traces, Ended) {
    const BEGIN: &str = r#"
        dir=$1 stock=$1/stock/libpmix.so.2 real=$(readlink -f /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2)
        mkdir -p "$dir/lib/prrte" "$dir/stock"
        ln -s /mnt/lib/libpmix.so.2 "$dir/lib/libpmix.so.2"
        cp /mnt/bin/facade.so "$dir/lib/prrte/libpmix.so.2"
        ln -s ../libpmix.so.2 "$dir/lib/prrte/libpmix-dstore.so"
        install() { cp "$real" "$dir/stock/libpmix.so.2.$1" && ln -sfn "libpmix.so.2.$1" "$stock"; }
        link() { /mnt/bin/pmixctl prrte --link --directory "$dir/lib/prrte" "$@"; }
        check() { /mnt/bin/pmixctl prrte --directory "$dir/lib/prrte"; }
        job() { LD_LIBRARY_PATH=$dir/lib/prrte mpirun --oversubscribe -np 2 -x LD_LIBRARY_PATH=/mnt/lib "$@"; }
    "#;
    let traces = Traces::begin();
    let run = root.enter().traced(&traces).args("sh -euc").arg(format!("{BEGIN}\n{script}")).arg("facade");
    let ended = run.arg(traces.own()).run();
    (traces, ended)
}

#[test]
fn the_stock_library_can_be_upgraded() {
    with_roots(|root| {
        let script = r#"
            install 1 && link --stock "$stock" && job /mnt/bin/mpi collectives
            install 2 && rm "$dir/stock/libpmix.so.2.1" && check && job /mnt/bin/mpi collectives
        "#;
        let (traces, ended) = with_own_facade(root, script);
        assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended}");
        assert_eq!((ended.count("rank 0 done"), ended.count("stock/libpmix.so.2.2")), (2, 1), "{ended}");
        traces.assert_none_left(&ended);
    });
}

#[test]
fn a_stock_library_that_is_removed_is_told_of_in_one_line() {
    with_roots(|root| {
        let script = r#"
            install 1 && link --stock "$stock" >/dev/null && rm -r "$dir/stock"
            check | grep problem: | grep -v "neither library" || true
            status=0; job true || status=$?
            exit "$status"
        "#;
        let (traces, ended) = with_own_facade(root, script);
        assert_eq!(ended.code(), 127, "{ended}");
        let wanted = "prrte/libpmix-stock.so: a link that leads nowhere";
        assert_eq!((ended.stdout.lines().count(), ended.count(wanted)), (1, 1), "{ended}");
        let said: Vec<_> = ended.stderr.lines().collect();
        assert!(
            matches!(said[..], [line] if line.contains("libpmix-stock.so: cannot open shared object file")),
            "{ended}"
        );
        traces.assert_none_left(&ended);
    });
}

/// The file of the stock package is this library, as under a bind mount or an administrator's link.
#[test]
fn the_switch_to_our_library_is_no_stock_library() {
    with_roots(|root| {
        let script = r#"
            mount --bind /mnt/lib/libpmix.so.2 "$real"
            status=0; link || status=$?
            umount "$real"
            link && check >/dev/null && job /mnt/bin/mpi collectives
            exit "$status"
        "#;
        let (traces, ended) = with_own_facade(root, script);
        assert_eq!((ended.code(), ended.count("rank 1 done")), (1, 1), "{ended}");
        let said: Vec<_> = ended.stderr.lines().collect();
        let wanted = "it leads to this project's library, not to the stock one; once the stock library is installed, or with its file: pmixctl prrte --link";
        assert!(matches!(said[..], [line] if line.contains(wanted)), "{ended}");
        traces.assert_none_left(&ended);
    });
}
