//! Registration in the forms that hosts use, read back by the rules of Get.

use std::ffi::CStr;

use super::JobData;
use crate::maps;
use crate::model::{DataType, Info, KeyRef, Nspace, Rank, Status, Value, keys};
use crate::realm_resolution::{self, Caller, Selector};

const HOST: &[u8] = b"n1";

fn job(infos: &[Info]) -> JobData {
    let mut job = JobData::new(Nspace::new("job").unwrap());
    job.register(infos, HOST).unwrap();
    job
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(key, value)
}

fn array(key: &'static str, infos: Vec<Info>) -> Info {
    Info::new(key, Value::infos(infos))
}

fn get(job: &JobData, rank: Rank, key: &str) -> Option<Value> {
    get_as(job, rank, key, &Selector::default(), 0)
}

fn get_as(job: &JobData, rank: Rank, key: &str, selector: &Selector<'_>, caller: u32) -> Option<Value> {
    let caller = Caller { rank: Some(Rank(caller)), hostname: HOST };
    realm_resolution::find(job, rank, &KeyRef::from(key), selector, &caller).map(|value| value.to_value().unwrap())
}

fn maps() -> [Info; 2] {
    [info(keys::NODE_MAP, Value::string("raw:n1,n2")), info(keys::PROC_MAP, Value::string("raw:0,2;1,3-4"))]
}

#[test]
fn maps_may_come_in_the_second_form() {
    let second = |key: &'static str, text: &CStr| {
        let (ty, bytes) = maps::generate_regex2(text).unwrap();
        info(key, Value::Regex2 { ty, bytes })
    };
    let registered = job(&[second(keys::NODE_MAP, c"n1,n2"), second(keys::PROC_MAP, c"0,2;1,3-4")]);
    assert_eq!(get(&registered, Rank::WILDCARD, keys::NODE_LIST), Some(Value::string("n1,n2")));
    assert_eq!(get(&registered, Rank(3), keys::HOSTNAME), Some(Value::string("n2")));
    let unknown = Value::Regex2 { ty: Some(c"zip".into()), bytes: vec![1] };
    assert_eq!(refused(&[info(keys::NODE_MAP, unknown)]), keys::NODE_MAP);
}

#[test]
fn maps_alone_tell_sizes_peers_and_places() {
    let job = job(&maps());
    let wild = Rank::WILDCARD;
    assert_eq!(get(&job, wild, keys::JOB_SIZE), Some(Value::Uint32(5)));
    assert_eq!(get(&job, wild, keys::NUM_NODES), Some(Value::Uint32(2)));
    assert_eq!(get(&job, wild, keys::NODE_LIST), Some(Value::string("n1,n2")));
    assert_eq!(get(&job, wild, keys::LOCAL_PEERS), Some(Value::string("0,2")));
    assert_eq!(get(&job, wild, keys::LOCAL_SIZE), Some(Value::Uint32(2)));
    assert_eq!(get(&job, wild, keys::LOCALLDR), Some(Value::Rank(Rank(0))));
    assert_eq!(get_as(&job, wild, keys::LOCAL_SIZE, &Selector::default(), 4), Some(Value::Uint32(3)));
    let n2 = Selector { hostname: Some(b"n2"), node: true, ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::LOCAL_PEERS, &n2, 0), Some(Value::string("1,3,4")));
    let second = Selector { nodeid: Some(1), ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::HOSTNAME, &second, 0), Some(Value::string("n2")));
    assert_eq!(get(&job, Rank(3), keys::HOSTNAME), Some(Value::string("n2")));
    assert_eq!(get(&job, Rank(3), keys::NODEID), Some(Value::Uint32(1)));
    assert_eq!(get(&job, Rank(3), keys::LOCAL_RANK), Some(Value::Uint16(1)));
    assert_eq!(get(&job, Rank(4), keys::NODE_RANK), Some(Value::Uint16(2)));
    assert_eq!(get(&job, Rank(4), keys::GLOBAL_RANK), Some(Value::Rank(Rank(4))));
    assert_eq!(get(&job, Rank(4), keys::APPNUM), Some(Value::Uint32(0)));
    assert_eq!(get(&job, Rank(5), keys::HOSTNAME), None, "there is no rank 5");
    assert_eq!(get(&job, Rank(0), keys::CPUSET), None, "binding is never derived");
}

