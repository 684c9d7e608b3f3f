//! No room for the job's files, or none of what else a process needs: values go over the socket, or the job ends at
//! once; either way one line says what is missing where. Never a signal.

use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Run, pmixrun, program};
use tempfile::TempDir;

const RANKS: usize = 2;

/// What becomes of a job whose launcher starts after `before`, shell commands for which `$DIR` is the directory of the
/// job's files, and whose ranks start after `rank`.
fn job(directory: &Path, before: &str, rank: &str, ranks: usize) -> Ended {
    let script = format!("{before}\nexec \"$@\"");
    let rank = format!("{rank}\nexec \"$0\" --gets 100");
    Run::new("/usr/bin/env", Library::ours())
        .env("DIR", directory)
        .arg("sh")
        .arg("-c")
        .arg(script)
        .arg("sh")
        .arg(pmixrun())
        .args(&format!("-n {ranks} --json --tmpdir"))
        .arg(directory)
        .args("sh -c")
        .arg(rank)
        .arg(program("latency"))
        .run()
}

/// The same on a file system of its own, mounted with these options where only the job sees it; nothing but a line
/// where we may not mount.
fn job_on_tmpfs(options: &str, before: &str, rank: &str) -> Option<Ended> {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can mount");
        return None;
    }
    let directory = directory();
    // A mount namespace of its own, in which the shell goes on.
    let mount = format!(
        "if test -z \"$UNSHARED\"; then export UNSHARED=1; exec unshare -m sh -c \"$SCRIPT\" sh \"$@\"; fi\n\
         mount -t tmpfs -o {options} none \"$DIR\" || exit 99\n{before}"
    );
    let whole = format!("{mount}\nexec \"$@\"");
    let ended =
        job(directory.path(), &format!("export SCRIPT='{}'\n{mount}", whole.replace('\'', r"'\''")), rank, RANKS);
    assert_ne!(ended.code(), 99, "{ended}");
    Some(ended)
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The lines of the launcher and its server, without the report.
fn told(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| !line.starts_with('{')).collect()
}

/// Whether the ranks did their work; asserts that they did it wholly, and how many of them mapped segments.
fn assert_served(ended: &Ended, shared: usize) {
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count("gets done"), RANKS, "{ended}");
    let line = ended.stderr.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!(report["clients_shared_memory"], shared, "{ended}");
}

/// Asserts one line that holds these words.
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
    let Some(ended) = job_on_tmpfs("size=1m", "head -c 1048576 /dev/zero > \"$DIR/fill\"", "") else { return };
    assert_served(&ended, 0);
    assert_told(&ended, &["/page-0: No space left", "65536 bytes are needed", "0 are free", "socket"]);
}

#[test]
fn however_little_is_free() {
    for free in [4, 16, 64, 68, 76, 84, 92, 100, 120] {
        let fill = format!("head -c {} /dev/zero > \"$DIR/fill\"", (1024 - free) * 1024);
        let Some(ended) = job_on_tmpfs("size=1m", &fill, "") else { return };
        assert_eq!(ended.code(), 0, "{ended}");
        assert_eq!(ended.count("gets done"), RANKS, "{ended}");
        assert!(told(&ended).len() <= 1, "{ended}");
        assert!(told(&ended).iter().all(|line| line.contains("are needed")), "{ended}");
    }
}

#[test]
fn however_few_files_are_left() {
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
    let Some(ended) = job_on_tmpfs("size=1m", "", "head -c 1048576 /dev/zero >> \"$DIR/fill\" 2> /dev/null") else {
        return;
    };
    // The job's segment was there before, what the ranks publish does not fit.
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
    let directory = directory();
    for what in ["$PMIX_DSTORE_SEGMENTS", "$PMIX_DSTORE_SEGMENTS/..", "$DIR/pmixrun.*"] {
        let remove = format!(
            "test \"$PMIX_RANK\" = 1 || rm -rf {what}/* ; test \"$PMIX_RANK\" = 1 || rm -rf {what} 2> /dev/null"
        );
        let ended = job(directory.path(), "", &remove, RANKS);
        assert_eq!(ended.count("gets done"), RANKS, "{ended}");
        assert!(ended.code() == 0, "{ended}");
        assert!(told(&ended).len() <= 1, "{ended}");
    }
}

#[test]
fn a_directory_that_is_named_from_where_the_launcher_is() {
    let directory = directory();
    let ended = Run::new("/bin/sh", Library::ours())
        .arg("-c")
        .arg("cd \"$0\" && mkdir relative && exec \"$@\"")
        .arg(directory.path())
        .arg(pmixrun())
        .args(&format!("-n {RANKS} --json --tmpdir relative sh -c"))
        .arg("cd / && exec \"$0\" --gets 100")
        .arg(program("latency"))
        .run();
    assert_served(&ended, RANKS);
    assert_eq!(told(&ended), Vec::<&str>::new(), "{ended}");
}

#[test]
fn a_path_of_three_thousand_characters() {
    let directory = directory();
    let mut long = PathBuf::from(directory.path());
    while long.as_os_str().len() < 3000 {
        long.push("x".repeat(200));
    }
    std::fs::create_dir_all(&long).expect("a deep directory");
    let ended = job(&long, "", "", RANKS);
    assert_served(&ended, RANKS);
    assert_eq!(told(&ended), Vec::<&str>::new(), "{ended}");
}

#[test]
fn few_descriptors() {
    let directory = directory();
    let ended = job(directory.path(), "ulimit -n 64", "", RANKS);
    assert_served(&ended, RANKS);
    let ended = job(directory.path(), "", "ulimit -n 16", RANKS);
    assert_served(&ended, RANKS);
    // More ranks than there are descriptors for.
    for limit in [10, 13, 16, 20, 64] {
        let ended = job(directory.path(), &format!("ulimit -n {limit}"), "", 40);
        assert_eq!(ended.code(), 125, "{ended}");
        assert!(told(&ended).iter().any(|line| line.contains("Too many open files")), "{ended}");
    }
}

#[test]
fn little_address_space() {
    let directory = directory();
    for limit in [50_000, 100_000, 200_000] {
        let ended = job(directory.path(), &format!("ulimit -v {limit}"), "", RANKS);
        assert_served(&ended, RANKS);
        let ended = job(directory.path(), "", &format!("ulimit -v {limit}"), RANKS);
        assert_served(&ended, RANKS);
    }
}

#[test]
fn small_files_only() {
    let directory = directory();
    // In units of 512 bytes: less than the directory's page, and room for that but not for the job's segment.
    for (blocks, file) in [(0, "page-0"), (8, "page-0"), (130, "")] {
        let ended = job(directory.path(), &format!("ulimit -f {blocks}"), "", RANKS);
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
