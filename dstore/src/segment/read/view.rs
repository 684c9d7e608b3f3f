//! All segments of one namespace, for a reader.

use std::ops::DerefMut;
use std::sync::Arc;

use super::fast_path::FastValue;
use super::job_reader::JobReader;
use super::modex_reader::ModexReader;
use super::region::MappedRegion;
use crate::cancel::Uncancelled;
use crate::codec::ValueRef;
use crate::model::{KeyRef, Nspace, Rank};
use crate::segment::directory::error::AttachError;
use crate::segment::directory::files::{Directory, open_file};
use crate::segment::directory::page::{Entry, PAGE_CAPACITY, PageMap, count_of, may_be, page_name, segment_name};
use crate::segment::directory::sync::{AtomicPtr, AtomicU64, Complete, Mutex, Ordering, after_missing};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::header::{HEADER_LEN, SegmentKind};
use crate::segment::layout::raw_header::RawHeader;

/// Statistics of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewStats {
    /// Entries of the directory up to which it was read. A reader that lags skips those that it does not need.
    pub entries: u64,
    /// Segments in the current set.
    pub segments_live: u64,
    /// Bytes of these.
    pub bytes_live: u64,
    /// Mapped segments, including those that were replaced since and are not reclaimed.
    pub segments_mapped: u64,
    /// Bytes of these.
    pub bytes_mapped: u64,
    /// Segments that could not be attached. Their values are requested over the socket.
    pub segments_missing: u64,
    /// Number of refreshes of the set.
    pub refreshes: u64,
}

/// The segments of a namespace: attached once, refreshed when the directory page changes, valid until dropped.
///
/// [`NamespaceView::job`] and [`NamespaceView::modex`] load two words and compare them. Only when the count of the page has
/// changed do they attach new segments. Values borrow from the view: no segment is unmapped before the view is dropped, unless its owner
/// knows that nobody has borrowed from it ([`NamespaceView::reclaim`]). A view maps at most 16,384 segments at a time; beyond that it finds
/// no published values, and the server is asked.
pub struct NamespaceView {
    /// The current set; it is the last of `refresher.sets`.
    current: AtomicPtr<Complete<SegmentSet>>,
    page: PageMap,
    directory: Arc<Directory>,
    nspace: Nspace,
    mapped_max: usize,
    /// The process that attached.
    pid: u32,
    refresher: Mutex<Refresher>,
}

/// How many segments a view maps at a time. The kernel gives a process 65,530 mappings (`vm.max_map_count`), which its program needs, too.
const MAPPED_MAX: usize = 16_384;

/// So many replaced segments and sets [`NamespaceView::reclaim`] drops at once, at least: to find out who reads takes a system call
/// (`membarrier`) that interrupts all threads of the process.
const RECLAIM_BATCH: usize = 64;

/// An immutable set of segments.
struct SegmentSet {
    /// The newest word of the page's count for which this is the set.
    count: AtomicU64,
    job: Option<Arc<JobReader>>,
    /// Whether all live segments are in this set, and were in each earlier set.
    is_complete: bool,
    /// Newest first. Ends at the first segment that could not be attached: an older value must not hide a newer one.
    modex: Box<[Arc<ModexReader>]>,
}

/// State that only the refreshing thread accesses.
#[derive(Default)]
struct Refresher {
    /// The newest page after the first, with its number.
    page: Option<(u64, PageMap)>,
    /// Number of the entries that were read so far.
    known: u64,
    /// The entries that no other entry replaces, by their numbers.
    live: Vec<KnownEntry>,
    /// Those that were live before reading began at a later page, until they are found carried over to it.
    former: Vec<KnownEntry>,
    /// Replaced ones whose segments are mapped: a look-up on another thread may still read them, and callers have borrowed from them.
    replaced: Vec<KnownEntry>,
    /// Sets that were current, and the current one as the last: a look-up on another thread may still read in an earlier one. A set has a
    /// few words per live segment; sets share the segments.
    sets: Vec<Arc<Complete<SegmentSet>>>,
    /// Segments and sets that are out of reach.
    leaving: Option<Unreachable>,
    /// Replaced ones of whose segments a value was lent: they stay.
    lent: Vec<KnownEntry>,
    refreshes: u64,
    missing: u64,
    /// Whether any set was incomplete. A look-up in that set may have missed a value of a later set, and its thread checks only
    /// afterwards whether the miss is reliable.
    was_incomplete: bool,
    last_error: Option<AttachError>,
}

