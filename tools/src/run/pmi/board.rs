//! What the ranks of a job tell each other by PMI-1: values, and who has entered the barrier. No input and output.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::message::{self, Request};

/// The most bytes of all values of a job, with their keys.
const BYTES_MAX: usize = 64 << 20;
/// What an entry takes beside its bytes.
const ENTRY_LEN: usize = 64;
/// The key of which ranks learn who is on which node.
const MAPPING: &[u8] = b"PMI_process_mapping";

/// What a request leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// These bytes for the rank.
    Reply(Vec<u8>),
    /// The same; the rank is connected from here on.
    Connected(Vec<u8>),
    /// The same; the rank has finalized.
    Finalized(Vec<u8>),
    /// Nothing yet, or nothing at all.
    None,
    /// The barrier is over: [`message::barrier`] for each rank.
    BarrierOver,
    /// The rank ends the job.
    Abort { status: i32, message: Option<Vec<u8>> },
    /// The rank breaks the protocol.
    Broken(&'static str),
}

/// The state of one job.
pub(super) struct Board {
    /// The name of its key-value space.
    name: String,
    size: u32,
    values: HashMap<Box<[u8]>, Box<[u8]>>,
    bytes: usize,
    /// The ranks that wait in the barrier.
    entered: BTreeSet<u32>,
    /// When the first of them entered.
    since: Option<Instant>,
    /// The ranks whose processes have ended.
    ended: BTreeSet<u32>,
}

impl Board {
    /// A job of so many ranks on one node.
    pub fn new(name: &str, size: u32) -> Board {
        let mut values = HashMap::new();
        // Blocks of nodes: from node 0 on one node, with so many ranks.
        values.insert(MAPPING.into(), format!("(vector,(0,1,{size}))").into_bytes().into());
        let (entered, ended) = (BTreeSet::new(), BTreeSet::new());
        Board { name: name.to_owned(), size, values, bytes: 0, entered, since: None, ended }
    }

    /// What a request of a rank leads to.
    pub fn handle(&mut self, rank: u32, request: &Request<'_>) -> Effect {
        // Another thread of a rank may abort while one waits.
        if self.entered.contains(&rank) && !matches!(request, Request::Abort { .. }) {
            return Effect::Broken("a command inside a barrier");
        }
        Effect::Reply(match request {
            Request::Init(version) if message::is_served(*version) => {
                return Effect::Connected(message::init(*version));
            }
            Request::Init(version) => message::init(*version),
            Request::Maxes => message::maxes(),
            Request::UniverseSize => message::universe_size(self.size),
            Request::AppNumber => message::app_number(),
            Request::SpaceName => message::space_name(&self.name),
            Request::Put { space, key, value } => message::put(self.put(space, key, value)),
            Request::Get { space, key } => message::get(self.get(space, key)),
            Request::Barrier => return self.enter(rank),
            Request::Finalize => return Effect::Finalized(message::finalize()),
            Request::Abort { status, message } => {
                return Effect::Abort { status: *status, message: message.map(<[u8]>::to_vec) };
            }
            Request::Name(word) => message::no_names(word),
            Request::SpawnLine => return Effect::None,
            Request::Spawn => message::no_spawn(),
        })
    }

    fn put(&mut self, space: &[u8], key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if space != self.name.as_bytes() {
            return Err("unknown_kvsname");
        }
        let before = self.values.get(key).map_or(0, |before| key.len() + before.len() + ENTRY_LEN);
        let bytes = self.bytes.saturating_sub(before) + key.len() + value.len() + ENTRY_LEN;
        if bytes > BYTES_MAX {
            return Err("out_of_room");
        }
        self.bytes = bytes;
        self.values.insert(key.into(), value.into());
        Ok(())
    }

    fn get(&self, space: &[u8], key: &[u8]) -> Option<&[u8]> {
        let value = self.values.get(key).filter(|_| space == self.name.as_bytes());
        value.map(|value| &**value)
    }

    fn enter(&mut self, rank: u32) -> Effect {
        self.since.get_or_insert_with(Instant::now);
        self.entered.insert(rank);
        if self.entered.len() < self.size as usize {
            return Effect::None;
        }
        (self.entered, self.since) = (BTreeSet::new(), None);
        Effect::BarrierOver
    }

    /// The process of a rank has ended.
    pub fn has_ended(&mut self, rank: u32) {
        self.ended.insert(rank);
        self.entered.remove(&rank);
    }

