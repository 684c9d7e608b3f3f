//! No space for the job's files, too few descriptors, or too little memory. Values go over the socket, or the job ends
//! at once. In both cases one line names the missing resource and its place. No process dies by a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::geteuid;
use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Run, Traces, WaitingJob, left_out, plugin, pmixrun, pmixrun_of, program};

const RANKS: usize = 2;

/// The outcome of a job. Its launcher starts after the shell commands `before`, which have the directory of the job's
/// files in `$TMPDIR`; its ranks start after the shell commands `rank`.
fn job(before: &str, rank: &str, ranks: usize) -> Ended {
    let traces = Traces::begin();
    job_in(&traces.directory(), before, rank, ranks, &traces)
}

/// As [`job`], with the job's files in another directory.
fn job_in(directory: &Path, before: &str, rank: &str, ranks: usize, traces: &Traces) -> Ended {
    let run = shell(before)
        .arg(pmixrun())
        .args(&format!("-n {ranks} --json --tmpdir"))
        .arg(directory)
        .args("sh -c")
        .arg(format!("{rank}\nexec \"$0\" --gets 100"))
        .arg(program("latency"));
    leaving_nothing(run, traces)
}

/// Runs shell commands and then a command that the caller adds.
fn shell(before: &str) -> Run {
    Run::new("/bin/sh", Library::ours()).arg("-c").arg(format!("{before}\nexec \"$@\"")).arg("sh")
}

/// The outcome of a command that must leave nothing.
fn leaving_nothing(run: Run, traces: &Traces) -> Ended {
    let ended = run.traced(traces).run();
    traces.assert_none_left(&ended);
    ended
}

/// Shell commands that mount something at `$TMPDIR`, visible only to the job, and then run `before`. `None`, with a
/// report, if this user may not mount.
fn mounted(mount: &str, before: &str) -> Option<String> {
    if !geteuid().is_root() {
        left_out("root", "only root can mount");
        return None;
    }
    // The shell continues in its own mount namespace.
    let mount = format!(
        "if test -z \"$UNSHARED\"; then export UNSHARED=1; exec unshare -m sh -c \"$SCRIPT\" sh \"$@\"; fi\n\
         mount {mount} none \"$TMPDIR\" || exit 99\n{before}"
    );
    let whole = format!("{mount}\nexec \"$@\"");
    Some(format!("export SCRIPT='{}'\n{mount}", whole.replace('\'', r"'\''")))
}

/// As [`job`], on a file system of its own, mounted with these options.
fn job_on_tmpfs(options: &str, before: &str, rank: &str) -> Option<Ended> {
    let ended = job(&mounted(&format!("-t tmpfs -o {options}"), before)?, rank, RANKS);
    assert_ne!(ended.code(), 99, "{ended}");
    Some(ended)
}

/// Asserts that a job has left nothing in a directory other than that for temporary files.
fn assert_empty(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

/// The launcher's line about rendezvous files, which meet the same lack of room as the job's own files.
const NOT_FOUND: &str = "tools cannot find this server";

/// The lines of the launcher and its server about the job's files, without the report.
fn told(ended: &Ended) -> Vec<&str> {
    let rendezvous: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(NOT_FOUND)).collect();
    assert!(rendezvous.len() <= 1, "{ended}");
    ended.stderr.lines().filter(|line| !line.starts_with('{') && !line.contains(NOT_FOUND)).collect()
}

/// Asserts that the ranks did all their work, and that `shared` of them mapped segments.
fn assert_served(ended: &Ended, shared: usize) {
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count("gets done"), RANKS, "{ended}");
    let line = ended.stderr.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!(report["clients_shared_memory"], shared, "{ended}");
}

/// Asserts that there is one line, with these words.
fn assert_told(ended: &Ended, words: &[&str]) {
    let told = told(ended);
    assert_eq!(told.len(), 1, "{ended}");
    assert!(words.iter().all(|word| told[0].contains(word)), "{words:?}: {ended}");
}

