//! A launched process connects over real sockets to a scripted server.

mod server;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crossbeam::channel::unbounded;
use parking_lot::Mutex;
use pmix_client::events::range;
use pmix_client::{Client, Environment};
use pmix_dstore::codec::{BufferType, Module};
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Result, Scope, Status, Value, keys};
use pmix_dstore::segment::{FileId, ModexBuilder, Publisher, SegmentKind, build_job};
use pmix_wire::reply::{FenceReply, Reply, StatusReply};
use pmix_wire::{Command, Request};

use server::{Listener, Peer};

/// The environment that a server sets for rank 3 of `job`, with these variables added.
fn environment(uri: Option<&str>, more: &[(&str, &str)]) -> Environment {
    let mut variables = vec![("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "3"), ("PMIX_HOSTNAME", "n0")];
    variables.extend(uri.map(|uri| ("PMIX_SERVER_URI41", uri)));
    variables.extend(more);
    let find =
        |name: &str| variables.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    Environment::from_lookup(find).unwrap()
}

fn get(client: &Client, rank: Rank, key: &str, infos: &[Info]) -> Result<Value> {
    client.get_value(&Proc::new(client.me().nspace.clone(), rank), key, infos)
}

fn job_size(client: &Client) -> Result<Value> {
    get(client, Rank::WILDCARD, keys::JOB_SIZE, &[])
}

fn success(peer: &Peer) -> Vec<u8> {
    StatusReply { status: Status::SUCCESS }.encode(peer.dialect(), peer.version()).unwrap()
}

#[test]
fn a_client_of_a_stock_server_requests_the_job_and_finalizes() {
    for (buffer, kind) in [("NON_DESC", BufferType::NonDescribed), ("FULLY_DESC", BufferType::Described)] {
        let listener = Listener::tcp();
        let buffer_name = format!("PMIX_BFROP_BUFFER_{buffer}");
        let more = [("PMIX_SECURITY_MODE", "munge,native"), ("PMIX_BFROP_BUFFER_TYPE", &buffer_name)];
        let env = environment(Some(&listener.uri()), &more);
        let server = std::thread::spawn(move || {
            let mut peer = listener.accept();
            let hello = peer.hello.clone();
            peer.welcome(5);
            peer.serve(|peer, request| match request {
                Request::JobInfo => Some(peer.job_info("job", 7)),
                Request::Finalize => Some(success(peer)),
                other => panic!("{other:?}"),
            });
            (hello, peer.indices)
        });
        let client = Client::connect(&env, &[]).unwrap();
        assert_eq!(job_size(&client), Ok(Value::Uint32(7)));
        client.finalize(&[]).unwrap();
        let (hello, indices) = server.join().unwrap();
        assert_eq!((hello.psec.as_str(), hello.gds.as_str(), hello.flag), ("native", "hash", 0));
        assert_eq!(hello.proc, Some(client.me().clone()));
        assert_eq!((hello.module, hello.buffer), (Module::V41, kind));
        assert_eq!(hello.credential.len(), 8);
        assert_eq!(indices, [5, 5], "the index of the handshake is in every header");
        assert_eq!(client.commit(), Err(Status::ERR_UNREACH));
    }
}

#[test]
fn an_old_server_that_closes_instead_of_answering_finalize_is_no_error() {
    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[("PMIX_VERSION", "3.2.5")]);
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept();
        peer.welcome(0);
        peer.serve(|peer, request| match request {
            Request::JobInfo => Some(peer.job_info("job", 1)),
            _ => None,
        });
    });
    let client = Client::connect(&env, &[]).unwrap();
    assert_eq!(client.finalize(&[]), Ok(()));
    server.join().unwrap();
}

