//! Jobs of two users at one server that is a third one's.

use pmix_client::output::STDOUT;

use super::*;
use crate::access::User;
use crate::engine::apart::Reach;
use crate::engine::statistics::Statistics;

const ANN: u32 = 2001;
const BOB: u32 = 2002;
/// The server's user.
const HOST: u32 = 1000;
const ROOT: u32 = 0;

/// Ann's and Bob's first ranks, and a tool.
const ANNS: PeerId = PeerId(100);
const BOBS: PeerId = PeerId(200);
const TOOL: PeerId = PeerId(300);

fn of_bob(rank: u32) -> Proc {
    Proc::new(Nspace::new("bobs").unwrap(), Rank(rank))
}

fn named(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

/// A registration without maps.
fn plan(nspace: &Nspace, infos: &[Info]) -> JobPlan {
    let size = Info::new(keys::JOB_SIZE, Value::Uint32(2));
    let infos: Vec<Info> = infos.iter().cloned().chain([size]).collect();
    JobPlan::read(nspace, 1, &infos, None, NODES[0]).unwrap()
}

impl Bench {
    /// Ann's job and Bob's, a rank of each connected.
    fn of_two() -> Bench {
        let mut bench = Bench::without_clients(0, 1, 1);
        assert_eq!(bench.engine.register_nspace(plan(&of_bob(0).nspace, &[])), Status::SUCCESS);
        for (id, proc, uid) in [(ANNS, proc(0), ANN), (BOBS, of_bob(0), BOB)] {
            assert_eq!(bench.register_client(&proc, uid, uid + 10, 7), Status::SUCCESS);
            bench.let_in(id, proc, uid);
        }
        bench
    }

    fn let_in(&mut self, id: PeerId, proc: Proc, uid: u32) -> Upcall {
        let hello = Hello {
            proc: Some(proc),
            credential: Hello::native_credential(uid, uid + 10),
            infos: vec![Info::new(keys::GRPID, Value::Uint32(0))],
            ..Bench::hello(0)
        };
        self.engine.hello(id, Transport::Tcp { owner: Some(uid) }, hello);
        self.drain();
        self.answer_last(UpcallResult::Op(Status::SUCCESS))
    }

    /// A tool of a user, with a job that has the tool's name.
    fn tool_of(&mut self, id: PeerId, uid: u32) {
        self.register_client(&Proc::new(named("bystander"), Rank(0)), uid, uid + 10, 0);
        let name = Proc::new(named(&format!("tool-{}", id.0)), Rank(0));
        let admitted = self.knock(id, tool(uid), UpcallResult::Name(Status::SUCCESS, Some(name)));
        assert!(admitted.is_some(), "{:?}", self.log);
        self.drain();
    }

    fn ask_as(&mut self, id: PeerId, request: Request) {
        self.enter_as(id, 101, &request);
        self.drain();
    }

    /// The status of a peer's last reply.
    fn told(&mut self, id: PeerId) -> Option<Status> {
        let position = self.sent.iter().position(|(to, tag, _)| (*to, *tag) == (id, 101))?;
        let bytes = self.sent.remove(position).2;
        Some(StatusReply::decode(PLAIN, Version::OURS, &bytes).unwrap().status)
    }

    /// The events that one has been sent.
    fn hears(&mut self, id: PeerId) -> usize {
        let before = self.sent.len();
        self.sent.retain(|(to, tag, _)| (*to, *tag) != (id, TAG_NOTIFY));
        before - self.sent.len()
    }

    fn say(&mut self, source: Proc, text: &str) {
        self.engine.deliver_output(source, STDOUT, text.as_bytes().to_vec(), Vec::new(), self.now);
        self.drain();
    }

    /// The pieces of output that one has been sent.
    fn took(&mut self, id: PeerId) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        self.sent.retain(|(to, tag, bytes)| {
            let is_it = (*to, *tag) == (id, TAG_IOF);
            if is_it {
                taken.push(IoDelivery::decode(PLAIN, bytes).unwrap().data);
            }
            !is_it
        });
        taken
    }
}

fn value_of(nspace: Nspace, infos: Vec<Info>) -> Request {
    Request::Get { nspace, rank: Rank(0), infos, key: Some("key".into()) }
}

fn size_of(nspace: Nspace) -> Request {
    let key = Some(keys::JOB_SIZE.into());
    Request::Get { nspace, rank: Rank::WILDCARD, infos: Vec::new(), key }
}

fn pull(proc: Proc) -> Request {
    Request::IoPull { procs: vec![proc], infos: Vec::new(), channels: STDOUT, handler: Some(3) }
}

