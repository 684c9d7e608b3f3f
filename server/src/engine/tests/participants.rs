//! Participants: ended processes, connected processes, groups and special ranks; and other servers' jobs.

use super::super::collective::Terms;
use super::super::limits::CONNECTS_MAX;
use super::*;

impl Bench {
    /// A rank finalizes and closes its connection.
    fn finalize(&mut self, rank: u32) {
        self.request(rank, 90, Request::Finalize);
        self.answer_last(UpcallResult::Op(Status::SUCCESS));
        assert_eq!(self.status(rank, 90), Some(Status::SUCCESS));
        self.lose(rank);
    }

    fn connect_procs(&mut self, rank: u32, tag: u32, procs: &[Proc]) {
        self.request(rank, tag, Request::Connect { procs: procs.to_vec(), infos: Vec::new(), extra: Vec::new() });
    }

    fn disconnect_procs(&mut self, rank: u32, tag: u32, procs: &[Proc]) {
        self.request(rank, tag, Request::Disconnect { procs: procs.to_vec(), infos: Vec::new() });
    }

    /// The status in the reply to a connect.
    fn connect_status(&mut self, rank: u32, tag: u32) -> Option<Status> {
        Some(self.connected(peer(rank), tag)?.0)
    }

    fn registers(&mut self, rank: u32, codes: &[Status]) {
        self.request(rank, 91, Request::RegisterEvents { codes: codes.to_vec(), infos: Vec::new() });
        assert_eq!(self.status(rank, 91), Some(Status::SUCCESS));
    }

    /// The event that a rank got, which must be exactly one.
    fn event(&mut self, rank: u32) -> Option<(Status, Proc)> {
        let event = Notification::decode(PLAIN, &self.reply(rank, TAG_NOTIFY)?).unwrap();
        Some((event.status, event.source))
    }
}

