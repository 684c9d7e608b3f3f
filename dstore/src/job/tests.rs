//! Registration in the forms that hosts use, read back by the rules of Get.

use super::JobData;
use crate::model::{DataType, Info, KeyRef, Nspace, Rank, Status, Value, keys};
use crate::rules::{self, Caller, Selector};

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
    rules::find(job, rank, &KeyRef::from(key), selector, &caller).map(|value| value.to_value().unwrap())
}

fn maps() -> [Info; 2] {
    [info(keys::NODE_MAP, Value::string("raw:n1,n2")), info(keys::PROC_MAP, Value::string("raw:0,2;1,3-4"))]
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
fn what_the_host_says_is_kept_with_its_type() {
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

#[test]
fn nonsense_is_refused() {
    let refused = |infos: &[Info]| {
        let mut job = JobData::new(Nspace::new("job").unwrap());
        job.register(infos, HOST).unwrap_err()
    };
    let no_rank = array(keys::PROC_INFO_ARRAY, vec![info(keys::HOSTNAME, Value::string("n1"))]);
    assert_eq!(refused(&[no_rank]), Status::ERR_BAD_PARAM);
    let no_name = array(keys::NODE_INFO_ARRAY, vec![info(keys::NODE_SIZE, Value::Uint32(1))]);
    assert_eq!(refused(&[no_name]), Status::ERR_BAD_PARAM);
    let huge = array(keys::PROC_INFO_ARRAY, vec![info(keys::RANK, Value::Rank(Rank(1 << 30)))]);
    assert_eq!(refused(&[huge]), Status::ERR_BAD_PARAM);
    let [nodes, _] = maps();
    assert_eq!(refused(&[nodes, info(keys::PROC_MAP, Value::string("0;1;2"))]), Status::ERR_BAD_PARAM);
    assert_eq!(refused(&[info(keys::NODE_MAP, Value::Uint32(1))]), Status::ERR_BAD_PARAM);
    let mut deep = array(keys::JOB_INFO_ARRAY, Vec::new());
    for _ in 0..100 {
        deep = array(keys::JOB_INFO_ARRAY, vec![deep]);
    }
    assert_eq!(refused(&[deep]), Status::ERR_BAD_PARAM);
}
