use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::{Command, Stdio};

use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Rank, Value};
use pmix_dstore::segment::{JOURNAL_NEW_NAME, ModexBuilder, SegmentKind, build_job};

use super::file::write_new;
use super::*;
use crate::left_out::left_out;
use crate::leftovers::{self, Outcome};
use crate::restart::Record;
use crate::secret::Secret;

const SERVER: &str = "host.0";

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

/// The directory of a namespace with one published value, and a journal with one that is not.
struct Left {
    name: String,
    inner: PathBuf,
}

impl Left {
    fn journal(&self) -> PathBuf {
        self.inner.join(JOURNAL_NAME)
    }

    fn origin(&self) -> Origin {
        let directory = FileId::of(&self.inner).unwrap().to_string().into();
        Origin { life: 2, patience: 60, boot: file::boot(), directory, server: SERVER.into() }
    }

    fn write(&self, of: &Nspace, origin: &Origin) {
        let key = Key::new("unseen").unwrap();
        let records = [
            Record::secret(Rank(1), &Secret::new().unwrap()).unwrap(),
            Record::commit(Rank(1), &[(3, vec![(&key, &Value::Uint32(7))])]).unwrap(),
        ];
        let directory = File::open(&self.inner).unwrap();
        write_new(directory.as_fd(), of, origin, &records).unwrap();
    }
}

/// A copy of a namespace's directory, as its server leaves it that is killed: nobody has the lock.
fn left(tmp: &Path, number: u8, of: &Nspace) -> Left {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut publisher = Publisher::create(elsewhere.path(), of, None).unwrap();
    publisher.publish(SegmentKind::Job, &build_job(&JobData::new(of.clone()), "test").unwrap()).unwrap();
    let mut builder = ModexBuilder::new(of.clone());
    builder.add(Rank(1), &Key::new("seen").unwrap(), &Value::Uint32(6)).unwrap();
    let segment: GatherBuf = builder.finish("test").unwrap();
    publisher.publish(SegmentKind::Modex, &segment).unwrap();
    let name = format!("pmix-dstore-{number:016x}-{:016x}", 7);
    let outer = publisher.directory().parent().unwrap();
    let copied = Command::new("cp").arg("-a").arg(outer).arg(tmp.join(&name)).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let inner = tmp.join(&name).join("s");
    let left = Left { name, inner };
    left.write(of, &left.origin());
    left
}

