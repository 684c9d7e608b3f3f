//! Fences: participants, exchanged values, completion.

use super::*;

#[test]
fn a_fence_of_one_node_makes_no_upcall() {
    let mut bench = Bench::new(0, 1, 3);
    for rank in 0..3 {
        assert_eq!(bench.status(0, 10), None);
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    for rank in 0..3 {
        assert_eq!(bench.status(rank, 10), Some(Status::SUCCESS));
    }
    assert!(bench.upcalls.is_empty());
}

#[test]
fn a_rank_that_runs_ahead_enters_the_next_fence() {
    let mut bench = Bench::new(0, 2, 2);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(0, 11, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    assert_eq!(bench.upcalls.len(), 1, "the second fence lacks rank 1");
    bench.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(1, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(0, 11), None);
}

#[test]
fn fences_of_other_participants_are_other_fences() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, vec![proc(0), proc(1)], Vec::new());
    bench.fence(2, 10, everybody(), Vec::new());
    bench.fence(1, 10, vec![proc(1), proc(0)], Vec::new());
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(1, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(2, 10), None);
    bench.fence(1, 11, vec![proc(0), proc(2)], Vec::new());
    assert_eq!(bench.status(1, 11), Some(Status::SUCCESS), "rank 1 is not in it, and is let through");
    bench.fence(0, 12, vec![proc(0), proc(2)], Vec::new());
    assert_eq!(bench.status(0, 12), None, "nobody stands in for rank 2");
    bench.fence(2, 12, vec![proc(0), proc(2)], Vec::new());
    assert_eq!((bench.status(0, 12), bench.status(2, 12)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.request(1, 13, Request::Connect { procs: vec![proc(0), proc(2)], infos: Vec::new(), extra: Vec::new() });
    assert_eq!(bench.status(1, 13), Some(Status::ERR_BAD_PARAM), "as little can be told of a connect");
}

#[test]
fn a_collecting_fence_brings_other_nodes_values_by_scope() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        bench.put(rank, 1, "local", rank);
        bench.put(rank, 2, "remote", rank + 10);
        bench.put(rank, 3, "global", rank + 20);
        bench.fence(rank, 10, everybody(), collect());
    }
    exchange(&mut a, &mut b);
    assert_eq!(a.status(0, 10), Some(Status::SUCCESS));
    let now = vec![Info::new(keys::IMMEDIATE, Value::Bool(true))];
    for (of, key, expected) in [
        (1, "global", Ok(21)),
        (1, "remote", Ok(11)),
        (1, "local", Err(Status::ERR_NOT_FOUND)),
        (0, "global", Ok(20)),
        (0, "local", Ok(0)),
        (0, "remote", Err(Status::ERR_NOT_FOUND)),
    ] {
        a.get(0, 20, of, key, now.clone());
        assert_eq!(a.value(0, 20, key), Some(expected), "{key} of rank {of}");
    }
}

#[test]
fn a_fence_reads_what_follows_an_empty_envelope_of_the_hosts() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        bench.put(rank, 3, "global", rank + 20);
        bench.fence(rank, 10, everybody(), collect());
    }
    let mut envelope = pmix_dstore::codec::Packer::new(EXCHANGE);
    envelope.byte_object(&[]).unwrap();
    let all = [envelope.into_bytes(), contributions(&a, &b)].concat();
    a.answer_last(UpcallResult::Data(Status::SUCCESS, all.into()));
    assert_eq!(a.status(0, 10), Some(Status::SUCCESS));
    a.get(0, 20, 1, "global", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(a.value(0, 20, "global"), Some(Ok(21)));
}

