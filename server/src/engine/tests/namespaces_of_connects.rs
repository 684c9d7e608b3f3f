//! What RFC0003 lets processes say of a connect. Clients give the namespaces; servers see identifiers and terms.

use super::*;

fn flag(key: &'static str) -> Info {
    Info::new(key, Value::Bool(true))
}

fn id(text: &str) -> Info {
    Info::new(keys::CONNECT_ID, Value::string(text))
}

/// The ranks up to this one.
fn ranks(count: u32) -> Vec<Proc> {
    (0..count).map(proc).collect()
}

impl Bench {
    fn connect_by(&mut self, rank: u32, tag: u32, procs: &[Proc], infos: Vec<Info>) {
        self.request(rank, tag, Request::Connect { procs: procs.to_vec(), infos, extra: Vec::new() });
    }

    fn disconnect_by(&mut self, rank: u32, tag: u32, procs: &[Proc], infos: Vec<Info>) {
        self.request(rank, tag, Request::Disconnect { procs: procs.to_vec(), infos });
    }

    /// The status in the reply to a connect.
    fn connect_ended(&mut self, rank: u32, tag: u32) -> Option<Status> {
        Some(self.connected(peer(rank), tag)?.0)
    }

    fn hears_of(&mut self, rank: u32, codes: &[Status]) {
        self.request(rank, 91, Request::RegisterEvents { codes: codes.to_vec(), infos: Vec::new() });
        assert_eq!(self.status(rank, 91), Some(Status::SUCCESS));
    }

    /// The next event that a rank got: its code, its source and the identifier of the connect.
    fn told_of(&mut self, rank: u32) -> Option<(Status, Proc, Option<String>)> {
        let event = Notification::decode(PLAIN, &self.reply(rank, TAG_NOTIFY)?).unwrap();
        let id = Info::find(&event.infos, keys::CONNECT_ID).and_then(Value::as_text);
        assert_eq!(Info::find(&event.infos, keys::EVENT_AFFECTED_PROC), Some(&Value::Proc(event.source.clone())));
        Some((event.status, event.source, id.map(|id| String::from_utf8_lossy(id).into_owned())))
    }
}

#[test]
fn identifiers_tell_collectives_of_the_same_processes_apart() {
    let done = Some(Status::SUCCESS);
    let mut bench = Bench::new(0, 1, 2);
    let two = ranks(2);
    bench.connect_by(0, 10, &two, vec![id("a")]);
    bench.connect_by(0, 11, &two, vec![id("b")]);
    bench.connect_by(0, 12, &two, Vec::new());
    bench.connect_by(1, 11, &two, vec![id("b")]);
    assert_eq!((bench.connect_ended(0, 10), bench.connect_ended(0, 12)), (None, None));
    assert_eq!((bench.connect_ended(0, 11), bench.connect_ended(1, 11)), (done, done));
    bench.connect_by(1, 10, &two, vec![id("a")]);
    assert_eq!((bench.connect_ended(0, 10), bench.connect_ended(0, 12)), (done, None));
    bench.fence(0, 20, two.clone(), vec![id("a")]);
    bench.fence(1, 21, two.clone(), vec![id("b")]);
    assert_eq!((bench.status(0, 20), bench.status(1, 21)), (None, None));
    bench.fence(1, 20, two.clone(), vec![id("a")]);
    assert_eq!((bench.status(0, 20), bench.status(1, 20)), (done, done));
    // Each connection is ended by itself.
    bench.disconnect_by(0, 30, &two, vec![id("c")]);
    assert_eq!(bench.status(0, 30), Some(Status::ERR_INVALID_OPERATION), "there was no such connect");
    for rank in 0..2 {
        bench.disconnect_by(rank, 31, &two, vec![id("a")]);
    }
    assert_eq!((bench.status(0, 31), bench.status(1, 31)), (done, done));
    bench.disconnect_by(0, 32, &two, vec![id("a")]);
    assert_eq!(bench.status(0, 32), Some(Status::ERR_INVALID_OPERATION), "a second time");
    bench.disconnect_by(0, 33, &two, vec![id("b")]);
    assert_eq!(bench.status(0, 33), None, "the other one is still there");
    for wrong in [Value::Bool(true), Value::string("i".repeat(256))] {
        bench.connect_by(0, 40, &two, vec![Info::new(keys::CONNECT_ID, wrong)]);
        assert_eq!(bench.status(0, 40), Some(Status::ERR_BAD_PARAM));
    }
}

