//! Debian's unmodified Slurm on several nodes, which are namespaces (`tests/slurm/cluster.sh`), with our library in
//! slurmstepd, in the ranks, or in both.
//!
//! `make test-slurm` runs these alone. With `PMIX_TEST_LARGE=1` they are larger.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pmix_tests::foreign::{self, SLURM_IS_FIRST};
use pmix_tests::{Cluster, Deadline, Ended, Library, Pair, ROOT, Run, USERS, program, times};

/// The reference: the stock library on both sides.
const REFERENCE: Pair = Pair { server: Library::Stock, ranks: Library::Stock };

/// All pairs with our library on at least one side, and the reference.
fn pairs_and_reference() -> [Pair; 4] {
    let [both, server, ranks] = Pair::all();
    [both, server, ranks, REFERENCE]
}

/// By default, Debian's Slurm ends a fence without data on each node separately, and ranks of Open MPI sometimes crash
/// (`docs/slurm.md`). So if the stock library serves, this selects ring fences. Our server needs no setting.
fn fenced(pair: Pair, run: Run) -> Run {
    if pair.server == Library::Stock { in_a_ring(run) } else { run }
}

/// Selects ring fences for any server. Jobs without a first fence with data need this, because our servers learn of
/// each other from that fence.
fn in_a_ring(run: Run) -> Run {
    run.env("SLURM_PMIX_FENCE", "ring")
}

/// Runs a job of the program `mpi`.
fn run(cluster: &Cluster, pair: Pair, user: u32, layout: &str, args: &str) -> Ended {
    fenced(pair, cluster.job(pair, user, layout, args)).run()
}

/// Waits until the ranks of a job have made their files, `FILE.0`, `FILE.1` ..., and removes these.
fn arrived(file: &Path, ranks: usize) {
    let mut deadline = Deadline::new(Duration::from_secs(60));
    for rank in 0..ranks {
        let here = file.with_extension(rank.to_string());
        while fs::remove_file(&here).is_err() {
            assert!(deadline.pause(), "rank {rank} has not come");
        }
    }
}

#[test]
fn ranks_on_one_node_of_root_and_of_a_user() {
    let Some(cluster) = Cluster::start(1) else { return };
    for pair in Pair::all() {
        for (user, sizes) in [(ROOT, [1, 4, 32]), (USERS[0], [1, 4, times(8, 32)])] {
            for size in sizes {
                let ended = run(&cluster, pair, user, &format!("-n {size}"), "collectives");
                cluster.assert_well(pair, user, &ended, size);
            }
        }
    }
    cluster.end();
}

/// The ends of a step with a failing rank 1: name, exit status, text on stderr.
const ENDS: [(&str, i32, &str); 3] = [
    ("abort 7", 7, "MPI_ABORT was invoked on rank 1"),
    ("exit 3", 3, "task 1: Exited with exit code 3"),
    ("crash", 139, "task 1: Segmentation fault"),
];

/// The status of a step that Slurm has cancelled.
const KILLED: i32 = 137;

#[test]
fn a_rank_that_fails_ends_the_step_as_with_the_stock_library() {
    for pair in pairs_and_reference() {
        let Some(cluster) = Cluster::start(1) else { return };
        for user in [ROOT, USERS[0]] {
            for (args, code, reason) in ENDS {
                let job = || fenced(pair, cluster.job(pair, user, "-n 4", args));
                let ((), ended) = foreign::despite(pair, &[SLURM_IS_FIRST], || ((), job().attempt()));
                assert_eq!(ended.code(), code, "{pair:?}: {ended}");
                // With Open MPI 5 a stock slurmstepd loses what a rank says when it aborts.
                let is_lost = pair.server == Library::Stock && args.starts_with("abort") && !is_open_mpi_4();
                assert!(ended.stderr.contains(reason) || is_lost, "{pair:?}: {ended}");
                assert!(!ended.stderr.contains("failed inside the library"), "{pair:?}: {ended}");
                cluster.assert_mapped(pair, user, &ended, 4);
            }
            // The other ranks wait for a message of the killed one, outside the library.
            let ring = cluster.srun(pair, user, "-n 4").arg(program("ring")).env("RING_DIE", "1").run();
            assert_eq!(ring.code(), KILLED, "{pair:?}: {ring}");
            assert!(ring.stderr.contains("task 1: Killed"), "{pair:?}: {ring}");
        }
        // A slurmstepd with the stock library crashes in some aborted steps and leaves their files.
        if pair.server != Library::Stock {
            cluster.end();
        }
    }
}

