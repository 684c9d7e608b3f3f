//! Queries, and the resolving of peers and nodes, which is one.

use std::ffi::CStr;

use pmix_wire::reply::{NodesReply, PeersReply};

use super::*;

fn text(key: &'static str, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

fn number(key: &'static str, number: u32) -> Info {
    Info::new(key, Value::Uint32(number))
}

fn none() -> UpcallResult {
    UpcallResult::Op(Status::ERR_NOT_SUPPORTED)
}

fn procs(ranks: &[u32]) -> Value {
    Value::procs(ranks.iter().map(|rank| proc(*rank)))
}

impl Bench {
    /// The value that answers a query which the host does not answer.
    fn known(&mut self, key: &str, qualifiers: Vec<Info>) -> Result<Value, Status> {
        let (status, infos) = self.asked(key, qualifiers, none());
        let info = infos.into_iter().next();
        status.ok().map(|()| info.filter(|info| info.key.is(key)).expect("an answer with this key").value)
    }

    /// Another job with its only process on the second node.
    fn add_other(&mut self) {
        let infos = [text(keys::NODE_MAP, NODES[1]), text(keys::PROC_MAP, "0")];
        let other = Nspace::new("other").unwrap();
        self.engine.register_nspace(JobPlan::read(&other, 0, &infos, None, NODES[0]).unwrap());
    }

    fn resolve(&mut self, request: Request) {
        self.request(0, 70, request);
    }

    fn peers(&mut self) -> Option<(Status, Vec<Proc>)> {
        let reply = PeersReply::decode(PLAIN, Version::OURS, &self.reply(0, 70)?).unwrap();
        Some((reply.status, reply.procs.unwrap_or_default()))
    }

    fn nodes(&mut self) -> Option<(Status, Option<CString>)> {
        let reply = NodesReply::decode(PLAIN, Version::OURS, &self.reply(0, 70)?).unwrap();
        Some((reply.status, reply.nodes))
    }
}

fn peers_of(node: Option<&CStr>, nspace: Option<&str>) -> Request {
    Request::ResolvePeers { node: node.map(Into::into), nspace: nspace.map(|name| Nspace::new(name).unwrap()) }
}

fn nodes_of(nspace: Option<&str>) -> Request {
    Request::ResolveNodes { nspace: nspace.map(|name| Nspace::new(name).unwrap()) }
}

#[test]
fn local_procs_of_several_nodes_are_united() {
    let mut bench = Bench::new(0, 2, 2);
    bench.add_other();
    let ids = |ids: &[u32]| ids.iter().map(|id| number(keys::NODEID, *id)).collect::<Vec<_>>();
    let job = || text(keys::NSPACE, "job");
    let with_job = |more: Vec<Info>| more.into_iter().chain([job()]).collect::<Vec<_>>();
    assert_eq!(bench.known(keys::LOCAL_PROCS, with_job(ids(&[1]))), Ok(procs(&[2, 3])));
    assert_eq!(bench.known(keys::LOCAL_PROCS, with_job(ids(&[0, 1, 0]))), Ok(procs(&[0, 1, 2, 3])));
    assert_eq!(bench.known(keys::LOCAL_PROCS, with_job(vec![])), Ok(procs(&[0, 1])), "this node");
    let by_name = vec![text(keys::HOSTNAME, NODES[1])];
    let of_all = [proc(2), proc(3), Proc::new(Nspace::new("other").unwrap(), Rank(0))];
    assert_eq!(bench.known(keys::LOCAL_PROCS, by_name), Ok(Value::procs(of_all)), "of all jobs");
    assert_eq!(bench.known(keys::LOCAL_PEERS, ids(&[0, 1])), Ok(Value::string("0,1,2,3")));
    assert_eq!(bench.known(keys::LOCAL_PEERS, ids(&[1])), Ok(Value::string("2,3")));
    // Values of one node have no union over several.
    assert_eq!(bench.known(keys::LOCAL_SIZE, ids(&[0, 1])), Err(Status::ERR_NOT_SUPPORTED));
    // The same by a Get, of this node.
    bench.get(0, 71, Rank::WILDCARD.0, keys::LOCAL_PROCS, Vec::new());
    let reply = GetReply::decode(PLAIN, Version::OURS, &bench.reply(0, 71).unwrap()).unwrap();
    assert_eq!(reply.objects[0].1[0].value, procs(&[0, 1]));
}

#[test]
fn the_process_table_has_executables_and_states() {
    let mut bench = Bench::without_clients(0, 1, 5);
    let argv = text(keys::APP_ARGV, "./program --fast");
    let told = |infos: Vec<Info>| Info::new(keys::PROC_INFO_ARRAY, Value::infos(infos));
    let of_rank = |rank| Info::new(keys::RANK, Value::Rank(Rank(rank)));
    let stopped = vec![of_rank(4), number(keys::EXIT_CODE, 3), number(keys::PROC_STATE_STATUS, 62)];
    let infos = [Info::new(keys::APP_INFO_ARRAY, Value::infos([number(keys::APPNUM, 0), argv])), told(stopped)];
    let plan = JobPlan::read(&nspace(), 5, &infos, bench.engine.job(&nspace()), NODES[0]).unwrap();
    bench.engine.register_nspace(plan);
    for rank in 0..4 {
        assert_eq!(bench.register_client(&proc(rank), 1000, 1000, 7), Status::SUCCESS);
    }
    (0..3).for_each(|rank| bench.connect(rank));
    bench.request(1, 10, Request::Finalize);
    bench.lose(1);
    bench.lose(2);
    bench.upcalls.clear();
    let Ok(Value::DataArray(table)) = bench.known(keys::QUERY_PROC_TABLE, Vec::new()) else { panic!() };
    let states: Vec<_> = table
        .items
        .iter()
        .map(|item| match item {
            Value::ProcInfo(info) => {
                assert_eq!(info.executable.as_deref(), Some(c"./program"));
                info.state
            }
            other => panic!("{other:?}"),
        })
        .collect();
    // Connected, ended, lost, not connected yet; and the state that the host reported.
    assert_eq!(states, [6, 20, 55, 1, 62]);
    // Only the host's own process gets the exit code: no release packs it.
    let own = bench.engine.known_of(
        &CString::new(keys::QUERY_PROC_TABLE).unwrap(),
        &[text(keys::NSPACE, "job")],
        &bench.engine.peers[&PeerId::OWN].actor(),
    );
    let Value::DataArray(table) = own.unwrap().value else { panic!() };
    assert!(matches!(&table.items[4], Value::ProcInfo(info) if info.exit_code == 3), "{table:?}");
}

#[test]
fn the_local_process_table_is_of_this_node() {
    let mut bench = Bench::new(0, 2, 2);
    let Ok(Value::DataArray(table)) = bench.known(keys::QUERY_LOCAL_PROC_TABLE, Vec::new()) else { panic!() };
    let named = |item: &Value| match item {
        Value::ProcInfo(info) => (info.proc.clone(), info.hostname.clone(), info.state),
        other => panic!("{other:?}"),
    };
    let expected = [0, 1].map(|rank| (proc(rank), Some(CString::from(c"nodeA")), 6));
    assert_eq!(table.items.iter().map(named).collect::<Vec<_>>(), expected);
}

#[test]
fn queries_about_the_server_itself() {
    let mut bench = Bench::new(0, 2, 2);
    let spawn = CString::new("PMIx_Spawn").unwrap();
    let registered =
        Regattr { name: None, key: "pmix.dbg.of.host".into(), ty: DataType::BOOL, description: Vec::new() };
    bench.engine.register_attributes(spawn, vec![registered]);
    for (key, expected) in [
        (keys::QUERY_SPAWN_SUPPORT, keys::FWD_STDOUT),
        (keys::QUERY_SPAWN_SUPPORT, "pmix.dbg.of.host"),
        (keys::QUERY_DEBUG_SUPPORT, "pmix.dbg.of.host"),
    ] {
        let told = bench.known(key, Vec::new()).unwrap();
        let list = String::from_utf8(told.as_text().unwrap().to_vec()).unwrap();
        assert!(list.split(',').any(|name| name == expected), "{key}: {list}");
    }
    assert_eq!(bench.known(keys::QUERY_NUM_PSETS, Vec::new()), Ok(Value::Size(0)));
    let servers = bench.known(keys::QUERY_AVAIL_SERVERS, Vec::new()).unwrap();
    let server: Vec<&Info> = servers.iter_infos().flat_map(|info| info.value.iter_infos()).collect();
    let says = |key: &str| server.iter().find(|info| info.key.is(key)).map(|info| info.value.clone());
    assert_eq!(says(keys::SERVER_NSPACE), Some(Value::string("server")));
    assert_eq!(says(keys::SERVER_RANK), Some(Value::Rank(Rank(0))));
    // A process as qualifier includes the job and the rank.
    let process = vec![Info::new(keys::PROCID, Value::Proc(proc(3)))];
    assert_eq!(bench.known(keys::HOSTNAME, process), Ok(Value::string("nodeB")));
}

#[test]
fn a_namespace_that_is_not_known_is_said_to_be_none() {
    let mut bench = Bench::new(0, 2, 2);
    let nowhere = || vec![text(keys::NSPACE, "nowhere")];
    for key in [keys::JOB_SIZE, keys::QUERY_PROC_TABLE, keys::LOCAL_PROCS, keys::QUERY_RESOLVE_NODE] {
        assert_eq!(bench.known(key, nowhere()), Err(Status::ERR_INVALID_NAMESPACE), "{key}");
    }
    let of_process = vec![Info::new(keys::PROCID, Value::Proc(Proc::new(Nspace::new("nowhere").unwrap(), Rank(0))))];
    assert_eq!(bench.known(keys::HOSTNAME, of_process), Err(Status::ERR_INVALID_NAMESPACE));
    // Together with a query that can be answered.
    let queries = [nowhere(), Vec::new()].map(|qualifiers| {
        let keys = vec![CString::new(keys::JOB_SIZE).unwrap()];
        Query { keys, qualifiers }
    });
    bench.request(0, 61, Request::Query { queries: queries.to_vec() });
    bench.answer_last(none());
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 61).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos.map(|infos| infos.len())), (Status::QUERY_PARTIAL_SUCCESS, Some(1)));
}

