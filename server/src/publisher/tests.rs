//! Publications beside everything else that a server does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, unbounded};
use nix::unistd::{getegid, geteuid};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::model::{Info, Kval, Nspace, Proc, Rank, Value, keys};
use pmix_wire::reply::StatusReply;
use pmix_wire::{Header, Reply, Request, Version};

use super::*;
use crate::engine_lock::EngineLock;
use crate::server::tests::{Silent, connected};
use crate::{OpDone, Server};

const PLAIN: Dialect = Dialect::plain(Module::V41);

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// A server with its files in `directory`.
fn server(directory: &Path) -> Arc<Server> {
    let infos = [Info::new(keys::SERVER_TMPDIR, Value::string(directory.to_str().unwrap()))];
    Server::init(Arc::new(Silent), &infos).unwrap()
}

/// The same with a job of two ranks, both connected.
fn with_ranks(directory: &Path) -> (Arc<Server>, [TcpStream; 2]) {
    let server = server(directory);
    let infos = vec![Info::new(keys::JOB_SIZE, Value::Uint32(2))];
    assert_eq!(server.register_nspace(proc(0).nspace, 2, infos, None), Status::OPERATION_SUCCEEDED);
    let streams = [0, 1].map(|rank| {
        server.register_client(proc(rank), geteuid().as_raw(), getegid().as_raw(), 0, None);
        connected(&server, &proc(rank))
    });
    (server, streams)
}

fn send(stream: &mut TcpStream, tag: u32, request: Request) {
    let payload = request.encode(PLAIN, Version::OURS).unwrap();
    let header = Header { index: 0, tag, len: payload.len() as u32 };
    stream.write_all(&[&header.encode()[..], &payload].concat()).unwrap();
}

/// The next reply: its tag and its status.
fn reply(stream: &mut TcpStream) -> (u32, Status) {
    let mut head = [0; Header::LEN];
    stream.read_exact(&mut head).unwrap();
    let head = Header::decode(&head);
    let mut payload = vec![0; head.len as usize];
    stream.read_exact(&mut payload).unwrap();
    (head.tag, StatusReply::decode(PLAIN, Version::OURS, &payload).map_or(Status::SUCCESS, |reply| reply.status))
}

/// A rank puts enough data that the publisher's own thread writes it, and enters a fence of only itself.
fn fence(stream: &mut TcpStream, rank: u32, tag: u32) {
    let value = Value::ByteObject(vec![7; 2 * OWN_THREAD_MIN as usize].into());
    let kval = Kval { key: Key::from("large"), value };
    send(stream, tag, Request::Commit { parts: vec![(3, vec![kval])] });
    assert_eq!(reply(stream), (tag, Status::SUCCESS));
    send(stream, tag + 1, Request::Fence { procs: vec![proc(rank)], infos: Vec::new() });
}

/// Waits until something is so.
fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(1));
    }
}

fn no_files_in(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().count() == 0
}

/// A callback, and the receiver of its result.
fn done() -> (OpDone, Receiver<Status>) {
    let (told, heard) = unbounded();
    (Box::new(move |status| told.send(status).unwrap_or(())), heard)
}

#[test]
fn others_are_served_while_a_large_segment_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (server, [mut writer, mut other]) = with_ranks(directory.path());
    assert!(matches!(*server.shared().publishers.worker.lock(), Worker::None), "begun with the first large segment");
    // A thread that writes blocks on this lock.
    let held = server.shared().publishers.directories.lock();
    fence(&mut writer, 0, 101);
    for tag in 200..220 {
        send(&mut other, tag, Request::JobInfo);
        assert_eq!(reply(&mut other).0, tag);
        let key = Some(Key::from("large"));
        let infos = vec![Info::new(keys::OPTIONAL, Value::Bool(true))];
        send(&mut other, 1000 + tag, Request::Get { nspace: proc(0).nspace, rank: Rank(0), infos, key });
        assert_eq!(reply(&mut other).0, 1000 + tag);
    }
    until(|| matches!(*server.shared().publishers.worker.lock(), Worker::Running(..)));
    writer.set_nonblocking(true).unwrap();
    assert!(writer.peek(&mut [0]).is_err(), "the fence is not answered yet");
    writer.set_nonblocking(false).unwrap();
    drop(held);
    assert_eq!(reply(&mut writer), (102, Status::SUCCESS));
    server.finalize();
    assert!(matches!(*server.shared().publishers.worker.lock(), Worker::Ended));
    assert!(no_files_in(directory.path()));
}

