//! Builds the job segment from the host's registration.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64;

use super::column::PlannedColumn;
use super::keys::{KeyRow, write_keys};
use super::writer::{Heap, Writer};
use super::{BuildError, reserve, vec_for};
use crate::codec::ValueRef;
use crate::gather::GatherBuf;
use crate::job::{JobData, Node, Values};
use crate::maps::{RANK_COUNT_MAX, RankList};
use crate::model::{Key, Value, keys};
use crate::realm_resolution::{Realm, RealmMask};
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::toc::{
    APPNUMS_ARE_ROWS, Extent, IdRow, JobToc, NO_ID, NODE_IDS_ARE_ROWS, NODES_ARE_BLOCKS, NameSlot,
};

/// Builds the job segment of `job`; `creator` names the program for `pmixctl inspect`.
///
/// Equal data give equal bytes.
///
/// # Errors
/// A value that cannot be stored.
pub fn build_job(job: &JobData, creator: &str) -> Result<Vec<u8>, BuildError> {
    build_job_made(job, creator, MADE)
}

/// The same, with texts of ranks left to readers if the number of ranks is in `made`.
///
/// # Errors
/// As [`build_job`].
pub(crate) fn build_job_made(job: &JobData, creator: &str, made: RangeInclusive<u32>) -> Result<Vec<u8>, BuildError> {
    let blocks = blocks(job);
    let (keys, columns, heap) = plan(job, blocks.filter(|_| made.contains(&job.procs.rows())))?;
    let node_ids = first_rows(job.nodes.iter().map(|node| node.nodeid));
    let appnums = first_rows(job.apps.keys().map(|appnum| Some(*appnum)));

    let mut writer = Writer::new();
    let keys = write_keys(&mut writer, &keys)?;
    let columns = columns.iter().map(|(_, column)| column.write(&mut writer)).collect::<Result<_, _>>()?;
    let mut toc = JobToc {
        columns,
        keys,
        rows: [1, 1, job.apps.len() as u32, job.nodes.len() as u32, job.procs.rows()],
        proc_count: job.size(),
        ..JobToc::default()
    };
    toc.flags |= write_ids(&mut writer, &node_ids, job.nodes.len(), NODE_IDS_ARE_ROWS, &mut toc.node_ids)?;
    toc.flags |= write_ids(&mut writer, &appnums, job.apps.len(), APPNUMS_ARE_ROWS, &mut toc.appnums)?;
    if toc.flags & NODE_IDS_ARE_ROWS != 0 && blocks.is_some() {
        toc.flags |= NODES_ARE_BLOCKS;
    }
    let mut heap = heap;
    toc.node_names = write_names(&mut writer, job, &mut heap)?;
    toc.heap = heap.write(&mut writer)?;
    writer.finish(SegmentKind::Job, &job.nspace, creator, &toc).map(GatherBuf::into_own)
}

/// Numbers of ranks for which texts of ranks are not stored if readers can build them. With fewer ranks, copying a stored text is
/// faster; readers build none for more.
const MADE: RangeInclusive<u32> = 1 << 16..=RANK_COUNT_MAX as u32;

