use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::process::Command;

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, connect, listen, socket};
use pmix_dstore::model::Nspace;
use pmix_dstore::segment::Publisher;

use super::*;
use crate::left_out::left_out;

/// The outcome of each name, sorted.
fn outcomes(found: &[Leftover]) -> Vec<(String, Kind, Outcome)> {
    let of = |left: &Leftover| {
        (left.path.file_name().unwrap().to_string_lossy().into_owned(), left.kind, left.outcome.clone())
    };
    let mut all: Vec<_> = found.iter().map(of).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn look(directory: &Path, removes: bool) -> Vec<Leftover> {
    let mut search = Search::new("here", removes);
    search.look_below(directory).unwrap();
    search.found()
}

fn namespace(directory: &Path) -> (Publisher, String) {
    let publisher = Publisher::create(directory, &Nspace::new("job").unwrap(), None).unwrap();
    let outer = publisher.directory().parent().unwrap();
    let name = outer.file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(outer.join("steps-0"), "").unwrap();
    (publisher, name)
}

/// The name of a copy of a namespace's directory, as its server leaves it that is killed: nobody has the lock.
fn left(directory: &Path, number: u8) -> String {
    let (publisher, _) = namespace(directory);
    let (outer, name) = (publisher.directory().parent().unwrap(), format!("pmix-dstore-{number:016x}-{:016x}", 7));
    let copied = Command::new("cp").arg("-a").arg(outer).arg(directory.join(&name)).status();
    assert!(copied.is_ok_and(|status| status.success()));
    name
}

/// The number of a process that is not there: no system gives so high a one.
fn ended() -> u32 {
    i32::MAX as u32
}

fn contact(port: u16, pid: u32) -> String {
    format!("a.0;tcp4://127.0.0.1:{port}\n4.2.2\n{pid}\n0:0\nFri Nov 20 23:55:02 2026\n\n")
}

#[test]
fn a_living_servers_directory_stays_and_a_dead_ones_goes_with_all_that_is_in_it() {
    let top = tempfile::tempdir().unwrap();
    let (living, living_name) = namespace(top.path());
    fs::create_dir(top.path().join("session")).unwrap();
    let dead = left(&top.path().join("session"), 1);
    // Its server was killed before it made the inner directory.
    let early = "pmix-dstore-0000000000000002-0000000000000007";
    fs::create_dir(top.path().join(early)).unwrap();
    let expected = |outcome: Outcome| {
        [(dead.clone(), Kind::Namespace, outcome.clone()), (early.to_owned(), Kind::Namespace, outcome)]
    };
    assert_eq!(outcomes(&look(top.path(), false)), expected(Outcome::Found));
    assert!(top.path().join("session").join(&dead).join("s/page-0").exists());
    assert_eq!(outcomes(&look(top.path(), true)), expected(Outcome::Removed));
    assert!(!top.path().join("session").join(&dead).exists() && !top.path().join(early).exists());
    assert_eq!(look(top.path(), true), []);
    assert!(living.directory().join("page-0").exists() && top.path().join(living_name).join("steps-0").exists());
    drop(living);
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
}

/// Servers of releases that do not lock their directories.
#[test]
fn a_directory_whose_socket_is_served_is_a_living_servers() {
    let top = tempfile::tempdir().unwrap();
    let name = left(top.path(), 1);
    let listener = std::os::unix::net::UnixListener::bind(top.path().join(&name).join("s/sock")).unwrap();
    assert_eq!(look(top.path(), true), []);
    // A stopped server: the queue is full, and a connect without a time limit would wait for ever.
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let address = UnixAddr::new(&top.path().join(&name).join("s/sock")).unwrap();
    let connect_now = || {
        let client = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).unwrap();
        connect(client.as_raw_fd(), &address).map(|()| client)
    };
    let waiting: Vec<_> = std::iter::from_fn(|| connect_now().ok()).collect();
    assert_eq!(look(top.path(), true), []);
    drop((listener, waiting));
    assert_eq!(outcomes(&look(top.path(), true)), [(name, Kind::Namespace, Outcome::Removed)]);
}