    /// The ranks in the barrier, those that have not entered it, and since when it waits; none if there is no barrier.
    pub fn barrier(&self) -> Option<(Vec<u32>, Vec<u32>, Instant)> {
        let absent = (0..self.size).filter(|rank| !self.entered.contains(rank));
        let since = self.since.filter(|_| !self.entered.is_empty())?;
        Some((self.entered.iter().copied().collect(), absent.collect(), since))
    }

    /// A rank whose end means that the barrier, in which others wait, is never over.
    pub fn never_comes(&self) -> Option<u32> {
        self.ended.first().copied().filter(|_| !self.entered.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replied(answer: Effect) -> String {
        match answer {
            Effect::Reply(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn put<'a>(space: &'a str, key: &'a str, value: &'a [u8]) -> Request<'a> {
        Request::Put { space: space.as_bytes(), key: key.as_bytes(), value }
    }

    fn get<'a>(space: &'a str, key: &'a str) -> Request<'a> {
        Request::Get { space: space.as_bytes(), key: key.as_bytes() }
    }

    #[test]
    fn values_of_one_rank_reach_the_others() {
        let mut board = Board::new("job", 2);
        assert_eq!(replied(board.handle(0, &put("job", "k", b"1"))), "cmd=put_result rc=0 msg=success\n");
        let got = "cmd=get_result rc=0 msg=success value=1\n";
        assert_eq!(replied(board.handle(1, &get("job", "k"))), got);
        board.handle(1, &put("job", "k", b"2"));
        assert_eq!(replied(board.handle(1, &get("job", "k"))), got.replace("=1", "=2"));
        assert!(replied(board.handle(1, &get("job", "none"))).contains("rc=-1"));
        assert!(replied(board.handle(1, &get("other", "k"))).contains("rc=-1"));
        assert!(replied(board.handle(1, &put("other", "k", b"3"))).contains("unknown_kvsname"));
        let mapping = replied(board.handle(0, &get("job", "PMI_process_mapping")));
        assert_eq!(mapping, "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
    }

    #[test]
    fn values_are_bounded() {
        let mut board = Board::new("job", 1);
        let value = vec![b'v'; message::VALUE_LEN_MAX - 1];
        let is_full = |board: &mut Board, key: u32| {
            replied(board.handle(0, &put("job", &key.to_string(), &value))).contains("out_of_room")
        };
        let first = (0..BYTES_MAX as u32).find(|key| is_full(&mut board, *key)).unwrap();
        assert!((first as usize) < BYTES_MAX / value.len());
        // What is there may be replaced.
        assert!(!is_full(&mut board, 0));
        assert!(is_full(&mut board, first));
    }

    #[test]
    fn a_barrier_is_over_when_all_ranks_have_entered() {
        let mut board = Board::new("job", 3);
        assert_eq!(board.barrier(), None);
        for _ in 0..2 {
            assert_eq!(board.handle(2, &Request::Barrier), Effect::None);
            assert_eq!(board.handle(0, &Request::Barrier), Effect::None);
            assert!(board.barrier().is_some_and(|(entered, absent, _)| entered == [0, 2] && absent == [1]));
            assert_eq!(board.handle(1, &Request::Barrier), Effect::BarrierOver);
            assert_eq!(board.barrier(), None);
        }
    }

    #[test]
    fn in_a_barrier_a_rank_can_only_abort() {
        let mut board = Board::new("job", 2);
        board.handle(0, &Request::Barrier);
        assert!(matches!(board.handle(0, &Request::Barrier), Effect::Broken(_)));
        let abort = Request::Abort { status: 3, message: None };
        assert_eq!(board.handle(0, &abort), Effect::Abort { status: 3, message: None });
    }

    #[test]
    fn who_has_ended_never_comes_to_a_barrier() {
        let mut board = Board::new("job", 3);
        board.handle(0, &Request::Barrier);
        board.has_ended(0);
        assert_eq!((board.barrier(), board.never_comes()), (None, None));
        board.handle(1, &Request::Barrier);
        assert_eq!(board.never_comes(), Some(0));
    }

    #[test]
    fn another_version_is_refused_and_not_connected() {
        let mut board = Board::new("job", 1);
        assert!(replied(board.handle(0, &Request::Init(2))).ends_with("rc=-1\n"));
        assert!(matches!(board.handle(0, &Request::Init(1)), Effect::Connected(reply) if reply.ends_with(b"rc=0\n")));
    }
}