fn event(infos: Vec<Info>) -> Request {
    Request::Notify { status: Status(-3456), range: 5, infos }
}

/// All that acts on processes.
fn actions(target: &Proc) -> Vec<Request> {
    let targets = vec![target.clone()];
    let at = |key: &'static str| vec![Info::new(key, Value::Proc(target.clone()))];
    vec![
        Request::Abort { status: Status(1), message: None, procs: targets.clone() },
        Request::JobControl { targets: targets.clone(), directives: Vec::new() },
        Request::IoPush { targets: targets.clone(), infos: Vec::new(), data: Some(b"text".to_vec()) },
        Request::Monitor { monitor: at("pmix.monitor.proc").remove(0), status: Status(0), directives: Vec::new() },
        Request::Spawn { infos: at(keys::DEBUG_TARGET), apps: Vec::new() },
        event(vec![Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(targets))]),
        pull(target.clone()),
    ]
}

#[test]
fn a_job_of_another_user_is_out_of_reach() {
    let mut bench = Bench::of_two();
    bench.put(0, 3, "key", 7);
    bench.tool_of(TOOL, BOB);
    for stranger in [BOBS, TOOL] {
        for get in [value_of(nspace(), Vec::new()), size_of(nspace())] {
            bench.ask_as(stranger, get);
            assert_eq!(bench.told(stranger), Some(Status::ERR_NO_PERMISSIONS));
        }
        for request in actions(&proc(0)) {
            let word = format!("{request:?}");
            bench.ask_as(stranger, request);
            assert_eq!(bench.told(stranger), Some(Status::ERR_NO_PERMISSIONS), "{word}");
        }
        // All processes include processes of other users.
        let everybody = vec![Proc::new(named(""), Rank::WILDCARD)];
        bench.ask_as(stranger, Request::JobControl { targets: everybody, directives: Vec::new() });
        assert_eq!(bench.told(stranger), Some(Status::ERR_NO_PERMISSIONS));
    }
    assert!(bench.upcalls.is_empty(), "the host is not troubled: {:?}", bench.upcalls);
    // His own are his: of the tool and of the rank.
    for own in [BOBS, TOOL] {
        bench.ask_as(own, size_of(of_bob(0).nspace));
        assert_eq!(bench.told(own), Some(Status::SUCCESS));
        for request in actions(&of_bob(0)) {
            bench.ask_as(own, request);
            assert_eq!(bench.told(own), None);
        }
        assert_eq!(bench.upcalls.len(), actions(&proc(0)).len());
        bench.upcalls.clear();
    }
}

#[test]
fn root_and_the_servers_user_reach_all() {
    for uid in [ROOT, HOST] {
        let mut bench = Bench::of_two();
        bench.put(0, 3, "key", 7);
        bench.tool_of(TOOL, uid);
        bench.ask_as(TOOL, value_of(nspace(), Vec::new()));
        assert_eq!(bench.told(TOOL), Some(Status::SUCCESS));
        for request in actions(&proc(0)) {
            bench.ask_as(TOOL, request);
        }
        assert_eq!((bench.told(TOOL), bench.upcalls.len()), (None, actions(&proc(0)).len()));
    }
}

#[test]
fn the_host_may_say_otherwise() {
    let numbers = |uid| {
        let items = vec![Value::Uint32(uid)];
        Value::DataArray(Box::new(DataArray { ty: DataType::UINT32, items }))
    };
    // Of one job, by a group that the host has registered; of all.
    let group = Info::new(keys::ACCESS_PERMISSIONS, Value::infos([Info::new(keys::ACCESS_GRPIDS, numbers(BOB + 10))]));
    for of_all in [false, true] {
        let mut bench = Bench::of_two();
        bench.put(0, 3, "key", 7);
        if of_all {
            bench.engine.config.access = Access::read(&[Info::new(keys::ACCESS_USERIDS, numbers(BOB))]);
        } else {
            let plan = JobPlan::read(&nspace(), 1, std::slice::from_ref(&group), bench.engine.job(&nspace()), NODES[0]);
            bench.engine.register_nspace(plan.unwrap());
        }
        bench.ask_as(BOBS, value_of(nspace(), Vec::new()));
        assert_eq!(bench.told(BOBS), Some(Status::SUCCESS));
        for request in actions(&proc(0)) {
            bench.ask_as(BOBS, request);
        }
        assert_eq!((bench.told(BOBS), bench.upcalls.len()), (None, actions(&proc(0)).len()));
        bench.ask_as(ANNS, size_of(of_bob(0).nspace));
        assert_eq!(bench.told(ANNS), Some(Status::ERR_NO_PERMISSIONS), "not the other way round");
    }
}