#[test]
fn layouts_of_four_nodes() {
    let Some(cluster) = Cluster::start(4) else { return };
    let hosts = cluster.scratch().join("hosts");
    fs::write(&hosts, "n1\nn0\nn0\nn3\nn1\n").expect("a file");
    let layouts = [
        (4, "-N 1 -n 4"),
        (4, "-N 2 -n 4 -m cyclic"),
        (5, "-N 4 -n 5"),
        (8, "-N 4 -n 8 -m plane=3"),
        (times(8, 32), "-N 4 -m cyclic"),
        (5, "-m arbitrary"),
    ];
    for pair in Pair::all() {
        for (size, layout) in layouts {
            // With all values in a fence at the start, and with each value on request.
            for modex in ["0", "1"] {
                let job = cluster.job(pair, ROOT, &format!("{layout} -n {size}"), "collectives");
                let job = if modex == "0" { fenced(pair, job) } else { in_a_ring(job) };
                let job = job.env("OMPI_MCA_pmix_base_async_modex", modex);
                let job = if layout.contains("arbitrary") { job.env("SLURM_HOSTFILE", &hosts) } else { job };
                cluster.assert_well(pair, ROOT, &job.run(), size);
            }
        }
    }
    cluster.end();
}

#[test]
fn connections_between_the_daemons_of_every_kind() {
    let Some(cluster) = Cluster::start(4) else { return };
    let gate = cluster.scratch().join("gate");
    for pair in Pair::all() {
        for modex in ["0", "1"] {
            for early in ["false", "true"] {
                let job = in_a_ring(cluster.job(pair, ROOT, "-N 4 -n 6", "collectives"));
                let job = job.env("SLURM_PMIX_DIRECT_CONN", "true").env("SLURM_PMIX_DIRECT_CONN_EARLY", early);
                let ended = job.env("OMPI_MCA_pmix_base_async_modex", modex).run();
                cluster.assert_well(pair, ROOT, &ended, 6);
            }
        }
        // Without them Slurm has only the tree, which it ends on each node separately (docs/slurm.md): ranks crash on
        // messages that arrive while they are in `MPI_Init`. So all ranks leave it first.
        for modex in ["0", "1"] {
            fs::write(&gate, "").expect("the gate");
            let job = in_a_ring(cluster.job(pair, ROOT, "-N 4 -n 6", "wait").arg(&gate));
            let job = job.env("SLURM_PMIX_DIRECT_CONN", "false").env("OMPI_MCA_pmix_base_async_modex", modex);
            let running = thread::spawn(move || job.run());
            arrived(&gate, 6);
            fs::remove_file(&gate).expect("the gate");
            let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert_eq!((ended.code(), ended.count(" done"), ended.count("FAIL")), (0, 6, 0), "{pair:?}: {ended}");
            cluster.assert_mapped(pair, ROOT, &ended, 6);
            assert!(ended.stderr.contains("Tree-based collective will be used instead"), "{ended}");
        }
    }
    cluster.end();
}

/// Whether the programs are linked with Open MPI 4, not 5.
fn is_open_mpi_4() -> bool {
    let version = Command::new("ompi_info").arg("--version").output().expect("ompi_info of openmpi-bin is there");
    String::from_utf8_lossy(&version.stdout).contains("Open MPI v4.")
}

/// The function name in Slurm's log when it gets a fence upcall.
const FENCE: &str = "_fencenb_fn:";

