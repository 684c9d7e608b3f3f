//! Mutated recordings: each byte of recorded messages of stock clients is changed, and the message is sent to a live
//! server over an admitted connection.
//!
//! A sample of the mutants is sent, chosen by a seed; `PMIX_TEST_MUTANTS=all` sends all of them, `PMIX_TEST_MUTANTS=<seed>`
//! another sample.

#[allow(dead_code)]
#[path = "../../client/wire/tests/recorded/message.rs"]
mod message;
#[allow(dead_code)]
#[path = "../../client/wire/tests/recorded/vectors.rs"]
mod vectors;

use message::{Form, Message, messages};
use pmix_dstore::codec::Dialect;
use pmix_dstore::model::{Info, Key, Proc, Value, keys};
use pmix_tests::peers::{Peer, Target, Way, attacked, log, tagged};
use pmix_wire::{ClientReply, Header, Hello, PeerKind, Request, TAG_FIRST, TAG_NOTIFY, ToolReply, Version};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors");
/// Mutants of a sample.
const SAMPLE: u64 = 3000;
/// The tag of the request that checks whether the server still answers.
const ALIVE: u32 = 0x7fff_fff0;
const MIB: u64 = 1 << 20;

/// The mutants of a byte: each bit flipped, all bits zero, all bits one.
fn values(byte: u8) -> impl Iterator<Item = u8> {
    (0..8).map(move |bit| byte ^ 1 << bit).chain([0, 0xff]).filter(move |value| *value != byte)
}

/// A seeded pseudo-random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One recorded message of a client, and the client's hello.
struct Original {
    name: String,
    bytes: Vec<u8>,
    dialect: Dialect,
    version: String,
    is_hello: bool,
}

/// The recorded messages of clients. Those about a job are changed to name this one, so that the server processes them
/// as far as possible.
fn originals(target: &Target) -> Vec<Original> {
    let own = |message: &Message| {
        let mut request = Request::decode(message.dialect, message.client, &message.bytes).ok()?;
        match &mut request {
            Request::Get { nspace, .. } => *nspace = target.proc.nspace.clone(),
            Request::Fence { procs, .. } => {
                procs.iter_mut().for_each(|proc| *proc = Proc::new(target.proc.nspace.clone(), proc.rank));
            }
            _ => return None,
        }
        request.encode(message.dialect, message.client).ok()
    };
    let mut originals = Vec::new();
    for message in vectors::all(VECTORS).iter().flat_map(messages) {
        let bytes = match message.form {
            Form::Hello => message.bytes.clone(),
            Form::Request => tagged(TAG_FIRST, &own(&message).unwrap_or_else(|| message.bytes.clone())),
            _ => continue,
        };
        let Message { exchange, dialect, client, form, .. } = message;
        let version = client.to_string();
        originals.push(Original { name: exchange, bytes, dialect, version, is_hello: form == Form::Hello });
    }
    originals
}

/// Whether these bytes decode as a legitimate request that would end the whole test.
fn is_forbidden(original: &Original, bytes: &[u8]) -> bool {
    let version = Version::parse(&original.version).unwrap();
    let request = bytes.get(Header::LEN..).map(|payload| Request::decode(original.dialect, version, payload));
    matches!(request, Some(Ok(Request::Abort { .. } | Request::JobControl { .. } | Request::Spawn { .. })))
}

/// The offender: its current connection, and the number of its closed ones.
struct Offender<'a> {
    target: &'a Target,
    peer: Option<(Peer, Dialect, String)>,
    sent: u64,
    connections: u64,
    dropped: u64,
}