#[test]
fn an_optional_connect_does_without_those_that_have_ended() {
    let mut bench = Bench::new(0, 1, 4);
    let all = ranks(4);
    let optional = || vec![flag(keys::CONNECT_OPTIONAL)];
    for rank in [0, 1, 3] {
        bench.connect_by(rank, 10, &all, optional());
    }
    assert_eq!(bench.connect_ended(0, 10), None, "rank 2 may come");
    bench.lose(2);
    for rank in [0, 1, 3] {
        assert_eq!(bench.connect_ended(rank, 10), Some(Status::SUCCESS));
    }
    // Nor do later collectives that are told so miss it; others do.
    for (infos, status) in [(optional(), Status::SUCCESS), (Vec::new(), Status::ERR_PARTIAL_SUCCESS)] {
        for rank in [0, 1, 3] {
            bench.fence(rank, 11, all.clone(), infos.clone());
        }
        assert_eq!(bench.status(3, 11), Some(status));
    }
    // One that was connected is missed.
    bench.lose(3);
    for rank in [0, 1] {
        bench.fence(rank, 12, all.clone(), optional());
    }
    assert_eq!(bench.status(0, 12), Some(Status::ERR_PARTIAL_SUCCESS));
    // All of a job, by the wildcard.
    for rank in [0, 1] {
        bench.connect_by(rank, 13, &everybody(), optional());
    }
    assert_eq!(bench.connect_ended(0, 13), Some(Status::SUCCESS));
    for rank in [0, 1] {
        bench.connect_by(rank, 14, &everybody(), Vec::new());
    }
    assert_eq!(bench.connect_ended(0, 14), Some(Status::ERR_LOST_CONNECTION));
}

#[test]
fn members_may_end_early_where_all_have_allowed_it() {
    let code = Status::ERR_PROC_TERM_WO_SYNC;
    for early in [true, false] {
        let infos = || if early { vec![flag(keys::CONNECT_EARLY_TERM_ALLOWED)] } else { Vec::new() };
        let mut bench = Bench::new(0, 1, 3);
        bench.hears_of(0, &[code]);
        for rank in 0..3 {
            bench.connect_by(rank, 10, &ranks(3), infos());
        }
        bench.fence(0, 11, ranks(3), infos());
        bench.lose(2);
        assert_eq!(bench.told_of(0).is_some(), !early);
        // One may name the processes instead of the namespace, and so say nothing.
        bench.fence(1, 11, ranks(3), Vec::new());
        let status = if early { Status::SUCCESS } else { Status::ERR_PARTIAL_SUCCESS };
        assert_eq!((bench.status(0, 11), bench.status(1, 11)), (Some(status), Some(status)));
        for rank in 0..2 {
            bench.disconnect_by(rank, 12, &ranks(3), infos());
        }
        let status = if early { Status::SUCCESS } else { Status::ERR_LOST_CONNECTION };
        assert_eq!((bench.status(0, 12), bench.engine.connected.len()), (Some(status), 0));
    }
}

/// One process must not decide for others who have not said so.
#[test]
fn a_fence_of_processes_that_did_not_allow_early_ends_fails() {
    for connects in [false, true] {
        let mut bench = Bench::new(0, 1, 3);
        for rank in (0..3).filter(|_| connects) {
            bench.connect_by(rank, 10, &ranks(3), Vec::new());
        }
        bench.lose(2);
        bench.fence(0, 11, ranks(3), vec![flag(keys::CONNECT_EARLY_TERM_ALLOWED)]);
        bench.fence(1, 11, ranks(3), Vec::new());
        assert_eq!(bench.status(1, 11), Some(Status::ERR_PARTIAL_SUCCESS), "connected: {connects}");
    }
}

#[test]
fn an_exchange_connects_nobody() {
    let mut bench = Bench::new(0, 1, 1);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let procs = vec![proc(0), child];
    let exchange = || vec![flag(keys::CONNECT_XCHG_ONLY)];
    bench.connect_by(0, 10, &procs, exchange());
    bench.disconnect_by(0, 11, &procs, Vec::new());
    assert_eq!(bench.status(0, 11), Some(Status::ERR_INVALID_OPERATION));
    bench.enter_as(PeerId(500), 10, &Request::Connect { procs: procs.clone(), infos: exchange(), extra: Vec::new() });
    assert_eq!(bench.connected(peer(0), 10), Some((Status::SUCCESS, vec![(procs[1].nspace.clone(), 1)])));
    assert!(bench.engine.connected.is_empty());
    // All must mean the same.
    bench.sent.clear();
    bench.connect_by(0, 12, &procs, exchange());
    bench.enter_as(PeerId(500), 12, &Request::Connect { procs: procs.clone(), infos: Vec::new(), extra: Vec::new() });
    assert_eq!(bench.connect_ended(0, 12), Some(Status::ERR_BAD_PARAM));
}

