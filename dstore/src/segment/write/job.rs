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
use crate::job::{JobData, Values};
use crate::maps::{NodeRun, NodeRuns, Part, RANK_COUNT_MAX, RunFinder};
use crate::model::{Key, Value, keys};
use crate::realm_resolution::{Realm, RealmMask};
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::toc::{
    APPNUMS_ARE_ROWS, Extent, IdRow, JobToc, NO_ID, NODE_IDS_ARE_ROWS, NameSlot, RunEntry,
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
    let runs = runs_of(job)?;
    let (keys, columns, heap) = plan(job, runs.as_ref().filter(|_| made.contains(&job.procs.rows())))?;
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
    if let Some(runs) = &runs {
        toc.node_runs = write_runs(&mut writer, runs)?;
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
fn plan<'a>(job: &'a JobData, runs: Option<&NodeRuns>) -> Result<Planned<'a>, BuildError> {
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
            if let Some(texts) = runs.and_then(|runs| rank_texts(job, runs, realm, key)) {
                let rows = cells.iter().rposition(Option::is_some).map_or(0, |row| row + 1);
                let mut gaps = Vec::new();
                if cells[..rows].contains(&None) {
                    gaps = vec_for(rows)?;
                    gaps.extend(cells[..rows].iter().map(Option::is_some));
                }
                add(realm, id, PlannedColumn::ranks((id, realm as u32), texts, rows as u32, gaps, &mut heap)?);
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

/// If readers can build the texts of a key in a realm from the runs of nodes: the number of nodes in each text, and the prefix
/// before the ranks.
fn rank_texts(job: &JobData, runs: &NodeRuns, realm: Realm, key: &Key) -> Option<(u32, &'static [u8])> {
    if realm == Realm::Node && key.is(keys::LOCAL_PEERS) {
        return Some((1, b""));
    }
    if realm != Realm::Job || !key.is(keys::PROC_MAP) {
        return None;
    }
    let text = job.job.get(key.as_bytes())?.as_text()?;
    let (prefix, ranks) = text.split_at(if text.starts_with(b"raw:") { 4 } else { 0 });
    let prefix = if prefix.is_empty() { &b""[..] } else { b"raw:" };
    is_of_nodes(job, ranks).then_some((runs.nodes(), prefix))
}

/// Whether a text is that of all nodes' lists of ranks, which are known to be those of the runs.
fn is_of_nodes(job: &JobData, text: &[u8]) -> bool {
    let (mut rest, mut separator) = (Some(text), &b""[..]);
    for node in &job.nodes {
        let list = node.values.get(keys::LOCAL_PEERS.as_bytes()).and_then(Value::as_text).unwrap_or_default();
        rest = rest.and_then(|rest| rest.strip_prefix(separator)?.strip_prefix(list));
        separator = b";";
    }
    rest == Some(&[])
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

/// The ranks of the nodes as runs, if all nodes list their ranks in ascending order, one by one, and these are few runs.
fn runs_of(job: &JobData) -> Result<Option<NodeRuns>, BuildError> {
    let needed = (job.nodes.len() * size_of::<RunEntry>()) as u64;
    find_runs(job).map_err(|_| BuildError::NoMemory { needed })
}

/// As many runs are always allowed, more only of this many nodes each. Readers copy them.
const RUNS_MIN: usize = 64;
const NODES_OF_RUN: usize = 4;
const RUNS_MAX: usize = 4096;

fn find_runs(job: &JobData) -> crate::model::Result<Option<NodeRuns>> {
    let runs_max = (job.nodes.len() / NODES_OF_RUN).clamp(RUNS_MIN, RUNS_MAX);
    let mut finder = RunFinder::default();
    for (row, node) in job.nodes.iter().enumerate() {
        let list = match node.values.get(keys::LOCAL_PEERS.as_bytes()) {
            Some(Value::String(Some(list))) => list.to_bytes(),
            // Readers would take the node's ranks for unknown.
            None if node.values.get(keys::LOCAL_SIZE.as_bytes()).and_then(Value::as_u32) == Some(0) => b"",
            _ => return Ok(None),
        };
        let count = match job.mapped_peers(row) {
            Some(ranks) => finder.add_ranks(ranks)?,
            None => finder.add(list)?,
        };
        if count.is_none_or(|count| count > runs_max) {
            return Ok(None);
        }
    }
    Ok(finder.finish())
}

fn write_runs(writer: &mut Writer, runs: &NodeRuns) -> Result<Extent, BuildError> {
    writer.region(runs.iter().len(), size_of::<RunEntry>(), |writer| {
        for NodeRun { first_node, part, of_first: Part { first, block, stride, count }, step } in runs.iter() {
            let start = writer.pos();
            for number in [first_node, part, first, step, block, stride, count] {
                writer.put_u32(*number);
            }
            writer.put_check(start);
        }
    })
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
    use crate::job::Node;
    use crate::model::{Info, Nspace, Rank};

    /// The ranks of each node, and how they are listed.
    fn job(lists: &[Option<&str>]) -> JobData {
        let mut job = JobData::new(Nspace::new("job").unwrap());
        for list in lists {
            let size = (keys::LOCAL_SIZE.into(), Value::Uint32(u32::from(list.is_some())));
            let list = list.map(|list| (keys::LOCAL_PEERS.into(), Value::string(list)));
            job.nodes.push(Node { values: list.into_iter().chain([size]).collect(), ..Node::default() });
        }
        job
    }

    #[test]
    fn ascending_ranks_of_all_nodes_are_runs() {
        let count = |lists: &[Option<&str>]| {
            let runs = runs_of(&job(lists)).unwrap();
            if let Some(runs) = &runs {
                for (node, list) in (0..).zip(lists) {
                    let ranks: Vec<u32> = runs.ranks(node).unwrap().iter().map(|rank| rank.0).collect();
                    assert_eq!(
                        Some(ranks),
                        crate::maps::parse_ranks(list.unwrap_or_default().as_bytes()).ok(),
                        "{lists:?}"
                    );
                }
                // The same runs, from the ranks themselves.
                let mut finder = RunFinder::default();
                for list in lists {
                    let ranks = crate::maps::parse_ranks(list.unwrap_or_default().as_bytes()).unwrap();
                    finder.add_ranks(&ranks).unwrap().unwrap();
                }
                assert_eq!(finder.finish().as_ref(), Some(runs), "{lists:?}");
            }
            runs.map(|runs| runs.iter().len())
        };
        let cases: [(&[Option<&str>], Option<usize>); 12] = [
            (&[Some("0,1"), Some("2,3"), Some("4,5")], Some(1)),
            (&[Some("0")], Some(1)),
            // Uneven: first, last, in the middle.
            (&[Some("0,1"), Some("2")], Some(2)),
            (&[Some("0"), Some("1,2"), Some("3,4")], Some(2)),
            (&[Some("0,1"), Some("2,3"), Some("4"), Some("5,6"), Some("7,8")], Some(3)),
            // Gaps; dealt round, by one and by two; a node without ranks.
            (&[Some("0,1"), Some("3,4"), Some("6,7")], Some(1)),
            (&[Some("0,3,6"), Some("1,4,7"), Some("2,5,8")], Some(1)),
            (&[Some("0,1,4,5"), Some("2,3,6,7")], Some(1)),
            (&[Some("0,1"), None, Some("2,3")], Some(3)),
            // Out of order, with ranges, and no list of ranks.
            (&[Some("0,1"), Some("3,2")], None),
            (&[Some("0-1"), Some("2,3")], None),
            (&[Some("0,1"), Some("x")], None),
        ];
        for (lists, expected) in cases {
            assert_eq!(count(lists), expected, "{lists:?}");
        }
        let mut unknown = job(&[Some("0,1"), None]);
        assert!(runs_of(&unknown).unwrap().is_some());
        unknown.nodes[1].values.clear();
        assert_eq!(runs_of(&unknown).unwrap(), None, "the ranks of the second node are unknown");
    }

    /// The registration of a process map, and of each rank's place too if `each`.
    fn registered(rows: &[usize], nodes: usize, each: bool) -> JobData {
        let mut ranks = vec![Vec::new(); nodes];
        let mut procs = Vec::new();
        for (rank, row) in (0..).zip(rows) {
            let local = ranks[*row].len() as u16;
            ranks[*row].push(rank);
            procs.push(Info::new(
                keys::PROC_DATA,
                Value::infos([
                    Info::new(keys::RANK, Value::Rank(Rank(rank))),
                    Info::new(keys::HOSTNAME, Value::string(format!("node{row}"))),
                    Info::new(keys::NODEID, Value::Uint32(*row as u32)),
                    Info::new(keys::LOCAL_RANK, Value::Uint16(local)),
                    Info::new(keys::NODE_RANK, Value::Uint16(local)),
                ]),
            ));
        }
        let names: Vec<String> = (0..nodes).map(|row| format!("node{row}")).collect();
        let lists: Vec<Vec<u8>> = ranks.iter().map(|ranks| crate::maps::write_ranks(ranks.iter().copied())).collect();
        let mut infos = vec![
            Info::new(keys::NODE_MAP, Value::string(names.join(","))),
            Info::new(keys::PROC_MAP, Value::string(lists.join(&b';'))),
        ];
        infos.extend(procs.into_iter().filter(|_| each));
        let mut job = JobData::new(Nspace::new("job").unwrap());
        job.register(&infos, b"node0").unwrap();
        job
    }

    #[test]
    fn maps_give_the_bytes_that_the_places_of_all_ranks_give() {
        let all: Vec<usize> = (0..40).collect();
        let pairs: Vec<usize> = all.iter().flat_map(|row| [*row; 2]).collect();
        let hole: Vec<usize> =
            (0..30).flat_map(|turn| all.iter().copied().filter(move |row| turn != 27 || *row != 5)).collect();
        let backwards: Vec<usize> = all.iter().rev().copied().collect();
        let blocks = |count: fn(usize) -> usize| -> Vec<usize> {
            all.iter().flat_map(|row| std::iter::repeat_n(*row, count(*row))).collect()
        };
        for (what, rows, is_stretched) in [
            ("dealt", all.repeat(30), true),
            ("dealt to groups", [all.repeat(10), all[..20].repeat(10)].concat(), true),
            ("the second group first", [all[20..].repeat(3), all.repeat(10)].concat(), true),
            ("two at a time", pairs.repeat(12), true),
            ("two at a time, then one", [pairs.repeat(12), all.clone()].concat(), true),
            ("a hole", hole, true),
            ("blocks", blocks(|_| 30), true),
            ("uneven blocks", blocks(|row| 1 + row % 7), true),
            ("backwards", backwards.repeat(30), false),
        ] {
            let [map, each] = [false, true].map(|each| registered(&rows, all.len(), each));
            assert_eq!(map.mapped_peers(0).is_some(), is_stretched, "{what}");
            assert_eq!(build_job(&map, "test"), build_job(&each, "test"), "{what}");
            let made = |job| build_job_made(job, "test", 0..=u32::MAX);
            assert_eq!(made(&map), made(&each), "{what}, texts left to readers");
            // Registered again, as when a host adds values.
            let mut again = map.clone();
            again.register(&[Info::new(keys::UNIV_SIZE, Value::Uint32(1))], b"node0").unwrap();
            again.job.clone_from(&map.job);
            again.session.clone_from(&map.session);
            assert_eq!(build_job(&again, "test"), build_job(&map, "test"), "{what}, again");
        }
    }

    #[test]
    fn many_runs_are_none() {
        let alternating = |nodes: usize| {
            let lists: Vec<String> =
                (0..nodes).map(|node| if node % 2 == 0 { "0,1".into() } else { "7".into() }).collect();
            runs_of(&job(&lists.iter().map(|list| Some(list.as_str())).collect::<Vec<_>>())).unwrap().is_some()
        };
        assert!(alternating(RUNS_MIN) && !alternating(RUNS_MIN + 1));
    }
}
