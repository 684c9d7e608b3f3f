use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Sender, unbounded};
use nix::unistd::{getegid, geteuid};
use pmix_client::{Event, Returned};
use pmix_dstore::codec::{BufferType, Dialect, Module};
use pmix_dstore::model::{App, Bytes, Key, Nspace, Pdata, Rank, Value, keys};
use pmix_wire::{Header, Hello, PeerKind, Request, Version};

use super::*;
use crate::completion::{AnswerSink, UpcallResult};
use crate::{Completion, Host};

impl Server {
    pub(crate) fn shared(&self) -> &Arc<SharedState> {
        &self.shared
    }
}

/// A host that never answers.
pub(crate) struct Silent;

impl Host for Silent {
    fn lookup(&self, _: &Proc, _: &[Key], _: &[Info], _: Completion<(Status, Vec<Pdata>)>) -> Status {
        Status::SUCCESS
    }
}

#[test]
fn finalize_ends_calls_of_the_servers_own_process_that_wait() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let client = server.client();
    let (sender, receiver) = unbounded();
    let waiting = thread::spawn(move || {
        sender.send(()).unwrap();
        client.lookup(vec![c"never".into()], Vec::new()).wait().map(drop)
    });
    receiver.recv().unwrap();
    while server.shared.own.lock().is_empty() {
        thread::yield_now();
    }
    server.finalize();
    assert_eq!(waiting.join().unwrap(), Err(Status::ERR_LOST_CONNECTION));
    let later = server.client().lookup(vec![c"never".into()], Vec::new()).wait();
    assert_eq!(later.map(drop), Err(Status::ERR_UNREACH));
}

#[test]
fn host_buffers_are_released_at_once_after_finalize() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    server.finalize();
    let (told, given_back) = unbounded();
    struct Lent(crossbeam::channel::Sender<()>);
    impl AsRef<[u8]> for Lent {
        fn as_ref(&self) -> &[u8] {
            &[]
        }
    }
    impl Drop for Lent {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    server.shared.answer(1, UpcallResult::Data(Status::SUCCESS, Bytes::external(Lent(told))));
    assert_eq!(given_back.try_recv(), Ok(()));
}

#[test]
fn a_server_knows_itself_and_where_it_listens() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let (client, me) = (server.client(), server.me().clone());
    let nobody = Proc { nspace: me.nspace.clone(), rank: Rank::UNDEF };
    assert_eq!(client.get_value(&nobody, keys::PROCID, &[]), Ok(Value::Proc(me.clone())));
    let port = address(&server, &me).port();
    let uri = Value::string(format!("{}.{};tcp4://127.0.0.1:{port}", me.nspace, me.rank));
    assert_eq!(client.get_value(&me, keys::SERVER_URI, &[]), Ok(uri.clone()));
    assert_eq!(client.get_value(&me, keys::MYSERVER_URI, &[]), Ok(uri));
    server.finalize();
}

#[test]
fn a_spawn_of_the_host_itself_calls_back_where_the_host_answers() {
    struct Launcher(Sender<Completion<(Status, Option<Nspace>)>>);
    impl Host for Launcher {
        fn spawn(&self, _: &Proc, _: &[Info], _: &[App], done: Completion<(Status, Option<Nspace>)>) -> Status {
            self.0.send(done).unwrap();
            Status::SUCCESS
        }
    }
    let (asked, answers) = unbounded();
    let server = Server::init(Arc::new(Launcher(asked)), &[]).unwrap();
    let (sender, results) = unbounded();
    let cmd = Some(c"true".into());
    let app = App { cmd, argv: Vec::new(), env: Vec::new(), cwd: None, maxprocs: 1, infos: Vec::new() };
    let spawn = server.client().spawn(Vec::new(), vec![app]);
    spawn.start(Box::new(move |result| sender.send((thread::current().id(), result)).unwrap())).unwrap();
    let started = Nspace::new("started").unwrap();
    answers.recv().unwrap().complete((Status::SUCCESS, Some(started.clone())));
    assert_eq!(results.try_recv(), Ok((thread::current().id(), Ok(started))));
    server.finalize();
}

