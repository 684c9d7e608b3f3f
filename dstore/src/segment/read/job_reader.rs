//! Reads a job segment.

use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use super::checked::{CheckedSegment, or_empty, table};
use super::column::Column;
use super::fast_path::{CachedValue, FastValue};
use super::key_table::{CachedKey, CachedSlot, FoundKey, KeyTable, Route, Row};
use super::region::Region;
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::maps::{NodeRun, NodeRuns, Part, Ranks};
use crate::model::{KeyRef, Rank};
use crate::realm_resolution::{self, JobLookup, RankLocationKey, Realm, RealmMask};
use crate::segment::layout::bytes::{Miss, Read, Table, slice_at, u32_at, u64_at};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::raw_header::RawHeader;
use crate::segment::layout::toc::{
    APPNUMS_ARE_ROWS, ArchivedJobToc, IdRow, NO_ID, NODE_IDS_ARE_ROWS, NameSlot, RunEntry,
};

/// A job segment: the host's registration of a job.
pub struct JobReader {
    segment: CheckedSegment,
    keys: KeyTable,
    columns: Box<[Column]>,
    rows: [u32; 5],
    proc_count: u32,
    flags: u32,
    /// A verified copy of the runs of nodes, once one is needed; of few runs from the start.
    runs: OnceLock<NodeRuns>,
    /// The handle of each [`RankLocationKey`], if the key table is copied.
    location_keys: [Option<(JobKey, RealmMask)>; RankLocationKey::ALL.len()],
    /// Cache of the last rank that was looked up (upper half), and the row of its node.
    caller_node: AtomicU64,
    /// Cached values. Columns and routes refer to them by index.
    cached_values: Box<[CachedValue]>,
    /// A verified copy of the slots of `node_names`; empty if there are too many, or one is corrupt.
    names: Box<[CachedName]>,
    node_names: Table<NameSlot>,
    node_ids: Table<IdRow>,
    appnums: Table<IdRow>,
    node_runs: Table<RunEntry>,
    heap: Table<u8>,
}

/// Limit of cached values of columns: every client of a node has its own cache.
const CACHED_VALUES_MAX: usize = 512;
/// Maximum number of slots in a copied table of names. At most half of them are in use.
const OWN_NAMES_MAX: usize = 256;
/// Maximum number of runs of nodes that are copied when a segment is attached.
const OWN_RUNS_MAX: usize = 64;

/// A slot of the table of node names.
#[derive(Clone, Copy)]
struct CachedName {
    hash: u64,
    /// Position in the heap.
    pos: u64,
    len: u32,
    /// [`NO_ID`] in an empty slot.
    row: u32,
}

