//! What `pmixctl doctor` says of staged troubles.

use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Run, Traces, beside_host, beside_job, beside_job_within, left_out, pmixrun, program};

/// What doctor says of a job of `pmixrun`, whose ranks have this library, and its exit status. `before` is run first; `$J` is the job.
fn said(library: Library, job: &str, before: &str) -> Ended {
    let traces = Traces::begin();
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let script = format!(
        "pmixctl() {{ {} \"$@\"; }}; for rank in 0 1; do while test ! -s $TMPDIR/../own/here.$rank; do sleep 0.02; done; done; \
         {before} pmixctl doctor --pid $P; echo \"doctor: $?\"; {{ pmixctl doctor --pid $P --json; }} | grep '\"code\"'; \
         pmixctl resume --pid $P $J >/dev/null;",
        pmixctl.display()
    );
    beside_job(library, &traces, &format!("-n 2 {job}"), &script)
}

/// Ranks that say that they are here, and wait.
const SHELLS: &str = "sh -c 'echo > $TMPDIR/../own/here.$PMIX_RANK; . $WAIT'";

fn assert_says(ended: &Ended, exit: i32, code: Option<&str>, text: &str) {
    assert!(ended.stdout.contains(&format!("doctor: {exit}\n")), "{ended}");
    assert!(ended.stdout.contains(text), "{text}: {ended}");
    if let Some(code) = code {
        assert!(ended.stdout.contains(&format!("\"code\": \"{code}\"")), "{code}: {ended}");
    }
}

#[test]
fn a_stopped_rank_and_programs_without_pmix_are_named() {
    // The rank stops a moment after the command.
    let pause = format!("pmixctl pause --pid $P $J 1; {}", until("stopped (SIGSTOP"));
    let ended = said(Library::ours(), SHELLS, &pause);
    assert_says(&ended, 1, Some("stopped"), "rank 1 (process ");
    assert_says(&ended, 1, None, "stopped (SIGSTOP, or a debugger)\n  pmixctl resume");
    assert_says(&ended, 1, Some("no-library"), "ranks 0, 1: no libpmix is loaded");
}

#[test]
fn files_that_lead_to_no_server_are_named() {
    let stale = "echo 'gone.0;tcp4://127.0.0.1:1' > $TMPDIR/pmix.$(hostname -s).tool.gone; echo 4.2.2 >> $TMPDIR/pmix.$(hostname -s).tool.gone; \
                 echo 999999999 >> $TMPDIR/pmix.$(hostname -s).tool.gone;";
    let remove = "trap 'rm -f $TMPDIR/pmix.*.tool.gone' EXIT;";
    let ended = said(Library::ours(), SHELLS, &format!("{remove} {stale}"));
    assert_says(&ended, 1, Some("rendezvous-file"), "leads to no server: process 999999999 has ended");
}

/// A job of two ranks with two fences, before the second of which rank 0 waits. Each rank first runs a shell command.
fn fences(first: &str) -> String {
    let large = program("large");
    format!(
        "sh -c '{first} echo here > $TMPDIR/../own/here.$PMIX_RANK; exec {} --size 100 --between \". $WAIT\"'",
        large.display()
    )
}

/// Shell commands that wait until doctor says something.
fn until(said: &str) -> String {
    format!(
        "until pmixctl doctor --pid $P | grep -q '{said}'; do kill -0 $P || exit 1; sleep 0.1; done; echo it is said;"
    )
}

/// Asserts that doctor has found nothing, and has not said `text` after that: by then the rank that waits in the fence has perhaps waited
/// for too long.
fn assert_finds_nothing(ended: &Ended, text: &str) {
    assert!(ended.stdout.contains("it is said\n") && ended.stdout.contains("doctor: "), "{ended}");
    assert!(!ended.stdout.contains(text), "{text}: {ended}");
}

#[test]
fn a_rank_that_is_stuck_before_a_fence_is_named() {
    let ended = said(Library::ours(), &fences(""), &until("fence of .* since [1-9]"));
    assert_says(&ended, 1, Some("collective-waits"), ": entered 1; missing 0 (process ");
    let line = ended.stdout.lines().find(|line| line.contains("missing 0")).unwrap_or_default();
    assert!(line.starts_with("* fence of run-") && line.ends_with(')') && !line.contains("connected"), "{ended}");
}

