//! Connects with a namespace, against a scripted server.

use std::time::Duration;

use crossbeam::channel::unbounded;
use pmix_dstore::model::Kval;
use pmix_wire::Request;
use pmix_wire::reply::{ConnectReply, FenceReply};

use super::*;
use crate::client::tests::{Stage, flag, nspace, reporter, stage};

fn proc(name: &str, rank: u32) -> Proc {
    Proc::new(nspace(name), Rank(rank))
}

fn all(name: &str) -> Proc {
    Proc::new(nspace(name), Rank::WILDCARD)
}

/// Two processes of this job and the two of another one, in an order that is not sorted.
fn procs() -> Vec<Proc> {
    vec![all("other"), proc("job", 3), proc("job", 1)]
}

/// The same, sorted.
fn members() -> Vec<Proc> {
    vec![proc("job", 1), proc("job", 3), proc("other", 0), proc("other", 1)]
}

/// The server tells the size of the other job.
fn connect(stage: &Stage, procs: Vec<Proc>, infos: Vec<Info>) -> Result<Option<Proc>> {
    let kvals = vec![Kval { key: keys::JOB_SIZE.into(), value: Value::Uint32(2) }];
    stage.answers(ConnectReply { status: Status::SUCCESS, jobs: vec![(nspace("other"), kvals)] });
    stage.client.connect_namespace(procs, infos).wait()
}

fn id(text: &str) -> Info {
    Info::new(keys::CONNECT_ID, Value::string(text))
}

#[test]
fn a_namespace_follows_from_the_members_and_the_identifier() {
    let given = |procs: Vec<Proc>, infos: Vec<Info>| connect(&stage(), procs, infos).unwrap().unwrap();
    let me = given(procs(), Vec::new());
    assert_eq!(me.rank, Rank(0));
    assert!(me.nspace.as_bytes().starts_with(PREFIX.as_bytes()), "{me}");
    // In any order, and named in any way.
    assert_eq!(given(members(), Vec::new()), me);
    let own = Proc::new(Nspace::new("").unwrap(), Rank(1));
    assert_eq!(given(vec![own, proc("job", 3), all("other"), proc("other", 1)], Vec::new()), me);
    // Others have other names.
    let fewer = given(procs()[..2].iter().cloned().chain([proc("job", 1), proc("job", 0)]).collect(), Vec::new());
    assert_eq!(fewer.rank, Rank(1), "behind rank 0 of the job");
    let [one, two] = ["one", "two"].map(|text| given(procs(), vec![id(text)]));
    let names = [&me, &fewer, &one, &two].map(|proc| &proc.nspace);
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{names:?}");
    // With the name of the cluster, the own one's first.
    let named = stage();
    named.client.store_internal(&all("job"), keys::CLUSTER_ID.into(), Value::string("here")).unwrap();
    let with_other = |other: &str| vec![all(other), proc("job", 3), proc("job", 1)];
    assert_eq!(connect(&named, with_other("here:other"), Vec::new()), Ok(Some(me.clone())));
    assert_eq!(connect(&named, with_other("there:other"), Vec::new()), Err(Status::ERR_NOT_FOUND), "another one");
    // What cannot be.
    let stage = stage();
    for wrong in [Value::Bool(true), Value::string("i".repeat(256))] {
        let refused = stage.client.connect_namespace(procs(), vec![Info::new(keys::CONNECT_ID, wrong)]);
        assert_eq!(refused.wait(), Err(Status::ERR_BAD_PARAM));
    }
    assert_eq!(connect(&stage, vec![proc("job", 1), all("unknown")], Vec::new()), Err(Status::ERR_NOT_FOUND));
    assert_eq!(connect(&stage, procs(), vec![flag(keys::CONNECT_XCHG_ONLY)]), Ok(None));
    stage.answers(ConnectReply { status: Status::ERR_LOST_CONNECTION, jobs: Vec::new() });
    let lost = stage.client.connect_namespace(procs(), Vec::new()).wait();
    assert_eq!(lost, Err(Status::ERR_LOST_CONNECTION));
    assert!(!stage.client.inner.connections.has_any());
}

