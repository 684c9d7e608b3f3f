//! The flight recorder: the file of a rank that hangs, was killed or has forked; its contents at a signal; what lies in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Run, Traces, beside_job, left_out, pmixrun, program};

/// Shell functions: `pmixctl`; `pid R`, the process of a rank; `outer`, the directory with the ranks' files; `until_step R TEXT`, which waits
/// until the file of a rank has a text.
fn functions() -> String {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    format!(
        "pmixctl() {{ {} \"$@\"; }}; pid() {{ cat $TMPDIR/../own/here.$1; }}; outer() {{ cat $TMPDIR/../own/outer; }}; \
         for rank in 0 1; do while test ! -s $TMPDIR/../own/here.$rank; do sleep 0.02; done; done; \
         until_step() {{ until pmixctl inspect $(outer)/steps-$1 2>/dev/null | grep -q \"$2\"; do kill -0 $P || exit 1; sleep 0.05; done; }}; ",
        pmixctl.display()
    )
}

/// A job of two ranks, in which rank 0 waits between two fences, while the script runs.
fn job(settings: &str, options: &str) -> String {
    let wait = "--between \". $WAIT\"";
    format!(
        "-n 2 sh -c 'export {settings}; dirname $PMIX_DSTORE_SEGMENTS > $TMPDIR/../own/outer; echo $$ > $TMPDIR/../own/here.$PMIX_RANK; \
         exec {} {options} {wait}'",
        program("recorded").display()
    )
}

const RECORD: &str = "PMIX_DSTORE_RECORD=1";

fn beside(settings: &str, options: &str, script: &str) -> Ended {
    beside_job(Library::ours(), &Traces::begin(), &job(settings, options), &format!("{}{script}", functions()))
}

fn assert_contains(ended: &Ended, texts: &[&str]) {
    for text in texts {
        assert!(ended.stdout.contains(text) || ended.stderr.contains(text), "{text}: {ended}");
    }
}

#[test]
fn a_rank_that_hangs_tells_its_steps_by_its_file() {
    let look = "until_step 1 waits; stat -c 'mode %a size %s' $(outer)/steps-*; pmixctl inspect $(outer)/steps-1; \
                pmixctl inspect --json $(outer)/steps-1 | grep -c '\"serial\"'; ls $(outer);";
    let ended = beside(RECORD, "", look);
    assert_eq!(ended.count("mode 400 size 8192"), 2, "{ended}");
    assert_contains(&ended, &["steps of rank 1 of run-", "  PMIx_Init  ", "  PMIx_Commit of 1 value  ", "job: 0"]);
    let open =
        ended.stdout.lines().filter(|line| line.contains("PMIx_Fence of job run-") && line.contains("  waits  "));
    assert_eq!(open.count(), 1, "{ended}");
    // Init, commit and fence with their ends, and the fence that waits.
    assert!(ended.stdout.lines().any(|line| line == "7"), "{ended}");
}

#[test]
fn nothing_is_recorded_by_default() {
    let ended = beside("PMIX_DSTORE_RECORD=0", "", "ls $(outer);");
    assert!(!ended.stdout.contains("steps-"), "{ended}");
}

#[test]
fn doctor_tells_the_last_steps_of_a_killed_rank_and_of_a_directory_that_was_left() {
    // The launcher's child is a shell, which goes on.
    let job = format!(
        "-n 2 sh -c 'export {RECORD}; dirname $PMIX_DSTORE_SEGMENTS > $TMPDIR/../own/outer; if test $PMIX_RANK = 1; then {program} & \
         echo $! > $TMPDIR/../own/here.1; wait; . $WAIT; else echo $$ > $TMPDIR/../own/here.0; exec {program} --between \". $WAIT\"; fi'",
        program = program("recorded").display()
    );
    let kill = "until_step 1 waits; kill -KILL $(pid 1); \
                until pmixctl doctor --pid $P | grep -q 'ended without PMIx_Finalize'; do kill -0 $P || exit 1; sleep 0.1; done; \
                echo \"killed: $(pid 1)\"; pmixctl doctor --pid $P; pmixctl doctor --pid $P --json | grep -A5 '\"in\"'; \
                cp -r $(outer) $TMPDIR/../own/left; echo left:; pmixctl doctor --directory $TMPDIR/../own/left; \
                pmixctl doctor --directory $TMPDIR/../own/left/s;";
    let ended = beside_job(Library::ours(), &Traces::begin(), &job, &format!("{}{kill}", functions()));
    let pid = ended.stdout.lines().find_map(|line| line.strip_prefix("killed: ")).expect("its process").to_owned();
    let of_rank_1 = format!("(process {pid}): in PMIx_Fence of job run-");
    let told: Vec<_> = ended.stdout.lines().filter(|line| line.contains(&of_rank_1)).collect();
    assert_eq!(told.len(), 3, "{ended}");
    let is_whole = |line: &&str| line.starts_with("  rank 1 of run-") && line.contains("; before: PMIx_Fence of job ");
    assert!(told.iter().all(is_whole), "{ended}");
    assert_contains(&ended, &["last steps:\n", "\"in PMIx_Fence of job run-"]);
    let (_, left) = ended.stdout.split_once("left:\n").expect("the directory");
    assert_eq!(left.matches("  rank 0 of run-").count(), 2, "{ended}");
}

