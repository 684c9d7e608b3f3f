//! A server that goes on in the place of one that was killed (`docs/restart.md`).

use pmix_dstore::gather::Slices;
use pmix_dstore::model::Scope;
use pmix_wire::FORMER_INDEX;

use super::*;
use crate::engine::JournalEntry;
use crate::restart::{CONNECTIONS_OF_LIFE, Change, Estate, Fate};

/// For how long clients wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// The second server of a job of two ranks, which were connected to the first one.
fn successor(change: impl FnOnce(&mut Estate)) -> Bench {
    let mut bench = Bench::without_clients(0, 1, 2);
    (bench.engine.config.restart, bench.engine.config.life) = (Some(PATIENCE), 1);
    let mut estate = Estate::new().unwrap();
    estate.nspace = nspace();
    let fate = Fate { is_here: true, ..Fate::default() };
    estate.fates = [0, 1].map(|rank| (Rank(rank), fate)).into();
    change(&mut estate);
    bench.engine.expect_again([(nspace(), estate)]);
    for rank in [0, 1] {
        assert_eq!(bench.register_client(&proc(rank), 1000, 1000, 7), Status::SUCCESS);
    }
    bench
}

fn former(rank: u32, index: u32) -> Hello {
    Hello { infos: vec![Info::new(FORMER_INDEX, Value::Uint32(index))], ..Bench::hello(rank) }
}

