//! The node and process maps of a job and their compressed forms.
//!
//! A host describes the location of its ranks by two texts: the **node map**, names separated by `,`, and the **process
//! map**, one field per node separated by `;`, each a list of ranks and ranges (`0-3,8`). It converts them with
//! [`generate_regex`] and [`generate_ppn`] and registers the results, possibly through a library of another release. So
//! we write two forms and read all of them:
//!
//! | form | written by | read by stock |
//! |---|---|---|
//! | `raw:` and the text itself | us; stock 4.2 where the next one gains nothing; later releases for short texts | 4.0 and later |
//! | `pmix[...]` with numbered names, and ranks, run together | stock 3.2 to 4.2; us for large process maps | 3.2 to 6.1 |
//! | `blob:` NUL `component=zlib:` NUL `size=<decimal>:` NUL and that many bytes: length, then a zlib stream | all of them for long texts | 3.2 and later |
//! | the text itself | stock 3.2 where nothing was gained | all |
//!
//! Hosts pass maps as strings; the compressed form is not a string. Of the other forms that are still written, all
//! releases read `raw:`. Stock readers understand ranges of ranks only in `pmix[`, so in the other forms we list each
//! rank. For a large job with consecutive ranks that text would be thirty times as long: there we write `pmix[`, too.
//!
//! All parsers here take untrusted text: the size that a map expands to is bounded.

mod blob;
mod nodes;
mod ranks;
mod runs;

use std::borrow::Cow;
use std::ffi::{CStr, CString};

use crate::compression::decompress;
use crate::fallible_alloc;
use crate::model::{Result, Status};

pub use nodes::{NODE_BYTES_MAX, NODE_COUNT_MAX};
pub use ranks::{RANK_COUNT_MAX, RANK_MAX};
#[cfg(feature = "builder")]
pub(crate) use runs::RunFinder;
pub(crate) use runs::{NodeRun, Part};
pub use runs::{NodeRuns, RankList, Ranks};

const RAW: &[u8] = b"raw:";
const NATIVE: &[u8] = b"pmix[";
const REGEX2_RAW: &CStr = c"raw";

/// The form of a node map that `PMIx_generate_regex` returns: `raw:`, the map, a NUL.
///
/// A map that is in this form already is returned as it is. Takes time in proportion to its length.
///
/// # Errors
/// `BAD_PARAM` if the map holds a NUL.
pub fn generate_regex(nodes: &[u8]) -> Result<Vec<u8>> {
    raw_form(nodes)
}

/// Maximum length of a process map whose ranks are always listed one by one.
const LISTED_MAX: usize = 4096;

/// The form of a process map that `PMIx_generate_ppn` returns, with a NUL: `raw:` and the map with its ranges expanded. For a
/// large job with consecutive ranks: `pmix[` and its ranges.
///
/// Takes time in proportion to the number of ranks. A text that is not a process map is returned as it is: registration will
/// refuse it.
///
/// # Errors
/// `BAD_PARAM` if the map holds a NUL; `NOMEM`.
pub fn generate_ppn(ppn: &[u8]) -> Result<Vec<u8>> {
    let has_ranges = ppn.contains(&b'-');
    if (has_ranges || ppn.len() > LISTED_MAX)
        && let Ok(nodes) = parse_ppn(ppn)
    {
        if let Some(ranges) = in_ranges(&nodes)? {
            return Ok([NATIVE, &ranges, b"]\0"].concat());
        }
        if has_ranges {
            return raw_form(&ranks::write(&nodes)?);
        }
    }
    raw_form(ppn)
}

/// The ranges of a large map, if they take less than half the length of its listed ranks. Released readers skip nodes without
/// ranks.
fn in_ranges(nodes: &[Vec<u32>]) -> Result<Option<Vec<u8>>> {
    let listed = ranks::listed_len(nodes);
    if listed <= LISTED_MAX || nodes.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    let ranges = ranks::write_ranges(nodes, listed / 2)?;
    Ok(ranges)
}

/// The second form of lists and maps, which the source of 7.0 has, with its own data type: an encoding name and the bytes. We
/// write the text itself with its NUL, whose encoding that source names `raw`.
///
/// # Errors
/// `NOMEM`.
pub fn generate_regex2(list: &CStr) -> Result<(Option<CString>, Vec<u8>)> {
    Ok((Some(REGEX2_RAW.to_owned()), fallible_alloc::copy(list.to_bytes_with_nul())?))
}

/// The text of a second form that [`generate_regex2`] or the source of 7.0 wrote. The encoding is `raw`, or `compress`: a length
/// and a zlib stream.
///
/// # Errors
/// `BAD_PARAM` if the bytes are corrupt; `NOT_SUPPORTED` for another encoding; `NOMEM`.
pub fn parse_regex2(ty: Option<&CStr>, bytes: &[u8]) -> Result<Vec<u8>> {
    match ty {
        Some(ty) if ty == REGEX2_RAW => match CStr::from_bytes_until_nul(bytes) {
            Ok(text) => fallible_alloc::copy(text.to_bytes()),
            Err(_) => Err(Status::ERR_BAD_PARAM),
        },
        Some(ty) if ty == c"compress" => decompress(bytes).map_err(|_| Status::ERR_BAD_PARAM),
        _ => Err(Status::ERR_NOT_SUPPORTED),
    }
}

/// The names of a node map in any form, in their order, without NULs. An empty map has no names.
///
/// # Errors
/// `BAD_PARAM` if the map is malformed or expands to more than [`NODE_COUNT_MAX`] names or [`NODE_BYTES_MAX`] bytes.
pub fn parse_nodes(map: &[u8]) -> Result<Vec<Vec<u8>>> {
    match plain(map)? {
        Form::Native(body) => nodes::parse_native(&body),
        Form::Text(text) => nodes::parse_list(&text),
    }
}