#[test]
fn host_values_keep_their_type() {
    // Slurm: application numbers as int, global ranks and leaders as uint32.
    let rank = |rank: u32| {
        array(
            keys::PROC_INFO_ARRAY,
            vec![
                info(keys::RANK, Value::Rank(Rank(rank))),
                info(keys::APPNUM, Value::Int(0)),
                info(keys::GLOBAL_RANK, Value::Uint32(rank + 100)),
                info(keys::HOSTNAME, Value::string("n1")),
            ],
        )
    };
    let [nodes, procs] = maps();
    let job = job(&[rank(0), rank(2), nodes, procs, info(keys::LOCALLDR, Value::Uint32(2))]);
    assert_eq!(get(&job, Rank(2), keys::APPNUM), Some(Value::Int(0)));
    assert_eq!(get(&job, Rank(2), keys::GLOBAL_RANK), Some(Value::Uint32(102)));
    assert_eq!(get(&job, Rank::WILDCARD, keys::LOCALLDR), Some(Value::Uint32(2)));
    assert_eq!(get(&job, Rank(1), keys::GLOBAL_RANK).unwrap().data_type(), DataType::PROC_RANK, "derived");
}

#[test]
fn loose_values_are_sorted_as_stock_servers_do() {
    let job = job(&[info(keys::TMPDIR, Value::string("/t")), info(keys::NSDIR, Value::string("/t/n"))]);
    assert!(job.session.contains_key(keys::TMPDIR.as_bytes()));
    assert!(job.job.contains_key(keys::NSDIR.as_bytes()));
    assert_eq!(get(&job, Rank::WILDCARD, keys::TMPDIR), Some(Value::string("/t")));
}

#[test]
fn arrays_nest_in_any_order() {
    let app = |number: u32, size: u32, first: u32| {
        let proc = array(
            keys::PROC_INFO_ARRAY,
            vec![info(keys::RANK, Value::Rank(Rank(first))), info(keys::APPNUM, Value::Uint32(number))],
        );
        array(
            keys::APP_INFO_ARRAY,
            vec![info(keys::APPNUM, Value::Uint32(number)), info(keys::APP_SIZE, Value::Uint32(size)), proc],
        )
    };
    let node = array(
        keys::NODE_INFO_ARRAY,
        vec![
            info(keys::HOSTNAME, Value::string("n1")),
            info(keys::HOSTNAME_ALIASES, Value::string("n1.site,n1-ib")),
            info(keys::NODE_SIZE, Value::Uint32(8)),
            info(keys::LOCAL_PEERS, Value::string("0,1")),
        ],
    );
    let inner =
        array(keys::JOB_INFO_ARRAY, vec![info(keys::JOBID, Value::string("id")), app(0, 1, 0), app(1, 1, 1), node]);
    let job = job(&[array(keys::SESSION_INFO_ARRAY, vec![inner, info(keys::UNIV_SIZE, Value::Uint32(64))])]);
    let wild = Rank::WILDCARD;
    assert_eq!(get(&job, wild, keys::JOBID), Some(Value::string("id")));
    assert_eq!(get(&job, wild, keys::UNIV_SIZE), Some(Value::Uint32(64)));
    assert_eq!(get(&job, wild, keys::NODE_SIZE), Some(Value::Uint32(8)));
    let alias = Selector { hostname: Some(b"n1-ib"), ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::NODE_SIZE, &alias, 0), Some(Value::Uint32(8)));
    let app_one = Selector { appnum: Some(1), ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::APPNUM, &app_one, 0), Some(Value::Uint32(1)));
    assert_eq!(get(&job, Rank(1), keys::APPNUM), Some(Value::Uint32(1)));
    assert_eq!(get(&job, wild, keys::JOB_NUM_APPS), Some(Value::Uint32(2)));
    assert_eq!(get(&job, wild, keys::JOB_SIZE), Some(Value::Uint32(2)));
    let session = Selector { session: true, ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::JOBID, &session, 0), Some(Value::string("id")), "the job fills in");
}

#[test]
fn peers_are_reconstructed_from_hostnames() {
    let rank = |rank: u32, host: &str| {
        let place = vec![info(keys::RANK, Value::Rank(Rank(rank))), info(keys::HOSTNAME, Value::string(host))];
        array(keys::PROC_INFO_ARRAY, place)
    };
    let job = job(&[rank(0, "n1"), rank(1, "n2"), rank(2, "n1")]);
    assert_eq!(get(&job, Rank::WILDCARD, keys::LOCAL_PEERS), Some(Value::string("0,2")));
    assert_eq!(get(&job, Rank::WILDCARD, keys::NUM_NODES), Some(Value::Uint32(2)));
    assert_eq!(get(&job, Rank(2), keys::LOCAL_RANK), Some(Value::Uint16(1)));
}