#[test]
fn our_server_is_reached_in_its_directory_with_the_secret() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("a".repeat(150));
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let listener = Listener::unix(&directory);
    let path = directory.to_str().unwrap();
    let id = FileId::of(path.as_ref()).unwrap().to_string();
    let more = [("PMIX_DSTORE_SEGMENTS", path), ("PMIX_DSTORE_INODE", &id), ("PMIX_DSTORE_SECRET", "00ff")];
    // No server listens at the URI.
    let env = environment(Some("server.0;tcp4://127.0.0.1:1"), &more);
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept();
        let hello = peer.hello.clone();
        peer.welcome(1);
        peer.serve(|peer, request| match request {
            Request::JobInfo => Some(peer.job_info("job", 2)),
            Request::Commit { .. } | Request::Finalize => Some(success(peer)),
            other => panic!("{other:?}"),
        });
        hello
    });
    let client = Client::connect(&env, &[]).unwrap();
    assert!(client.view().is_none(), "there is no page in the directory");
    client.put(Scope::Global, "key".into(), Value::Int(1)).unwrap();
    client.commit().unwrap();
    client.commit().unwrap();
    client.finalize(&[]).unwrap();
    let hello = server.join().unwrap();
    assert_eq!((hello.psec.as_str(), hello.credential.as_slice()), ("pmix-dstore", &b"00ff"[..]));
    assert_eq!(hello.gds, "hash", "our store is named only where its page could be attached");
}

#[test]
fn segments_are_read_without_a_message() {
    let temporary = tempfile::tempdir().unwrap();
    let nspace = Nspace::new("job").unwrap();
    let mut publisher = Publisher::create(temporary.path(), &nspace, None).unwrap();
    let mut job = JobData::new(nspace.clone());
    job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(12));
    publisher.publish(SegmentKind::Job, &build_job(&job, "test").unwrap()).unwrap();
    let modex = move |number: i32| {
        let value = Value::Int(number);
        let mut builder = ModexBuilder::new(nspace.clone());
        builder.add(Rank(5), &"key".into(), &value).unwrap();
        builder.finish("test").unwrap().into_bytes().unwrap()
    };
    publisher.publish(SegmentKind::Modex, &modex(1)).unwrap();
    let listener = Listener::unix(publisher.directory());
    let (path, id) = (publisher.directory().to_str().unwrap().to_owned(), publisher.directory_id().to_string());
    let more = [("PMIX_DSTORE_SEGMENTS", &*path), ("PMIX_DSTORE_INODE", &id), ("PMIX_DSTORE_SECRET", "00ff")];
    let with_segments = environment(None, &more);
    let without = environment(None, &[&more[..], &[("PMIX_DSTORE_SHM", "0")]].concat());

    let (fenced, published) = crossbeam::channel::unbounded();
    let server = std::thread::spawn(move || {
        let publisher = Mutex::new(publisher);
        let mut asked = Vec::new();
        let mut names = Vec::new();
        for _ in 0..2 {
            let mut peer = listener.accept();
            peer.welcome(1);
            names.push(peer.hello.gds.clone());
            let requests = Mutex::new(Vec::new());
            peer.serve(|peer, request| {
                requests.lock().push(request.command());
                match request {
                    Request::JobInfo => Some(peer.job_info("job", 12)),
                    Request::Fence { .. } => {
                        let count = publisher.lock().publish(SegmentKind::Modex, &modex(2)).unwrap();
                        let reply = FenceReply { status: Status::SUCCESS, segment_count: Some(count) };
                        fenced.send(()).unwrap();
                        Some(reply.encode(peer.dialect(), peer.version()).unwrap())
                    }
                    _ => Some(success(peer)),
                }
            });
            asked.extend(requests.into_inner());
        }
        (names, asked)
    });
    let client = Client::connect(&with_segments, &[]).unwrap();
    assert_eq!(client.view().map(|view| view.count()), Some(2));
    assert_eq!(job_size(&client), Ok(Value::Uint32(12)));
    assert_eq!(get(&client, Rank(5), "key", &[]), Ok(Value::Int(1)));
    assert_eq!(get(&client, Rank::UNDEF, "key", &[]), Ok(Value::Int(1)));
    client.fence(&[], Vec::new()).wait().unwrap();
    published.recv().unwrap();
    assert_eq!(get(&client, Rank(5), "key", &[]), Ok(Value::Int(2)));
    let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
    assert_eq!(get(&client, Rank(6), "key", &optional), Err(Status::ERR_NOT_FOUND));
    client.finalize(&[]).unwrap();
    assert_eq!(get(&client, Rank(5), "key", &[]), Ok(Value::Int(2)), "mapped segments stay readable");

    let client = Client::connect(&without, &[]).unwrap();
    assert!(client.view().is_none());
    client.finalize(&[]).unwrap();
    let (names, asked) = server.join().unwrap();
    assert_eq!(names, ["pmix-dstore", "hash"]);
    assert_eq!(asked, [Command::FENCE, Command::FINALIZE, Command::JOB_INFO, Command::FINALIZE]);
}

