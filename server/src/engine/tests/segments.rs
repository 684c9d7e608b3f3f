//! Segments as readers see them, and their directory.

use super::*;

/// Puts of some ranks, again and again, with a fence now and then: readers see the newest after each fence, through
/// all the merges.
#[test]
fn segments_hold_the_newest_of_every_rank() {
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::connected_in(directory.path(), 4);
    let view = attach(&mut bench, 0);
    let mut model: HashMap<(u32, &str), u32> = HashMap::new();
    let mut state = 88_172_645_463_325_252_u64;
    for round in 0..200_u32 {
        for _ in 0..round % 7 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (rank, key) = ((state % 4) as u32, KEYS[(state >> 8) as usize % 5]);
            bench.put(rank, 3, key, round);
            model.insert((rank, key), round);
        }
        for rank in 0..4 {
            bench.fence(rank, 1000 + round, everybody(), collect());
        }
        for rank in 0..4 {
            assert_eq!(bench.status(rank, 1000 + round), Some(Status::SUCCESS));
            for key in KEYS {
                assert_eq!(read(&view, rank, key), model.get(&(rank, key)).copied(), "round {round} rank {rank} {key}");
            }
        }
    }
    let stats = bench.engine.stats();
    assert!(stats.segments <= 8, "merging keeps segments few: {stats:?}");
    bench.deregister_nspace(&nspace());
    assert!(view.is_retired());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