#[test]
fn a_file_system_of_one_mebibyte_is_room_enough() {
    let Some(ended) = job_on_tmpfs("size=1m", "", "") else { return };
    assert_served(&ended, RANKS);
    assert_eq!(told(&ended), Vec::<&str>::new(), "{ended}");
}

#[test]
fn a_full_file_system() {
    let Some(ended) = job_on_tmpfs("size=1m", "head -c 1048576 /dev/zero > \"$TMPDIR/fill\"", "") else { return };
    assert_served(&ended, 0);
    assert_told(&ended, &["/page-0: No space left", "65536 bytes are needed", "0 are free", "socket"]);
    let line = ended.stderr.lines().find(|line| line.contains(NOT_FOUND));
    assert!(line.is_some_and(|line| line.contains(" and 2 more: No space left")), "{ended}");
}

#[test]
fn any_amount_of_free_space() {
    for free in [4, 16, 64, 68, 76, 84, 92, 100, 120] {
        let fill = format!("head -c {} /dev/zero > \"$TMPDIR/fill\"", (1024 - free) * 1024);
        let Some(ended) = job_on_tmpfs("size=1m", &fill, "") else { return };
        assert_eq!(ended.code(), 0, "{ended}");
        assert_eq!(ended.count("gets done"), RANKS, "{ended}");
        assert!(told(&ended).len() <= 1, "{ended}");
        assert!(told(&ended).iter().all(|line| line.contains("are needed")), "{ended}");
    }
}

#[test]
fn any_number_of_free_descriptors() {
    for inodes in 1..14 {
        let Some(ended) = job_on_tmpfs(&format!("size=1m,nr_inodes={inodes}"), "", "") else { return };
        assert!([0, 125].contains(&ended.code()), "{ended}");
        assert_eq!(ended.count("gets done"), if ended.code() == 0 { RANKS } else { 0 }, "{ended}");
        assert!(told(&ended).len() <= 1, "{ended}");
        assert!(told(&ended).iter().all(|line| line.contains("No space left")), "{ended}");
    }
}

#[test]
fn a_file_system_that_fills_up_while_ranks_start() {
    let Some(ended) = job_on_tmpfs("size=1m", "", "head -c 1048576 /dev/zero >> \"$TMPDIR/fill\" 2> /dev/null") else {
        return;
    };
    // The job's segment was published before. The ranks' values do not fit.
    assert_served(&ended, RANKS);
    assert_told(&ended, &["/segment-", "are needed", "are free", "socket"]);
}

#[test]
fn a_read_only_file_system() {
    let Some(ended) = job_on_tmpfs("size=1m,ro", "", "") else { return };
    assert_eq!(ended.code(), 125, "{ended}");
    assert_told(&ended, &["cannot make the job's directory /", "Read-only file system"]);
}

#[test]
fn a_directory_that_is_removed_under_us() {
    // The inner directory, the outer one, the launcher's.
    for what in ["", "/..", "/../.."] {
        let remove = format!("test \"$PMIX_RANK\" = 1 || rm -rf \"$(realpath \"$PMIX_DSTORE_SEGMENTS{what}\")\"");
        let ended = job("", &remove, RANKS);
        assert_eq!(ended.count("gets done"), RANKS, "{ended}");
        assert!(ended.code() == 0, "{ended}");
        // The server tells it, and a rank that comes when the directory is gone: each once.
        let lines = told(&ended);
        let writers: BTreeSet<&str> = lines.iter().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(lines.len(), writers.len(), "{ended}");
    }
}

/// A job that publishes twice. In between, rank 0 lets the shell run `between`. The launcher's shell runs `before`.
fn two_publications(before: &str, between: &str) -> Run {
    shell(before)
        .arg(pmixrun())
        .args(&format!("-n {RANKS}"))
        .arg(program("large"))
        .args("--size 100000 --between")
        .arg(between)
}

/// Asserts that all values were right, and that there is one line, with these words.
fn assert_went_on(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count(": done"), RANKS, "{ended}");
    assert_told(ended, words);
}