#[test]
fn node_arrays_and_the_node_map_are_brought_together_by_name_alias_or_number() {
    let node = |mut who: Vec<Info>, size: u32| {
        who.push(info(keys::NODE_SIZE, Value::Uint32(size)));
        array(keys::NODE_INFO_ARRAY, who)
    };
    let alias =
        vec![info(keys::HOSTNAME, Value::string("n2.site")), info(keys::HOSTNAME_ALIASES, Value::string("n2,n2-ib"))];
    let number = |number| vec![info(keys::NODEID, Value::Uint32(number))];
    let maps = [info(keys::NODE_MAP, Value::string("n1,n2,n3,n4")), info(keys::PROC_MAP, Value::string("0;1;2;3"))];
    let nodes = [node(number(3), 40), node(number(2), 30), node(alias, 20)];
    let job = job(&[&nodes[..], &maps].concat());
    assert_eq!(job.nodes.len(), 4);
    for (rank, size) in [(0, None), (1, Some(20)), (2, Some(30)), (3, Some(40))] {
        let found = get_as(&job, Rank::WILDCARD, keys::NODE_SIZE, &Selector::default(), rank);
        assert_eq!(found, size.map(Value::Uint32), "the node of rank {rank}");
    }
    assert_eq!(get(&job, Rank(3), keys::HOSTNAME), Some(Value::string("n4")));
}

#[test]
fn registering_again_adds_and_replaces() {
    let mut job = job(&[info(keys::MAPBY, Value::string("core")), info(keys::UNIV_SIZE, Value::Uint32(4))]);
    job.register(&maps(), HOST).unwrap();
    job.register(&[info(keys::MAPBY, Value::string("slot"))], HOST).unwrap();
    assert_eq!(get(&job, Rank::WILDCARD, keys::MAPBY), Some(Value::string("slot")));
    assert_eq!(get(&job, Rank::WILDCARD, keys::UNIV_SIZE), Some(Value::Uint32(4)));
    assert_eq!(get(&job, Rank::WILDCARD, keys::JOB_SIZE), Some(Value::Uint32(5)));
}

#[test]
fn the_hosts_own_node_is_found_by_its_short_name() {
    let own = info(keys::NODE_SIZE, Value::Uint32(3));
    let nodes = info(keys::NODE_MAP, Value::string("n1.site.example,n2.site.example"));
    let job = job(&[own, nodes, info(keys::PROC_MAP, Value::string("0;1"))]);
    assert_eq!(get(&job, Rank::WILDCARD, keys::NODE_SIZE), Some(Value::Uint32(3)));
    assert_eq!(get_as(&job, Rank::WILDCARD, keys::NODE_SIZE, &Selector::default(), 1), None);
}

#[test]
fn job_level_keys_are_found_with_a_rank_too() {
    let job = job(&maps());
    assert_eq!(get(&job, Rank(3), keys::JOB_SIZE), Some(Value::Uint32(5)));
    assert_eq!(get(&job, Rank::UNDEF, keys::JOB_SIZE), Some(Value::Uint32(5)));
    assert_eq!(get(&job, Rank::WILDCARD, keys::NODEID), Some(Value::Uint32(0)), "of the caller's node");
    assert_eq!(get(&job, Rank::WILDCARD, keys::LOCAL_RANK), None);
}

/// Registers faulty infos, and returns the key in the refusal.
fn refused(infos: &[Info]) -> String {
    let mut job = JobData::new(Nspace::new("job").unwrap());
    let refused = job.register(infos, HOST).unwrap_err();
    assert_eq!(refused.status, Status::ERR_BAD_PARAM);
    let key = String::from_utf8(refused.key.as_bytes().to_vec()).unwrap();
    assert!(refused.to_string().starts_with(&format!("{key}: ")), "{refused}");
    key
}

fn rank(rank: u32, mut infos: Vec<Info>) -> Info {
    infos.insert(0, info(keys::RANK, Value::Rank(Rank(rank))));
    array(keys::PROC_INFO_ARRAY, infos)
}

fn node(name: &str, mut infos: Vec<Info>) -> Info {
    infos.insert(0, info(keys::HOSTNAME, Value::string(name)));
    array(keys::NODE_INFO_ARRAY, infos)
}