#[test]
fn large_values_stay_in_the_messages_that_brought_them() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let value = |byte| Value::ByteObject(vec![byte; 5000].into());
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        let kvals = (0..3).map(|n| Kval { key: Key::new(format!("k{n}")).unwrap(), value: value(n) }).collect();
        bench.request(rank, 9, Request::Commit { parts: vec![(3, kvals)] });
        bench.fence(rank, 10, everybody(), collect());
    }
    let Upcall::Fence { data, .. } = &b.upcalls.last().expect("a fence at the host").1 else { panic!("no fence") };
    assert_eq!(data.shared_len(), 3 * 5000, "the contribution means what the commit brought");
    exchange(&mut a, &mut b);
    assert_eq!(a.status(0, 10), Some(Status::SUCCESS));
    for rank in [0, 1] {
        let state = &a.engine.nspaces[&nspace()];
        let parts: Vec<_> = (0..3)
            .map(|n| match state.visible.get(Rank(rank), format!("k{n}").as_bytes()) {
                Some(Value::ByteObject(bytes)) => bytes.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!((0..3).all(|n| *parts[n] == [n as u8; 5000]), "rank {rank}");
        let whole = |n: usize| parts[n].backing().expect("a part of a message").as_ptr();
        assert!(whole(0) == whole(1) && whole(1) == whole(2), "all in the message of rank {rank}");
    }
}

/// A host may accept nothing new before it has its memory back, so the values are copied; with shared memory, too, because another
/// process may truncate the file.
#[test]
fn host_buffers_are_released_before_the_reply_is_sent() {
    struct Lent(Vec<u8>, #[expect(dead_code, reason = "it is counted")] Arc<()>);
    impl AsRef<[u8]> for Lent {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let directory = tempfile::tempdir().unwrap();
    for directory in [None, Some(directory.path())] {
        let (mut a, mut b) = (Bench::in_directory(0, 2, 1, directory), Bench::new(1, 2, 1));
        a.register_client(&proc(0), 1000, 1000, 0);
        a.connect(0);
        for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
            let kvals = (0..3).map(|n| {
                let bytes = vec![n | rank << 4; 1024 + usize::from(n)];
                Kval { key: Key::new(format!("k{n}")).unwrap(), value: Value::ByteObject(bytes.into()) }
            });
            bench.request(rank.into(), 9, Request::Commit { parts: vec![(3, kvals.collect())] });
            bench.fence(rank.into(), 10, everybody(), collect());
        }
        let lent = Arc::new(());
        let all = contributions(&a, &b);
        let (id, _) = a.upcalls.pop().expect("a fence at the host");
        a.engine.answer(id, UpcallResult::Data(Status::SUCCESS, Bytes::external(Lent(all, lent.clone()))));
        assert_eq!(Arc::strong_count(&lent), 2, "not inside the answer");
        let mut has_heard = false;
        loop {
            let outputs = a.engine.take_outputs();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                match output {
                    Output::Publish(number) => assert!(directory.is_some() && !has_heard && a.publish(number)),
                    Output::Call(call) => {
                        call();
                        assert!(!has_heard && Arc::strong_count(&lent) == 1);
                    }
                    Output::Send { .. } => has_heard = true,
                    _ => {}
                }
            }
        }
        assert!(has_heard && Arc::strong_count(&lent) == 1 && a.engine.lent.is_empty());
        let state = &a.engine.nspaces[&nspace()];
        let bytes = |rank: u8, n: u8| {
            let value = state.visible.get(Rank(rank.into()), format!("k{n}").as_bytes()).expect("a value");
            let bytes = value.bytes().expect("bytes");
            assert!(bytes.len() == 1024 + usize::from(n) && bytes.iter().all(|byte| *byte == n | rank << 4));
        };
        (0..6).for_each(|n| bytes(n / 3, n % 3));
        for n in 0..3 {
            let key = format!("k{n}");
            let [own, remote] =
                [&state.visible, &state.remote].map(|data| data.shared(Rank(0), key.as_bytes()).unwrap());
            assert!(Arc::ptr_eq(own, remote), "nothing is held twice");
        }
        // No request waits for this answer any more.
        a.engine.answer(id, UpcallResult::Data(Status::SUCCESS, Bytes::external(Lent(vec![1], lent.clone()))));
        assert_eq!(Arc::strong_count(&lent), 2);
        a.drain();
        assert_eq!(Arc::strong_count(&lent), 1);
    }
}

/// A value of the key `cid` for one group.
fn of_group(value: u32, group: u32) -> Kval {
    let group = Info { flags: InfoFlags::QUALIFIER, ..Info::new("group", Value::Uint32(group)) };
    Kval { key: keys::QUALIFIED_VALUE.into(), value: Value::infos([Info::new("cid", Value::Uint32(value)), group]) }
}

#[test]
fn a_fence_brings_the_delta_since_the_last_fence_of_its_participants() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let by_name = || vec![proc(0), proc(1)];
    let mut tag = 10;
    let mut fence = |a: &mut Bench, b: &mut Bench, procs: Vec<Proc>, status: Status| {
        tag += 1;
        a.fence(0, tag, procs.clone(), collect());
        b.fence(1, tag, procs, collect());
        let keys = contributed(b);
        match status {
            Status::SUCCESS => exchange(a, b),
            _ => [a, b]
                .into_iter()
                .for_each(|bench| drop(bench.answer_last(UpcallResult::Data(status, Bytes::default())))),
        }
        keys
    };
    b.put(1, 3, "first", 1);
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::ERR_TIMEOUT), ["first"]);
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), ["first"], "the host had failed");
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), [""; 0]);
    b.put(1, 3, "second", 2);
    b.put(1, 1, "local", 2);
    b.put(1, 3, "first", 1);
    assert_eq!(fence(&mut a, &mut b, by_name(), Status::SUCCESS), ["first", "second"], "others know of nothing");
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), ["second"]);
    b.put(1, 3, "first", 3);
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), ["first"], "a value put anew");
    for (key, value) in [("first", 3), ("second", 2)] {
        a.get(0, 1000, 1, key, vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
        assert_eq!(a.value(0, 1000, key), Some(Ok(value)));
    }
    // A host that returns to each server only that server's own part.
    b.put(1, 3, "third", 4);
    for tag in [500, 501] {
        b.fence(1, tag, everybody(), collect());
        assert_eq!(contributed(&b), ["third"]);
        let Upcall::Fence { data, .. } = &b.upcalls.last().unwrap().1 else { unreachable!() };
        let own = data.clone().into_bytes().unwrap();
        b.answer_last(UpcallResult::Data(Status::SUCCESS, own.into()));
    }
    // The host registers the job again, because it may have been extended to other servers.
    let plan = JobPlan::read(&nspace(), 1, &[], None, NODES[1]).unwrap();
    assert_eq!(b.engine.register_nspace(plan), Status::SUCCESS);
    b.drain();
    b.fence(1, 502, everybody(), collect());
    assert_eq!(contributed(&b), ["first", "second", "third"]);
}