#[test]
fn the_host_resolves_peers_and_nodes_where_it_can() {
    let mut bench = Bench::new(0, 2, 2);
    bench.resolve(peers_of(Some(c"nodeB"), Some("far")));
    let far = vec![Proc::new(Nspace::new("far").unwrap(), Rank(7))];
    let said = vec![Info::new(keys::QUERY_RESOLVE_PEERS, Value::procs(far.clone()))];
    let Upcall::Query { proc: asker, queries } = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, said)) else {
        panic!()
    };
    assert_eq!((asker, queries[0].keys[0].to_str()), (proc(0), Ok(keys::QUERY_RESOLVE_PEERS)));
    let says = |key| Info::find(&queries[0].qualifiers, key).cloned();
    assert_eq!(says(keys::NSPACE), Some(Value::string("far")));
    assert_eq!(says(keys::HOSTNAME), Some(Value::string("nodeB")));
    assert_eq!(bench.peers(), Some((Status::SUCCESS, far)));
    bench.resolve(nodes_of(Some("far")));
    let said = vec![text(keys::QUERY_RESOLVE_NODE, "n1,n2")];
    bench.answer_last(UpcallResult::Infos(Status::OPERATION_SUCCEEDED, said));
    assert_eq!(bench.nodes(), Some((Status::SUCCESS, Some(c"n1,n2".into()))));
    // It knows of no nodes; it says something else.
    bench.resolve(nodes_of(Some("far")));
    bench.answer_last(UpcallResult::Infos(
        Status::SUCCESS,
        vec![Info::new(keys::QUERY_RESOLVE_NODE, Value::String(None))],
    ));
    assert_eq!(bench.nodes(), Some((Status::SUCCESS, None)));
    bench.resolve(nodes_of(Some("job")));
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, vec![text("pmix.nobody", "n9")]));
    assert_eq!(bench.nodes(), Some((Status::SUCCESS, Some(c"nodeA,nodeB".into()))));
    // The host's status is the answer for keys that are unknown here.
    bench.resolve(peers_of(None, Some("far")));
    bench.answer_last(UpcallResult::Op(Status::ERR_UNREACH));
    assert_eq!(bench.peers(), Some((Status::ERR_INVALID_NAMESPACE, vec![])));
}