#[test]
fn a_file_system_that_fills_up_between_two_fences() {
    let Some(before) = mounted("-t tmpfs -o size=1m", "") else { return };
    let fill = "head -c 1048576 /dev/zero > \"$TMPDIR/fill\" 2> /dev/null";
    let ended = leaving_nothing(two_publications(&before, fill), &Traces::begin());
    assert_went_on(&ended, &["/segment-", "No space left", "bytes are needed", " are free", "socket"]);
}

#[test]
fn a_directory_that_takes_no_more_files() {
    let traces = Traces::begin();
    let directory = traces.own();
    let chattr = |flag: &str| {
        // chattr fails for sockets, which do not have this flag, but continues.
        Command::new("chattr").args(["-R", flag]).arg(&directory).output().is_ok_and(|o| o.status.success())
    };
    if !chattr("+i") || !chattr("-i") {
        return left_out("kernel", "this file system has no immutable directories, or only root may make them");
    }
    let job = two_publications("TMPDIR=$OWN", "chattr +i \"$PMIX_DSTORE_SEGMENTS\"").env("OWN", &directory);
    let ended = leaving_nothing(job, &traces);
    chattr("-i");
    assert_eq!((ended.code(), ended.count(": done")), (0, RANKS), "{ended}");
    // The directory cannot be removed at the end either.
    let told = told(&ended);
    assert_eq!(told.len(), 2, "{ended}");
    for (line, words) in told.iter().zip([["/segment-", "socket"], ["cannot remove", "/pmixrun."]]) {
        assert!(words.iter().all(|word| line.contains(word)), "{ended}");
        assert!(line.contains("Operation not permitted"), "{ended}");
    }
    // The next launcher removes it: the lock file, which permits that, is removed last.
    Run::new(pmixrun(), Library::ours()).traced(&traces).args("-n 1 --tmpdir").arg(&directory).arg("true").succeed();
    assert_empty(&directory);
}

#[test]
fn a_directory_that_a_file_stands_in_for() {
    let replace = "rm -rf \"$PMIX_DSTORE_SEGMENTS\"; echo nothing > \"$PMIX_DSTORE_SEGMENTS\"";
    let ended = leaving_nothing(two_publications("", replace), &Traces::begin());
    assert_went_on(&ended, &["/segment-", "No such file", "socket"]);
}

#[test]
fn a_server_that_has_no_room_holds_nothing_for_that() {
    type Take = fn(&WaitingJob, &Path);
    let remove: Take = |_, segments| fs::remove_dir_all(segments).expect("a directory");
    let stand_in: Take = |_, segments| {
        fs::remove_dir_all(segments).expect("a directory");
        fs::write(segments, "nothing").expect("a file");
    };
    // Fill the file system from the server's mount namespace.
    let fill: Take = |job, _| {
        let file = format!("/proc/{}/root{}/fill", job.server(), job.directory().display());
        assert!(fs::write(file, vec![0; 1 << 20]).is_err(), "there is room");
    };
    let tmpfs = mounted("-t tmpfs -o size=1m", "").map(|mount| (mount, fill));
    for (before, take) in [(":".into(), remove), (":".into(), stand_in)].into_iter().chain(tmpfs) {
        let mut job = WaitingJob::start(RANKS as u32, &before);
        job.watch_server();
        take(&job, Path::new(&job.environment(0)["PMIX_DSTORE_SEGMENTS"]));
        job.finish();
    }
}

#[test]
fn an_unwritable_file_system() {
    // Files on hugetlbfs can only be mapped.
    let Some(before) = mounted("-t hugetlbfs", "") else { return };
    let ended = leaving_nothing(two_publications(&before, ":"), &Traces::begin());
    if ended.code() == 99 {
        return left_out("kernel", "this kernel has no hugetlbfs");
    }
    assert_went_on(&ended, &["/page-0", "socket"]);
}