/// Jobs of the same name on two clusters, each of which names the other one's processes with their cluster.
#[test]
fn members_of_two_clusters_agree_on_the_namespace_and_its_ranks() {
    let on = |cluster: &'static str, beside: &str| {
        let stage = stage();
        stage.client.store_internal(&all("job"), keys::CLUSTER_ID.into(), Value::string(cluster)).unwrap();
        let procs = [cluster, beside].map(|cluster| format!("{cluster}:job"));
        let procs: Vec<Proc> = (0..4).flat_map(|rank| procs.each_ref().map(|name| proc(name, rank))).collect();
        let me = connect(&stage, procs, vec![id("one")]).unwrap().unwrap();
        (stage, me)
    };
    let (east, of_east) = on("east", "zest");
    let (zest, of_zest) = on("zest", "east");
    assert_eq!((&of_east.nspace, of_east.rank, of_zest.rank), (&of_zest.nspace, Rank(1), Rank(5)));
    let named = |stage: &Stage| stage.client.inner.connections.members(of_east.nspace.as_bytes()).unwrap();
    assert_eq!((named(&east)[1].clone(), named(&east)[5].clone()), (proc("job", 1), proc("zest:job", 1)));
    assert_eq!((named(&zest)[1].clone(), named(&zest)[5].clone()), (proc("east:job", 1), proc("job", 1)));
    zest.asked();
    zest.answers_status(Status::SUCCESS);
    zest.client.disconnect_namespace(&of_zest.nspace, Vec::new()).wait().unwrap();
    let procs = [0..4, 0..4].into_iter().zip(["east:job", "job"]);
    let procs = procs.flat_map(|(ranks, name)| ranks.map(move |rank| proc(name, rank))).collect();
    assert_eq!(zest.asked(), [Request::Disconnect { procs, infos: vec![id("one")] }]);
    assert!(!zest.client.inner.connections.has_any());
}

#[test]
fn requests_name_the_members() {
    let stage = stage();
    let early = || flag(keys::CONNECT_EARLY_TERM_ALLOWED);
    let me = connect(&stage, procs(), vec![id("one"), early(), flag(keys::CONNECT_NOTIFY_EACH)]).unwrap().unwrap();
    let whole = || Proc::new(me.nspace.clone(), Rank::WILDCARD);
    let member = |rank: u32| Proc::new(me.nspace.clone(), Rank(rank));
    stage.asked();
    let fence = |procs: &[Proc], infos: Vec<Info>| {
        stage.answers(FenceReply { status: Status::SUCCESS, segment_count: None });
        stage.client.fence(procs, infos).wait().unwrap();
        stage.asked().remove(0)
    };
    // What the connect was told goes along, where it concerns later operations.
    let infos = vec![id("one"), early()];
    assert_eq!(fence(&[whole()], Vec::new()), Request::Fence { procs: members(), infos: infos.clone() });
    let two = vec![proc("other", 1), proc("job", 1)];
    assert_eq!(fence(&[member(3), member(0)], infos.clone()), Request::Fence { procs: two, infos: infos.clone() });
    let mixed = [members(), vec![proc("job", 0)]].concat();
    assert_eq!(fence(&[whole(), proc("job", 0)], Vec::new()), Request::Fence { procs: mixed, infos: Vec::new() });
    assert_eq!(stage.client.fence(&[member(4)], Vec::new()).wait(), Err(Status::ERR_BAD_PARAM));
    // A further connect is another one.
    let again = connect(&stage, vec![whole()], vec![id("two")]).unwrap().unwrap();
    let request = Request::Connect { procs: members(), infos: vec![id("two")], extra: Vec::new() };
    assert_eq!((stage.asked(), again.rank), (vec![request], Rank(0)));
    assert_ne!(again.nspace, me.nspace);

    // As often as it was connected.
    connect(&stage, procs(), vec![id("one"), early()]).unwrap();
    stage.asked();
    for _ in 0..2 {
        stage.answers_status(Status::SUCCESS);
        stage.client.disconnect_namespace(&me.nspace, Vec::new()).wait().unwrap();
        assert_eq!(stage.asked(), [Request::Disconnect { procs: members(), infos: infos.clone() }]);
    }
    let refused = stage.client.disconnect_namespace(&me.nspace, Vec::new()).wait();
    assert_eq!((refused, stage.asked()), (Err(Status::ERR_INVALID_NAMESPACE), vec![]));
    // By the standard's call: a failure ends nothing, the loss of a member does.
    let by_members = |status| {
        stage.answers_status(status);
        let _ = stage.client.disconnect_procs(procs(), vec![id("two")]).wait();
        stage.client.inner.connections.has_any()
    };
    assert!(by_members(Status::ERR_TIMEOUT) && !by_members(Status::ERR_LOST_CONNECTION));
}