#[test]
fn the_server_resolves_if_the_host_does_not() {
    let mut bench = Bench::new(0, 2, 2);
    bench.add_other();
    let bare = Nspace::new("bare").unwrap();
    bench.engine.register_nspace(JobPlan::read(&bare, 0, &[number(keys::UNIV_SIZE, 4)], None, NODES[0]).unwrap());
    let peers = |ranks: &[u32]| ranks.iter().map(|rank| proc(*rank)).collect::<Vec<_>>();
    let other = Proc::new(Nspace::new("other").unwrap(), Rank(0));
    for (request, expected) in [
        (peers_of(Some(c"nodeB"), Some("job")), Ok(peers(&[2, 3]))),
        (peers_of(None, Some("job")), Ok(peers(&[0, 1]))),
        (peers_of(Some(c"elsewhere"), Some("job")), Ok(vec![])),
        (peers_of(Some(c"nodeA"), Some("bare")), Ok(vec![])),
        (peers_of(Some(c"nodeB"), None), Ok([peers(&[2, 3]), vec![other]].concat())),
        (peers_of(Some(c"nodeA"), Some("nowhere")), Err(Status::ERR_INVALID_NAMESPACE)),
    ] {
        bench.resolve(request);
        bench.answer_last(none());
        let (status, procs) = bench.peers().unwrap();
        assert_eq!(status.ok().map(|()| procs), expected);
    }
    for (nspace, expected) in [
        (Some("other"), Ok(Some(c"nodeB"))),
        (Some("bare"), Ok(None)),
        (None, Ok(Some(c"nodeA,nodeB"))),
        (Some("nowhere"), Err(Status::ERR_INVALID_NAMESPACE)),
    ] {
        bench.resolve(nodes_of(nspace));
        bench.answer_last(none());
        let (status, nodes) = bench.nodes().unwrap();
        assert_eq!(status.ok().map(|()| nodes), expected.map(|nodes| nodes.map(CString::from)), "{nspace:?}");
    }
}