#[test]
fn fences_of_one_node_are_not_the_hosts_and_others_are_asked_for_once_by_each_node() {
    let Some(cluster) = Cluster::start(4) else { return };
    for pair in pairs_and_reference() {
        let asked = |layout: &str, size| {
            let before: Vec<usize> = (0..4).map(|node| cluster.said(node, FENCE)).collect();
            let ended = run(&cluster, pair, ROOT, layout, "collectives");
            cluster.assert_well(pair, ROOT, &ended, size);
            (0..4).map(|node| cluster.said(node, FENCE) - before[node]).collect::<Vec<_>>()
        };
        assert_eq!(asked("-N 1 -n 6", 6), [0; 4], "{pair:?}");
        // Open MPI 4.1 has two fences in MPI_Init and one in MPI_Finalize, Open MPI 5 two more.
        let expected = if is_open_mpi_4() { 3 } else { 5 };
        assert_eq!(asked("-N 4 -n 6", 6), [expected; 4], "{pair:?}");
    }
    cluster.end();
}

/// Steps one after the other and then at the same time, in one job. `$0` is the program.
const BATCH: &str = r#"#!/bin/sh
for step in 1 2 3; do srun --quiet --mpi=pmix -N 2 -n 4 "$@" || echo "FAIL in a row: $?"; done
for step in 1 2 3 4; do srun --quiet --mpi=pmix --exact --mem=10 -N 2 -n 2 "$@" || echo "FAIL at once: $?" & done
wait
"#;

#[test]
fn a_batch_job_with_steps_in_a_row_and_at_once() {
    let Some(cluster) = Cluster::start(2) else { return };
    let (script, output) = (cluster.scratch().join("batch"), cluster.scratch().join("output"));
    fs::write(&script, BATCH).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a script");
    for pair in Pair::all() {
        for &user in times(&USERS[..1], &[ROOT, USERS[0]]) {
            cluster.serve(pair.server);
            let batch = fenced(pair, cluster.command(user, "sbatch", pair.ranks));
            let batch = batch.args("--quiet --wait -N 2 -n 8 -o").arg(&output).arg(&script).arg(program("mpi"));
            batch.args("collectives").succeed();
            let ended = cluster.command(ROOT, "cat", pair.ranks).arg(&output).succeed();
            fs::remove_file(&output).expect("the job's output");
            cluster.assert_well(pair, user, &ended, 3 * 4 + 4 * 2);
        }
    }
    cluster.end();
}

/// A program whose `PMIx_Init` finds no server: in a step of two tasks, in one of one task, in a shell of an allocation, in a batch script.
#[test]
fn only_task_0_of_a_step_without_pmix_tells_the_cure() {
    let Some(cluster) = Cluster::start(1) else { return };
    let command = |name: &str| cluster.command(USERS[0], name, Library::ours()).arg("--quiet");
    let alone = |run: Run| run.arg(program("stuck")).arg("none").arg(cluster.scratch()).run();
    let several = alone(command("srun").args("--mpi=none -n 2 --label"));
    let lines: Vec<&str> = several.stderr.lines().filter(|line| line.contains("pmix-dstore")).collect();
    let [line] = lines[..] else { panic!("{several}") };
    assert!(line.starts_with("0: ") && line.contains("task 0 of 2 of Slurm's step 0 "), "{several}");
    assert!(line.contains("srun --mpi=pmix"), "{several}");
    // Before the pages of Open MPI, which say that it was built without PMI. Those of task 1 may come earlier.
    let mpi = command("srun").args("--mpi=none -n 2 --label").arg(program("mpi")).arg("hello").run();
    let of_task_0: Vec<&str> = mpi.stderr.lines().filter(|line| line.starts_with("0: ")).collect();
    let at = |text: &str| of_task_0.iter().position(|line| line.contains(text));
    let (cure, pages) = (at("srun --mpi=pmix starts them as one"), at("PMI support"));
    assert!(cure.is_some() && cure < pages, "{mpi}");
    let one = alone(command("srun").args("--mpi=none -n 1"));
    let in_shell = alone(command("salloc").args("-n 2"));
    for silent in [one, in_shell] {
        // Its PMIx_Init has found no server, as above.
        assert!(silent.code() == 1 && !silent.stderr.contains("pmix-dstore"), "{silent}");
    }
    let output = cluster.scratch().join("output");
    let script =
        format!("#!/bin/sh\n{} none {}; echo status $?\n", program("stuck").display(), cluster.scratch().display());
    let path = cluster.scratch().join("batch");
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
    command("sbatch").args("--wait -n 2 -o").arg(&output).arg(&path).run();
    let ended = cluster.command(ROOT, "cat", Library::ours()).arg(&output).succeed();
    assert_eq!(ended.stdout.trim(), "status 1", "{ended}");
    cluster.end();
}

