//! Data for segments.

use std::collections::BTreeMap;

use pmix_dstore::realm_resolution::JobLookup;
use pmix_dstore::segment::{HeapRegion, JobReader, ModexBuilder, build_job};

use crate::job::JobData;
use crate::model::{Info, Nspace, Value, keys};
use crate::modex::ModexData;
use crate::{random, sections};

/// Segments of the samples are at most this long.
pub const SEGMENT_LEN_MAX: usize = 16_000;

/// The namespace of the samples.
pub fn nspace() -> Nspace {
    Nspace::new("fuzz").expect("a short namespace")
}

/// Jobs of several shapes, some of them in blocks.
pub fn jobs() -> Vec<JobData> {
    let bytes = |job: &JobData| build_job(job, "fuzz").expect("a segment");
    let is_small = |job: &JobData| bytes(job).len() < SEGMENT_LEN_MAX;
    let is_in_blocks = |job: &JobData| {
        JobReader::open(Box::new(HeapRegion::new(&bytes(job)))).expect("as built").node_ranks(1).is_some()
    };
    let job = |seed| {
        let mut job: JobData = random::job(seed);
        job.nspace = nspace();
        job
    };
    let any = (0..).map(job).filter(is_small).take(6);
    let in_blocks = (10..).map(job).filter(|job| is_small(job) && is_in_blocks(job)).take(2);
    any.chain(in_blocks).chain([large_job(66_000), large_job(1000)]).collect()
}

/// A job with consecutive ranks on nodes of which one has two. From 65,536 ranks on readers make texts of ranks; its segment is small.
fn large_job(ranks: u32) -> JobData {
    let per_node = ranks.min(1024) as usize / 2;
    let ranks: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let (odd, others) = ranks.split_at(2);
    let lists: Vec<String> = [odd].into_iter().chain(others.chunks(per_node)).map(|ranks| ranks.join(",")).collect();
    let nodes: Vec<String> = (0..lists.len()).map(|node| format!("node{node:03}")).collect();
    let maps = [(keys::NODE_MAP, nodes.join(",")), (keys::PROC_MAP, format!("raw:{}", lists.join(";")))];
    let mut job = JobData::new(nspace());
    job.register(&maps.map(|(key, map)| Info::new(key, Value::string(map))), b"node000").expect("maps");
    job
}

/// Published values of several shapes, in each of the ways in which records are placed.
pub fn modexes() -> Vec<ModexData> {
    let is_small = |data: &ModexData| (1000..SEGMENT_LEN_MAX).contains(&build_modex(&nspace(), data).len());
    (0..).map(random::modex).filter(is_small).take(9).collect()
}

/// The same, with more ranks or more shapes than a reader copies, and with a few ranks that have more to say than others.
pub fn large_modexes() -> Vec<ModexData> {
    [true, false].map(random::large_modex).into_iter().chain([random::uneven_modex()]).collect()
}

/// All segments of the samples: those of jobs, then the others.
pub fn segments() -> Vec<Vec<u8>> {
    let jobs = jobs().into_iter().map(|job| build_job(&job, "fuzz").expect("a segment"));
    jobs.chain(modexes().iter().chain(&large_modexes()).map(|data| build_modex(&nspace(), data))).collect()
}

/// The words of tables of contents that lies are told in, each with the segment that has it: one for each place in each form of
/// a section.
pub fn contents_words<'a>(segments: impl Iterator<Item = &'a [u8]>) -> Vec<(usize, usize)> {
    let mut words = BTreeMap::new();
    for (number, bytes) in segments.enumerate() {
        for (likeness, positions) in sections(bytes) {
            let all = positions.into_iter().enumerate();
            all.for_each(|(index, pos)| _ = words.entry((likeness, index)).or_insert((number, pos)));
        }
    }
    words.into_values().collect()
}

/// The modex segment of all that is in `data`.
pub fn build_modex(nspace: &Nspace, data: &ModexData) -> Vec<u8> {
    let mut builder = ModexBuilder::new(nspace.clone());
    for rank in data.ranks() {
        builder.add_rank(rank, data.rank(rank)).expect("storable values");
    }
    builder.finish("fuzz").expect("a segment").into_bytes().expect("memory")
}