#[test]
fn a_global_value_with_qualifiers_takes_none_of_another_scope_along() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let parts = vec![(1, vec![of_group(10, 1)]), (2, vec![of_group(20, 2)]), (3, vec![of_group(30, 3)])];
    b.request(1, 50, Request::Commit { parts });
    a.fence(0, 10, everybody(), collect());
    b.fence(1, 10, everybody(), collect());
    assert_eq!(contribution(&b), [of_group(20, 2), of_group(30, 3)]);
}

#[test]
fn values_with_qualifiers_go_to_other_nodes_one_by_one() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    // Both in one commit, and the first one anew in another.
    b.request(1, 50, Request::Commit { parts: vec![(2, vec![of_group(10, 1), of_group(20, 2)])] });
    b.request(1, 51, Request::Commit { parts: vec![(2, vec![of_group(11, 1)])] });
    a.fence(0, 10, everybody(), collect());
    b.fence(1, 10, everybody(), collect());
    assert_eq!(contribution(&b), [of_group(11, 1), of_group(20, 2)], "as released servers read them");
    exchange(&mut a, &mut b);
    let qualifier = |group| of_group(0, group).value.iter_infos().nth(1).cloned().unwrap();
    for (group, expected) in [(1, Status::SUCCESS), (2, Status::SUCCESS), (3, Status::ERR_NOT_FOUND)] {
        a.get(0, 20, 1, "cid", vec![qualifier(group), Info::new(keys::IMMEDIATE, Value::Bool(true))]);
        let reply = GetReply::decode(PLAIN, Version::OURS, &a.reply(0, 20).expect("a reply")).unwrap();
        assert_eq!(reply.status, expected, "{group}");
        if expected.is_success() {
            assert_eq!(reply.objects[0].1, [of_group(11, 1), of_group(20, 2)], "as released clients read them");
        }
    }
}

