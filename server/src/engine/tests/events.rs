//! Events for clients and for the host.

use super::*;

#[test]
fn an_event_reaches_each_registered_handler_once() {
    let mut bench = Bench::new(0, 1, 3);
    let code = Status(-3456);
    for rank in 0..2 {
        bench.request(rank, 30, Request::RegisterEvents { codes: vec![code], infos: Vec::new() });
        assert_eq!(bench.status(rank, 30), Some(Status::SUCCESS));
    }
    bench.request(0, 31, Request::Notify { status: code, range: 3, infos: Vec::new() });
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.status(0, 31), Some(Status::SUCCESS));
    let event = Notification::decode(PLAIN, &bench.reply(1, TAG_NOTIFY).expect("rank 1 hears")).unwrap();
    assert_eq!((event.status, event.source), (code, proc(0)));
    assert!(bench.reply(0, TAG_NOTIFY).is_none(), "not the originator");
    assert!(bench.reply(2, TAG_NOTIFY).is_none(), "not who did not ask");
    bench.request(2, 32, Request::RegisterEvents { codes: vec![code], infos: Vec::new() });
    assert!(bench.reply(2, TAG_NOTIFY).is_some(), "who registers later gets what was kept");
    bench.request(1, 33, Request::RegisterEvents { codes: vec![code], infos: Vec::new() });
    assert!(bench.reply(1, TAG_NOTIFY).is_none(), "but nobody gets it twice");
    bench.request(1, 0, Request::DeregisterEvents { codes: vec![code] });
    bench.request(0, 34, Request::Notify { status: code, range: 2, infos: Vec::new() });
    assert!(bench.reply(1, TAG_NOTIFY).is_none());
    assert!(bench.upcalls.is_empty(), "the local range is not the host's business");
}

#[test]
fn old_events_are_not_delivered() {
    let mut bench = Bench::new(0, 1, 3);
    let notify = Request::Notify { status: Status(-3456), range: 2, infos: Vec::new() };
    bench.request(0, 10, notify);
    let register = Request::RegisterEvents { codes: vec![Status(-3456)], infos: Vec::new() };
    bench.pass(Duration::from_secs(60));
    bench.request(1, 11, register.clone());
    assert!(bench.reply(1, TAG_NOTIFY).is_some());
    bench.pass(Duration::from_secs(100));
    bench.request(2, 11, register);
    assert!(bench.reply(2, TAG_NOTIFY).is_none());
}

#[test]
fn the_host_hears_of_the_first_and_last_registration_for_an_environment_event() {
    let mut bench = Bench::new(0, 1, 2);
    let (down, own) = (Status(-231), Status(-3456));
    let register = Request::RegisterEvents { codes: vec![down, own], infos: collect() };
    bench.request(0, 10, register.clone());
    assert_eq!(bench.status(0, 10), None, "the host has not answered");
    let Upcall::RegisterEvents { codes, infos } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else {
        panic!()
    };
    assert_eq!((codes, &infos[..1]), (vec![down], &collect()[..]));
    let of = |key: &str| Info::find(&infos, key).and_then(Value::as_u32);
    assert_eq!((of(keys::USERID), of(keys::GRPID)), (Some(1000), Some(1000)), "who wants it");
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    bench.request(1, 10, register.clone());
    assert_eq!(bench.status(1, 10), Some(Status::SUCCESS));
    bench.request(0, 11, Request::DeregisterEvents { codes: vec![down, own] });
    assert!(bench.upcalls.is_empty(), "rank 1 still wants it");
    bench.lose(1);
    let Upcall::DeregisterEvents { codes } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else { panic!() };
    assert_eq!(codes, [down]);

    // Without support of the host for registrations a registration succeeds; a refusal of the host fails it.
    bench.request(0, 12, register.clone());
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.status(0, 12), Some(Status::SUCCESS));
    bench.request(0, 13, Request::DeregisterEvents { codes: vec![down] });
    bench.answer_last(UpcallResult::Op(Status::OPERATION_SUCCEEDED));
    bench.request(0, 14, register.clone());
    bench.answer_last(UpcallResult::Op(Status::ERR_NO_PERMISSIONS));
    assert_eq!(bench.status(0, 14), Some(Status::ERR_NO_PERMISSIONS));
    bench.request(0, 15, register);
    assert_eq!(bench.upcalls.len(), 1, "it is asked again");
}

#[test]
fn a_client_that_leaves_during_an_upcall_loses_no_events_of_others() {
    let mut bench = Bench::new(0, 1, 3);
    let (down, own) = (Status(-231), Status(-3456));
    bench.request(0, 10, Request::Notify { status: own, range: Range::LOCAL, infos: Vec::new() });
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    bench.request(1, 11, Request::RegisterEvents { codes: vec![down, own], infos: Vec::new() });
    let (asked, _) = bench.upcalls.pop().expect("the host is asked");
    bench.lose(1);
    bench.engine.answer(asked, UpcallResult::Op(Status::SUCCESS));
    bench.drain();
    bench.request(2, 12, Request::RegisterEvents { codes: vec![own], infos: Vec::new() });
    assert!(bench.reply(2, TAG_NOTIFY).is_some(), "the event is kept for the others");
}

#[test]
fn events_are_kept_by_bytes_too() {
    let mut bench = Bench::new(0, 1, 2);
    let event = |len: usize| Request::Notify {
        status: Status(-3000),
        range: Range::LOCAL,
        infos: vec![Info::new("large", Value::ByteObject(vec![0; len].into()))],
    };
    for (tag, len) in (0..8).zip([1 << 20; 8]) {
        bench.request(0, tag, event(len));
    }
    bench.request(0, 9, event(5 << 20));
    bench.sent.clear();
    bench.request(1, 10, Request::RegisterEvents { codes: vec![Status(-3000)], infos: Vec::new() });
    let events = bench.sent.iter().filter(|(_, tag, _)| *tag == TAG_NOTIFY).count();
    assert_eq!(events, 3, "as many as 4 MiB hold, and none that is larger alone");
}
