//! Servers of other libraries among those of a PRRTE job are noticed.

use super::*;

/// Two servers of a job, on nodes of their own, with the stock library beside this one if `has_stock`.
fn servers(has_stock: bool) -> (Bench, Bench) {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let release = has_stock.then_some(5);
    (a.engine.config.stock_release, b.engine.config.stock_release) = (release, release);
    (a, b)
}

/// All ranks put a value and enter a fence that collects data.
fn enter(a: &mut Bench, b: &mut Bench, tag: u32) {
    for (bench, rank) in [(&mut *a, 0), (&mut *b, 1)] {
        bench.put(rank, 3, "k", tag);
        bench.fence(rank, tag, everybody(), collect());
    }
}

/// The contributions of both servers to a fence, those of `other` as a server of another library makes them.
fn without_mark(a: &Bench, b: &Bench, other: usize) -> Vec<u8> {
    let mut all = blob::decode_fence(EXCHANGE, &contributions(a, b)).unwrap();
    let (_, values) = all[other].ranks.first_mut().expect("a mark");
    assert!(values.remove(0).key.is(MARK));
    all.iter().flat_map(|contribution| contribution.encode_again(EXCHANGE).unwrap()).collect()
}

fn answer(a: &mut Bench, b: &mut Bench, all: &[u8]) {
    for bench in [a, b] {
        bench.answer_last(UpcallResult::Data(Status::SUCCESS, all.to_vec().into()));
    }
}

