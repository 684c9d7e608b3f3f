//! The ranks of a process map.

use super::take_range;
use crate::job::ProcTable;
use crate::model::{Result, Status};
use crate::room;

/// Most ranks that a process map may expand to.
pub const RANK_COUNT_MAX: usize = 1 << 24;

/// The ranks of each node of `0-3,8;4-7`.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Vec<u32>>> {
    let mut count = 0usize;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(|byte| *byte == b';').map(|field| parse_node(field, &mut count)).collect()
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
    for (turn, rank) in ranks.enumerate() {
        text.extend((turn > 0).then_some(b','));
        write_number(text, rank);
    }
}

/// A process map has as many of them as a job has ranks.
fn write_number(text: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// The ranks of one node, which are counted with those before.
pub(super) fn parse_node(field: &[u8], count: &mut usize) -> Result<Vec<u32>> {
    // Seven digits and a comma, as most ranks of a large job have.
    let mut ranks = room::vec(field.len() / 8 + 1)?;
    let mut rest = field;
    while !rest.is_empty() {
        let (first, last) = take_range(&mut rest)?;
        if last > u64::from(ProcTable::RANK_MAX) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let (first, last) = (first as u32, last as u32);
        *count += (last - first) as usize + 1;
        if *count > RANK_COUNT_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        room::reserve(&mut ranks, (last - first) as usize + 1)?;
        ranks.extend(first..=last);
        match rest.split_first() {
            None => {}
            Some((b',', after)) if !after.is_empty() => rest = after,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        }
    }
    Ok(ranks)
}