#[test]
fn contradictory_maps_are_refused() {
    let map = |nodes: &str, ranks: &str| {
        [info(keys::NODE_MAP, Value::string(nodes)), info(keys::PROC_MAP, Value::string(ranks))]
    };
    assert_eq!(refused(&map("n1,n2", "0;1;2")), keys::PROC_MAP, "more nodes than there are");
    assert_eq!(refused(&map("n1,n2", "0,1;1,2")), keys::PROC_MAP, "a rank on two nodes");
    assert_eq!(refused(&map("n1,n2", "0,0;1")), keys::PROC_MAP, "a rank twice on one");
    assert_eq!(refused(&map("n1,n1", "0;1")), keys::NODE_MAP, "a node twice");
    assert_eq!(refused(&map("n1", "0-")), keys::PROC_MAP, "no map");
    assert_eq!(refused(&map("pmix[n", "0")), keys::NODE_MAP, "no map");
    let [nodes, procs] = maps();
    assert_eq!(refused(std::slice::from_ref(&procs)), keys::PROC_MAP, "of no nodes");
    assert_eq!(refused(std::slice::from_ref(&nodes)), keys::PROC_MAP, "nobody runs on the nodes");
    assert_eq!(refused(&[info(keys::NODE_MAP, Value::Uint32(1))]), keys::NODE_MAP);
    let elsewhere = rank(0, vec![info(keys::HOSTNAME, Value::string("n2"))]);
    assert_eq!(refused(&[nodes.clone(), procs.clone(), elsewhere]), keys::HOSTNAME);
    let others = node("n2", vec![info(keys::LOCAL_PEERS, Value::string("1,3"))]);
    assert_eq!(refused(&[nodes, procs, others]), keys::LOCAL_PEERS);
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let [nodes, procs] = maps();
    let beside = |info: Info| refused(&[nodes.clone(), procs.clone(), info]);
    assert_eq!(beside(info(keys::JOB_SIZE, Value::Uint32(6))), keys::JOB_SIZE);
    assert_eq!(beside(info(keys::NUM_NODES, Value::Uint32(1))), keys::NUM_NODES);
    assert_eq!(beside(info(keys::LOCAL_SIZE, Value::Uint32(3))), keys::LOCAL_SIZE);
    assert_eq!(beside(node("n2", vec![info(keys::LOCAL_SIZE, Value::Uint32(2))])), keys::LOCAL_SIZE);
    let peers = [info(keys::LOCAL_PEERS, Value::string("0-2")), info(keys::LOCAL_SIZE, Value::Uint32(2))];
    assert_eq!(refused(&peers), keys::LOCAL_SIZE);
    let app = |number: u32, size: u32| {
        let infos = vec![info(keys::APPNUM, Value::Uint32(number)), info(keys::APP_SIZE, Value::Uint32(size))];
        array(keys::APP_INFO_ARRAY, infos)
    };
    let size = info(keys::JOB_SIZE, Value::Uint32(5));
    assert_eq!(refused(&[nodes.clone(), procs.clone(), size, app(0, 3), app(1, 3)]), keys::APP_SIZE);
    // Test hosts of other libraries register fewer processes than the maps have, and unused nodes.
    let few = [nodes, procs, info(keys::JOB_SIZE, Value::Uint32(2)), info(keys::NUM_NODES, Value::Uint32(9))];
    assert_eq!(get(&job(&few), Rank::WILDCARD, keys::JOB_SIZE), Some(Value::Uint32(2)));
}

#[test]
fn arrays_and_types_that_are_none_are_refused() {
    assert_eq!(refused(&[array(keys::PROC_INFO_ARRAY, vec![info("x", Value::Undef)])]), keys::PROC_INFO_ARRAY);
    assert_eq!(refused(&[array(keys::NODE_INFO_ARRAY, vec![info("x", Value::Undef)])]), keys::NODE_INFO_ARRAY);
    for key in [
        keys::SESSION_INFO_ARRAY,
        keys::JOB_INFO_ARRAY,
        keys::APP_INFO_ARRAY,
        keys::NODE_INFO_ARRAY,
        keys::PROC_INFO_ARRAY,
        keys::PROC_DATA,
    ] {
        assert_eq!(refused(&[array(key, Vec::new())]), key, "an empty array");
        assert_eq!(refused(&[info(key, Value::Uint32(1))]), key, "no array");
        assert_eq!(refused(&[array(keys::JOB_INFO_ARRAY, vec![array(key, Vec::new())])]), key, "an empty array inside");
    }
    assert_eq!(refused(&[rank(1 << 30, Vec::new())]), keys::RANK);
    assert_eq!(refused(&[array(keys::PROC_INFO_ARRAY, vec![info(keys::RANK, Value::string("0"))])]), keys::RANK);
    assert_eq!(refused(&[info(keys::JOB_SIZE, Value::string("4"))]), keys::JOB_SIZE);
    assert_eq!(refused(&[info(keys::JOB_SIZE, Value::Int(-1))]), keys::JOB_SIZE);
    assert_eq!(refused(&[info(keys::HOSTNAME, Value::Uint32(4))]), keys::HOSTNAME);
    assert_eq!(refused(&[info(keys::LOCAL_PEERS, Value::string("0,x"))]), keys::LOCAL_PEERS);
    let places = |name| rank(0, vec![info(keys::HOSTNAME, Value::string(name))]);
    assert_eq!(refused(&[places("n1"), places("n2")]), keys::HOSTNAME, "a rank twice");
    let mut deep = array(keys::JOB_INFO_ARRAY, vec![info("x", Value::Undef)]);
    for _ in 0..100 {
        deep = array(keys::JOB_INFO_ARRAY, vec![deep]);
    }
    assert_eq!(refused(&[deep]), keys::JOB_INFO_ARRAY);
}

