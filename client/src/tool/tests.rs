//! Tools without a server, and tools that try again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::events::{EventDone, EventHandler};

/// How often a tool connects to a server that closes each connection.
fn tries(infos: &[(&'static str, u32)]) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    // Ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::AcqRel);
            drop(stream);
        }
    });
    let mut all: Vec<Info> = infos.iter().map(|(key, value)| Info::new(*key, Value::Uint32(*value))).collect();
    all.push(Info::new(keys::SERVER_URI, Value::string(format!("a.0;tcp4://{address}"))));
    let error = connect(Environment::from_lookup(|_| None).unwrap(), &all).err();
    assert_eq!(error, Some(Status::ERR_UNREACH));
    count.load(Ordering::Acquire)
}

#[test]
fn a_tool_tries_as_often_as_it_is_told() {
    assert_eq!(tries(&[]), 1);
    assert_eq!(tries(&[(keys::CONNECT_MAX_RETRIES, 3), (keys::CONNECT_RETRY_DELAY, 0)]), 4);
    assert_eq!(tries(&[(keys::CONNECT_MAX_RETRIES, 0), (keys::CONNECT_RETRY_DELAY, 0)]), 1);
    // Only the delay is given.
    assert_eq!(tries(&[(keys::CONNECT_RETRY_DELAY, 0)]), 11);
    // A delay beyond the time limit is not begun.
    assert_eq!(tries(&[(keys::CONNECT_MAX_RETRIES, 3), (keys::CONNECT_RETRY_DELAY, 100), (keys::TIMEOUT, 2)]), 1);
}

#[test]
fn a_tool_without_servers_uses_itself_and_cannot_leave_one() {
    let env = Environment::from_lookup(|_| None).unwrap();
    let (client, servers) = connect(env, &[Info::new(keys::TOOL_DO_NOT_CONNECT, Value::Bool(true))]).unwrap();
    let me = client.me().clone();
    let own = |rank, key| client.get_value(&Proc::new(me.nspace.clone(), rank), key, &[]);
    assert_eq!(own(Rank::WILDCARD, keys::JOB_SIZE), Ok(Value::Uint32(1)));
    assert_eq!(own(me.rank, keys::HOSTNAME), Ok(Value::string(&servers.env.hostname)));
    assert_eq!(servers.choose(&me, &[]), Ok(()));
    let (other, unnamed) = (Proc::new(Nspace::new("other").unwrap(), Rank(0)), Nspace::new("").unwrap());
    assert_eq!(servers.choose(&other, &[]), Err(Status::ERR_UNREACH));
    let waits = [Info::new(keys::WAIT_FOR_CONNECTION, Value::Bool(true)), Info::new(keys::TIMEOUT, Value::Int(1))];
    assert_eq!(servers.choose(&other, &waits), Err(Status::ERR_TIMEOUT));
    assert_eq!(servers.leave(&other), Err(Status::ERR_NOT_FOUND));
    assert_eq!(servers.leave(&Proc::new(unnamed, Rank(0))), Err(Status::ERR_BAD_PARAM));
    servers.close();
}

/// A server that answers each request with success, and keeps what it is told of event codes.
struct Listening {
    link: Offline,
    told: Mutex<Vec<(bool, Vec<Status>)>>,
}

impl Listening {
    fn new() -> Arc<Listening> {
        Arc::new(Listening { link: Offline::new().unwrap(), told: Mutex::default() })
    }

    fn hear(&self, payload: &[u8]) -> Vec<u8> {
        match Request::decode(self.dialect(), self.server_version(), payload).unwrap() {
            Request::RegisterEvents { codes, .. } => self.told.lock().push((true, codes)),
            Request::DeregisterEvents { codes } => self.told.lock().push((false, codes)),
            other => panic!("{other:?}"),
        }
        StatusReply { status: Status::SUCCESS }.bytes(self.dialect())
    }

    fn take_told(&self) -> Vec<(bool, Vec<Status>)> {
        std::mem::take(&mut *self.told.lock())
    }
}

impl Link for Listening {
    fn ready(&self) -> Result<()> {
        self.link.ready()
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        let answer = self.hear(&payload);
        self.link.defer(Box::new(move || reply(Ok(answer))));
    }

    fn request_wait(&self, payload: GatherBuf, _deadline: Option<Instant>) -> Result<Vec<u8>> {
        Ok(self.hear(&payload.into_bytes().unwrap()))
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.hear(&payload);
        Ok(())
    }

    fn defer(&self, task: Task) {
        self.link.defer(task);
    }

    fn dialect(&self) -> Dialect {
        self.link.dialect()
    }

    fn server_version(&self) -> Version {
        self.link.server_version()
    }

    fn close(&self) {
        self.link.close();
    }
}

#[test]
fn each_server_is_told_of_handlers_that_come_and_go() {
    let env = Environment::from_lookup(|_| None).unwrap();
    let (client, servers) = connect(env, &[Info::new(keys::TOOL_DO_NOT_CONNECT, Value::Bool(true))]).unwrap();
    let all = [Listening::new(), Listening::new(), Listening::new()];
    for (number, server) in all.iter().enumerate() {
        let name = Proc::new(Nspace::new("host").unwrap(), Rank(number as u32));
        servers.links.lock().all.push((name, server.clone()));
    }
    let told = || all.each_ref().map(|server| server.take_told());
    let handler = || -> EventHandler { Arc::new(|_, _, done: EventDone| drop(done)) };
    let code = Status(-3456);
    let first = client.register_event_handler(vec![code], Vec::new(), handler()).wait().unwrap();
    assert_eq!(told(), [vec![(true, vec![code])], vec![(true, vec![code])], vec![(true, vec![code])]]);
    // The second one of the code is no news. With a callback, all have been told when it comes.
    let second = client.register_event_handler(vec![code], Vec::new(), handler()).wait().unwrap();
    assert_eq!(told(), [vec![], vec![], vec![]]);
    let (done, is_done) = crossbeam::channel::bounded(1);
    let operation = client.register_event_handler(Vec::new(), Vec::new(), handler());
    operation.start(Box::new(move |id| done.send(id.unwrap()).unwrap())).unwrap();
    let of_all = is_done.recv().unwrap();
    assert_eq!(told(), [vec![(true, vec![])], vec![(true, vec![])], vec![(true, vec![])]]);
    for (id, gone) in [(first, None), (second, Some(code)), (of_all, Some(Status(i32::MIN)))] {
        client.deregister_event_handler(id).wait().unwrap();
        let expected: Vec<_> = gone.into_iter().map(|code| (false, vec![code])).collect();
        assert_eq!(told(), [expected.clone(), expected.clone(), expected]);
    }
    *servers.links.lock() = Links::default();
    servers.close();
}