#[test]
fn the_host_decides_access_to_unknown_jobs() {
    let mut bench = Bench::of_two();
    let far = named("far");
    let of_far = || value_of(named("far"), Vec::new());
    for (id, other) in [(BOBS, None), (ANNS, Some(BOBS))] {
        bench.ask_as(id, of_far());
        // Another user's question is another question.
        if let Some(other) = other {
            bench.ask_as(other, of_far());
            assert_eq!(bench.told(other), Some(Status::SUCCESS), "the host has let him");
        }
        let (uid, name) = if id == BOBS { (BOB, of_bob(0)) } else { (ANN, proc(0)) };
        let kvals = [Kval { key: "key".into(), value: Value::Uint32(5) }];
        let data = blob::encode_modex(EXCHANGE, kvals.iter().map(|kval| (&kval.key, &kval.value))).unwrap();
        let answer = if id == BOBS { Status::SUCCESS } else { Status::ERR_NO_PERMISSIONS };
        let asked = bench.answer_last(UpcallResult::Data(answer, data.into()));
        // The data of the job, which the server requests together with the first value.
        let of_job = (id == BOBS).then(|| bench.answer_last(UpcallResult::Op(Status::ERR_NOT_FOUND)));
        if let Some(Upcall::DirectModex { infos, .. }) = &of_job {
            assert_eq!(Info::find(infos, keys::USERID), Some(&Value::Uint32(BOB)));
        }
        let Upcall::DirectModex { infos, .. } = asked else { panic!("{asked:?}") };
        let find = |key| Info::find(&infos, key).cloned();
        assert_eq!(find(keys::USERID), Some(Value::Uint32(uid)));
        assert_eq!(find(keys::GRPID), Some(Value::Uint32(uid + 10)));
        assert_eq!(find(keys::REQUESTOR), Some(Value::Proc(name)));
        assert_eq!(bench.told(id), Some(answer));
    }
    // Two users at once: the answer to one does not answer the other.
    let mut bench = Bench::of_two();
    bench.ask_as(BOBS, of_far());
    bench.ask_as(ANNS, of_far());
    assert_eq!(bench.upcalls.len(), 2, "for the job and the process");
    bench.answer_last(UpcallResult::Op(Status::ERR_NO_PERMISSIONS));
    assert_eq!((bench.told(BOBS), bench.told(ANNS)), (Some(Status::ERR_NO_PERMISSIONS), None));
    bench.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
    assert!(bench.told(ANNS).is_some());
    // A registration may name the user.
    bench.engine.register_nspace(plan(&far, &[Info::new(keys::USERID, Value::Uint32(ANN))]));
    bench.ask_as(ANNS, size_of(far.clone()));
    assert_eq!(bench.told(ANNS), Some(Status::SUCCESS));
    bench.ask_as(BOBS, size_of(far));
    assert_eq!(bench.told(BOBS), Some(Status::ERR_NO_PERMISSIONS));
    // The server's own user's processes ask as ever.
    bench.tool_of(TOOL, HOST);
    bench.ask_as(TOOL, value_of(named("farther"), Vec::new()));
    let asked = bench.answer_last(UpcallResult::Op(Status::ERR_NOT_FOUND));
    let Upcall::DirectModex { infos, .. } = asked else { panic!("{asked:?}") };
    assert_eq!(infos.len(), 1, "{infos:?}");
}

#[test]
fn output_goes_to_its_users() {
    let mut bench = Bench::of_two();
    bench.tool_of(TOOL, BOB);
    bench.say(proc(0), "early");
    // The output of all processes, and of a future job.
    for wanted in [Proc::new(named(""), Rank::WILDCARD), Proc::new(named("later"), Rank::WILDCARD)] {
        bench.ask_as(TOOL, pull(wanted));
        let Upcall::IofPull { infos, .. } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else { panic!() };
        let find = |key| Info::find(&infos, key).cloned();
        let tool = Proc::new(named("tool-300"), Rank(0));
        assert_eq!((find(keys::USERID), find(keys::REQUESTOR)), (Some(Value::Uint32(BOB)), Some(Value::Proc(tool))));
    }
    let later = Proc::new(named("later"), Rank(0));
    bench.register_client(&later, ANN, ANN, 0);
    for source in [proc(0), later] {
        bench.say(source, "Ann's");
    }
    bench.say(of_bob(0), "Bob's");
    assert_eq!(bench.took(TOOL), [b"Bob's"]);
    // A job that the tool has spawned is accessible to the tool's user, even if its processes have another.
    bench.ask_as(TOOL, Request::Spawn { infos: Vec::new(), apps: Vec::new() });
    let spawned = Proc::new(named("spawned"), Rank(0));
    bench.register_client(&spawned, ROOT, ROOT, 0);
    bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(spawned.nspace.clone())));
    bench.say(spawned.clone(), "new");
    assert_eq!(bench.took(TOOL), [b"new", b"new"], "for the pull of all, and for the spawn");
    assert!(bench.told(TOOL).is_some());
    bench.ask_as(TOOL, Request::JobControl { targets: vec![spawned], directives: Vec::new() });
    assert!(matches!(bench.upcalls.pop(), Some((_, Upcall::JobControl { .. }))));
}

