//! The ranks of a job's nodes as formulas: one for many nodes where these are alike.

use std::ffi::{CStr, CString};
use std::ops::Range;

use super::{NODE_COUNT_MAX, RANK_COUNT_MAX, RANK_MAX, ranks};
use crate::fallible_alloc;
use crate::model::{Rank, Result, Status};

/// The ranks of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Ranks {
    /// A contiguous range.
    Run(Range<u32>),
    /// A list, in this order.
    List(Vec<Rank>),
}

impl Ranks {
    /// No ranks.
    pub const NONE: Ranks = Ranks::Run(0..0);

    /// Iterates over the ranks.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Rank> {
        let (run, list) = match self {
            Ranks::Run(run) => (run.clone(), &[][..]),
            Ranks::List(list) => (0..list.len() as u32, &list[..]),
        };
        let is_run = list.is_empty();
        run.map(move |at| if is_run { Rank(at) } else { list[at as usize] })
    }
}

/// Ranks of a node: `count` of them from `first` on. `block` ranks follow each other; the next block is `stride` ranks after the
/// start of this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub first: u32,
    pub block: u32,
    pub stride: u32,
    pub count: u32,
}

impl Part {
    /// No ranks.
    pub const NONE: Part = Part { first: 0, block: 1, stride: 0, count: 0 };

    fn iter(self) -> impl Iterator<Item = u32> {
        let Part { first, block, stride, count } = self;
        (0..count).step_by(block as usize).flat_map(move |at| {
            let start = first + at / block * stride;
            start..start + block.min(count - at)
        })
    }

    /// One of the highest ranks that it can have.
    fn last(self, distance: u64) -> u128 {
        let blocks = u128::from((self.count.max(1) - 1) / self.block);
        u128::from(self.first) + u128::from(distance) + blocks * u128::from(self.stride) + u128::from(self.block) - 1
    }
}

/// A part of the ranks of neighbouring nodes: those from `first_node` on, up to the first node of a later run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeRun {
    pub first_node: u32,
    /// Which part of the ranks of each of these nodes.
    pub part: u32,
    /// The part of the first node.
    pub of_first: Part,
    /// Distance of a node's ranks to those of the node before.
    pub step: u32,
}

impl NodeRun {
    /// The part of a node.
    #[inline]
    fn of(&self, node: u32) -> Part {
        let first = self.of_first.first + (node - self.first_node) * self.step;
        Part { first, ..self.of_first }
    }
}

/// The ranks of all nodes of a job.
#[derive(Debug, PartialEq)]
pub struct NodeRuns {
    /// In the order of nodes, then of parts.
    runs: Box<[NodeRun]>,
    nodes: u32,
    /// No rank is higher.
    highest: u32,
}

impl NodeRuns {
    /// Checks runs: each node has all its parts, and ranks and their number are those of a job.
    pub(crate) fn new(runs: Box<[NodeRun]>, nodes: u32) -> Option<NodeRuns> {
        let (mut end, mut count, mut highest) = (nodes, 0u64, 0u128);
        for parts in runs.chunk_by(|a, b| a.first_node == b.first_node).rev() {
            let first = parts.first()?.first_node;
            let others = end.checked_sub(first)?.checked_sub(1)?;
            for (number, run) in (0..).zip(parts) {
                // A node without ranks has one part alone: empty parts would cost time without being counted.
                let is_empty = parts.len() > 1 && run.of_first.count == 0;
                if run.part != number || run.of_first.block == 0 || is_empty {
                    return None;
                }
                count = count.saturating_add(u64::from(run.of_first.count) * (u64::from(others) + 1));
                highest = highest.max(run.of_first.last(u64::from(others) * u64::from(run.step)));
            }
            end = first;
        }
        let is_of_job = end == 0 && nodes as usize <= NODE_COUNT_MAX && count <= RANK_COUNT_MAX as u64;
        let highest = u32::try_from(highest).ok().filter(|highest| is_of_job && *highest <= RANK_MAX)?;
        (!runs.is_empty()).then_some(NodeRuns { runs, nodes, highest })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The parts of a node's ranks.
    #[inline]
    fn parts(&self, node: u32) -> impl Iterator<Item = Part> + Clone {
        let known = if node < self.nodes { &self.runs[..] } else { &[] };
        let end = known.partition_point(|run| run.first_node <= node);
        let last = known[..end].last().map_or(0, |run| run.part as usize + 1);
        known[end.saturating_sub(last)..end].iter().map(move |run| run.of(node))
    }

    /// The ranks of a node in the order of its parts; `None` if there is no such node, or no memory.
    #[inline]
    pub fn ranks(&self, node: u32) -> Option<Ranks> {
        let mut parts = self.parts(node);
        let Part { first, block, count, .. } = parts.next()?;
        if count <= block && parts.next().is_none() {
            return Some(Ranks::Run(first..first + count));
        }
        self.list(node)
    }

    #[cold]
    fn list(&self, node: u32) -> Option<Ranks> {
        let count: u32 = self.parts(node).map(|part| part.count).sum();
        let mut list = fallible_alloc::vec(count as usize).ok()?;
        list.extend(self.parts(node).flat_map(Part::iter).map(Rank));
        Some(Ranks::List(list))
    }
}

/// A text of the ranks of nodes, built on demand: in a large job, stored texts of ranks would take most of the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankList<'a> {
    /// The text before the ranks.
    pub prefix: &'a CStr,
    /// The ranks.
    pub runs: &'a NodeRuns,
    /// The first node: `;` separates nodes, `,` separates ranks.
    pub first: u32,
    /// One more than the last node.
    pub end: u32,
}