#[test]
fn unknown_keys_are_kept() {
    let job = job(&[info("site.colour", Value::string("red")), rank(2, vec![info("site.shape", Value::Byte(3))])]);
    assert_eq!(get(&job, Rank::WILDCARD, "site.colour"), Some(Value::string("red")));
    assert_eq!(get(&job, Rank(2), "site.shape"), Some(Value::Byte(3)));
}

#[test]
fn another_map_moves_the_ranks() {
    let [nodes, procs] = maps();
    let mut job = job(&[
        nodes,
        procs,
        rank(0, vec![info(keys::CPUSET, Value::string("7")), info(keys::LOCAL_RANK, Value::Uint16(0))]),
        node("n1", vec![info(keys::LOCAL_PEERS, Value::string("0,2")), info(keys::NODE_SIZE, Value::Uint32(8))]),
        info(keys::JOB_SIZE, Value::Uint32(5)),
    ]);
    let other = [info(keys::NODE_MAP, Value::string("n2,n1,n3")), info(keys::PROC_MAP, Value::string("1;2,0;3-5"))];
    job.register(&other, HOST).unwrap();
    let wild = Rank::WILDCARD;
    for (key, value) in [
        (keys::JOB_SIZE, Value::Uint32(6)),
        (keys::NUM_NODES, Value::Uint32(3)),
        (keys::NODE_LIST, Value::string("n2,n1,n3")),
        (keys::LOCAL_PEERS, Value::string("2,0")),
        (keys::LOCAL_SIZE, Value::Uint32(2)),
        (keys::NODE_SIZE, Value::Uint32(8)),
        (keys::APP_SIZE, Value::Uint32(6)),
    ] {
        assert_eq!(get(&job, wild, key), Some(value), "{key}");
    }
    for (rank, key, value) in [
        (0, keys::LOCAL_RANK, Value::Uint16(1)),
        (0, keys::NODEID, Value::Uint32(1)),
        (0, keys::CPUSET, Value::string("7")),
        (1, keys::HOSTNAME, Value::string("n2")),
        (3, keys::HOSTNAME, Value::string("n3")),
        (5, keys::APP_RANK, Value::Rank(Rank(5))),
    ] {
        assert_eq!(get(&job, Rank(rank), key), Some(value), "{key} of {rank}");
    }
    // A smaller map removes values derived from the larger one.
    job.register(&[info(keys::NODE_MAP, Value::string("n1")), info(keys::PROC_MAP, Value::string("0"))], HOST).unwrap();
    assert_eq!(get(&job, wild, keys::JOB_SIZE), Some(Value::Uint32(1)));
    assert_eq!(get(&job, Rank(5), keys::HOSTNAME), None);
    assert_eq!(get(&job, Rank(5), keys::RANK), None);
    assert_eq!(job.nodes.len(), 1);
    // Repeating the registration changes nothing.
    let before = job.clone();
    job.register(&[info(keys::NODE_MAP, Value::string("n1")), info(keys::PROC_MAP, Value::string("0"))], HOST).unwrap();
    assert_eq!(job, before);
}

#[test]
fn a_rank_that_is_named_twice_counts_where_it_is_named_first() {
    let job = job(&[node("n1", vec![info(keys::LOCAL_PEERS, Value::string("1,0,1,2,0"))])]);
    for (rank, local_rank) in [(1, 0), (0, 1), (2, 2)] {
        assert_eq!(get(&job, Rank(rank), keys::LOCAL_RANK), Some(Value::Uint16(local_rank)), "rank {rank}");
    }
    assert_eq!(get(&job, Rank::WILDCARD, keys::LOCAL_SIZE), Some(Value::Uint32(3)));
}

#[test]
fn maps_of_sessions_and_applications_are_not_the_jobs() {
    let [nodes, procs] = maps();
    let app = |number: u32, ranks: &str| {
        let infos = vec![
            info(keys::APPNUM, Value::Uint32(number)),
            info(keys::NODE_MAP, Value::string("n2")),
            info(keys::PROC_MAP, Value::string(ranks)),
        ];
        array(keys::APP_INFO_ARRAY, infos)
    };
    let session = array(
        keys::SESSION_INFO_ARRAY,
        vec![info(keys::SESSION_ID, Value::Uint32(3)), info(keys::NODE_MAP, Value::string("n0,n1,n2,n3"))],
    );
    let job = job(&[session, array(keys::JOB_INFO_ARRAY, vec![nodes.clone(), procs, app(0, "0"), app(1, "1")])]);
    let wild = Rank::WILDCARD;
    assert_eq!(get(&job, wild, keys::NODE_LIST), Some(Value::string("n1,n2")));
    assert_eq!(get(&job, wild, keys::NODE_MAP), Some(nodes.value));
    let session = Selector { session: true, ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::NODE_MAP, &session, 0), Some(Value::string("n0,n1,n2,n3")));
    let one = Selector { app: true, appnum: Some(1), ..Selector::default() };
    assert_eq!(get_as(&job, wild, keys::PROC_MAP, &one, 0), Some(Value::string("1")));
}