#[test]
fn what_a_server_has_not_made_stays_and_is_told() {
    let top = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let names: Vec<String> = (1..=4).map(|number| left(top.path(), number)).collect();
    let path = |number: usize| top.path().join(&names[number]);
    // A link in place of the directory, and of the one in it; one that others may write to; one with a file of somebody else.
    fs::rename(path(0), elsewhere.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("moved"), path(0)).unwrap();
    fs::rename(path(1).join("s"), elsewhere.path().join("s")).unwrap();
    symlink(elsewhere.path().join("s"), path(1).join("s")).unwrap();
    fs::set_permissions(path(2).join("s"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(path(3).join("s/notes"), "").unwrap();
    symlink(elsewhere.path(), top.path().join("pmixrun.0123456789abcdef")).unwrap();
    symlink(elsewhere.path().join("s/page-0"), top.path().join("pmix.here.tool")).unwrap();
    symlink(elsewhere.path(), top.path().join("below")).unwrap();
    let found = outcomes(&look(top.path(), true));
    let refused = found.iter().filter(|(_, _, outcome)| *outcome == Outcome::Refused).count();
    assert_eq!((found.len(), refused), (6, 5), "{found:?}");
    assert!(found.iter().any(|(name, _, outcome)| *name == names[3] && matches!(outcome, Outcome::Failed(_))));
    assert!(path(3).join("s/notes").exists());
    assert!(elsewhere.path().join("moved/s/page-0").exists() && elsewhere.path().join("s/page-0").exists());
}

#[test]
fn a_contact_file_goes_when_its_process_has_ended_and_nobody_listens() {
    let top = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = listener.local_addr().unwrap().port();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (gone, own) = (ended(), std::process::id());
    let write = |name: &str, text: &str| fs::write(top.path().join(name), text).unwrap();
    let secret = "0123456789abcdef".repeat(4);
    write("pmix.here.tool.dead", &contact(closed, gone));
    write(".pmix.here.tool.dead.proof", &format!("a.0;tcp4://127.0.0.1:{closed}\n{secret}\n"));
    write("pmix.sys.here", &contact(closed, gone));
    // Each alone proves nothing.
    write("pmix.here.tool.listens", &contact(served, gone));
    write(".pmix.here.tool.listens.proof", &format!("a.0;tcp4://127.0.0.1:{served}\n{secret}\n"));
    write("pmix.here.tool.lives", &contact(closed, own));
    // Another host's; something else; one that is being written.
    write("pmix.there.tool.dead", &contact(closed, gone));
    write("pmix.here.tool.notes", "a text\n");
    write(".pmix.here.tool.dead.0123456789abcdef", "");
    write(".pmix.here.tool.dead.0123456789abcdee", "");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let unfinished = File::options().write(true).open(top.path().join(".pmix.here.tool.dead.0123456789abcdee"));
    unfinished.unwrap().set_modified(old).unwrap();
    let removed = |names: &[&str]| -> Vec<_> {
        names.iter().map(|name| ((*name).to_owned(), Kind::Contact, Outcome::Removed)).collect()
    };
    let of_system = sweep_system(top.path(), "here");
    assert_eq!(outcomes(&of_system), removed(&["pmix.sys.here"]));
    let expected = [".pmix.here.tool.dead.0123456789abcdee", ".pmix.here.tool.dead.proof", "pmix.here.tool.dead"];
    assert_eq!(outcomes(&sweep(top.path(), "here", None)), removed(&expected));
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 6);
}

#[test]
fn nothing_of_another_user_is_touched() {
    if !geteuid().is_root() {
        return left_out("root", "only root can act as another user");
    }
    let top = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let names = [
        left(top.path(), 1),
        left(top.path(), 2),
        "pmixrun.0123456789abcdef".into(),
        "pmix.here.tool".into(),
        // Written by half, long ago.
        ".pmix.here.tool.0123456789abcdef".into(),
        "pmixrun.0123456789abcdee".into(),
        "pmixrun.0123456789abcded".into(),
    ];
    let path = |number: usize| top.path().join(&names[number]);
    fs::create_dir(path(2)).unwrap();
    fs::write(path(3), contact(closed, ended())).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    File::create(path(4)).unwrap().set_modified(old).unwrap();
    File::create(path(5)).unwrap();
    symlink(top.path(), path(6)).unwrap();
    for theirs in [path(0), path(0).join("s"), path(2), path(3), path(4), path(5), path(6)] {
        lchown(theirs, Some(60_003), None).unwrap();
    }
    // A server of root's gives the outer directory to the job's user.
    chown(path(1), Some(60_003), None).unwrap();
    assert_eq!(outcomes(&look(top.path(), true)), [(names[1].clone(), Kind::Namespace, Outcome::Removed)]);
    assert!(path(0).join("s/page-0").exists() && path(2).exists() && path(3).exists() && path(4).exists());
}