/// Whose a job is that has no process here, and whose registration names no user, the host alone knows.
#[test]
fn output_of_an_unknown_job_goes_to_whom_the_host_lets_have_it() {
    let mut bench = Bench::of_two();
    let far = Proc::new(named("far"), Rank(0));
    let pulls = |bench: &mut Bench, asker, answer| {
        bench.ask_as(asker, pull(far.clone()));
        let Upcall::IofPull { procs, infos, .. } = bench.answer_last(UpcallResult::Op(answer)) else { panic!() };
        assert_eq!((procs, bench.told(asker)), (vec![far.clone()], Some(answer)));
        Info::find(&infos, keys::USERID).and_then(Value::as_u32)
    };
    bench.say(far.clone(), "early");
    assert_eq!(pulls(&mut bench, BOBS, Status::ERR_NO_PERMISSIONS), Some(BOB));
    assert_eq!(pulls(&mut bench, ANNS, Status::SUCCESS), Some(ANN));
    bench.say(far.clone(), "later");
    assert_eq!(bench.took(ANNS), [&b"early"[..], b"later"]);
    assert_eq!(bench.took(BOBS), Vec::<Vec<u8>>::new());
    // The host may let another user have it, but not once its user is known here.
    assert_eq!(pulls(&mut bench, BOBS, Status::SUCCESS), Some(BOB));
    bench.say(far.clone(), "both");
    bench.register_client(&far, ANN, ANN, 0);
    bench.say(far.clone(), "Ann's");
    assert_eq!(bench.took(ANNS), [&b"both"[..], b"Ann's"]);
    assert_eq!(bench.took(BOBS), [b"both"]);
}

#[test]
fn events_reach_the_jobs_of_their_user() {
    let mut bench = Bench::of_two();
    bench.tool_of(TOOL, BOB);
    let wanted = Request::RegisterEvents { codes: vec![Status(-3456)], infos: Vec::new() };
    for id in [ANNS, BOBS, PeerId::OWN] {
        bench.ask_as(id, wanted.clone());
    }
    bench.ask_as(TOOL, event(Vec::new()));
    assert_eq!([ANNS, BOBS, PeerId::OWN].map(|id| bench.hears(id)), [0, 1, 1]);
    assert!(matches!(bench.upcalls.pop(), Some((_, Upcall::NotifyEvent { .. }))), "the host may tell the others");
    // Nor later.
    assert_eq!(bench.register_client(&proc(1), ANN, ANN, 7), Status::SUCCESS);
    bench.let_in(PeerId(101), proc(1), ANN);
    bench.ask_as(PeerId(101), wanted);
    assert_eq!(bench.hears(PeerId(101)), 0);
    // All peers get the host's events.
    bench.engine.deliver_event(Sender::Peer(PeerId::OWN), Status(-3456), &of_bob(0), 5, Vec::new(), bench.now);
    bench.drain();
    assert_eq!([ANNS, BOBS].map(|id| bench.hears(id)), [1, 1]);
}