/// Whether a grace period is over: all readers of its beginning have ended. Called until it answers true.
pub type IsOver = Box<dyn FnMut() -> bool + Send>;

/// Unreachable segments and sets, which wait for the end of a grace period.
///
/// A set keeps its segments mapped. So what readers rely on is that no set goes too early; entries keep what was lent.
struct Unreachable {
    replaced: Vec<KnownEntry>,
    #[cfg_attr(not(test), expect(dead_code, reason = "dropped with this"))]
    sets: Vec<Arc<Complete<SegmentSet>>>,
    /// Whether nobody reads in these any more.
    is_over: IsOver,
}

struct KnownEntry {
    /// `None` for an unknown kind.
    entry: Option<Entry>,
    segment: Attached,
}

enum Attached {
    Not,
    Job(Arc<JobReader>),
    Modex(Arc<ModexReader>),
}

impl Attached {
    fn is_damaged(&self) -> bool {
        match self {
            Attached::Not => false,
            Attached::Job(segment) => segment.is_damaged(),
            Attached::Modex(segment) => segment.is_damaged(),
        }
    }

    /// Whether a caller may point to a value of the segment.
    fn is_lent(&self) -> bool {
        match self {
            Attached::Not => false,
            Attached::Job(segment) => segment.is_lent(),
            Attached::Modex(segment) => segment.is_lent(),
        }
    }

    /// The length of the segment, if it is mapped.
    fn len(&self) -> Option<u64> {
        match self {
            Attached::Not => None,
            Attached::Job(segment) => Some(segment.header().total_len),
            Attached::Modex(segment) => Some(segment.header().total_len),
        }
    }
}

impl SegmentSet {
    fn new(count: u64, job: Option<Arc<JobReader>>, is_complete: bool, modex: Box<[Arc<ModexReader>]>) -> SegmentSet {
        SegmentSet { count: AtomicU64::new(count), job, is_complete, modex }
    }

    /// Whether look-ups in both have the same results.
    fn is_same(&self, other: &SegmentSet) -> bool {
        let have_same_job = match (&self.job, &other.job) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        have_same_job
            && self.is_complete == other.is_complete
            && self.modex.len() == other.modex.len()
            && self.modex.iter().zip(&other.modex).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Whether a look-up has found corruption in one of the segments.
    fn is_damaged(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_damaged()) || self.modex.iter().any(|segment| segment.is_damaged())
    }
}

impl NamespaceView {
    /// Limit of attempts. A missing file means that the page has changed since, so the page is read again.
    const ATTEMPTS_MAX: u32 = 16;

    /// Attaches the namespace whose inner directory is `directory`. The directory's owner must own the page and the segments, and
    /// no one else may write them.
    ///
    /// A segment that cannot be attached is not an error here: its values are not found, and [`NamespaceView::last_error`] has
    /// the reason.
    ///
    /// # Errors
    /// The page cannot be used.
    pub fn attach(directory: impl Into<Arc<Directory>>) -> Result<NamespaceView, AttachError> {
        NamespaceView::attach_at_most(MAPPED_MAX, directory.into())
    }

    /// The same, with another number of segments that are mapped at most.
    pub(crate) fn attach_at_most(mapped_max: usize, directory: Arc<Directory>) -> Result<NamespaceView, AttachError> {
        let page = open_page(&directory, 0)?;
        if page.is_retired() {
            return Err(AttachError::Retired);
        }
        let nspace = page
            .nspace()
            .ok_or_else(|| AttachError::Page { path: directory.path().join(page_name(0)), what: "namespace" })?;
        let empty = Arc::new(Complete::new(SegmentSet::new(0, None, false, Box::default())));
        let current = AtomicPtr::new(Arc::as_ptr(&empty).cast_mut());
        let refresher = Refresher { sets: vec![empty], ..Refresher::default() };
        let view = NamespaceView {
            current,
            page,
            directory,
            nspace,
            mapped_max,
            pid: std::process::id(),
            refresher: Mutex::new(refresher),
        };
        view.refresh();
        Ok(view)
    }

