//! How calls are timed.
//!
//! The clock is `clock_gettime(CLOCK_MONOTONIC)`. Reading it costs about as much as a fast call. So calls are timed in batches, which are
//! as large as needed to keep the clock's part below 2 %, and a sample is the time of one call within a batch. Slow calls have batches of
//! one.

use std::time::{Duration, Instant};

/// A batch takes at least so many readings of the clock.
const CLOCKS_IN_A_BATCH: f64 = 50.0;
const BATCH_MAX: u32 = 1024;
/// Calls before the first sample: they fill the caches and tell how long a call takes.
const WARM_UP: u32 = 64;
const WARM_UP_TIME: Duration = Duration::from_millis(100);

/// When a kind of call has been measured for long enough.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// So many samples are wanted.
    pub samples: usize,
    /// After this time there are no more samples.
    pub time: Duration,
}

/// What the samples of one kind of call say.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The times of the samples in ns, in order of size.
    sorted: Vec<f64>,
    /// Calls in a sample.
    pub batch: u32,
    /// The time of the very first call in ns, which finds cold caches.
    pub first: Option<f64>,
}

impl Sampled {
    /// Samples that were taken elsewhere.
    pub fn of(mut samples: Vec<f64>, first: Option<f64>) -> Sampled {
        samples.sort_by(f64::total_cmp);
        Sampled { sorted: samples, batch: 1, first }
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The largest sample.
    pub fn most(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// The least sample that so many of a thousand do not exceed. Nothing where a single sample would decide.
    pub fn at_most_for(&self, per_mille: usize) -> Option<f64> {
        let above = 1000 - per_mille;
        if per_mille > 500 && self.count() * above < 1000 {
            return None;
        }
        let place = (self.count() * per_mille).div_ceil(1000).checked_sub(1)?;
        self.sorted.get(place).copied()
    }
}

/// What a reading of the clock costs in ns: the median of many.
pub fn cost_of_clock() -> f64 {
    let batches = (0..101).map(|_| {
        let begun = Instant::now();
        for _ in 0..100 {
            std::hint::black_box(Instant::now());
        }
        nanoseconds(begun) / 100.0
    });
    Sampled::of(batches.collect(), None).at_most_for(500).unwrap_or(0.0)
}

fn nanoseconds(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

/// Times a call that is given the number of its turn.
///
/// # Errors
/// That of the call.
pub fn sample<E>(limits: Limits, clock: f64, mut call: impl FnMut(usize) -> Result<(), E>) -> Result<Sampled, E> {
    let mut turn = 0;
    let mut timed = |calls: u32| {
        let begun = Instant::now();
        for _ in 0..calls {
            call(turn)?;
            turn += 1;
        }
        Ok(nanoseconds(begun))
    };
    let first = timed(1)?;
    let (begun, mut made, mut spent) = (Instant::now(), 0, 0.0);
    while made < WARM_UP && (made == 0 || begun.elapsed() < WARM_UP_TIME.min(limits.time)) {
        spent += timed(1)?;
        made += 1;
    }
    let batch = batch_for((spent / f64::from(made) - clock).max(1.0), clock);
    timed(batch)?;
    let begun = Instant::now();
    let mut samples = Vec::with_capacity(limits.samples);
    while samples.len() < limits.samples && (samples.is_empty() || begun.elapsed() < limits.time) {
        samples.push(timed(batch)? / f64::from(batch));
    }
    Ok(Sampled { batch, ..Sampled::of(samples, Some(first)) })
}

/// The calls of a batch, a power of two, for calls that take so many ns.
fn batch_for(call: f64, clock: f64) -> u32 {
    let wanted = (clock * CLOCKS_IN_A_BATCH / call).ceil().clamp(1.0, f64::from(BATCH_MAX));
    (wanted as u32).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let hundred = Sampled::of((1..=100).rev().map(f64::from).collect(), None);
        assert_eq!([500, 990, 999].map(|part| hundred.at_most_for(part)), [Some(50.0), Some(99.0), None]);
        let thousand = Sampled::of((1..=1000).map(f64::from).collect(), None);
        assert_eq!(thousand.at_most_for(999), Some(999.0));
        let one = Sampled::of(vec![7.0], None);
        assert_eq!([500, 990].map(|part| one.at_most_for(part)), [Some(7.0), None]);
        assert_eq!(Sampled::of(Vec::new(), None).at_most_for(500), None);
    }

    #[test]
    fn the_clock_is_a_small_part_of_a_batch() {
        assert_eq!(batch_for(30.0, 25.0), 64);
        assert_eq!(batch_for(14_000.0, 25.0), 1);
        assert_eq!(batch_for(1.0, 1_000.0), 1024);
    }

    #[test]
    fn a_call_that_fails_ends_the_sampling() {
        let limits = Limits { samples: 10, time: Duration::from_secs(60) };
        let sampled = sample(limits, 25.0, |turn| if turn < 70 { Ok(()) } else { Err(turn) });
        assert_eq!(sampled, Err(70));
        let mut calls = 0;
        let sampled = sample(limits, 0.0, |_| {
            calls += 1;
            Ok::<(), ()>(())
        });
        assert_eq!(sampled.map(|sampled| (sampled.count(), sampled.batch)), Ok((10, 1)));
        assert_eq!(calls, 1 + 64 + 1 + 10);
    }
}
