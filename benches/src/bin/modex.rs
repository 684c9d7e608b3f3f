//! What the contributions of servers to a collecting fence take, on what real programs put (`tests/modex`): in the form of released
//! libraries and in columns.
//!
//! `cargo run --release -p pmix-benches --bin modex [ROUNDS]` prints two tables. Bytes are the same in each run. Times are those of one
//! server in one fence: it writes its own contribution and reads those of all nodes; the forms take turns.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use pmix_benches::figures::{median, spread};
use pmix_dstore::codec::{Dialect, Module, Packer, Untyped};
use pmix_dstore::compression::compress;
use pmix_dstore::model::{Bytes, Key, Kval, Rank, Value};
use pmix_wire::blob::{Contribution, Origin, decode_fence, decode_shared_fence};

/// As servers write contributions.
const EXCHANGE: Dialect = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);
/// Fences of one measurement.
const FENCES: u32 = 200;
/// Whoever has columns written here takes them, however long.
const ANY_LEN: usize = usize::MAX / 2;

/// The values of a node's ranks.
type Node = Vec<(Rank, Vec<Kval>)>;
/// The same, as contributions borrow them.
type Borrowed<'a> = Vec<(Rank, Vec<(&'a Key, &'a Value)>)>;

/// One recorded job.
struct Job {
    name: String,
    nodes: Vec<Node>,
}

fn jobs() -> Result<Vec<Job>, Box<dyn Error>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/modex/published");
    let mut jobs = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = fs::read_to_string(&path)?;
        let nodes = text.lines().map(node).collect::<Result<_, _>>().map_err(|error| format!("{name}: {error}"))?;
        jobs.push(Job { name, nodes });
    }
    jobs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(jobs)
}

/// The values of a recorded contribution, which is a line of hexadecimal digits.
fn node(line: &str) -> Result<Node, Box<dyn Error>> {
    let digits = |at: usize| u8::from_str_radix(line.get(at..at + 2).unwrap_or("?"), 16);
    let bytes: Vec<u8> = (0..line.len()).step_by(2).map(digits).collect::<Result<_, _>>()?;
    let contributions = decode_fence(EXCHANGE, &bytes).map_err(|status| status.to_string())?;
    let ranks = contributions.into_iter().flat_map(|contribution| contribution.ranks);
    Ok(ranks
        .map(|(origin, kvals)| match origin {
            Origin::Relative(rank) => (rank, kvals),
            Origin::Proc(proc) => (proc.rank, kvals),
        })
        .collect())
}

fn borrowed(node: &Node) -> Borrowed<'_> {
    node.iter().map(|(rank, kvals)| (*rank, kvals.iter().map(|kval| (&kval.key, &kval.value)).collect())).collect()
}

fn released(node: &Borrowed<'_>) -> Vec<u8> {
    let pieces = Contribution::encode_borrowed(EXCHANGE, true, node).expect("values of known types");
    pieces.into_bytes().expect("memory")
}

fn columns(node: &Borrowed<'_>) -> Vec<u8> {
    let pieces = Contribution::encode_columns(EXCHANGE, node, ANY_LEN).expect("values of known types");
    pieces.expect("what programs put suits").into_bytes().expect("memory")
}

/// Bytes of a job's contributions.
#[derive(Default)]
struct Sizes {
    ranks: usize,
    /// In the form of released libraries, and of these the packed values and the names of keys.
    released: usize,
    values: usize,
    names: usize,
    /// As zlib makes that at its best level.
    released_zlib: usize,
    columns: usize,
    columns_zlib: usize,
}

impl Sizes {
    fn of(job: &Job) -> Sizes {
        let mut sizes = Sizes::default();
        let zlib = |bytes: &[u8]| compress(bytes).map_or(0, |compressed| compressed.len().min(bytes.len()));
        for node in &job.nodes {
            let borrowed = borrowed(node);
            let (released, columns) = (released(&borrowed), columns(&borrowed));
            let mut names = BTreeMap::new();
            for (key, value) in borrowed.iter().flat_map(|(_, values)| values) {
                *names.entry(key.as_bytes()).or_insert(0) += 1;
                let mut packed = Packer::new(EXCHANGE);
                packed.bare(value).expect("values of known types");
                sizes.values += packed.len();
            }
            // A name that is there once is not in a list.
            let has_list = names.values().any(|uses| *uses > 1);
            sizes.names +=
                names.iter().map(|(name, uses)| name.len() * if has_list { 1 } else { *uses }).sum::<usize>();
            sizes.ranks += node.len();
            sizes.released += released.len();
            sizes.released_zlib += zlib(&released);
            sizes.columns += columns.len();
            sizes.columns_zlib += zlib(&columns);
        }
        sizes
    }

    fn add(&mut self, other: &Sizes) {
        self.ranks += other.ranks;
        self.released += other.released;
        self.values += other.values;
        self.names += other.names;
        self.released_zlib += other.released_zlib;
        self.columns += other.columns;
        self.columns_zlib += other.columns_zlib;
    }

    fn row(&self, name: &str) {
        let each = |bytes: usize| bytes as f64 / self.ranks as f64;
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
            each(self.released),
            each(self.values),
            each(self.names),
            each(self.released - self.values - self.names),
            each(self.released_zlib),
            each(self.columns),
            each(self.columns_zlib),
            self.columns as f64 / self.released as f64,
        );
    }
}

/// Microseconds of a server in a fence of a job, which writes the contribution of the first node and reads all.
fn time(job: &Job, write: fn(&Borrowed<'_>) -> Vec<u8>) -> f64 {
    let first = job.nodes.first().map(borrowed).unwrap_or_default();
    let all: Vec<u8> = job.nodes.iter().flat_map(|node| write(&borrowed(node))).collect();
    let all = Bytes::from(all);
    let start = Instant::now();
    for _ in 0..FENCES {
        black_box(write(black_box(&first)));
        black_box(decode_shared_fence(EXCHANGE, black_box(&all)).expect("it is as it was written"));
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(FENCES)
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(9), |text| text.parse())?;
    let jobs = jobs()?;
    println!(
        "| Open MPI, component, ranks x hosts | released form | values | names | framing | zlib | columns | zlib | columns / released |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let (mut all, mut shared) = (Sizes::default(), Sizes::default());
    for job in &jobs {
        let sizes = Sizes::of(job);
        sizes.row(&job.name);
        if sizes.ranks > job.nodes.len() {
            shared.add(&sizes);
        }
        all.add(&sizes);
    }
    shared.row("all with more than a rank on a host");
    all.row("all");
    println!("\n| job | released form, us a fence | columns | columns / released, median (range) of {rounds} |");
    println!("|---|---|---|---|");
    for job in &jobs {
        let mut turns = Vec::new();
        for _ in 0..rounds {
            turns.push((time(job, released), time(job, columns)));
        }
        let released = median(turns.iter().map(|turn| turn.0));
        let columns = median(turns.iter().map(|turn| turn.1));
        let [ratio, least, most] = spread(turns.iter().map(|turn| turn.1 / turn.0));
        println!("| {} | {released:.1} | {columns:.1} | {ratio:.2} ({least:.2} to {most:.2}) |", job.name);
    }
    Ok(())
}