/// Two servers of two ranks each, with all kinds of fences in random order, short and long values, jobs registered again: readers
/// of both nodes see exactly the values that the fences have brought.
#[test]
fn readers_of_each_node_see_the_values_of_fences() {
    const KEYS: [(&str, u8); 6] = [("g0", 3), ("g1", 3), ("long g", 3), ("r0", 2), ("long r", 2), ("l0", 1)];
    let read = |view: &NamespaceView, rank, key: &str| {
        let value = view.modex(Rank(rank), &KeyRef::from(key))?.to_value().expect("as put");
        match &value {
            Value::ByteObject(bytes) => bytes.first_chunk().map(|number| u32::from_le_bytes(*number)),
            number => number.as_u32(),
        }
    };
    for seed in 1..=8 {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut benches = [0, 1].map(|node| Bench::in_directory(node, 2, 2, Some(directories[node].path())));
        let mut random = Xorshift(seed);
        for rank in 0..4 {
            let bench = &mut benches[rank as usize / 2];
            bench.register_client(&proc(rank), 1000, 1000, 0);
            bench.connect(rank);
        }
        let views = [0, 1].map(|node| attach(&mut benches[node], 2 * node as u32));
        // The last puts, and each node's visible part of them.
        let mut put: HashMap<(u32, usize), u32> = HashMap::new();
        let mut seen: [HashMap<(u32, usize), u32>; 2] = Default::default();
        for round in 1..150_u32 {
            let (rank, key) = (random.below(4), random.below(KEYS.len() as u32) as usize);
            let (name, scope) = KEYS[key];
            let value = match name.starts_with("long") {
                true => {
                    let mut bytes = vec![round as u8; 1000 + random.below(3000) as usize];
                    bytes[..4].copy_from_slice(&round.to_le_bytes());
                    Value::ByteObject(bytes.into())
                }
                false => Value::Uint32(round),
            };
            let own = rank as usize / 2;
            let kval = Kval { key: Key::from(name), value };
            benches[own].request(rank, 50, Request::Commit { parts: vec![(scope, vec![kval])] });
            assert_eq!(benches[own].status(rank, 50), Some(Status::SUCCESS));
            put.insert((rank, key), round);
            // A reader may have the earlier value.
            seen[own].entry((rank, key)).and_modify(|value| *value = round);
            if random.below(12) == 0 {
                let plan = benches[own].plan(own, 2, 2);
                assert_eq!(benches[own].engine.register_nspace(plan), Status::SUCCESS);
                benches[own].drain();
            }
            if random.below(3) != 0 {
                continue;
            }
            let some =
                [everybody(), vec![proc(0), proc(2)], (0..4).map(proc).collect(), vec![proc(1), proc(2), proc(3)]];
            let procs = &some[random.below(4) as usize];
            let members: Vec<u32> =
                (0..4).filter(|rank| procs.iter().any(|member| member.covers(&proc(*rank)))).collect();
            let is_collecting = random.below(4) != 0;
            for rank in &members {
                let infos = if is_collecting { collect() } else { Vec::new() };
                benches[*rank as usize / 2].fence(*rank, 1000 + round, procs.clone(), infos);
            }
            let has_failed = random.below(6) == 0;
            let [a, b] = &mut benches;
            if has_failed {
                [a, b].into_iter().for_each(|bench| drop(bench.answer_last(UpcallResult::Op(Status::ERR_TIMEOUT))));
            } else {
                let all = contributions(a, b);
                for bench in [a, b] {
                    bench.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::external(all.clone())));
                }
            }
            for rank in &members {
                let status = benches[*rank as usize / 2].status(*rank, 1000 + round);
                assert_eq!(status, Some(if has_failed { Status::ERR_TIMEOUT } else { Status::SUCCESS }));
            }
            for ((rank, key), value) in &put {
                let (_, scope) = KEYS[*key];
                for (node, seen) in seen.iter_mut().enumerate() {
                    let is_own = node as u32 == rank / 2;
                    let is_brought = is_collecting && !has_failed && scope != 1 && members.contains(rank);
                    // Puts of local ranks are published at the end of any fence, even without collected data.
                    if if is_own { scope != 2 } else { is_brought } {
                        seen.insert((*rank, *key), *value);
                    }
                }
            }
            for (node, view) in views.iter().enumerate() {
                for (rank, key) in (0..4).flat_map(|rank| (0..KEYS.len()).map(move |key| (rank, key))) {
                    let what = (seed, round, node, rank, KEYS[key].0);
                    assert_eq!(read(view, rank, KEYS[key].0), seen[node].get(&(rank, key)).copied(), "{what:?}");
                    if node as u32 != rank / 2 {
                        let state = &benches[node].engine.nspaces[&nspace()];
                        let own = state.visible.get(Rank(rank), KEYS[key].0.as_bytes());
                        let published =
                            view.modex(Rank(rank), &KeyRef::from(KEYS[key].0)).map(|value| value.to_value());
                        assert_eq!(own, published.map(|value| value.unwrap()).as_ref(), "{what:?}");
                    }
                }
            }
        }
        let segments = benches.each_ref().map(|bench| bench.engine.stats().segments);
        assert!(segments.iter().all(|segments| *segments <= 9), "merged: {segments:?}");
    }
}

#[test]
fn a_value_put_again_is_published_with_its_commit() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::connected_in(directory.path(), 2);
    let view = attach(&mut bench, 0);
    bench.put(1, 3, "key", 1);
    assert_eq!(read(&view, 1, "key"), None, "the first commit waits for a fence");
    for rank in 0..2 {
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    assert_eq!(read(&view, 1, "key"), Some(1));
    bench.put(1, 3, "key", 2);
    assert_eq!(read(&view, 1, "key"), Some(2), "a reader must not keep the old value");
    bench.put(1, 2, "hidden", 3);
    for rank in 0..2 {
        bench.fence(rank, 11, everybody(), collect());
    }
    assert_eq!(read(&view, 1, "hidden"), None, "remote-only values of local ranks stay out");
}

#[test]
fn direct_modex_values_are_published_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 2, 1, Some(directory.path()));
    bench.register_client(&proc(0), 1000, 1000, 0);
    bench.connect(0);
    let view = attach(&mut bench, 0);
    bench.get(0, 20, 1, "key", Vec::new());
    let kval = Kval { key: Key::from("key"), value: Value::Uint32(6) };
    let data = blob::encode_modex(PLAIN, [(&kval.key, &kval.value)].into_iter()).unwrap();
    bench.answer_last(UpcallResult::Data(Status::SUCCESS, data.into()));
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(6)));
    assert!(bench.engine.deadline().is_some());
    bench.pass(Duration::from_secs(1));
    assert_eq!(read(&view, 1, "key"), Some(6));
}