impl RankList<'_> {
    /// The text.
    ///
    /// # Errors
    /// `NOMEM`; `BAD_PARAM` for nodes that there are not.
    pub fn text(&self) -> Result<CString> {
        let RankList { prefix, runs, first, end } = *self;
        if end > runs.nodes {
            return Err(Status::ERR_BAD_PARAM);
        }
        // A rank needs eight bytes while it is written.
        let mut text = fallible_alloc::vec(self.len_max() + 8)?;
        text.extend_from_slice(prefix.to_bytes());
        for node in first..end {
            text.extend((node > first).then_some(b';'));
            ranks::write_node(&mut text, runs.parts(node).flat_map(Part::iter));
        }
        text.push(0);
        CString::from_vec_with_nul(text).map_err(|_| Status::ERR_BAD_PARAM)
    }

    /// Number of ranks.
    pub fn rank_count(&self) -> usize {
        (self.first..self.end).flat_map(|node| self.runs.parts(node)).map(|part| part.count as usize).sum()
    }

    /// The maximum length of the text.
    pub fn len_max(&self) -> usize {
        let digits = self.runs.highest.max(1).ilog10() as usize + 1;
        let nodes = self.end.saturating_sub(self.first) as usize;
        self.prefix.count_bytes() + nodes + self.rank_count() * (digits + 1)
    }
}

/// Finds the runs of nodes while nodes are added in order.
#[cfg(feature = "builder")]
#[derive(Default)]
pub(crate) struct RunFinder {
    runs: Vec<NodeRun>,
    /// The first run that has the last node.
    last: usize,
    nodes: u32,
    /// The text of a node's ranks.
    text: Vec<u8>,
}

