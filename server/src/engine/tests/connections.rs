//! Admission of connections, and the limits of one connection.

use super::*;

#[test]
fn a_false_claim_of_identity_is_refused() {
    let mut bench = Bench::without_clients(0, 1, 2);
    bench.register_client(&proc(0), 1000, 1000, 0);
    let secret = bench.engine.nspaces[&nspace()].clients[&Rank(0)].secret.text().to_owned();
    let unix = |secret: &str| Hello { psec: "pmix-dstore".into(), credential: secret.into(), ..Bench::hello(0) };
    let claims = |uid, gid| Hello { credential: Hello::native_credential(uid, gid), ..Bench::hello(0) };
    let of_user = |uid| Transport::Tcp { owner: Some(uid) };
    let cases = [
        // The kernel's word counts, and not the peer's. Root is a user like others.
        (of_user(1000), Bench::hello(0), true),
        (of_user(1000), claims(0, 0), true),
        (of_user(1001), Bench::hello(0), false),
        (of_user(0), Bench::hello(0), false),
        (of_user(0), claims(0, 0), false),
        (of_user(1000), Hello { credential: vec![0; 7], ..Bench::hello(0) }, false),
        // Without its word, where claims are believed.
        (TCP, claims(1001, 1000), false),
        (TCP, claims(1000, 1001), false),
        (TCP, Bench::hello(1), false),
        (TCP, Hello { psec: "none".into(), ..Bench::hello(0) }, false),
        (TCP, unix(&secret), false),
        (TCP, Bench::hello(0), true),
        (Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, unix("0000"), false),
        (Transport::Unix { uid: 1001, gid: 1001, pid: 1 }, unix(&secret), false),
        (Transport::Unix { uid: 0, gid: 0, pid: 1 }, unix(&secret), false),
        (Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, Bench::hello(0), false),
        (Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, unix(&secret), true),
    ];
    let munge = |uid, gid| Transport::Munge { uid, gid, is_remote: false, is_bound: true };
    let shown = || Hello { psec: "munge".into(), credential: b"MUNGE:".to_vec(), ..Bench::hello(0) };
    let of_munge = [
        // Where the kernel tells, the credential is not looked at.
        (of_user(1000), shown(), true),
        (of_user(1001), shown(), false),
        // Where it does not, the credential has been decoded.
        (munge(1000, 5), shown(), true),
        (munge(1001, 1000), shown(), false),
        (munge(0, 0), shown(), false),
        (munge(1000, 1000), Bench::hello(0), false),
        (TCP, shown(), false),
        // From other hosts no rank comes, whatever it shows.
        (Transport::Munge { uid: 1000, gid: 1000, is_remote: true, is_bound: true }, shown(), false),
        (Transport::Remote, shown(), false),
        (Transport::Remote, Bench::hello(0), false),
        (Transport::Remote, unix(&secret), false),
    ];
    for (number, (transport, hello, allowed)) in cases.into_iter().chain(of_munge).enumerate() {
        let id = PeerId(200 + number as u64);
        bench.engine.hello(id, transport, hello);
        bench.drain();
        assert_eq!(bench.closed.contains(&id), !allowed, "case {number}: {:?}", bench.log);
        assert_eq!(!bench.upcalls.is_empty(), allowed, "case {number}");
        bench.upcalls.clear();
    }
    bench.engine.deregister_client(&proc(0));
    bench.engine.hello(PeerId(300), Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, unix(&secret));
    bench.drain();
    assert!(bench.closed.contains(&PeerId(300)), "a secret ends with its client");
}

#[test]
fn roots_socket_is_a_rank_where_the_client_is_roots() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.register_client(&proc(0), 0, 0, 0);
    bench.engine.hello(peer(0), Transport::Tcp { owner: Some(0) }, Bench::hello(0));
    bench.engine.hello(peer(1), Transport::Tcp { owner: Some(1000) }, Bench::hello(0));
    bench.drain();
    assert_eq!((bench.upcalls.len(), bench.closed), (1, vec![peer(1)]));
}