    /// The namespace, as the page names it.
    pub fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// The job segment, if it could be attached. After a look-up in it, callers check [`JobReader::is_damaged`].
    #[inline(always)]
    pub fn job(&self) -> Option<&JobReader> {
        self.set().job.as_deref().filter(|job| !job.is_damaged())
    }

    /// Whether these bytes lie in a segment of the current set. They then stay valid as long as the view, whatever is reclaimed.
    #[inline]
    pub fn lend(&self, bytes: &[u8]) -> bool {
        let set = self.loaded();
        let at = bytes.as_ptr_range();
        let is_in = |segment: &[u8]| {
            let all = segment.as_ptr_range();
            all.start <= at.start && at.end <= all.end
        };
        if let Some(segment) = set.modex.iter().find(|segment| is_in(segment.bytes())) {
            segment.lend();
            return true;
        }
        let job = set.job.as_ref().filter(|job| is_in(job.bytes()));
        job.inspect(|job| job.lend()).is_some()
    }

    /// The newest value of `key` of a rank in the segments. `None` once the namespace is retired, because newer values come over
    /// the socket only, and `None` if a corrupt segment may have a newer value.
    #[inline(always)]
    pub fn modex(&self, rank: Rank, key: &KeyRef<'_>) -> Option<ValueRef<'_>> {
        if self.page.is_retired() {
            return None;
        }
        for segment in &self.set().modex {
            let value = segment.get(rank, key);
            if value.is_some() || segment.is_damaged() {
                return value;
            }
        }
        None
    }

    /// The fast path to the value of `key` for `rank`, without directives. `me` is the caller, a process of the namespace.
    /// Published values come before registered ones. The result is absent only if all published values are here.
    #[inline(always)]
    pub fn fast_value(&self, rank: Rank, key: &KeyRef<'_>, me: Rank) -> FastValue<'_> {
        self.fast_value_by::<false>(rank, key, me)
    }

    /// As [`NamespaceView::fast_value`], for a caller that keeps a pointer to the value: it stays valid as long as the view, whatever is
    /// reclaimed.
    #[inline(always)]
    pub fn lent_fast_value(&self, rank: Rank, key: &KeyRef<'_>, me: Rank) -> FastValue<'_> {
        self.fast_value_by::<true>(rank, key, me)
    }

    #[inline(always)]
    fn fast_value_by<const IS_LENT: bool>(&self, rank: Rank, key: &KeyRef<'_>, me: Rank) -> FastValue<'_> {
        let set = self.set();
        // Published values under reserved keys need the slow path: nearly all Gets of these keys ask for registered values.
        if !key.begins_with_pmix() && rank.is_process() {
            if self.page.is_retired() {
                return FastValue::NEED_SLOW_PATH;
            }
            for segment in &set.modex {
                let value = segment.fast_value(rank, key);
                if !value.is_absent() {
                    if IS_LENT && value.is_in_place() {
                        segment.lend();
                    }
                    return value;
                }
                if segment.is_damaged() {
                    return FastValue::NEED_SLOW_PATH;
                }
            }
        }
        let value = match &set.job {
            Some(job) if !job.is_damaged() => {
                let value = job.fast_value(rank, key, me);
                if IS_LENT && value.is_in_place() {
                    job.lend();
                }
                value
            }
            _ => return FastValue::NEED_SLOW_PATH,
        };
        if value.is_absent() && (!set.is_complete || self.page.is_retired()) {
            FastValue::NEED_SLOW_PATH
        } else {
            value
        }
    }

    /// All values of a rank, newer ones first. Empty once the namespace is retired, as for [`NamespaceView::modex`].
    pub fn modex_rank(&self, rank: Rank) -> impl Iterator<Item = (KeyRef<'_>, ValueRef<'_>)> {
        let segments = if self.page.is_retired() { &[][..] } else { &self.set().modex };
        segments.iter().flat_map(move |segment| segment.rank(rank))
    }

    /// The value of `key` of the lowest rank that published it, for a Get without a rank. It costs at most two look-ups for each
    /// segment.
    pub fn modex_any(&self, key: &KeyRef<'_>) -> Option<(Rank, ValueRef<'_>)> {
        let segments = &self.set().modex;
        let rank = segments.iter().filter_map(|segment| segment.first_rank_with(key)).min()?;
        let value = self.modex(rank, key)?;
        // A corrupt segment may have a lower rank.
        (!segments.iter().any(|segment| segment.is_damaged())).then_some((rank, value))
    }

    /// Whether all published values are here, and have been all the time, so that an earlier miss means that there is no value.
    /// Otherwise even an optional Get must ask the server: a segment could not be attached, a look-up has found corruption, or
    /// the server gave up the directory.
    #[inline]
    pub fn is_complete(&self) -> bool {
        let set = self.set();
        !self.page.is_retired() && set.is_complete && !set.is_damaged()
    }

    /// Whether the namespace was deregistered, or the server gave its directory up. The job segment and borrowed values stay
    /// readable.
    #[inline]
    pub fn is_retired(&self) -> bool {
        self.page.is_retired()
    }

    /// Current number of entries of the directory; 0 if it cannot be read.
    #[inline]
    pub fn count(&self) -> u64 {
        count_of(self.page.whole_count()).unwrap_or(0)
    }

    /// The state of the refreshes. In a forked child, a thread of the parent may hold the lock for ever: then `None`, and the mapped segments
    /// still answer.
    fn refresher(&self) -> Option<impl DerefMut<Target = Refresher>> {
        let is_at_home = std::process::id() == self.pid;
        if is_at_home { Some(self.refresher.lock()) } else { self.refresher.try_lock() }
    }

    /// Why a segment was not attached at the last refresh, or is not reliable any more. In a forked child maybe `None`.
    pub fn last_error(&self) -> Option<AttachError> {
        let refresher = self.refresher()?;
        let damaged = refresher.live.iter().chain(refresher.replaced()).find(|known| known.segment.is_damaged());
        let path = damaged
            .and_then(|known| known.entry.as_ref())
            .map(|entry| self.directory.path().join(segment_name(entry.file)));
        let damage = path.map(|path| AttachError::Segment { path, error: SegmentError::Table });
        refresher.last_error.clone().or(damage)
    }

    /// Statistics of the mapped segments.
    pub fn stats(&self) -> ViewStats {
        let refresher = self.refresher.lock();
        let live: Vec<u64> = refresher.live.iter().filter_map(|known| known.segment.len()).collect();
        let replaced: Vec<u64> = refresher.replaced().filter_map(|known| known.segment.len()).collect();
        let bytes_live = live.iter().sum();
        ViewStats {
            entries: refresher.known,
            segments_live: live.len() as u64,
            bytes_live,
            segments_mapped: (live.len() + replaced.len()) as u64,
            bytes_mapped: bytes_live + replaced.iter().sum::<u64>(),
            segments_missing: refresher.missing,
            refreshes: refresher.refreshes,
        }
    }

    /// How many sets it has.
    #[cfg(test)]
    pub(crate) fn sets(&self) -> usize {
        let refresher = self.refresher.lock();
        refresher.sets.len() + refresher.leaving.as_ref().map_or(0, |leaving| leaving.sets.len())
    }

    /// The current segments with published values.
    #[cfg(test)]
    pub(crate) fn modex_segments(&self) -> impl Iterator<Item = &ModexReader> {
        self.set().modex.iter().map(|segment| &**segment)
    }

    /// The set for the page's current count, after a refresh if needed.
    #[inline(always)]
    fn set(&self) -> &SegmentSet {
        let set = self.loaded();
        // SET: a count is stored in a set that is already current.
        if set.count.load(Ordering::Relaxed) == self.page.count() {
            return set;
        }
        self.refresh();
        self.loaded()
    }

    #[inline(always)]
    fn loaded(&self) -> &SegmentSet {
        // SET: pairs with the release store in `refresh`.
        let set = self.current.load(Ordering::Acquire);
        // SAFETY: `current` points to the last of `refresher.sets`, which is complete before its address is stored there and does not change
        // afterwards. It lives as long as the view or, once another one is current, until who calls `reclaim` promises that no thread has a
        // reference to it. Under the refresher's lock no other one becomes current.
        unsafe { &*set }.get()
    }

    /// Attaches new segments of the directory. Look-ups do this themselves. A caller that knows of new ones, a fence for example,
    /// may do it earlier.
    #[cold]
    pub fn refresh(&self) {
        // The Get that leads here may have made no system call yet, so cancellation may be enabled.
        let _uncancelled = Uncancelled::begin();
        let refresher = self.refresher();
        let Some(mut refresher) = refresher else { return };
        for attempt in 1..=Self::ATTEMPTS_MAX {
            let mut count = self.page.whole_count();
            if count == self.loaded().count.load(Ordering::Relaxed) && attempt == 1 {
                return;
            }
            refresher.missing = 0;
            refresher.last_error = None;
            let is_complete = self.read_entries(&mut refresher, &mut count);
            if is_complete {
                self.attach_live(&mut refresher);
            }
            // Files of replaced segments are removed after the replacing entry was published.
            if refresher.missing != 0 && self.page.count() != count && attempt < Self::ATTEMPTS_MAX {
                continue;
            }
            let mut set = refresher.set(count, is_complete);
            refresher.was_incomplete |= !set.is_complete;
            set.is_complete &= !refresher.was_incomplete;
            refresher.refreshes += 1;
            if self.loaded().is_same(&set) {
                // Nothing new can be attached: then sets would only take memory.
                self.loaded().count.store(count, Ordering::Relaxed);
                return;
            }
            let set = Arc::new(Complete::new(set));
            // SET: pairs with the acquire load in `loaded`.
            self.current.store(Arc::as_ptr(&set).cast_mut(), Ordering::Release);
            // Still under the lock, so that nobody else sees the current set missing in the list.
            refresher.sets.push(set);
            return;
        }
    }

    /// Unmaps segments that were replaced, except those of which a value was lent, and drops their sets: begins once there are many, and ends
    /// in a later call, when nobody reads in them any more. Does nothing in a forked child.
    ///
    /// Any thread may call this at any time, while others look up, refresh and call this.
    ///
    /// # Safety
    /// `begin` returns a function, or `None` if it cannot tell. The function is true only if
    ///
    /// * each reference that a thread, this one included, got from this view before the call of `begin` is no longer used, and the end of
    ///   its use happens before the function returns; and
    /// * each thread that has used the view since sees all that was stored before the call of `begin`.
    ///
    /// A pointer into a segment that was lent does not count as a reference.
    pub unsafe fn reclaim(&self, begin: impl FnOnce() -> Option<IsOver>) {
        // Others refresh or reclaim; then a later call does it.
        let Some(mut refresher) = self.refresher.try_lock() else { return };
        if refresher.leaving.is_none() && refresher.replaced.len() + refresher.sets.len() < RECLAIM_BATCH {
            return;
        }
        // Cancellation would unwind this thread in a system call.
        let _uncancelled = Uncancelled::begin();
        // A forked child has copies of what the parent's threads were in the middle of.
        if std::process::id() != self.pid {
            return;
        }
        if refresher.leaving.is_none() {
            // The current set stays. The others are out of reach: a look-up that begins now finds this one, or a newer one.
            let Some(is_over) = begin() else { return };
            let before = refresher.sets.len().saturating_sub(1);
            let sets = refresher.sets.drain(..before).collect();
            let replaced = std::mem::take(&mut refresher.replaced);
            refresher.leaving = Some(Unreachable { replaced, sets, is_over });
        }
        let Some(mut gone) = refresher.leaving.take_if(|leaving| (leaving.is_over)()) else { return };
        // Who has lent a value has ended its look-up since, and noted it before.
        refresher.lent.extend(gone.replaced.extract_if(.., |known| known.segment.is_lent()));
        // Others may refresh while the kernel unmaps.
        drop(refresher);
        drop(gone);
    }

    /// Reads the entries below the count in the word `count` that are not known yet, and marks the entries that they replace.
    /// Returns whether all of them could be read. The word is loaded again if it is too old for the first page that is needed.
    fn read_entries(&self, refresher: &mut Refresher, count: &mut u64) -> bool {
        let read = self.read_new_entries(refresher, count);
        // All entries that were carried over are known, as they were counted at once: the others have been replaced.
        let Refresher { former, replaced, .. } = &mut *refresher;
        replaced.extend(former.drain(..).filter(|known| known.segment.len().is_some()));
        match read {
            Ok(()) => true,
            Err(error) => {
                refresher.last_error = Some(error);
                false
            }
        }
    }

    fn read_new_entries(&self, refresher: &mut Refresher, count: &mut u64) -> Result<(), AttachError> {
        let number_of = |count| count_of(count).ok_or_else(|| self.damaged("impossible count"));
        let mut end = number_of(*count)?;
        while refresher.known < end {
            let (mut number, at) = (refresher.known / PAGE_CAPACITY, refresher.known % PAGE_CAPACITY);
            if at == 0 {
                number = self.begin_page(refresher, number, count)?;
                end = number_of(*count)?;
            }
            let entry = match &refresher.page {
                _ if number == 0 => self.page.entry(at),
                Some((newest, page)) if *newest == number => page.entry(at),
                _ => return Err(self.damaged("no page")),
            };
            refresher.add(entry.map_err(|_| self.damaged("damaged entry"))?);
        }
        Ok(())
    }

    /// Opens page `number`, which is that of the next entry, or a later one if that is the first page that readers need by now: it begins
    /// with the entries of all segments that were live then. Returns the page's number.
    fn begin_page(&self, refresher: &mut Refresher, number: u64, count: &mut u64) -> Result<u64, AttachError> {
        let load_first = || self.page.first().ok_or_else(|| self.damaged("impossible first page"));
        let mut first = load_first()?;
        let mut attempts = 1..Self::ATTEMPTS_MAX;
        loop {
            let is_possible = |count| count_of(count).is_some_and(|count| may_be(count, first));
            if !is_possible(*count) {
                // FIRST: it was loaded before, and may be older.
                *count = self.page.whole_count();
                if !is_possible(*count) {
                    return Err(self.damaged("impossible first page or count"));
                }
            }
            let begin = number.max(first);
            if begin == 0 {
                return Ok(0);
            }
            let error = match open_page(&self.directory, begin) {
                Ok(page) => {
                    if begin > number {
                        // `None` is one of a newer release.
                        if !matches!(page.entry(0), Ok(None | Some(Entry { is_carried: true, .. }))) {
                            return Err(self.damaged("impossible first page"));
                        }
                        refresher.known = begin * PAGE_CAPACITY;
                        refresher.former.append(&mut refresher.live);
                    }
                    refresher.page = Some((begin, page));
                    return Ok(begin);
                }
                Err(error) => error,
            };
            // A page is removed after a later one has become the first.
            after_missing();
            let before = std::mem::replace(&mut first, load_first()?);
            if first == before || attempts.next().is_none() {
                return Err(error);
            }
        }
    }

    fn damaged(&self, what: &'static str) -> AttachError {
        AttachError::Page { path: self.directory.path().join(page_name(0)), what }
    }

    /// Attaches every live entry that is not attached yet.
    fn attach_live(&self, refresher: &mut Refresher) {
        let is_mapped = |known: &&KnownEntry| known.segment.len().is_some();
        let mut mapped = refresher.replaced().count() + refresher.live.iter().filter(is_mapped).count();
        for known in &mut refresher.live {
            let Some(entry) = known.entry.as_ref().filter(|_| matches!(known.segment, Attached::Not)) else { continue };
            // A job that is registered again is rare, and all its values would be missing.
            let limit = if entry.kind == SegmentKind::Job { 2 * self.mapped_max } else { self.mapped_max };
            let attached = match mapped < limit {
                true => self.attach_segment(entry),
                false => Err(AttachError::TooMany { path: self.directory.path().to_owned(), mapped }),
            };
            match attached {
                Ok(segment) => {
                    known.segment = segment;
                    mapped += 1;
                }
                Err(error) => {
                    refresher.missing += 1;
                    refresher.last_error = Some(error);
                }
            }
        }
    }

    fn attach_segment(&self, entry: &Entry) -> Result<Attached, AttachError> {
        let name = segment_name(entry.file);
        let path = || self.directory.path().join(&name);
        let (file, stat) = open_file(&self.directory, &name).map_err(|error| AttachError::of_file(path(), error))?;
        if stat.st_size as u64 != entry.len {
            return Err(AttachError::File { path: path(), what: "its length is not that of the entry" });
        }
        if entry.len < HEADER_LEN as u64 {
            return Err(AttachError::Segment { path: path(), error: SegmentError::Short { len: entry.len } });
        }
        let region = MappedRegion::map(&file, entry.len as usize)
            .map_err(|error| AttachError::Open { path: path(), errno: error.raw_os_error().unwrap_or(0) })?;
        let refused = |error| AttachError::Segment { path: path(), error };
        let is_meant = |header: &RawHeader| {
            if header.nspace != self.nspace.as_bytes() {
                return Err(refused(SegmentError::OtherNspace));
            }
            // Another generation of the file, or another file of the same length.
            if header.content_hash != entry.content_hash {
                return Err(refused(SegmentError::OtherSegment));
            }
            Ok(())
        };
        match entry.kind {
            SegmentKind::Job => {
                let reader = JobReader::open(Box::new(region)).map_err(refused)?;
                is_meant(reader.header()).map(|()| Attached::Job(Arc::new(reader)))
            }
            SegmentKind::Modex => {
                let reader = ModexReader::open(Box::new(region)).map_err(refused)?;
                is_meant(reader.header()).map(|()| Attached::Modex(Arc::new(reader)))
            }
        }
    }
}

impl Refresher {
    /// The entries whose segments were replaced and are still mapped.
    fn replaced(&self) -> impl Iterator<Item = &KnownEntry> {
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.replaced);
        self.replaced.iter().chain(leaving).chain(&self.lent)
    }

    /// Adds the next entry, and drops the entries that it replaces from `live`.
    fn add(&mut self, entry: Option<Entry>) {
        self.known += 1;
        if let Some(carried) = entry.as_ref().filter(|entry| entry.is_carried) {
            let is_it = |known: &KnownEntry| known.entry.as_ref().is_some_and(|entry| entry.has_segment_of(carried));
            if self.live.iter().any(is_it) {
                return;
            }
            if let Some(at) = self.former.iter().position(is_it) {
                self.live.push(self.former.swap_remove(at));
                return;
            }
        }
        if let Some(new) = entry.as_ref().filter(|new| new.replaces.is_some()) {
            let is_replaced = |known: &mut KnownEntry| {
                known.entry.as_ref().is_none_or(|entry| new.does_replace(entry.kind, entry.order))
            };
            let replaced = self.live.extract_if(.., is_replaced);
            self.replaced.extend(replaced.filter(|known| known.segment.len().is_some()));
        }
        self.live.push(KnownEntry { entry, segment: Attached::Not });
    }

    /// The set of the live segments.
    fn set(&self, count: u64, is_complete: bool) -> SegmentSet {
        let mut job = None;
        let mut modex: Vec<(u64, Option<Arc<ModexReader>>)> = Vec::new();
        for known in &self.live {
            let Some(entry) = known.entry.as_ref() else { continue };
            match (entry.kind, &known.segment) {
                // The newest one contains all values.
                (SegmentKind::Job, Attached::Job(segment)) => job = Some(Arc::clone(segment)),
                (SegmentKind::Job, _) => job = None,
                (SegmentKind::Modex, Attached::Modex(segment)) => {
                    modex.push((entry.order, Some(Arc::clone(segment))));
                }
                (SegmentKind::Modex, _) => modex.push((entry.order, None)),
            }
        }
        if !is_complete {
            // An unreadable entry may belong to any segment, newer than all known ones.
            return SegmentSet::new(count, None, false, Box::default());
        }
        modex.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        let is_complete = self.missing == 0;
        SegmentSet::new(count, job, is_complete, modex.into_iter().map_while(|(_, segment)| segment).collect())
    }
}

fn open_page(directory: &Directory, number: u64) -> Result<PageMap, AttachError> {
    let name = page_name(number);
    let path = || directory.path().join(&name);
    let (file, _) = open_file(directory, &name).map_err(|error| AttachError::of_file(path(), error))?;
    PageMap::open(&file, number).map_err(|error| AttachError::of_page(path(), error))
}