#[test]
fn a_directory_that_is_named_from_where_the_launcher_is() {
    let traces = Traces::begin();
    let relative = traces.own().join("relative");
    fs::create_dir(&relative).expect("a directory");
    let run = shell("cd \"$OWN\"")
        .env("OWN", traces.own())
        .arg(pmixrun())
        .args(&format!("-n {RANKS} --json --tmpdir relative sh -c"))
        .arg("cd / && exec \"$0\" --gets 100")
        .arg(program("latency"));
    let ended = leaving_nothing(run, &traces);
    assert_served(&ended, RANKS);
    assert_eq!(told(&ended), Vec::<&str>::new(), "{ended}");
    assert_empty(&relative);
}

#[test]
fn a_path_of_three_thousand_characters() {
    let traces = Traces::begin();
    let mut long = traces.own();
    while long.as_os_str().len() < 3000 {
        long.push("x".repeat(200));
    }
    fs::create_dir_all(&long).expect("a deep directory");
    let ended = job_in(&long, "", "", RANKS, &traces);
    assert_served(&ended, RANKS);
    assert_eq!(told(&ended), Vec::<&str>::new(), "{ended}");
    assert_empty(&long);
}

#[test]
fn few_descriptors() {
    let ended = job("ulimit -n 64", "", RANKS);
    assert_served(&ended, RANKS);
    let ended = job("", "ulimit -n 16", RANKS);
    assert_served(&ended, RANKS);
    // More ranks than the descriptors suffice for.
    for limit in (8..=24).chain([32, 64]) {
        let ended = job(&format!("ulimit -n {limit}"), "", 40);
        assert_eq!(ended.code(), 125, "{ended}");
        assert!(told(&ended).iter().any(|line| line.contains("Too many open files")), "{ended}");
    }
}

/// The side whose address space is limited.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limited {
    Host,
    Ranks,
}

/// The outcome of a job of two ranks with values of this size (`tests/programs/large.c`). One side is limited to this
/// many KiB of address space.
fn in_space(host: Library, ranks: Library, limited: Limited, kib: u32, size: usize) -> Ended {
    let own = |side| if limited == side { kib.to_string() } else { "unlimited".to_owned() };
    let run =
        Run::new("/bin/sh", host).arg("-c").arg(format!("ulimit -S -v {}; exec \"$@\"", own(Limited::Host))).arg("sh");
    let run = match host {
        Library::Stock | Library::Other(_) => run.arg(program("host")).args("-n 2 --timeout 100"),
        Library::Ours(_) | Library::Former(_) => run.arg(pmixrun_of(host)).args("-n 2"),
    };
    let run = run
        .args("sh -c")
        .arg(format!(
            "ulimit -S -v {}; LD_LIBRARY_PATH='{}' exec \"$0\" --size {size}",
            own(Limited::Ranks),
            ranks.directory().display()
        ))
        .arg(program("large"));
    let traces = Traces::begin();
    if host != Library::Stock {
        return leaving_nothing(run, &traces);
    }
    // Files that the stock host leaves are not checked.
    let ended = run.traced(&traces).run();
    assert_eq!(traces.processes(), BTreeMap::new(), "{ended}");
    ended
}

/// Asserts that a job succeeded, or failed with a report: no signal, and one line of the process that had no memory.
/// Returns whether it succeeded.
fn assert_ended_by_itself(ended: &Ended, case: &str) -> bool {
    let lines = || ended.stdout.lines().chain(ended.stderr.lines());
    let forbidden = ["signal", "panicked", "failed inside", "memory allocation of", "still running", "exited on"];
    let crash = lines().find(|line| forbidden.iter().any(|word| line.contains(word)));
    assert_eq!(crash, None, "{case}: {ended}");
    match ended.code() {
        0 => assert_eq!(ended.count(": done"), RANKS, "{case}: {ended}"),
        // A rank reports which call failed.
        3 => {
            let refusals = [Status::ERR_NOMEM, Status::ERR_OUT_OF_RESOURCE].map(|status| format!("({})", status.0));
            assert!(lines().any(|line| refusals.iter().any(|text| line.contains(text))), "{case}: {ended}");
        }
        // The launcher could not start.
        125 => assert!(lines().any(|line| line.starts_with("pmixrun: ")), "{case}: {ended}"),
        // The program or its libraries could not be loaded.
        127 => assert!(lines().any(|line| line.contains("error while loading")), "{case}: {ended}"),
        _ => panic!("{case}: {ended}"),
    }
    ended.code() == 0
}