impl JobReader {
    /// Opens a job segment, checking its header, its table of contents and the extents of all its regions. The cost is
    /// in proportion to the number of columns.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub fn open(region: Box<dyn Region>) -> Result<JobReader, SegmentError> {
        JobReader::of(CheckedSegment::open(region)?, &mut Err)
    }

    /// Reads as much as possible of a corrupt segment; `problem` receives the errors.
    ///
    /// # Errors
    /// An invalid table of contents.
    pub(crate) fn open_damaged(
        region: Box<dyn Region>,
        mut problem: impl FnMut(SegmentError),
    ) -> Result<JobReader, SegmentError> {
        JobReader::of(CheckedSegment::open_damaged(region)?, &mut |error| {
            problem(error);
            Ok(())
        })
    }

    /// Checks all extents. If `judge` accepts an error, the part is treated as empty.
    fn of(
        segment: CheckedSegment,
        judge: &mut dyn FnMut(SegmentError) -> Result<(), SegmentError>,
    ) -> Result<JobReader, SegmentError> {
        // Its columns are read where they lie: a copy of all takes 150 bytes of each in every process of the job.
        let toc = segment.toc::<ArchivedJobToc>(SegmentKind::Job)?;
        let len = segment.bytes().len();
        let mut columns = Vec::with_capacity(toc.columns.len());
        for column in toc.columns.iter() {
            columns.push(or_empty(Column::check(&column.into(), len), judge)?);
        }
        let mut node_names: Table<NameSlot> = table((&toc.node_names).into(), len, "node names", judge)?;
        let node_ids = table((&toc.node_ids).into(), len, "node ids", judge)?;
        let appnums = table((&toc.appnums).into(), len, "application numbers", judge)?;
        let node_runs = table((&toc.node_runs).into(), len, "runs of nodes", judge)?;
        let heap = table((&toc.heap).into(), len, "heap", judge)?;
        if node_names.count() != 0 && !node_names.count().is_power_of_two() {
            judge(SegmentError::Extent("node names are no power of two"))?;
            node_names = Table::default();
        }
        let mut reader = JobReader {
            keys: or_empty(KeyTable::check((&toc.keys).into(), segment.bytes()), judge)?,
            columns: columns.into(),
            rows: toc.rows.map(|rows| rows.to_native()),
            proc_count: toc.proc_count.to_native(),
            flags: toc.flags.to_native(),
            runs: OnceLock::new(),
            location_keys: [None; RankLocationKey::ALL.len()],
            caller_node: AtomicU64::new(u64::MAX),
            cached_values: Box::default(),
            names: Box::default(),
            node_names,
            node_ids,
            appnums,
            node_runs,
            heap,
            segment,
        };
        if (1..=OWN_RUNS_MAX).contains(&reader.node_runs.count()) {
            // If a run is corrupt, each look-up detects that itself.
            let _ = reader.copy_runs();
        }
        // If the table stays in the file, each look-up verifies it. Corruption is detected by a look-up that needs the corrupt
        // entry.
        let is_own = |found: &(JobKey, RealmMask)| reader.keys.default_realm(found.0.0).is_some();
        reader.location_keys =
            RankLocationKey::ALL.map(|key| reader.look_up(&KeyRef::from(key.text())).ok().filter(is_own));
        reader.names = reader.copy_names().unwrap_or_default();
        reader.build_value_cache();
        Ok(reader)
    }

    /// Caches the locations of values, column by column up to a limit, and computes the routes of the fast path.
    fn build_value_cache(&mut self) {
        let mut cached = Vec::new();
        for column in &mut self.columns {
            column.note(self.segment.bytes(), self.heap.span(), &mut cached, CACHED_VALUES_MAX);
        }
        let mut keys = std::mem::take(&mut self.keys);
        keys.set_routes(|slot| {
            [false, true].map(|is_process| {
                let route = self.route(slot, is_process);
                self.made_ready(route, &mut cached).unwrap_or(route)
            })
        });
        self.keys = keys;
        self.cached_values = cached.into();
    }

    /// The route to a value that is the same for all callers; it caches the value.
    fn made_ready(&self, route: Route, cached: &mut Vec<CachedValue>) -> Option<Route> {
        let column = self.columns.get(route.column as usize).filter(|_| route.row == Row::First)?;
        if !column.is_fast(self.segment.bytes()) {
            return None;
        }
        let value = column.fast_value(self.segment.bytes(), self.heap.span(), cached, 0);
        let ready = Route { column: cached.len() as u32, row: Row::Ready, is_last: true };
        fallible_alloc::push(cached, CachedValue::of(value, self.segment.bytes())?).ok().map(|()| ready)
    }

    /// A copy of the table of node names; `None` if a slot is corrupt. Then each look-up detects the corruption itself.
    fn copy_names(&self) -> Option<Box<[CachedName]>> {
        let (bytes, count) = (self.segment.bytes(), self.node_names.count());
        if count > OWN_NAMES_MAX {
            return None;
        }
        let mut names = fallible_alloc::vec(count).ok()?;
        for index in 0..count {
            let slot = self.node_names.entry::<{ offset_of!(NameSlot, check) }>(bytes, index).ok()?;
            names.push(CachedName {
                hash: u64_at(bytes, slot + offset_of!(NameSlot, hash)).ok()?,
                pos: u64_at(bytes, slot + offset_of!(NameSlot, pos)).ok()?,
                len: u32_at(bytes, slot + offset_of!(NameSlot, len)).ok()?,
                row: u32_at(bytes, slot + offset_of!(NameSlot, row)).ok()?,
            });
        }
        // A search ends at an empty slot.
        names.iter().any(|name| name.row == NO_ID).then(|| names.into())
    }

    /// The row of a name in the cached table; `None` if another name has the same hash, or the text is corrupt.
    #[inline(always)]
    fn find_name(&self, name: &KeyRef<'_>) -> Option<Read<u32>> {
        let mask = self.names.len().wrapping_sub(1);
        let mut index = name.hash() as usize & mask;
        loop {
            let slot = self.names.get(index)?;
            if slot.row == NO_ID {
                return Some(Err(Miss::Absent));
            }
            if slot.hash == name.hash() {
                let text = slice_at(self.heap(), slot.pos, slot.len.into()).ok()?;
                return name.is_text(text).then_some(Ok(slot.row));
            }
            index = (index + 1) & mask;
        }
    }

    /// The runs of nodes.
    ///
    /// # Errors
    /// `Absent` if there are none, or no memory for them.
    #[inline]
    fn runs(&self) -> Read<&NodeRuns> {
        match self.runs.get() {
            Some(runs) => Ok(runs),
            None => self.copy_runs(),
        }
    }

    /// Copies the runs of nodes. Of many runs the first look-up does so: few processes ask for the ranks of other nodes.
    #[cold]
    fn copy_runs(&self) -> Read<&NodeRuns> {
        let (bytes, count) = (self.segment.bytes(), self.node_runs.count());
        if count == 0 {
            return Err(Miss::Absent);
        }
        // This is no corruption: a later look-up may have the memory. Until then ranks are read from the nodes' lists.
        let mut runs = fallible_alloc::vec(count).map_err(|_| Miss::Absent)?;
        for index in 0..count {
            let entry = self.node_runs.entry::<{ offset_of!(RunEntry, check) }>(bytes, index)?;
            let number = |offset: usize| u32_at(bytes, entry + offset);
            runs.push(NodeRun {
                first_node: number(offset_of!(RunEntry, first_node))?,
                part: number(offset_of!(RunEntry, part))?,
                of_first: Part {
                    first: number(offset_of!(RunEntry, first_rank))?,
                    block: number(offset_of!(RunEntry, block))?,
                    stride: number(offset_of!(RunEntry, stride))?,
                    count: number(offset_of!(RunEntry, count))?,
                },
                step: number(offset_of!(RunEntry, step))?,
            });
        }
        let runs = NodeRuns::new(runs.into(), self.rows(Realm::Node)).ok_or(Miss::Damaged)?;
        // Another thread may have been faster.
        let _ = self.runs.set(runs);
        self.runs.get().ok_or(Miss::Damaged)
    }

    /// A description of the form of a key's column in a realm.
    pub(crate) fn column_form(&self, key: &KeyRef<'_>, realm: Realm) -> Option<String> {
        let bytes = self.segment.bytes();
        let column = self.keys.find(bytes, key).and_then(|key| self.keys.column(bytes, key, realm as usize)).ok()?;
        self.columns.get(column as usize).map(Column::form)
    }

    /// All bytes of the segment.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.segment.bytes()
    }

    /// The segment's header.
    pub fn header(&self) -> &RawHeader {
        self.segment.header()
    }

    /// Rows of a realm: applications, nodes, ranks that have values.
    pub fn rows(&self, realm: Realm) -> u32 {
        self.rows[realm as usize]
    }

    /// Whether a look-up has found corruption. Its result and later ones are not reliable then.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.segment.is_damaged()
    }

    /// Notes that a caller may point to a value of this segment from now on: then the segment stays mapped.
    #[inline(always)]
    pub(crate) fn lend(&self) {
        self.segment.lend();
    }

    /// Whether a caller may point to a value of this segment.
    pub(crate) fn is_lent(&self) -> bool {
        self.segment.is_lent()
    }

    /// The keys with the realms that hold them.
    pub fn keys(&self) -> impl Iterator<Item = (KeyRef<'_>, RealmMask)> {
        let bytes = self.segment.bytes();
        let key = move |id| {
            let (key, text) = self.keys.by_id(bytes, id)?;
            Ok((KeyRef::new(text), self.keys.realms(bytes, key)?))
        };
        (0..self.keys.count()).filter_map(move |id| self.segment.found(key(id)))
    }

    /// All values of one instance of a realm.
    pub fn values(&self, realm: Realm, row: u32) -> impl Iterator<Item = (KeyRef<'_>, ValueRef<'_>)> {
        let of_realm = self.keys().filter(move |(_, realms)| realms.has(realm));
        of_realm.filter_map(move |(key, _)| Some((key, self.value(realm, row, self.find_key(&key)?.0)?)))
    }

    #[inline]
    fn heap(&self) -> &[u8] {
        let (pos, len) = self.heap.span();
        self.segment.bytes().get(pos..pos + len).unwrap_or(&[])
    }

    #[inline(always)]
    fn look_up(&self, key: &KeyRef<'_>) -> Read<(JobKey, RealmMask)> {
        let bytes = self.segment.bytes();
        let found = self.keys.find(bytes, key)?;
        Ok((JobKey(found), self.keys.realms(bytes, found)?))
    }

    fn row_of_id(&self, table: &Table<IdRow>, id: u32) -> Read<u32> {
        let bytes = self.segment.bytes();
        let all = (0, table.count());
        let entry = table.search::<{ offset_of!(IdRow, check) }>(bytes, all, offset_of!(IdRow, id), id)?;
        u32_at(bytes, entry + offset_of!(IdRow, row))
    }

    fn row_of_name(&self, name: &[u8]) -> Read<u32> {
        let name = KeyRef::new(name);
        match self.find_name(&name) {
            Some(found) => found,
            None => self.row_of_name_in_file(&name),
        }
    }

    #[cold]
    fn row_of_name_in_file(&self, name: &KeyRef<'_>) -> Read<u32> {
        let bytes = self.segment.bytes();
        let count = self.node_names.count();
        let first = name.hash() as usize;
        for step in 0..count {
            let index = first.wrapping_add(step) & (count - 1);
            let slot = self.node_names.at(index)?;
            if u64_at(bytes, slot + offset_of!(NameSlot, hash))? == name.hash() {
                // An intact slot with the name decides, even if earlier slots are corrupt.
                self.node_names.entry::<{ offset_of!(NameSlot, check) }>(bytes, index)?;
                let text = self.name_in(slot)?;
                if name.is_text(text) {
                    return u32_at(bytes, slot + offset_of!(NameSlot, row));
                }
                // Another name with the same hash, or a corrupt text of this one.
                if xxh3_64(text) != name.hash() {
                    return Err(Miss::Damaged);
                }
            } else if u32_at(bytes, slot + offset_of!(NameSlot, row))? == NO_ID {
                return Err(self.no_name(first, step + 1));
            }
        }
        Err(self.no_name(first, count))
    }

    /// Why none of the `count` slots from `first` on has a name: it is absent if all of them are intact.
    #[cold]
    fn no_name(&self, first: usize, count: usize) -> Miss {
        let mut slots = (0..count).map(|step| first.wrapping_add(step) & (self.node_names.count() - 1));
        let is_good =
            |index| self.node_names.entry::<{ offset_of!(NameSlot, check) }>(self.segment.bytes(), index).is_ok();
        if slots.all(is_good) { Miss::Absent } else { Miss::Damaged }
    }

    /// The name in the slot at position `slot`, which is intact.
    #[inline(always)]
    fn name_in(&self, slot: usize) -> Read<&[u8]> {
        let bytes = self.segment.bytes();
        let pos = u64_at(bytes, slot + offset_of!(NameSlot, pos))?;
        let len = u32_at(bytes, slot + offset_of!(NameSlot, len))?;
        slice_at(self.heap(), pos, len.into())
    }

    #[inline(always)]
    fn column_value(&self, realm: Realm, row: u32, key: FoundKey) -> Read<ValueRef<'_>> {
        let bytes = self.segment.bytes();
        let column = self.keys.column(bytes, key, realm as usize)?;
        let column = self.columns.get(column as usize).ok_or(Miss::Damaged)?;
        // A corrupt key table must not lead to the values of another key.
        if !column.is_of(self.keys.id(bytes, key)?, realm as u32) {
            return Err(Miss::Damaged);
        }
        column.value(bytes, self.heap(), || self.runs(), row)
    }
}