#[test]
fn without_the_kernels_word_claims_count_only_where_the_administrator_says_so() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.config.trust_claims = false;
    bench.register_client(&proc(0), 1000, 1000, 0);
    for id in 0..3 {
        bench.engine.hello(peer(id), TCP, Bench::hello(0));
    }
    bench.drain();
    let name = || UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    assert!(bench.knock(peer(3), (tool(0).0, TCP), name()).is_none());
    bench.drain();
    assert_eq!((bench.upcalls.len(), bench.closed.len()), (0, 3));
    assert!(bench.log.len() == 1 && bench.log[0].contains("PMIX_DSTORE_TRUST_CLAIMS=1"), "{:?}", bench.log);
}

#[test]
fn a_malformed_message_costs_its_sender_the_connection() {
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.message(peer(0), 10, vec![2, 3, 255, 255, 255], bench.now);
    bench.drain();
    assert_eq!(bench.closed, [peer(0)]);
    bench.get(1, 20, 1, "key", vec![Info::new(keys::OPTIONAL, Value::Bool(true))]);
    assert!(bench.value(1, 20, "key").is_some(), "the others are served on");
}

#[test]
fn a_client_that_closes_before_the_host_has_answered_its_finalize_is_not_lost() {
    let mut bench = Bench::new(0, 1, 2);
    bench.request(0, 10, Request::Finalize);
    bench.lose(0);
    assert!(bench.log.is_empty(), "{:?}", bench.log);
    assert!(matches!(bench.upcalls.pop(), Some((_, Upcall::ClientFinalized { .. }))));
}

