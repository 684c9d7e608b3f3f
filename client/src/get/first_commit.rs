//! Gets that come before a neighbour's first commit, under a stock server.
//!
//! Open MPI 5 with asynchronous modex reads its neighbours' keys with `PMIX_IMMEDIATE`, when some of them have not committed yet.
//! It takes "not found" for a neighbour without shared memory, and the job hangs. Our server therefore lets such a Get wait for the
//! first commit. A stock server answers at once; there the client waits, by a second request that the server keeps until the commit.

use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};
use pmix_wire::Version;
use pmix_wire::reply::GetReply;

use super::remote_get::RemoteGet;
use super::{Deliver, GetOptions};
use crate::client::{ClientKind, Inner};
use crate::operation::deadline;
use crate::resolve::is_neighbour;

/// How long a Get waits for the first commit of a rank, at most. Stock servers end such waits themselves, in whole seconds.
const WAIT: Duration = Duration::from_secs(2);

/// Servers from this release on answer a Get without a key with the rank's values, and keep it until there are some.
const KEEPS_GETS_WITHOUT_KEY: Version = Version::new(4, 1, 0);

impl Inner {
    /// Whether a stock server's reply says "not found" only because the rank, a neighbour, may not have committed yet.
    pub(super) fn may_precede_commit(&self, remote: &RemoteGet, reply: &Result<Vec<u8>>) -> bool {
        let flags = GetOptions::from_infos(&remote.infos).flags;
        let is_asked_so =
            flags.immediate() && !flags.bypass_cache() && remote.key.as_ref().is_some_and(|key| !key.is_reserved());
        if !is_asked_so || self.link.awaits_commits() || self.link.server_version() < KEEPS_GETS_WITHOUT_KEY {
            return false;
        }
        let is_not_found =
            |reply: &Vec<u8>| self.decode::<GetReply>(reply).is_ok_and(|reply| reply.status == Status::ERR_NOT_FOUND);
        reply.as_ref().is_ok_and(is_not_found) && self.is_awaited(remote)
    }

    /// Whether the rank is a neighbour of which nothing has come. Two ranks that ask before their own commits would only wait for
    /// each other.
    fn is_awaited(&self, remote: &RemoteGet) -> bool {
        let rank = remote.rank;
        self.kind() == ClientKind::Launched
            && self.local.is_own(remote.nspace.as_bytes())
            && !self.local.reply_cache.has_heard_of(rank)
            && self.is_neighbour(rank)
            && self.puts.lock().is_ok_and(|puts| puts.has_committed)
    }

    fn is_neighbour(&self, rank: Rank) -> bool {
        rank != self.me.rank
            && self.local.job.as_ref().is_some_and(|job| is_neighbour(job, rank, self.me.rank, self.local.hostname()))
    }

    /// Notes that values of this rank have come.
    pub(super) fn note_first_values(&self, proc: &Proc) {
        let is_own = self.local.is_own(proc.nspace.as_bytes());
        if is_own && !self.link.awaits_commits() && self.is_neighbour(proc.rank) {
            self.local.reply_cache.hear_of(proc.rank);
        }
    }

    /// Asks for all values of the rank, which a stock server keeps until the rank's first commit, and answers the Get from these. The
    /// program's own deadline holds for both requests.
    pub(super) fn get_after_commit(&self, remote: &RemoteGet, until: Option<Instant>, take: Deliver<'_>) -> Result<()> {
        let is_kept = |info: &&Info| !info.key.is(keys::IMMEDIATE) && !info.key.is(keys::TIMEOUT);
        let mut infos = remote.infos.iter().filter(is_kept).map(Info::copy).collect::<Result<Vec<Info>>>()?;
        infos.push(Info::new(keys::TIMEOUT, Value::Int(WAIT.as_secs() as i32)));
        let payload = remote.payload_with(self, None, infos)?;
        let until = [until, deadline(Some(WAIT))].into_iter().flatten().min();
        let reply = self.link.request_wait(payload.into(), until);
        self.local.reply_cache.hear_of(remote.rank);
        match self.answer(remote, reply, take) {
            // The program did not make this request, so its other failures are the first answer.
            Err(status) if status != Status::ERR_LOST_CONNECTION && status != Status::ERR_NOMEM => {
                Err(Status::ERR_NOT_FOUND)
            }
            answered => answered,
        }
    }
}