type Planned<'a> = (Vec<KeyRow<'a>>, Vec<(Realm, PlannedColumn<'a>)>, Heap);

/// Sorts out all values: the keys in text order, which are their ids, and a column for each key of each realm.
fn plan(job: &JobData, blocks: Option<u32>) -> Result<Planned<'_>, BuildError> {
    let mut ids: BTreeMap<&Key, u32> = BTreeMap::new();
    let tables = job.apps.values().chain(job.nodes.iter().map(|node| &node.values));
    for values in [&job.session, &job.job].into_iter().chain(tables) {
        ids.extend(values.keys().map(|key| (key, 0)));
    }
    ids.extend(job.procs.columns().map(|(key, _)| (key, 0)));
    ids.values_mut().enumerate().for_each(|(id, slot)| *slot = id as u32);

    let mut keys: Vec<KeyRow<'_>> = ids.keys().map(|key| KeyRow { key, realms: 0, columns: [NO_ID; 5] }).collect();
    let mut columns: Vec<(Realm, PlannedColumn<'_>)> = Vec::new();
    let mut heap = Heap::default();
    let mut add = |realm: Realm, id: u32, column| {
        let row = &mut keys[id as usize];
        row.realms = RealmMask(row.realms).with(realm).0;
        row.columns[realm as usize] = columns.len() as u32;
        columns.push((realm, column));
    };
    for (realm, rows) in [
        (Realm::Session, vec![&job.session]),
        (Realm::Job, vec![&job.job]),
        (Realm::App, job.apps.values().collect()),
        (Realm::Node, job.nodes.iter().map(|node| &node.values).collect()),
    ] {
        for (key, cells) in transposed(&rows)? {
            let id = ids[key];
            if let Some((nodes, prefix)) = rank_texts(job, blocks, realm, key) {
                let blocks = (nodes, blocks.unwrap_or(1), job.procs.rows());
                add(realm, id, PlannedColumn::ranks((id, realm as u32), rows.len() as u32, blocks, prefix, &mut heap)?);
                continue;
            }
            let column = PlannedColumn::plan(
                (id, key),
                realm as u32,
                cells.iter().map(|cell| cell.map(ValueRef::from)),
                &mut heap,
            )?;
            add(realm, id, column);
        }
    }
    for (key, values) in job.procs.columns() {
        let id = ids[key];
        let cells = (0..values.rows()).map(|row| values.get(row));
        let column = match values.full() {
            Some(whole) => PlannedColumn::plan_whole((id, key), Realm::Proc as u32, whole, &mut heap)?,
            None => PlannedColumn::plan((id, key), Realm::Proc as u32, cells, &mut heap)?,
        };
        add(Realm::Proc, id, column);
    }
    Ok((keys, columns, heap))
}

/// If readers can build the texts of a key in a realm from blocks of `per_node` ranks: the nodes in each text, and the prefix
/// before the ranks.
fn rank_texts(job: &JobData, per_node: Option<u32>, realm: Realm, key: &Key) -> Option<(u32, &'static [u8])> {
    let (per_node, end) = (per_node?, job.procs.rows());
    if realm == Realm::Node && key.is(keys::LOCAL_PEERS) {
        return Some((1, b""));
    }
    if realm != Realm::Job || !key.is(keys::PROC_MAP) {
        return None;
    }
    let text = job.job.get(key.as_bytes())?.as_text()?;
    let prefix = if text.starts_with(b"raw:") { c"raw:" } else { c"" };
    let list = RankList { prefix, first: 0, end, per_node };
    list.is_text(text).then_some((job.nodes.len() as u32, prefix.to_bytes()))
}

/// Rows of values as columns, each with one cell per row.
fn transposed<'a>(rows: &[&'a Values]) -> Result<BTreeMap<&'a Key, Vec<Option<&'a Value>>>, BuildError> {
    let mut columns: BTreeMap<&Key, Vec<Option<&Value>>> = BTreeMap::new();
    for (row, values) in rows.iter().enumerate() {
        for (key, value) in values.iter() {
            let cells = columns.entry(key).or_default();
            if cells.is_empty() {
                reserve(cells, rows.len())?;
                cells.resize(rows.len(), None);
            }
            cells[row] = Some(value);
        }
    }
    Ok(columns)
}

/// The first row of each id.
fn first_rows(ids: impl Iterator<Item = Option<u32>>) -> BTreeMap<u32, u32> {
    let mut rows = BTreeMap::new();
    for (row, id) in ids.enumerate() {
        if let Some(id) = id {
            rows.entry(id).or_insert(row as u32);
        }
    }
    rows
}

/// Writes the rows of ids. If every id equals its row, it writes nothing and returns the flag.
fn write_ids(
    writer: &mut Writer,
    ids: &BTreeMap<u32, u32>,
    rows: usize,
    flag: u32,
    extent: &mut Extent,
) -> Result<u32, BuildError> {
    if ids.len() == rows && ids.iter().all(|(id, row)| id == row) {
        return Ok(flag);
    }
    *extent = writer.region(ids.len(), size_of::<IdRow>(), |writer| {
        for (id, row) in ids {
            let start = writer.pos();
            writer.put_u32(*id);
            writer.put_u32(*row);
            writer.put_check(start);
            writer.put_u32(0);
        }
    })?;
    Ok(0)
}

/// The number of ranks per node, if all nodes list consecutive ranks in ascending order, each node as many, the last one possibly
/// fewer, and the ranks' node ids agree.
fn blocks(job: &JobData) -> Option<u32> {
    fn list(node: &Node) -> Option<&[u8]> {
        node.values.get(keys::LOCAL_PEERS.as_bytes()).and_then(Value::as_text)
    }
    let per_node = list(job.nodes.first()?)?.split(|byte| *byte == b',').count() as u32;
    let (rows, nodeids) = (job.procs.rows(), job.procs.column(keys::NODEID)?);
    let is_listed = |(row, node): (u32, &Node)| {
        let first = row * per_node;
        let made = RankList { prefix: c"", first, end: rows.min(first + per_node), per_node };
        list(node).is_some_and(|text| made.is_text(text))
    };
    // Where each block has one value, checking its first rank is enough.
    let step = nodeids.full().filter(|ids| ids.block() == per_node).map_or(1, |ids| ids.block());
    let says_so = |rank| nodeids.get(rank).and_then(|id| id.as_u32()) == Some(rank / per_node);
    let are_blocks = job.nodes.len() as u64 == u64::from(rows.div_ceil(per_node))
        && (0..).zip(&job.nodes).all(is_listed)
        && (0..rows).step_by(step as usize).all(says_so);
    are_blocks.then_some(per_node)
}