#[test]
fn files_in_the_place_of_a_ranks_file_harm_neither_doctor_nor_the_server() {
    let put = "O=$(outer); until_step 1 waits; ln -s steps-1 $O/steps-2; mkfifo $O/steps-3; truncate -s 1T $O/steps-4; \
               head -c 8192 /dev/zero > $O/steps-5; cp --no-preserve=mode $O/steps-1 $O/steps-6; printf 'x' | dd of=$O/steps-6 bs=1 seek=200 conv=notrunc 2>/dev/null; \
               cp --no-preserve=mode $O/steps-1 $O/steps-7; printf '\\033[2J' | dd of=$O/steps-7 bs=1 seek=45 conv=notrunc 2>/dev/null;";
    let look = "pmixctl doctor --directory $O; pmixctl inspect $O/steps-6; echo \"torn: $?\"; pmixctl inspect $O/steps-5; echo \"none: $?\"; \
                seq 1000 11000 | sed \"s|^|$O/steps-|\" | xargs touch; pmixctl doctor --pid $P >/dev/null; pmixctl doctor --directory $O | tail -1;";
    // That nothing is left of the job's directories is asserted, too.
    let ended = beside(RECORD, "", &format!("{put} {look}"));
    assert_contains(
        &ended,
        &[
            "rank 2 of : Too many levels of symbolic links",
            "rank 3 of : not a regular file",
            "rank 4 of : its length is not that of",
        ],
    );
    assert_contains(&ended, &["rank 5 of : not a file with the steps", "1 records are damaged", "torn: 1", "job: 0"]);
    assert_contains(&ended, &["rank 7 of : a file with the steps of a process, whose header is damaged"]);
    assert_contains(&ended, &["and of at least 1016 more ranks"]);
    assert!(!ended.stdout.contains('\x1b'), "{ended}");
}

#[test]
fn a_forked_child_writes_nothing_into_its_parents_file() {
    let ended = beside(RECORD, "--fork", "until_step 1 waits; pmixctl inspect $(outer)/steps-1;");
    assert_eq!(ended.count("child: 0"), 2, "{ended}");
    assert!(ended.stdout.contains("PMIx_Commit of 1 value") && !ended.stdout.contains("of 2 values"), "{ended}");
}

#[test]
fn a_signal_shows_the_steps_of_a_rank_that_hangs() {
    let settings = "PMIX_DSTORE_DUMP_SIGNAL=12";
    let ended = beside(
        settings,
        "",
        "until_step 1 waits; kill -USR2 $(pid 1); sleep 0.1; kill -USR2 $(pid 1); kill -USR2 $(pid 0);",
    );
    let pid_lines = |text: &str| {
        ended.stderr.lines().filter(|line| line.starts_with("pmix-dstore[") && line.contains(text)).count()
    };
    assert!(pid_lines("]: signal 12, the last steps:") >= 2, "{ended}");
    assert!(pid_lines("]: PMIx_Commit of 1 value, ") >= 2 && pid_lines("]: in PMIx_Fence of job run-") >= 1, "{ended}");
    assert_eq!(ended.count("SIGUSR2 leads to the library"), 2, "{ended}");
    assert_eq!(ended.count("finalized: SIGUSR2 leads to nobody, handled 0"), 2, "{ended}");
    assert_contains(&ended, &["job: 0"]);
}

#[test]
fn a_fault_signal_from_outside_shows_the_steps_and_ends_the_rank() {
    // SIGABRT, SIGTRAP.
    for signal in [6, 5] {
        // The launcher's child is a shell, which tells how the program ends.
        let job = format!(
            "-n 2 sh -c 'ulimit -c 0; export PMIX_DSTORE_DUMP_SIGNAL={signal}; dirname $PMIX_DSTORE_SEGMENTS > $TMPDIR/../own/outer; \
             if test $PMIX_RANK = 1; then {program} & echo $! > $TMPDIR/../own/here.1; wait $!; echo \"ended: $?\"; \
             else echo $$ > $TMPDIR/../own/here.0; exec {program} --between \". $WAIT\"; fi'",
            program = program("recorded").display()
        );
        let kill = format!("{}until_step 1 waits; kill -{signal} $(pid 1);", functions());
        let ended = beside_job(Library::ours(), &Traces::begin(), &job, &kill);
        assert_contains(&ended, &[&format!("]: signal {signal}, the last steps:"), "]: in PMIx_Fence of job run-"]);
        assert_contains(&ended, &[&format!("ended: {}\n", 128 + signal)]);
    }
}