#[test]
fn a_fence_of_some_then_of_all_gives_the_newest_everywhere() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    let some = vec![proc(0), proc(2)];
    a.put(0, 3, "key", 1);
    b.put(2, 3, "key", 2);
    a.fence(0, 10, some.clone(), collect());
    b.fence(2, 10, some, collect());
    exchange(&mut a, &mut b);
    a.put(0, 3, "key", 3);
    a.put(1, 3, "key", 4);
    for rank in 0..2 {
        a.fence(rank, 11, everybody(), collect());
        b.fence(rank + 2, 11, everybody(), collect());
    }
    exchange(&mut a, &mut b);
    for (of, expected) in [(0, 3), (1, 4), (2, 2)] {
        a.get(1, 20, of, "key", Vec::new());
        assert_eq!(a.value(1, 20, "key"), Some(Ok(expected)), "rank {of} on node A");
        b.get(3, 20, of, "key", Vec::new());
        assert_eq!(b.value(3, 20, "key"), Some(Ok(expected)), "rank {of} on node B");
    }
}

#[test]
fn garbage_from_the_exchange_fails_the_fence_and_is_told() {
    let mut bench = Bench::new(0, 2, 1);
    bench.fence(0, 10, everybody(), collect());
    bench.answer_last(UpcallResult::Data(Status::SUCCESS, vec![7, 200, 1, 2].into()));
    assert_ne!(bench.status(0, 10), Some(Status::SUCCESS));
    assert!(bench.log.iter().any(|line| line.contains("fence")), "{:?}", bench.log);
}

#[test]
fn a_fence_times_out_and_names_the_missing_ranks() {
    let mut bench = Bench::new(0, 1, 2);
    bench.fence(0, 10, everybody(), vec![Info::new(keys::TIMEOUT, Value::Int(1))]);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.status(0, 10), Some(Status::ERR_TIMEOUT));
    assert!(bench.log.iter().any(|line| line.contains("job:1")), "{:?}", bench.log);
}

#[test]
fn several_ranks_whose_time_ends_in_one_fence_are_all_answered() {
    let mut bench = Bench::new(0, 1, 4);
    for rank in 0..3 {
        bench.fence(rank, 10, everybody(), vec![Info::new(keys::TIMEOUT, Value::Int(1))]);
    }
    bench.pass(Duration::from_secs(2));
    assert_eq!([0, 1, 2].map(|rank| bench.status(rank, 10)), [Some(Status::ERR_TIMEOUT); 3]);
    // The server goes on.
    (0..4).for_each(|rank| bench.fence(rank, 11, everybody(), Vec::new()));
    assert_eq!([0, 1, 2, 3].map(|rank| bench.status(rank, 11)), [Some(Status::SUCCESS); 4]);
}

#[test]
fn the_reply_to_a_fence_is_short() {
    let mut bench = Bench::new(0, 1, 1);
    bench.fence(0, 10, everybody(), Vec::new());
    let bytes = bench.reply(0, 10).unwrap();
    assert_eq!(FenceReply::decode(PLAIN, Version::OURS, &bytes).unwrap().segment_count, None);
    assert!(bytes.len() < 8, "{bytes:?}");
}

#[test]
fn a_timeout_beyond_all_clocks_is_harmless() {
    let mut bench = Bench::new(0, 1, 2);
    let ages = vec![Info::new(keys::TIMEOUT, Value::Uint64(u64::MAX))];
    bench.fence(0, 10, everybody(), ages.clone());
    bench.get(0, 11, 1, "key", ages);
    assert_eq!(bench.status(0, 10), None);
}

#[test]
fn the_shortest_timeout_of_a_fences_participants_counts() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), vec![Info::new(keys::TIMEOUT, Value::Int(1))]);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.status(1, 10), Some(Status::ERR_TIMEOUT));
}