#[test]
fn another_jobs_array_is_not_this_jobs() {
    let other = vec![info(keys::NSPACE, Value::string("other")), info(keys::JOB_SIZE, Value::Uint32(99))];
    let own = vec![info(keys::NSPACE, Value::string("job")), info(keys::JOB_SIZE, Value::Uint32(2))];
    let jobs = vec![array(keys::JOB_INFO_ARRAY, own), array(keys::JOB_INFO_ARRAY, other)];
    let job = job(&[array(keys::SESSION_INFO_ARRAY, jobs)]);
    assert_eq!(get(&job, Rank::WILDCARD, keys::JOB_SIZE), Some(Value::Uint32(2)));
}

#[test]
fn locations_follow_from_the_node_arrays() {
    let peers = |name: &str, list: &str| node(name, vec![info(keys::LOCAL_PEERS, Value::string(list))]);
    let job = job(&[peers("n1", "3,0"), peers("n2", "1-2"), node("n3", vec![info(keys::NODE_SIZE, Value::Uint32(1))])]);
    assert_eq!(get(&job, Rank(2), keys::HOSTNAME), Some(Value::string("n2")));
    assert_eq!(get(&job, Rank(0), keys::LOCAL_RANK), Some(Value::Uint16(1)));
    assert_eq!(get(&job, Rank::WILDCARD, keys::LOCALLDR), Some(Value::Rank(Rank(0))));
    assert_eq!(get(&job, Rank::WILDCARD, keys::JOB_SIZE), Some(Value::Uint32(4)));
}

#[test]
fn nodes_have_the_numbers_that_their_ranks_say() {
    let place = |number, nodeid| rank(number, vec![info(keys::NODEID, Value::Uint32(nodeid))]);
    let [nodes, procs] = maps();
    let job = job(&[nodes, procs, place(0, 1), place(2, 1), place(1, 0)]);
    assert_eq!(get(&job, Rank::WILDCARD, keys::LOCAL_PEERS), Some(Value::string("0,2")));
    let zero = Selector { nodeid: Some(0), ..Selector::default() };
    assert_eq!(get_as(&job, Rank::WILDCARD, keys::HOSTNAME, &zero, 0), Some(Value::string("n2")));
}

#[test]
fn applications_follow_from_their_ranks() {
    let of = |number, appnum| rank(number, vec![info(keys::APPNUM, Value::Int(appnum))]);
    let job = job(&[of(0, 0), of(1, 1), of(2, 0), of(3, 1)]);
    let app = |appnum, key| {
        let selector = Selector { app: true, appnum: Some(appnum), ..Selector::default() };
        get_as(&job, Rank::WILDCARD, key, &selector, 0)
    };
    assert_eq!((app(1, keys::APP_SIZE), app(1, keys::APPLDR)), (Some(Value::Uint32(2)), Some(Value::Rank(Rank(1)))));
    assert_eq!(get(&job, Rank(3), keys::APP_RANK), Some(Value::Rank(Rank(1))));
    assert_eq!(get(&job, Rank::WILDCARD, keys::JOB_NUM_APPS), Some(Value::Uint32(2)));
    // A process array inside an application's array belongs to that application.
    let inside = rank(7, vec![info(keys::LOCAL_RANK, Value::Uint16(0))]);
    let job = self::job(&[array(keys::APP_INFO_ARRAY, vec![info(keys::APPNUM, Value::Uint32(4)), inside])]);
    assert_eq!(get(&job, Rank(7), keys::APPNUM), Some(Value::Uint32(4)));
}

/// As readers of a segment say, which have the ranks of all nodes.
#[test]
fn an_application_has_no_ranks_on_a_node_without_ranks() {
    let maps = [info(keys::NODE_MAP, Value::string("n1,n2,n3")), info(keys::PROC_MAP, Value::string("0-2;;3-5"))];
    let app =
        array(keys::APP_INFO_ARRAY, vec![info(keys::APPNUM, Value::Uint32(0)), info(keys::APP_SIZE, Value::Uint32(6))]);
    let job = job(&[&maps[..], &[app]].concat());
    for (name, size) in [(b"n1", 3), (b"n2", 0), (b"n3", 3)] {
        let selector = Selector { app: true, appnum: Some(0), hostname: Some(name), ..Selector::default() };
        assert_eq!(get_as(&job, Rank::WILDCARD, keys::LOCAL_SIZE, &selector, 0), Some(Value::Uint32(size)), "{name:?}");
    }
}