#[test]
fn a_directory_without_a_listener_means_tcp() {
    let directory = tempfile::tempdir().unwrap();
    let listener = Listener::tcp();
    let path = directory.path().to_str().unwrap();
    let id = FileId::of(path.as_ref()).unwrap().to_string();
    let more = [("PMIX_DSTORE_SEGMENTS", path), ("PMIX_DSTORE_INODE", &id), ("PMIX_DSTORE_SECRET", "00ff")];
    let env = environment(Some(&listener.uri()), &more);
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept();
        peer.welcome(1);
        peer.serve(|peer, request| match request {
            Request::JobInfo => Some(peer.job_info("job", 2)),
            _ => Some(success(peer)),
        });
        peer.hello.psec
    });
    Client::connect(&env, &[]).unwrap().finalize(&[]).unwrap();
    assert_eq!(server.join().unwrap(), "native");
}

#[test]
fn another_directory_of_the_same_name_is_neither_read_nor_dialled() {
    let temporary = tempfile::tempdir().unwrap();
    let nspace = Nspace::new("job").unwrap();
    let mut publisher = Publisher::create(temporary.path(), &nspace, None).unwrap();
    let mut job = JobData::new(nspace);
    job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(666));
    publisher.publish(SegmentKind::Job, &build_job(&job, "test").unwrap()).unwrap();
    let (theirs, ours) = (Listener::unix(publisher.directory()), Listener::tcp());
    let path = publisher.directory().to_str().unwrap().to_owned();
    // The environment names another inode, an invalid one, or none.
    let id = FileId::of(temporary.path()).unwrap().to_string();
    for id in [Some(("PMIX_DSTORE_INODE", &*id)), Some(("PMIX_DSTORE_INODE", "1")), None] {
        let mut more = vec![("PMIX_DSTORE_SEGMENTS", &*path), ("PMIX_DSTORE_SECRET", "00ff")];
        more.extend(id);
        let env = environment(Some(&ours.uri()), &more);
        let client = std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let client = Client::connect(&env, &[]).unwrap();
                assert_eq!(job_size(&client), Ok(Value::Uint32(2)));
                client.finalize(&[]).unwrap();
            });
            let mut peer = ours.accept();
            peer.welcome(1);
            peer.serve(|peer, request| match request {
                Request::JobInfo => Some(peer.job_info("job", 2)),
                _ => Some(success(peer)),
            });
            client.join()
        });
        client.unwrap();
    }
    assert!(!theirs.is_dialled());
}

#[test]
fn after_a_refusal_by_an_outer_jobs_server_the_client_uses_tcp() {
    let outer = tempfile::tempdir().unwrap();
    let (refusing, listener) = (Listener::unix(outer.path()), Listener::tcp());
    let path = outer.path().to_str().unwrap();
    let id = FileId::of(path.as_ref()).unwrap().to_string();
    let more = [("PMIX_DSTORE_SEGMENTS", path), ("PMIX_DSTORE_INODE", &id), ("PMIX_DSTORE_SECRET", "00ff")];
    let env = environment(Some(&listener.uri()), &more);
    let server = std::thread::spawn(move || {
        drop(refusing.accept());
        let mut peer = listener.accept();
        peer.welcome(1);
        peer.serve(|peer, request| match request {
            Request::JobInfo => Some(peer.job_info("job", 2)),
            _ => Some(success(peer)),
        });
    });
    let client = Client::connect(&env, &[]).unwrap();
    assert_eq!(job_size(&client), Ok(Value::Uint32(2)));
    client.finalize(&[]).unwrap();
    server.join().unwrap();
}