#[test]
fn finalized_ranks_are_not_waited_for() {
    let mut bench = Bench::new(0, 1, 4);
    bench.put(3, 3, "key", 5);
    let two = [proc(1), proc(3)];
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    bench.connect_procs(1, 11, &two);
    bench.get(2, 12, 3, "later", Vec::new());
    bench.finalize(3);
    bench.pass(RETURN_DELAY - Duration::from_millis(1));
    assert_eq!((bench.connect_status(1, 11), bench.value(2, 12, "later")), (None, Some(Err(Status::ERR_NOT_FOUND))));
    bench.get(2, 12, 3, "later", Vec::new());
    assert_eq!(bench.value(2, 12, "later"), None, "it may come back and commit again");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.connect_status(1, 11), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(bench.value(2, 12, "later"), Some(Err(Status::ERR_NOT_FOUND)));
    assert_eq!(bench.status(0, 10), None, "rank 2 is to come");
    bench.fence(2, 10, everybody(), Vec::new());
    for rank in 0..3 {
        assert_eq!(bench.status(rank, 10), Some(Status::ERR_PARTIAL_SUCCESS));
    }
    assert!(bench.log.iter().any(|line| line.contains("goes on without job:3")), "{:?}", bench.log);
    // Later Gets do not wait at all.
    for rank in 0..3 {
        bench.fence(rank, 20, everybody(), collect());
    }
    for rank in 0..3 {
        assert_eq!(bench.status(rank, 20), Some(Status::ERR_PARTIAL_SUCCESS));
    }
    bench.connect_procs(1, 21, &two);
    assert_eq!(bench.connect_status(1, 21), Some(Status::ERR_LOST_CONNECTION));
    bench.get(2, 22, 3, "later", Vec::new());
    assert_eq!(bench.value(2, 22, "later"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.get(2, 23, 3, "key", Vec::new());
    assert_eq!(bench.value(2, 23, "key"), Some(Ok(5)), "what it has put outlives it");
    assert!(bench.engine.collectives.is_empty() && bench.engine.farewells.is_empty());
}

#[test]
fn finalized_ranks_without_commit_are_not_waited_for() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(0, 10, 1, "key", Vec::new());
    let answered = Arc::new(Mutex::new(None));
    let answer = answered.clone();
    bench.engine.dmodex_request(proc(1), Box::new(move |status, _| *answer.lock() = Some(status)));
    bench.finalize(1);
    bench.pass(RETURN_DELAY);
    assert_eq!(bench.value(0, 10, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    assert_eq!(*answered.lock(), Some(Status::ERR_NOT_FOUND), "nor by other servers");
    let answer = answered.clone();
    bench.engine.dmodex_request(proc(1), Box::new(move |_, _| *answer.lock() = None));
    bench.drain();
    assert_eq!(*answered.lock(), None);
}

/// Ranks that start and end the library in cycles, and shells that start one program after the other.
#[test]
fn participants_ahead_wait_for_those_behind() {
    let mut bench = Bench::new(0, 1, 2);
    for cycle in 0..3 {
        bench.fence(0, 10, everybody(), Vec::new());
        bench.fence(1, 10, everybody(), Vec::new());
        assert_eq!((bench.status(0, 10), bench.status(1, 10)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
        bench.finalize(0);
        bench.finalize(1);
        let (first, second) = if cycle % 2 == 0 { (0, 1) } else { (1, 0) };
        bench.connect(first);
        bench.fence(first, 20, everybody(), Vec::new());
        let key = ["one", "two", "three"][cycle as usize];
        let patience = vec![Info::new(keys::TIMEOUT, Value::Int(7200))];
        bench.get(first, 21, second, key, patience);
        bench.pass(Duration::from_secs(3600));
        assert_eq!((bench.status(first, 20), bench.value(first, 21, key)), (None, None), "cycle {cycle}");
        bench.connect(second);
        bench.put(second, 3, key, cycle);
        bench.fence(second, 20, everybody(), Vec::new());
        for rank in 0..2 {
            assert_eq!(bench.status(rank, 20), Some(Status::SUCCESS), "cycle {cycle}");
        }
        assert_eq!(bench.value(first, 21, key), Some(Ok(cycle)));
    }
    // One rank of a script runs a program in front that the others do not.
    let mut bench = Bench::new(0, 1, 2);
    bench.fence(1, 10, everybody(), Vec::new());
    bench.finalize(0);
    bench.pass(RETURN_DELAY - Duration::from_millis(1));
    bench.connect(0);
    bench.pass(Duration::from_secs(3600));
    assert_eq!(bench.status(1, 10), None);
    bench.fence(0, 10, everybody(), Vec::new());
    assert_eq!((bench.status(0, 10), bench.status(1, 10)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
}

/// A rank that has finalized and ends before it connects again is not seen to end, as one that has never connected: its host must say it.
#[test]
fn the_end_between_two_cycles_is_the_hosts_to_tell() {
    let mut bench = Bench::new(0, 1, 3);
    let all = [proc(0), proc(1), proc(2)];
    (0..3).for_each(|rank| bench.finalize(rank));
    bench.connect(0);
    bench.connect_procs(0, 20, &all);
    // The first message is enough: the host has not let it in yet.
    bench.engine.hello(peer(1), TCP, Bench::hello(1));
    bench.lose(1);
    bench.pass(Duration::from_secs(3600));
    assert_eq!(bench.connect_status(0, 20), None, "rank 2 may yet come, however late");
    bench.engine.deregister_client(&proc(2));
    bench.drain();
    assert_eq!(bench.connect_status(0, 20), Some(Status::ERR_LOST_CONNECTION));
    bench.connect_procs(0, 21, &all);
    assert_eq!(bench.connect_status(0, 21), Some(Status::ERR_LOST_CONNECTION));
}

#[test]
fn the_host_hears_that_a_participant_had_finalized() {
    let mut bench = Bench::new(0, 2, 2);
    bench.finalize(1);
    bench.pass(RETURN_DELAY);
    bench.fence(0, 10, everybody(), Vec::new());
    match bench.answer_last(UpcallResult::Data(Status::ERR_PARTIAL_SUCCESS, Bytes::default())) {
        Upcall::Fence { infos, .. } => assert_eq!(
            Info::find(&infos, keys::LOCAL_COLLECTIVE_STATUS),
            Some(&Value::Status(Status::ERR_PARTIAL_SUCCESS))
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.status(0, 10), Some(Status::ERR_PARTIAL_SUCCESS));
}

#[test]
fn disconnecting_unconnected_processes_is_an_error() {
    let refused = Some(Status::ERR_INVALID_OPERATION);
    let mut bench = Bench::new(0, 1, 3);
    let two = [proc(0), proc(1)];
    bench.disconnect_procs(0, 10, &two);
    assert_eq!(bench.status(0, 10), refused);
    for rank in 0..2 {
        bench.connect_procs(rank, 11, &two);
    }
    assert_eq!(bench.connect_status(0, 11), Some(Status::SUCCESS));
    bench.disconnect_procs(2, 12, &[proc(0), proc(2)]);
    assert_eq!(bench.status(2, 12), refused, "others than those");
    for rank in 0..2 {
        bench.disconnect_procs(rank, 13, &[proc(1), proc(0)]);
    }
    assert_eq!((bench.status(0, 13), bench.status(1, 13)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.disconnect_procs(0, 14, &two);
    assert_eq!(bench.status(0, 14), refused, "a second time");
    // All of a job are the same, named one by one; and a connect need not be waited for.
    for rank in 0..3 {
        bench.connect_procs(rank, 15, &everybody());
        if rank == 0 {
            bench.disconnect_procs(rank, 16, &everybody());
            assert_eq!(bench.status(0, 16), None);
        }
    }
    for rank in 1..3 {
        bench.disconnect_procs(rank, 16, &everybody());
    }
    assert_eq!(bench.status(0, 16), Some(Status::SUCCESS));
    for rank in 0..3 {
        bench.connect_procs(rank, 17, &everybody());
    }
    for rank in 0..3 {
        bench.disconnect_procs(rank, 18, &[proc(2), proc(1), proc(0)]);
    }
    assert_eq!(bench.status(2, 18), Some(Status::SUCCESS));
    // A connection with a deregistered job has ended.
    let child = lone_job(&mut bench, "child", PeerId(500));
    let jobs = [proc(0), child.clone()];
    bench.connect_procs(0, 19, &jobs);
    let connect = Request::Connect { procs: jobs.to_vec(), infos: Vec::new(), extra: Vec::new() };
    bench.enter_as(PeerId(500), 19, &connect);
    assert_eq!(bench.connect_status(0, 19), Some(Status::SUCCESS));
    bench.deregister_nspace(&child.nspace);
    bench.drain();
    bench.disconnect_procs(0, 20, &jobs);
    assert_eq!((bench.status(0, 20), bench.engine.connected.len()), (refused, 0));
}

#[test]
fn a_process_is_connected_to_its_spawned_job() {
    let mut bench = Bench::new(0, 1, 1);
    let child = Proc::new(Nspace::new("child").unwrap(), Rank(0));
    let infos = [
        Info::new(keys::NODE_MAP, Value::string(NODES[0])),
        Info::new(keys::PROC_MAP, Value::string("0")),
        Info::new(keys::PARENT_ID, Value::Proc(proc(0))),
    ];
    for _ in 0..2 {
        let known = bench.engine.job(&child.nspace);
        bench.engine.register_nspace(JobPlan::read(&child.nspace, 1, &infos, known, NODES[0]).unwrap());
    }
    bench.register_client(&child, 1000, 1000, 0);
    bench.engine.hello(PeerId(500), TCP, Hello { proc: Some(child.clone()), ..Bench::hello(0) });
    bench.drain();
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    let procs = vec![Proc::new(nspace(), Rank::WILDCARD), Proc::new(child.nspace.clone(), Rank::WILDCARD)];
    bench.disconnect_procs(0, 10, &procs);
    bench.enter_as(PeerId(500), 10, &Request::Disconnect { procs: procs.clone(), infos: Vec::new() });
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    bench.disconnect_procs(0, 11, &procs);
    assert_eq!(bench.status(0, 11), Some(Status::ERR_INVALID_OPERATION), "registered again, connected once");
}

#[test]
fn connects_that_are_never_ended_do_not_pile_up() {
    let mut bench = Bench::new(0, 1, 1);
    for _ in 0..CONNECTS_MAX + 9 {
        bench.connect_procs(0, 10, &[proc(0)]);
        assert_eq!(bench.connect_status(0, 10), Some(Status::SUCCESS));
    }
    assert_eq!(bench.engine.connected.len(), 1, "of the same processes");
    let mut bench = Bench::new(0, 1, 1);
    let others = |number: usize| [proc(0), Proc::new(Nspace::new(format!("other{number}")).unwrap(), Rank(0))];
    for number in 0..CONNECTS_MAX + 9 {
        bench.connect_procs(0, 10, &others(number));
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        assert_eq!(bench.connect_status(0, 10), Some(Status::SUCCESS));
    }
    assert_eq!(bench.engine.connected.len(), CONNECTS_MAX, "the oldest are forgotten");
    let terms = Terms::default();
    assert!(!bench.engine.are_connected(&others(8), &terms) && bench.engine.are_connected(&others(9), &terms));
}

#[test]
fn the_end_of_a_connected_process_is_an_event_for_those_that_asked() {
    let code = Status::ERR_PROC_TERM_WO_SYNC;
    for is_lost in [true, false] {
        let mut bench = Bench::new(0, 1, 4);
        bench.registers(0, &[code]);
        bench.registers(2, &[]);
        bench.registers(3, &[code]);
        let three = [proc(0), proc(1), proc(2)];
        for rank in 0..3 {
            bench.connect_procs(rank, 10, &three);
        }
        if is_lost {
            bench.lose(1)
        } else {
            bench.finalize(1)
        }
        assert_eq!(bench.event(0), Some((code, proc(1))));
        assert_eq!(bench.event(0), None, "once");
        assert_eq!((bench.event(2), bench.event(3)), (None, None), "not who has not asked, nor who is not connected");
        assert!(bench.upcalls.is_empty());
    }
    // A process may end after a disconnect.
    let mut bench = Bench::new(0, 1, 2);
    bench.registers(0, &[code]);
    for rank in 0..2 {
        bench.connect_procs(rank, 10, &everybody());
        bench.disconnect_procs(rank, 11, &everybody());
    }
    bench.lose(1);
    assert_eq!(bench.event(0), None);
    // In a job of two servers, the other server gets the event if the process was lost.
    for is_lost in [true, false] {
        let mut bench = Bench::new(0, 2, 2);
        bench.registers(0, &[code]);
        for rank in 0..2 {
            bench.connect_procs(rank, 10, &everybody());
        }
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        if is_lost {
            bench.lose(1)
        } else {
            bench.finalize(1)
        }
        assert_eq!(bench.event(0), Some((code, proc(1))));
        let told = bench.upcalls.iter().any(|(_, upcall)| matches!(upcall, Upcall::NotifyEvent { .. }));
        assert_eq!(told, is_lost);
        bench.lose(0);
        assert!(bench.engine.connected.is_empty(), "nobody is left");
    }
}

#[test]
fn ranks_of_this_node_are_named_together() {
    let mut bench = Bench::new(0, 2, 2);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let peers = vec![Proc::new(nspace(), Rank::LOCAL_PEERS)];
    bench.fence(0, 10, peers.clone(), Vec::new());
    assert_eq!(bench.status(0, 10), None);
    bench.fence(1, 10, peers, collect());
    assert!(bench.upcalls.is_empty(), "the host has no part in it");
    // The participants disagree about collecting data.
    assert_eq!((bench.status(0, 10), bench.status(1, 10)), (Some(Status::ERR_BAD_PARAM), Some(Status::ERR_BAD_PARAM)));
    let node = vec![Proc::new(nspace(), Rank::LOCAL_NODE)];
    bench.fence(0, 11, node.clone(), Vec::new());
    bench.fence(1, 11, node.clone(), Vec::new());
    assert_eq!(bench.status(0, 11), None, "the other job's process is of the node, too");
    bench.enter_as(PeerId(500), 11, &Request::Fence { procs: node, infos: Vec::new() });
    assert_eq!((bench.status(0, 11), bench.status(1, 11)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    assert!(bench.upcalls.is_empty() && bench.sent.iter().any(|(to, ..)| *to == PeerId(500)));
    bench.sent.clear();

    let code = Status(-3456);
    bench.registers(1, &[code]);
    let register = Request::RegisterEvents { codes: vec![code], infos: Vec::new() };
    bench.enter_as(PeerId(500), 12, &register);
    bench.sent.clear();
    for (rank, others) in [(Rank::LOCAL_PEERS, 0), (Rank::LOCAL_NODE, 1)] {
        let range = Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([Proc::new(nspace(), rank)]));
        bench.request(0, 13, Request::Notify { status: code, range: Range::CUSTOM, infos: vec![range] });
        assert_eq!(bench.event(1), Some((code, proc(0))), "{rank}");
        assert_eq!(bench.sent.iter().filter(|(to, ..)| *to == PeerId(500)).count(), others, "{rank}");
        match bench.answer_last(UpcallResult::Op(Status::SUCCESS)) {
            Upcall::NotifyEvent { infos, .. } => {
                let named: Vec<Proc> =
                    Info::find(&infos, keys::EVENT_CUSTOM_RANGE).unwrap().iter_procs().cloned().collect();
                let all = [vec![child.clone()], vec![proc(0), proc(1)]].concat();
                assert_eq!(named, all[1 - others..], "other servers are told who they are");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A host may register one rank after the other (Flux does).
#[test]
fn ranks_of_this_node_are_those_that_will_be_registered() {
    let mut bench = Bench::without_clients(0, 1, 2);
    let peers = vec![Proc::new(nspace(), Rank::LOCAL_PEERS)];
    for rank in 0..2 {
        bench.register_client(&proc(rank), 1000, 1000, 7);
        bench.connect(rank);
        assert_eq!(bench.status(0, 10), None);
        bench.fence(rank, 10, peers.clone(), Vec::new());
    }
    assert_eq!((bench.status(0, 10), bench.status(1, 10)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
}

#[test]
fn a_job_of_this_cluster_may_be_named_with_it() {
    let mut bench = Bench::new(0, 1, 1);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let infos = [Info::new(keys::CLUSTER_ID, Value::string("here"))];
    let known = bench.engine.job(&nspace());
    bench.engine.register_nspace(JobPlan::read(&nspace(), 1, &infos, known, NODES[0]).unwrap());
    let named = |name: &str| Proc::new(Nspace::new(name).unwrap(), Rank::WILDCARD);
    bench.connect_procs(0, 10, &[named("here:job"), named("here:child")]);
    let plain = Request::Connect { procs: vec![named("job"), named("child")], infos: Vec::new(), extra: Vec::new() };
    bench.enter_as(PeerId(500), 10, &plain);
    assert_eq!(bench.connected(peer(0), 10), Some((Status::SUCCESS, vec![(child.nspace.clone(), 1)])));
    // Of another cluster only the host may know something.
    bench.connect_procs(0, 11, &[named("here:job"), named("there:child")]);
    assert_eq!(bench.connect_status(0, 11), None);
    match bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED)) {
        Upcall::Connect { procs, .. } => assert_eq!(procs, [named("job"), named("there:child")]),
        other => panic!("{other:?}"),
    }
}

/// Each server knows the job of the other cluster by a longer name, so that the order of the names differs. Values are their owners' all the
/// same.
#[test]
fn a_fence_of_two_clusters_brings_each_the_others_values() {
    let on = |own: &str, other: &str| {
        let mut bench = Bench::new(0, 1, 1);
        let known = bench.engine.job(&nspace());
        let infos = [Info::new(keys::CLUSTER_ID, Value::string(own))];
        bench.engine.register_nspace(JobPlan::read(&nspace(), 1, &infos, known, NODES[0]).unwrap());
        let other = Proc::new(Nspace::new(format!("{other}:job")).unwrap(), Rank(0));
        let infos = [
            Info::new(keys::JOB_SIZE, Value::Uint32(1)),
            Info::new(keys::NODE_MAP, Value::string(NODES[0])),
            Info::new(keys::PROC_MAP, Value::string("0")),
        ];
        bench.engine.register_nspace(JobPlan::read(&other.nspace, 0, &infos, None, NODES[0]).unwrap());
        (bench, other)
    };
    // Both other names sort before the job's own.
    let (mut a, of_b) = on("a", "b");
    let (mut b, of_a) = on("b", "a");
    for (bench, other, value) in [(&mut a, &of_b, 1), (&mut b, &of_a, 2)] {
        bench.put(0, 2, "key", value);
        bench.fence(0, 10, vec![proc(0), other.clone()], collect());
    }
    exchange(&mut a, &mut b);
    for (bench, other, theirs) in [(&mut a, &of_b, 2), (&mut b, &of_a, 1)] {
        assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
        let infos = vec![Info::new(keys::IMMEDIATE, Value::Bool(true))];
        let key = Some(Key::from("key"));
        bench.request(0, 11, Request::Get { nspace: other.nspace.clone(), rank: other.rank, infos, key });
        assert_eq!(bench.value(0, 11, "key"), Some(Ok(theirs)));
    }
}

/// The processes whose values a rank got in answer to a Get.
fn owners(bench: &mut Bench, rank: u32, tag: u32) -> Option<Vec<Rank>> {
    let bytes = bench.reply(rank, tag)?;
    let reply = GetReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
    assert_eq!(reply.status, Status::SUCCESS);
    Some(reply.objects.iter().map(|(proc, _)| proc.rank).collect())
}

/// RFC0009: a value of another job is sent with all data of that job, also if the job is on other servers.
#[test]
fn with_a_value_of_another_servers_job_come_all_of_that_job() {
    let other = Nspace::new("other").unwrap();
    let job_of = |bench: &Bench| {
        let infos = [Info::new(keys::JOB_SIZE, Value::Uint32(3)), Info::new(keys::NODE_MAP, Value::string("n0,n1"))];
        let places = [Info::new(keys::PROC_MAP, Value::string("0;1,2"))];
        JobPlan::read(&other, 1, &[&infos[..], &places].concat(), bench.engine.job(&other), NODES[0]).unwrap()
    };
    let mut server = Bench::without_clients(0, 1, 1);
    let plan = job_of(&server);
    server.engine.register_nspace(plan);
    let answer = Arc::new(Mutex::new(Vec::new()));
    let answered = answer.clone();
    let job = Proc::new(other.clone(), Rank::WILDCARD);
    server.engine.dmodex_request(job.clone(), Box::new(move |_, data| *answered.lock() = data));
    server.drain();
    let job_data = std::mem::take(&mut *answer.lock());
    let kval = Kval { key: Key::from("key"), value: Value::Uint32(6) };
    let rank_data = blob::encode_modex(PLAIN, [(&kval.key, &kval.value)].into_iter()).unwrap();

    let ask = |bench: &mut Bench, tag, rank, key: &'static str| {
        let key = Some(Key::from(key));
        bench.request(0, tag, Request::Get { nspace: other.clone(), rank, infos: Vec::new(), key });
    };
    // The host answers in this order, in the reverse order, or with an unknown job; or it never answers.
    for (order, expected) in [
        ("job rank", vec![Rank::WILDCARD, Rank(2)]),
        ("rank job", vec![Rank::WILDCARD, Rank(2)]),
        ("none rank", vec![Rank(2)]),
        ("rank never", vec![Rank(2)]),
    ] {
        let mut bench = Bench::new(0, 1, 1);
        ask(&mut bench, 20, Rank(2), "key");
        let asked: Vec<Proc> = bench
            .upcalls
            .iter()
            .map(|(_, upcall)| match upcall {
                Upcall::DirectModex { proc, .. } => proc.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(asked, [job.clone(), Proc::new(other.clone(), Rank(2))]);
        let (of_rank, of_job) = (bench.upcalls.pop().unwrap().0, bench.upcalls.pop().unwrap().0);
        for (number, word) in order.split(' ').enumerate() {
            match word {
                "job" => bench.engine.answer(of_job, UpcallResult::Data(Status::SUCCESS, job_data.clone().into())),
                "rank" => bench.engine.answer(of_rank, UpcallResult::Data(Status::SUCCESS, rank_data.clone().into())),
                "none" => bench.engine.answer(of_job, UpcallResult::Op(Status::ERR_NOT_FOUND)),
                _ => bench.pass(Duration::from_secs(3)),
            }
            bench.drain();
            if number == 0 {
                assert!(bench.sent.iter().all(|(_, tag, _)| *tag != 20), "{order}: not yet");
            }
        }
        assert_eq!(owners(&mut bench, 0, 20), Some(expected), "{order}");
        let job_size = bench.engine.job(&other).unwrap().size();
        assert_eq!(job_size, if order.contains("job") { 3 } else { 0 }, "{order}");
        // Known values are not requested again, nor values that the host does not know.
        ask(&mut bench, 21, Rank(2), "unknown");
        let asked = bench.upcalls.iter().filter(|(_, upcall)| matches!(upcall, Upcall::DirectModex { .. })).count();
        assert_eq!(asked, 1, "{order}");
    }
    // The values that the host has registered for a process are included.
    let mut bench = Bench::new(0, 1, 1);
    ask(&mut bench, 30, Rank(2), keys::HOSTNAME);
    let (of_rank, of_job) = (bench.upcalls.pop().unwrap().0, bench.upcalls.pop().unwrap().0);
    bench.engine.answer(of_rank, UpcallResult::Op(Status::ERR_NOT_FOUND));
    bench.engine.answer(of_job, UpcallResult::Data(Status::SUCCESS, job_data.into()));
    bench.drain();
    assert_eq!(owners(&mut bench, 0, 30), Some(vec![Rank(2), Rank::WILDCARD]));
}

/// The host never answers about the job: the value still arrives before the caller's own time limit.
#[test]
fn a_value_waits_for_its_job_no_longer_than_its_caller_does() {
    let second = Duration::from_secs(1);
    let kval = Kval { key: Key::from("key"), value: Value::Uint32(6) };
    let rank_data = blob::encode_modex(PLAIN, [(&kval.key, &kval.value)].into_iter()).unwrap();
    for time in [Some(1), Some(60), None] {
        let mut bench = Bench::new(0, 1, 1);
        let nspace = Nspace::new("other").unwrap();
        let infos = time.map(|seconds| Info::new(keys::TIMEOUT, Value::Int(seconds))).into_iter().collect();
        bench.request(0, 20, Request::Get { nspace, rank: Rank(2), infos, key: Some(Key::from("key")) });
        bench.answer_last(UpcallResult::Data(Status::SUCCESS, rank_data.clone().into()));
        bench.pass(second);
        if time != Some(1) {
            assert_eq!(bench.value(0, 20, "key"), None, "{time:?}: the job may still come");
            // The engine has taken the answer by its own clock.
            bench.now = Instant::now();
            bench.pass(2 * second);
        }
        assert_eq!(bench.value(0, 20, "key"), Some(Ok(6)), "{time:?}");
    }
}

#[test]
fn a_get_for_an_unknown_job_leaves_no_state() {
    let mut bench = Bench::new(0, 1, 1);
    let known = bench.engine.nspaces.len();
    for number in 0..3000 {
        let nspace = Nspace::new(format!("x{number}")).unwrap();
        let get = Request::Get { nspace, rank: Rank(0), infos: Vec::new(), key: Some(Key::from("key")) };
        bench.request(0, 20, get);
        bench.answer_last(UpcallResult::Op(Status::ERR_NOT_FOUND));
        bench.answer_last(UpcallResult::Op(Status::ERR_NOT_FOUND));
    }
    assert_eq!(bench.engine.nspaces.len(), known);
}

/// In init and finalize cycles a process of another node that is ahead requests a value that a process here has still to put. Its count of
/// finalizes is unknown here; a process of this node that has connected again shows that there are cycles.
#[test]
fn remote_nodes_wait_for_ranks_that_reconnect() {
    let mut bench = Bench::new(0, 2, 2);
    let answers: Arc<Mutex<Vec<Status>>> = Arc::default();
    let ask = |bench: &mut Bench| {
        let told = Arc::clone(&answers);
        let done = Box::new(move |status, _| told.lock().push(status));
        assert_eq!(bench.engine.dmodex_request(proc(0), done), Status::SUCCESS);
        bench.drain();
        answers.lock().len()
    };
    bench.finalize(0);
    bench.pass(RETURN_DELAY);
    assert_eq!(ask(&mut bench), 1, "nobody comes back");
    bench.finalize(1);
    bench.connect(1);
    assert_eq!(ask(&mut bench), 1, "rank 1 has, and so may rank 0");
    bench.finalize(1);
    bench.pass(RETURN_DELAY);
    assert_eq!(*answers.lock(), [Status::ERR_NOT_FOUND; 2], "now nobody does");
    bench.connect(0);
    assert_eq!(ask(&mut bench), 2);
    bench.put(0, 3, "key", 1);
    assert_eq!(answers.lock().last(), Some(&Status::SUCCESS));
}

/// The host decides whether a fence of several nodes is complete: it learns of missing processes, and all nodes get its answer.
#[test]
fn a_fence_across_nodes_ends_for_all_as_the_host_says() {
    for answer in [Status::SUCCESS, Status::ERR_PARTIAL_SUCCESS] {
        let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
        b.finalize(3);
        b.pass(RETURN_DELAY);
        a.fence(0, 10, everybody(), Vec::new());
        a.fence(1, 10, everybody(), Vec::new());
        b.fence(2, 10, everybody(), Vec::new());
        for (bench, local) in [(&mut a, Status::SUCCESS), (&mut b, Status::ERR_PARTIAL_SUCCESS)] {
            let Upcall::Fence { infos, .. } = bench.answer_last(UpcallResult::Data(answer, Bytes::default())) else {
                panic!("no fence")
            };
            assert_eq!(Info::find(&infos, keys::LOCAL_COLLECTIVE_STATUS), Some(&Value::Status(local)));
        }
        let told = [a.status(0, 10), a.status(1, 10), b.status(2, 10)];
        assert_eq!(told, [Some(answer); 3]);
    }
}