impl Offender<'_> {
    /// Sends a mutant on a connection with the original's dialect, and checks whether the server still answers.
    fn send(&mut self, original: &Original, bytes: &[u8]) {
        self.sent += 1;
        if original.is_hello {
            // Its lengths may announce more bytes than follow.
            self.connections += 1;
            let heard = self.target.say(Way::Tcp, bytes);
            // A tool is admitted if its user has ranks here; it gets its own name and the server's.
            let tools = [PeerKind::Singleton, PeerKind::Tool].map(ToolReply::len);
            let is_answer = heard.len() == ClientReply::LEN || tools.contains(&heard.len());
            assert!(heard.is_empty() || is_answer, "{}: {heard:?}", original.name);
            return;
        }
        let fits = |(_, dialect, version): &(Peer, Dialect, String)| {
            *dialect == original.dialect && *version == original.version
        };
        let mut peer = match self.peer.take().filter(fits) {
            Some((peer, ..)) => peer,
            None => self.connect(original),
        };
        peer.say(bytes);
        if bytes[8..12] != original.bytes[8..12] {
            // The rest of the announced bytes will not come.
            let _ = peer.end();
            return;
        }
        let version = Version::parse(&original.version).unwrap();
        let immediate = vec![Info::new(keys::IMMEDIATE, Value::Bool(true))];
        let (nspace, rank) = (self.target.proc.nspace.clone(), self.target.proc.rank);
        let question = Request::Get { nspace, rank, infos: immediate, key: Some(Key::from("no.such.key")) };
        peer.say(&tagged(ALIVE, &question.encode(original.dialect, version).unwrap()));
        loop {
            match peer.hear() {
                Some((ALIVE, _)) => break,
                Some((TAG_NOTIFY | 0.., _)) => {}
                None => {
                    self.dropped += 1;
                    return;
                }
            }
        }
        self.peer = Some((peer, original.dialect, original.version.clone()));
    }

    fn connect(&mut self, original: &Original) -> Peer {
        self.connections += 1;
        let hello = Hello {
            module: original.dialect.module,
            buffer: original.dialect.buffer,
            version: original.version.clone(),
            ..self.target.hello(Way::Unix)
        };
        self.target.introduce(Way::Unix, &hello)
    }
}

/// The number of log lines that a line represents: it may count suppressed lines, and shows the last of them.
fn lines_in(line: &str) -> u64 {
    let counted = line.split_once(" more lines like this were not written").map(|(before, _)| before);
    counted.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(1)
}

#[test]
fn every_mutation_of_recorded_messages() {
    let wish = std::env::var("PMIX_TEST_MUTANTS").unwrap_or_default();
    let (mut job, target, _anchor) = attacked();
    let originals = originals(&target);
    assert!(originals.len() > 280, "{} messages", originals.len());
    let mut offender = Offender { target: &target, peer: None, sent: 0, connections: 0, dropped: 0 };
    let mut send = |original: &Original, at: usize, value: u8| {
        let mut bytes = original.bytes.clone();
        bytes[at] = value;
        if !is_forbidden(original, &bytes) {
            offender.send(original, &bytes);
        }
    };
    // Make all one-time allocations before the measurement.
    originals.iter().for_each(|original| send(original, original.bytes.len() - 1, 0));
    job.watch_settled_server();
    let before = job.server_memory();
    if wish == "all" {
        for original in &originals {
            for (at, byte) in original.bytes.iter().enumerate() {
                values(*byte).for_each(|value| send(original, at, value));
            }
        }
    } else {
        let random = &mut Random(wish.parse().unwrap_or(0x5eed));
        for _ in 0..SAMPLE {
            let original = &originals[random.below(originals.len() as u64) as usize];
            let at = random.below(original.bytes.len() as u64) as usize;
            let nth = random.below(9) as usize;
            values(original.bytes[at]).nth(nth).into_iter().for_each(|value| send(original, at, value));
        }
    }
    let grown = job.server_memory().saturating_sub(before);
    let Offender { sent, connections, dropped, peer, .. } = offender;
    drop(peer);
    assert!(grown < 32 * MIB, "the server has grown by {grown} bytes");
    let ended = job.finish();
    // Each closed connection has a line or is counted in one, and no connection has two.
    let lines = log(&ended);
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).map(|line| lines_in(line)).sum::<u64>();
    assert!(count("malformed message") >= dropped, "{dropped} of {connections} were dropped: {ended}");
    assert!(lines.len() as u64 <= connections + 40, "{connections} connections: {ended}");
    println!(
        "{sent} mutants of {} messages in {connections} connections, {dropped} of which were dropped; the server has \
         grown by {} KiB and logged {} lines",
        originals.len(),
        grown / 1024,
        lines.len()
    );
}
