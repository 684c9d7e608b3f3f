use std::ffi::CString;
use std::time::Duration;

use pmix_client::inspection::{Collective, Wait};
use pmix_dstore::model::{App, Key, Pdata, Query, Rank, Value, keys};

use super::super::super::frame::HEAD;
use super::*;

fn nspace() -> Nspace {
    Nspace::new("run.job").unwrap()
}

fn proc() -> Proc {
    Proc::new(nspace(), Rank(3))
}

fn procs() -> Vec<Proc> {
    vec![proc(), Proc::new(nspace(), Rank::WILDCARD)]
}

fn infos() -> Vec<Info> {
    let required = pmix_dstore::model::InfoFlags::REQUIRED;
    vec![
        Info { flags: required, ..Info::new(keys::JOB_SIZE, Value::Uint32(4)) },
        Info::new("own", Value::procs([proc()])),
        Info::new(keys::TIMEOUT, Value::Double(0.5)),
    ]
}

fn results() -> Vec<UpcallResult> {
    let (ok, no) = (Status::SUCCESS, Status::ERR_NOT_FOUND);
    let found = Pdata { proc: proc(), key: Key::from("key"), value: Value::string("value") };
    vec![
        UpcallResult::Op(no),
        UpcallResult::Infos(ok, infos()),
        UpcallResult::Infos(ok, Vec::new()),
        UpcallResult::Spawn(ok, Some(nspace())),
        UpcallResult::Spawn(no, None),
        UpcallResult::Name(ok, Some(proc())),
        UpcallResult::Name(no, None),
        UpcallResult::Lookup(ok, vec![found.clone(), found]),
        UpcallResult::Lookup(no, Vec::new()),
        UpcallResult::Credential(ok, (vec![0, 1, 2], infos())),
    ]
}

fn orders() -> Vec<Order> {
    let orders = vec![
        Order::Begin { infos: infos() },
        Order::RegisterNspace { nspace: nspace(), size: 4, infos: infos() },
        Order::RegisterClient { proc: proc(), uid: 1, gid: 2, object: 1 << 40 },
        Order::DeregisterClient { proc: proc() },
        Order::DeregisterNspace { nspace: nspace() },
        Order::SetupFork { proc: proc() },
        Order::DefineSet { name: c"set".into(), members: procs() },
        Order::DeleteSet { name: c"set".into() },
        Order::Notify { code: Status::EVENT_JOB_END, source: proc(), range: 3, infos: infos() },
        Order::ForgetEvents { code: Status::READY_FOR_DEBUG },
        Order::AnnounceEnd { nspace: nspace() },
        Order::Deliver { source: proc(), channel: 4, data: b"a\0b\n".to_vec() },
        Order::ResumeInput { by: proc() },
        Order::Waiting,
        Order::Stats,
        Order::ReportUri { target: "/tmp/uri".into() },
        Order::Settle,
        Order::Finalize,
    ];
    orders.into_iter().chain(results().into_iter().map(|result| Order::Answer { result })).collect()
}