#[test]
fn a_host_without_ranks_is_not_the_only_node_of_the_job() {
    let maps = [info(keys::NODE_MAP, Value::string("n7")), info(keys::PROC_MAP, Value::string("0,1"))];
    let size = |size| info(keys::LOCAL_SIZE, Value::Uint32(size));
    let elsewhere = job(&[&maps[..], &[size(0)]].concat());
    assert_eq!(get(&elsewhere, Rank(0), keys::HOSTNAME), Some(Value::string("n7")));
    assert_eq!(get(&elsewhere, Rank::WILDCARD, keys::NODE_LIST), Some(Value::string("n7")));
    let n7 = Selector { hostname: Some(b"n7"), ..Selector::default() };
    assert_eq!(get_as(&elsewhere, Rank::WILDCARD, keys::LOCAL_SIZE, &n7, 0), Some(Value::Uint32(2)));
    let here = Selector { hostname: Some(HOST), ..Selector::default() };
    assert_eq!(get_as(&elsewhere, Rank::WILDCARD, keys::LOCAL_SIZE, &here, 0), Some(Value::Uint32(0)));
    assert_eq!(get_as(&elsewhere, Rank::WILDCARD, keys::LOCAL_PEERS, &here, 0), None);
    // A host whose node has another name in the job.
    let renamed = job(&[&maps[..], &[size(2), info(keys::NODE_SIZE, Value::Uint32(4))]].concat());
    assert_eq!(get_as(&renamed, Rank::WILDCARD, keys::NODE_SIZE, &n7, 0), Some(Value::Uint32(4)));
}

/// What a host says besides its maps, of this many ranks on the nodes that the function gives.
type Extra<'a> = &'a dyn Fn(u32, &dyn Fn(u32) -> u32) -> Vec<Info>;

#[test]
fn ranks_in_blocks_have_the_values_of_ranks_anywhere() {
    let name = |n: u32| info(keys::HOSTNAME, Value::string(format!("n{n}")));
    let appnum = |n: u32| info(keys::APPNUM, Value::Uint32(n));
    let extras: [Extra<'_>; 7] = [
        &|_, _| Vec::new(),
        &|_, _| vec![info(keys::NPROC_OFFSET, Value::Uint32(100))],
        &|ranks, node_of| (0..ranks).map(|n| rank(n, vec![name(node_of(n))])).collect(),
        &|ranks, node_of| vec![rank(ranks - 1, vec![name(node_of(ranks - 1))])],
        &|ranks, _| (0..ranks).map(|n| rank(n, vec![appnum(n % 2)])).collect(),
        &|ranks, _| (0..ranks).map(|n| rank(n, vec![appnum(7), info(keys::LOCAL_RANK, Value::Int(9))])).collect(),
        &|_, _| vec![rank(0, vec![info(keys::NODEID, Value::Uint32(40))]), node("n1", vec![])],
    ];
    for map in [
        "0",
        "0-3",
        "0,1;2,3",
        "0,1;2",
        "0;1;2",
        "0-2;3-5;6",
        // Unequal nodes, one of them without ranks.
        "0;1-3;4-6",
        "0-2;3;4-6",
        "0-2;3-5;6-10;11-15",
        "0-2;;3-5",
    ] {
        let starts: Vec<u32> =
            map.split(';').filter_map(|ranks| ranks.split(['-', ',']).next()?.parse().ok()).collect();
        let ranks = map.split([';', '-', ',']).filter_map(|n| n.parse::<u32>().ok()).max().unwrap_or(0) + 1;
        let rows: Vec<u32> =
            (1..).zip(map.split(';')).filter(|(_, ranks)| !ranks.is_empty()).map(|(row, _)| row).collect();
        let node_of = |n: u32| rows[starts.partition_point(|start| *start <= n) - 1];
        let names = (1..=map.split(';').count()).map(|n| format!("n{n}")).collect::<Vec<_>>().join(",");
        let maps = [info(keys::NODE_MAP, Value::string(names)), info(keys::PROC_MAP, Value::string(map))];
        for (number, extra) in extras.iter().enumerate() {
            let infos = [&maps[..], &extra(ranks, &node_of)].concat();
            // A node with another name, though it has no ranks, is enough to look at each rank.
            let other = node("beyond", vec![info(keys::HOSTNAME_ALIASES, Value::string("another"))]);
            let (blocks, listed) = (job(&infos), job(&[&infos[..], &[other]].concat()));
            let of_job = |job: &JobData| (job.procs.clone(), job.job.clone(), job.apps.clone());
            assert_eq!(of_job(&blocks), of_job(&listed), "{map} with {number}");
            assert_eq!(blocks.nodes, listed.nodes[..blocks.nodes.len()], "{map} with {number}");
            let mut again = blocks.clone();
            again.register(&infos, HOST).unwrap();
            assert_eq!(again, blocks, "{map} with {number}");
        }
    }
    let maps = [info(keys::NODE_MAP, Value::string("n1,n2")), info(keys::PROC_MAP, Value::string("0,1;2,3"))];
    let on = |name: &str| rank(1, vec![info(keys::HOSTNAME, Value::string(name))]);
    assert!(refused(&[&maps[..], &[on("n2")]].concat()).starts_with(keys::HOSTNAME));
    let all: Vec<Info> = (0..4).map(|n| rank(n, vec![name(1)])).collect();
    assert!(refused(&[&maps[..], &all].concat()).starts_with(keys::HOSTNAME), "two ranks are on the next node");
    let alias = node("n2", vec![info(keys::HOSTNAME_ALIASES, Value::string("other"))]);
    assert!(refused(&[&maps[..], &[alias, on("other")]].concat()).starts_with(keys::HOSTNAME));
    let order = node("n1", vec![info(keys::LOCAL_PEERS, Value::string("1,0"))]);
    let job = job(&[&maps[..], &[order]].concat());
    assert_eq!(get(&job, Rank(1), keys::LOCAL_RANK), Some(Value::Uint16(0)));
}

