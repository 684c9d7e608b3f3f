//! What a rank has done, counted for its end: missed keys, time in init and fences, and Gets, of which `get_counts` has the details.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pmix_client::get_counts::{self, Source};
use pmix_client::process;
use pmix_dstore::log::{self, Writer};
use pmix_dstore::model::{Proc, Rank, Status};

use super::arguments::key as name_of_key;
use super::{STATS, SUMMARY};

/// Keys that are counted one by one.
const KEYS_MAX: usize = 1000;

/// The Gets of all threads.
static GETS: AtomicU64 = AtomicU64::new(0);
static OTHERS: LazyLock<Mutex<Others>> = LazyLock::new(Mutex::default);

/// What is counted for the whole process.
#[derive(Default)]
struct Others {
    me: Option<Proc>,
    init: Duration,
    fences: u64,
    in_fences: Duration,
    longest_fence: Duration,
    commits: u64,
    /// The keys that were not found, and how often.
    missed: BTreeMap<Vec<u8>, u64>,
    /// Misses of further keys.
    missed_others: u64,
}

impl Others {
    /// A key was not found.
    fn miss(&mut self, key: &[u8]) {
        if let Some(count) = self.missed.get_mut(key) {
            *count += 1;
        } else if self.missed.len() < KEYS_MAX {
            self.missed.insert(key.to_vec(), 1);
        } else {
            self.missed_others += 1;
        }
    }
}

/// A Get of a value of `proc` has ended.
pub fn get(proc: (Option<&[u8]>, Rank), source: Source, status: Status, key: Option<&[u8]>) {
    GETS.fetch_add(1, Ordering::Relaxed);
    get_counts::count(proc, key.unwrap_or_default(), source, status == Status::SUCCESS);
    if let (Status::ERR_NOT_FOUND, Some(key)) = (status, key) {
        OTHERS.lock().miss(key);
    }
}

/// A call other than a Get has ended.
pub fn call(mode: u8, name: &str, took: Duration) {
    let mut others = OTHERS.lock();
    match name {
        "PMIx_Init" => {
            others.init += took;
            others.me = process::hold().map(|client| client.me().clone());
        }
        "PMIx_Fence" => {
            others.fences += 1;
            others.in_fences += took;
            others.longest_fence = others.longest_fence.max(took);
        }
        "PMIx_Commit" => others.commits += 1,
        "PMIx_Finalize" if process::count() == 0 => {
            let ended = std::mem::take(&mut *others);
            drop(others);
            report(mode, &ended);
        }
        _ => {}
    }
}

/// Writes what was asked for, and begins anew.
fn report(mode: u8, others: &Others) {
    let gets = GETS.swap(0, Ordering::Relaxed);
    let Some(me) = &others.me else { return };
    let write = |line: String| log::write_always(Writer::Client(me), format_args!("{line}"));
    if mode & SUMMARY != 0 {
        write(summary(others, gets));
        if let Some(line) = missed(others) {
            write(line);
        }
    }
    if mode & STATS != 0 {
        let counts = get_counts::take();
        let sources = Source::ALL.iter().enumerate();
        let parts: Vec<String> = sources.map(|(at, source)| format!("{source} {}", counts.of_source(at))).collect();
        write(format!("Gets by source: {}", parts.join(", ")));
    }
}

fn summary(others: &Others, gets: u64) -> String {
    let Others { init, fences, in_fences, longest_fence, commits, .. } = others;
    let ms = |time: &Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let not_found = others.missed.values().sum::<u64>() + others.missed_others;
    format!(
        "summary: {} in init; {} in {fences} fences, {} in the longest; commits {commits}; Gets {gets}, not found {not_found}",
        ms(init),
        ms(in_fences),
        ms(longest_fence)
    )
}

/// The keys that were not found, the most frequent first.
fn missed(others: &Others) -> Option<String> {
    let mut keys: Vec<_> = others.missed.iter().collect();
    keys.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut parts: Vec<String> = keys.iter().map(|(key, count)| format!("{} {count}", name_of_key(key))).collect();
    if others.missed_others > 0 {
        parts.push(format!("other keys {}", others.missed_others));
    }
    (!parts.is_empty()).then(|| format!("summary: not found: {}", parts.join(", ")))
}