#[test]
fn gets_of_a_rank_are_those_of_the_member() {
    let stage = stage();
    let me = connect(&stage, procs(), Vec::new()).unwrap().unwrap();
    let name = me.nspace.to_string();
    let get = |rank: Rank, key: &str| stage.get_of(Some(&name), rank, Some(key), &[]);
    stage.asked();
    assert_eq!(get(Rank(1), "host.key"), Ok(Value::Uint32(3)), "rank 3 of this job");
    assert_eq!(get(Rank::WILDCARD, keys::JOB_SIZE), Ok(Value::Uint32(4)));
    assert_eq!(get(Rank::WILDCARD, keys::NODE_MAP), Err(Status::ERR_NOT_FOUND));
    assert_eq!(get(Rank(4), "host.key"), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked(), []);
    stage.answers_values(&[("other", Rank(1), &[("key", Value::Int(7))])]);
    assert_eq!(get(Rank(3), "key"), Ok(Value::Int(7)));
    let Request::Get { nspace: of, rank, .. } = stage.asked().remove(0) else { panic!("a Get") };
    assert_eq!((of, rank), (nspace("other"), Rank(1)));
    // Without waiting.
    let (told, heard) = unbounded();
    let ask = |rank, key: &str| {
        let (told, proc) = (told.clone(), Proc::new(me.nspace.clone(), rank));
        let done = Box::new(move |value| told.send(value).unwrap());
        stage.client.get_nb(&crate::GetRequest::new(&proc, key, &[]), done).map(|()| heard.recv().unwrap())
    };
    assert_eq!(ask(Rank(1), "host.key"), Ok(Ok(Value::Uint32(3))));
    assert_eq!(ask(Rank::WILDCARD, keys::JOB_SIZE), Ok(Ok(Value::Uint32(4))));
    assert_eq!(ask(Rank(4), "host.key"), Err(Status::ERR_NOT_FOUND));
    // Afterwards it is any name.
    stage.answers_status(Status::SUCCESS);
    stage.client.disconnect_namespace(&me.nspace, Vec::new()).wait().unwrap();
    stage.asked();
    stage.answers_status(Status::ERR_INVALID_NAMESPACE);
    assert_eq!(get(Rank(1), "host.key"), Err(Status::ERR_INVALID_NAMESPACE));
    assert!(matches!(&stage.asked()[..], [Request::Get { nspace, .. }] if *nspace == me.nspace));
}

