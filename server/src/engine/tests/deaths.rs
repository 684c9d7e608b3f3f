//! Lost processes, and requests that wait for them.

use super::*;

#[test]
fn a_rank_that_dies_in_a_fence_releases_the_others() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    bench.lose(2);
    for rank in 0..2 {
        let status = bench.status(rank, 10).expect("released");
        assert_eq!(status, Status::ERR_PARTIAL_SUCCESS);
    }
    assert!(bench.log.iter().any(|line| line.contains("job:2")), "{:?}", bench.log);
}

#[test]
fn a_rank_that_entered_and_died_does_not_count_for_another() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.lose(0);
    bench.fence(1, 10, everybody(), Vec::new());
    assert_eq!(bench.status(1, 10), None, "rank 2 is still to come");
    bench.fence(2, 10, everybody(), Vec::new());
    assert_eq!(bench.status(1, 10), Some(Status::ERR_PARTIAL_SUCCESS));
}

#[test]
fn a_rank_that_dies_while_its_fence_is_at_the_host_changes_nothing_for_the_others() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    for (bench, ranks) in [(&mut a, [0, 1]), (&mut b, [2, 3])] {
        for rank in ranks {
            bench.put(rank, 3, "key", rank);
            bench.fence(rank, 10, everybody(), collect());
        }
    }
    a.lose(1);
    exchange(&mut a, &mut b);
    // All had entered; its values are there.
    let told = [a.status(0, 10), b.status(2, 10), b.status(3, 10)];
    assert_eq!(told, [Some(Status::SUCCESS); 3]);
    b.get(2, 20, 1, "key", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(b.value(2, 20, "key"), Some(Ok(1)));
    // The next fence goes to the host without it and with this information; the host decides.
    a.fence(0, 11, everybody(), Vec::new());
    let Some((_, Upcall::Fence { infos, .. })) = a.upcalls.last() else { panic!("a fence for the host") };
    let told = Info::find(infos, keys::LOCAL_COLLECTIVE_STATUS);
    assert_eq!(told, Some(&Value::Status(Status::ERR_PARTIAL_SUCCESS)));
    a.answer_last(UpcallResult::Data(Status::ERR_TIMEOUT, Bytes::default()));
    assert_eq!(a.status(0, 11), Some(Status::ERR_TIMEOUT));
}

#[test]
fn a_rank_that_the_host_knows_to_be_dead_does_not_count_for_another() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    // The host reports the process's end before its connection closes, and before the server has read all its messages.
    bench.engine.deregister_client(&proc(1));
    bench.drain();
    assert_eq!(bench.status(1, 10), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(bench.status(0, 10), None, "rank 2 is still to come");
    bench.fence(1, 11, everybody(), Vec::new());
    assert_eq!(bench.status(1, 11), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(bench.status(0, 10), None, "rank 2 is still to come");
    bench.fence(2, 10, everybody(), Vec::new());
    for rank in [0, 2] {
        assert_eq!(bench.status(rank, 10), Some(Status::ERR_PARTIAL_SUCCESS));
    }
}

/// Puts, fences, gets and deaths in an order that a seed determines: no living process waits for ever.
#[test]
fn no_order_of_deaths_leaves_anybody_waiting() {
    for seed in 0..500_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % u64::from(below)) as u32
        };
        let mut bench = Bench::new(0, 1, 4);
        let mut alive = [true; 4];
        let mut waiting: Vec<(u32, u32)> = Vec::new();
        for tag in 1000..1040 {
            let rank = random(4);
            if !alive[rank as usize] || waiting.iter().any(|(waiter, _)| *waiter == rank) {
                continue;
            }
            match random(8) {
                0 => {
                    alive[rank as usize] = false;
                    bench.lose(rank);
                }
                1..=3 => {
                    bench.fence(rank, tag, everybody(), Vec::new());
                    waiting.push((rank, tag));
                }
                4 | 5 => bench.put(rank, 3, "key", tag),
                _ => {
                    bench.get(rank, tag, random(4), "key", Vec::new());
                    waiting.push((rank, tag));
                }
            }
            waiting.retain(|(rank, tag)| bench.reply(*rank, *tag).is_none());
        }
        for rank in 0..4 {
            if alive[rank as usize] && !waiting.iter().any(|(waiter, _)| *waiter == rank) {
                bench.lose(rank);
                alive[rank as usize] = false;
            }
        }
        bench.pass(Duration::from_secs(3));
        waiting.retain(|(rank, tag)| bench.reply(*rank, *tag).is_none());
        // The remaining ones may wait for each other: a fence for a Get, the Get for a commit that cannot come.
        for (rank, _) in waiting.clone() {
            bench.lose(rank);
            waiting.retain(|(rank, tag)| bench.reply(*rank, *tag).is_none());
        }
        assert!(bench.engine.collectives.is_empty(), "seed {seed}: a fence is left over");
        assert!(bench.engine.gets.deadline().is_none(), "seed {seed}: a Get is left over");
    }
}

