//! The form of contributions: columns where all servers of a set of nodes have announced that they read them.

use pmix_wire::blob::{Contribution, Form};

use super::*;
use crate::engine::nspaces::Agreement;

/// Ranks of each node.
const RANKS: u32 = 3;

/// A server on each of `count` nodes of one job.
fn servers(count: usize) -> Vec<Bench> {
    (0..count).map(|node| Bench::new(node, count, RANKS)).collect()
}

/// What Open MPI puts: much of it is the same for all.
fn address(rank: u32, round: u8) -> Value {
    let mut bytes = [[10, 255, round, 0], [4, rank as u8, 2, 0]].concat();
    bytes.resize(32, 0);
    Value::ByteObject(bytes.into())
}

/// The local ranks of some servers put a value each and enter a collecting fence of `procs`.
fn enter(benches: &mut [Bench], procs: &[Proc], round: u8) {
    for bench in benches {
        let node = NODES.iter().position(|name| *name == bench.engine.config.hostname).expect("a node");
        for rank in bench.local_ranks(node, RANKS) {
            let kvals = vec![Kval { key: "address".into(), value: address(rank, round) }];
            bench.request(rank, 9, Request::Commit { parts: vec![(3, kvals)] });
            bench.fence(rank, 10 + u32::from(round), procs.to_vec(), collect());
        }
    }
}