/// The object that a Get names besides its rank.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The job.
    Job,
    /// The application with this number.
    App(u32),
    /// The node with this number.
    NodeId(u32),
    /// The node with this name.
    NodeName(&'a [u8]),
}

/// The fast path of [`realm_resolution::find`].
impl JobReader {
    /// The value of `key` for `rank` without directives. `me` is the caller, a rank of the same job.
    #[inline(always)]
    pub fn fast_value(&self, rank: Rank, key: &KeyRef<'_>, me: Rank) -> FastValue<'_> {
        self.fast_value_for(rank, key.text(), key.hash(), me)
    }

    /// The same, with all arguments in registers.
    #[inline(never)]
    fn fast_value_for(&self, rank: Rank, text: &[u8], hash: u64, me: Rank) -> FastValue<'_> {
        let key = &KeyRef::of_parts(text, hash);
        let slot = match self.keys.find_own(self.segment.bytes(), key) {
            CachedKey::Found(_, slot) => slot,
            CachedKey::Absent => return FastValue::ABSENT,
            CachedKey::NeedSlowPath => return FastValue::NEED_SLOW_PATH,
        };
        let route = &slot.routes[usize::from(rank.is_process())];
        let row = match route.row {
            Row::OfRank => rank.0,
            Row::Ready => {
                let cached = self.cached_values.get(route.column as usize);
                return cached
                    .map_or(FastValue::NEED_SLOW_PATH, |cached| FastValue::cached(self.segment.bytes(), cached));
            }
            Row::First => 0,
            Row::CallerNode => match self.caller_node(me) {
                Some(row) => row,
                None => return FastValue::NEED_SLOW_PATH,
            },
            Row::None => return FastValue::ABSENT,
            Row::NeedSlowPath => return FastValue::NEED_SLOW_PATH,
        };
        let Some(column) = self.columns.get(route.column as usize) else { return FastValue::NEED_SLOW_PATH };
        let value = column.fast_value(self.segment.bytes(), self.heap.span(), &self.cached_values, row);
        if value.is_absent() && !route.is_last { FastValue::NEED_SLOW_PATH } else { value }
    }