/// Rank 1, alone on its node, is killed in a fence that the others enter afterwards. Under a stock server no rank
/// learns of it, because its node's part of the step ends too soon, and the others wait for ever.
#[test]
fn a_rank_killed_in_a_fence_of_several_nodes_releases_the_others() {
    let Some(cluster) = Cluster::start(2) else { return };
    let gate = cluster.scratch().join("gate");
    let waits = r#"while test -e "$0"; do sleep 0.02; done"#;
    let dies = format!(r#""$@" & {waits}; kill -9 $!; touch "$0.open"; wait $!; exit 137"#);
    let comes = r#"until test -e "$0.open"; do sleep 0.02; done; exec "$@""#;
    let script = format!(r#"if [ "$SLURM_PROCID" = 1 ]; then {dies}; else {comes}; fi"#);
    let [both, server, _] = Pair::all();
    for pair in [both, server] {
        for _ in 0..times(1, 10) {
            fs::write(&gate, "").expect("the gate");
            let before = cluster.said(1, FENCE);
            let job = fenced(pair, cluster.srun(pair, ROOT, "-N 2 -n 4 -m cyclic")).args("sh -c").arg(&script);
            let job = job.arg(&gate).arg(program("mpi")).arg("collectives");
            let running = thread::spawn(move || job.run());
            while cluster.said(1, FENCE) == before {
                assert!(!running.is_finished(), "the step has ended: {:?}", running.join());
                thread::sleep(Duration::from_millis(5));
            }
            fs::remove_file(&gate).expect("the gate");
            let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert_eq!(ended.code(), 137, "{pair:?}: {ended}");
            // Slurm may kill the rank's shell before the shell has reported the rank's end, and even before it has
            // released the others.
            let told = ["task 1: Exited with exit code 137", "task 1: Killed"];
            assert!(told.iter().any(|told| ended.stderr.contains(told)), "{pair:?}: {ended}");
            cluster.assert_no_steps(&ended);
            let _ = fs::remove_file(gate.with_extension("open"));
        }
    }
    cluster.end();
}

/// The daemons of the step are connected by then. Only the next step needs slurmd again.
#[test]
fn a_step_goes_on_when_a_slurmd_is_killed_in_its_middle() {
    let Some(cluster) = Cluster::start(2) else { return };
    let gate = cluster.scratch().join("gate");
    for pair in pairs_and_reference() {
        for node in [0, 1] {
            for _ in 0..times(1, 10) {
                fs::write(&gate, "").expect("the gate");
                let job = fenced(pair, cluster.job(pair, ROOT, "-N 2 -n 4 -m cyclic", "wait").arg(&gate));
                let running = thread::spawn(move || job.run());
                arrived(&gate, 4);
                let down = cluster.kill_slurmd(node);
                fs::remove_file(&gate).expect("the gate");
                let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                cluster.assert_well(pair, ROOT, &ended, 4);
                cluster.assert_no_steps(&ended);
                down.ends();
            }
        }
    }
    cluster.end();
}

/// Waits until the gate file of its node is removed, and begins.
const BY_NODES: &str = r#"> "$0.$SLURM_PROCID"; while test -e "$0.n$SLURM_NODEID"; do sleep 0.02; done; exec "$@""#;

/// The first message of a node to another goes through the slurmd there. Slurm retries for at least half a minute.
#[test]
fn a_fence_waits_for_a_slurmd_that_comes_back() {
    let Some(cluster) = Cluster::start(2) else { return };
    let gate = cluster.scratch().join("gate");
    let gates = ["n0", "n1"].map(|node| gate.with_extension(node));
    for pair in pairs_and_reference() {
        for _ in 0..times(1, 10) {
            gates.iter().for_each(|gate| fs::write(gate, "").expect("a gate"));
            let job = fenced(pair, cluster.srun(pair, ROOT, "-N 2 -n 4 -m cyclic")).args("sh -c").arg(BY_NODES);
            let job = job.arg(&gate).arg(program("mpi")).arg("collectives");
            let running = thread::spawn(move || job.run());
            arrived(&gate, 4);
            let down = cluster.kill_slurmd(1);
            // The node with a running slurmd must write first: after a message from the other node it would have a
            // direct connection.
            let before = cluster.said(0, FENCE);
            fs::remove_file(&gates[0]).expect("a gate");
            while cluster.said(0, FENCE) == before {
                assert!(!running.is_finished(), "the step has ended: {:?}", running.join());
                thread::sleep(Duration::from_millis(5));
            }
            fs::remove_file(&gates[1]).expect("a gate");
            down.ends();
            let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            cluster.assert_well(pair, ROOT, &ended, 4);
            cluster.assert_no_steps(&ended);
        }
    }
    cluster.end();
}

/// Slurm itself notices nothing: the other ranks wait for the lost ones until the step is cancelled. The step's files
/// stay with the stock library, too.
#[test]
fn a_slurmstepd_that_is_killed_takes_its_ranks_along_and_the_step_can_be_cancelled() {
    let Some(cluster) = Cluster::start(2) else { return };
    let gate = cluster.scratch().join("gate");
    for pair in pairs_and_reference() {
        for which in 0..times(1, 2) {
            fs::write(&gate, "").expect("the gate");
            let job = fenced(pair, cluster.job(pair, ROOT, "-N 2 -n 4 --ntasks-per-node 2", "wait").arg(&gate));
            let running = thread::spawn(move || job.run());
            arrived(&gate, 4);
            let (killed, other) = match cluster.slurmstepds()[..] {
                [first, second] if which == 0 => (second, first),
                [first, second] => (first, second),
                ref others => panic!("slurmstepds {others:?}"),
            };
            let orphans = cluster.beside(killed, "program-mpi");
            assert_eq!((orphans.len(), cluster.beside(other, "program-mpi").len()), (2, 2), "{pair:?}");
            kill(Pid::from_raw(killed as i32), Signal::SIGKILL).expect("root may");
            let mut deadline = Deadline::new(Duration::from_secs(60));
            // Ranks of Open MPI 5 outlive their server, with the stock library, too.
            if !is_open_mpi_4() {
                for &rank in &orphans {
                    kill(Pid::from_raw(rank as i32), Signal::SIGKILL).expect("the rank is there");
                }
            }
            while orphans.iter().any(|rank| Path::new(&format!("/proc/{rank}")).exists()) {
                assert!(deadline.pause(), "{pair:?}: ranks outlive their server");
            }
            assert_eq!(cluster.beside(other, "program-mpi").len(), 2, "{pair:?}");
            let cancel = cluster.command(ROOT, "scancel", Library::Stock).args("--quiet --state=RUNNING --user=root");
            cancel.succeed();
            let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert_ne!(ended.code(), 0, "{pair:?}: {ended}");
            assert!(cluster.beside(other, "program-mpi").is_empty(), "{pair:?}: {ended}");
            while !cluster.slurmstepds().is_empty() {
                assert!(deadline.pause(), "{pair:?}: slurmstepd stays: {ended}");
            }
            fs::remove_file(&gate).expect("the gate");
        }
    }
    // Do not call `end`, which asserts that no files are left: the killed processes leave theirs.
}