/// A change of the journal of what is left.
fn journal(change: impl Fn(&Path)) -> impl Fn(&Left) {
    move |left| change(&left.journal())
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// Sweeps until something is found: the child of another test may have a copy of a lock for a moment.
fn swept(directory: &Path, own: Option<&str>) -> Vec<leftovers::Leftover> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let found = leftovers::sweep(directory, "here", own);
        if !found.is_empty() || Instant::now() > until {
            return found;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_servers_have_left_of_several_namespaces_is_taken_over_and_goes_if_nobody_registers_them() {
    let tmp = tempfile::tempdir().unwrap();
    let (one, two) = (nspace("one"), nspace("two"));
    left(tmp.path(), 1, &one);
    let second = left(tmp.path(), 2, &two);
    second.write(&two, &Origin { life: 5, ..second.origin() });
    // Of another server, which lives: of that nothing is said.
    let living = Publisher::create(tmp.path(), &nspace("three"), None).unwrap();
    let found = find(tmp.path(), SERVER);
    assert_eq!((found.lines, found.life, found.directories.len()), (Vec::new(), 6, 2));
    for name in [&one, &two] {
        let estate = &found.estates[name];
        let values: Vec<_> = estate.segments.iter().flat_map(|segment| &segment.contents).collect();
        assert_eq!((values.len(), &*values[0].2, estate.secrets.len()), (1, &Value::Uint32(6), 1));
        assert_eq!(estate.changes.len(), 1);
    }
    drop((found.directories, living));
    assert!(is_empty(tmp.path()));
}

/// Of two servers that are started at once one has all, and the other one says what it did not get.
#[test]
fn two_servers_that_take_over_at_once_do_not_share_a_directory() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = left(tmp.path(), 1, &nspace("one"));
    let found = thread::scope(|scope| {
        let all = [(); 4].map(|()| scope.spawn(|| find(tmp.path(), SERVER)));
        all.map(|one| one.join().unwrap())
    });
    let has = |found: &&Estates| !found.estates.is_empty();
    assert_eq!(found.iter().filter(has).count(), 1);
    for loser in found.iter().filter(|found| !has(found)) {
        // No server listens, so it was not told apart from a child of the killed one.
        assert!(loser.lines[0].contains("another process has it") && loser.life == 0, "{:?}", loser.lines);
    }
    assert!(directory.journal().exists(), "until its namespace is registered or not");
    drop(found);
    assert!(is_empty(tmp.path()));
}

#[test]
fn of_two_directories_of_a_namespace_the_one_with_the_newer_journal_counts() {
    let tmp = tempfile::tempdir().unwrap();
    let directories = [1, 2, 3].map(|number| left(tmp.path(), number, &nspace("one")));
    for (directory, age) in directories.iter().zip([50, 10, 90]) {
        let file = File::options().write(true).open(directory.journal()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    let found = find(tmp.path(), SERVER);
    let path = found.directories.into_values().next().unwrap().into_publisher().unwrap();
    assert_eq!(path.directory(), directories[1].inner);
    assert!(found.lines.len() == 2 && found.lines.iter().all(|line| line.contains("a newer one")), "{:?}", found.lines);
}

/// What is wrong with a directory is said, and it is swept as without a journal.
#[test]
fn a_journal_that_is_not_this_servers_own_is_refused_by_name() {
    let one = nspace("one");
    let refused = |why: &str, change: &dyn Fn(&Left)| {
        let tmp = tempfile::tempdir().unwrap();
        let directory = left(tmp.path(), 1, &one);
        change(&directory);
        let found = find(tmp.path(), SERVER);
        assert!(found.estates.is_empty() && found.directories.is_empty(), "{why}");
        let [line] = &found.lines[..] else { panic!("{why}: {:?}", found.lines) };
        assert!(line.contains(&directory.name) && line.contains(why), "{why}: {line}");
        let swept = swept(tmp.path(), Some(SERVER));
        assert!(matches!(&swept[..], [one] if one.outcome == Outcome::Removed), "{why}: {swept:?}");
        assert!(is_empty(tmp.path()), "{why}");
    };
    let mode = |mode: u32| move |file: &Path| fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    refused("this server's user alone", &journal(mode(0o640)));
    refused("this server's user alone", &journal(mode(0o602)));
    refused(
        "os error 40",
        &journal(|file| {
            let other = file.with_file_name(JOURNAL_NEW_NAME);
            fs::rename(file, &other).unwrap();
            symlink(other, file).unwrap();
        }),
    );
    refused(
        "this server's user alone",
        &journal(|file| {
            fs::remove_file(file).unwrap();
            nix::unistd::mkfifo(file, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        }),
    );
    if geteuid().is_root() {
        refused("this server's user alone", &journal(|file| chown(file, Some(65_534), None).unwrap()));
    } else {
        left_out("root", "only root can give files away");
    }
    refused(
        "does not begin as a journal of this release",
        &journal(|file| {
            let bytes = fs::read(file).unwrap();
            fs::write(file, [b"PMIXDJN2", &bytes[8..]].concat()).unwrap();
        }),
    );
    refused("does not begin as a journal", &journal(|file| fs::write(file, "").unwrap()));
    refused("no header", &journal(|file| File::options().write(true).open(file).unwrap().set_len(40).unwrap()));
    refused(
        "more than",
        &journal(|file| {
            File::options().write(true).open(file).unwrap().set_len(JOURNAL_MAX + 1).unwrap();
        }),
    );
    refused("another boot", &|left| left.write(&one, &Origin { boot: b"former".into(), ..left.origin() }));
    refused("another directory", &|left| left.write(&one, &Origin { directory: b"1:2".into(), ..left.origin() }));
    refused("no page of namespace two", &|left| left.write(&nspace("two"), &left.origin()));
    refused("has had 1000 servers", &|left| left.write(&one, &Origin { life: LIVES_MAX, ..left.origin() }));
}

#[test]
fn no_byte_of_a_journal_can_be_changed_and_it_cannot_end_in_its_header() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = left(tmp.path(), 1, &nspace("one"));
    let whole = fs::read(directory.journal()).unwrap();
    let put = |bytes: &[u8]| {
        fs::write(directory.journal(), bytes).unwrap();
        find(tmp.path(), SERVER)
    };
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        let found = put(&changed);
        assert!(found.estates.is_empty() && found.lines.len() == 1, "{at}: {:?}", found.lines);
    }
    let header = Record::header(&nspace("one"), &directory.origin()).unwrap();
    let of_header = 8 + pmix_dstore::gather::Slices::total_len(&header);
    for len in 0..of_header {
        assert!(put(&whole[..len]).estates.is_empty(), "{len}");
    }
    // What follows may have been cut, and that is said.
    let found = put(&whole[..whole.len() - 1]);
    assert!(found.lines[0].contains("were not written whole") && found.estates.len() == 1, "{:?}", found.lines);
    std::mem::forget(found);
}

/// Whoever else looks lets it be, for as long as its clients wait: a server of another name, one without a name, `pmixctl clean`.
#[test]
fn a_directory_stays_for_the_server_of_its_name() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = left(tmp.path(), 1, &nspace("one"));
    let is_marked = || fs::metadata(directory.journal()).unwrap().mode() & 0o777 == 0o400;
    let found = find(tmp.path(), "host.1");
    assert!(found.estates.is_empty() && found.lines[0].contains(r#"the server "host.0", and this one is "host.1""#));
    let mut looks = leftovers::Search::new("here", false);
    looks.look_below(tmp.path()).unwrap();
    assert!(looks.found().is_empty() && !is_marked());
    for other in [Some("host.1"), None] {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            assert_eq!(leftovers::sweep(tmp.path(), "here", other), []);
            if is_marked() || Instant::now() > until {
                break;
            }
        }
        assert!(is_marked());
    }
    let found = find(tmp.path(), SERVER);
    assert_eq!((found.estates.len(), found.lines), (1, Vec::new()));
    // Not removed, as if that server were killed, too.
    for (_, inherited) in found.directories {
        std::mem::forget(inherited);
    }
}

#[test]
fn a_directory_goes_when_its_clients_wait_no_longer() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = left(tmp.path(), 1, &nspace("one"));
    directory.write(&nspace("one"), &Origin { patience: 0, ..directory.origin() });
    // The first call marks it.
    assert_eq!(swept(tmp.path(), None).len(), 1);
    assert!(is_empty(tmp.path()));
}

/// A server that is killed may have forked: the child has its lock and its socket until it becomes another program.
#[test]
fn a_child_of_the_killed_server_is_waited_for() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = left(tmp.path(), 1, &nspace("one"));
    // The child holds the lock and the socket; who has called `listen` is a shell that has ended.
    let script = r#"
import fcntl, os, socket, sys
outer = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(outer, fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + "/s/sock")
listener.listen()
if os.fork() == 0:
    os.close(1)
    os.read(0, 1)
"#;
    let outer = tmp.path().join(&directory.name);
    let mut server = Command::new("python3").arg("-c").arg(script).arg(&outer).stdin(Stdio::piped()).spawn().unwrap();
    let held = server.stdin.take();
    assert!(server.wait().unwrap().success());
    let found = thread::scope(|scope| {
        let found = scope.spawn(|| find(tmp.path(), SERVER));
        thread::sleep(Duration::from_millis(300));
        assert!(!found.is_finished(), "the child has the lock");
        drop(held);
        found.join().unwrap()
    });
    assert_eq!((found.estates.len(), found.lines), (1, Vec::new()));
    drop(found.directories);
    assert!(is_empty(tmp.path()));
}

#[test]
fn a_server_that_lives_is_not_waited_for() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = left(tmp.path(), 1, &nspace("one"));
    let _living = std::os::unix::net::UnixListener::bind(directory.inner.join(SOCKET_NAME)).unwrap();
    let begun = Instant::now();
    let found = find(tmp.path(), SERVER);
    assert!(found.estates.is_empty() && found.lines.is_empty() && begun.elapsed() < LOCK_WAIT);
}