    /// The route of the fast path for a key of a process or of the job: to the first realm that [`realm_resolution::find`] tries.
    fn route(&self, slot: &CachedSlot, is_process: bool) -> Route {
        let (realm, row) = match slot.default_realm {
            Some(Realm::Proc) if is_process => (Realm::Proc, Row::OfRank),
            None if is_process && slot.realms.has(Realm::Proc) => (Realm::Proc, Row::OfRank),
            Some(Realm::Session) if slot.realms.has(Realm::Session) => (Realm::Session, Row::First),
            // The name of the caller's node.
            Some(Realm::Proc) if !slot.realms.has(Realm::Job) => (Realm::Node, Row::CallerNode),
            Some(Realm::Session | Realm::Job) | None => (Realm::Job, Row::First),
            Some(Realm::Node) => (Realm::Node, Row::CallerNode),
            Some(Realm::App | Realm::Proc) => return Route::NEED_SLOW_PATH,
        };
        let is_last = slot.default_realm == Some(Realm::Proc) || slot.realms == RealmMask(0).with(realm);
        let column = slot.columns[realm as usize];
        if !slot.realms.has(realm) {
            return Route { column, row: if is_last { Row::None } else { Row::NeedSlowPath }, is_last };
        }
        if self.column_of(slot, realm).is_some() { Route { column, row, is_last } } else { Route::NEED_SLOW_PATH }
    }