/// The contribution of a server to the last fence.
fn data(bench: &Bench) -> Vec<u8> {
    match &bench.upcalls.last().expect("a fence at the host").1 {
        Upcall::Fence { data, .. } => data.clone().into_bytes().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn read(data: &[u8]) -> Contribution {
    let mut all = blob::decode_fence(EXCHANGE, data).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// The form of a server's contribution, and whether it has the announcement.
fn form(bench: &Bench) -> (Form, bool) {
    let contribution = read(&data(bench));
    let first = contribution.ranks.first().and_then(|(_, kvals)| kvals.first());
    (contribution.form, first.is_some_and(|kval| kval.key.is(MARK) && kval.value == ANNOUNCEMENT))
}

const COLUMNS: (Form, bool) = (Form::Columns, false);
const ANNOUNCES: (Form, bool) = (Form::Relative { key_map: true }, true);

/// What a server that has another library contributes in place of `data`.
fn as_stock(data: &[u8]) -> Vec<u8> {
    let mut contribution = read(data);
    contribution.form = Form::Relative { key_map: true };
    if let Some((_, kvals)) = contribution.ranks.first_mut() {
        kvals.retain(|kval| !kval.key.is(MARK));
    }
    contribution.encode_again(EXCHANGE).unwrap()
}

/// The hosts answer the last fence of these servers with `all`.
fn answer(benches: &mut [Bench], all: &[Vec<u8>]) {
    for bench in benches {
        bench.answer_last(UpcallResult::Data(Status::SUCCESS, all.concat().into()));
    }
}

/// A round in which all exchange what they contribute, whose forms it returns.
fn round(benches: &mut [Bench], procs: &[Proc], number: u8) -> Vec<(Form, bool)> {
    enter(benches, procs, number);
    let all: Vec<_> = benches.iter().map(data).collect();
    let forms = benches.iter().map(form).collect();
    answer(benches, &all);
    assert_brought(benches, number);
    forms
}

/// Asserts that the fence has succeeded and that each of these servers has what all ranks of all of them have put.
fn assert_brought(benches: &mut [Bench], number: u8) {
    let nodes: Vec<usize> = benches.iter().map(|bench| bench.engine.config.me.rank.0 as usize).collect();
    for bench in benches {
        let node = bench.engine.config.me.rank.0 as usize;
        for rank in bench.local_ranks(node, RANKS) {
            assert_eq!(bench.status(rank, 10 + u32::from(number)), Some(Status::SUCCESS), "rank {rank}");
        }
        let state = &bench.engine.nspaces[&nspace()];
        for rank in nodes.iter().flat_map(|node| bench.local_ranks(*node, RANKS)) {
            assert_eq!(state.visible.get(Rank(rank), b"address"), Some(&address(rank, number)), "of rank {rank}");
            assert_eq!(state.visible.get(Rank(rank), MARK.as_bytes()), None, "the mark is no value of rank {rank}");
        }
    }
}

fn statuses(bench: &mut Bench, number: u8) -> Vec<Option<Status>> {
    let node = bench.engine.config.me.rank.0 as usize;
    bench.local_ranks(node, RANKS).map(|rank| bench.status(rank, 10 + u32::from(number))).collect()
}

/// The released form with a key map, by hand: what servers sent before there were columns.
fn first_exchange(ranks: std::ops::Range<u32>, mark: bool) -> Vec<u8> {
    let mut kvals: Vec<Vec<Kval>> = Vec::new();
    for rank in ranks.clone() {
        kvals.push(vec![Kval { key: "address".into(), value: address(rank, 0) }]);
    }
    if mark {
        kvals[0].insert(0, Kval { key: MARK.into(), value: ANNOUNCEMENT });
    }
    let ranks: Vec<_> = ranks.map(Rank).zip(kvals).collect();
    Contribution::encode(EXCHANGE, true, &ranks).unwrap()
}

#[test]
fn the_first_exchange_of_a_set_of_nodes_has_the_released_form_and_later_ones_columns() {
    let mut benches = servers(4);
    enter(&mut benches, &everybody(), 0);
    for (node, bench) in benches.iter().enumerate() {
        let ranks = bench.local_ranks(node, RANKS);
        assert_eq!(data(bench), first_exchange(ranks.clone(), true), "but for the mark it is as ever");
        assert_eq!(as_stock(&data(bench)), first_exchange(ranks, false));
    }
    let all: Vec<_> = benches.iter().map(data).collect();
    answer(&mut benches, &all);
    assert_brought(&mut benches, 0);
    for number in 1..4 {
        assert_eq!(round(&mut benches, &everybody(), number), [COLUMNS; 4]);
    }
    assert!(benches.iter().all(|bench| bench.log.is_empty()));
}

#[test]
fn a_server_that_knows_less_than_the_others_is_not_taken_for_one_of_another_library() {
    let mut benches = servers(4);
    assert_eq!(round(&mut benches, &everybody(), 0), [ANNOUNCES; 4]);
    // One has seen something else on these nodes, another one knows nothing of them.
    let mut nodes: Vec<Vec<u8>> = NODES[..4].iter().map(|name| name.as_bytes().to_vec()).collect();
    nodes.sort();
    benches[0].engine.forms.set(nodes, false);
    benches[1].engine.forms = Default::default();
    assert_eq!(round(&mut benches, &everybody(), 1), [ANNOUNCES, ANNOUNCES, COLUMNS, COLUMNS]);
    assert_eq!(round(&mut benches, &everybody(), 2), [COLUMNS; 4]);
    assert!(benches.iter().all(|bench| bench.log.is_empty()));
}

#[test]
fn with_a_server_of_another_library_among_four_all_exchanges_have_the_released_form() {
    let mut benches = servers(4);
    for number in 0..4 {
        enter(&mut benches, &everybody(), number);
        let mut all: Vec<_> = benches.iter().map(data).collect();
        assert!(benches[..3].iter().all(|bench| form(bench) == ANNOUNCES), "round {number}");
        all[3] = as_stock(&all[3]);
        answer(&mut benches[..3], &all);
        let taken: Vec<_> = benches.drain(3..).collect();
        for bench in &mut benches {
            assert_eq!(statuses(bench, number), [Some(Status::SUCCESS); 3]);
            assert_eq!(bench.engine.nspaces[&nspace()].visible.get(Rank(9), b"address"), Some(&address(9, number)));
        }
        benches.extend(taken);
        answer(&mut benches[3..], &all);
    }
}

/// The one that starts anew has announced nothing to the others, and they have announced nothing to it.
#[test]
fn a_server_that_starts_anew_reads_columns_and_announces_again() {
    let mut benches = servers(4);
    round(&mut benches, &everybody(), 0);
    assert_eq!(round(&mut benches, &everybody(), 1), [COLUMNS; 4]);
    benches[2] = Bench::new(2, 4, RANKS);
    assert_eq!(round(&mut benches, &everybody(), 2), [COLUMNS, COLUMNS, ANNOUNCES, COLUMNS]);
    assert_eq!(round(&mut benches, &everybody(), 3), [COLUMNS; 4]);
}

#[test]
fn a_server_that_another_library_has_replaced_fails_one_fence_and_nothing_is_lost() {
    let mut benches = servers(4);
    round(&mut benches, &everybody(), 0);
    enter(&mut benches, &everybody(), 1);
    let mut all: Vec<_> = benches.iter().map(data).collect();
    all[3] = as_stock(&all[3]);
    benches.truncate(3);
    answer(&mut benches, &all);
    for bench in &mut benches {
        assert_eq!(statuses(bench, 1), [Some(Status::ERR_NOT_SUPPORTED); 3]);
        assert!(
            bench.log.len() == 1 && bench.log[0].contains("the server of nodeD has been replaced"),
            "{:?}",
            bench.log
        );
    }
    // What the failed fence was to bring is in the next one, though nobody has put it again.
    for (node, bench) in benches.iter_mut().enumerate() {
        for rank in bench.local_ranks(node, RANKS) {
            bench.fence(rank, 12, everybody(), collect());
        }
        assert_eq!(form(bench), ANNOUNCES);
        let values: Vec<_> = read(&as_stock(&data(bench))).ranks.into_iter().flat_map(|(_, kvals)| kvals).collect();
        let expected =
            bench.local_ranks(node, RANKS).map(|rank| Kval { key: "address".into(), value: address(rank, 1) });
        assert_eq!(values, expected.collect::<Vec<_>>());
    }
}

#[test]
fn another_set_of_nodes_begins_with_the_released_form() {
    let mut benches = servers(4);
    round(&mut benches, &everybody(), 0);
    assert_eq!(round(&mut benches, &everybody(), 1), [COLUMNS; 4]);
    let ranks = |ranks: std::ops::Range<u32>| ranks.map(proc).collect::<Vec<_>>();
    assert_eq!(round(&mut benches[..2], &ranks(0..6), 2), [ANNOUNCES; 2]);
    assert_eq!(round(&mut benches[..2], &ranks(0..6), 3), [COLUMNS; 2]);
    assert_eq!(round(&mut benches[1..], &ranks(3..12), 4), [ANNOUNCES; 3]);
    assert_eq!(round(&mut benches, &everybody(), 5), [COLUMNS; 4]);
    // Other participants on the same nodes are the same set.
    let listed: Vec<Proc> = (0..4).map(|node| proc(node * RANKS)).collect();
    for (node, bench) in benches.iter_mut().enumerate() {
        bench.put(node as u32 * RANKS, 3, "k", 7);
        bench.fence(node as u32 * RANKS, 16, listed.clone(), collect());
        assert_eq!(form(bench), COLUMNS);
    }
}

/// A process that was spawned, or a job after another one.
#[test]
fn another_job_on_the_same_nodes_begins_with_columns_and_so_does_a_fence_of_both() {
    let mut benches = servers(2);
    round(&mut benches, &everybody(), 0);
    let other = Nspace::new("other").unwrap();
    let member = |rank| Proc::new(other.clone(), Rank(rank));
    for (node, bench) in benches.iter_mut().enumerate() {
        let infos =
            [Info::new(keys::NODE_MAP, Value::string("nodeA,nodeB")), Info::new(keys::PROC_MAP, Value::string("0;1"))];
        let plan = JobPlan::read(&other, 1, &infos, None, NODES[node]).unwrap();
        assert_eq!(bench.engine.register_nspace(plan), Status::SUCCESS);
        bench.register_client(&member(node as u32), 1000, 1000, 7);
        let hello = Hello { proc: Some(member(node as u32)), ..Bench::hello(0) };
        bench.engine.hello(PeerId(900), TCP, hello);
        bench.drain();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        let send = |bench: &mut Bench, tag, request: Request| {
            bench.engine.message(PeerId(900), tag, request.encode(PLAIN, Version::OURS).unwrap(), bench.now);
            bench.drain();
        };
        let kvals = vec![Kval { key: "address".into(), value: address(node as u32, 1) }];
        send(bench, 9, Request::Commit { parts: vec![(3, kvals)] });
        send(bench, 10, Request::Fence { procs: vec![Proc::new(other.clone(), Rank::WILDCARD)], infos: collect() });
        assert_eq!(form(bench), COLUMNS);
    }
    let all: Vec<_> = benches.iter().map(data).collect();
    answer(&mut benches, &all);
    for bench in &benches {
        for rank in 0..2 {
            let found = bench.engine.nspaces[&other].visible.get(Rank(rank), b"address");
            assert_eq!(found, Some(&address(rank, 1)));
        }
    }
    let both = vec![everybody().remove(0), Proc::new(other.clone(), Rank::WILDCARD)];
    for (node, bench) in benches.iter_mut().enumerate() {
        for rank in bench.local_ranks(node, RANKS) {
            bench.fence(rank, 20, both.clone(), collect());
        }
        let payload = Request::Fence { procs: both.clone(), infos: collect() }.encode(PLAIN, Version::OURS).unwrap();
        bench.engine.message(PeerId(900), 20, payload, bench.now);
        bench.drain();
        assert_eq!(form(bench), COLUMNS);
    }
    let all: Vec<_> = benches.iter().map(data).collect();
    answer(&mut benches, &all);
    assert!(benches.iter_mut().all(|bench| statuses(bench, 10) == [Some(Status::SUCCESS); 3]));
}

/// A node whose processes have all ended contributes nothing.
#[test]
fn a_fence_without_the_contribution_of_a_node_decides_nothing() {
    let mut benches = servers(4);
    enter(&mut benches, &everybody(), 0);
    let all: Vec<_> = benches[..3].iter().map(data).collect();
    answer(&mut benches, &all);
    assert_eq!(round(&mut benches, &everybody(), 1), [ANNOUNCES; 4]);
    assert_eq!(round(&mut benches, &everybody(), 2), [COLUMNS; 4]);
}

#[test]
fn contributions_that_are_not_those_of_the_nodes_agree_on_nothing() {
    // Twice one node, without another one; one more than there are nodes.
    for picked in [&[0, 1, 2, 2][..], &[0, 1, 2, 3, 3]] {
        let mut benches = servers(4);
        enter(&mut benches, &everybody(), 0);
        let all: Vec<_> = picked.iter().map(|node| data(&benches[*node])).collect();
        answer(&mut benches, &all);
        assert_eq!(round(&mut benches, &everybody(), 1), [ANNOUNCES; 4], "{picked:?}");
    }
}

/// Ranks that have put nothing since, on some nodes or on all.
#[test]
fn contributions_without_values_have_columns_as_well() {
    let mut benches = servers(2);
    round(&mut benches, &everybody(), 0);
    for tag in [20, 21] {
        for (node, bench) in benches.iter_mut().enumerate() {
            let ranks = bench.local_ranks(node, RANKS);
            ranks.for_each(|rank| bench.fence(rank, tag, everybody(), collect()));
            assert_eq!((form(bench), data(bench).len()), (COLUMNS, 7));
        }
        let all: Vec<_> = benches.iter().map(data).collect();
        answer(&mut benches, &all);
        assert!(benches.iter_mut().all(|bench| statuses(bench, tag as u8 - 10) == [Some(Status::SUCCESS); 3]));
    }
    assert_eq!(round(&mut benches, &everybody(), 1), [COLUMNS; 2]);
}

/// A server that gives a fence up does not learn what the others conclude from it.
#[test]
fn a_server_that_gave_the_first_fence_up_announces_again() {
    let mut benches = servers(2);
    let limit = [collect(), vec![Info::new(keys::TIMEOUT, Value::Int32(1))]].concat();
    for rank in 0..3 {
        benches[0].fence(rank, 10, everybody(), limit.clone());
    }
    enter(&mut benches[1..], &everybody(), 0);
    let all: Vec<_> = benches.iter().map(data).collect();
    benches[0].pass(Duration::from_secs(2));
    assert_eq!(statuses(&mut benches[0], 0), [Some(Status::ERR_TIMEOUT); 3]);
    answer(&mut benches, &all);
    assert_eq!(statuses(&mut benches[1], 0), [Some(Status::SUCCESS); 3]);
    assert_eq!(round(&mut benches, &everybody(), 1), [ANNOUNCES, COLUMNS]);
    assert_eq!(round(&mut benches, &everybody(), 2), [COLUMNS; 2]);
}

#[test]
fn columns_that_cannot_be_read_fail_the_fence() {
    let mut benches = servers(2);
    round(&mut benches, &everybody(), 0);
    enter(&mut benches, &everybody(), 1);
    let mut all: Vec<_> = benches.iter().map(data).collect();
    let last = all[1].len() - 1;
    all[1].truncate(last);
    all[1][1] -= 2;
    answer(&mut benches[..1], &all);
    assert_eq!(statuses(&mut benches[0], 1), [Some(Status::ERR_UNPACK_FAILURE); 3]);
    assert!(benches[0].log[0].starts_with("a fence brought"), "{:?}", benches[0].log);
    // The others' values are asked for again, or exchanged by the next fence.
    assert_eq!(benches[0].engine.nspaces[&nspace()].visible.get(Rank(3), b"address"), Some(&address(3, 0)));
}

/// Fences of many sets of nodes: the oldest is forgotten and begins anew.
#[test]
fn sets_of_nodes_are_remembered_up_to_a_limit() {
    let mut sets = crate::engine::forms::Sets::default();
    let set = |number: usize| vec![b"first".to_vec(), format!("n{number}").into_bytes()];
    for number in 0..=64 {
        sets.set(set(number), true);
    }
    let get = |number| sets.get(&set(number).iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!((get(0), get(1), get(64)), (None, Some(true), Some(true)));
    let many: Vec<_> = (0..1 << 16).map(|number: u32| number.to_be_bytes().to_vec()).collect();
    sets.set(many.clone(), false);
    let names: Vec<_> = many.iter().map(Vec::as_slice).collect();
    assert_eq!(sets.get(&names), Some(false));
    sets.set(set(1), true);
    assert_eq!(sets.get(&names), None);
    sets.set([many, set(2)].concat(), true);
    assert_eq!(sets.len(), 0, "more nodes than are remembered");
}

/// Slurm's mark is a value, which columns would not have in its place.
#[test]
fn slurms_mark_goes_before_the_announcement_and_columns_follow() {
    JOB.set("slurm.pmix.7.0");
    let mut benches = servers(2);
    enter(&mut benches, &everybody(), 0);
    let keys: Vec<_> = read(&data(&benches[1])).ranks[0].1.iter().map(|kval| kval.key.to_string()).collect();
    assert_eq!(keys, [crate::engine::slurm::MARK, MARK, "address"]);
    let all: Vec<_> = benches.iter().map(data).collect();
    answer(&mut benches, &all);
    assert_brought(&mut benches, 0);
    assert!(benches.iter().all(|bench| bench.engine.nspaces[&nspace()].agreement == Agreement::Reached));
    assert_eq!(round(&mut benches, &everybody(), 1), [COLUMNS; 2]);
}