#[cfg(feature = "builder")]
impl RunFinder {
    /// Adds the next node with its list of ranks. Returns the number of runs; nothing if the list is not one of ascending ranks
    /// without ranges.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn add(&mut self, list: &[u8]) -> Result<Option<usize>> {
        // Most nodes continue a run.
        let known = &self.runs[self.last..];
        let others = known.first().map_or(0, |run| self.nodes - run.first_node);
        if others > 1 && is_text(known.iter().map(|run| run.of(self.nodes)), list, &mut self.text)? {
            self.nodes += 1;
            return Ok(Some(self.runs.len()));
        }
        let ranks = match super::parse_ranks(list) {
            Ok(ranks) => ranks,
            Err(Status::ERR_NOMEM) => return Err(Status::ERR_NOMEM),
            Err(_) => return Ok(None),
        };
        let Some(parts) = parts_of(&ranks)? else { return Ok(None) };
        if !is_text(parts.iter().copied(), list, &mut self.text)? {
            return Ok(None);
        }
        self.add_parts(&parts).map(Some)
    }

    /// The same, with the node's ranks.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn add_ranks(&mut self, ranks: &[u32]) -> Result<Option<usize>> {
        let known = &self.runs[self.last..];
        let others = known.first().map_or(0, |run| self.nodes - run.first_node);
        if others > 1 && are_of(known.iter().map(|run| run.of(self.nodes)), ranks) {
            self.nodes += 1;
            return Ok(Some(self.runs.len()));
        }
        parts_of(ranks)?.map(|parts| self.add_parts(&parts)).transpose()
    }

    fn add_parts(&mut self, parts: &[Part]) -> Result<usize> {
        let node = self.nodes;
        self.nodes += 1;
        let known = &mut self.runs[self.last..];
        let others = known.first().map_or(0, |run| node - run.first_node);
        let step_of = |run: &NodeRun, part: &Part| {
            let is_like = Part { first: 0, ..run.of_first } == Part { first: 0, ..*part };
            let distance = part.first.checked_sub(run.of_first.first)?;
            let step = if others == 1 { distance } else { run.step };
            (is_like && Some(distance) == step.checked_mul(others)).then_some(step)
        };
        let are_like = known.iter().zip(parts).all(|(run, part)| step_of(run, part).is_some());
        if others > 0 && are_like && known.len() == parts.len() {
            for (run, part) in known.iter_mut().zip(parts) {
                run.step = step_of(run, part).unwrap_or(0);
            }
            return Ok(self.runs.len());
        }
        self.last = self.runs.len();
        for (part, of_first) in (0..).zip(parts) {
            fallible_alloc::push(&mut self.runs, NodeRun { first_node: node, part, of_first: *of_first, step: 0 })?;
        }
        Ok(self.runs.len())
    }

    /// The runs of all nodes that were added.
    pub(crate) fn finish(self) -> Option<NodeRuns> {
        NodeRuns::new(self.runs.into(), self.nodes)
    }
}

#[cfg(feature = "builder")]
impl NodeRuns {
    /// The runs in the order of nodes, then of parts.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &NodeRun> {
        self.runs.iter()
    }
}

/// Whether the ranks of the parts have this text, which is made in `buffer`.
#[cfg(feature = "builder")]
fn is_text(parts: impl Iterator<Item = Part> + Clone, text: &[u8], buffer: &mut Vec<u8>) -> Result<bool> {
    buffer.clear();
    // A rank has ten digits at most.
    fallible_alloc::reserve(buffer, parts.clone().map(|part| part.count as usize).sum::<usize>() * 11 + 8)?;
    ranks::write_node(buffer, parts.flat_map(Part::iter));
    Ok(buffer == text)
}

/// Whether these are the ranks of the parts.
#[cfg(feature = "builder")]
fn are_of(parts: impl Iterator<Item = Part>, ranks: &[u32]) -> bool {
    let mut rest = ranks;
    for Part { first, block, stride, count } in parts {
        let Some((of_part, after)) = rest.split_at_checked(count as usize) else { return false };
        rest = after;
        let mut start = first;
        for ranks in of_part.chunks(block as usize) {
            if !ranks.iter().copied().eq(start..start + ranks.len() as u32) {
                return false;
            }
            start = start.wrapping_add(stride);
        }
    }
    rest.is_empty()
}

/// The parts of ascending ranks; nothing if they do not ascend.
///
/// # Errors
/// `NOMEM`.
#[cfg(feature = "builder")]
fn parts_of(ranks: &[u32]) -> Result<Option<Vec<Part>>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = ranks;
    while let Some(first) = rest.first() {
        let mut blocks = rest.chunk_by(|a, b| a.checked_add(1) == Some(*b));
        let block = blocks.next().map_or(0, <[u32]>::len);
        let mut part = Part { first: *first, block: block as u32, stride: 0, count: block as u32 };
        for (number, next) in (1..).zip(blocks) {
            let Some(distance) = next[0].checked_sub(*first) else { return Ok(None) };
            if number == 1 {
                part.stride = distance;
            }
            if next.len() > block || part.stride.checked_mul(number) != Some(distance) {
                break;
            }
            part.count += next.len() as u32;
            if next.len() < block {
                break;
            }
        }
        // One block needs no stride.
        if part.count <= part.block {
            part.stride = 0;
        }
        rest = &rest[part.count as usize..];
        fallible_alloc::push(&mut parts, part)?;
    }
    if parts.is_empty() {
        fallible_alloc::push(&mut parts, Part::NONE)?;
    }
    Ok(ranks.is_sorted_by(|a, b| a < b).then_some(parts))
}
