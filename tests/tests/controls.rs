//! Checkpoints, credentials and monitoring under `pmixrun`, with this library and with the stock one in the ranks.

use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;
use pmix_dstore::model::{Status, keys};
use pmix_tests::{Ended, Host, Hosts, Library, Profile, Run, Traces, pmixrun, program};

const BOTH: [Library; 2] = [Library::Ours(Profile::Debug), Library::Stock];

/// `tests/programs/checkpoint.c`.
#[test]
fn ranks_are_asked_for_checkpoints_and_their_word_is_awaited() {
    let (unknown, failed, late) = (Status::ERR_NOT_SUPPORTED.0, Status::ERR_PROC_CHECKPOINT.0, Status::ERR_TIMEOUT.0);
    let mut told = vec![
        "event: 0".to_owned(),
        "signal: 0".to_owned(),
        format!("unknown: {unknown}"),
        "method: 0".to_owned(),
        "declared: 0".to_owned(),
        format!("failed: {failed}"),
        format!("silent: {late}"),
        format!("restart: {unknown}"),
    ];
    for rank in 1..3 {
        told.extend(["event nightly", "declared declared", "failed failed"].map(|said| format!("rank {rank}: {said}")));
        told.push(format!("rank {rank}: signal {}", Signal::SIGUSR2 as i32));
    }
    told.sort_unstable();
    for library in BOTH {
        let traces = Traces::begin();
        let run = Run::new(pmixrun(), library).traced(&traces).args("-n 3 --timeout 120").arg(program("checkpoint"));
        let ended = run.run();
        traces.assert_none_left(&ended);
        assert_eq!(
            (ended.code(), ended.sorted_lines()),
            (0, told.iter().map(String::as_str).collect()),
            "{library:?}: {ended}"
        );
        let says = [
            ".job:0 asks for PMIX_JOB_CTRL_CHECKPOINT, and gets PMIX_ERR_NOT_SUPPORTED: pmixrun has no checkpointer; ",
            ".job:0 asked for checkpoint failed, and gets PMIX_ERR_PROC_CHECKPOINT; failed or ended: rank 1 (pid ",
            ".job:0 asked for checkpoint silent, and gets PMIX_ERR_TIMEOUT; not complete: rank 1 (pid ",
            ".job:0 asks for PMIX_JOB_CTRL_RESTART, and gets PMIX_ERR_NOT_SUPPORTED: pmixrun starts no process anew",
        ];
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let is_told = lines.len() == says.len() && lines.iter().zip(says).all(|(line, says)| line.contains(says));
        assert!(is_told, "{library:?}: {ended}");
    }
}

/// What `tests/programs/credentials.c` of two ranks prints.
fn assert_told(library: Library, ended: &Ended, stdout: &[String], stderr: &[&str]) {
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!((ended.code(), lines), (0, stdout.iter().map(String::as_str).collect()), "{library:?}: {ended}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_told = lines.len() == stderr.len() && lines.iter().zip(stderr).all(|(line, says)| line.contains(says));
    assert!(is_told, "{library:?}: {ended}");
}

#[test]
fn a_credential_of_munge_tells_its_user_once() {
    let Some(hosts) = Hosts::start() else { return };
    for (library, user) in BOTH.into_iter().flat_map(|library| [(library, 0), (library, 65_534)]) {
        let run = hosts.run(Host::Server, user, pmixrun(), library).args("-n 2 --timeout 120 --tmpdir /tmp");
        let ended = run.arg(program("credentials")).arg("other,munge").run();
        let invalid = Status::ERR_INVALID_CRED.0;
        let stdout = [
            "get: 0 with bytes".to_owned(),
            format!("validate: 0 {} {user} {} {user} {} munge", keys::USERID, keys::GRPID, keys::CRED_TYPE),
            format!("validate again: {invalid}"),
            format!("validate something else: {invalid}"),
        ];
        let says = [
            ".job:1 shows a credential, and gets PMIX_ERR_INVALID_CRED: munge says: ",
            ".job:1 shows a credential, and gets PMIX_ERR_INVALID_CRED: the bytes are no munge credential",
        ];
        assert_told(library, &ended, &stdout, &says);
    }
}

#[test]
fn without_munge_a_credential_is_refused_with_the_reason() {
    if UnixStream::connect("/run/munge/munge.socket.2").is_ok() {
        return pmix_tests::left_out("kernel", "munge runs on this machine");
    }
    let refused = Status::ERR_NOT_SUPPORTED.0;
    for library in BOTH {
        let run = Run::new(pmixrun(), library).args("-n 2 --timeout 60").arg(program("credentials"));
        let says = [".job:0 asks for a credential, and gets PMIX_ERR_NOT_SUPPORTED: "];
        assert_told(library, &run.run(), &[format!("get: {refused}")], &says);
        let run = Run::new(pmixrun(), library).args("-n 2 --timeout 60").arg(program("credentials")).arg("kerberos");
        let says = [
            ".job:0 asks for a credential, and gets PMIX_ERR_NOT_SUPPORTED: pmixrun has credentials of type munge alone",
        ];
        assert_told(library, &run.run(), &[format!("get: {refused}")], &says);
    }
}

/// The server's own: `pmixrun` has nothing to add.
#[test]
fn ranks_and_files_are_monitored_by_the_server() {
    for library in BOTH {
        let usage = if library.is_ours() { "--usage 2" } else { "--usage 0" };
        for what in ["--files", usage] {
            let run = Run::new(pmixrun(), library).args("-n 2 --timeout 100").arg(program("watched")).args(what);
            let ended = run.run();
            assert_eq!(
                (ended.code(), ended.count("FAIL"), ended.count(": through")),
                (0, 0, 2),
                "{library:?}: {ended}"
            );
        }
    }
}
