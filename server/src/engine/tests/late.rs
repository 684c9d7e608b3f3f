//! Hosts that answer late or never, and requests that are taken back.

use super::*;

fn limit() -> Vec<Info> {
    vec![Info::new(keys::TIMEOUT, Value::Int(2))]
}

/// Each request whose infos may have a time-out, with the host's function that it waits for.
fn requests() -> Vec<(&'static str, Request)> {
    let uid = 1000;
    let query = Query { keys: vec![c"site.thing".to_owned()], qualifiers: limit() };
    let file = || Info::new(keys::MONITOR_FILE, Value::string("/tmp/a"));
    vec![
        ("publish", Request::Publish { uid, infos: limit() }),
        ("lookup", Request::Lookup { uid, keys: vec!["a".into()], infos: limit() }),
        ("unpublish", Request::Unpublish { uid, keys: vec!["a".into()], infos: limit() }),
        ("spawn", Request::Spawn { infos: limit(), apps: Vec::new() }),
        ("query", Request::Query { queries: vec![query] }),
        ("log", Request::Log { timestamp: None, data: Vec::new(), directives: limit() }),
        ("allocate", Request::Allocate { directive: 1, infos: limit() }),
        ("job_control", Request::JobControl { targets: Vec::new(), directives: limit() }),
        ("monitor", Request::Monitor { monitor: file(), status: Status(-3456), directives: limit() }),
        ("get_credential", Request::GetCredential { infos: limit() }),
        ("validate_credential", Request::ValidateCredential { credential: vec![1], infos: limit() }),
        ("notify_event", Request::Notify { status: Status(-3456), range: 3, infos: limit() }),
        ("register_events", Request::RegisterEvents { codes: vec![Status::EVENT_SYS_BASE], infos: limit() }),
        ("iof_pull", Request::IoPull { procs: vec![proc(1)], infos: limit(), channels: 2, handler: Some(1) }),
        ("push_stdin", Request::IoPush { targets: vec![proc(1)], infos: limit(), data: Some(vec![1]) }),
        ("fabric", Request::FabricRegister { infos: limit() }),
        ("session_control", Request::SessionControl { session: 1, infos: limit() }),
    ]
}

#[test]
fn a_host_that_does_not_answer_in_time_is_named_and_its_late_answer_is_nobodys() {
    for (slot, request) in requests() {
        let mut bench = Bench::new(0, 2, 2);
        bench.request(0, 70, request);
        assert!(bench.reply(0, 70).is_none(), "{slot}");
        let asked: Vec<_> = bench.upcalls.iter().map(|(_, upcall)| upcall.slot()).collect();
        assert_eq!(asked.last(), Some(&slot));
        bench.pass(Duration::from_secs(1));
        assert!(bench.reply(0, 70).is_none(), "{slot}");
        bench.pass(Duration::from_secs(1));
        let reply = bench.reply(0, 70).unwrap_or_else(|| panic!("{slot} is not answered"));
        assert_eq!(StatusReply::decode(PLAIN, Version::OURS, &reply).unwrap().status, Status::ERR_TIMEOUT, "{slot}");
        let line = format!(
            "a request of job:0 timed out; missing: the answer of the host to its {slot} upcall, asked 2.0 s ago"
        );
        assert_eq!(bench.log.pop(), Some(line));
        assert!(bench.engine.limits.is_empty() && bench.engine.late.is_empty(), "{slot}");
        let sent = bench.sent.len();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        assert_eq!(bench.sent.len(), sent, "{slot}: a late answer");
    }
}

#[test]
fn a_collective_that_the_host_does_not_end_is_forgotten() {
    let mut bench = Bench::new(0, 2, 1);
    bench.request(0, 70, Request::Fence { procs: vec![proc(0), proc(1)], infos: limit() });
    let before = bench.engine.upcalls.len();
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.engine.upcalls.len(), before - 1);
    let line = "a fence timed out; missing: the answer of the host to its fence_nb upcall, asked 2.0 s ago";
    assert_eq!(bench.log.pop().as_deref(), Some(line));
    bench.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
    assert!(bench.engine.collectives.is_empty());
}

#[test]
fn a_get_with_a_time_out_names_what_has_not_come() {
    let mut bench = Bench::new(0, 2, 2);
    let get = |rank| Request::Get { nspace: nspace(), rank: Rank(rank), infos: limit(), key: Some("k".into()) };
    bench.request(0, 70, get(1));
    bench.request(0, 71, get(2));
    bench.pass(Duration::from_secs(2));
    bench.log.sort();
    let of_host = "the answer of the host to its direct_modex upcall, asked 2.0 s ago";
    assert_eq!(
        bench.log,
        [
            "a Get of job:0 timed out; missing: key k of job:1, which has committed nothing".to_owned(),
            format!("a Get of job:0 timed out; missing: key k of job:2, {of_host}"),
        ]
    );
}

#[test]
fn a_request_that_is_taken_back_has_never_been() {
    for (slot, request) in requests() {
        let mut bench = Bench::new(0, 2, 2);
        let payload = request.encode(PLAIN, Version::OURS).unwrap();
        let upcalls = bench.engine.upcalls.len();
        bench.engine.message(PeerId::OWN, 700, payload, bench.now);
        bench.engine.take_back(700);
        bench.drain();
        assert_eq!(bench.engine.upcalls.len(), upcalls, "{slot}");
        assert!(bench.upcalls.iter().all(|(_, upcall)| upcall.slot() != slot), "{slot}");
        assert!(bench.engine.limits.is_empty() && bench.engine.late.is_empty(), "{slot}");
    }
}

#[test]
fn a_collective_that_is_taken_back_waits_for_its_process_again() {
    let mut bench = Bench::new(0, 2, 3);
    let upcalls = bench.engine.upcalls.len();
    let me = bench.engine.peers[&PeerId::OWN].proc.clone();
    let fence = |others: &[Proc]| {
        let procs = [std::slice::from_ref(&me), others].concat();
        Request::Fence { procs, infos: Vec::new() }.encode(PLAIN, Version::OURS).unwrap()
    };
    // Of this process alone, which is at the host at once; and of others, with and without them.
    for (others, entered) in [(vec![], 0), (vec![proc(0), proc(1), proc(2)], 0), (vec![proc(0), proc(1), proc(2)], 1)] {
        for rank in 0..entered {
            bench.engine.message(peer(rank), 70, fence(&others), bench.now);
        }
        bench.engine.message(PeerId::OWN, 700, fence(&others), bench.now);
        bench.engine.take_back(700);
        let left = bench.engine.collectives.values().map(|fence| fence.arrived.len() as u32).sum::<u32>();
        assert_eq!(left, entered, "{others:?}");
        let is_fence = |output: &Output| matches!(output, Output::Upcall { upcall: Upcall::Fence { .. }, .. });
        assert!(!bench.engine.outputs.iter().any(is_fence), "{others:?}");
        assert_eq!(bench.engine.upcalls.len(), upcalls);
    }
}