/// Hosts may request the environment in a forked child: secret and directory are made before, in the server's process.
#[test]
fn the_directory_is_made_before_environments_are() {
    let directory = tempfile::tempdir().unwrap();
    let count = || std::fs::read_dir(directory.path()).unwrap().count();
    let mut bench = Bench::in_directory(0, 1, 2, Some(directory.path()));
    // It has no reader yet.
    assert_eq!(count(), 0);
    for rank in 0..2 {
        bench.register_client(&proc(rank), 1000, 1000, 0);
        assert_eq!(count(), 1);
    }
    let listening = bench.engine.take_outputs().into_iter().filter(|output| matches!(output, Output::Listen(..)));
    assert_eq!(listening.count(), 1);
    for rank in 0..2 {
        let env = bench.engine.setup_fork(&proc(rank));
        assert!(env.iter().any(|(name, _)| name == "PMIX_DSTORE_SEGMENTS"), "{env:?}");
    }
    bench.drain();
    assert!(bench.sent.is_empty() && bench.log.is_empty() && bench.upcalls.is_empty());
    assert_eq!(count(), 1);
}

/// A host that is faster than the server's thread must not fill the process with sockets.
#[test]
fn jobs_never_taken_over_leave_no_sockets() {
    let directory = tempfile::tempdir().unwrap();
    for knows in [true, false] {
        let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
        bench.register_client(&proc(0), 1000, 1000, 0);
        assert_eq!(bench.publishers.listening(), 1);
        if knows {
            bench.engine.take_outputs();
        }
        bench.deregister_nspace(&proc(0).nspace);
        let outputs = bench.engine.take_outputs();
        assert!(!outputs.iter().any(|output| matches!(output, Output::Listen(..))));
        assert_eq!(outputs.iter().any(|output| matches!(output, Output::Unlisten(_))), knows);
        assert_eq!(bench.publishers.listening(), 0);
    }
}

#[test]
fn the_clients_socket_has_the_mode_that_the_host_wants() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
    bench.register_client(&proc(0), geteuid().as_raw(), getegid().as_raw(), 0);
    bench.drain();
    let environment = bench.engine.setup_fork(&proc(0));
    let segments = environment.iter().find(|(name, _)| name == "PMIX_DSTORE_SEGMENTS").expect("shared memory");
    let mode = std::fs::metadata(Path::new(&segments.1).join("sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn without_room_everything_goes_over_the_socket() {
    let mut bench = Bench::in_directory(0, 1, 1, Some(Path::new("/proc/no such directory")));
    bench.register_client(&proc(0), 1000, 1000, 0);
    let env = bench.engine.setup_fork(&proc(0));
    bench.drain();
    assert!(shared_env(&env).is_empty(), "{env:?}");
    assert!(env.contains(&("PMIX_GDS_MODULE".into(), "hash".into())));
    assert_eq!(bench.log.len(), 1, "{:?}", bench.log);
    bench.connect(0);
    bench.put(0, 3, "key", 4);
    bench.get(0, 20, 0, "key", Vec::new());
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(4)));
}

#[test]
fn a_client_may_be_registered_after_its_environment_was_made_in_a_forked_child() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
    let env = bench.engine.setup_fork(&proc(0));
    assert!(env.contains(&("PMIX_RANK".into(), "0".into())));
    assert!(shared_env(&env).is_empty(), "{env:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a child makes nothing");
    bench.register_client(&proc(0), 1000, 1000, 0);
    bench.connect(0);
    bench.put(0, 3, "key", 4);
}