#[test]
fn ranks_that_have_ended_are_no_trouble() {
    let job = "sh -c 'echo here > $TMPDIR/../own/here.$PMIX_RANK; test $PMIX_RANK = 0 || exec sh $WAIT'";
    let ended = said(Library::ours(), job, "until pmixctl ps --pid $P | grep -q ended; do sleep 0.05; done;");
    assert!(!ended.stdout.contains("the process has ended"), "{ended}");
    assert_says(&ended, 1, Some("no-library"), "rank 1 (process ");
}

#[test]
fn a_key_that_is_never_put_is_named_while_it_is_waited_for_and_after() {
    let wait = "{ pmixctl get --pid $P $J 0 no.such.key --wait 30 >/dev/null 2>&1 & }; WAITER=$!;";
    let look = until("waits since [1-9].* for key no.such.key of .*:0");
    let then = "pmixctl doctor --pid $P; kill $WAITER; pmixctl get --pid $P $J 0 other.key --wait 1 2>&1;";
    let ended = said(Library::ours(), SHELLS, &format!("{wait} {look} {then}"));
    assert_says(&ended, 1, Some("key-not-put"), ":0 has not put the key other.key, for which a Get waited in vain");
    assert_says(&ended, 1, None, "for key no.such.key of run-");
}

#[test]
fn ranks_with_the_stock_library_are_named() {
    let stock = Library::Stock.directory();
    let ended = said(
        Library::ours(),
        &fences(&format!("test $PMIX_RANK = 0 || export LD_LIBRARY_PATH={};", stock.display())),
        &until("releases are connected"),
    );
    assert_says(&ended, 1, Some("stock-library"), "rank 1 (process ");
    assert_says(&ended, 1, Some("releases"), "libraries of several releases are connected: ");
}

/// The library of `lib/prrte` loads both; that is no trouble.
#[test]
fn ranks_with_both_libraries_as_prrte_has_them_are_no_trouble() {
    let both = Library::ours().directory_for_prrte();
    let stock = format!("export LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH;", both.display());
    assert_finds_nothing(&said(Library::ours(), &fences(&stock), &until("nothing wrong found")), "libpmix");
    // Each without that library is one too many.
    let files = [Library::ours(), Library::Stock].map(|library| library.file().display().to_string());
    let preload = format!("export LD_PRELOAD={};", files.join(":"));
    let ended = said(Library::ours(), &fences(&preload), &until("two libpmix are loaded"));
    assert_says(&ended, 1, Some("two-libraries"), "ranks 0, 1: two libpmix are loaded");
}

#[test]
fn ranks_whose_shared_memory_is_switched_off_are_named() {
    let off = "test $PMIX_RANK = 0 || export PMIX_DSTORE_SHM=0;";
    let ended = said(Library::ours(), &fences(off), &until("fence of"));
    assert_says(&ended, 1, Some("switched-off"), "rank 1 (process ");
}