#[test]
fn queries_are_filtered_by_the_requesters_access() {
    let mut bench = Bench::of_two();
    bench.engine.set_process_set(c"anns".into(), Some(vec![proc(0)]));
    bench.engine.set_process_set(c"both".into(), Some(vec![proc(0), of_bob(0)]));
    let ask = |bench: &mut Bench, key: &str, qualifiers: Vec<Info>| {
        let keys = vec![CString::new(key).unwrap()];
        bench.ask_as(BOBS, Request::Query { queries: vec![Query { keys, qualifiers }] });
        if let Some((_, Upcall::Query { queries, .. })) = bench.upcalls.last() {
            assert_eq!(Info::find(&queries[0].qualifiers, keys::USERID), Some(&Value::Uint32(BOB)));
            bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
        }
        let position = bench.sent.iter().position(|(to, tag, _)| (*to, *tag) == (BOBS, 101)).unwrap();
        let bytes = bench.sent.remove(position).2;
        InfosReply::decode(PLAIN, Version::OURS, &bytes).unwrap()
    };
    let first = |reply: InfosReply| reply.infos.unwrap_or_default().into_iter().next().map(|info| info.value);
    assert_eq!(first(ask(&mut bench, keys::QUERY_NAMESPACES, vec![])), Some(Value::string("bobs")));
    let of_ann = || vec![Info::new(keys::NSPACE, Value::string("job"))];
    for key in [keys::QUERY_PROC_TABLE, keys::JOB_SIZE, keys::QUERY_JOB_STATUS, keys::QUERY_MEMORY_USAGE] {
        assert!(!ask(&mut bench, key, of_ann()).status.is_success(), "{key}");
    }
    assert_eq!(first(ask(&mut bench, keys::QUERY_PSET_NAMES, vec![])), Some(Value::string("both")));
    assert_eq!(first(ask(&mut bench, keys::QUERY_NUM_PSETS, vec![])), Some(Value::Size(1)));
    let group = Some(c"anns-team".into());
    bench.ask_as(ANNS, Request::GroupConstruct { group, procs: vec![proc(0)], infos: Vec::new() });
    assert_eq!(bench.engine.groups.len(), 1);
    assert_eq!(first(ask(&mut bench, keys::QUERY_NUM_GROUPS, vec![])), Some(Value::Size(0)));
    let of_team = vec![Info::new(keys::GROUP_ID, Value::string("anns-team"))];
    assert!(!ask(&mut bench, keys::QUERY_GROUP_MEMBERSHIP, of_team).status.is_success());
    let both = vec![Info::new(keys::PSET_NAME, Value::string("both"))];
    assert_eq!(first(ask(&mut bench, keys::QUERY_PSET_MEMBERSHIP, both)), Some(Value::procs([of_bob(0)])));
}

#[test]
fn connected_processes_read_each_others_jobs() {
    let mut bench = Bench::of_two();
    let procs = vec![proc(0), of_bob(0)];
    for id in [ANNS, BOBS] {
        bench.ask_as(id, Request::Connect { procs: procs.clone(), infos: Vec::new(), extra: Vec::new() });
    }
    bench.sent.clear();
    bench.ask_as(BOBS, size_of(nspace()));
    assert_eq!(bench.told(BOBS), Some(Status::SUCCESS));
    bench.ask_as(BOBS, Request::JobControl { targets: vec![proc(0)], directives: Vec::new() });
    assert_eq!(bench.told(BOBS), Some(Status::ERR_NO_PERMISSIONS), "to read is not to control");
}

#[test]
fn a_group_with_dead_members_gives_no_access_to_their_data() {
    let mut bench = Bench::of_two();
    bench.engine.disconnected(ANNS, bench.now);
    bench.drain();
    let group = Some(c"ghosts".into());
    let infos = vec![Info::new(keys::GROUP_FT_COLLECTIVE, Value::Bool(true))];
    bench.ask_as(BOBS, Request::GroupConstruct { group, procs: vec![proc(0), of_bob(0)], infos });
    assert_eq!(bench.told(BOBS), Some(Status::SUCCESS));
    bench.ask_as(BOBS, size_of(nspace()));
    assert_eq!(bench.told(BOBS), Some(Status::ERR_NO_PERMISSIONS));
}

#[test]
fn an_optional_connect_with_dead_processes_tells_nothing_of_their_job() {
    let mut bench = Bench::of_two();
    let procs = vec![proc(0), of_bob(0)];
    let connect = |key: &'static str| {
        let infos = vec![Info::new(key, Value::Bool(true))];
        Request::Connect { procs: procs.clone(), infos, extra: Vec::new() }
    };
    bench.ask_as(BOBS, connect(keys::CONNECT_NOTIFY_REQ));
    assert_eq!(bench.told(BOBS), Some(Status::ERR_NO_PERMISSIONS), "nor are processes of others asked");
    bench.ask_as(BOBS, connect(keys::CONNECT_OPTIONAL));
    bench.sent.clear();
    bench.engine.disconnected(ANNS, bench.now);
    bench.drain();
    let (_, _, bytes) = bench.sent.iter().find(|(to, ..)| *to == BOBS).expect("the reply");
    let reply = ConnectReply::decode(PLAIN, Version::OURS, bytes).unwrap();
    assert_eq!((reply.status, reply.jobs.len()), (Status::SUCCESS, 0));
    bench.sent.clear();
    bench.ask_as(BOBS, size_of(nspace()));
    assert_eq!(bench.told(BOBS), Some(Status::ERR_NO_PERMISSIONS));
}