fn calls() -> Vec<Call> {
    let text = |text: &str| CString::new(text).unwrap();
    let app = App {
        cmd: Some(text("/bin/sh")),
        argv: vec![text("sh"), text("-c")],
        env: vec![text("A=1")],
        cwd: Some(text("/")),
        maxprocs: 3,
        infos: infos(),
    };
    let query = Query { keys: vec![text("one"), text("two")], qualifiers: infos() };
    let keys = || vec![Key::from("one"), Key::from("two")];
    vec![
        Call::ClientConnected { proc: proc(), object: 7 },
        Call::ClientFinalized { proc: proc(), object: 7 },
        Call::ToolConnected { infos: infos() },
        Call::Abort { proc: proc(), object: 7, status: -3, message: Some(text("why")), procs: procs() },
        Call::Abort { proc: proc(), object: 7, status: 3, message: None, procs: Vec::new() },
        Call::JobControl { proc: proc(), targets: procs(), directives: infos() },
        Call::Allocate { proc: proc(), directive: 2, infos: infos() },
        Call::Spawn { proc: proc(), infos: infos(), apps: vec![app.clone(), app] },
        Call::Spawn { proc: proc(), infos: Vec::new(), apps: Vec::new() },
        Call::Query { proc: proc(), queries: vec![query] },
        Call::Query { proc: proc(), queries: Vec::new() },
        Call::Publish { proc: proc(), infos: infos() },
        Call::Lookup { proc: proc(), keys: keys(), infos: infos() },
        Call::Unpublish { proc: proc(), keys: Vec::new(), infos: Vec::new() },
        Call::NotifyEvent { code: Status(-3901), source: proc(), range: 7, infos: infos() },
        Call::PushStdin { source: proc(), targets: procs(), infos: infos(), data: Some(vec![1, 0]) },
        Call::PushStdin { source: proc(), targets: procs(), infos: infos(), data: Some(Vec::new()) },
        Call::PushStdin { source: proc(), targets: procs(), infos: infos(), data: None },
        Call::Group { is_construct: true, group: text("group"), procs: procs(), infos: infos() },
        Call::GetCredential { proc: proc(), infos: infos() },
        Call::ValidateCredential { proc: proc(), credential: vec![3, 0], infos: infos() },
        Call::Log { proc: proc(), data: infos(), directives: infos() },
    ]
}

fn replies() -> Vec<Reply> {
    let collective = Collective {
        operation: "fence".into(),
        procs: procs(),
        named: 5,
        age: Duration::from_millis(1500),
        entered: procs(),
        absent: Vec::new(),
        at_host: true,
    };
    let wait = |key: Option<&str>| Wait {
        asker: proc(),
        of: proc(),
        key: key.map(str::to_owned),
        age: Duration::from_nanos(7),
        at_host: false,
    };
    let stats = Stats {
        job_segment_bytes: 1,
        modex_segment_bytes: 2,
        segments: 3,
        clients_shared: 4,
        clients_socket: 5,
        gets: 6,
        fences: 7,
        connected: Some(Duration::from_micros(9)),
        wireup: None,
    };
    vec![
        Reply::Status(Status::OPERATION_SUCCEEDED),
        Reply::Variables(vec![("A".into(), OsString::from_vec(vec![0xff, b'=', 1])), ("B".into(), OsString::new())]),
        Reply::Waiting(Waiting { collectives: vec![collective], gets: vec![wait(None), wait(Some("key"))] }),
        Reply::Waiting(Waiting::default()),
        Reply::Stats(stats),
        Reply::Started { uri: "run.0;tcp4://127.0.0.1:1".into() },
        Reply::Failed("no port".into()),
    ]
}

fn said() -> Vec<ServerMessage> {
    let others = [ServerMessage::Event { code: Status(-1), source: proc(), infos: infos() }, ServerMessage::Achieved];
    let calls = calls().into_iter().map(ServerMessage::Upcall);
    calls.chain(replies().into_iter().map(ServerMessage::Reply)).chain(others).collect()
}

#[test]
fn messages_are_read_as_they_were_written() {
    for order in orders() {
        let frame = order.frame(1 << 33).unwrap();
        assert_eq!(Order::read(&frame[HEAD..]), Ok((1 << 33, order)));
    }
    for said in said() {
        let frame = said.frame(9).unwrap();
        assert_eq!(ServerMessage::read(&frame[HEAD..]), Ok((9, said)));
    }
}

/// No change of a byte and no cut makes a panic, and what is too short is refused.
#[test]
fn damaged_messages_are_refused_or_others() {
    let frames = orders().into_iter().map(|order| order.frame(1).unwrap());
    for frame in frames.chain(said().into_iter().map(|said| said.frame(1).unwrap())) {
        let body = &frame[HEAD..];
        for at in 0..body.len() {
            assert!(Order::read(&body[..at]).is_err() || ServerMessage::read(&body[..at]).is_err());
            for bit in 0..8 {
                let mut changed = body.to_vec();
                changed[at] ^= 1 << bit;
                let _ = (Order::read(&changed), ServerMessage::read(&changed));
            }
        }
    }
}
