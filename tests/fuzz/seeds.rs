//! Writes the recorded messages as corpora: `cargo run --bin seeds` in this folder, before fuzzing.

mod input;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use input::message::{Form, messages};
use pmix_client::wire::Command;

/// Longer messages only slow the fuzzer down.
const LEN_MAX: usize = 4096;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in ["message", "job_info", "value"] {
        fs::create_dir_all(corpus.join(target))?;
    }
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let mut seeds: HashMap<Vec<u8>, &str> = HashMap::new();
    for message in
        input::vectors::all(vectors).iter().flat_map(messages).filter(|message| message.bytes.len() <= LEN_MAX)
    {
        let module = pmix_dstore::codec::Module::ALL.iter().position(|module| *module == message.dialect.module);
        if message.form == Form::Reply(Command::JOB_INFO) && !message.dialect.is_described() {
            let input = [&[module.unwrap_or(0) as u8], message.bytes.as_slice()].concat();
            seeds.insert(input, "job_info");
        }
        seeds.insert(input::write(&message), "message");
    }
    // One packed array of infos for each family of encoders.
    seeds.insert(vec![39, 8, 24, 1, 4, b'k', 0, 0, 3, 4, b'v', 0], "value");
    seeds.insert(vec![24, 4, 0, 0, 0, 2, b'k', 0, 0, 0, 0, 0, 0, 1, 1], "value");
    for (number, (input, target)) in seeds.into_iter().enumerate() {
        fs::write(corpus.join(target).join(format!("recorded-{number}")), input)?;
    }
    Ok(())
}
