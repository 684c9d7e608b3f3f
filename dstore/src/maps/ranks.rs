//! The ranks of a process map.

use super::{take_range, up_to_7_digits};
use crate::fallible_alloc;
use crate::model::{Result, Status};

/// The highest rank that a process may have. It bounds loops over all ranks below a wrong one.
pub const RANK_MAX: u32 = 1 << 28;
/// Most ranks that a process map may expand to.
pub const RANK_COUNT_MAX: usize = 1 << 24;

/// The ranks of each node of `0-3,8;4-7`.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Vec<u32>>> {
    let (mut nodes, mut count, mut rest) = (Vec::new(), 0, text);
    while !text.is_empty() {
        // The next node most often has as many ranks as this one.
        let likely = nodes.last().map_or(0, Vec::len);
        fallible_alloc::push(&mut nodes, parse_node(&mut rest, likely, &mut count)?)?;
        match rest.split_first() {
            Some((_, after)) => rest = after,
            None => break,
        }
    }
    Ok(nodes)
}

/// The ranks of each node without ranges: `0,1,2,3,8;4,5,6,7`.
pub(super) fn write(nodes: &[Vec<u32>]) -> Result<Vec<u8>> {
    // Most ranks have at most seven digits. The last one needs eight bytes while it is written.
    let len = nodes.iter().map(|ranks| 1 + 8 * ranks.len()).sum::<usize>() + 8;
    let mut text = Vec::new();
    fallible_alloc::reserve(&mut text, len)?;
    for (node, ranks) in nodes.iter().enumerate() {
        text.extend((node > 0).then_some(b';'));
        write_node(&mut text, ranks.iter().copied());
    }
    Ok(text)
}

/// An estimate of the length that [`write()`] produces.
pub(super) fn listed_len(nodes: &[Vec<u32>]) -> usize {
    let len = |rank: &u32| rank.max(&1).ilog10() as usize + 2;
    nodes.iter().flatten().map(len).sum()
}

/// The ranges of each node: `0-3,8;4-7`. `None` if they take more than `len_max` bytes.
pub(super) fn write_ranges(nodes: &[Vec<u32>], len_max: usize) -> Result<Option<Vec<u8>>> {
    let mut text = fallible_alloc::vec(len_max.min(32 * nodes.len()))?;
    for (node, ranks) in nodes.iter().enumerate() {
        text.extend((node > 0).then_some(b';'));
        for (number, run) in ranks.chunk_by(|a, b| a.checked_add(1) == Some(*b)).enumerate() {
            let (first, last) = (run[0], run[run.len() - 1]);
            let comma = if number > 0 { "," } else { "" };
            let run = if run.len() > 1 { format!("{comma}{first}-{last}") } else { format!("{comma}{first}") };
            if text.len() + run.len() > len_max {
                return Ok(None);
            }
            fallible_alloc::reserve(&mut text, run.len() + 1)?;
            text.extend_from_slice(run.as_bytes());
        }
    }
    Ok(Some(text))
}

/// The ranks of one node without ranges.
pub(super) fn write_node(text: &mut Vec<u8>, ranks: impl Iterator<Item = u32>) {
    let (before, mut digits) = (text.len(), Digits::of(0));
    // Of an iterator over several ranges, this is a loop over each.
    ranks.for_each(|rank| {
        if digits.number.wrapping_add(1) == rank {
            digits.count_on();
        } else {
            digits = Digits::of(rank);
        }
        digits.write(text);
    });
    // Removes the last comma.
    if text.len() > before {
        text.pop();
    }
}

/// A decimal number that can be incremented as text, followed by a comma. A process map has as many numbers as the job has ranks,
/// and most of them are consecutive.
#[derive(Clone, Copy)]
struct Digits {
    number: u32,
    /// The digits and the comma, the first one in the lowest byte; 0 if they do not fit into eight bytes.
    word: u64,
    /// Number of bytes of `word` in use.
    len: usize,
}

impl Digits {
    const WORD_MAX: u32 = 9_999_999;

