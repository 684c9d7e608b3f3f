//! What a run does: a list of actions, drawn from a seed. Removing actions from it leaves a script.

use crate::random::Random;

/// Something that happens to a job. Numbers of ranks count the ranks that there are at that moment, round and round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum Action {
    /// A rank puts a new value of a key, and commits. The key says the scope.
    Put { rank: u8, key: u8 },
    /// Ranks of a job fence; all of them where the mask is full.
    Fence { job: u8, members: u8, collects: bool, is_lost: bool },
    /// A rank gets another one's value.
    Get { reader: u8, owner: u8, key: u8, has_timeout: bool },
    /// Ranks of all jobs form a group, and dissolve it.
    Group { members: u8, has_context: bool, is_dissolved: bool, is_lost: bool },
    /// Ranks of all jobs connect, and disconnect.
    Connect { members: u8, disconnects: bool, is_lost: bool },
    /// A rank registers for an event.
    Register { rank: u8, code: u8 },
    /// A rank reports an event.
    Notify { rank: u8, code: u8, range: u8, target: u8 },
    /// A rank publishes a value.
    Publish { rank: u8, key: u8 },
    /// A rank looks one up.
    Lookup { rank: u8, key: u8, is_lost: bool },
    /// A rank starts a job.
    Spawn { rank: u8, is_lost: bool },
    /// A rank dies.
    Kill { rank: u8 },
    /// Time passes.
    Wait { milliseconds: u16 },
}

/// The script of a seed.
pub fn of_seed(seed: u64, actions: usize) -> Vec<Action> {
    let mut random = Random::new(seed);
    (0..actions).map(|_| action(&mut random)).collect()
}

fn action(random: &mut Random) -> Action {
    let kind = random.below(100);
    let mut byte = || random.below(256) as u8;
    let (rank, key, other, is_lost) = (byte(), byte() % 6, byte(), byte() < 12);
    let (flag, more) = (byte() < 128, byte());
    match kind {
        0..20 => Action::Put { rank, key },
        20..36 => {
            let members = if flag { u8::MAX } else { other };
            Action::Fence { job: rank, members, collects: more < 180, is_lost }
        }
        36..58 => Action::Get { reader: rank, owner: other, key, has_timeout: flag },
        58..64 => Action::Group { members: other, has_context: flag, is_dissolved: more < 128, is_lost },
        64..70 => Action::Connect { members: other, disconnects: flag, is_lost },
        70..75 => Action::Register { rank, code: key },
        75..82 => Action::Notify { rank, code: key, range: more, target: other },
        82..86 => Action::Publish { rank, key },
        86..91 => Action::Lookup { rank, key, is_lost },
        91..92 => Action::Spawn { rank, is_lost },
        92..94 => Action::Kill { rank },
        _ => Action::Wait { milliseconds: u16::from(more) * if other < 16 { 100 } else { 1 } },
    }
}