#[test]
fn participants_hear_of_each_connect_and_disconnect() {
    let (connected, disconnected) = (Status::PROC_HAS_CONNECTED, Status::PROC_HAS_DISCONNECTED);
    let mut bench = Bench::new(0, 1, 4);
    for rank in 0..4 {
        let codes = [connected, disconnected];
        bench.hears_of(rank, if rank == 2 { &[] } else { &codes });
    }
    let each = || vec![flag(keys::CONNECT_NOTIFY_EACH), id("a")];
    let of_one = |code| Some((code, proc(1), Some("a".to_owned())));
    bench.connect_by(1, 10, &ranks(3), each());
    assert_eq!((bench.told_of(0), bench.told_of(0)), (of_one(connected), None), "before the connect is over");
    assert_eq!(
        (bench.told_of(1), bench.told_of(2), bench.told_of(3)),
        (None, None, None),
        "not itself, not by default"
    );
    bench.connect_by(0, 10, &ranks(3), vec![id("a")]);
    bench.connect_by(2, 10, &ranks(3), vec![id("a")]);
    assert_eq!((bench.told_of(1), bench.connect_ended(1, 10)), (None, Some(Status::SUCCESS)), "only of who wants it");
    bench.disconnect_by(1, 11, &ranks(3), each());
    assert_eq!((bench.told_of(0), bench.told_of(3)), (of_one(disconnected), None));
    assert!(bench.upcalls.is_empty());
}

#[test]
fn processes_are_asked_to_connect() {
    let code = Status::CONNECT_REQUESTED;
    let mut bench = Bench::new(0, 1, 3);
    bench.hears_of(0, &[code]);
    bench.hears_of(1, &[code]);
    let asking = || vec![flag(keys::CONNECT_NOTIFY_REQ)];
    bench.connect_by(0, 10, &ranks(3), asking());
    assert_eq!((bench.told_of(0), bench.told_of(1)), (None, Some((code, proc(0), None))));
    bench.hears_of(2, &[code]);
    assert_eq!(bench.told_of(2), Some((code, proc(0), None)), "it has come later");
    bench.connect_by(1, 10, &ranks(3), asking());
    assert_eq!((bench.told_of(0), bench.told_of(2)), (None, None), "once");
    bench.connect_by(2, 10, &ranks(3), Vec::new());
    assert_eq!(bench.connect_ended(1, 10), Some(Status::SUCCESS));
    bench.request(2, 92, Request::DeregisterEvents { codes: vec![code] });
    bench.lose(2);
    bench.connect(2);
    bench.hears_of(2, &[code]);
    assert_eq!(bench.told_of(2), None, "nobody waits any more");
    // Other servers are told by the host.
    let mut bench = Bench::new(0, 2, 1);
    bench.connect_by(0, 10, &ranks(2), asking());
    let told = bench.upcalls.iter().any(
        |(_, upcall)| matches!(upcall, Upcall::NotifyEvent { code: told, range: Range::CUSTOM, .. } if *told == code),
    );
    assert!(told);
}

#[test]
fn the_host_gets_the_directives() {
    let mut bench = Bench::new(0, 2, 2);
    let terms = || vec![id("a"), flag(keys::CONNECT_OPTIONAL)];
    bench.connect_by(0, 10, &everybody(), terms());
    bench.lose(1);
    let Upcall::Connect { infos, .. } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else {
        panic!("a connect")
    };
    assert_eq!(infos[..2], terms());
    // The host may know better of other nodes.
    assert_eq!(Info::find(&infos, keys::LOCAL_COLLECTIVE_STATUS), Some(&Value::Status(Status::SUCCESS)));
    assert_eq!(bench.connect_ended(0, 10), Some(Status::SUCCESS));
}

/// The host may report the end of a process before its connection is closed, and those that wait for it disconnect at once.
#[test]
fn an_end_that_the_host_reports_first_is_told_before_the_disconnect() {
    let code = Status::ERR_PROC_TERM_WO_SYNC;
    let mut bench = Bench::new(0, 1, 3);
    bench.hears_of(0, &[code]);
    for rank in 0..3 {
        bench.connect_by(rank, 10, &ranks(3), Vec::new());
    }
    bench.operate(|engine| engine.deregister_client(&proc(2)));
    bench.drain();
    for rank in 0..2 {
        bench.disconnect_by(rank, 11, &ranks(3), Vec::new());
    }
    assert_eq!(bench.status(0, 11), Some(Status::ERR_LOST_CONNECTION));
    bench.lose(2);
    assert_eq!((bench.told_of(0), bench.told_of(0)), (Some((code, proc(2), None)), None), "once");
}