/// Whether the kernel says that a program has more rights than its user, after `setpriv` with these arguments has started it.
fn secure_of(arguments: &[&str]) -> String {
    let own = std::env::current_exe().expect("this program");
    let child = ["--exact", "says_whether_it_is_secure", "--ignored", "--nocapture"];
    let output = std::process::Command::new("setpriv").args(arguments).arg(own).args(child).output().expect("setpriv");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.find("secure: ").map(|at| line[at..].to_owned())).unwrap_or(text)
}

#[test]
#[ignore = "`secure_of` starts it"]
fn says_whether_it_is_secure() {
    println!("\nsecure: {}", pmix_dstore::environment::is_secure());
}

#[test]
fn a_program_with_more_rights_than_its_user_records_nothing() {
    if !geteuid().is_root() {
        return left_out("root", "only root can be another user");
    }
    assert_eq!(secure_of(&["--ruid", "0"]), "secure: false");
    assert_eq!(secure_of(&["--ruid", "20001"]), "secure: true");
    for (user, leads_to) in [(0, "the library"), (20_001, "nobody")] {
        let job = format!(
            "-n 1 sh -c 'export PMIX_DSTORE_DUMP_SIGNAL=12; . $WAIT; exec {} --user {user}'",
            program("recorded").display()
        );
        let ended = beside_job(Library::ours(), &Traces::begin(), &job, "");
        assert_contains(&ended, &[&format!("rank 0: SIGUSR2 leads to {leads_to}\n"), "finalized", "job: 0"]);
    }
}

#[test]
fn a_programs_own_handler_stays() {
    let settings = "PMIX_DSTORE_DUMP_SIGNAL=12";
    let ended = beside(settings, "--handler", "until_step 1 waits; kill -USR2 $(pid 1);");
    assert_eq!(ended.count("SIGUSR2 leads to the program"), 4, "{ended}");
    assert_contains(&ended, &["rank 1: finalized: SIGUSR2 leads to the program, handled 1"]);
    let warned = "PMIX_DSTORE_DUMP_SIGNAL=12 is ignored: the program has a handler for signal 12, or ignores it";
    assert_eq!(ended.stderr.matches(warned).count(), 2, "{ended}");
    assert!(!ended.stderr.contains("the last steps"), "{ended}");
}

#[test]
fn a_signal_that_cannot_have_a_handler_is_refused_and_recording_goes_on() {
    for (value, why) in [
        ("9", "no program can handle SIGKILL and SIGSTOP"),
        ("32", "the C library keeps signal 32 for itself"),
        ("USR2", "a signal's number is 1 to 64"),
    ] {
        let settings = format!("PMIX_DSTORE_DUMP_SIGNAL={value}");
        let ended = beside(&settings, "", "until_step 1 waits;");
        let warned = format!("PMIX_DSTORE_DUMP_SIGNAL={value} is ignored: {why}");
        assert_eq!(ended.stderr.matches(&warned).count(), 2, "{ended}");
        assert_eq!(ended.count("SIGUSR2 leads to nobody"), 4, "{ended}");
    }
}

#[test]
fn a_rank_of_another_user_than_the_servers_has_a_file_of_its_own() {
    const USER: u32 = 20_001;
    if !geteuid().is_root() {
        return left_out("root", "only root can be another user");
    }
    // Other users must be able to reach it.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let look = "D=$(dirname $PMIX_DSTORE_SEGMENTS); stat -c 'segments: %a %u' $D/s; stat -c 'steps: %a %u' $D/steps-0; \
                truncate -s 0 $D/steps-0 || echo not cut";
    // The host's own directories are root's: the rank opens them before it becomes the user's.
    let start = format!(
        "D=$(dirname $PMIX_DSTORE_SEGMENTS); H=$(dirname $D); chmod 711 $H $(dirname $H); \
         exec setpriv --reuid {USER} --regid {USER} --clear-groups env {RECORD} {} --between \"$0\"",
        program("recorded").display()
    );
    let run = Run::new(program("host"), Library::ours()).env("TMPDIR", place.path());
    let ended = run.args(&format!("-n 1 --owner {USER} sh -c")).arg(start).arg(look).succeed();
    assert_contains(&ended, &["segments: 755 0\n", &format!("steps: 400 {USER}\n"), "not cut\n", "finalized"]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{ended}");
}

#[test]
fn a_rank_that_cannot_write_to_the_directory_goes_on_without_a_file() {
    if !geteuid().is_root() {
        return left_out("root", "only root can mount");
    }
    let job = format!(
        "-n 2 sh -c 'export {RECORD} PMIX_DSTORE_LOG=info; O=$(dirname $PMIX_DSTORE_SEGMENTS); \
         exec unshare -m sh -c \"mount --bind $O $O && mount -o remount,ro,bind $O && exec {}\"'",
        program("recorded").display()
    );
    let ended = beside_job(Library::ours(), &Traces::begin(), &job, "");
    let told = "the steps of this process are recorded in its memory alone: Read-only file system";
    assert_eq!(ended.stderr.matches(told).count(), 2, "{ended}");
    assert_eq!(ended.stderr.matches("values are read in shared memory").count(), 2, "{ended}");
    assert!(ended.count("finalized") == 2, "{ended}");
}
