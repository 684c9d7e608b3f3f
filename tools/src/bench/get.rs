//! Times of `PMIx_Get` by the kind of key.

use std::ffi::CString;

use pmix_dstore::model::{Status, keys};

use super::args::Get;
use super::job::{Figure, Job, Measured, open};
use super::library::{Directive, Process, c_key};
use super::sampling::{Limits, cost_of_clock, sample};

/// Keys of each size that a rank puts.
const KEYS: usize = 4;
/// At most so many ranks are read in turn.
const PEERS_MAX: usize = 64;

/// A kind of call: the keys that are read in turn. It has none where there is no such rank.
struct Class {
    name: &'static str,
    size: Option<usize>,
    reads: Vec<(Process, CString)>,
    /// Nobody has put the key.
    is_missing: bool,
}

/// Measures all classes.
///
/// # Errors
/// What failed.
pub fn measure(args: &Get) -> Result<Measured, String> {
    let mut job = Job::init(open()?)?;
    job.learn()?;
    for &size in &args.sizes {
        let value = vec![job.me.rank() as u8; size];
        (0..KEYS).try_for_each(|number| job.put(&key(size, number), &value))?;
    }
    job.commit()?;
    job.fence(true)?;
    let (classes, mut figures) = (classes_of(&job, &args.sizes), Vec::new());
    let clock = cost_of_clock();
    let limits = Limits { samples: args.samples as usize, time: args.time };
    for (number, class) in classes.iter().enumerate() {
        let size = class.size.map_or(String::new(), |size| format!(", {size} bytes"));
        job.say(&format!("get, {} of {}: {}{size}", number + 1, classes.len(), class.name));
        // All ranks measure the same class at the same time.
        job.fence(false)?;
        if !class.reads.is_empty() && (job.me.rank() == 0 || !args.alone) {
            figures.push(measured(&job, class, limits, clock)?);
        }
    }
    Ok(Measured { job, figures })
}

fn key(size: usize, number: usize) -> CString {
    c_key(&format!("bench.{size}.{number}"))
}

/// The same list on each rank, since all ranks enter a fence before each class.
fn classes_of(job: &Job, sizes: &[usize]) -> Vec<Class> {
    let only = |name, key: &str, of, is_missing| Class { name, size: None, reads: vec![(of, c_key(key))], is_missing };
    let me = job.me.rank();
    // Each rank begins with the one behind it, so that they do not all read the same.
    let others = (0..job.size).map(|distance| (me + distance) % job.size).filter(|rank| *rank != me);
    let (near, far): (Vec<u32>, Vec<u32>) = others.partition(|rank| job.on_node.contains(rank));
    let mut classes = vec![only("job", keys::JOB_SIZE, job.me.job(), false)];
    for &size in sizes {
        for (name, ranks) in [("own", &[me][..]), ("node-peer", &near), ("other-node-peer", &far)] {
            let ranks = ranks.iter().take(PEERS_MAX);
            let reads = ranks.flat_map(|rank| (0..KEYS).map(|number| (job.me.with_rank(*rank), key(size, number))));
            classes.push(Class { name, size: Some(size), reads: reads.collect(), is_missing: false });
        }
    }
    classes.push(only("missing", "bench.missing", job.me, true));
    classes
}

fn measured(job: &Job, class: &Class, limits: Limits, clock: f64) -> Result<Figure, String> {
    let optional = Directive::on(keys::OPTIONAL);
    let reads = &class.reads;
    let sampled = sample(limits, clock, |turn| {
        let (of, key) = &reads[turn % reads.len()];
        match (job.library.get(of, key, class.is_missing.then_some(&optional)), class.is_missing) {
            (Ok(_), false) | (Err(Status::ERR_NOT_FOUND), true) => Ok(()),
            (Ok(_), true) => Err(Status::SUCCESS),
            (Err(status), _) => Err(status),
        }
    });
    let said = |status| job.failed(&format!("PMIx_Get of a key of the class {}", class.name), status);
    let sampled = sampled.map_err(said)?;
    for (of, key) in reads.iter().filter(|_| class.size.is_some()) {
        let value = job.library.get(of, key, None).map_err(said)?;
        if value.bytes().map(<[u8]>::len) != class.size
            || value.bytes().is_some_and(|bytes| bytes[0] != of.rank() as u8)
        {
            return Err(format!(
                "rank {}: PMIx_Get of rank {}: not the value that it has put",
                job.me.rank(),
                of.rank()
            ));
        }
    }
    Ok(Figure { class: class.name, size: class.size, unit: "ns", sampled })
}