#[test]
fn the_host_gets_ids_from_the_kernel_or_its_own_registration() {
    let mut bench = Bench::of_two();
    let user = |infos: &[Info]| {
        let number = |key| Info::find(infos, key).and_then(Value::as_u32);
        assert!(infos.iter().filter(|info| info.key.is(keys::GRPID)).count() <= 1);
        (number(keys::USERID), number(keys::GRPID))
    };
    // A claimed group is nothing: the registered one counts over TCP, the kernel's over the Unix socket.
    assert_eq!(bench.register_client(&proc(1), ANN, ANN + 10, 7), Status::SUCCESS);
    let Upcall::ClientConnected { infos, .. } = bench.let_in(PeerId(101), proc(1), ANN) else { panic!() };
    assert_eq!(user(&infos), (Some(ANN), Some(ANN + 10)));
    let secret = bench.engine.nspaces[&nspace()].clients[&Rank(1)].secret.text().as_bytes().to_vec();
    let hello = Hello { psec: crate::SECURITY_NAME.into(), credential: secret, proc: Some(proc(1)), ..Bench::hello(1) };
    bench.engine.hello(PeerId(102), Transport::Unix { uid: ANN, gid: 77, pid: 1 }, hello);
    bench.drain();
    let Upcall::ClientConnected { infos, .. } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else { panic!() };
    assert_eq!(user(&infos), (Some(ANN), Some(77)));
    bench.ask_as(PeerId(102), Request::Publish { uid: 0, infos: vec![Info::new(keys::GRPID, Value::Uint32(0))] });
    let Some((_, Upcall::Publish { infos, .. })) = bench.upcalls.pop() else { panic!() };
    assert_eq!(user(&infos), (Some(ANN), Some(77)));
    // The host may not have named a group of a tool's user.
    bench.engine.config.foreign_tools = true;
    for (uid, gid) in [(ANN, Some(ANN + 10)), (HOST, Some(1000)), (3000, None)] {
        let (hello, transport) = tool(uid);
        bench.engine.hello(
            TOOL,
            transport,
            Hello { credential: Hello::native_credential(uid, 0), uid_gid: Some((uid, 0)), ..hello },
        );
        bench.drain();
        let Some((_, Upcall::ToolConnected { infos })) = bench.upcalls.pop() else { panic!() };
        assert_eq!(user(&infos), (Some(uid), gid));
        bench.engine.disconnected(TOOL, bench.now);
    }
}

/// Only the Get that follows shows whether the host must be asked.
#[test]
fn a_refresh_of_another_users_job_tells_nothing() {
    let mut bench = Bench::of_two();
    bench.put(0, 3, "key", 7);
    for (id, expected) in [(ANNS, Status::SUCCESS), (BOBS, Status::ERR_NOT_FOUND)] {
        bench.ask_as(id, Request::RefreshCache { nspace: proc(0).nspace, rank: Rank(0) });
        assert_eq!(bench.told(id), Some(expected));
    }
    assert!(bench.upcalls.is_empty());
}

#[test]
fn resource_usage_of_other_users_is_hidden() {
    let mut bench = Bench::of_two();
    // This process's number, which is neither Ann's nor Bob's.
    for id in [ANNS, BOBS] {
        bench.engine.peers.get_mut(&id).unwrap().pid = Some(std::process::id() as i32);
    }
    let monitor = || Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, Value::infos([]));
    let read = |directives: &[Info]| Statistics::read(&monitor(), directives).unwrap().unwrap();
    let targets = |bench: &Bench, id, wanted: &Statistics| {
        bench.engine.targets(id, wanted).into_iter().map(|target| (target.proc, target.uid)).collect::<Vec<_>>()
    };
    assert_eq!(targets(&bench, ANNS, &read(&[])), [(proc(0), ANN)]);
    let hostname = Some(std::ffi::CString::new(NODES[0]).unwrap());
    let all = Value::NodePid { hostname, nodeid: u32::MAX, pid: -1 };
    let all = Value::DataArray(Box::new(DataArray { ty: DataType::NODE_PID, items: vec![all] }));
    assert_eq!(targets(&bench, BOBS, &read(&[Info::new(keys::MONITOR_TARGET_PIDS, all)])), [(of_bob(0), BOB)]);
    bench.tool_of(TOOL, ROOT);
    assert_eq!(targets(&bench, TOOL, &read(&[])).len(), 2, "root sees all");
    for (named, status) in [(of_bob(0), Status::ERR_NO_PERMISSIONS), (proc(0), Status::SUCCESS)] {
        let directives = vec![Info::new(keys::MONITOR_TARGET_PROCS, Value::procs([named]))];
        bench.ask_as(ANNS, Request::Monitor { monitor: monitor(), status: Status::SUCCESS, directives });
        if status == Status::SUCCESS {
            bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
        }
        assert_eq!(bench.told(ANNS), Some(status), "the host is not asked for Bob's");
    }
    assert_eq!(bench.upcalls.len(), 0);
}

