//! The local read path: Gets that are answered on the calling thread, without the server.
//!
//! The order: the overlay of own values; the mapped segments of the own namespace, or its data in the heap if no
//! segment is mapped; a tool's mapped segments of other jobs; the cache of earlier replies of the server. The segments of
//! the own namespace need no lock. The others have a filter that is checked first, so that a lock is taken only if they may
//! hold the value.

use pmix_dstore::codec::ValueRef;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Info, KeyRef, NSPACE_LEN_MAX, Nspace, Proc, Rank, Result, Value, keys};
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution::{self, Caller, Selector};
use pmix_dstore::segment::{FastResult, FastValue, JobReader, NamespaceView, Target};

use crate::lookup::{Deliver, Lookup, NspaceRef, deliver};
use crate::other_jobs::{self, OtherJobs};
use crate::overlay::{self, Overlay};
use crate::own_segments::OwnSegments;
use crate::pin::{Reader, Reading};
use crate::reply_cache::{self, ReplyCache};
use crate::source::{self, Source};
use pmix_wire::jobinfo;

/// The values that this process can read without the server.
pub struct Local {
    me: Proc,
    /// The name of the own namespace.
    pub name: OwnNspace,
    hostname: Vec<u8>,
    /// The process's own values.
    pub overlay: Overlay,
    /// The mapped segments of the own namespace, where segments hold its data.
    pub segments: Option<OwnSegments>,
    /// The data of the own job, if no segment holds it.
    pub job: Option<JobData>,
    /// The mapped segments of other jobs, of a tool.
    pub others: OtherJobs,
    /// Earlier replies of the server.
    pub reply_cache: ReplyCache,
}

/// The own namespace's name, which nearly every Get names. It is compared without a search for its end and without a
/// function call.
pub struct OwnNspace {
    nspace: Nspace,
    /// The first bytes of the name, and a mask of the bytes that belong to it, with its NUL.
    words: [(u64, u64); OWN_WORDS],
}

/// Names shorter than this number of 8-byte words are compared word by word.
const OWN_WORDS: usize = 4;

impl OwnNspace {
    fn new(nspace: Nspace) -> OwnNspace {
        let word = |index: usize| {
            let byte = |at: usize| nspace.as_bytes().get(index * 8 + at).copied().unwrap_or(0);
            let mask = |at: usize| if index * 8 + at <= nspace.as_bytes().len() { 0xff } else { 0 };
            (u64::from_le_bytes(std::array::from_fn(byte)), u64::from_le_bytes(std::array::from_fn(mask)))
        };
        OwnNspace { words: std::array::from_fn(word), nspace }
    }

    /// Whether this is the name in the buffer.
    #[inline]
    pub fn is(&self, name: &[u8; NSPACE_LEN_MAX + 1]) -> bool {
        let own = self.nspace.as_bytes();
        if own.len() >= 8 * OWN_WORDS {
            return name[..own.len()] == *own && name[own.len()] == 0;
        }
        let (chunks, _) = name.as_chunks::<8>();
        let differs =
            chunks.iter().zip(&self.words).map(|(chunk, (word, mask))| u64::from_le_bytes(*chunk) & mask ^ word);
        differs.fold(0, |all, word| all | word) == 0
    }
}

/// The locks during a fork.
pub(crate) struct Held<'a> {
    _overlay: overlay::Held<'a>,
    _reply_cache: reply_cache::Held<'a>,
    _others: other_jobs::Held<'a>,
}

impl Local {
    /// A read path with the data of `view` and `job` only.
    pub fn new(me: Proc, hostname: Vec<u8>, view: Option<NamespaceView>, job: Option<JobData>) -> Local {
        let name = OwnNspace::new(me.nspace.clone());
        let (overlay, others, reply_cache) = (Overlay::new(), OtherJobs::default(), ReplyCache::default());
        let segments = view.map(OwnSegments::new);
        Local { me, name, hostname, overlay, segments, job, others, reply_cache }
    }

