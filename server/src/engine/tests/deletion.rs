//! Deletion of keys: which readers see it, and when.

use pmix_dstore::model::Scope;
use pmix_wire::{Deletion, TAG_DELETED};

use super::*;

/// The `pmix_scope_t` of `PMIX_DEL_LOCAL`, `PMIX_DEL_REMOTE` and `PMIX_DEL_GLOBAL`.
const DEL_LOCAL: u8 = 5;
const DEL_REMOTE: u8 = 6;
const DEL_GLOBAL: u8 = 7;

impl Bench {
    fn delete(&mut self, rank: u32, scope: u8, key: &'static str) {
        let kval = Kval { key: Key::from(key), value: Value::Undef };
        self.request(rank, 50, Request::Commit { parts: vec![(scope, vec![kval])] });
        assert_eq!(self.status(rank, 50), Some(Status::SUCCESS));
    }

    fn get_now(&mut self, rank: u32, of: u32, key: &'static str) -> Result<u32, Status> {
        self.get(rank, 20, of, key, vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
        self.value(rank, 20, key).expect("an answer at once")
    }

    /// Whether another server's host gets a value of a local rank.
    fn gives(&mut self, of: u32, key: &str) -> bool {
        let given = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&given);
        let done = Box::new(move |_, data| *taken.lock() = data);
        assert_eq!(self.engine.dmodex_request(proc(of), done), Status::SUCCESS);
        self.drain();
        let kvals = blob::decode_modex(EXCHANGE, &given.lock()).unwrap();
        kvals.iter().any(|kval| kval.key.is(key))
    }

    /// Whether a peer gets the notice that rank 0 has deleted a key.
    fn gets_deletion(&mut self, rank: u32, key: &'static str) -> bool {
        let told = self.reply(rank, TAG_DELETED).map(|bytes| Deletion::decode(PLAIN, &bytes).unwrap());
        let expected = Deletion { proc: proc(0), scope: Scope::Global, key: Key::from(key) };
        told.is_some_and(|told| told == expected)
    }
}

#[test]
fn a_deleted_key_is_gone_for_the_readers_of_its_scope() {
    let mut bench = Bench::new(0, 2, 2);
    let (here, gone) = (Ok(1), Err(Status::ERR_NOT_FOUND));
    for (code, local, remote) in [(DEL_LOCAL, gone, true), (DEL_REMOTE, here, false), (DEL_GLOBAL, gone, false)] {
        bench.put(0, 3, "key", 1);
        bench.put(0, 3, "other", 1);
        assert_eq!((bench.get_now(1, 0, "key"), bench.gives(0, "key")), (here, true), "put again");
        bench.delete(0, code, "key");
        assert_eq!((bench.get_now(1, 0, "key"), bench.gives(0, "key")), (local, remote), "{code}");
        assert_eq!((bench.get_now(1, 0, "other"), bench.gives(0, "other")), (here, true));
    }
    bench.delete(0, DEL_GLOBAL, "never put");
    // A put after the deletion of its key in the same commit stays.
    let kval = |value| Kval { key: Key::from("key"), value };
    let parts = vec![(DEL_GLOBAL, vec![kval(Value::Undef)]), (3, vec![kval(Value::Uint32(2))])];
    bench.request(0, 50, Request::Commit { parts });
    assert_eq!((bench.get_now(1, 0, "key"), bench.gives(0, "key")), (Ok(2), true));
    let parts = vec![(9, vec![kval(Value::Undef)])];
    bench.request(0, 51, Request::Commit { parts });
    assert_eq!(bench.status(0, 51), Some(Status::ERR_BAD_PARAM));
}

#[test]
fn readers_of_a_deleted_key_are_notified() {
    let mut bench = Bench::without_clients(0, 1, 4);
    let hello = |rank| match rank {
        0 | 1 => Hello { version: "7.0.0a1".into(), ..Bench::hello(rank) },
        rank => Bench::hello(rank),
    };
    for rank in 0..4 {
        bench.register_client(&proc(rank), 1000, 1000, 0);
        let mut hello = hello(rank);
        let mut transport = TCP;
        if rank == 3 {
            let env = bench.engine.nspaces[&nspace()].clients[&Rank(3)].secret.text().to_owned();
            hello = Hello { psec: "pmix-dstore".into(), credential: env.into_bytes(), ..hello };
            transport = Transport::Unix { uid: 1000, gid: 1000, pid: 1 };
        }
        bench.engine.hello(peer(rank), transport, hello);
        bench.drain();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    }
    bench.put(0, 3, "key", 1);
    bench.delete(0, DEL_REMOTE, "key");
    bench.delete(0, DEL_GLOBAL, "never put");
    assert!((0..4).all(|rank| !bench.gets_deletion(rank, "key")), "nobody here can have read another one");
    bench.delete(0, DEL_GLOBAL, "key");
    let heard = [0, 1, 2, 3].map(|rank| bench.gets_deletion(rank, "key"));
    assert_eq!(heard, [false, true, false, true], "releases from 7.0 on and ours, not who has deleted it");
}