/// The ranks of each node of a process map in any form, nodes and ranks in their order.
///
/// A node without ranks has an empty list; an empty map has no nodes.
///
/// # Errors
/// `BAD_PARAM` if the map is malformed, names a rank that no process can have, or expands to more than
/// [`RANK_COUNT_MAX`] ranks.
pub fn parse_ppn(map: &[u8]) -> Result<Vec<Vec<u32>>> {
    match plain(map)? {
        Form::Native(text) | Form::Text(text) => ranks::parse(&text),
    }
}

/// The ranks of one node: `0-3,8`, with or without blanks between them.
///
/// # Errors
/// As [`parse_ppn`].
pub fn parse_ranks(list: &[u8]) -> Result<Vec<u32>> {
    let text: Vec<u8> = list.iter().copied().filter(|byte| *byte != b' ').collect();
    let mut rest = text.as_slice();
    let ranks = ranks::parse_node(&mut rest, 0, &mut 0)?;
    if rest.is_empty() { Ok(ranks) } else { Err(Status::ERR_BAD_PARAM) }
}

/// A list of ranks without ranges, separated by commas.
pub(crate) fn write_ranks(ranks: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut text = Vec::with_capacity(8 * ranks.size_hint().0 + 8);
    ranks::write_node(&mut text, ranks);
    text
}

/// A map without its envelope.
enum Form<'a> {
    /// The text between `pmix[` and its final `]`.
    Native(Cow<'a, [u8]>),
    /// Plain text.
    Text(Cow<'a, [u8]>),
}

fn raw_form(text: &[u8]) -> Result<Vec<u8>> {
    if text.contains(&0) {
        return Err(Status::ERR_BAD_PARAM);
    }
    let text = text.strip_prefix(RAW).unwrap_or(text);
    Ok([RAW, text, b"\0"].concat())
}

fn plain(map: &[u8]) -> Result<Form<'_>> {
    match blob::inflate(map)? {
        Some(text) => Ok(match open(until_nul(&text))? {
            Form::Native(body) => Form::Native(Cow::Owned(body.into_owned())),
            Form::Text(text) => Form::Text(Cow::Owned(text.into_owned())),
        }),
        None => open(until_nul(map)),
    }
}

fn open(text: &[u8]) -> Result<Form<'_>> {
    if let Some(text) = text.strip_prefix(RAW) {
        return Ok(Form::Text(Cow::Borrowed(text)));
    }
    match text.strip_prefix(NATIVE) {
        Some(body) => match body.strip_suffix(b"]") {
            Some(body) => Ok(Form::Native(Cow::Borrowed(body))),
            None => Err(Status::ERR_BAD_PARAM),
        },
        None => Ok(Form::Text(Cow::Borrowed(text))),
    }
}

fn until_nul(text: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(text).map_or(text, CStr::to_bytes)
}

/// A decimal number of at most 18 digits, and nothing else.
fn number(mut digits: &[u8]) -> Result<u64> {
    let number = take_number(&mut digits)?;
    if digits.is_empty() { Ok(number) } else { Err(Status::ERR_BAD_PARAM) }
}

/// Takes a decimal number of at most 18 digits from the front of `rest`.
#[inline]
fn take_number(rest: &mut &[u8]) -> Result<u64> {
    match rest.first_chunk().map(|bytes| up_to_7_digits(u64::from_le_bytes(*bytes))) {
        Some((number, len @ 1..)) => {
            *rest = &rest[len..];
            Ok(number)
        }
        _ => take_any_number(rest),
    }
}

/// The number that eight bytes of text begin with, and its number of digits; `(0, 0)` if all eight are digits, or none at the
/// start.
#[inline]
fn up_to_7_digits(text: u64) -> (u64, usize) {
    // After this, a digit is 0 to 9: its upper half is zero, even after adding 6.
    let digits = text ^ 0x3030_3030_3030_3030;
    let others = (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xf0f0_f0f0_f0f0_f0f0;
    let len = others.trailing_zeros() as usize / 8;
    if len == 0 || len == 8 {
        return (0, 0);
    }
    // The last digit moves into the highest byte. Then digits are added in pairs, pairs in fours, fours in eights.
    let digits = digits << (64 - 8 * len);
    let twos = digits.wrapping_mul((10 << 8) + 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = twos.wrapping_mul((100 << 16) + 1) >> 16 & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul((10_000 << 32) + 1) >> 32, len)
}

#[cold]
fn take_any_number(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    let mut len = 0;
    while let Some(digit @ b'0'..=b'9') = rest.get(len).copied() {
        number = number * 10 + u64::from(digit - b'0');
        len += 1;
        if len > 18 {
            return Err(Status::ERR_BAD_PARAM);
        }
    }
    *rest = &rest[len..];
    if len == 0 { Err(Status::ERR_BAD_PARAM) } else { Ok(number) }
}

/// Takes a range `a-b`, or `a` for one number, from the front of `rest`, as first and last.
fn take_range(rest: &mut &[u8]) -> Result<(u64, u64)> {
    let first = take_number(rest)?;
    let last = match rest.split_first() {
        Some((b'-', after)) => {
            *rest = after;
            take_number(rest)?
        }
        _ => first,
    };
    if first <= last { Ok((first, last)) } else { Err(Status::ERR_BAD_PARAM) }
}

#[cfg(test)]
mod tests;