#[test]
fn a_silent_host_blocks_no_client() {
    let mut bench = Bench::new(0, 2, 2);
    bench.resolve(peers_of(Some(c"nodeB"), Some("job")));
    bench.request(1, 70, nodes_of(Some("nowhere")));
    assert_eq!(bench.peers(), None);
    assert!(bench.engine.deadline().is_some());
    bench.pass(Duration::from_secs(11));
    assert_eq!(bench.peers(), Some((Status::SUCCESS, vec![proc(2), proc(3)])));
    let reply = NodesReply::decode(PLAIN, Version::OURS, &bench.reply(1, 70).unwrap()).unwrap();
    assert_eq!(reply.status, Status::ERR_INVALID_NAMESPACE);
    // The host's own process is answered at once: it may be the thread on which the host would answer.
    bench.enter_as(PeerId::OWN, 70, &peers_of(Some(c"nodeB"), Some("job")));
    assert!(bench.sent.iter().any(|(to, tag, _)| (*to, *tag) == (PeerId::OWN, 70)));
}

/// A required directive that neither library nor host supports.
fn unknown() -> Info {
    Info { flags: InfoFlags::REQUIRED, ..Info::new("pmix.nobody", Value::Bool(true)) }
}

#[test]
fn unknown_required_attributes_are_refused() {
    let mut bench = Bench::new(0, 2, 2);
    let here = vec![proc(0), proc(1)];
    let fence = |procs: &[Proc]| Request::Fence { procs: procs.to_vec(), infos: vec![unknown()] };
    let get = || Request::Get { nspace: nspace(), rank: Rank(1), infos: vec![unknown()], key: Some("key".into()) };
    for request in [
        fence(&here),
        Request::Connect { procs: here.clone(), infos: vec![unknown()], extra: Vec::new() },
        Request::GroupConstruct { group: Some(c"team".into()), procs: here.clone(), infos: vec![unknown()] },
        get(),
    ] {
        let word = format!("{request:?}");
        bench.request(0, 61, request);
        assert_eq!(bench.status(0, 61), Some(Status::ERR_NOT_SUPPORTED), "{word}");
    }
    assert_eq!(bench.known(keys::JOB_SIZE, vec![unknown()]), Err(Status::ERR_NOT_SUPPORTED));
    assert!(bench.upcalls.is_empty());
    // The host itself refuses directives of requests that it gets.
    bench.request(0, 61, fence(&everybody()));
    bench.request(1, 61, fence(&everybody()));
    let Upcall::Fence { infos, .. } = bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED)) else { panic!() };
    assert!(infos.iter().any(|info| info.key.is("pmix.nobody") && info.flags == InfoFlags::REQUIRED));
    assert_eq!(bench.status(0, 61), Some(Status::ERR_NOT_SUPPORTED));
    // The host has declared that it supports this key.
    let known = Regattr { name: None, key: "pmix.nobody".into(), ty: DataType::BOOL, description: Vec::new() };
    bench.engine.register_attributes(CString::new("PMIx_Fence").unwrap(), vec![known]);
    bench.request(0, 62, fence(&here));
    bench.request(1, 62, fence(&here));
    assert_eq!(bench.status(0, 62), Some(Status::SUCCESS));
}

