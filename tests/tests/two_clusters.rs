//! RFC0003's example: processes of two clusters, each a `pmixrun` on this node, connect with each other and use the namespace of their connect.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::unistd::geteuid;
use pmix_tests::{Deadline, Ended, Library, Run, Traces, left_out, own_program, pmixrun};

/// A job of so many ranks on a cluster, which finds the other one's by a key.
fn job(traces: &Traces, socket: &Path, what: &str, (cluster, theirs): (&str, &str), ranks: usize) -> Run {
    let run = Run::new(pmixrun(), Library::ours()).traced(traces).args(&format!("-n {ranks} --cluster-id {cluster}"));
    run.arg("--partner").arg(socket).arg(own_program("clusters")).arg(what).arg(cluster).arg(theirs)
}

/// Runs two jobs, of two ranks and three. The first is there first.
fn run(first: &str, second: &str, clusters: (&str, &str)) -> [Ended; 2] {
    let (first_traces, second_traces) = (Traces::begin(), Traces::begin());
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("link");
    let ended = thread::scope(|scope| {
        let one = scope.spawn(|| job(&first_traces, &socket, first, clusters, 2).run());
        await_socket(&socket);
        let other = job(&second_traces, &socket, second, (clusters.1, clusters.0), 3).run();
        [one.join().unwrap(), other]
    });
    for (ended, ranks, traces) in [(&ended[0], 2, &first_traces), (&ended[1], 3, &second_traces)] {
        assert_eq!((ended.code(), ended.count("FAIL"), ended.count(": done")), (0, 0, ranks), "{first}: {ended}");
        traces.assert_none_left(ended);
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "the socket is left");
    ended
}

fn await_socket(socket: &Path) {
    let mut deadline = Deadline::new(Run::deadline_by_default());
    while !socket.exists() {
        assert!(deadline.pause(), "the first launcher makes no socket");
    }
}

/// The ranks that were given in each namespace, of both clusters.
fn given(ended: &[Ended; 2]) -> BTreeMap<String, BTreeSet<u32>> {
    let mut given: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for line in ended.iter().flat_map(|ended| ended.stdout.lines()) {
        if let Some((rank, nspace)) = line.strip_prefix("rank ").and_then(|line| line.split_once(" of ")) {
            let is_new = given.entry(nspace.to_owned()).or_default().insert(rank.parse().expect("a rank"));
            assert!(is_new, "{line} twice: {} {}", ended[0], ended[1]);
        }
    }
    given
}

/// All five processes have a rank in each of so many namespaces.
fn assert_namespaces(ended: &[Ended; 2], count: usize) {
    let given = given(ended);
    let is_whole = |ranks: &BTreeSet<u32>| ranks.iter().copied().eq(0..5);
    assert_eq!(given.len(), count, "{} {}", ended[0], ended[1]);
    let is_name = |name: &String| name.starts_with("connect.");
    assert!(given.iter().all(|(name, ranks)| is_name(name) && is_whole(ranks)), "{given:?}");
}

#[test]
fn processes_of_two_clusters_use_the_namespace_of_their_connect() {
    for clusters in [("A", "B"), ("west", "east")] {
        let ended = run("example", "example", clusters);
        assert_namespaces(&ended, 1);
        // All agree who has which rank: those of the cluster whose name comes first.
        let who: BTreeSet<&str> =
            ended.iter().flat_map(|ended| ended.stdout.lines()).filter(|line| line.starts_with("new rank")).collect();
        let first = if clusters == ("A", "B") { "A:" } else { "east:" };
        let ranks = if clusters == ("A", "B") { 2 } else { 3 };
        assert_eq!(who.len(), 5, "{who:?}");
        let of_first = who.iter().filter(|line| line.split(" is ").nth(1).is_some_and(|id| id.starts_with(first)));
        assert!(of_first.clone().count() == ranks && of_first.eq(who.iter().take(ranks)), "{who:?}");
    }
}

#[test]
fn two_connects_of_two_clusters_go_on_at_a_time() {
    assert_namespaces(&run("parallel", "parallel", ("A", "B")), 2);
}

