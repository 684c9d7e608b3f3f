//! Data for segments.

use pmix_dstore::segment::{ModexBuilder, build_job};

use crate::job::JobData;
use crate::model::Nspace;
use crate::modex::ModexData;
use crate::random;

/// Segments of the samples are at most this long.
pub const SEGMENT_LEN_MAX: usize = 16_000;

/// The namespace of the samples.
pub fn nspace() -> Nspace {
    Nspace::new("fuzz").expect("a short namespace")
}

/// Jobs of several shapes.
pub fn jobs() -> Vec<JobData> {
    let is_small = |job: &JobData| build_job(job, "fuzz").expect("a segment").len() < SEGMENT_LEN_MAX;
    let job = |seed| {
        let mut job: JobData = random::job(seed);
        job.nspace = nspace();
        job
    };
    (0..).map(job).filter(is_small).take(6).collect()
}

/// Published values of several shapes.
pub fn modexes() -> Vec<ModexData> {
    let is_small = |data: &ModexData| (1000..SEGMENT_LEN_MAX).contains(&build_modex(&nspace(), data).len());
    (0..).map(random::modex).filter(is_small).take(6).collect()
}

/// The modex segment of all that is in `data`.
pub fn build_modex(nspace: &Nspace, data: &ModexData) -> Vec<u8> {
    let mut builder = ModexBuilder::new(nspace.clone());
    for rank in data.ranks() {
        builder.add_rank(rank, data.rank(rank)).expect("storable values");
    }
    builder.finish("fuzz").expect("a segment").into_bytes().expect("memory")
}
