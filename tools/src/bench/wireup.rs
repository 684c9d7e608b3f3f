//! What a rank does until it knows all others: how long it takes, and how much memory.

use std::fs;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::args::Published;
use super::job::{Figure, Job, Measured, open};
use super::library::c_key;

/// Times of the steps, in ns.
///
/// # Errors
/// What failed.
pub fn times(args: &Published) -> Result<Measured, String> {
    let library = open()?;
    let (begun, processor) = (Instant::now(), processor_time()?);
    let mut job = Job::init(library)?;
    let mut figures = vec![single("init", begun)];
    // What is asked only for this program belongs to no step.
    let before = processor_time()?;
    job.learn()?;
    let (foreign, mut last) = (processor_time()? - before, Instant::now());
    exchange(&mut job, args, |step| {
        figures.push(single(step, last));
        last = Instant::now();
        Ok(())
    })?;
    let total = figures.iter().filter_map(|figure| figure.sampled.most()).sum();
    figures.push(Figure::single("total", "ns", total));
    figures.push(Figure::single("processor-time", "ns", processor_time()? - processor - foreign));
    Ok(Measured { job, figures })
}

fn single(step: &'static str, since: Instant) -> Figure {
    Figure::single(step, "ns", since.elapsed().as_nanos() as f64)
}

/// The processor time of this process, all threads, in ns.
fn processor_time() -> Result<f64, String> {
    let used = getrusage(UsageWho::RUSAGE_SELF).map_err(|error| format!("getrusage: {error}"))?;
    Ok((used.user_time() + used.system_time()).num_microseconds() as f64 * 1e3)
}

/// Memory after each step beyond that before the library was opened, in KiB.
///
/// # Errors
/// What failed.
pub fn memory(args: &Published) -> Result<Measured, String> {
    let (before, mapped) = (own_memory()?, Mappings::now()?);
    let library = open()?;
    let mut figures = Vec::new();
    let mut add = |step| -> Result<(), String> {
        figures.push(Figure::single(step, "KiB", own_memory()? - before));
        Ok(())
    };
    add("open")?;
    let mut job = Job::init(library)?;
    add("init")?;
    job.learn()?;
    exchange(&mut job, args, add)?;
    // All ranks have mapped by then what they share.
    job.fence(false)?;
    let own = figures.last().and_then(|figure| figure.sampled.most()).unwrap_or_default();
    figures.push(Figure::single("with-shared", "KiB", own + Mappings::now()?.shared_beyond(&mapped)));
    Ok(Measured { job, figures })
}

/// What this process has allocated, and the pages of its files that it has changed, in KiB. Code is no part of it.
fn own_memory() -> Result<f64, String> {
    const FILE: &str = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    memory_in(text.lines(), "Anonymous:").ok_or_else(|| format!("{FILE} has no figure of anonymous memory"))
}

fn memory_in<'a>(mut smaps: impl Iterator<Item = &'a str>, name: &str) -> Option<f64> {
    let line = smaps.find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The mappings of this process: where each begins, and its part of what is not its own, in KiB: pages of files that several processes have
/// mapped are divided among them.
struct Mappings(Vec<(String, f64)>);

impl Mappings {
    fn now() -> Result<Mappings, String> {
        const FILE: &str = "/proc/self/smaps";
        fs::read_to_string(FILE).map(|text| Mappings::of(&text)).map_err(|error| format!("{FILE}: {error}"))
    }

    fn of(smaps: &str) -> Mappings {
        let lines: Vec<&str> = smaps.lines().collect();
        // A mapping's own line begins with its addresses, those about it with a word in capitals.
        let mappings = lines.chunk_by(|_, next| next.starts_with(|first: char| first.is_ascii_uppercase()));
        let mappings = mappings.filter_map(|about| {
            let (begin, _) = about[0].split_once('-')?;
            let figure = |name| memory_in(about.iter().copied(), name).unwrap_or_default();
            Some((begin.to_owned(), (figure("Pss:") - figure("Anonymous:")).max(0.0)))
        });
        Mappings(mappings.collect())
    }

    /// That part of mappings that were not there before.
    fn shared_beyond(&self, before: &Mappings) -> f64 {
        let is_new = |begin: &str| !before.0.iter().any(|(known, _)| known == begin);
        self.0.iter().filter(|(begin, _)| is_new(begin)).map(|(_, shared)| shared).sum()
    }
}

/// Publishes the keys, enters a collecting fence, reads the keys of all other ranks. `after` hears of each step.
fn exchange(
    job: &mut Job,
    args: &Published,
    mut after: impl FnMut(&'static str) -> Result<(), String>,
) -> Result<(), String> {
    let keys: Vec<_> = (0..args.keys).map(|number| c_key(&format!("bench.{number}"))).collect();
    let value = vec![1; args.size];
    keys.iter().try_for_each(|key| job.put(key, &value))?;
    job.commit()?;
    after("publish")?;
    job.fence(true)?;
    after("first-fence")?;
    for distance in 1..job.size {
        let rank = (job.me.rank() + distance) % job.size;
        job.say(&format!("keys of {} of {} ranks read", distance - 1, job.size));
        for key in &keys {
            let value = job.library.get(&job.me.with_rank(rank), key, None);
            value.map_err(|status| job.failed(&format!("PMIx_Get of a key of rank {rank}"), status))?;
        }
    }
    after("read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_that_of_new_mappings() {
        let old = "00400000-00500000 r-xp 00000000 08:01 42 /bin/x\nPss:     100 kB\nAnonymous:     40 kB\n";
        let new = "7f00-7f10 r-xp 0 08:01 42 /lib/a\nPss:   30 kB\nAnonymous:  8 kB\n7f10-7f20 rw-p 0 00:00 0 \nPss: 9 kB\nAnonymous: 9 kB\n";
        let all = Mappings::of(&format!("{old}{new}"));
        assert_eq!((all.0.len(), all.shared_beyond(&Mappings::of(old))), (3, 22.0));
        assert_eq!(all.shared_beyond(&Mappings(Vec::new())), 82.0);
        assert_eq!(memory_in(new.lines(), "Swap:"), None);
    }
}
