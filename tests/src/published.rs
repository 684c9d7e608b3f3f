//! Published values of simulated ranks.

use std::fs;
use std::path::PathBuf;

use pmix_dstore::model::{Key, Kval, Rank, Value};
use pmix_wire::blob::Contribution;

use crate::build::once;
use crate::peers::PLAIN;

/// The number of ranks on a node.
const PER_NODE: u32 = 64;

/// A file with the contributions of a job's nodes to a collecting fence, in the servers' form. Each rank has one value
/// of 64 bytes that begins with the rank's number, as `benches/programs/calls.c` expects.
///
/// # Panics
/// If the file cannot be written.
pub fn published(ranks: u32) -> PathBuf {
    once(&format!("published-{ranks}"), |path| {
        let key = Key::new("btl.endpoint.cold").expect("a key");
        let mut bytes = Vec::new();
        for first in (0..ranks).step_by(PER_NODE as usize) {
            let of_node = (first..ranks.min(first + PER_NODE)).map(|rank| {
                let mut value = [b'c'; 64];
                value[..4].copy_from_slice(&rank.to_le_bytes());
                (Rank(rank), vec![Kval { key: key.clone(), value: Value::ByteObject(value.to_vec().into()) }])
            });
            let of_node: Vec<_> = of_node.collect();
            bytes.extend(Contribution::encode(PLAIN, true, &of_node).expect("a contribution"));
        }
        // Use a name of our own: another test binary may be writing the same file.
        let made = path.with_extension(std::process::id().to_string());
        fs::write(&made, bytes)
            .and_then(|()| fs::rename(&made, path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    })
}
