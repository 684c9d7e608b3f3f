//! Reads the files in `tests/vectors`; the README there describes their format.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One recorded exchange.
pub struct Exchange {
    /// File and name, for messages.
    pub name: String,
    /// Release of the server, such as `4.2.9` or `master`.
    pub server: String,
    /// Release of the client; `None` for data that a server passed to its host.
    pub client: Option<String>,
    pub settings: HashMap<String, String>,
    pub units: Vec<(Sender, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
}

impl Exchange {
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// All bytes that one side sent, without its first `skip` units.
    pub fn stream(&self, sender: Sender, skip: usize) -> Vec<u8> {
        self.units.iter().filter(|(from, _)| *from == sender).skip(skip).flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// Every recorded exchange in a directory.
pub fn all(directory: impl AsRef<Path>) -> Vec<Exchange> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files.iter().flat_map(|file| read(file)).collect()
}

fn read(file: &Path) -> Vec<Exchange> {
    let pair = file.file_stem().unwrap().to_str().unwrap();
    let (server, client) = match pair.split_once("-c") {
        Some((server, client)) => (server, Some(client.to_string())),
        None => (pair, None),
    };
    let server = server.strip_prefix('s').unwrap();
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in std::fs::read_to_string(file).unwrap().lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("= ") {
            let mut words = title.split(' ');
            let name = format!("{pair}.{}", words.next().unwrap());
            let settings = words.map(|word| word.split_once('=').unwrap()).map(|(n, v)| (n.into(), v.into())).collect();
            let (server, client) = (server.to_string(), client.clone());
            exchanges.push(Exchange { name, server, client, settings, units: Vec::new() });
            continue;
        }
        let units = &mut exchanges.last_mut().unwrap().units;
        match line.as_bytes()[0] {
            b'C' => units.push((Sender::Client, Vec::new())),
            b'S' => units.push((Sender::Server, Vec::new())),
            _ => {}
        }
        let bytes = &mut units.last_mut().unwrap().1;
        line[1..].split_whitespace().for_each(|word| push_word(bytes, word));
    }
    exchanges
}

fn push_word(bytes: &mut Vec<u8>, word: &str) {
    let hex = |text: &str| u8::from_str_radix(text, 16).unwrap();
    match word.split_once('x') {
        Some((byte, count)) => bytes.extend(vec![hex(byte); count.parse::<usize>().unwrap()]),
        None => bytes.extend((0..word.len()).step_by(2).map(|at| hex(&word[at..at + 2]))),
    }
}