/// The address of a server for stock clients.
fn address(server: &Server, proc: &Proc) -> SocketAddr {
    let env = server.setup_fork(proc).unwrap();
    let uri = &env.iter().find(|(name, _)| name == "PMIX_SERVER_URI41").unwrap().1;
    uri.to_str().unwrap().split_once("tcp4://").unwrap().1.parse().unwrap()
}

/// The connection of an admitted stock client.
pub(crate) fn connected(server: &Server, proc: &Proc) -> TcpStream {
    let mut stream = TcpStream::connect(address(server, proc)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let hello = Hello {
        psec: "native".into(),
        credential: Hello::native_credential(0, 0),
        flag: PeerKind::Client as u8,
        uid_gid: None,
        proc: Some(proc.clone()),
        version: "4.2.2".into(),
        module: Module::V41,
        buffer: BufferType::NonDescribed,
        gds: "hash".into(),
        infos: Vec::new(),
    };
    stream.write_all(&hello.encode().unwrap()).unwrap();
    let mut reply = [0; 8];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], [0; 4], "let in");
    stream
}

#[test]
fn connection_ids_do_not_wrap() {
    let server = Server::start(Arc::new(Silent), &[], u64::from(u32::MAX) - 3).unwrap();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    server.register_nspace(proc.nspace.clone(), 1, Vec::new(), None);
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    server.register_client(proc.clone(), uid, gid, 0, None);
    let mut streams: Vec<TcpStream> = (0..5).map(|_| connected(&server, &proc)).collect();
    let request = Request::JobInfo.encode(Dialect::plain(Module::V41), Version::OURS).unwrap();
    let header = Header { index: 0, tag: 101, len: request.len() as u32 }.encode();
    let mut ask = |stream: &mut TcpStream| {
        stream.write_all(&[&header[..], &request].concat()).unwrap();
        let mut head = [0; Header::LEN];
        stream.read_exact(&mut head).unwrap();
        std::io::copy(&mut stream.take(u64::from(Header::decode(&head).len)), &mut std::io::sink()).unwrap();
        assert_eq!(Header::decode(&head).tag, 101);
    };
    streams.iter_mut().for_each(&mut ask);
    // The end of one is not that of another, nor of the server's own process.
    drop(streams.remove(2));
    streams.iter_mut().for_each(&mut ask);
    let me = server.me().clone();
    let nobody = Proc { nspace: me.nspace.clone(), rank: Rank::UNDEF };
    assert_eq!(server.client().get_value(&nobody, keys::PROCID, &[]), Ok(Value::Proc(me)));
}

#[test]
fn all_ranks_of_a_node_may_come_at_once() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    let address = address(&server, &proc);
    let (go_on, held) = unbounded::<()>();
    // The server's thread is busy meanwhile.
    server.register_client(proc, 0, 0, 0, Some(Box::new(move |_| held.recv().unwrap_or(()))));
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(10));
    let connected: Result<Vec<TcpStream>, _> = (0..400).map(connect).collect();
    drop(go_on);
    assert_eq!(connected.unwrap().len(), 400);
}

#[test]
fn callbacks_come_when_the_call_that_they_are_of_has_returned() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    let (told, heard) = unbounded::<()>();
    let tell = || told.clone();
    let op = || {
        Some(Box::new({
            let told = tell();
            move |_| told.send(()).unwrap()
        }) as OpDone)
    };
    let calls: [&dyn Fn() -> Status; 7] = [
        &|| server.register_nspace(proc.nspace.clone(), 1, Vec::new(), op()),
        &|| server.register_client(proc.clone(), 0, 0, 0, op()),
        &|| server.setup_local_support(op()),
        &|| {
            server.setup_application(
                &[],
                Box::new({
                    let told = tell();
                    move |_| told.send(()).unwrap()
                }),
            )
        },
        &|| {
            let (told, wild) = (tell(), Proc::new(proc.nspace.clone(), Rank::WILDCARD));
            server.dmodex_request(wild, Box::new(move |_, _| told.send(()).unwrap()))
        },
        &|| server.deregister_client(&proc, op()),
        &|| server.deregister_nspace(&proc.nspace, op()),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        // The server's call is a part of this one.
        let outer = Call::begin();
        assert_eq!(call(), Status::SUCCESS);
        assert!(heard.recv_timeout(Duration::from_millis(20)).is_err(), "call {number} has not returned");
        drop(outer);
        heard.recv().unwrap();
    }
    // Callbacks that are held when the server ends are still called.
    let outer = Call::begin();
    assert_eq!(server.setup_local_support(op()), Status::SUCCESS);
    let ending = thread::spawn({
        let server = server.clone();
        move || server.finalize()
    });
    assert!(heard.recv_timeout(Duration::from_millis(20)).is_err());
    drop(outer);
    heard.recv().unwrap();
    assert_eq!(ending.join().unwrap(), Status::SUCCESS);
}