#[test]
fn a_connect_that_has_timed_out_does_not_meet_the_partners() {
    for (first, second) in [("early", "late"), ("late", "early")] {
        assert_namespaces(&run(first, second, ("A", "B")), 1);
    }
}

#[test]
fn a_job_that_ends_before_it_connects_fails_the_connect_of_the_other() {
    for (first, second) in [("alone", "leave"), ("leave", "alone")] {
        let ended = run(first, second, ("A", "B"));
        assert!(given(&ended).is_empty());
        assert!(ended.iter().all(|ended| ended.stderr.is_empty()), "{} {}", ended[0], ended[1]);
    }
}

/// A launcher that is killed, whichever of both it is.
#[test]
fn what_waits_for_a_launcher_that_is_killed_fails() {
    for is_first in [true, false] {
        let traces = Traces::begin();
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("link");
        let ended = thread::scope(|scope| {
            let left = || scope.spawn(|| job(&traces, &socket, "left", ("A", "B"), 2).run());
            let early = if is_first { None } else { Some(left()) };
            if !is_first {
                await_socket(&socket);
            }
            let mut killed = Killed::start(&socket, "stay", ("B", "A"));
            let left = early.unwrap_or_else(|| {
                await_socket(&socket);
                left()
            });
            killed.await_lines("connected", 2);
            killed.0.kill().unwrap();
            left.join().unwrap()
        });
        assert_eq!((ended.code(), ended.count("FAIL"), ended.count(": done")), (0, 0, 2), "{ended}");
        let told = "pmixrun: --partner: the pmixrun of cluster B is gone: it has ended; what waits for it fails";
        assert_eq!(ended.stderr.trim_end(), told, "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// A launcher that is killed by the test, or at its end.
struct Killed(Child);

impl Killed {
    fn start(socket: &Path, what: &str, (cluster, theirs): (&str, &str)) -> Killed {
        let mut command = Command::new(pmixrun());
        command.args(["-n", "2", "--cluster-id", cluster, "--partner"]).arg(socket);
        command.arg(own_program("clusters")).args([what, cluster, theirs]);
        command.env("LD_LIBRARY_PATH", Library::ours().directory());
        Killed(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    fn await_lines(&mut self, word: &str, count: usize) {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert_eq!(lines.filter(|line| line.contains(word)).take(count).count(), count);
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last line of a launcher that does not begin a job.
fn refused(socket: &Path, cluster: &str) -> String {
    let run = Run::new(pmixrun(), Library::ours()).args(&format!("-n 1 --cluster-id {cluster} --partner"));
    let ended = run.arg(socket).arg("true").run();
    assert_eq!(ended.code(), 125, "{ended}");
    ended.stderr
}

#[test]
fn who_is_no_partner_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("link");
    // A program that is no launcher, and says nothing, or what is no message.
    for says in [&b""[..], b"\0\0\0\x02??", b"\xff\xff\xff\xff"] {
        let listener = UnixListener::bind(&socket).unwrap();
        let line = thread::scope(|scope| {
            let line = scope.spawn(|| refused(&socket, "A"));
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(says).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
            line.join().unwrap()
        });
        let word = if says.is_empty() { "does not answer" } else { "no pmixrun of this release" };
        assert!(line.contains(word), "{line}");
        drop(listener);
        // A process that another test has just forked may have a copy of the listener until it becomes its program.
        let mut deadline = Deadline::new(Run::deadline_by_default());
        loop {
            let line = refused(&socket, "A");
            if line.contains("no launcher listens at this socket any more: remove it") {
                break;
            }
            assert!(deadline.pause(), "{line}");
        }
        std::fs::remove_file(&socket).unwrap();
    }
    // Two with the same name: the first one says so once, and goes on waiting.
    let traces = Traces::begin();
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| job(&traces, &socket, "parallel", ("A", "B"), 2).run());
        await_socket(&socket);
        for _ in 0..2 {
            assert!(refused(&socket, "A").contains("has --cluster-id A, too"));
        }
        let other = job(&traces, &socket, "parallel", ("B", "A"), 3).run();
        (one.join().unwrap(), other)
    });
    assert_eq!((one.code(), other.code(), one.stderr.lines().count()), (0, 0, 1), "{one} {other}");
    assert!(one.stderr.contains("not the partner that is awaited"), "{one}");
}

/// One that says who it is as a launcher does, and then what no launcher says. Who waits for it is told.
#[test]
fn a_partner_that_says_what_is_no_message_is_given_up() {
    for (says, word) in
        [(&b"\xff\xff\xff\xff"[..], "a message of 4294967295 bytes"), (b"\0\0\0\x01\x63", "cannot be read")]
    {
        let traces = Traces::begin();
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("link");
        let ended = thread::scope(|scope| {
            let launcher = scope.spawn(|| job(&traces, &socket, "example", ("A", "B"), 1).run());
            await_socket(&socket);
            let mut stream = UnixStream::connect(&socket).unwrap();
            let mut head = [0; 4];
            stream.read_exact(&mut head).unwrap();
            let mut hello = vec![0; u32::from_be_bytes(head) as usize];
            stream.read_exact(&mut hello).unwrap();
            // The name of the cluster is its last character.
            let name = hello.iter().rposition(|byte| *byte == b'A').unwrap();
            hello[name] = b'B';
            stream.write_all(&[&head[..], &hello, says].concat()).unwrap();
            let ended = launcher.join().unwrap();
            drop(stream);
            ended
        });
        let told = "rank 0: FAIL PMIx_Lookup: PMIX_ERR_LOST_CONNECTION";
        assert_eq!((ended.code(), ended.count(told)), (1, 1), "{ended}");
        let line = |line: &str| {
            line.starts_with("pmixrun: --partner: the pmixrun of cluster B is gone") && line.contains(word)
        };
        assert!(ended.stderr.lines().any(line), "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// Root may connect to everybody's socket, and everybody to one that root has opened for all: neither gets a partner so.
#[test]
fn another_user_is_no_partner() {
    const USER: &str = "--reuid 65534 --regid 65534 --clear-groups";
    if !geteuid().is_root() {
        return left_out("root", "only root can be another user");
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (socket, go) = (place.path().join("link"), place.path().join("go"));
    let until_go = format!("until [ -e {} ]; do sleep 0.05; done", go.display());
    let of_user = |cluster: &str, words: &[&str]| {
        let run = Run::new("setpriv", Library::ours()).args(USER).env("TMPDIR", place.path()).arg(pmixrun());
        let run = run.args(&format!("-n 1 --cluster-id {cluster} --partner")).arg(&socket);
        words.iter().fold(run, Run::arg)
    };
    // A launcher of the other user: root is not let in, and does not want in.
    thread::scope(|scope| {
        let theirs = scope.spawn(|| of_user("A", &["sh", "-c", &until_go]).run());
        await_socket(&socket);
        let line = refused(&socket, "B");
        assert!(line.contains("of user 65534: a partner is a pmixrun of the same user"), "{line}");
        let mut stranger = UnixStream::connect(&socket).unwrap();
        let mut said = Vec::new();
        let _ = stranger.read_to_end(&mut said);
        assert!(said.is_empty(), "it says nothing to a stranger");
        std::fs::write(&go, "").unwrap();
        let ended = theirs.join().unwrap();
        assert_eq!((ended.code(), ended.stderr.lines().count()), (0, 1), "{ended}");
        assert!(ended.stderr.contains("of user 0"), "{ended}");
    });
    // A launcher of root, at whose socket the other user cannot even connect; and can if root lets it.
    std::fs::remove_file(&go).unwrap();
    let root = Run::new(pmixrun(), Library::ours()).args("-n 1 --cluster-id A --partner").arg(&socket);
    let root = root.args("sh -c").arg(&until_go);
    thread::scope(|scope| {
        let root = scope.spawn(|| root.run());
        await_socket(&socket);
        let closed = of_user("B", &["true"]).run();
        assert!(closed.code() == 125 && closed.stderr.contains("Permission denied"), "{closed}");
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
        let open = of_user("B", &["true"]).run();
        assert!(open.code() == 125 && open.stderr.contains("of user 0: a partner is"), "{open}");
        std::fs::write(&go, "").unwrap();
        assert_eq!(root.join().unwrap().code(), 0);
    });
}
