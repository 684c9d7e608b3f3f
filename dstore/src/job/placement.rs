//! The placement of a job's ranks as few stretches, which is all that most process maps are: blocks of ranks, or ranks that are
//! dealt to the nodes in turn.

use std::ops::Range;

use super::refused::Result;
use crate::fallible_alloc;

/// Ranks that follow each other on nodes that follow each other, as many on each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// The first rank.
    pub first: u32,
    /// The row of the first node, and the number of nodes.
    pub node: u32,
    pub nodes: u32,
    /// Number of ranks on each node.
    pub block: u32,
    /// The local rank of the first of these ranks on each node.
    pub local: u32,
}

impl Stretch {
    /// The rows of its nodes.
    pub fn rows(&self) -> Range<usize> {
        self.node as usize..(self.node + self.nodes) as usize
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.block
    }

    /// The blocks of ranks, each with the row of its node.
    fn blocks(self) -> impl Iterator<Item = (Range<u32>, u32)> + Clone {
        (0..self.nodes).map(move |at| {
            let first = self.first + at * self.block;
            (first..first + self.block, self.node + at)
        })
    }

    /// Whether it has the nodes of another one, in the same way.
    fn is_like(&self, other: &Stretch) -> bool {
        (self.node, self.nodes, self.block) == (other.node, other.nodes, other.block)
    }
}

/// The ranks from 0 on, all of which are on a node. The local ranks of a node ascend with its ranks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stretches {
    all: Vec<Stretch>,
}

impl Stretches {
    /// As many are always allowed; more only with this many ranks each, so that they take less time and memory than the ranks.
    const COUNT_MIN: usize = 64;
    const RANKS_MIN: usize = 16;
    /// A local rank has 16 bits.
    const LOCAL_MAX: usize = 1 << 16;

    /// The stretches of the ranks of each node. Nothing if a rank is missing or on two nodes, a node's ranks do not ascend, or the
    /// stretches are too many.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn of(nodes: &[Vec<u32>]) -> Result<Option<Stretches>> {
        let count: usize = nodes.iter().map(Vec::len).sum();
        if nodes.iter().any(|ranks| ranks.len() > Stretches::LOCAL_MAX) {
            return Ok(None);
        }
        let mut found = Stretches::default();
        if found.add_blocks(nodes)? {
            return Ok(Some(found));
        }
        found.all.clear();
        let Some(row_of) = rows_of(nodes, count)? else { return Ok(None) };
        let count_max = Stretches::COUNT_MIN.max(count / Stretches::RANKS_MIN);
        Ok(found.add_rows(&row_of, nodes.len(), count_max)?.then_some(found))
    }

    /// Adds the ranks of the nodes, if these follow each other node after node.
    fn add_blocks(&mut self, nodes: &[Vec<u32>]) -> Result<bool> {
        let mut next = 0;
        for (row, ranks) in (0..).zip(nodes) {
            let (first, block) = (next, ranks.len() as u32);
            next += block;
            if !ranks.iter().copied().eq(first..next) {
                return Ok(false);
            }
            match self.all.last_mut() {
                Some(last) if last.block == block && last.node + last.nodes == row => last.nodes += 1,
                _ if block == 0 => {}
                _ => {
                    let stretch = Stretch { first, node: row, nodes: 1, block, local: 0 };
                    fallible_alloc::push(&mut self.all, stretch)?;
                }
            }
        }
        Ok(true)
    }

    /// Adds ranks in any order, from the row of each. Stops after `count_max` stretches.
    fn add_rows(&mut self, row_of: &[u32], nodes: usize, count_max: usize) -> Result<bool> {
        // The next local rank of each node.
        let mut locals = fallible_alloc::filled(0, nodes)?;
        let mut rest = row_of;
        while let Some(node) = rest.first().copied() {
            let block = rest.iter().take_while(|row| **row == node).count();
            let likely = &locals[node as usize..];
            let local = likely[0];
            let blocks = rest.chunks_exact(block).zip(node..).zip(likely);
            // Without a branch for each rank of a block.
            let is_on = |rows: &[u32], node: u32| rows.iter().fold(0, |others, row| others | (row ^ node)) == 0;
            let are_on = |((rows, node), next): &((&[u32], u32), &u32)| is_on(rows, *node) && **next == local;
            let nodes = blocks.take_while(are_on).count();
            locals[node as usize..][..nodes].iter_mut().for_each(|next| *next += block as u32);
            let first = (row_of.len() - rest.len()) as u32;
            let stretch = Stretch { first, node, nodes: nodes as u32, block: block as u32, local };
            fallible_alloc::push(&mut self.all, stretch)?;
            if self.all.len() > count_max {
                return Ok(false);
            }
            rest = &rest[nodes * block..];
        }
        Ok(true)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.all.last().map_or(0, |last| last.first + last.ranks())
    }

    /// The blocks of ranks, each with the row of its node.
    pub fn blocks(&self) -> impl Iterator<Item = (Range<u32>, u32)> + Clone {
        self.all.iter().copied().flat_map(Stretch::blocks)
    }

    /// The stretches in the order of ranks.
    pub fn iter(&self) -> impl Iterator<Item = &Stretch> + Clone {
        self.all.iter()
    }

    /// Stretches that only differ in their ranks: the first of each such group, and their number.
    pub fn alike(&self) -> impl Iterator<Item = (&Stretch, u32)> + Clone {
        self.all.chunk_by(Stretch::is_like).filter_map(|group| Some((group.first()?, group.len() as u32)))
    }
}