/// A name that no job has yet.
fn next(rank: u32) -> Proc {
    Proc::new(named("next"), Rank(rank))
}

impl Bench {
    /// Bob's tool takes the name.
    fn take_name(&mut self, id: PeerId, rank: u32, answer: UpcallResult) -> bool {
        let is_in = self.knock(id, named_tool(BOB, PeerKind::ToolWithId, next(rank)), answer).is_some();
        self.drain();
        is_in
    }
}

fn let_in() -> UpcallResult {
    UpcallResult::Name(Status::SUCCESS, None)
}

/// Bob's tools that have the name of the job that the host registers for Ann.
#[test]
fn the_name_of_a_job_that_tools_have_taken_is_the_jobs() {
    let unasked = || UpcallResult::Op(Status::ERR_NOT_SUPPORTED);
    let of_ann = Info::new(keys::USERID, Value::Uint32(ANN));
    for (answer, infos) in [
        (let_in as fn() -> UpcallResult, vec![of_ann.clone()]),
        (let_in, Vec::new()),
        (unasked, vec![of_ann]),
        (unasked, Vec::new()),
    ] {
        let mut bench = Bench::of_two();
        assert!(bench.take_name(TOOL, 0, answer()) && bench.take_name(PeerId(301), 1, answer()));
        let is_kept = infos.is_empty() && matches!(answer(), UpcallResult::Name(..));
        assert_eq!(bench.engine.register_nspace(plan(&next(0).nspace, &infos)), Status::SUCCESS);
        bench.drain();
        assert_eq!(bench.closed.contains(&TOOL), !is_kept);
        if is_kept {
            let bob = User { uid: BOB, gid: None };
            let reach = bench.engine.reach(&next(0), bob, &next(0).nspace);
            assert_eq!(reach, Reach::HostSays, "no registration says that it is his");
        }
        assert_eq!(bench.register_client(&next(0), ANN, ANN + 10, 7), Status::SUCCESS);
        bench.drain();
        assert!(bench.closed.contains(&TOOL) && bench.closed.contains(&PeerId(301)), "{:?}", bench.closed);
        let state = &bench.engine.nspaces[&next(0).nspace];
        assert_eq!((state.users.iter().collect::<Vec<_>>(), state.clients.len()), (vec![&ANN], 1));
        assert!(!state.clients[&Rank(0)].has_connected && state.clients[&Rank(0)].connections.is_empty());
        // The host gets no report that Ann's rank is lost.
        bench.engine.disconnected(TOOL, bench.now);
        bench.drain();
        assert!(bench.upcalls.is_empty(), "{:?}", bench.upcalls);
        assert!(!bench.take_name(PeerId(302), 0, let_in()), "nor later");
        bench.let_in(PeerId(400), next(0), ANN);
        assert!(!bench.closed.contains(&PeerId(400)));
    }
}

