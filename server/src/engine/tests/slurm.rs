//! Fences without data under Slurm: when its plugin is asked for them as for fences with data.

use super::*;
use crate::engine::slurm::MARK;

/// Two servers of a step, on nodes of their own.
fn servers() -> (Bench, Bench) {
    JOB.set("slurm.pmix.1.0");
    (Bench::new(0, 2, 1), Bench::new(1, 2, 1))
}

/// All ranks of both servers, of which each has one, enter a fence.
fn enter(a: &mut Bench, b: &mut Bench, tag: u32, procs: &[Proc], infos: &[Info]) {
    a.fence(0, tag, procs.to_vec(), infos.to_vec());
    b.fence(1, tag, procs.to_vec(), infos.to_vec());
}

fn assert_over(a: &mut Bench, b: &mut Bench, tag: u32) {
    assert_eq!((a.status(0, tag), b.status(1, tag)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
}

/// Whether the last upcall, a fence without data, requests Slurm's ring: it has the attribute, and the bytes of an empty
/// contribution. Otherwise it must have neither.
fn asks_for_ring(bench: &Bench) -> bool {
    let Upcall::Fence { data, infos, .. } = &bench.upcalls.last().expect("a fence at the host").1 else {
        panic!("no fence")
    };
    let bytes = data.clone().into_bytes().unwrap();
    let contributions = blob::decode_fence(EXCHANGE, &bytes).unwrap();
    let asks = infos.iter().filter(|info| info.key.is(keys::COLLECT_DATA)).count() == 1;
    assert!(contributions.iter().all(|contribution| contribution.collected && contribution.ranks.is_empty()));
    assert_eq!(contributions.len(), usize::from(asks), "{infos:?}");
    asks && Info::is_set(infos, keys::COLLECT_DATA)
}

/// The contributions of both servers to a fence, the second one as a server of another library.
fn without_mark(a: &Bench, b: &Bench) -> Vec<u8> {
    let mut all = blob::decode_fence(EXCHANGE, &contributions(a, b)).unwrap();
    let (_, values) = all[1].ranks.first_mut().expect("a mark");
    assert!(values.remove(0).key.is(MARK));
    all.iter().flat_map(|contribution| contribution.encode_again(EXCHANGE).unwrap()).collect()
}

#[test]
fn slurm_is_asked_as_for_data_once_all_servers_have_said_that_they_do_so() {
    let (mut a, mut b) = servers();
    // Nothing is known of the other server yet.
    enter(&mut a, &mut b, 10, &everybody(), &[]);
    assert!(!asks_for_ring(&a) && !asks_for_ring(&b));
    exchange(&mut a, &mut b);
    a.put(0, 3, "k", 7);
    enter(&mut a, &mut b, 11, &everybody(), &collect());
    // Rank 1 has put nothing; its server marks its contribution nevertheless.
    assert_eq!((contributed(&a), contributed(&b)), (vec![MARK.to_owned(), "k".into()], vec![MARK.to_owned()]));
    exchange(&mut a, &mut b);
    assert_over(&mut a, &mut b, 11);
    let now = || vec![Info::new(keys::IMMEDIATE, Value::Bool(true))];
    b.get(1, 20, 0, "k", now());
    assert_eq!(b.value(1, 20, "k"), Some(Ok(7)));
    // The mark is not visible as a value.
    b.get(1, 21, 0, MARK, now());
    a.get(0, 21, 1, MARK, now());
    assert_eq!(
        (b.value(1, 21, MARK), a.value(0, 21, MARK)),
        (Some(Err(Status::ERR_NOT_FOUND)), Some(Err(Status::ERR_NOT_FOUND)))
    );
    // From now on; also if the ranks explicitly collect no data. Fences of a list of ranks have no common order with these.
    let refused = vec![Info::new(keys::COLLECT_DATA, Value::Bool(false))];
    let listed = vec![proc(0), proc(1)];
    for (tag, procs, infos, expected) in
        [(12, everybody(), vec![], true), (13, listed, vec![], false), (14, everybody(), refused, true)]
    {
        enter(&mut a, &mut b, tag, &procs, &infos);
        assert_eq!((asks_for_ring(&a), asks_for_ring(&b)), (expected, expected), "{procs:?} {infos:?}");
        exchange(&mut a, &mut b);
        assert_over(&mut a, &mut b, tag);
    }
    // Only one fence is marked.
    a.put(0, 3, "k", 8);
    enter(&mut a, &mut b, 15, &everybody(), &collect());
    assert_eq!(contributed(&a), ["k"]);
    exchange(&mut a, &mut b);
    assert_over(&mut a, &mut b, 15);
}

#[test]
fn slurm_is_asked_for_the_tree_where_a_server_is_of_another_library() {
    let (mut a, mut b) = servers();
    enter(&mut a, &mut b, 10, &everybody(), &collect());
    let all = without_mark(&a, &b);
    a.answer_last(UpcallResult::Data(Status::SUCCESS, all.clone().into()));
    b.answer_last(UpcallResult::Data(Status::SUCCESS, all.into()));
    assert_over(&mut a, &mut b, 10);
    for tag in [11, 12] {
        enter(&mut a, &mut b, tag, &everybody(), &[]);
        assert!(!asks_for_ring(&a) && !asks_for_ring(&b));
        exchange(&mut a, &mut b);
        // No server marks a second fence.
        enter(&mut a, &mut b, tag + 10, &everybody(), &collect());
        assert_eq!((contributed(&a), contributed(&b)), (Vec::new(), Vec::new()));
        exchange(&mut a, &mut b);
    }
    // A server without a contribution in the host's answer has not agreed.
    let (mut a, mut b) = servers();
    enter(&mut a, &mut b, 10, &everybody(), &collect());
    let all = contributions(&a, &b);
    a.answer_last(UpcallResult::Data(Status::SUCCESS, all[..all.len() / 2].to_vec().into()));
    enter(&mut a, &mut b, 11, &everybody(), &[]);
    assert!(!asks_for_ring(&a));
}

#[test]
fn a_fence_behind_the_marked_one_is_asked_for_when_that_is_over() {
    for (answers, expected) in [(true, true), (false, false)] {
        let (mut a, mut b) = servers();
        enter(&mut a, &mut b, 10, &everybody(), &collect());
        enter(&mut a, &mut b, 11, &everybody(), &[]);
        enter(&mut a, &mut b, 12, &everybody(), &[]);
        // Fences of other participants wait for nothing.
        a.fence(0, 13, vec![proc(0), proc(1)], Vec::new());
        assert!(!asks_for_ring(&a));
        a.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
        assert_eq!((a.upcalls.len(), b.upcalls.len()), (1, 1), "what follows waits");
        if answers {
            exchange(&mut a, &mut b);
        } else {
            a.answer_last(UpcallResult::Op(Status::ERR_TIMEOUT));
            b.answer_last(UpcallResult::Op(Status::ERR_TIMEOUT));
        }
        assert_eq!((a.upcalls.len(), b.upcalls.len()), (2, 2), "all that follows is asked for");
        for tag in [12, 11] {
            assert_eq!((asks_for_ring(&a), asks_for_ring(&b)), (expected, expected));
            a.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
            b.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
            assert_over(&mut a, &mut b, tag);
        }
    }
}

/// A server whose ranks give up a fence does not learn from it that the others agree.
#[test]
fn a_fence_with_a_time_out_is_not_the_marked_one() {
    let (mut a, mut b) = servers();
    let hasty = [collect(), vec![Info::new(keys::TIMEOUT, Value::Int(5))]].concat();
    // On one node only, so that the other server marks it.
    a.fence(0, 10, everybody(), hasty);
    b.fence(1, 10, everybody(), collect());
    assert_eq!((contributed(&a), contributed(&b)), (vec![], vec![MARK.to_owned()]));
    let all = contributions(&a, &b);
    b.answer_last(UpcallResult::Data(Status::SUCCESS, all.into()));
    a.pass(Duration::from_secs(6));
    assert_eq!((a.status(0, 10), b.status(1, 10)), (Some(Status::ERR_TIMEOUT), Some(Status::SUCCESS)));
    a.upcalls.clear();
    for (tag, infos) in [(11, vec![]), (12, collect()), (13, vec![])] {
        enter(&mut a, &mut b, tag, &everybody(), &infos);
        if infos.is_empty() {
            assert_eq!((asks_for_ring(&a), asks_for_ring(&b)), (false, false), "both ask for the same");
        }
        exchange(&mut a, &mut b);
        assert_over(&mut a, &mut b, tag);
    }
    // If the first fences have time limits, the next one without is marked.
    let (mut a, mut b) = servers();
    let hasty = [collect(), vec![Info::new(keys::TIMEOUT, Value::Int(5))]].concat();
    for (tag, infos, ring) in [(10, hasty, false), (11, vec![], false), (12, collect(), false), (13, vec![], true)] {
        enter(&mut a, &mut b, tag, &everybody(), &infos);
        if infos.is_empty() {
            assert_eq!((asks_for_ring(&a), asks_for_ring(&b)), (ring, ring));
        }
        exchange(&mut a, &mut b);
        assert_over(&mut a, &mut b, tag);
    }
}

#[test]
fn the_administrator_says_that_all_servers_are_of_this_library_or_that_slurm_is_left_alone() {
    for (setting, expected) in [(SlurmFence::Always, true), (SlurmFence::Never, false)] {
        let (mut a, mut b) = servers();
        (a.engine.config.slurm_fence, b.engine.config.slurm_fence) = (setting, setting);
        for tag in [10, 11] {
            enter(&mut a, &mut b, tag, &everybody(), &[]);
            assert_eq!((asks_for_ring(&a), asks_for_ring(&b)), (expected, expected), "{setting:?}");
            exchange(&mut a, &mut b);
            assert_over(&mut a, &mut b, tag);
            enter(&mut a, &mut b, tag + 10, &everybody(), &collect());
            // Servers without the setting learn of it from the others' marks, too.
            let is_marked = setting == SlurmFence::Always && tag == 10;
            assert_eq!(contributed(&a).contains(&MARK.to_owned()), is_marked, "{setting:?}");
            exchange(&mut a, &mut b);
        }
    }
}

#[test]
fn other_hosts_are_asked_as_ever() {
    for name in ["job", "slurm.pmi2.1.0", "prterun-n0-1@1"] {
        JOB.set(name);
        let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
        for bench in [&mut a, &mut b] {
            bench.engine.config.slurm_fence = SlurmFence::Always;
        }
        enter(&mut a, &mut b, 10, &everybody(), &collect());
        assert_eq!(contributed(&a), [""; 0]);
        enter(&mut a, &mut b, 11, &everybody(), &[]);
        assert!(!asks_for_ring(&a) && !asks_for_ring(&b), "{name}: nothing waits, nothing is added");
    }
}
