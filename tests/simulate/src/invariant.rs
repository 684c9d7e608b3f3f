//! What must hold, each with its name.

use std::fmt;

/// An invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Nobody who lives waits when all messages have arrived, all hosts have answered and all time-outs are over.
    NobodyWaits,
    /// Each call is answered once, in a form that can be read.
    AnsweredOnce,
    /// All members of an operation see the same result.
    SameResult,
    /// An operation fails only for a cause: a member died, or the host did not answer in time.
    NamedCause,
    /// A value is the one that its owner put under that key.
    OwnValue,
    /// A reader gets only what has its scope.
    Scope,
    /// A value is no older than the last fence of owner and reader.
    NoOlderThanFence,
    /// Values and events reach only those who may read them.
    MayRead,
    /// An event reaches those in its range who registered for it, once.
    EventInRange,
    /// The host is told who asks, whatever the process claims.
    Signed,
    /// A request is answered with what is true, or with the host's answer to it, and not to another one.
    OwnAnswer,
    /// Output reaches those who want it and may have it, once, in its order.
    Output,
    /// Who is nobody, or claims to be somebody else, is not let in.
    Refused,
    /// A value that was deleted is not found any more.
    Deleted,
    /// Nothing is left when all have gone.
    NothingLeft,
}

/// What the restart of a server does not keep (`docs/restart.md`), and so need not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    /// A request that is not sent again ends with `PMIX_ERR_COMM_FAILURE`: nobody knows whether it was done.
    NobodyKnows,
    /// Events that were on their way when the server was killed do not come, nor those that are reported while there is none.
    EventLost,
    /// Who was connected when the server was killed, and does not come again in time, counts as lost, though it may have finalized.
    CountsAsLost,
    /// Connections over TCP are lost; others, too, where the directory has no journal, or no server comes in time.
    ConnectionLost,
}

/// A run in which one did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
    /// The number of steps until then.
    pub step: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {} steps: {}", self.invariant, self.step, self.what)
    }
}