/// A rank that was killed while there was no server closes no connection to this one.
#[test]
fn a_process_that_does_not_come_again_is_lost_after_the_time_for_which_it_waits() {
    let mut bench = successor(|_| ());
    bench.connect(0);
    bench.fence(0, 10, everybody(), collect());
    bench.get(0, 11, 1, "late", Vec::new());
    bench.pass(PATIENCE - Duration::from_secs(1));
    assert!(bench.reply(0, 10).is_none() && bench.value(0, 11, "late").is_none());
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.status(0, 10), Some(Status::ERR_PARTIAL_SUCCESS));
    assert!(bench.value(0, 11, "late").is_some_and(|value| value.is_err()));
    let lines: Vec<_> = bench.log.iter().filter(|line| line.contains("has not come again")).collect();
    assert!(matches!(lines[..], [line] if line.contains(&proc(1).to_string())), "{:?}", bench.log);
    assert_eq!(bench.engine.deadline(), None);
    // It may come later all the same, as one that was stopped.
    bench.connect(1);
    bench.fence(0, 12, everybody(), Vec::new());
    bench.fence(1, 12, everybody(), Vec::new());
    assert_eq!((bench.status(0, 12), bench.status(1, 12)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
}

#[test]
fn processes_that_come_or_are_deregistered_are_not_lost() {
    let mut bench = successor(|_| ());
    bench.connect(0);
    bench.engine.deregister_client(&proc(1));
    bench.pass(PATIENCE + Duration::from_secs(1));
    assert!(bench.log.iter().all(|line| !line.contains("has not come again")), "{:?}", bench.log);
    assert_eq!(bench.engine.deadline(), None);
}

/// The next host registers all processes as it did at first, also one that had ended and that the former host had deregistered.
#[test]
fn a_process_that_was_deregistered_has_ended_though_it_is_registered_again() {
    let left = Fate { has_left: true, ..Fate::default() };
    let mut bench = successor(|estate| _ = estate.fates.insert(Rank(1), left));
    bench.connect(0);
    bench.fence(0, 10, everybody(), collect());
    bench.get(0, 11, 1, "late", Vec::new());
    assert!(bench.status(0, 10).is_some() && bench.value(0, 11, "late").is_some_and(|value| value.is_err()));
    // It was started again.
    bench.connect(1);
    bench.fence(0, 12, everybody(), Vec::new());
    bench.fence(1, 12, everybody(), Vec::new());
    assert_eq!((bench.status(0, 12), bench.status(1, 12)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
}

/// The successor of a server at which the fence with tag 10 of rank 0's connection 33 was over, by its time-out.
fn successor_after_fence() -> Bench {
    successor(|estate| drop(estate.released.insert((Rank(0), 33), [(10, Status::ERR_TIMEOUT)].into())))
}

/// The reply to a fence was lost with the server; whoever asks again is not a participant of the next one.
#[test]
fn a_fence_that_was_over_is_answered_by_the_tag_of_its_request() {
    let mut bench = successor_after_fence();
    bench.engine.hello(peer(0), TCP, former(0, 33));
    bench.drain();
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    bench.connect(1);
    bench.fence(0, 10, everybody(), collect());
    assert_eq!(bench.status(0, 10), Some(Status::ERR_TIMEOUT));
    bench.fence(0, 11, everybody(), collect());
    assert!(bench.reply(0, 11).is_none());
}

/// A client that does not hear that it is let in, since that server is killed, too, comes to the next one as it came to that.
#[test]
fn a_fence_that_was_over_is_known_to_the_server_after_the_next_one() {
    let mut bench = successor_after_fence();
    bench.engine.hello(PeerId(77), TCP, former(0, 33));
    bench.drain();
    let released = bench.engine.nspaces[&nspace()].released.clone();
    let mut bench = successor(|estate| estate.released = released);
    bench.engine.config.life = 2;
    bench.engine.hello(peer(0), TCP, former(0, 33));
    bench.drain();
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    bench.fence(0, 10, everybody(), collect());
    assert_eq!(bench.status(0, 10), Some(Status::ERR_TIMEOUT));
    // The connection that it names next is of this life: what is older is not asked for any more.
    let released = bench.engine.nspaces[&nspace()].released.clone();
    let mut bench = successor(|estate| estate.released = released);
    bench.engine.config.life = 3;
    bench.engine.hello(peer(0), TCP, former(0, 2 * CONNECTIONS_OF_LIFE as u32));
    assert!(bench.engine.nspaces[&nspace()].released.is_empty());
}

/// A process of another rank cannot have the replies of this one's fences, nor can one that was connected to this very server.
#[test]
fn a_former_connection_counts_for_its_own_process_alone() {
    let mut bench = successor_after_fence();
    bench.engine.hello(peer(1), TCP, former(1, 33));
    bench.drain();
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    bench.fence(1, 10, everybody(), collect());
    assert!(bench.reply(1, 10).is_none());
    bench.engine.hello(peer(0), TCP, former(0, CONNECTIONS_OF_LIFE as u32));
    bench.drain();
    assert!(!bench.engine.peers.contains_key(&peer(0)), "its connection is lost, and not to be made again");
}

/// What a journal says with right hashes may still be nonsense: scopes and ranks that are none, keys that no segment has.
#[test]
fn nonsense_in_a_journal_does_no_harm() {
    let kval = |key: &'static str| Kval { key: Key::from(key), value: Value::Uint32(1) };
    let mut bench = successor(|estate| {
        for scope in 0..=u8::MAX {
            estate.changes.push(Change::Commit(Rank(0), vec![(scope, vec![kval("key")])]));
        }
        estate.changes.push(Change::Remote(Rank(1), vec![Key::from("nowhere")]));
        estate.changes.push(Change::Remote(Rank(4_000_000), vec![Key::from("nowhere")]));
        estate.changes.push(Change::Commit(Rank(4_000_000), vec![(3, vec![kval("far")])]));
        let fate = Fate { finalized: u32::MAX, is_gone: true, is_over: true, has_left: true, is_here: true };
        estate.fates.insert(Rank(1), fate);
        estate.fates.insert(Rank(4_000_000), fate);
    });
    bench.connect(0);
    bench.connect(1);
    bench.fence(0, 12, everybody(), Vec::new());
    bench.fence(1, 12, everybody(), Vec::new());
    // A rank that is not this node's has to do with another server, as far as this one knows.
    bench.answer_last(UpcallResult::Data(Status::SUCCESS, Vec::new().into()));
    assert_eq!((bench.status(0, 12), bench.status(1, 12)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.lose(0);
    bench.lose(1);
    bench.pass(PATIENCE);
}

/// One that has become long is written anew without the commit that has just come, which is not stored yet: that must follow.
#[test]
fn a_journal_that_is_written_anew_loses_no_commit() {
    let tmp = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 2, Some(tmp.path()));
    bench.engine.config.restart = Some(PATIENCE);
    assert_eq!(bench.register_client(&proc(0), 1000, 1000, 7), Status::SUCCESS);
    bench.connect(0);
    let keys = ["first", "second", "third"];
    for key in keys {
        let value = Value::ByteObject(vec![1; 100 << 10].into());
        let kval = Kval { key: Key::from(key), value };
        bench.request(0, 50, Request::Commit { parts: vec![(Scope::Global as u8, vec![kval])] });
        assert_eq!(bench.status(0, 50), Some(Status::SUCCESS));
    }
    let (mut records, mut rewritten) = (Vec::new(), 0);
    for (_, entry) in bench.engine.take_journal(|_| true) {
        match entry {
            JournalEntry::Append(record) => records.push(record),
            JournalEntry::Rewrite(all) => (records, rewritten) = (all, rewritten + 1),
            JournalEntry::Stop(why) => panic!("{why}"),
        }
    }
    let bytes: Vec<u8> = records.iter().flat_map(Slices::slices).flatten().copied().collect();
    assert!(rewritten > 0 && keys.iter().all(|key| bytes.windows(key.len()).any(|window| window == key.as_bytes())));
}