    /// The column of a key in a realm that has it.
    #[inline(always)]
    fn column_of(&self, slot: &CachedSlot, realm: Realm) -> Option<&Column> {
        // A corrupt key table must not lead to the values of another key.
        self.columns.get(slot.columns[realm as usize] as usize).filter(|column| column.is_of(slot.id, realm as u32))
    }

    /// The value of `key` of one object.
    #[inline(never)]
    pub fn fast_value_in(&self, of: Target<'_>, key: &KeyRef<'_>) -> FastValue<'_> {
        let CachedKey::Found(_, slot) = self.keys.find_own(self.segment.bytes(), key) else {
            return FastValue::NEED_SLOW_PATH;
        };
        let (realm, row) = match of {
            Target::Job => (Realm::Job, Some(0)),
            Target::App(appnum) => (Realm::App, self.app_row(appnum)),
            Target::NodeId(nodeid) => (Realm::Node, self.node_row_by_id(nodeid)),
            Target::NodeName(name) => (Realm::Node, self.node_row_by_name(name)),
        };
        row.map_or(FastValue::NEED_SLOW_PATH, |row| self.fast_value_of(slot, realm, row))
    }

    #[inline(always)]
    fn fast_value_of(&self, slot: &CachedSlot, realm: Realm, row: u32) -> FastValue<'_> {
        if !slot.realms.has(realm) {
            return FastValue::ABSENT;
        }
        match self.column_of(slot, realm) {
            Some(column) => column.fast_value(self.segment.bytes(), self.heap.span(), &self.cached_values, row),
            None => FastValue::NEED_SLOW_PATH,
        }
    }

    /// The row of a rank's node. Nearly always the rank is the caller, which stays on its node.
    #[inline(always)]
    fn caller_node(&self, rank: Rank) -> Option<u32> {
        let known = self.caller_node.load(Ordering::Relaxed);
        if known >> 32 == u64::from(rank.0) && rank.is_process() { Some(known as u32) } else { self.find_home(rank) }
    }

    #[cold]
    fn find_home(&self, rank: Rank) -> Option<u32> {
        let row = realm_resolution::node_row_of(self, rank).filter(|_| !self.is_damaged())?;
        self.caller_node.store(u64::from(rank.0) << 32 | u64::from(row), Ordering::Relaxed);
        Some(row)
    }
}