#[test]
fn what_a_held_callback_asks_for_is_done_without_another_event() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let (sender, receiver) = unbounded();
    let call = Call::begin();
    let returned = Returned::of_this_call().expect("inside a call");
    let (shared, asked) = (Arc::clone(server.shared()), Arc::clone(server.shared()));
    let ask = move || asked.feed(|engine| engine.defer(Box::new(move || sender.send(()).unwrap())));
    // On this thread the call would count as over.
    thread::spawn(move || shared.after(returned, Box::new(ask))).join().unwrap();
    assert!(receiver.is_empty(), "the call has not returned");
    drop(call);
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(()));
    server.finalize();
}

#[test]
fn a_process_set_is_told_of_by_name() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let (told, events) = unbounded();
    let handler = Arc::new(move |_, event: Event, _| {
        let _ = told.send((event.status, event.infos.to_vec()));
    });
    let codes = vec![Status::PROCESS_SET_DEFINE, Status::PROCESS_SET_DELETE];
    server.client().register_event_handler(codes, Vec::new(), handler).wait().unwrap();
    let member = Proc::new(Nspace::new("job").unwrap(), Rank(3));
    assert_eq!(server.define_process_set(c"set".into(), vec![member.clone()]), Status::OPERATION_SUCCEEDED);
    assert_eq!(server.delete_process_set(c"set".into()), Status::OPERATION_SUCCEEDED);
    let value = |infos: &[Info], key: &str| Info::find(infos, key).cloned();
    for (code, members) in
        [(Status::PROCESS_SET_DEFINE, Some(Value::procs([member]))), (Status::PROCESS_SET_DELETE, None)]
    {
        let (status, infos) = events.recv().unwrap();
        assert_eq!(status, code);
        assert_eq!(value(&infos, keys::PSET_NAME), Some(Value::string("set")));
        assert_eq!(value(&infos, keys::PSET_MEMBERS), members);
    }
}

#[test]
fn setup_data_of_a_job_is_given_once() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let (told, answers) = unbounded();
    assert_eq!(server.setup_application(&[], Box::new(move |infos| drop(told.send(infos)))), Status::SUCCESS);
    assert!(answers.recv().unwrap().iter().all(|info| info.key.is(keys::SET_ENVAR)));
    assert_eq!(server.setup_local_support(None), Status::OPERATION_SUCCEEDED);
    server.finalize();
    assert_eq!(server.setup_application(&[], Box::new(|_| panic!("it has ended"))), Status::ERR_INIT);
    assert_eq!(server.setup_local_support(None), Status::ERR_INIT);
}

#[test]
fn no_handler_is_called_after_finalize() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let (called, calls) = unbounded();
    let handler = Arc::new(move |_, _: Event, _| {
        // Long enough for a finalize that does not wait for it.
        thread::sleep(Duration::from_millis(100));
        let _ = called.send(());
    });
    server.client().register_event_handler(Vec::new(), Vec::new(), handler).wait().unwrap();
    let (go_on, held) = unbounded::<()>();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    // The server's thread is busy, and has an event to deliver after that.
    server.register_client(proc, 0, 0, 0, Some(Box::new(move |_| held.recv().unwrap_or(()))));
    server.notify_event(Status(-3456), server.me().clone(), 2, Vec::new(), None);
    finalize_while_busy(&server, go_on);
    let left = calls.try_iter().count();
    assert!(calls.recv_timeout(Duration::from_millis(200)).is_err(), "called after finalize, {left} times before");
}

