//! Jobs that connect.

use super::*;

#[test]
fn a_fence_with_a_job_of_which_nothing_is_known_is_the_hosts() {
    let mut bench = Bench::new(0, 1, 1);
    let other = Nspace::new("other").unwrap();
    let infos = [Info::new(keys::REGISTER_NODATA, Value::Bool(true))];
    bench.engine.register_nspace(JobPlan::read(&other, 0, &infos, None, NODES[0]).unwrap());
    bench.fence(0, 10, vec![everybody()[0].clone(), Proc::new(other, Rank::WILDCARD)], Vec::new());
    assert_eq!(bench.status(0, 10), None);
    assert!(matches!(bench.upcalls.pop(), Some((_, Upcall::Fence { .. }))));
}

#[test]
fn jobs_that_connect_on_one_node_are_told_of_each_other() {
    let mut bench = Bench::new(0, 1, 2);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let procs = vec![proc(0), proc(1), Proc::new(child.nspace.clone(), Rank::WILDCARD)];
    let connect = Request::Connect { procs: procs.clone(), infos: Vec::new(), extra: Vec::new() };
    bench.request(0, 10, connect.clone());
    bench.enter_as(PeerId(500), 10, &connect);
    assert_eq!(bench.connected(peer(0), 10), None, "rank 1 is not there");
    // A fence of the same processes is another matter.
    bench.fence(1, 9, procs.clone(), Vec::new());
    assert_eq!(bench.connected(peer(0), 10), None);
    bench.request(1, 10, connect);
    for rank in 0..2 {
        assert_eq!(bench.connected(peer(rank), 10), Some((Status::SUCCESS, vec![(child.nspace.clone(), 1)])));
    }
    assert_eq!(bench.connected(PeerId(500), 10), Some((Status::SUCCESS, vec![(nspace(), 2)])));
    assert!(bench.upcalls.is_empty(), "the host is not asked");

    let disconnect = Request::Disconnect { procs, infos: Vec::new() };
    bench.request(0, 11, disconnect.clone());
    bench.enter_as(PeerId(500), 11, &disconnect);
    assert_eq!(bench.status(0, 11), None);
    bench.request(1, 11, disconnect);
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    assert_eq!(bench.status(1, 11), Some(Status::SUCCESS));
}

#[test]
fn a_connect_across_servers_is_the_hosts() {
    let mut bench = Bench::new(0, 1, 2);
    let other = Nspace::new("other").unwrap();
    let procs = vec![everybody()[0].clone(), Proc::new(other.clone(), Rank(0))];
    let connect = Request::Connect { procs: procs.clone(), infos: Vec::new(), extra: Vec::new() };
    for rank in 0..2 {
        bench.request(rank, 10, connect.clone());
    }
    // The host makes the other job known before it answers.
    let infos = [Info::new(keys::JOB_SIZE, Value::Uint32(5))];
    bench.engine.register_nspace(JobPlan::read(&other, 0, &infos, None, NODES[0]).unwrap());
    let Upcall::Connect { infos, .. } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else {
        panic!("a connect")
    };
    assert_eq!(
        infos.iter().map(|info| info.key.to_string()).collect::<Vec<_>>(),
        [keys::SORTED_PROC_ARRAY, keys::LOCAL_COLLECTIVE_STATUS]
    );
    for rank in 0..2 {
        assert_eq!(bench.connected(peer(rank), 10), Some((Status::SUCCESS, vec![(other.clone(), 5)])));
    }
    for rank in 0..2 {
        bench.request(rank, 11, Request::Disconnect { procs: procs.clone(), infos: Vec::new() });
    }
    assert!(matches!(bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED)), Upcall::Disconnect { .. }));
    assert_eq!(bench.status(0, 11), Some(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn a_connect_with_a_process_that_dies_fails_for_the_others() {
    let mut bench = Bench::new(0, 1, 2);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let procs = vec![everybody()[0].clone(), Proc::new(child.nspace, Rank::WILDCARD)];
    let connect = Request::Connect { procs, infos: Vec::new(), extra: Vec::new() };
    bench.request(0, 10, connect.clone());
    bench.enter_as(PeerId(500), 10, &connect);
    bench.lose(1);
    assert_eq!(bench.connected(peer(0), 10), Some((Status::ERR_LOST_CONNECTION, Vec::new())));
    assert_eq!(bench.connected(PeerId(500), 10), Some((Status::ERR_LOST_CONNECTION, Vec::new())));
    assert!(bench.log.iter().any(|line| line.starts_with("a connect of ")), "{:?}", bench.log);
}