#[test]
fn a_server_that_ends_while_a_segment_is_written_answers_the_fence_first() {
    let directory = tempfile::tempdir().unwrap();
    let (server, [mut writer, _other]) = with_ranks(directory.path());
    let held = server.shared().publishers.directories.lock();
    fence(&mut writer, 0, 101);
    until(|| matches!(*server.shared().publishers.worker.lock(), Worker::Running(..)));
    let ending = thread::spawn({
        let server = server.clone();
        move || server.finalize()
    });
    until(|| server.shared().is_stopped());
    drop(held);
    assert_eq!(reply(&mut writer), (102, Status::SUCCESS));
    assert_eq!(ending.join().unwrap(), Status::SUCCESS);
    assert!(no_files_in(directory.path()));
}

#[test]
fn a_job_is_forgotten_when_its_segment_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (server, [mut writer, _other]) = with_ranks(directory.path());
    let held = server.shared().publishers.directories.lock();
    fence(&mut writer, 0, 101);
    until(|| server.shared().engine.lock().is_under_way());
    let (called, heard) = done();
    assert_eq!(server.deregister_nspace(&proc(0).nspace, Some(called)), Status::SUCCESS);
    assert_eq!(reply(&mut writer), (102, Status::SUCCESS), "before its connection ends");
    assert!(heard.recv_timeout(Duration::from_millis(50)).is_err(), "its files are there");
    drop(held);
    assert_eq!(heard.recv(), Ok(Status::SUCCESS));
    assert!(no_files_in(directory.path()));
    assert_eq!(writer.read(&mut [0]).unwrap_or(0), 0, "the connection has ended");
    server.finalize();
}

#[test]
fn a_registration_returns_or_calls_back_when_directory_and_job_segment_are_there() {
    for calls_back in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path());
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        assert_eq!(server.register_client(proc(0), uid, gid, 0, None), Status::OPERATION_SUCCEEDED);
        let held = server.shared().publishers.directories.lock();
        let infos = vec![Info::new(keys::JOB_SIZE, Value::Uint32(2))];
        let (called, heard) = done();
        let registering = thread::spawn({
            let server = server.clone();
            move || server.register_nspace(proc(0).nspace, 2, infos, calls_back.then_some(called))
        });
        until(|| server.shared().engine.lock().is_publishing());
        assert!(
            heard.try_recv().is_err() && (calls_back || !registering.is_finished()) && no_files_in(directory.path())
        );
        // The engine serves others.
        let env = server.setup_fork(&Proc::new(Nspace::new("other").unwrap(), Rank(0))).unwrap();
        assert!(env.iter().any(|(name, _)| name == "PMIX_RANK"));
        drop(held);
        let status = registering.join().unwrap();
        match calls_back {
            true => assert_eq!((status, heard.recv()), (Status::SUCCESS, Ok(Status::SUCCESS))),
            false => assert_eq!(status, Status::OPERATION_SUCCEEDED),
        }
        let env = server.setup_fork(&proc(0)).unwrap();
        let (_, segments) = env.iter().find(|(name, _)| name == "PMIX_DSTORE_SEGMENTS").expect("shared memory");
        assert!(Path::new(segments).join("segment-0").exists());
        server.finalize();
    }
}

/// The server's own process gets its reply on the thread that asks, also inside an upcall: so it publishes there.
#[test]
fn the_servers_own_fence_is_published_by_the_thread_that_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    let (me, client) = (server.me().clone(), server.client());
    assert_eq!(server.register_nspace(me.nspace.clone(), 1, Vec::new(), None), Status::OPERATION_SUCCEEDED);
    server.register_client(me.clone(), geteuid().as_raw(), getegid().as_raw(), 0, None);
    let (told, heard) = unbounded();
    let on_own_thread = Box::new(move |_| {
        for byte in 0..3 {
            let value = Value::ByteObject(vec![byte; 2 * OWN_THREAD_MIN as usize].into());
            client.put(pmix_dstore::model::Scope::Local, Key::from("large"), value).unwrap();
            client.commit().unwrap();
            client.fence(std::slice::from_ref(&me), Vec::new()).wait().unwrap();
        }
        told.send(()).unwrap_or(());
    });
    server.setup_local_support(Some(on_own_thread));
    heard.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(server.stats().modex_segment_bytes > 2 * OWN_THREAD_MIN);
    server.finalize();
}