/// Ends a server whose thread is busy until `go_on` is dropped, which happens once the end has begun.
fn finalize_while_busy(server: &Server, go_on: Sender<()>) {
    thread::scope(|scope| {
        let ending = scope.spawn(|| server.finalize());
        while !server.shared.is_stopped() {
            thread::yield_now();
        }
        drop(go_on);
        assert_eq!(ending.join().unwrap(), Status::SUCCESS);
    });
}

/// A host's thread may see a running server and get its lock only after another thread has ended it.
#[test]
fn operations_that_come_after_the_end_are_refused() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    server.finalize();
    server.shared.stop.store(false, Ordering::Release);
    let job = Nspace::new("job").unwrap();
    let called = Arc::new(AtomicBool::new(false));
    let call = Arc::clone(&called);
    let done = Box::new(move |_| call.store(true, Ordering::Release));
    assert_eq!(server.register_nspace(job.clone(), 1, Vec::new(), None), Status::ERR_INIT);
    assert_eq!(server.register_client(Proc::new(job.clone(), Rank(0)), 0, 0, 0, Some(done)), Status::ERR_INIT);
    assert_eq!(server.dmodex_request(Proc::new(job, Rank(0)), Box::new(|_, _| ())), Status::ERR_INIT);
    assert_eq!(server.setup_application(&[], Box::new(|_| ())), Status::ERR_INIT);
    assert!(!called.load(Ordering::Acquire), "a call that is refused has no callback");
    server.shared.stop.store(true, Ordering::Release);
}

#[test]
fn a_process_that_was_lost_before_finalize_is_told_of() {
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let (told, events) = unbounded();
    let handler = Arc::new(move |_, event: Event, _| drop(told.send((event.status, event.source))));
    server.client().register_event_handler(Vec::new(), Vec::new(), handler).wait().unwrap();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    assert!(server.register_nspace(proc.nspace.clone(), 1, Vec::new(), None) == Status::OPERATION_SUCCEEDED);
    server.register_client(proc.clone(), 0, 0, 0, None);
    let stream = connected(&server, &proc);
    let (go_on, held) = unbounded::<()>();
    // The server's thread is busy meanwhile.
    server.register_client(
        Proc::new(proc.nspace.clone(), Rank(1)),
        0,
        0,
        0,
        Some(Box::new(move |_| held.recv().unwrap_or(()))),
    );
    drop(stream);
    finalize_while_busy(&server, go_on);
    assert_eq!(events.try_iter().collect::<Vec<_>>(), [(Status::ERR_LOST_CONNECTION, proc)]);
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_client_that_asks_and_does_not_read_is_not_answered_into_memory() {
    const REQUESTS: usize = 4000;
    let server = Server::init(Arc::new(Silent), &[]).unwrap();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    let infos =
        vec![Info::new("large", Value::string(vec![b'x'; 100_000])), Info::new(keys::JOB_SIZE, Value::Uint32(1))];
    assert!(server.register_nspace(proc.nspace.clone(), 1, infos, None) == Status::OPERATION_SUCCEEDED);
    server.register_client(proc.clone(), 0, 0, 0, None);
    let mut stream = connected(&server, &proc);
    let request = Request::JobInfo.encode(Dialect::plain(Module::V41), Version::OURS).unwrap();
    let header = Header { index: 0, tag: 101, len: request.len() as u32 }.encode();
    let before = resident_bytes();
    stream.write_all(&[&header[..], &request].concat().repeat(REQUESTS)).unwrap();
    for number in 0..REQUESTS {
        let mut head = [0; Header::LEN];
        stream.read_exact(&mut head).unwrap();
        std::io::copy(&mut (&stream).take(u64::from(Header::decode(&head).len)), &mut std::io::sink()).unwrap();
        if number == 0 {
            assert!(resident_bytes() < before + (150 << 20), "the replies to come have not been made yet");
        }
    }
}