/// Writes the table of node names and aliases. Of two nodes with the same name, the first is found.
fn write_names(writer: &mut Writer, job: &JobData, heap: &mut Heap) -> Result<Extent, BuildError> {
    let names = job.nodes.iter().enumerate().flat_map(|(row, node)| {
        let all = std::iter::once(&node.hostname).chain(&node.aliases);
        all.map(move |name| (name.as_slice(), row as u32))
    });
    let count = names.clone().count();
    let slot_count = if count == 0 { 0 } else { (count * 2).next_power_of_two() };
    let mut slots: Vec<Option<(u64, &[u8], u32)>> = vec_for(slot_count)?;
    slots.resize(slot_count, None);
    for (name, row) in names {
        let hash = xxh3_64(name);
        let mut index = hash as usize & (slot_count - 1);
        let mut known = false;
        while let Some((_, other, _)) = slots[index] {
            known = other == name;
            if known {
                break;
            }
            index = (index + 1) & (slot_count - 1);
        }
        if !known {
            slots[index] = Some((hash, name, row));
        }
    }
    let mut places: Vec<u64> = vec_for(slot_count)?;
    for slot in &slots {
        places.push(slot.map_or(Ok(0), |(_, name, _)| heap.intern(name, false))?);
    }
    writer.region(slot_count, size_of::<NameSlot>(), |writer| {
        for (slot, place) in slots.into_iter().zip(places) {
            let (hash, name, row) = slot.unwrap_or((0, b"", NO_ID));
            let start = writer.pos();
            writer.put_u64(hash);
            writer.put_u64(place);
            writer.put_u32(name.len() as u32);
            writer.put_u32(row);
            writer.put_check(start);
            writer.put_u32(0);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Nspace, Rank};
    use crate::segment::read::column::Column;

    /// The ranks of each node, and how they are listed.
    type Nodes<'a> = &'a [(&'a [u32], &'a str)];

    fn job(nodes: Nodes<'_>) -> JobData {
        let mut job = JobData::new(Nspace::new("job").unwrap());
        for (nodeid, (ranks, list)) in (0..).zip(nodes) {
            let values = [(keys::LOCAL_PEERS.into(), Value::string(*list))].into();
            job.nodes.push(Node { nodeid: Some(nodeid), values, ..Node::default() });
            for rank in *ranks {
                job.procs.set(Rank(*rank), keys::NODEID.into(), Value::Uint32(nodeid)).unwrap();
            }
        }
        job
    }

    #[test]
    fn only_blocks_in_order_are_blocks() {
        let cases: [(Nodes<'_>, bool); 11] = [
            (&[(&[0, 1], "0,1"), (&[2, 3], "2,3")], true),
            (&[(&[0, 1], "0,1"), (&[2], "2")], true),
            (&[(&[0], "0")], true),
            // Uneven before the last one, or more on that.
            (&[(&[0, 1], "0,1"), (&[2], "2"), (&[3], "3")], false),
            (&[(&[0], "0"), (&[1, 2], "1,2")], false),
            // Gaps, and a rank that no node lists.
            (&[(&[0, 1], "0,1"), (&[3, 4], "3,4")], false),
            (&[(&[0, 1], "0,1"), (&[2, 3], "2")], false),
            // Dealt round, and out of order.
            (&[(&[0, 2], "0,2"), (&[1, 3], "1,3")], false),
            (&[(&[0, 1], "1,0"), (&[2, 3], "2,3")], false),
            // A node without ranks, and ranks whose own node differs from the node that lists them.
            (&[(&[0, 1], "0,1"), (&[], "")], false),
            (&[(&[0, 2], "0,1"), (&[1, 3], "2,3")], false),
        ];
        for (nodes, expected) in cases {
            assert_eq!(blocks(&job(nodes)).is_some(), expected, "{nodes:?}");
        }
        assert_eq!(blocks(&JobData::new(Nspace::new("job").unwrap())), None);
    }

    #[test]
    fn texts_are_left_to_readers_of_as_many_ranks_as_these_take() {
        let is_read = |ranks: u32| {
            let mut writer = Writer::new();
            let column = PlannedColumn::ranks((0, 1), 1, (1, 64, ranks), b"", &mut Heap::default()).unwrap();
            let toc = column.write(&mut writer).unwrap();
            Column::check(&toc, writer.pos() as usize).is_ok()
        };
        for ranks in [*MADE.start(), *MADE.end()] {
            assert!(MADE.contains(&ranks) && is_read(ranks));
        }
        let more = RANK_COUNT_MAX as u32 + 1;
        assert!(!is_read(more) && !MADE.contains(&more));
    }
}