#[test]
fn nothing_is_said_where_all_servers_are_ours() {
    let (mut a, mut b) = servers(true);
    enter(&mut a, &mut b, 10);
    assert_eq!(marked(&b), [MARK, "k"]);
    exchange(&mut a, &mut b);
    // Values arrive, the mark is none of them.
    a.get(0, 20, 1, "k", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    a.get(0, 21, 1, MARK, vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!((a.value(0, 20, "k"), a.value(0, 21, MARK)), (Some(Ok(10)), Some(Err(Status::ERR_NOT_FOUND))));
    // One fence is marked: the form of later ones says the same.
    enter(&mut a, &mut b, 11);
    assert_eq!(marked(&b), ["k"]);
    exchange(&mut a, &mut b);
    assert!(a.log.is_empty() && b.log.is_empty(), "{:?} {:?}", a.log, b.log);
}

#[test]
fn one_of_our_servers_names_the_host_of_another_library_once() {
    let (mut a, mut b) = servers(true);
    enter(&mut a, &mut b, 10);
    let all = without_mark(&a, &b, 1);
    answer(&mut a, &mut b, &all);
    // Here b stands for the stock server, which says nothing.
    let expected =
        "job: the stock library serves on nodeB; is PRTE_MCA_plm_ssh_pass_libpath set, and its directory there?";
    assert_eq!((a.log.as_slice(), b.log.len()), ([expected.to_owned()].as_slice(), 0));
    // A server of ours speaks on whatever host it is.
    let (mut a, mut b) = servers(true);
    enter(&mut a, &mut b, 10);
    let all = without_mark(&a, &b, 0);
    answer(&mut a, &mut b, &all);
    assert_eq!((a.log.len(), b.log.len()), (0, 1));
    assert!(b.log[0].contains("serves on nodeA;"), "{:?}", b.log);
    enter(&mut a, &mut b, 11);
    exchange(&mut a, &mut b);
    assert_eq!((a.log.len(), b.log.len()), (0, 1));
}

/// The gateway's stderr is what users see.
#[test]
fn the_gateway_names_the_host_as_well() {
    let (mut a, mut b) = servers(true);
    b.engine.config.is_gateway = true;
    enter(&mut a, &mut b, 10);
    let mut all = blob::decode_fence(EXCHANGE, &contributions(&a, &b)).unwrap();
    // A third server's ranks are those of nodeA.
    let mut other = all[0].clone();
    assert!(other.ranks[0].1.remove(0).key.is(MARK));
    all.push(other);
    let all: Vec<u8> = all.iter().flat_map(|contribution| contribution.encode_again(EXCHANGE).unwrap()).collect();
    answer(&mut a, &mut b, &all);
    assert_eq!((a.log.len(), b.log.len()), (1, 1), "{:?} {:?}", a.log, b.log);
}

/// The keys of rank 1's contribution to the last fence, with the marks.
fn marked(b: &Bench) -> Vec<String> {
    marked_contribution(b).iter().map(|kval| kval.key.to_string()).collect()
}

/// Asserts that nobody is named when the fence ends in which all ranks are, the contribution of b being another library's.
fn assert_nobody_named(a: &mut Bench, b: &mut Bench) {
    let all = without_mark(a, b, 1);
    answer(a, b, &all);
    assert!(a.log.is_empty() && b.log.is_empty(), "{:?} {:?}", a.log, b.log);
}

#[test]
fn servers_without_the_stock_library_beside_them_name_nobody() {
    let (mut a, mut b) = servers(false);
    enter(&mut a, &mut b, 10);
    assert_nobody_named(&mut a, &mut b);
}

/// A fence of listed ranks has no common order with the first one of the namespace.
#[test]
fn after_fences_of_listed_ranks_nobody_is_named() {
    let (mut a, mut b) = servers(true);
    a.put(0, 3, "k", 10);
    b.put(1, 3, "k", 10);
    a.fence(0, 10, vec![proc(0), proc(1)], collect());
    b.fence(1, 10, vec![proc(0), proc(1)], collect());
    assert_nobody_named(&mut a, &mut b);
}

/// One server alone may have a time limit, of its own ranks.
#[test]
fn a_fence_with_a_time_limit_is_marked() {
    let (mut a, mut b) = servers(true);
    let limit = Info::new(keys::TIMEOUT, Value::Int32(60));
    a.fence(0, 10, everybody(), [collect(), vec![limit]].concat());
    b.fence(1, 10, everybody(), collect());
    assert_eq!((marked(&a), marked(&b)), (vec![MARK.to_owned()], vec![MARK.to_owned()]));
    exchange(&mut a, &mut b);
    assert!(a.log.is_empty() && b.log.is_empty(), "{:?} {:?}", a.log, b.log);
}

/// The key of the mark is a program's own in any other fence.
#[test]
fn a_program_may_use_the_key() {
    let (mut a, mut b) = servers(true);
    enter(&mut a, &mut b, 10);
    exchange(&mut a, &mut b);
    b.put(1, 3, MARK, 7);
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        bench.fence(rank, 11, everybody(), collect());
    }
    exchange(&mut a, &mut b);
    a.get(0, 20, 1, MARK, vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(a.value(0, 20, MARK), Some(Ok(7)));
    assert!(a.log.is_empty() && b.log.is_empty(), "{:?} {:?}", a.log, b.log);
}

/// Servers of ours from before the announcement mark by another value, and only for this purpose.
#[test]
fn an_older_server_of_ours_is_not_named() {
    let (mut a, mut b) = servers(true);
    enter(&mut a, &mut b, 10);
    let mut all = blob::decode_fence(EXCHANGE, &contributions(&a, &b)).unwrap();
    all[1].ranks[0].1[0].value = Value::Bool(true);
    let all: Vec<u8> = all.iter().flat_map(|contribution| contribution.encode_again(EXCHANGE).unwrap()).collect();
    answer(&mut a, &mut b, &all);
    assert!(a.log.is_empty() && b.log.is_empty(), "{:?} {:?}", a.log, b.log);
    assert_eq!(a.engine.nspaces[&nspace()].visible.get(Rank(1), MARK.as_bytes()), None);
    // It does not read columns.
    enter(&mut a, &mut b, 11);
    assert_eq!(
        blob::decode_fence(EXCHANGE, &contributions(&a, &b)).unwrap()[0].form,
        blob::Form::Relative { key_map: false }
    );
}

/// Ranks that give up a fence before the host has heard of it begin it again.
#[test]
fn a_first_fence_that_timed_out_is_marked_again() {
    let mut bench = Bench::new(0, 2, 2);
    bench.engine.config.stock_release = Some(5);
    bench.put(0, 3, "k", 1);
    let limit = Info::new(keys::TIMEOUT, Value::Int32(1));
    bench.fence(0, 10, everybody(), [collect(), vec![limit]].concat());
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.status(0, 10), Some(Status::ERR_TIMEOUT));
    for (rank, tag) in [(0, 11), (1, 12)] {
        bench.fence(rank, tag, everybody(), collect());
    }
    assert_eq!(marked(&bench), [MARK, "k"]);
}