/// A key found in a job segment.
#[derive(Clone, Copy, Debug)]
pub struct JobKey(FoundKey);

impl JobLookup for JobReader {
    type Key<'a> = JobKey;

    #[inline(always)]
    fn find_key<'a>(&self, key: &KeyRef<'a>) -> Option<(JobKey, RealmMask)> {
        self.segment.found(self.look_up(key))
    }

    #[inline]
    fn find_location_key(&self, key: RankLocationKey) -> Option<(JobKey, RealmMask)> {
        self.location_keys[key as usize].or_else(|| self.find_key(&KeyRef::from(key.text())))
    }

    #[inline(always)]
    fn default_realm(&self, key: &KeyRef<'_>, found: JobKey) -> Option<Realm> {
        self.keys.default_realm(found.0).unwrap_or_else(|| realm_resolution::default_realm_of(key))
    }

    #[inline(always)]
    fn value(&self, realm: Realm, row: u32, key: JobKey) -> Option<ValueRef<'_>> {
        self.segment.found(self.column_value(realm, row, key.0))
    }

    fn app_row(&self, appnum: u32) -> Option<u32> {
        if self.flags & APPNUMS_ARE_ROWS != 0 {
            return (appnum < self.rows(Realm::App)).then_some(appnum);
        }
        self.segment.found(self.row_of_id(&self.appnums, appnum))
    }

    #[inline]
    fn node_row_by_id(&self, nodeid: u32) -> Option<u32> {
        if self.flags & NODE_IDS_ARE_ROWS != 0 {
            return (nodeid < self.rows(Realm::Node)).then_some(nodeid);
        }
        self.segment.found(self.row_of_id(&self.node_ids, nodeid))
    }

    fn node_row_by_name(&self, name: &[u8]) -> Option<u32> {
        self.segment.found(self.row_of_name(name))
    }

    #[inline]
    fn node_ranks(&self, row: u32) -> Option<Ranks> {
        if self.node_runs.count() == 0 {
            return None;
        }
        self.segment.found(self.runs())?.ranks(row)
    }

    fn app_count(&self) -> u32 {
        self.rows(Realm::App)
    }

    fn node_count(&self) -> u32 {
        self.rows(Realm::Node)
    }

    fn proc_count(&self) -> u32 {
        self.proc_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobData, Node};
    use crate::model::{Nspace, Value, keys};
    use crate::segment::{HeapRegion, build_job};

    #[test]
    fn only_keys_of_nodes_ask_for_the_node_of_the_caller() {
        let mut job = JobData::new(Nspace::new("home").unwrap());
        let name = (keys::HOSTNAME.into(), Value::string("n0"));
        let number = (keys::NODE_RANK.into(), Value::Uint32(3));
        let of_node =
            [(keys::LOCAL_SIZE.into(), Value::Uint32(1)), ("colour".into(), Value::Uint32(7)), name, number.clone()];
        job.job.extend([number]);
        job.nodes.push(Node { nodeid: Some(0), values: of_node.into(), ..Node::default() });
        job.procs.set(Rank(0), keys::NODEID.into(), Value::Uint32(0)).unwrap();
        let reader = JobReader::open(Box::new(HeapRegion::new(&build_job(&job, "test").unwrap()))).unwrap();
        let fast_value = |key: &str| reader.fast_value(Rank(0), &KeyRef::from(key), Rank(0));
        assert!(
            fast_value("colour").needs_slow_path()
                && fast_value(keys::NODEID).value().is_some()
                && fast_value("none").is_absent()
        );
        // No node says its number, although the segment knows it.
        assert!(reader.fast_value(Rank::WILDCARD, &KeyRef::from(keys::NODEID), Rank(0)).is_absent());
        // The job's value comes before that of the caller's node.
        assert!(reader.fast_value(Rank::WILDCARD, &KeyRef::from(keys::NODE_RANK), Rank(0)).needs_slow_path());
        assert_eq!(reader.caller_node.load(Ordering::Relaxed), u64::MAX);
        let name = reader.fast_value(Rank::WILDCARD, &KeyRef::from(keys::HOSTNAME), Rank(0));
        assert_eq!(name.value().unwrap().as_text(), Some(&b"n0"[..]));
        reader.caller_node.store(u64::MAX, Ordering::Relaxed);
        assert!(fast_value(keys::LOCAL_SIZE).value().is_some());
        assert_eq!(reader.caller_node.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn names_and_short_values_of_few_are_kept_where_they_are_read_from() {
        let long = [b'l'; 5000];
        let job_of = |nodes: u32| {
            let mut job = JobData::new(Nspace::new("kept").unwrap());
            job.job.insert("of.the.job".into(), Value::string("all the same"));
            job.job.insert("long".into(), Value::string(long));
            for nodeid in 0..nodes {
                let hostname = format!("host-{nodeid}").into_bytes();
                let values = [(keys::HOSTNAME.into(), Value::string(&hostname))].into();
                job.nodes.push(Node { nodeid: Some(nodeid), hostname, values, ..Node::default() });
            }
            JobReader::open(Box::new(HeapRegion::new(&build_job(&job, "test").unwrap()))).unwrap()
        };
        let (few, many) = (job_of(100), job_of(1000));
        assert!(few.names.len() > 100 && many.names.is_empty());
        // One name for each node, and the cached value of the job, with a rank and without one.
        assert_eq!((few.cached_values.len(), many.cached_values.len()), (103, 3));
        for reader in [&few, &many] {
            for nodeid in [0, 7, 99] {
                let name = format!("host-{nodeid}");
                assert_eq!(reader.node_row_by_name(name.as_bytes()), Some(nodeid));
                let found = reader.fast_value_in(Target::NodeName(name.as_bytes()), &KeyRef::from(keys::HOSTNAME));
                assert_eq!(found.value().unwrap().as_text(), Some(name.as_bytes()));
            }
            for (key, value) in [("of.the.job", &b"all the same"[..]), ("long", &long)] {
                for rank in [Rank(3), Rank::WILDCARD] {
                    let found = reader.fast_value(rank, &KeyRef::from(key), Rank(0));
                    assert_eq!(found.value().unwrap().as_text(), Some(value));
                }
            }
            assert_eq!(reader.node_row_by_name(b"host-1000"), None);
            assert!(!reader.is_damaged());
        }
    }
}
