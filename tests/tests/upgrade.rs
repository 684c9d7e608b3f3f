//! Upgrades: directories of former and next versions of the segment format, and a library that is replaced under a running job.
//!
//! The readers' side is in `dstore/src/segment/tests/golden_directory.rs`; jobs of two releases are in `former.rs`.

use std::fs::{self, File};
use std::path::Path;

use pmix_dstore::segment::FORMAT_VERSION;
use pmix_tests::replaced::{Hosted, replace_under_job};
use pmix_tests::{Ended, Golden, Library, Run, pmixrun, program, repository};

/// The version of directory pages.
const PAGE_VERSION: u32 = 2;

/// Directories of other versions, and the reason for which each is refused.
fn others(place: &Path) -> Vec<(Golden, String)> {
    let next_segments = Golden::copy(FORMAT_VERSION, place, 3);
    next_segments.set_version("segment-", FORMAT_VERSION + 1);
    let next_page = Golden::copy(FORMAT_VERSION, place, 4);
    next_page.set_version("page-", PAGE_VERSION + 1);
    let of_segment = |version: u32| format!("format version {version}, this build reads version {FORMAT_VERSION}");
    let of_page =
        |version: u32| format!("directory page of version {version}, this build reads version {PAGE_VERSION}");
    vec![
        (Golden::copy(1, place, 1), of_page(1)),
        (Golden::copy(2, place, 2), of_segment(2)),
        (next_segments, of_segment(FORMAT_VERSION + 1)),
        (next_page, of_page(PAGE_VERSION + 1)),
    ]
}

fn pmixctl(words: &[&str], path: &Path) -> Ended {
    let run = Run::new(pmixrun().with_file_name("pmixctl"), Library::ours());
    words.iter().fold(run, Run::arg).arg(path).run()
}

#[test]
fn inspect_prints_each_value_of_this_version_and_refuses_others_by_name() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let golden = Golden::copy(FORMAT_VERSION, place.path(), 0);
    let ended = pmixctl(&["inspect"], &golden.outer);
    let recorded = repository().join(format!("dstore/tests/data/directory-v{FORMAT_VERSION}.txt"));
    let expected = fs::read_to_string(recorded).expect("the recorded report");
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, expected.as_str()), "{ended}");
    for (name, text) in [
        ("steps-0", "PMIx_Fence"),
        ("steps-2", "PMIx_Commit"),
        ("gets-0", "rank 0 of golden"),
        ("gets-2", "GETS OF KEYS"),
    ] {
        let ended = pmixctl(&["inspect"], &golden.outer.join(name));
        assert!(ended.code() == 0 && ended.stdout.contains(text), "{name}: {ended}");
    }
    for (golden, why) in others(place.path()) {
        let ended = pmixctl(&["inspect"], &golden.outer);
        let told = ended.count(&format!("{why}: to read it, use the release that wrote it"));
        let segments = if why.contains("page") { 1 } else { 3 };
        assert_eq!((ended.code(), told, ended.count("global of")), (1, segments, 0), "{ended}");
    }
}

/// Runs a rank with a copy of the directory `$OTHER`, but for the socket, in place of its server's.
const IN_ITS_PLACE: &str = r#"
COPY=$OTHER.$PMIX_RANK
cp -a $OTHER $COPY
ln -s $PMIX_DSTORE_SEGMENTS/sock $COPY/sock
export PMIX_DSTORE_SEGMENTS=$COPY PMIX_DSTORE_INODE=$(printf %x:%x $(stat -c '%d %i' $COPY))
exec "$@"
"#;

#[test]
fn ranks_refuse_directories_of_other_versions_and_make_all_calls_over_the_socket() {
    let place = tempfile::tempdir().expect("a temporary directory");
    for (golden, why) in others(place.path()) {
        let run = Run::new(program("host"), Library::ours()).args("-s 2 -n 2 --nspace golden --timeout 100 --rank-lib");
        let run = run.arg(Library::ours().directory()).env("OTHER", golden.inner());
        let run =
            run.args("sh -c").arg(IN_ITS_PLACE).arg("sh").arg(program("client")).args("--strict --reput --unshared");
        let ended = run.succeed();
        assert_eq!((ended.count("FAIL"), ended.count(" checks, 0 failed")), (0, 4), "{why}: {ended}");
        let told: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("pmix-dstore client ")).collect();
        let is_told = |line: &&str| {
            line.contains(&format!("{why}: to read it")) && line.ends_with("; values come over the socket")
        };
        assert_eq!((told.len(), told.iter().filter(|line| is_told(line)).count()), (4, 4), "{ended}");
    }
}

/// A C host in this directory with one rank, which ends at once.
fn host(directory: &Path) -> Ended {
    let run = Run::new(program("host"), Library::ours()).env("HOST_DIRECTORY", directory);
    run.args("-s 1 -n 1 --timeout 100 true").succeed()
}

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).expect("the directory").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Whether a server lives is told by the lock on the outer directory alone, which is the same in all versions.
#[test]
fn the_next_server_removes_directories_of_any_version_if_their_servers_have_ended() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let others = others(place.path());
    let all = names(place.path());
    let lock = |golden: &Golden| {
        let file = File::open(&golden.outer).expect("the directory");
        file.lock().expect("a lock");
        file
    };
    let living: Vec<_> = others.iter().map(|(golden, _)| lock(golden)).collect();
    assert_eq!(pmixctl(&["clean", "--directory"], place.path()).code(), 0);
    host(place.path());
    assert_eq!(names(place.path()), all, "all their servers live");
    for (golden, _) in &others {
        assert!(golden.inner().join("segment-2").exists() && golden.inner().join("page-0").exists());
    }
    drop(living);
    // A newer release may make files that this one does not know.
    let (newest, _) = &others[3];
    fs::write(newest.inner().join("index-0"), "of the next version").expect("a file");
    host(place.path());
    let stays = newest.outer.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(names(place.path()).join(" "), stays);
    let ended = pmixctl(&["clean", "--directory"], place.path());
    let why = "not removed: index-0 in it is no file that this release makes; remove the directory yourself";
    assert!(ended.code() == 1 && ended.stdout.contains(&stays) && ended.stdout.contains(why), "{ended}");
    for name in ["page-0", "segment-0", "segment-2", "index-0"] {
        assert!(newest.inner().join(name).exists(), "{name}");
    }
}

#[test]
fn a_library_is_replaced_under_a_running_job() {
    for hosted in [Hosted::ByLauncher, Hosted::ByHost] {
        let ended = replace_under_job(hosted, (Library::ours(), Library::ours()), 3);
        assert!(!ended.stderr.contains("pmix-dstore client "), "all have shared memory: {ended}");
    }
}