/// Flux names nodes that have one name so that they have several, and its server is on neither of these.
#[test]
fn the_hosts_own_node_is_the_one_that_has_its_ranks() {
    let map = |text: &str| Value::string(text);
    let infos = [
        info(keys::LOCAL_PEERS, map("2,3")),
        info(keys::NODE_MAP, map("n0,n1")),
        info(keys::PROC_MAP, map("0,1;2,3")),
        info(keys::LOCAL_SIZE, Value::Uint32(2)),
    ];
    let mut registered = JobData::new(Nspace::new("job").unwrap());
    registered.register(&infos, b"n").unwrap();
    assert_eq!(registered.nodes.len(), 2, "{:?}", registered.nodes);
    assert!(registered.nodes[1].is_given && !registered.nodes[0].is_given);
    // Another host's ranks are on no node of the map.
    let mut other = JobData::new(Nspace::new("job").unwrap());
    other.register(&[&infos[1..3], &[info(keys::LOCAL_PEERS, map("4"))]].concat(), b"n").unwrap();
    assert_eq!(other.nodes.len(), 3);
}

#[test]
fn max_procs_defaults_to_the_number_of_processes() {
    let most = |infos: &[Info]| get(&job(infos), Rank::WILDCARD, keys::MAX_PROCS);
    assert_eq!(most(&maps()), Some(Value::Uint32(5)));
    assert_eq!(most(&[&maps()[..], &[info(keys::MAX_PROCS, Value::Uint16(9))]].concat()), Some(Value::Uint16(9)));
    assert_eq!(most(&[info(keys::JOBID, Value::string("x"))]), None);
}

/// A directory that the host registers for its own node is found by callers on that node without a node in the Get.
#[test]
fn directories_of_the_own_node_are_found_without_naming_it() {
    let node = |name: &str| {
        let of = |what: &str| Value::string(format!("/{what}/{name}"));
        let infos = vec![
            info(keys::HOSTNAME, Value::string(name)),
            info(keys::TMPDIR, of("tmp")),
            info(keys::NSDIR, of("ns")),
            info(keys::MAX_PROCS, Value::Uint32(77)),
        ];
        array(keys::NODE_INFO_ARRAY, infos)
    };
    let mut infos = maps().to_vec();
    infos.extend([node("n1"), node("n2")]);
    let registered = job(&infos);
    for (caller, name) in [(0, "n1"), (1, "n2")] {
        let get = |key| get_as(&registered, Rank::WILDCARD, key, &Selector::default(), caller);
        assert_eq!(get(keys::TMPDIR), Some(Value::string(format!("/tmp/{name}"))));
        assert_eq!(get(keys::NSDIR), Some(Value::string(format!("/ns/{name}"))));
        assert_eq!(get(keys::MAX_PROCS), Some(Value::Uint32(5)), "that of a node is not the job's");
    }
    // Directories of the session and the job take precedence over those of nodes.
    infos.extend([info(keys::TMPDIR, Value::string("/session")), info(keys::NSDIR, Value::string("/job"))]);
    let registered = job(&infos);
    assert_eq!(get(&registered, Rank::WILDCARD, keys::TMPDIR), Some(Value::string("/session")));
    assert_eq!(get(&registered, Rank::WILDCARD, keys::NSDIR), Some(Value::string("/job")));
}