#[test]
fn a_forked_child_reads_on_and_leaves_the_connection_alone() {
    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[]);
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept();
        peer.welcome(1);
        peer.serve(|peer, request| match request {
            Request::JobInfo => Some(peer.job_info("job", 2)),
            _ => Some(success(peer)),
        });
        peer.indices.len()
    });
    let client = Client::connect(&env, &[]).unwrap();
    client.commit().unwrap();
    // SAFETY: the child allocates, which glibc allows after a fork, and exits without returning to the test harness.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let reads = job_size(&client) == Ok(Value::Uint32(2));
            let refused = client.commit() == Err(Status::ERR_UNREACH) && client.finalize(&[]) == Ok(());
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(!(reads && refused))) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            let ended = nix::sys::wait::waitpid(child, None).unwrap();
            assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
    }
    client.commit().unwrap();
    client.finalize(&[]).unwrap();
    assert_eq!(server.join().unwrap(), 4, "job info, two commits and a finalize, all of them from the parent");
}

#[test]
fn a_missing_refusing_or_silent_server_gives_its_own_error() {
    let timeout = [Info::new(keys::TIMEOUT, Value::Int(1))];
    let connect = |env: &Environment| Client::connect(env, &timeout).err();
    assert_eq!(connect(&environment(Some("server.0;tcp4://127.0.0.1:1"), &[])), Some(Status::ERR_UNREACH));

    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[]);
    let server = std::thread::spawn(move || drop(listener.accept()));
    assert_eq!(connect(&env), Some(Status::ERR_UNREACH));
    server.join().unwrap();

    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[]);
    let server = std::thread::spawn(move || listener.accept().refuse(Status::ERR_INVALID_CRED));
    assert_eq!(connect(&env), Some(Status::ERR_INVALID_CRED));
    server.join().unwrap();

    let listener = Listener::tcp();
    assert_eq!(connect(&environment(Some(&listener.uri()), &[])), Some(Status::ERR_TIMEOUT));

    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[("PMIX_SECURITY_MODE", "other")]);
    assert_eq!(connect(&env), Some(Status::ERR_INIT));

    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[]);
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept();
        peer.welcome(0);
        peer.serve(|peer, _| Some(peer.job_info("other", 1)));
    });
    assert_eq!(connect(&env), Some(Status::ERR_INVALID_NAMESPACE));
    server.join().unwrap();
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for_longer_than_allowed() {
    let listener = Listener::tcp();
    let env = environment(Some(&listener.uri()), &[]);
    let (over, is_over) = unbounded::<()>();
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept();
        peer.welcome(0);
        peer.serve(|peer, request| match request {
            Request::JobInfo => Some(peer.job_info("job", 1)),
            _ => {
                is_over.recv().unwrap();
                None
            }
        });
    });
    let client = Client::connect(&env, &[]).unwrap();
    let me = client.me().clone();
    let sent = client.notify_event(Status(-9000), me, range::GLOBAL, Vec::new()).within(Duration::from_millis(10));
    assert_eq!(sent.wait(), Err(Status::ERR_TIMEOUT));
    over.send(()).unwrap();
    server.join().unwrap();
    client.finalize(&[]).unwrap();
}

#[test]
fn a_singleton_knows_its_own_job_data() {
    let env = Environment::from_lookup(|name| (name == "PMIX_HOSTNAME").then(|| "n0".into())).unwrap();
    let client = Client::connect(&env, &[]).unwrap();
    assert!(client.is_singleton());
    assert_eq!(job_size(&client), Ok(Value::Uint32(1)));
    assert_eq!(client.resolve_peers(None, None), Ok(vec![client.me().clone()]));
    assert_eq!(client.resolve_nodes(None), Ok(Some(b"n0".to_vec())));
    client.put(Scope::Global, "key".into(), Value::Int(1)).unwrap();
    client.commit().unwrap();
    client.fence(&[], Vec::new()).wait().unwrap();
    assert_eq!(client.publish(Vec::new()).wait(), Err(Status::ERR_UNREACH));
    let (sender, result) = crossbeam::channel::unbounded();
    client.publish(Vec::new()).start(Box::new(move |status| sender.send(status).unwrap())).unwrap();
    assert_eq!(result.recv().unwrap(), Err(Status::ERR_UNREACH));
    client.finalize(&[]).unwrap();
}