/// A blocking fence on the server's thread cannot complete later, so it waits for the publisher's thread at once.
#[test]
fn the_servers_own_fence_waits_for_a_publication_that_is_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let infos = [
        Info::new(keys::SERVER_TMPDIR, Value::string(directory.path().to_str().unwrap())),
        Info::new(keys::SERVER_NSPACE, Value::string("job")),
        Info::new(keys::SERVER_RANK, Value::Rank(Rank(1))),
    ];
    let server = Server::init(Arc::new(Silent), &infos).unwrap();
    assert_eq!(*server.me(), proc(1));
    let infos = vec![Info::new(keys::JOB_SIZE, Value::Uint32(2))];
    assert_eq!(server.register_nspace(proc(0).nspace, 2, infos, None), Status::OPERATION_SUCCEEDED);
    for rank in 0..2 {
        server.register_client(proc(rank), geteuid().as_raw(), getegid().as_raw(), 0, None);
    }
    let mut writer = connected(&server, &proc(0));
    let held = server.shared().publishers.directories.lock();
    fence(&mut writer, 0, 101);
    until(|| matches!(*server.shared().publishers.worker.lock(), Worker::Running(..)));
    let (client, (told, heard)) = (server.client(), unbounded());
    let on_own_thread = move |_| told.send(client.fence(&[proc(1)], Vec::new()).wait().map(drop)).unwrap_or(());
    server.setup_local_support(Some(Box::new(on_own_thread)));
    assert!(heard.recv_timeout(Duration::from_millis(100)).is_err(), "its namespace is not published");
    drop(held);
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(Ok(())));
    assert_eq!(reply(&mut writer), (102, Status::SUCCESS));
    server.finalize();
}

#[test]
fn a_call_that_waits_for_another_thread_lets_replies_out() {
    let directory = tempfile::tempdir().unwrap();
    let (server, [mut writer, _other]) = with_ranks(directory.path());
    let held = server.shared().publishers.directories.lock();
    fence(&mut writer, 0, 101);
    until(|| matches!(*server.shared().publishers.worker.lock(), Worker::Running(..)));
    let forgetting = thread::spawn({
        let server = server.clone();
        move || server.deregister_nspace(&proc(0).nspace, None)
    });
    assert_eq!(reply(&mut writer), (102, Status::SUCCESS), "while the call waits");
    assert!(!forgetting.is_finished());
    drop(held);
    assert_eq!(forgetting.join().unwrap(), Status::OPERATION_SUCCEEDED);
    assert!(no_files_in(directory.path()));
    server.finalize();
}

#[test]
fn a_server_that_ends_waits_for_files_that_a_thread_of_the_host_writes() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    server.register_client(proc(0), geteuid().as_raw(), getegid().as_raw(), 0, None);
    let held = server.shared().publishers.directories.lock();
    let spawn = |call: fn(&Server) -> Status| {
        let server = server.clone();
        thread::spawn(move || call(&server))
    };
    let registering = spawn(|server| server.register_nspace(proc(0).nspace, 1, Vec::new(), None));
    // Otherwise the call below might take the plan, on the thread that holds the directories.
    until(|| server.shared().engine.lock().is_under_way());
    let (called, heard) = done();
    assert_eq!(server.deregister_nspace(&proc(0).nspace, Some(called)), Status::SUCCESS);
    let ending = spawn(Server::finalize);
    until(|| server.shared().is_stopped());
    thread::sleep(Duration::from_millis(100));
    drop(held);
    assert_eq!(ending.join().unwrap(), Status::SUCCESS);
    assert_eq!((heard.try_recv(), no_files_in(directory.path())), (Ok(Status::SUCCESS), true));
    registering.join().unwrap();
}

/// A plant: file work with the engine's lock held is found, whichever function does it.
#[test]
#[cfg(debug_assertions)]
fn file_work_with_the_engines_lock_held_panics() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    let engine: &EngineLock = &server.shared().engine;
    let job = Nspace::new("job").unwrap();
    let mut publisher = Publisher::create(directory.path(), &job, None).unwrap();
    let panics = |work: &mut dyn FnMut()| {
        let _engine = engine.lock();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
    };
    let own = (geteuid().as_raw(), getegid().as_raw());
    assert!(panics(&mut || drop(Publisher::create(directory.path(), &job, None))));
    assert!(panics(&mut || drop(publisher.publish(SegmentKind::Job, &GatherBuf::default()))));
    assert!(panics(&mut || drop(publisher.adopt("sock"))));
    assert!(panics(&mut || drop(publisher.give_to(own))));
    assert!(panics(&mut || drop(listen(&mut publisher, 0o600))));
    assert!(panics(&mut || server.shared().log("a line")));
    // Without the lock they work as always.
    assert!(publisher.adopt("page-0").is_ok() && publisher.give_to(own).is_ok());
    let mut publisher = Some(publisher);
    assert!(panics(&mut || drop(publisher.take())));
}
