//! What real programs put (`tests/modex`), in the form of released libraries and in columns.

use std::fs;

use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::model::{Kval, Rank};
use pmix_wire::blob::{self, Contribution, Origin};

const V61: Dialect = Dialect::plain(Module::V61);

type Ranks = Vec<(Rank, Vec<Kval>)>;

/// The contributions of each host of each recorded job, by the job's name.
fn published() -> Vec<(String, Vec<Ranks>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/modex/published");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap().lines().map(ranks).collect()))
        .collect()
}

fn ranks(line: &str) -> Ranks {
    let digits = (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16));
    let bytes: Vec<u8> = digits.collect::<Result<_, _>>().unwrap();
    let mut contributions = blob::decode_fence(V61, &bytes).unwrap();
    assert_eq!(contributions.len(), 1);
    let of = |(origin, kvals)| match origin {
        Origin::Relative(rank) => (rank, kvals),
        Origin::Proc(proc) => (proc.rank, kvals),
    };
    contributions.remove(0).ranks.into_iter().map(of).collect()
}

fn columns(ranks: &Ranks) -> Vec<u8> {
    let borrowed: Vec<_> = ranks
        .iter()
        .map(|(rank, kvals)| (*rank, kvals.iter().map(|kval| (&kval.key, &kval.value)).collect()))
        .collect();
    Contribution::encode_columns(V61, &borrowed, 0).unwrap().expect("it is shorter").into_bytes().unwrap()
}

fn sorted(mut ranks: Vec<(Origin, Vec<Kval>)>) -> Vec<(Origin, Vec<Kval>)> {
    ranks.iter_mut().for_each(|(_, kvals)| kvals.sort_by(|one, other| one.key.as_bytes().cmp(other.key.as_bytes())));
    ranks.sort_by_key(|(origin, _)| match origin {
        Origin::Relative(rank) => rank.0,
        Origin::Proc(proc) => proc.rank.0,
    });
    ranks
}

#[test]
fn columns_of_what_programs_put_bring_the_same_in_a_third_of_the_bytes() {
    let jobs = published();
    assert_eq!(jobs.len(), 36);
    let (mut released_len, mut columns_len) = (0, 0);
    for (name, nodes) in jobs {
        for ranks in nodes {
            let columns = columns(&ranks);
            let released = Contribution::encode(V61, true, &ranks).unwrap();
            assert!(columns.len() < released.len(), "{name}");
            let of = |bytes: &[u8]| sorted(blob::decode_fence(V61, bytes).unwrap().remove(0).ranks);
            assert_eq!(of(&columns), of(&released), "{name}");
            released_len += released.len();
            columns_len += columns.len();
        }
    }
    assert!(3 * columns_len <= released_len, "{columns_len} of {released_len} bytes");
}
