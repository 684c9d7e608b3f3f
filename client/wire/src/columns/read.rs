//! Reading the column form. The bytes are another server's and not trusted.

use pmix_dstore::codec::Unpacker;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Key, Kval, Rank, Result, Status, Value};

use super::runs::{self, Run};
use super::{Allowance, DIFFERENT, EARLIER_NAME, EQUAL, KIND_BITS, MAGIC, PREFIXES, number};

/// The end of the numbers of ranks.
const RANKS_END: u64 = 1 << 32;

/// Ranks and their values.
type Ranks = Vec<(Rank, Vec<Kval>)>;

/// A part of a column's values.
struct Segment {
    kind: u64,
    len: usize,
}

/// The ranks of a contribution, ascending, and their values in the order of the columns. `None` if it does not have the column form.
/// Long values share the memory that `envelope` shares.
///
/// # Errors
/// `UNPACK_FAILURE` and the errors of unpacking a value for malformed bytes, and if they stand for more than
/// `docs/modex-format.md` allows; `NOMEM`.
pub fn read(envelope: &Unpacker<'_>) -> Result<Option<Ranks>> {
    let Some(mut rest) = envelope.rest().strip_prefix(&MAGIC) else { return Ok(None) };
    let mut allowance = Allowance::of(envelope.rest().len());
    let count = number::take(&mut rest)?;
    let (rank_runs, all) = runs::take(&mut rest, count, RANKS_END)?;
    weigh(&mut allowance, all, 0)?;
    let mut ranks = fallible_alloc::vec(all as usize)?;
    ranks.extend(each(&rank_runs).map(|rank| (Rank(rank as u32), Vec::new())));
    let mut names: Vec<Key> = Vec::new();
    for _ in 0..number::take(&mut rest)? {
        read_column(envelope, &mut rest, &mut names, &mut ranks, &mut allowance)?;
    }
    if rest.is_empty() { Ok(Some(ranks)) } else { Err(Status::ERR_UNPACK_FAILURE) }
}

fn weigh(allowance: &mut Allowance, count: u64, len: u64) -> Result<()> {
    if allowance.take(count, len) { Ok(()) } else { Err(Status::ERR_UNPACK_FAILURE) }
}

fn each(runs: &[Run]) -> impl Iterator<Item = u64> {
    runs.iter().flat_map(|run| run.first..run.first + run.len)
}

fn read_column(
    envelope: &Unpacker<'_>,
    rest: &mut &[u8],
    names: &mut Vec<Key>,
    ranks: &mut [(Rank, Vec<Kval>)],
    allowance: &mut Allowance,
) -> Result<()> {
    let key = read_name(rest, names)?;
    let len = number::take(rest)?;
    let whole = [Run { first: 0, len: ranks.len() as u64 }];
    let listed;
    let (members, count) = match number::take(rest)? {
        0 => (&whole[..], ranks.len() as u64),
        runs => {
            let (runs, count) = runs::take(rest, runs, ranks.len() as u64)?;
            listed = runs;
            (&listed[..], count)
        }
    };
    if count == 0 {
        return Err(Status::ERR_UNPACK_FAILURE);
    }
    let segments = read_segments(rest, len)?;
    let is_whole = segments.iter().all(|segment| segment.kind == DIFFERENT);
    weigh(allowance, count, if is_whole { 0 } else { len })?;
    if is_whole {
        for member in each(members) {
            let value = read_value(envelope.nested(number::take_bytes(rest, len)?))?;
            add(ranks, member, &key, value)?;
        }
        return Ok(());
    }
    let mut packed = equal_bytes(rest, &segments)?;
    for member in each(members) {
        let mut at = 0;
        for segment in &segments {
            if segment.kind == DIFFERENT {
                let own = number::take_bytes(rest, segment.len as u64)?;
                packed[at..at + segment.len].copy_from_slice(own);
            }
            at += segment.len;
        }
        add(ranks, member, &key, read_value(envelope.nested(&packed))?)?;
    }
    Ok(())
}

fn add(ranks: &mut [(Rank, Vec<Kval>)], member: u64, key: &Key, value: Value) -> Result<()> {
    let (_, kvals) = ranks.get_mut(member as usize).ok_or(Status::ERR_UNPACK_FAILURE)?;
    fallible_alloc::push(kvals, Kval { key: key.clone(), value })
}

/// One packed value and nothing else.
fn read_value(mut packed: Unpacker<'_>) -> Result<Value> {
    let value = packed.value()?;
    if packed.is_empty() { Ok(value) } else { Err(Status::ERR_UNPACK_FAILURE) }
}

fn read_name(rest: &mut &[u8], names: &mut Vec<Key>) -> Result<Key> {
    let number = number::take(rest)?;
    if let Some(earlier) = number.checked_sub(EARLIER_NAME) {
        return names.get(earlier as usize).cloned().ok_or(Status::ERR_UNPACK_FAILURE);
    }
    let prefix = PREFIXES.get(number as usize).ok_or(Status::ERR_UNPACK_FAILURE)?;
    let len = number::take(rest)?;
    let mut name = fallible_alloc::copy(prefix.as_bytes())?;
    fallible_alloc::extend(&mut name, number::take_bytes(rest, len)?)?;
    let key = Key::new(name).map_err(|_| Status::ERR_UNPACK_FAILURE)?;
    fallible_alloc::push(names, key.clone())?;
    Ok(key)
}

/// The segments of values of `len` bytes.
fn read_segments(rest: &mut &[u8], len: u64) -> Result<Vec<Segment>> {
    let (mut segments, mut left) = (Vec::new(), len);
    while left > 0 {
        let number = number::take(rest)?;
        let (kind, len) = (number & ((1 << KIND_BITS) - 1), (number >> KIND_BITS) + 1);
        left = left.checked_sub(len).filter(|_| kind <= DIFFERENT).ok_or(Status::ERR_UNPACK_FAILURE)?;
        fallible_alloc::push(&mut segments, Segment { kind, len: len as usize })?;
    }
    Ok(segments)
}

/// A value of the column with zeros for the bytes that differ.
fn equal_bytes(rest: &mut &[u8], segments: &[Segment]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    for segment in segments {
        match segment.kind {
            EQUAL => fallible_alloc::extend(&mut packed, number::take_bytes(rest, segment.len as u64)?)?,
            _ => {
                fallible_alloc::reserve(&mut packed, segment.len)?;
                packed.resize(packed.len() + segment.len, 0);
            }
        }
    }
    Ok(packed)
}