    fn of(number: u32) -> Digits {
        if number > Digits::WORD_MAX {
            return Digits { number, word: 0, len: 0 };
        }
        // Fours, pairs and single digits, each pair of halves at once; the first digit comes to the lowest byte.
        let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
        let pairs = ((fours * 5243) >> 19) & 0x7f_0000_007f;
        let pairs = pairs | (fours - pairs * 100) << 16;
        let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
        let digits = tens | (pairs - tens * 10) << 8;
        // The number has seven digits at most, but at least one.
        let zeros = (digits.trailing_zeros() / 8).min(7);
        let len = 9 - zeros as usize;
        let word = (digits | 0x3030_3030_3030_3030) >> (8 * zeros) | u64::from(b',') << (8 * (len - 1));
        Digits { number, word, len }
    }

    /// Increments the number.
    #[inline]
    fn count_on(&mut self) {
        let next = self.number.wrapping_add(1);
        if next.is_multiple_of(10) || self.len == 0 {
            *self = Digits::of(next);
        } else {
            self.number = next;
            self.word += 1 << (8 * (self.len - 2));
        }
    }

    /// Appends it to a text.
    #[inline]
    fn write(&self, text: &mut Vec<u8>) {
        if self.len == 0 {
            return write_long(text, self.number);
        }
        // Appends all eight bytes in one store, then truncates the unused ones.
        let end = text.len() + self.len;
        text.extend_from_slice(&self.word.to_le_bytes());
        text.truncate(end);
    }

    /// The length of the number and its comma if a text begins with them.
    #[inline]
    fn begins(&self, text: &[u8]) -> Option<usize> {
        let found = u64::from_le_bytes(*text.first_chunk()?) ^ self.word;
        (self.len != 0 && found << (64 - 8 * self.len) == 0).then_some(self.len)
    }
}

/// A number of any length and a comma.
#[cold]
fn write_long(text: &mut Vec<u8>, number: u32) {
    let (mut digits, mut start, mut rest) = ([b','; 11], 10, number);
    while rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text.extend_from_slice(&digits[start..]);
}

/// A number of at most seven digits and the length with its comma, if a text begins with them.
#[inline]
fn take_item(text: &[u8]) -> Option<(u32, usize)> {
    let bytes = text.first_chunk()?;
    let (number, len) = up_to_7_digits(u64::from_le_bytes(*bytes));
    (len > 0 && bytes[len] == b',').then_some((number as u32, len + 1))
}

/// Takes the ranks of one node from the front of `rest`, to its `;` or its end, and adds their number to `count`.
pub(super) fn parse_node(rest: &mut &[u8], likely: usize, count: &mut usize) -> Result<Vec<u32>> {
    let mut ranks = fallible_alloc::vec(likely)?;
    if matches!(rest.first(), None | Some(b';')) {
        return Ok(ranks);
    }
    // If the last two ranks are consecutive: the expected next rank.
    let mut next: Option<Digits> = None;
    loop {
        if let Some(digits) = &mut next
            && let Some(len) = digits.begins(rest)
        {
            *rest = &rest[len..];
            *count += 1;
            if *count > RANK_COUNT_MAX {
                return Err(Status::ERR_BAD_PARAM);
            }
            fallible_alloc::push(&mut ranks, digits.number)?;
            digits.count_on();
            continue;
        }
        // A rank alone, as in a list of dealt ranks.
        if let Some((number, len)) = take_item(rest) {
            *rest = &rest[len..];
            *count += 1;
            if *count > RANK_COUNT_MAX {
                return Err(Status::ERR_BAD_PARAM);
            }
            let follows = ranks.last().is_some_and(|before| before.checked_add(1) == Some(number));
            next = follows.then(|| Digits::of(number + 1));
            fallible_alloc::push(&mut ranks, number)?;
            continue;
        }
        let (first, last) = take_range(rest)?;
        if last > u64::from(RANK_MAX) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let (first, last) = (first as u32, last as u32);
        *count += (last - first) as usize + 1;
        if *count > RANK_COUNT_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        if first == last {
            let follows = ranks.last().is_some_and(|before| before.checked_add(1) == Some(first));
            next = follows.then(|| Digits::of(first + 1));
            fallible_alloc::push(&mut ranks, first)?;
        } else {
            next = None;
            fallible_alloc::reserve(&mut ranks, (last - first) as usize + 1)?;
            ranks.extend(first..=last);
        }
        match rest.split_first() {
            None | Some((b';', _)) => return Ok(ranks),
            Some((b',', after)) => *rest = after,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        }
    }
}
