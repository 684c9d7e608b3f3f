//! Checks that `.ci/docs` finds documents that disagree with the tree, and `benches/results.py` tables that disagree
//! with the results.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use pmix_tests::repository;

/// The exit status and the findings of a program of the project in `root`.
fn findings(program: &str, args: &[&str], root: &Path) -> (bool, String) {
    // Not executed itself: the copy may still be open for writing in a child that another test has just forked.
    let output = Command::new("python3").arg(root.join(program)).args(args).output().expect("python3 runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A copy of the project's tree, in which documents may be changed.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(from).expect("the project's directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            // Files in these folders are copied. Subfolders are links, because nothing writes there.
            if path.is_file() {
                fs::copy(&path, to.join(name)).expect("a copy");
            } else if !["docs", "benches", "target", ".git"].iter().any(|own| path == repository().join(own)) {
                symlink(&path, to.join(name)).expect("a link");
            }
        }
    };
    for folder in ["", "docs", "benches"] {
        copy(&repository().join(folder), &root.path().join(folder));
    }
    root
}

#[test]
fn each_disagreement_of_a_document_is_found() {
    let root = tree();
    let (passes, said) = findings(".ci/docs", &[&root.path().to_string_lossy()], root.path());
    assert!(passes, "{said}");
    for (document, old, new, finding) in [
        ("README.md", "(docs/glossary.md)", "(docs/words.md)", "docs/words.md leads nowhere"),
        ("README.md", "slurm.md#roll-back", "slurm.md#back", "docs/slurm.md#back: no such heading"),
        ("docs/developers.md", "`server/src/host.rs`", "`server/src/hosts.rs`", "there is no server/src/hosts.rs"),
        ("docs/hosts.md", "`a_lookup_may_be_answered", "`a_lookup_is_answered", "no code has a_lookup_is_answered"),
        ("docs/admin.md", "`PMIX_DSTORE_TRACE`", "`PMIX_TRACE`", "does not have PMIX_DSTORE_TRACE"),
        ("docs/developers.md", "`PMIX_TEST_KILLS=N`", "kills", "does not have PMIX_TEST_KILLS"),
        ("docs/admin.md", "`epoll: <error>; the", "`epoll: <error>; a", "no log line has 'a server stops'"),
        ("docs/complaints.md", "`mpi::many_ranks`", "`mpirun::many_ranks`", "no test mpirun::many_ranks"),
        ("docs/complaints.md", "`mpi::many_ranks`", "nothing", "neither a test nor 'not solved'"),
        ("docs/complaints.md", "## Noise", "## Sounds", "0 lines of Noise, 4 are needed"),
        (
            "docs/complaints.md",
            "https://github.com/open-mpi/ompi/issues/6761",
            "https://x.org/",
            "no thread or no release",
        ),
        ("docs/admin.md", "| `epoll: <error>; the server stops`", "| none", "does not have the log line"),
    ] {
        let path = root.path().join(document);
        let text = fs::read_to_string(&path).expect("the document");
        assert!(text.contains(old), "{document} does not have {old}");
        fs::write(&path, text.replace(old, new)).expect("a file");
        let (passes, said) = findings(".ci/docs", &[&root.path().to_string_lossy()], root.path());
        assert!(!passes && said.contains(finding), "{document}, {old}: {said}");
        fs::write(&path, text).expect("a file");
    }
}

#[test]
fn a_table_that_is_not_of_the_results_is_found_and_written_anew() {
    let root = tree();
    let check = || findings("benches/results.py", &["--check"], root.path());
    let path = root.path().join("README.md");
    assert_eq!(check(), (true, String::new()));
    let text = fs::read_to_string(&path).expect("README.md");
    let row = text.lines().find(|line| line.starts_with("| `PMIx_Get`")).expect("a row");
    fs::write(&path, text.replace(row, "| `PMIx_Get` | 1 ns | 1 ns | 1 |")).expect("a file");
    let (passes, said) = check();
    assert!(!passes && said.contains("README.md: tables differ"), "{said}");
    assert!(findings("benches/results.py", &[], root.path()).0);
    assert_eq!(fs::read_to_string(&path).expect("README.md"), text);
}