    /// Holds for a fork the locks of what a child may use, in the order in which other threads take several of them.
    pub fn hold_for_fork(&self) -> Held<'_> {
        let (others, reply_cache) = (self.others.hold_for_fork(), self.reply_cache.hold_for_fork());
        Held { _overlay: self.overlay.hold_for_fork(), _reply_cache: reply_cache, _others: others }
    }

    /// Whether segments of other jobs may be mapped, too.
    pub fn with_other_jobs(self, is_on: bool) -> Local {
        Local { others: OtherJobs::new(is_on), ..self }
    }

    /// The name of this process's node.
    pub fn hostname(&self) -> &[u8] {
        &self.hostname
    }

    /// Whether `nspace` is the own namespace.
    #[inline]
    pub fn is_own(&self, nspace: &[u8]) -> bool {
        nspace == self.me.nspace.as_bytes()
    }

    /// Whether all values that the host registered for the own namespace under this key can be read here.
    pub fn is_whole(&self, key: &[u8]) -> bool {
        let is_mapped = self.segments.as_ref().is_some_and(|segments| segments.read().job().is_some());
        is_mapped || (self.job.is_some() && !jobinfo::is_left_out(key))
    }

    /// The view of the own segments, for a reader.
    #[inline(always)]
    pub fn view<'a>(&'a self, reading: Reading<'a>) -> Option<&'a NamespaceView> {
        self.segments.as_ref().map(|segments| segments.by(reading))
    }

    /// The own job's segment, for a reader.
    #[inline(always)]
    pub fn mapped_job<'a>(&'a self, reading: Reading<'a>) -> Option<&'a JobReader> {
        self.view(reading).and_then(NamespaceView::job)
    }

    /// Whether the namespace is the own one. The answer for a buffer without a NUL is no.
    #[inline(always)]
    pub fn is_own_name(&self, nspace: NspaceRef<'_>) -> bool {
        match nspace {
            NspaceRef::Own => true,
            NspaceRef::Name(name) => name.is_empty() || self.is_own(name),
            NspaceRef::Buffer(buffer) => self.name.is(buffer),
        }
    }

    /// Finds the value of the look-up's key and passes it to `take`.
    pub fn find(&self, lookup: &Lookup<'_>, key: KeyRef<'_>, take: Deliver<'_>) -> Option<Result<()>> {
        let Lookup { nspace, is_own, rank, .. } = *lookup;
        let selector = &lookup.options.selector;
        // The fast path's miss is not final for two kinds of Gets: keys of the standard that ranks put, and keys
        // without a rank.
        let is_absent_here = lookup.is_absent_here && rank != Rank::UNDEF && !key.is(keys::GROUP_LOCAL_CID);
        if !is_absent_here {
            match self.overlay.get(nspace, rank, &key, |value| deliver(value.into(), take)) {
                Ok(None) => {}
                Ok(result) => {
                    source::note(Source::Own);
                    return result;
                }
                Err(status) => return Some(Err(status)),
            }
            if is_own {
                let reader = Reader::new(None);
                if let Some(value) = self.find_own(reader.reading(), rank, &key, selector) {
                    return Some(deliver(value, take));
                }
            }
        }
        let caller = self.caller(is_own);
        if !is_own && let Some(view) = self.others.view(nspace) {
            let found = match rank {
                Rank::UNDEF if !key.is_reserved() => view.modex_any(&key).map(|(_, value)| (value, Source::Modex)),
                rank => find_mapped(&view, rank, &key, selector, &caller),
            };
            if let Some((value, source)) = found {
                source::note(source);
                return Some(deliver(value, take));
            }
        }
        let known = self.reply_cache.get(nspace, rank, key, selector, &caller, |value| deliver(value, take));
        if known.is_some() {
            source::note(Source::ReplyCache);
        }
        known.or_else(|| if rank == Rank::UNDEF { self.find_anywhere(lookup, &key, take) } else { None })
    }

    /// The fast path: a value of the own namespace in its segments, by rank and key only. A value that is not found
    /// here may be elsewhere.
    #[inline(always)]
    pub fn fast_value<'a>(&'a self, reading: Reading<'a>, rank: Rank, key: &KeyRef<'_>) -> FastValue<'a> {
        match self.view(reading) {
            Some(view) if !self.overlay.may_hold(rank, key) => view.fast_value(rank, key, self.me.rank),
            _ => FastValue::NEED_SLOW_PATH,
        }
    }

    /// As [`Local::fast_value`], for a caller that keeps a pointer to the value as long as this lives.
    #[inline(always)]
    pub fn lent_fast_value<'a>(&'a self, reading: Reading<'a>, rank: Rank, key: &KeyRef<'_>) -> FastValue<'a> {
        match self.view(reading) {
            Some(view) if !self.overlay.may_hold(rank, key) => view.lent_fast_value(rank, key, self.me.rank),
            _ => FastValue::NEED_SLOW_PATH,
        }
    }

    /// Whether a caller may keep a pointer to this value as long as this lives.
    #[cold]
    pub fn lends(&self, reading: Reading<'_>, value: FastValue<'_>) -> bool {
        match value.result() {
            FastResult::Text(bytes) | FastResult::Bytes { bytes, .. } => {
                self.view(reading).is_some_and(|view| view.lend(bytes))
            }
            FastResult::Number { .. } | FastResult::Absent | FastResult::NeedSlowPath => true,
        }
    }

    /// As [`Local::fast_value`], for a value of a named node or application.
    #[inline(always)]
    pub fn fast_value_of<'a>(
        &'a self,
        reading: Reading<'a>,
        of: Target<'_>,
        rank: Rank,
        key: &KeyRef<'_>,
    ) -> FastValue<'a> {
        // Own values and values that ranks published take precedence.
        if self.overlay.may_hold(rank, key) || !key.begins_with_pmix() && rank.is_process() {
            return FastValue::NEED_SLOW_PATH;
        }
        self.mapped_job(reading).map_or(FastValue::NEED_SLOW_PATH, |job| job.fast_value_in(of, key))
    }

    /// A value of the own namespace in its segments, or in the heap if there are no segments.
    fn find_own<'a>(
        &'a self,
        reading: Reading<'a>,
        rank: Rank,
        key: &KeyRef<'_>,
        selector: &Selector<'_>,
    ) -> Option<ValueRef<'a>> {
        let caller = self.caller(true);
        let mapped = self.view(reading).and_then(|view| find_mapped(view, rank, key, selector, &caller));
        source::note(mapped.map_or(Source::Job, |(_, source)| source));
        match mapped {
            Some((value, _)) => Some(value),
            None => realm_resolution::find(self.job.as_ref()?, rank, key, selector, &caller),
        }
    }

    /// One of several values under a key, selected by the qualifiers among `infos`.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn find_qualified(&self, nspace: &[u8], rank: Rank, key: &[u8], infos: &[Info]) -> Result<Option<Value>> {
        let all = KeyRef::from(keys::QUALIFIED_VALUE);
        let find = |value: &Value| qualified::find(value, key, infos).map(Value::copy).transpose();
        if let Some(found) = self.overlay.get(nspace, rank, &all, find)?.transpose()?.flatten() {
            return Ok(Some(found));
        }
        if self.is_own(nspace) {
            let reader = Reader::new(None);
            if let Some(view) = self.view(reader.reading()) {
                let published = view.modex(rank, &all).filter(|_| rank.is_process());
                if let Some(found) = published.map(|value| find(&value.to_value()?)).transpose()?.flatten() {
                    return Ok(Some(found));
                }
            }
            let job = (self.mapped_job(reader.reading()), &self.job);
            let found = match job {
                (Some(job), _) => {
                    realm_resolution::find_qualified(job, rank, key, infos)?.filter(|_| !job.is_damaged())
                }
                (None, Some(job)) => realm_resolution::find_qualified(job, rank, key, infos)?,
                (None, None) => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        self.reply_cache.qualified(nspace, rank, key, infos)
    }

    /// A Get without a rank: of a key that only one rank of the namespace has put, or a reserved key of the caller.
    #[cold]
    fn find_anywhere(&self, lookup: &Lookup<'_>, key: &KeyRef<'_>, take: Deliver<'_>) -> Option<Result<()>> {
        if key.is_reserved() {
            let reader = Reader::new(None);
            let own = self.find_own(reader.reading(), self.me.rank, key, &lookup.options.selector);
            return Some(deliver(own.filter(|_| lookup.is_own)?, take));
        }
        if let Some(rank) = self.overlay.unique(lookup.nspace, key) {
            source::note(Source::Own);
            return self.overlay.get(lookup.nspace, rank, key, |value| deliver(value.into(), take)).ok()?;
        }
        let reader = Reader::new(None);
        let view = self.view(reader.reading()).filter(|_| lookup.is_own)?;
        let (rank, value) = view.modex_any(key)?;
        source::note(Source::Modex);
        self.overlay.get(lookup.nspace, rank, key, |_| ()).ok()?;
        Some(deliver(value, take))
    }

    /// The caller, for the realm resolution.
    #[inline(always)]
    pub fn caller(&self, is_own: bool) -> Caller<'_> {
        Caller { rank: is_own.then_some(self.me.rank), hostname: &self.hostname }
    }

    /// Reads the data of a job with `mapped` or `heap`, depending on where it is; `None` if this process does not have
    /// all of it.
    pub fn with_job<R>(
        &self,
        nspace: &Nspace,
        mapped: impl FnOnce(&JobReader) -> R,
        heap: impl FnOnce(&JobData) -> R,
    ) -> Option<R> {
        if !self.is_own(nspace.as_bytes()) {
            let view = self.others.view(nspace.as_bytes());
            let found = view.as_ref().and_then(|view| view.job()).map(|job| (mapped(job), job.is_damaged()));
            return match found {
                Some((found, is_damaged)) => Some(found).filter(|_| !is_damaged),
                None => self.reply_cache.job(nspace.as_bytes(), heap),
            };
        }
        let reader = Reader::new(None);
        match (self.mapped_job(reader.reading()), &self.job) {
            // If the segment is corrupt, the server is asked instead.
            (Some(job), _) => Some(mapped(job)).filter(|_| !job.is_damaged()),
            (None, Some(job)) => Some(heap(job)),
            (None, None) => None,
        }
    }
}