#[test]
fn a_jobs_status_follows_its_processes_here() {
    let mut bench = Bench::without_clients(0, 2, 2);
    let of = |nspace: &str| vec![text(keys::NSPACE, nspace)];
    bench.add_other();
    assert_eq!(bench.register_client(&proc(0), 1000, 1000, 7), Status::SUCCESS);
    assert_eq!(bench.register_client(&proc(1), 1000, 1000, 7), Status::SUCCESS);
    bench.connect(0);
    let status = |bench: &mut Bench, nspace| bench.known(keys::QUERY_JOB_STATUS, of(nspace));
    let is = |status| Ok(Value::Status(status));
    assert_eq!(status(&mut bench, "job"), is(Status::OPERATION_IN_PROGRESS), "one has not connected yet");
    assert_eq!(status(&mut bench, "other"), Err(Status::ERR_NOT_SUPPORTED), "it has no process here");
    assert_eq!(status(&mut bench, "nowhere"), Err(Status::ERR_INVALID_NAMESPACE));
    bench.connect(1);
    bench.request(1, 10, Request::Finalize);
    bench.lose(1);
    assert_eq!(status(&mut bench, "job"), is(Status::OPERATION_IN_PROGRESS));
    let at_end = |bench: &Bench| {
        let own = bench.engine.peers[&PeerId::OWN].actor();
        bench.engine.known_of(&CString::new(keys::QUERY_JOB_STATUS).unwrap(), &of("job"), &own).map(|info| info.value)
    };
    let mut lost = bench;
    lost.lose(0);
    assert_eq!(at_end(&lost), is(Status::ERR_JOB_TERM_WO_SYNC));
    let mut bench = Bench::new(0, 1, 1);
    bench.request(0, 10, Request::Finalize);
    bench.lose(0);
    assert_eq!(at_end(&bench), is(Status::SUCCESS));
}

#[test]
fn memory_is_of_the_server_and_the_processes_that_the_asker_sees() {
    let mut bench = Bench::new(0, 1, 2);
    for rank in 0..2 {
        let peer = bench.engine.peers.get_mut(&peer(rank)).unwrap();
        peer.pid = Some(std::process::id() as i32);
        peer.user.uid = nix::unistd::geteuid().as_raw();
    }
    let told = |bench: &mut Bench, qualifiers| {
        let value = bench.known(keys::QUERY_MEMORY_USAGE, qualifiers).unwrap();
        let keys: Vec<String> = value.iter_infos().map(|info| info.key.to_string()).collect();
        (value, keys)
    };
    let (value, keys_of_all) = told(&mut bench, Vec::new());
    let usage = keys::PROC_RESOURCE_USAGE;
    let node = [keys::HOSTNAME, keys::DAEMON_MEMORY, keys::CLIENT_AVG_MEMORY];
    assert_eq!(keys_of_all, [&node[..], &[usage, usage]].concat());
    let number = |key: &str| match value.iter_infos().find(|info| info.key.is(key)).map(|info| &info.value) {
        Some(Value::Float(megabytes)) => *megabytes,
        other => panic!("{other:?}"),
    };
    // Each is this process.
    assert!(number(keys::DAEMON_MEMORY) > 0.5 && number(keys::CLIENT_AVG_MEMORY) > 0.5, "{value:?}");
    let process = value.iter_infos().last().unwrap().value.clone();
    let has = |key: &str| process.iter_infos().any(|info| info.key.is(key));
    assert!(has(keys::PROCID) && has(keys::PROC_RSS) && has(keys::PROC_VSIZE) && !has(keys::PROC_PERCENT_CPU));
    let average = vec![Info::new(keys::QUERY_REPORT_AVG, Value::Bool(true))];
    assert_eq!(told(&mut bench, average).1, node);
    // One process, without the server.
    let one = vec![Info::new(keys::PROCID, Value::Proc(proc(1)))];
    assert_eq!(told(&mut bench, one).1, [keys::HOSTNAME, keys::CLIENT_AVG_MEMORY, usage]);
    let nowhere = vec![text(keys::NSPACE, "nowhere")];
    assert_eq!(bench.known(keys::QUERY_MEMORY_USAGE, nowhere), Err(Status::ERR_INVALID_NAMESPACE));
}

