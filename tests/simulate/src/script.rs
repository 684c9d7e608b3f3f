//! What a run does: a list of actions, drawn from a seed. Removing actions from it leaves a script.

use crate::random::Random;
use crate::{hosts, monitors, output, queries, restart, services};

/// The codes of events: those of ranks, and those of alerts. This one is all.
pub(crate) const CODES: u8 = 14;

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
    /// The ranks of a job on one server fence, without naming themselves.
    FenceHere { job: u8, server: u8, collects: bool },
    /// Ranks of all jobs form a group, and dissolve it.
    Group { members: u8, has_context: bool, is_dissolved: bool, is_lost: bool, form: u8 },
    /// Ranks of all jobs connect, and disconnect.
    Connect { members: u8, disconnects: bool, is_lost: bool, form: u8 },
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
    /// A rank puts a value that it may delete, or deletes it.
    Fleet { rank: u8, key: u8, deletes: bool },
    /// A process asks the host for a service.
    Serve { rank: u8, kind: u8, is_lost: bool },
    /// A process asks what is known.
    Query { rank: u8, kind: u8, about: u8, is_lost: bool },
    /// A process reads in another way than by a rank's key.
    Read { rank: u8, kind: u8, owner: u8 },
    /// A process wants the output of another one, or of its job.
    Pull { rank: u8, owner: u8, form: u8, is_lost: bool },
    /// It wants it no more.
    StopPull { rank: u8 },
    /// A rank writes.
    Write { rank: u8, channel: u8 },
    /// A process has input for another one.
    Push { rank: u8, target: u8 },
    /// A process has something watched.
    Watch { rank: u8, kind: u8 },
    /// It gives signs of life.
    Beat { rank: u8 },
    /// A process deregisters from an event.
    Unregister { rank: u8, code: u8 },
    /// A tool comes.
    Tool { server: u8, user: u8, form: u8 },
    /// Somebody comes who must be refused.
    Intrude { server: u8, way: u8 },
    /// A rank sends what nobody can read.
    Garble { rank: u8 },
    /// A host does something by itself.
    Host { server: u8, kind: u8, rank: u8 },
    /// A rank finalizes, and comes back.
    Return { rank: u8 },
    /// A rank leaves a group.
    Leave { rank: u8 },
    /// A server is killed, now or in its next step, and started again.
    Restart { server: u8, form: u8 },
    /// Time passes.
    Wait { milliseconds: u16 },
}

/// The script of a seed.
pub fn of_seed(seed: u64, actions: usize) -> Vec<Action> {
    let mut random = Random::new(seed);
    let script = (0..actions).map(|_| action(&mut random)).collect();
    if restart::is_of(seed) { restart::script_of(seed, script) } else { script }
}

fn action(random: &mut Random) -> Action {
    if random.below(2) == 0 {
        return other(random);
    }
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
        58..64 => Action::Group { members: other, has_context: flag, is_dissolved: more < 128, is_lost, form: rank },
        64..70 => Action::Connect { members: other, disconnects: flag, is_lost, form: rank },
        70..75 => Action::Register { rank, code: if flag { key } else { more % (CODES + 1) } },
        75..82 => Action::Notify { rank, code: key, range: more, target: other },
        82..86 => Action::Publish { rank, key },
        86..91 => Action::Lookup { rank, key, is_lost },
        91..92 => Action::Spawn { rank, is_lost },
        92..94 => Action::Kill { rank },
        _ => Action::Wait { milliseconds: u16::from(more) * if other < 16 { 100 } else { 1 } },
    }
}

/// What not every job does.
fn other(random: &mut Random) -> Action {
    let kind = random.below(100);
    let mut byte = || random.below(256) as u8;
    let (rank, more, other, is_lost) = (byte(), byte(), byte(), byte() < 12);
    match kind {
        0..10 => Action::Fleet { rank: rank % 3, key: more % 3, deletes: other < 128 },
        10..24 => Action::Serve { rank, kind: more % services::KINDS, is_lost },
        24..44 => Action::Query { rank, kind: more % queries::QUERIES, about: other, is_lost },
        44..58 => Action::Read { rank, kind: more % queries::READS, owner: other },
        58..64 => Action::Pull { rank, owner: other, form: more % output::FORMS, is_lost },
        64..66 => Action::StopPull { rank },
        66..74 => Action::Write { rank, channel: more },
        74..77 => Action::Push { rank, target: other },
        77..81 => Action::Watch { rank, kind: more % monitors::KINDS },
        81..82 => Action::Beat { rank },
        82..84 => Action::Unregister { rank, code: more % (CODES + 1) },
        84..86 => Action::Tool { server: rank, user: more, form: other },
        86..90 => Action::Intrude { server: rank, way: more },
        90..91 => Action::Garble { rank },
        91..94 => Action::Host { server: rank, kind: more % hosts::CALLS, rank: other },
        94..96 => Action::FenceHere { job: rank, server: more, collects: other < 128 },
        96..97 => Action::Spawn { rank, is_lost },
        97..98 => Action::Return { rank },
        _ => Action::Leave { rank },
    }
}