/// The row of each rank's node. Nothing if a rank is missing or on two nodes, or a node's ranks do not ascend.
fn rows_of(nodes: &[Vec<u32>], count: usize) -> Result<Option<Vec<u32>>> {
    const NOWHERE: u32 = u32::MAX;
    /// Ranks that are dealt to as many neighbours share a cache line. Node by node, each rank would be a cache miss.
    const NEIGHBOURS: usize = 16;
    // Below the number of ranks, where no two are equal, none is missing.
    let is_good =
        |ranks: &Vec<u32>| ranks.is_sorted_by(|a, b| a < b) && ranks.last().is_none_or(|last| (*last as usize) < count);
    if !nodes.iter().all(is_good) {
        return Ok(None);
    }
    let mut row_of = fallible_alloc::filled(NOWHERE, count)?;
    for (first, nodes) in (0..).step_by(NEIGHBOURS).zip(nodes.chunks(NEIGHBOURS)) {
        for local in 0..nodes.iter().map(Vec::len).max().unwrap_or(0) {
            for (row, rank) in (first..).zip(nodes).filter_map(|(row, ranks)| Some((row, *ranks.get(local)?))) {
                if std::mem::replace(&mut row_of[rank as usize], row) != NOWHERE {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(row_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of each node, from the node of each rank.
    fn nodes_of(rows: &[usize], nodes: usize) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); nodes];
        (0..).zip(rows).for_each(|(rank, row)| all[*row].push(rank));
        all
    }

    /// The number of stretches, which have the ranks of the nodes and no others.
    fn count(nodes: &[Vec<u32>]) -> Option<usize> {
        let found = Stretches::of(nodes).unwrap()?;
        let mut made = vec![Vec::new(); nodes.len()];
        for stretch in found.iter() {
            for (ranks, row) in stretch.blocks() {
                assert_eq!(made[row as usize].len() as u32, stretch.local, "{stretch:?}");
                made[row as usize].extend(ranks);
            }
        }
        assert_eq!(made, nodes);
        assert_eq!(found.ranks() as usize, nodes.iter().map(Vec::len).sum::<usize>());
        assert!(found.blocks().flat_map(|(ranks, _)| ranks).eq(0..found.ranks()));
        Some(found.iter().count())
    }

    #[test]
    fn ranks_are_as_few_stretches_as_their_order_allows() {
        let blocks = |counts: &[usize]| {
            let rows: Vec<usize> =
                counts.iter().enumerate().flat_map(|(row, count)| std::iter::repeat_n(row, *count)).collect();
            nodes_of(&rows, counts.len())
        };
        assert_eq!(count(&[]), Some(0));
        assert_eq!(count(&blocks(&[4; 100])), Some(1));
        assert_eq!(count(&blocks(&[2, 4, 4, 4])), Some(2));
        assert_eq!(count(&blocks(&[4, 4, 2, 4])), Some(3));
        assert_eq!(count(&blocks(&[4, 0, 4, 4, 0])), Some(2));
        let uneven: Vec<usize> = (0..1000).map(|node| 1 + node % 3).collect();
        assert_eq!(count(&blocks(&uneven)), Some(1000), "one for each node is never too many");
        let rounds = |rounds: &[&[usize]], nodes| nodes_of(&rounds.concat(), nodes);
        let all: Vec<usize> = (0..9).collect();
        assert_eq!(count(&rounds(&[&all[..]; 5], 9)), Some(5));
        // The last nodes have fewer ranks; one node is left out, and comes last.
        assert_eq!(count(&rounds(&[&all, &all, &all[..4], &all[..4]], 9)), Some(4));
        assert_eq!(count(&rounds(&[&all, &[0, 1, 2, 4, 5, 6, 7, 8], &all, &[3]], 9)), Some(7));
        // Two at a time, and one that is left.
        let pairs: Vec<usize> = all.iter().flat_map(|row| [*row; 2]).collect();
        assert_eq!(count(&rounds(&[&pairs, &pairs, &all], 9)), Some(3));
    }

    #[test]
    fn other_maps_are_no_stretches() {
        for nodes in [
            // Missing, twice, and not in order.
            [vec![1, 2], vec![3, 4]],
            [vec![0, 1], vec![3, 4]],
            [vec![0, 1], vec![1, 2]],
            [vec![0, 0], vec![1, 2]],
            [vec![1, 0], vec![2, 3]],
        ] {
            assert_eq!(count(&nodes), None, "{nodes:?}");
        }
        // No two neighbours are on neighbouring nodes.
        let spread: Vec<usize> = (0..1200).map(|rank| rank * 5 % 12).collect();
        assert_eq!(count(&nodes_of(&spread, 12)), None);
        assert_eq!(count(&nodes_of(&spread[..60], 12)), Some(60));
    }

    #[test]
    fn random_rounds_are_what_they_were() {
        let mut random = 1u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        let mut known = 0;
        for _ in 0..500 {
            let nodes = 1 + below(20);
            let mut rows = Vec::new();
            for _ in 0..1 + below(12) {
                let (block, first) = (1 + below(3), below(nodes));
                let end = first + 1 + below(nodes - first);
                (first..end).for_each(|row| rows.extend([row; 3][..block].iter().copied()));
            }
            known += usize::from(count(&nodes_of(&rows, nodes)).is_some());
        }
        assert!(known > 400, "{known}");
    }
}
