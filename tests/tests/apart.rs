//! Two users at one server: which data of one user's job a tool of the other can reach, and what it is told of the other's servers.
//!
//! The host runs as root and registers its ranks as the user Ann's. The tools run under uids without an account.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Traces, beside_host, left_out, pmixrun, program};

const ANN: u32 = 20_001;
const BOB: u32 = 20_002;
const ROOT: u32 = 0;

/// Runs `tests/programs/tool.c` with `words` as a process of user `uid`. `None` without root.
fn tool_of(uid: u32, library: Library, host: &str, words: &str) -> Option<Ended> {
    if !geteuid().is_root() {
        left_out("root", "only root can be another user");
        return None;
    }
    let traces = Traces::begin();
    let (directory, program) = (library.directory(), program("tool"));
    // Other users cannot read root's directory for temporary files, so they get the server's address.
    let line = format!(
        "uri=$(head -1 $PMIX_SYSTEM_TMPDIR/pmix.$(hostname -s).tool); \
         LD_LIBRARY_PATH={} setpriv --reuid {uid} --regid {uid} --clear-groups {} --uri $uri {words}",
        directory.display(),
        program.display()
    );
    Some(beside_host(Library::ours(), &traces, &format!("--tools name --owner {ANN} {host}"), &line))
}

/// The tool's answer about `what`.
fn answer<'a>(ended: &'a Ended, what: &str) -> &'a str {
    let start = format!("{what}: ");
    let said = ended.stdout.lines().find_map(|line| line.strip_prefix(start.as_str()));
    said.unwrap_or_else(|| panic!("nothing of {what}: {ended}"))
}

const WORDS: &str = "get=test-job:4294967294:pmix.job.size pull=test-job:0 say=test-job:0:secret take=1 stop=1 \
                     input=test-job:0:text control=test-job:0 send=test-job:0:-3456 query=pmix.qry.ns";

const NO_PERMISSIONS: &str = "-23";

#[test]
fn a_tool_reaches_nothing_of_another_users_job() {
    for library in [Library::ours(), Library::Stock] {
        let words = WORDS.replace("take=1 ", "");
        let Some(ended) = tool_of(BOB, library, "", &format!("{words} abort=test-job:0")) else { return };
        for what in ["get pmix.job.size", "pull", "input", "control"] {
            assert_eq!(answer(&ended, what), NO_PERMISSIONS, "{what}: {ended}");
        }
        // Stock clients ignore the reply to these requests.
        let told = if library.is_ours() { NO_PERMISSIONS } else { "0" };
        assert_eq!((answer(&ended, "send"), answer(&ended, "abort")), (told, told), "{ended}");
        assert_eq!(answer(&ended, "query pmix.qry.ns"), "0, 1, ", "{ended}");
        assert!(!ended.stdout.contains("secret"), "{ended}");
        let told = |what: &str| ended.stderr.lines().any(|line| line.starts_with("host ") && line.contains(what));
        for what in [": pull of ", ": input of ", ": abort", ": event -3456"] {
            assert!(!told(what), "the host heard of {what}: {ended}");
        }
    }
}

#[test]
fn the_user_root_and_permitted_processes_reach_a_job() {
    for (uid, host) in [(ANN, ""), (ROOT, ""), (BOB, "--let 20002")] {
        let Some(ended) = tool_of(uid, Library::ours(), host, WORDS) else { return };
        assert_eq!(answer(&ended, "get pmix.job.size"), "0, 1", "{ended}");
        assert!(answer(&ended, "pull").parse::<i32>().is_ok_and(|number| number >= 0), "{ended}");
        assert_eq!(ended.count("from test-job:0: secret"), 1, "{ended}");
        assert_eq!((answer(&ended, "input"), answer(&ended, "send")), ("0", "0"), "{ended}");
        assert_eq!(answer(&ended, "control"), "0", "{ended}");
        assert_eq!(answer(&ended, "query pmix.qry.ns"), "0, 1, test-job", "{ended}");
        let asked = ended.stderr.lines().find(|line| line.contains(": pull of 1, first test-job:0"));
        assert!(asked.is_some_and(|line| line.contains(&format!("pmix.euid=uint32:{uid}"))), "{ended}");
    }
}

/// What a tool leaves out is no secret: a user who misses a job sees that there are others'.
#[test]
fn pmixctl_servers_counts_the_files_of_other_users() {
    if !geteuid().is_root() {
        return left_out("root", "only root can make files of other users");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let show = |options: &[&str]| {
        let mut command = Command::new(pmixrun().with_file_name("pmixctl"));
        command.arg("servers").args(options).env("PMIX_HOSTNAME", "here").env("PMIX_SYSTEM_TMPDIR", directory.path());
        let ended = command.env_remove("PMIX_SERVER_TMPDIR").output().expect("pmixctl runs");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        String::from_utf8(ended.stdout).expect("text")
    };
    let nobody = "no server that a tool could reach; those of mpirun 4 and Slurm take no tools\n";
    assert_eq!(show(&[]), nobody);
    let one = "\n1 rendezvous file of another user is left out: run pmixctl as that user to see its server\n";
    let two = "\n2 rendezvous files of other users are left out: run pmixctl as these users to see their servers\n";
    for (count, said) in [(1, one), (2, two)] {
        let theirs = directory.path().join(format!("pmixrun.{count}"));
        fs::create_dir(&theirs).expect("a directory");
        fs::write(theirs.join("pmix.here.tool"), "").expect("a file");
        chown(&theirs, Some(60_003), None).expect("another user's");
        assert_eq!(show(&[]), format!("{nobody}{said}"));
        let json: serde_json::Value = serde_json::from_str(&show(&["--json"])).expect("JSON");
        assert_eq!(json, serde_json::json!({ "servers": [], "left_out_of_other_users": count }));
    }
}