/// The least limit in MiB with which the kernel begins `pmixrun` at all, an even number: with less it ends it by SIGSEGV. Unoptimised code
/// takes 17 to 21 MiB.
fn loadable() -> u32 {
    let is_begun = |mib: &u32| {
        let script = format!("ulimit -S -v {}; exec \"$@\"", mib << 10);
        let run = Command::new("sh").args(["-c", &script, "sh"]).arg(pmixrun()).arg("--version").output();
        run.expect("a shell").status.code().is_some()
    };
    (8..64).step_by(2).find(is_begun).expect("pmixrun takes less than 64 MiB")
}

/// The limits in KiB, from hardly enough to load a program to enough for these values.
fn limits(size: usize) -> Vec<u32> {
    let (first, last) = (loadable() << 10, (96 << 10) + 16 * (size >> 10) as u32);
    let steps = std::env::var("PMIX_TEST_SPACES").ok().and_then(|steps| steps.parse().ok()).unwrap_or(3);
    (0..=steps).map(|step| first + (last - first) / steps * step).collect()
}

fn scan(host: Library, ranks: Library, limited: &[Limited]) {
    for size in [1 << 10, 1 << 20, 32 << 20] {
        for limited in limited {
            for kib in limits(size) {
                let case = format!("{limited:?} with {kib} KiB, values of {size} bytes");
                let well = assert_ended_by_itself(&in_space(host, ranks, *limited, kib, size), &case);
                assert!(well || kib < *limits(size).last().unwrap_or(&0), "{case}: not enough");
            }
        }
    }
}

#[test]
fn little_address_space() {
    scan(Library::ours(), Library::ours(), &[Limited::Host, Limited::Ranks]);
}

#[test]
fn little_address_space_with_stock_clients() {
    scan(Library::ours(), Library::Stock, &[Limited::Host]);
}

#[test]
fn little_address_space_under_a_stock_server() {
    scan(Library::Stock, Library::ours(), &[Limited::Ranks]);
}

/// Of a host whose first infos are read, too. All allocations, one after the other: `make soak PART=oom`.
#[test]
fn one_of_the_first_allocations_of_a_server_fails() {
    for at in 1..=12 {
        let traces = Traces::begin();
        let run = Run::new(program("host"), Library::ours()).args("-n 1 --timeout 60").arg(program("scripted"));
        let run = run.env("LD_PRELOAD", plugin("failing")).env("FAILING_IN", "server").env("FAILING_WHAT", "memory");
        let log = traces.own().join("log");
        let run = run.env("FAILING_AT", at.to_string()).env("FAILING_LOG", &log);
        let ended = leaving_nothing(run, &traces);
        assert_eq!(fs::read_to_string(&log).unwrap_or_default().matches("failed ").count(), 1, "{ended}");
        assert!([0, 3].contains(&ended.code()), "{at}: {ended}");
    }
}

#[test]
fn small_files_only() {
    // In units of 512 bytes: less than the directory page, and enough for the page but not for the job's segment.
    for (blocks, file) in [(0, "page-0"), (8, "page-0"), (130, "")] {
        let ended = job(&format!("ulimit -f {blocks}"), "", RANKS);
        assert_eq!(ended.code(), 0, "{ended}");
        assert_eq!(ended.count("gets done"), RANKS, "{ended}");
        if file.is_empty() {
            assert_served(&ended, RANKS);
        } else {
            assert_served(&ended, 0);
            assert_told(&ended, &[file, "65536 bytes are needed"]);
        }
    }
}