#[test]
fn a_lost_client_is_the_hosts_news_and_not_the_other_clients() {
    let mut bench = Bench::new(0, 1, 2);
    let register = Request::RegisterEvents { codes: Vec::new(), infos: Vec::new() };
    bench.request(1, 10, register.clone());
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    let told = |bench: &Bench| {
        let told = |(to, tag, _): &&(PeerId, u32, Vec<u8>)| (*to, *tag) == (PeerId::OWN, TAG_NOTIFY);
        bench.sent.iter().filter(told).count()
    };
    bench.lose(0);
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 0, "the host is given time to see by itself how the process ended");
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 1);
    bench.pass(LOSS_DELAY);
    assert_eq!((told(&bench), bench.engine.deadline()), (1, None));
    assert!(bench.reply(1, TAG_NOTIFY).is_none(), "applications abort when they hear of it");
    // Nothing follows the last one.
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    bench.lose(0);
    bench.lose(1);
    bench.pass(Duration::ZERO);
    assert_eq!((told(&bench), bench.engine.deadline()), (2, None));
    // Unless that one has finalized: it is about to end.
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    bench.lose(0);
    bench.request(1, 11, Request::Finalize);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    bench.lose(1);
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 0);
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 1);
    bench.pass(RETURN_DELAY);
    assert_eq!((told(&bench), bench.engine.deadline()), (1, None));
    // Nothing is kept of a job that is over.
    let mut bench = Bench::new(0, 1, 2);
    bench.connect(0);
    bench.lose(0);
    assert!(bench.engine.deadline().is_some());
    bench.deregister_nspace(&nspace());
    assert_eq!(bench.engine.deadline(), None);
}

#[test]
fn the_end_of_processes_is_no_news_once_one_has_asked_for_it() {
    let abort = |procs| Request::Abort { status: Status::ERROR, message: None, procs };
    for (procs, lines) in [(vec![], 0), (everybody(), 0), (vec![proc(1)], 2)] {
        let mut bench = Bench::new(0, 1, 3);
        bench.fence(0, 10, everybody(), Vec::new());
        bench.request(1, 11, abort(procs));
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        bench.lose(1);
        bench.pass(LOSS_DELAY);
        // The connection, and the fence that waits for it.
        assert_eq!(bench.log.len(), lines, "{:?}", bench.log);
    }
}

#[test]
fn a_job_that_is_ended_by_force_does_not_fill_the_log() {
    let mut bench = Bench::new(0, 1, 100);
    let all: Vec<Proc> = (0..100).map(proc).collect();
    bench.fence(0, 10, all, Vec::new());
    (1..100).for_each(|rank| bench.lose(rank));
    assert_eq!(bench.status(0, 10), Some(Status::ERR_PARTIAL_SUCCESS));
    assert!(bench.log.iter().all(|line| line.len() < 300), "{:?}", bench.log);
    assert!(bench.log[0].contains("job:1"));
    bench.pass(LOSS_DELAY);
    let lost = "lost the connections to 99 processes of job job before they called finalize: ranks 1-99";
    assert_eq!(bench.log[1..], [lost]);
}

#[test]
fn lost_processes_are_named_also_where_the_job_is_deregistered_at_once() {
    let mut bench = Bench::new(0, 1, 30);
    (0..30).step_by(2).for_each(|rank| bench.lose(rank));
    bench.deregister_nspace(&nspace());
    bench.drain();
    let lost =
        "lost the connections to 15 processes of job job before they called finalize: ranks 0,2,4,6,8,10,12,14,...";
    assert_eq!(bench.log, [lost]);
}
