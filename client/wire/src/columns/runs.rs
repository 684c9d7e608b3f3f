//! Ascending numbers as runs: how many runs there are, and of each its distance from the end of the one before and its length less one.

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Result, Status};

use super::number;

/// A run of consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: u64,
    pub len: u64,
}

/// Appends a number above all others to the runs.
///
/// # Errors
/// `NOMEM`.
pub fn add(runs: &mut Vec<Run>, number: u64) -> Result<()> {
    match runs.last_mut() {
        Some(run) if run.first + run.len == number => run.len += 1,
        _ => fallible_alloc::push(runs, Run { first: number, len: 1 })?,
    }
    Ok(())
}

/// Writes runs.
///
/// # Errors
/// `NOMEM`.
pub fn put(out: &mut Vec<u8>, runs: &[Run]) -> Result<()> {
    number::put(out, runs.len() as u64)?;
    let mut end = 0;
    for run in runs {
        number::put(out, run.first - end)?;
        number::put(out, run.len - 1)?;
        end = run.first + run.len;
    }
    Ok(())
}

/// Reads `count` runs of numbers below `limit`, and how many numbers they have.
///
/// # Errors
/// `UNPACK_FAILURE` for a number that is too large; `NOMEM`.
pub fn take(bytes: &mut &[u8], count: u64, limit: u64) -> Result<(Vec<Run>, u64)> {
    let (mut runs, mut all, mut end) = (Vec::new(), 0, 0_u64);
    for _ in 0..count {
        let first = end.checked_add(number::take(bytes)?).ok_or(Status::ERR_UNPACK_FAILURE)?;
        let len = number::take(bytes)? + 1;
        end = first.checked_add(len).filter(|end| *end <= limit).ok_or(Status::ERR_UNPACK_FAILURE)?;
        all += len;
        fallible_alloc::push(&mut runs, Run { first, len })?;
    }
    Ok((runs, all))
}