#[test]
fn groups_of_this_node_are_told_with_their_members() {
    let mut bench = Bench::new(0, 1, 3);
    let count = |bench: &mut Bench| bench.known(keys::QUERY_NUM_GROUPS, Vec::new());
    assert_eq!(count(&mut bench), Ok(Value::Size(0)));
    let members = vec![proc(2), proc(0)];
    for rank in [0, 2] {
        let infos = Vec::new();
        bench.request(rank, 10, Request::GroupConstruct { group: Some(c"team".into()), procs: members.clone(), infos });
    }
    assert_eq!(count(&mut bench), Ok(Value::Size(1)));
    let names = DataArray { ty: DataType::STRING, items: vec![Value::string("team")] };
    assert_eq!(bench.known(keys::QUERY_GROUP_NAMES, Vec::new()), Ok(Value::DataArray(Box::new(names))));
    let membership =
        |bench: &mut Bench, name| bench.known(keys::QUERY_GROUP_MEMBERSHIP, vec![text(keys::GROUP_ID, name)]);
    assert_eq!(membership(&mut bench, "team"), Ok(Value::procs(members)));
    assert_eq!(membership(&mut bench, "others"), Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.known(keys::QUERY_GROUP_MEMBERSHIP, Vec::new()), Err(Status::ERR_BAD_PARAM));
}

/// The example of RFC0010: the processes on the nodes 5 and 7.
#[test]
fn the_processes_of_two_node_ids_are_told() {
    let mut bench = Bench::without_clients(0, 2, 2);
    let node = |name: &str, id| {
        Info::new(keys::NODE_INFO_ARRAY, Value::infos([text(keys::HOSTNAME, name), number(keys::NODEID, id)]))
    };
    let maps = [text(keys::NODE_MAP, "nodeA,nodeB,nodeC"), text(keys::PROC_MAP, "0,1;2;3,4")];
    let infos = maps.into_iter().chain([node("nodeA", 5), node("nodeB", 6), node("nodeC", 7)]).collect::<Vec<_>>();
    bench.engine.register_nspace(JobPlan::read(&nspace(), 5, &infos, None, NODES[0]).unwrap());
    assert_eq!(bench.register_client(&proc(0), 1000, 1000, 7), Status::SUCCESS);
    bench.connect(0);
    let ids = |ids: &[u32]| ids.iter().map(|id| number(keys::NODEID, *id)).collect::<Vec<_>>();
    assert_eq!(bench.known(keys::LOCAL_PROCS, ids(&[5, 7])), Ok(procs(&[0, 1, 3, 4])));
    assert_eq!(bench.known(keys::LOCAL_PROCS, ids(&[6])), Ok(procs(&[2])));
    assert_eq!(bench.known(keys::LOCAL_PROCS, ids(&[4])), Ok(procs(&[])), "there is no such node");
    assert_eq!(bench.known(keys::LOCAL_PEERS, ids(&[5, 7])), Ok(Value::string("0,1,3,4")));
}

/// A process's number is told without the host, if the process has connected; and a local table on request.
#[test]
fn the_process_table_has_the_numbers_of_connected_processes() {
    let mut bench = Bench::new(0, 2, 2);
    bench.engine.peers.get_mut(&peer(1)).unwrap().pid = Some(4711);
    let mut pids = |qualifiers| {
        let Ok(Value::DataArray(table)) = bench.known(keys::QUERY_PROC_TABLE, qualifiers) else { panic!() };
        let pid = |item: &Value| match item {
            Value::ProcInfo(info) => (info.proc.rank.0, info.pid),
            other => panic!("{other:?}"),
        };
        table.items.iter().map(pid).collect::<Vec<_>>()
    };
    assert_eq!(pids(Vec::new()), [(0, 0), (1, 4711), (2, 0), (3, 0)]);
    assert_eq!(pids(vec![Info::new(keys::QUERY_LOCAL_ONLY, Value::Bool(true))]), [(0, 0), (1, 4711)]);
}