#[test]
fn the_stock_librarys_choice_of_a_store_is_named() {
    let hash = "test $PMIX_RANK = 0 || export PMIX_MCA_gds=hash;";
    let ended = said(Library::ours(), &fences(hash), &until("PMIX_MCA_gds"));
    assert_says(&ended, 1, Some("stock-store"), "rank 1 (process ");
    assert!(!ended.stdout.contains("no-segments"), "the rank reads shared memory all the same: {ended}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let traces = Traces::begin();
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let ended = Run::new(pmixctl, Library::ours()).traced(&traces).args("doctor --pid 999999999").run();
    assert_eq!(ended.code(), 1, "{ended}");
    assert!(ended.stdout.contains("cannot reach the server of process 999999999"), "{ended}");
}

#[test]
fn several_servers_are_named_to_choose_from() {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let second = format!(
        "$RUN -n 1 sh -c '. $WAIT' & Q=$!; until test $({} servers | grep -c run-) = 2; do sleep 0.05; done; \
         {} doctor; echo \"doctor: $?\";",
        pmixctl.display(),
        pmixctl.display()
    );
    let traces = Traces::begin();
    let ended = beside_job(Library::ours(), &traces, "-n 1 sh -c '. $WAIT'", &second);
    assert!(
        ended.stdout.contains("doctor: 1\n") && ended.stdout.contains("2 could be meant; choose one: --pid "),
        "{ended}"
    );
}

#[test]
fn a_rank_that_was_killed_is_named() {
    // The launcher's child is a shell, which goes on.
    let large = program("large");
    let job = format!(
        "sh -c 'echo here > $TMPDIR/../own/here.$PMIX_RANK; if test $PMIX_RANK = 1; then {large} --between : & echo $! > $TMPDIR/../own/killed; wait; . $WAIT; \
         else exec {large} --between \". $WAIT\"; fi'",
        large = large.display()
    );
    let kill = "until test -n \"$(pmixctl doctor --pid $P | grep 'entered 1; missing 0')\"; do sleep 0.1; done; \
                kill -KILL $(cat $TMPDIR/../own/killed);";
    let ended = said(Library::ours(), &job, &format!("{kill} {}", until("ended without PMIx_Finalize")));
    assert_says(&ended, 1, Some("lost"), ", rank 1: the process ended without PMIx_Finalize");
}

#[test]
fn a_host_that_does_not_answer_a_direct_modex_is_named() {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    // Each host is the node of one rank; that of the other node never commits.
    let script = format!(
        "pmixctl() {{ {} \"$@\"; }}; F=$PMIX_SYSTEM_TMPDIR/../doctor.done; S=$PMIX_SYSTEM_TMPDIR/pmix.sys.nodeA; \
         test $TEST_RANK = 0 || {{ until rm $F 2>/dev/null; do sleep 0.05; done; exit 0; }}; {{ pmixctl get --file $S test-job 1 a.key --wait 30 >/dev/null 2>&1 & }}; \
         W=$!; until pmixctl doctor --file $S | grep 'waits since [1-9]'; do sleep 0.1; done; pmixctl doctor --file $S --json; kill $W; touch $F",
        pmixctl.display()
    );
    let ended = beside_host(Library::ours(), &Traces::begin(), "-s 2 --tools name", &script);
    assert!(ended.stdout.contains("\"code\": \"host-silent\""), "{ended}");
    let line = ended.stdout.lines().find(|line| line.contains("waits since")).unwrap_or_default();
    assert!(line.ends_with(" for key a.key of test-job:1; the host has not answered a request for it"), "{ended}");
}

#[test]
fn a_full_file_system_is_named() {
    if !geteuid().is_root() {
        return left_out("root", "only root can mount");
    }
    // The launcher's directory is on a file system of its own, which only the job sees.
    let mount = "mkdir -p $TMPDIR/../own/small; unshare -m sh -c 'mount -t tmpfs -o size=1m none $TMPDIR/../own/small && exec \"$@\"' sh";
    let fill = "head -c 1048576 /dev/zero > $TMPDIR/../own/small/fill 2>/dev/null; ";
    let job = format!(
        "--tmpdir $TMPDIR/../own/small -n 2 sh -c 'test $PMIX_RANK = 1 || {fill} echo here > $TMPDIR/../own/here.$PMIX_RANK; . $WAIT'"
    );
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let script = format!(
        "for rank in 0 1; do while test ! -s $TMPDIR/../own/here.$rank; do sleep 0.02; done; done; \
         {} doctor --uri file:$URI --json;",
        pmixctl.display()
    );
    let ended = beside_job_within(mount, Library::ours(), &Traces::begin(), &job, &script);
    assert!(ended.stdout.contains("\"code\": \"full\""), "{ended}");
    assert!(ended.stdout.contains("/own/small/pmixrun.") && ended.stdout.contains(" has 0 KiB left"), "{ended}");
}

/// The directory has another name in the ranks' environment than in the kernel's list of what they have mapped.
#[test]
fn segments_are_found_by_whatever_name_their_directory_has() {
    let job = format!(
        "--tmpdir $TMPDIR/../tmp sh -c 'echo here > $TMPDIR/../own/here.$PMIX_RANK; exec {} --between \". $WAIT\"'",
        program("large").display()
    );
    assert_finds_nothing(&said(Library::ours(), &job, &until("nothing wrong found")), "no segment");
}

#[test]
fn ranks_that_cannot_map_segments_are_named() {
    if !geteuid().is_root() {
        return left_out("root", "only root can mount");
    }
    // In rank 1's container there is nothing at the place of the segments.
    let large = program("large");
    let job = format!(
        "sh -c 'echo here > $TMPDIR/../own/here.$PMIX_RANK; test $PMIX_RANK = 0 || exec unshare -m sh -c \"mount -t tmpfs none \\$PMIX_DSTORE_SEGMENTS; \
         exec {large} --between :\"; exec {large} --between \". $WAIT\"'",
        large = large.display()
    );
    let ended = said(Library::ours(), &job, &until("no segment of the job is mapped"));
    assert_says(&ended, 1, Some("no-segments"), ", rank 1 (process ");
}