/// A value in the segments of a job, and which of them have it.
fn find_mapped<'v>(
    view: &'v NamespaceView,
    rank: Rank,
    key: &KeyRef<'_>,
    selector: &Selector<'_>,
    caller: &Caller<'_>,
) -> Option<(ValueRef<'v>, Source)> {
    if !key.is_reserved()
        && rank.is_process()
        && let Some(value) = view.modex(rank, key)
    {
        return Some((value, Source::Modex));
    }
    let job = view.job()?;
    let value = realm_resolution::find(job, rank, key, selector, caller);
    // If the segment is corrupt, the rules may have skipped a corrupt value and found one that they would not have chosen otherwise.
    value.filter(|_| !job.is_damaged()).map(|value| (value, Source::Job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_name_is_distinguished_from_all_others() {
        for len in [1, 7, 8, 15, 30, 31, 32, 33, 254, 255] {
            let name: Vec<u8> = (0..len).map(|at| b'a' + (at % 26) as u8).collect();
            let own = OwnNspace::new(Nspace::new(&name).unwrap());
            // Callers do not clear the bytes after the NUL.
            let mut buffer = [0xee; NSPACE_LEN_MAX + 1];
            buffer[..len].copy_from_slice(&name);
            assert!(!own.is(&buffer), "longer than {len}");
            buffer[len] = 0;
            assert!(own.is(&buffer), "{len}");
            for at in 0..len {
                buffer[at] ^= 1;
                assert!(!own.is(&buffer), "byte {at} of {len}");
                buffer[at] ^= 1;
            }
            buffer[len - 1] = 0;
            assert!(!own.is(&buffer), "shorter than {len}");
        }
    }
}