/// Until the host registers a client, the job may belong to the tool's user. The tool's puts are not values of the job, and the tool
/// reads only values that the host allows.
#[test]
fn a_job_without_a_user_has_nothing_of_a_guest() {
    for leaves in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
        bench.tool_of(PeerId(303), BOB);
        assert!(bench.take_name(TOOL, 0, let_in()));
        assert_eq!(bench.engine.register_nspace(plan(&next(0).nspace, &[])), Status::SUCCESS);
        bench.drain();
        assert!(!bench.closed.contains(&TOOL), "the host may mean it");
        let state = &bench.engine.nspaces[&next(0).nspace];
        assert!(state.ledger.directory().is_none(), "the directory is that of a client's user");
        let kval = Kval { key: "key".into(), value: Value::Uint32(1) };
        bench.ask_as(TOOL, Request::Commit { parts: vec![(3, vec![kval])] });
        assert_eq!(bench.told(TOOL), Some(Status::SUCCESS));
        bench.ask_as(TOOL, Request::JobInfo);
        let position = bench.sent.iter().position(|(to, tag, _)| (*to, *tag) == (TOOL, 101)).expect("an answer");
        let job = jobinfo::decode(PLAIN, &bench.sent.remove(position).2).unwrap();
        assert_eq!(job.job.get(keys::JOB_SIZE.as_bytes()), None, "its user may not read it");
        if leaves {
            bench.engine.disconnected(TOOL, bench.now);
            bench.drain();
            assert!(bench.engine.nspaces[&next(0).nspace].clients.is_empty());
        }
        assert_eq!(bench.register_client(&next(0), ANN, ANN + 10, 7), Status::SUCCESS);
        bench.drain();
        let state = &bench.engine.nspaces[&next(0).nspace];
        assert!(
            !state.visible.has_rank(Rank(0)) && !state.remote.has_rank(Rank(0)) && !state.clients[&Rank(0)].committed
        );
        assert!(state.ledger.directory().is_some());
        bench.let_in(PeerId(400), next(0), ANN);
        bench.ask_as(PeerId(400), value_of(next(0).nspace, vec![Info::new(keys::OPTIONAL, Value::Bool(true))]));
        assert_eq!(bench.told(PeerId(400)), Some(Status::ERR_NOT_FOUND));
        bench.ask_as(PeerId(400), Request::JobInfo);
        let position = bench.sent.iter().position(|(to, tag, _)| (*to, *tag) == (PeerId(400), 101)).expect("an answer");
        let job = jobinfo::decode(PLAIN, &bench.sent.remove(position).2).unwrap();
        assert_eq!(job.job.get(keys::JOB_SIZE.as_bytes()), Some(&Value::Uint32(2)));
    }
}

/// A host registers a client first, without its job.
#[test]
fn a_client_has_its_name_for_itself() {
    let mut bench = Bench::of_two();
    assert!(bench.take_name(TOOL, 0, let_in()));
    assert_eq!(bench.register_client(&next(0), ANN, ANN + 10, 7), Status::SUCCESS);
    bench.drain();
    assert!(bench.closed.contains(&TOOL));
    assert!(!bench.engine.nspaces[&next(0).nspace].users.contains(&BOB));
}

/// The host registers the job while the upcall about the tool is pending.
#[test]
fn a_name_is_looked_at_again_when_the_host_has_answered() {
    for is_client in [false, true] {
        let mut bench = Bench::of_two();
        let (hello, transport) = named_tool(BOB, PeerKind::ToolWithId, next(0));
        bench.engine.hello(TOOL, transport, hello);
        bench.drain();
        let of_ann = Info::new(keys::USERID, Value::Uint32(ANN));
        let infos = if is_client { Vec::new() } else { vec![of_ann] };
        bench.engine.register_nspace(plan(&next(0).nspace, &infos));
        if is_client {
            bench.register_client(&next(0), ANN, ANN + 10, 7);
        }
        bench.drain();
        bench.answer_last(let_in());
        assert!(bench.closed.contains(&TOOL), "{:?}", bench.log);
    }
}

/// The order of hosts that make a job of a tool that they let in.
#[test]
fn a_host_may_register_the_tool_itself_before_or_after_its_answer() {
    for is_before in [false, true] {
        for is_named_by_host in [false, true] {
            let mut bench = Bench::of_two();
            let register = |bench: &mut Bench| {
                assert_eq!(bench.engine.register_nspace(plan(&next(0).nspace, &[])), Status::SUCCESS);
                bench.drain();
            };
            let (mut hello, transport) = named_tool(BOB, PeerKind::ToolWithId, next(0));
            if is_named_by_host {
                (hello.proc, hello.flag) = (None, PeerKind::Tool as u8);
            }
            bench.engine.hello(TOOL, transport, hello);
            bench.drain();
            if is_before {
                register(&mut bench);
            }
            bench.answer_last(UpcallResult::Name(Status::SUCCESS, Some(next(0))));
            if !is_before {
                register(&mut bench);
            }
            assert_eq!(bench.register_client(&next(0), BOB, BOB + 10, 7), Status::SUCCESS);
            bench.drain();
            assert!(!bench.closed.contains(&TOOL), "{:?}", bench.log);
            let bob = User { uid: BOB, gid: None };
            assert_eq!(bench.engine.reach(&next(0), bob, &next(0).nspace), Reach::All);
        }
    }
}