#[test]
fn a_rank_with_another_program_still_running_is_not_gone() {
    let mut bench = Bench::new(0, 1, 3);
    connect_as(&mut bench, PeerId(900), 0);
    bench.engine.disconnected(PeerId(900), bench.now);
    bench.drain();
    for rank in 0..2 {
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    assert_eq!(bench.status(0, 10), None, "rank 2 is still to come");
    bench.fence(2, 10, everybody(), Vec::new());
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
}

#[test]
fn two_programs_of_a_rank_count_once() {
    let mut bench = Bench::new(0, 1, 2);
    connect_as(&mut bench, PeerId(900), 0);
    bench.fence(0, 10, everybody(), Vec::new());
    let payload = Request::Fence { procs: everybody(), infos: Vec::new() }.encode(PLAIN, Version::OURS).unwrap();
    bench.engine.message(PeerId(900), 10, payload, bench.now);
    bench.drain();
    assert_eq!(bench.status(0, 10), None, "rank 1 is still to come");
}

#[test]
fn a_process_is_lost_with_its_last_connection() {
    let mut bench = Bench::new(0, 1, 2);
    let register = Request::RegisterEvents { codes: Vec::new(), infos: Vec::new() };
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    let told =
        |bench: &Bench| bench.sent.iter().filter(|(id, tag, _)| (*id, *tag) == (PeerId::OWN, TAG_NOTIFY)).count();
    connect_as(&mut bench, PeerId(900), 0);
    bench.engine.disconnected(PeerId(900), bench.now);
    bench.pass(LOSS_DELAY);
    assert_eq!((told(&bench), bench.log.len()), (0, 0), "{:?}", bench.log);
    bench.lose(0);
    bench.pass(LOSS_DELAY);
    assert_eq!((told(&bench), bench.log.len()), (1, 1), "{:?}", bench.log);
}

#[test]
fn peers_of_any_release_do_not_fill_the_memory() {
    let mut bench = Bench::new(0, 1, 1);
    for number in 0..100 {
        let id = PeerId(900 + number);
        bench.engine.hello(id, TCP, Hello { version: format!("4.2.{number}"), ..Bench::hello(0) });
        bench.drain();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        let request = Request::JobInfo.encode(PLAIN, Version::OURS).unwrap();
        bench.engine.message(id, 101, request, bench.now);
        bench.drain();
        bench.engine.disconnected(id, bench.now);
    }
    assert_eq!(bench.sent.len(), 100);
    assert!(bench.engine.nspaces[&nspace()].job_replies.len() < 10);
}

#[test]
fn open_requests_of_a_connection_are_bounded() {
    let mut bench = Bench::new(0, 1, 2);
    let refused = |bench: &mut Bench| {
        let sent = std::mem::take(&mut bench.sent);
        let too_many = StatusReply { status: Status::ERR_OUT_OF_RESOURCE }.bytes(PLAIN);
        sent.iter().filter(|(id, _, payload)| *id == peer(0) && *payload == too_many).count()
    };
    let told = |bench: &mut Bench| std::mem::take(&mut bench.log).len();
    // Gets that wait for the other rank's commit; an answer makes room.
    for tag in 0..70_000 {
        bench.get(0, 1000 + tag, 1, "late", Vec::new());
    }
    assert_eq!((refused(&mut bench), told(&mut bench)), (70_000 - 65_536, 1));
    bench.put(1, 3, "late", 1);
    bench.sent.clear();
    bench.get(0, 7, 1, "late", Vec::new());
    assert_eq!((refused(&mut bench), told(&mut bench)), (0, 0));
    // Few that are large, under one tag.
    let large = || vec![Info::new("large", Value::ByteObject(vec![0; 5 << 20].into()))];
    for _ in 0..6 {
        bench.get(0, 8, 1, "never", large());
    }
    assert_eq!(refused(&mut bench), 3);
    bench.engine.disconnected(peer(0), bench.now);
    bench.pass(LOSS_DELAY);
    assert_eq!(bench.engine.deadline(), None, "nothing waits any more");

    let mut bench = Bench::new(0, 1, 2);
    for other in 0..1100 {
        let procs = vec![proc(0), Proc::new(nspace(), Rank(1000 + other)), proc(1)];
        bench.fence(0, 2000 + other, procs, Vec::new());
    }
    assert_eq!((refused(&mut bench), told(&mut bench)), (1100 - 1024, 1));
    let codes = |first: i32| (first..first + 40_000).map(Status).collect();
    bench.request(0, 5, Request::RegisterEvents { codes: codes(-1_000_000), infos: Vec::new() });
    assert_eq!(refused(&mut bench), 0);
    bench.request(0, 6, Request::RegisterEvents { codes: codes(-2_000_000), infos: Vec::new() });
    assert_eq!(refused(&mut bench), 1);
    for number in 0..5000 {
        let path = Value::string(format!("/tmp/no such file {number}"));
        let directives = vec![Info::new(keys::REGISTER_CLEANUP, path)];
        bench.request(0, 10_000 + number, Request::JobControl { targets: Vec::new(), directives });
    }
    assert_eq!(refused(&mut bench), 5000 - 4096);
    assert!(told(&mut bench) == 0, "a connection is told of once");
    bench.engine.disconnected(peer(0), bench.now);
    bench.drain();
    assert!(bench.engine.collectives.is_empty());
    bench.log.clear();
    for number in 0..70 {
        bench.engine.hello(PeerId(900 + number), TCP, Bench::hello(0));
        bench.drain();
    }
    assert_eq!((bench.log.len(), bench.closed.len()), (6, 6));
}

#[test]
fn a_users_standing_follows_the_processes_that_are_to_come() {
    let expects = |expected| Standing::Member { expected };
    let mut bench = Bench::without_clients(0, 1, 3);
    assert_eq!(bench.engine.standing(Some(2000)), Standing::Nobody);
    assert_eq!([Some(0), Some(1000)].map(|user| bench.engine.standing(user)), [expects(0), expects(0)]);
    for rank in 0..3 {
        bench.register_client(&proc(rank), 2000, 2000, 0);
        assert_eq!(bench.engine.standing(Some(2000)), expects(rank as usize + 1));
    }
    bench.engine.hello(peer(0), Transport::Tcp { owner: Some(2000) }, Bench::hello(0));
    assert_eq!(bench.engine.standing(Some(2000)), expects(2));
    bench.register_client(&proc(1), 3000, 3000, 0);
    assert_eq!([Some(2000), Some(3000)].map(|user| bench.engine.standing(user)), [expects(1), expects(1)]);
    // Without the kernel's answer all users count as one.
    assert_eq!(bench.engine.standing(None), expects(2));
    bench.engine.deregister_client(&proc(2));
    assert_eq!(bench.engine.standing(Some(2000)), expects(0));
    bench.deregister_nspace(&nspace());
    assert_eq!(bench.engine.standing(Some(2000)), Standing::Nobody);
    bench.engine.config.foreign_tools = true;
    bench.deregister_nspace(&nspace());
    bench.register_client(&proc(0), 3000, 3000, 0);
    assert_eq!([Some(2000), Some(3000)].map(|user| bench.engine.standing(user)), [Standing::Stranger, expects(1)]);
    bench.engine.config.trust_claims = false;
    assert_eq!(bench.engine.standing(None), Standing::Stranger);
}
