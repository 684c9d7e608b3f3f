//! Times of fences.

use std::time::Instant;

use super::args::Fence;
use super::job::{Figure, Job, Measured, open};
use super::library::c_key;
use super::sampling::Sampled;

/// Fences of each size that are not counted.
const WARM_UP: u32 = 5;

/// Measures fences of all sizes. A fence lasts from a rank's entry to its return, so it includes the wait for those that come later.
///
/// # Errors
/// What failed.
pub fn measure(args: &Fence) -> Result<Measured, String> {
    let mut job = Job::init(open()?)?;
    job.learn()?;
    let mut figures = Vec::new();
    for &size in &args.sizes {
        let mut samples = Vec::with_capacity(args.rounds as usize);
        for round in 0..WARM_UP + args.rounds {
            job.say(&format!("fence of {size} bytes, {round} of {}", WARM_UP + args.rounds));
            if size > 0 {
                job.put(&c_key(&format!("bench.fence.{size}.{round}")), &vec![round as u8; size])?;
                job.commit()?;
            }
            let begun = Instant::now();
            job.fence(size > 0)?;
            if round >= WARM_UP {
                samples.push(begun.elapsed().as_nanos() as f64);
            }
        }
        let class = if size == 0 { "fence" } else { "collecting-fence" };
        let size = (size > 0).then_some(size);
        figures.push(Figure { class, size, unit: "ns", sampled: Sampled::of(samples, None) });
    }
    Ok(Measured { job, figures })
}