#[test]
fn events_are_for_and_from_members() {
    let stage = stage();
    let code = Status(-3456);
    let me = connect(&stage, procs(), Vec::new()).unwrap().unwrap();
    let whole = Value::Proc(Proc::new(me.nspace.clone(), Rank::WILDCARD));
    // Handlers want events of members; each gets those of its own.
    let (sender, calls) = unbounded();
    for of in [range::CUSTOM, range::NAMESPACE] {
        let infos = vec![
            Info::new(keys::RANGE, Value::Uint8(of)),
            Info::new(keys::EVENT_CUSTOM_RANGE, whole.clone()),
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(Proc::new(me.nspace.clone(), Rank(1)))),
        ];
        stage.answers_status(Status::SUCCESS);
        let handler = reporter("member", Status::EVENT_NO_ACTION_TAKEN, &sender);
        stage.client.register_event_handler(vec![code], infos, handler).wait().unwrap();
    }
    for (source, affected, count) in
        [(proc("other", 1), 3, 2), (proc("job", 0), 3, 0), (proc("other", 1), 0, 0), (proc("job", 3), 3, 2)]
    {
        let infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(proc("job", affected)))];
        stage.client.deliver(crate::Event::new(code, source.clone(), infos));
        for _ in 0..count {
            assert_eq!(calls.recv_timeout(Duration::from_secs(60)).unwrap().1.source, source);
        }
    }
    assert!(calls.is_empty());
    stage.asked();
    stage.script_answers(Err(Status::ERR_TIMEOUT));
    let named = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, whole.clone()),
        Info::new(keys::EVENT_AFFECTED_PROC, whole),
        flag(keys::EVENT_DO_NOT_CACHE),
    ];
    let real = || Value::procs(members());
    let infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, real()),
        Info::new(keys::EVENT_AFFECTED_PROCS, real()),
        flag(keys::EVENT_DO_NOT_CACHE),
    ];
    let _ = stage.client.notify_event(code, proc("job", 1), range::CUSTOM, named).wait();
    assert_eq!(stage.asked(), [Request::Notify { status: code, range: range::CUSTOM, infos }]);
    // All of the source's namespace are its members.
    stage.script_answers(Err(Status::ERR_TIMEOUT));
    let _ = stage.client.notify_event(code, me.clone(), range::NAMESPACE, Vec::new()).wait();
    let infos = vec![Info::new(keys::EVENT_CUSTOM_RANGE, real())];
    assert_eq!(stage.asked(), [Request::Notify { status: code, range: range::CUSTOM, infos }]);
    let nobody = Proc::new(me.nspace, Rank(4));
    let refused = stage.client.notify_event(code, nobody, range::NAMESPACE, Vec::new()).wait();
    assert_eq!(refused, Err(Status::ERR_BAD_PARAM));
}

#[test]
fn members_of_a_node_and_nodes_of_members_are_found() {
    let stage = stage();
    let me = connect(&stage, vec![proc("job", 0), proc("job", 1)], Vec::new()).unwrap().unwrap();
    let here = stage.client.resolve_peers(None, Some(&me.nspace));
    assert_eq!(here, Ok(vec![Proc::new(me.nspace.clone(), Rank(0)), me.clone()]));
    assert_eq!(stage.client.resolve_peers(Some(b"n1"), Some(&me.nspace)), Ok(vec![]));
    assert_eq!(stage.client.resolve_nodes(Some(&me.nspace)), Ok(Some(b"n0".to_vec())), "not n1");
    let me = connect(&stage, vec![proc("job", 3), proc("job", 1)], Vec::new()).unwrap().unwrap();
    let there = stage.client.resolve_peers(Some(b"n1"), Some(&me.nspace));
    assert_eq!(there, Ok(vec![Proc::new(me.nspace.clone(), Rank(1))]));
    assert_eq!(stage.client.resolve_nodes(Some(&me.nspace)), Ok(Some(b"n0,n1".to_vec())));
    // Named by their node, they are the same for all.
    let together = connect(&stage, vec![Proc::new(nspace("job"), Rank::LOCAL_PEERS)], Vec::new()).unwrap();
    let each = connect(&stage, vec![proc("job", 1), proc("job", 0)], Vec::new()).unwrap();
    assert_eq!(together, each);
}