#[test]
fn a_query_without_keys_ends_as_the_host_says() {
    let mut bench = Bench::new(0, 1, 2);
    for (tag, queries) in [(63, vec![Query { keys: Vec::new(), qualifiers: Vec::new() }]), (64, Vec::new())] {
        bench.request(0, tag, Request::Query { queries });
        bench.answer_last(UpcallResult::Op(Status::ERR_NO_PERMISSIONS));
        let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, tag).unwrap()).unwrap();
        assert_eq!(reply.status, Status::ERR_NO_PERMISSIONS);
    }
}

/// The host has registered them and told no size. They may be ranks, so that their number is no answer.
#[test]
fn clients_that_have_not_connected_are_not_counted_as_tools() {
    let mut bench = Bench::new(0, 1, 2);
    let later = Nspace::new("later").unwrap();
    bench.engine.register_nspace(JobPlan::read(&later, 2, &[], None, NODES[0]).unwrap());
    bench.engine.register_client(&Proc::new(later, Rank(0)), 1000, 1000, 0);
    let qualifiers = vec![Info::new(keys::NSPACE, Value::string("later"))];
    let queries = vec![Query { keys: vec![CString::new(keys::JOB_SIZE).unwrap()], qualifiers }];
    bench.request(0, 65, Request::Query { queries });
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 65).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos), (Status::ERR_NOT_SUPPORTED, Some(Vec::new())));
}

/// One key of two jobs, and the host answers for one: its answer does not say for which, so that it is asked again for each.
#[test]
fn a_key_of_two_jobs_has_the_answer_of_each() {
    let mut bench = Bench::new(0, 1, 2);
    bench.add_other();
    let of = |key: &str, job: &str| Query {
        keys: vec![CString::new(key).unwrap()],
        qualifiers: vec![Info::new(keys::NSPACE, Value::string(job))],
    };
    let queries = vec![
        of(keys::QUERY_NAMESPACES, "job"),
        of(keys::JOB_SIZE, "job"),
        of(keys::JOB_SIZE, "other"),
        of(keys::JOB_SIZE, "nowhere"),
    ];
    let names = || Info::new(keys::QUERY_NAMESPACES, Value::string("a,b"));
    let size = |size| Info::new(keys::JOB_SIZE, Value::Uint32(size));
    bench.request(0, 61, Request::Query { queries });
    let upcall = bench.answer_last(UpcallResult::Infos(Status::QUERY_PARTIAL_SUCCESS, vec![size(77), names()]));
    assert!(matches!(upcall, Upcall::Query { queries, .. } if queries.len() == 4));
    for (job, answer) in [
        ("job", UpcallResult::Op(Status::ERR_NOT_SUPPORTED)),
        ("other", UpcallResult::Infos(Status::SUCCESS, vec![size(77)])),
        ("nowhere", UpcallResult::Op(Status::ERR_NOT_FOUND)),
    ] {
        let Upcall::Query { queries, .. } = bench.answer_last(answer) else { panic!() };
        assert_eq!((queries.len(), queries[0].keys.len()), (1, 1));
        assert_eq!(Info::find(&queries[0].qualifiers, keys::NSPACE), Some(&Value::string(job)));
    }
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 61).unwrap()).unwrap();
    assert_eq!(reply.status, Status::QUERY_PARTIAL_SUCCESS);
    assert_eq!(reply.infos.unwrap(), [names(), size(2), size(77)], "in the order of the queries");
    // All of them: nothing has to be asked again.
    bench.request(0, 62, Request::Query { queries: vec![of(keys::JOB_SIZE, "job"), of(keys::JOB_SIZE, "other")] });
    bench.answer_last(UpcallResult::Infos(Status::QUERY_PARTIAL_SUCCESS, vec![size(2), size(77)]));
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 62).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos), (Status::SUCCESS, Some(vec![size(2), size(77)])));
}