/// As Flux does it. The directory is the server's until a client is registered, and the first client's user's from then on.
#[test]
fn a_client_that_is_registered_after_its_environment_was_made_has_shared_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 2, Some(directory.path()));
    let unknown = Proc::new(Nspace::new("unknown").unwrap(), Rank(0));
    bench.prepare_client(&unknown);
    assert!(shared_env(&bench.engine.setup_fork(&unknown)).is_empty());
    let mut secrets = Vec::new();
    for rank in 0..2 {
        bench.prepare_client(&proc(rank));
        let env = bench.engine.setup_fork(&proc(rank));
        assert_eq!(shared_env(&env).len(), 3, "{env:?}");
        bench.prepare_client(&proc(rank));
        assert_eq!(bench.engine.setup_fork(&proc(rank)), env, "made once");
        assert_eq!(bench.register_client(&proc(rank), 1234, 1234, 7), Status::SUCCESS);
        assert_eq!(bench.engine.setup_fork(&proc(rank)), env, "registration keeps the secret");
        let (_, secret) = env.into_iter().find(|(name, _)| name == "PMIX_DSTORE_SECRET").unwrap();
        let secret = secret.into_string().unwrap();
        let hello = |secret: &str| Hello {
            psec: crate::SECURITY_NAME.into(),
            credential: secret.as_bytes().to_vec(),
            gds: crate::STORE_NAME.into(),
            ..Bench::hello(rank)
        };
        bench.engine.hello(peer(rank), Transport::Unix { uid: 1234, gid: 1234, pid: 1 }, hello(&secret));
        bench.drain();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
        bench.put(rank, 3, "key", rank);
        secrets.push(secret);
    }
    assert_ne!(secrets[0], secrets[1]);
    assert_eq!((bench.engine.stats().clients_shared, bench.log.len()), (2, 0), "{:?}", bench.log);
    let outer = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap();
    if geteuid().is_root() {
        assert_eq!(outer.metadata().unwrap().uid(), 1234);
    } else {
        left_out("root", "only root can give files away");
    }
    for rank in 0..2 {
        bench.fence(rank, 10, everybody(), collect());
    }
    assert_eq!(read(&attach(&mut bench, 0), 1, "key"), Some(1));
}

#[test]
fn files_that_are_cut_do_not_end_the_server() {
    let long = |byte: u8| Value::ByteObject(vec![byte; 50_000].into());
    let commit = |bench: &mut Bench, rank, key: &'static str, value| {
        let kval = Kval { key: Key::from(key), value };
        bench.request(rank, 50, Request::Commit { parts: vec![(3, vec![kval])] });
        assert_eq!(bench.status(rank, 50), Some(Status::SUCCESS));
    };
    for name in ["segment-", "page-0"] {
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Bench::connected_in(directory.path(), 2);
        commit(&mut bench, 0, "first", long(1));
        let fence = |bench: &mut Bench| {
            (0..2).for_each(|rank| bench.fence(rank, 60, everybody(), collect()));
            assert_eq!((bench.status(0, 60), bench.status(1, 60)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
        };
        fence(&mut bench);
        let env = bench.engine.setup_fork(&proc(0));
        let (_, segments) = env.iter().find(|(name, _)| name == "PMIX_DSTORE_SEGMENTS").expect("shared memory");
        cut(Path::new(segments), name);
        // Both are merged into one segment; a published value is put again.
        commit(&mut bench, 0, "second", long(2));
        commit(&mut bench, 1, "other", long(3));
        fence(&mut bench);
        commit(&mut bench, 0, "first", long(4));
        for (of, key, byte) in [(0, "first", 4), (0, "second", 2), (1, "other", 3)] {
            bench.get(1, 70, of, key, Vec::new());
            let reply = bench.reply(1, 70).expect("a reply");
            assert!(reply.windows(50_000).any(|part| part.iter().all(|found| *found == byte)), "{name}: {key}");
        }
        let is_logged = bench.log.iter().any(|line| line.contains("page-0"));
        assert_eq!(is_logged, name == "page-0", "{:?}", bench.log);
    }
}