#[test]
fn fences_carry_deletions_to_other_servers() {
    let directory = tempfile::tempdir().unwrap();
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::in_directory(1, 2, 1, Some(directory.path())));
    b.register_client(&proc(1), 1000, 1000, 0);
    let hello = Hello { version: "7.0.0".into(), ..Bench::hello(1) };
    b.engine.hello(peer(1), TCP, hello);
    b.drain();
    b.answer_last(UpcallResult::Op(Status::SUCCESS));
    let view = attach(&mut b, 1);
    let fence = |a: &mut Bench, b: &mut Bench, procs: &[Proc]| {
        a.fence(0, 10, procs.to_vec(), collect());
        b.fence(1, 10, procs.to_vec(), collect());
        exchange(a, b);
        assert_eq!((a.status(0, 10), b.status(1, 10)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    };
    let (all, two) = (everybody(), [proc(0), proc(1)]);
    b.put(1, 3, "of b", 1);
    for procs in [&all[..], &two] {
        a.put(0, 3, "key", 1);
        a.put(0, 3, "other", 2);
        fence(&mut a, &mut b, &all);
        assert_eq!((read(&view, 0, "key"), b.get_now(1, 0, "key")), (Some(1), Ok(1)));
        a.delete(0, DEL_GLOBAL, "key");
        // The second fence has other participants, which get all values and the deletion.
        fence(&mut a, &mut b, procs);
        assert_eq!((read(&view, 0, "key"), read(&view, 0, "other")), (None, Some(2)));
        assert!(b.gets_deletion(1, "key"), "it may have read it");
        assert_eq!(b.get_now(1, 0, "key"), Err(Status::ERR_NOT_FOUND));
    }
    fence(&mut a, &mut b, &all);
    assert_eq!(read(&view, 0, "key"), None);
    a.put(0, 3, "key", 3);
    fence(&mut a, &mut b, &all);
    assert_eq!((read(&view, 0, "key"), read(&view, 1, "of b")), (Some(3), Some(1)));
}

/// Puts and deletions in random order, with some fences: readers of segments see no deleted value, and through all merges all
/// others.
#[test]
fn segments_hold_nothing_that_was_deleted() {
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    for seed in 1..=4 {
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Bench::connected_in(directory.path(), 4);
        let view = attach(&mut bench, 0);
        let mut random = Xorshift(seed);
        let (mut put, mut seen) = (HashMap::new(), HashMap::new());
        for round in 0..300_u32 {
            let (rank, key) = (random.below(4), KEYS[random.below(5) as usize]);
            if random.below(3) == 0 {
                bench.delete(rank, DEL_GLOBAL, key);
                put.remove(&(rank, key));
                seen.remove(&(rank, key));
            } else {
                bench.put(rank, 3, key, round);
                put.insert((rank, key), round);
                // Readers that may have the earlier value see this one at once.
                seen.entry((rank, key)).and_modify(|value| *value = round);
            }
            if random.below(4) == 0 {
                for rank in 0..4 {
                    bench.fence(rank, 1000 + round, everybody(), collect());
                }
                seen = put.clone();
            }
            for (rank, key) in (0..4).flat_map(|rank| KEYS.map(|key| (rank, key))) {
                let expected = seen.get(&(rank, key)).copied();
                // A fence or a deletion may have published a newer value than the one that must be visible.
                let found = read(&view, rank, key);
                let may_be = expected.is_none().then(|| put.get(&(rank, key)).copied()).flatten();
                assert!(found == expected || found == may_be, "{seed} {round}: {rank} {key} {found:?} {expected:?}");
                if let Some(found) = found {
                    seen.insert((rank, key), found);
                }
            }
        }
        for (rank, key) in (0..4).flat_map(|rank| KEYS.map(|key| (rank, key))) {
            bench.delete(rank, DEL_GLOBAL, key);
        }
        assert!((0..4).all(|rank| KEYS.iter().all(|key| read(&view, rank, key).is_none())));
        assert!(view.is_complete(), "also where nothing is left: {:?}", view.last_error());
        assert!(bench.engine.stats().segments <= 8, "merging keeps segments few");
    }
}
