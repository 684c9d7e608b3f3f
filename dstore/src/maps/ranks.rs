//! The ranks of a process map.

use super::take_range;
use crate::job::ProcTable;
use crate::model::{Result, Status};
use crate::room;

/// Most ranks that a process map may expand to.
pub const RANK_COUNT_MAX: usize = 1 << 24;

/// The ranks of each node of `0-3,8;4-7`.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Vec<u32>>> {
    let (mut nodes, mut count, mut rest) = (Vec::new(), 0, text);
    while !text.is_empty() {
        // The next node most often has as many as this one.
        let likely = nodes.last().map_or(0, Vec::len);
        room::push(&mut nodes, parse_node(&mut rest, likely, &mut count)?)?;
        match rest.split_first() {
            Some((_, after)) => rest = after,
            None => break,
        }
    }
    Ok(nodes)
}

/// The ranks of each node, each of them for itself: `0,1,2,3,8;4,5,6,7`.
pub(super) fn write(nodes: &[Vec<u32>]) -> Result<Vec<u8>> {
    // Few ranks have more than seven digits.
    let len = nodes.iter().map(|ranks| 1 + 8 * ranks.len()).sum();
    let mut text = Vec::new();
    room::reserve(&mut text, len)?;
    for (node, ranks) in nodes.iter().enumerate() {
        text.extend((node > 0).then_some(b';'));
        write_node(&mut text, ranks.iter().copied());
    }
    Ok(text)
}

/// The ranks of one node, each of them for itself.
pub(super) fn write_node(text: &mut Vec<u8>, ranks: impl Iterator<Item = u32>) {
    let mut digits = Digits::of(0);
    for (turn, rank) in ranks.enumerate() {
        text.extend((turn > 0).then_some(b','));
        if digits.number.checked_add(1) == Some(rank) {
            digits.count_on();
        } else {
            digits = Digits::of(rank);
        }
        text.extend_from_slice(&digits.text[digits.start..]);
    }
}

/// A decimal number that counts: a process map has as many of them as a job has ranks, and most of them follow each other.
struct Digits {
    number: u32,
    text: [u8; 10],
    /// Where its digits begin.
    start: usize,
}

impl Digits {
    fn of(number: u32) -> Digits {
        let mut text = [b'0'; 10];
        let (mut start, mut rest) = (text.len(), number);
        loop {
            start -= 1;
            text[start] += (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Digits { number, text, start };
            }
        }
    }

    /// Makes it the next one, of which there is one.
    #[inline]
    fn count_on(&mut self) {
        self.number += 1;
        let nines = self.text.iter().rev().take_while(|digit| **digit == b'9').count();
        let at = self.text.len() - 1 - nines;
        self.text[at] += 1;
        self.text[at + 1..].fill(b'0');
        self.start = self.start.min(at);
    }
}

/// Takes the ranks of one node from the front of `rest`, to its `;` or its end; they are counted with those before.
pub(super) fn parse_node(rest: &mut &[u8], likely: usize, count: &mut usize) -> Result<Vec<u32>> {
    let mut ranks = room::vec(likely)?;
    if matches!(rest.first(), None | Some(b';')) {
        return Ok(ranks);
    }
    loop {
        let (first, last) = take_range(rest)?;
        if last > u64::from(ProcTable::RANK_MAX) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let (first, last) = (first as u32, last as u32);
        *count += (last - first) as usize + 1;
        if *count > RANK_COUNT_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        if first == last {
            room::push(&mut ranks, first)?;
        } else {
            room::reserve(&mut ranks, (last - first) as usize + 1)?;
            ranks.extend(first..=last);
        }
        match rest.split_first() {
            None | Some((b';', _)) => return Ok(ranks),
            Some((b',', after)) => *rest = after,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        }
    }
}
