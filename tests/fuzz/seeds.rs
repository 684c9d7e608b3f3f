//! Writes what the targets begin with, from the recorded messages: `cargo run --example seeds -- DIRECTORY`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use pmix_dstore::codec::{self, BufferType, Dialect, Module, Packer};
use pmix_dstore::compression;
use pmix_dstore::maps;
use pmix_dstore::model::{Bytes, Info, Key, Kval, Nspace, Proc, Rank, Status, Value, keys};
use pmix_dstore::recorder::{Note, Ring, Step};
use pmix_fuzz::message::{Form, Message, messages};
use pmix_fuzz::samples;
use pmix_fuzz::{DIALECTS, checked_in, input, selector, vectors};
use pmix_wire::blob::{self, Contribution, Form as ContributionForm, Origin};
use pmix_wire::reply::JobInfoReply;
use pmix_wire::{Command, Reply, Request, Version};

/// Longer inputs only slow the fuzzer down.
const LEN_MAX: usize = samples::SEGMENT_LEN_MAX;

/// The inputs of each target.
type Seeds = BTreeMap<&'static str, BTreeSet<Vec<u8>>>;

fn main() -> std::io::Result<()> {
    let Some(corpus) = std::env::args_os().nth(1) else {
        eprintln!("usage: seeds DIRECTORY");
        std::process::exit(64);
    };
    let mut seeds = Seeds::new();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    for message in vectors::all(vectors).iter().flat_map(messages) {
        of_message(&mut seeds, &message);
    }
    of_texts(&mut seeds);
    of_segments(&mut seeds);
    of_long_values(&mut seeds);
    of_engine(&mut seeds);
    of_published(&mut seeds)?;
    of_recorder(&mut seeds)?;
    for (target, mut inputs) in seeds {
        inputs.retain(|input| input.len() <= LEN_MAX);
        let directory = Path::new(&corpus).join(target);
        fs::create_dir_all(&directory)?;
        println!("{target}: {} inputs", inputs.len());
        for (number, input) in inputs.into_iter().enumerate() {
            fs::write(directory.join(format!("seed-{number}")), input)?;
        }
    }
    Ok(())
}

/// The file of a recorder with steps of each phase.
fn of_recorder(seeds: &mut Seeds) -> std::io::Result<()> {
    let outer = std::env::temp_dir().join(format!("pmix-fuzz-seeds-{}", std::process::id()));
    let inner = outer.join("s");
    fs::DirBuilder::new().mode(0o700).create(&outer)?;
    fs::create_dir(&inner)?;
    let me = Proc::new(Nspace::new("job").expect("a name"), Rank(0));
    let ring = Ring::create(fs::File::open(&inner)?.as_fd(), &me)?;
    let note = Note::new(Step::Fence, 0, b"job job");
    let begun = ring.begin(note);
    ring.end(begun, note, Status::ERR_TIMEOUT);
    ring.happen(Note::new(Step::Event, 1, b"job"), Status::ERR_PROC_ABORTED);
    let _waits = ring.begin(Note::new(Step::Get, 1, b"key"));
    let file = fs::read(outer.join("steps-0"))?;
    for mended in [0, 1] {
        add(seeds, "recorder", &[mended], &file);
    }
    fs::remove_dir_all(outer)
}

fn add(seeds: &mut Seeds, target: &'static str, head: &[u8], bytes: &[u8]) {
    seeds.entry(target).or_default().insert([head, bytes].concat());
}

/// What a recorded message gives, itself and what is in it.
fn of_message(seeds: &mut Seeds, message: &Message) {
    let Message { dialect, bytes, .. } = message;
    let form = selector(*dialect);
    add(seeds, "message", &[], &input::write(message));
    match message.form {
        Form::Hello => add(seeds, "hello", &[0], &bytes[16..]),
        Form::ClientReply => add(seeds, "hello", &[1], bytes),
        Form::ToolReply(kind) => add(seeds, "hello", &[2 + 6 * kind as u8], bytes),
        Form::Fence => add(seeds, "blob", &[form], bytes),
        Form::Modex => add(seeds, "blob", &[form + DIALECTS], bytes),
        Form::Request => {
            if let Some(whom) = ENGINE_PEERS.iter().position(|peer| peer == dialect) {
                add(seeds, "engine", &[], &step(0, whom as u8 + 1, bytes));
            }
            if let Ok(Request::Commit { parts }) = Request::decode(*dialect, message.client, bytes) {
                for (_, kvals) in parts {
                    of_kvals(seeds, *dialect, &kvals);
                    let mut packer = Packer::new(*dialect);
                    if kvals.iter().all(|Kval { key, value }| packer.kval(key, value).is_ok()) {
                        add(seeds, "segment", &[2, form], packer.as_bytes());
                        add(seeds, "segment", &[2, form + DIALECTS], packer.as_bytes());
                    }
                }
            }
        }
        Form::Reply(Command::JOB_INFO) => {
            add(seeds, "job_info", &[form], bytes);
            add(seeds, "segment", &[3, form], bytes);
            if let Ok(reply) = JobInfoReply::decode(*dialect, message.server, bytes) {
                of_kvals(seeds, *dialect, &reply.kvals);
                let mut packer = Packer::new(*dialect);
                if reply.kvals.iter().all(|Kval { key, value }| packer.kval(key, value).is_ok()) {
                    add(seeds, "blob", &[form + 2 * DIALECTS], packer.as_bytes());
                }
            }
        }
        _ => {}
    }
}

fn of_kvals(seeds: &mut Seeds, dialect: Dialect, kvals: &[Kval]) {
    for Kval { value, .. } in kvals {
        let ty = value.data_type().0 as u8;
        let mut packer = Packer::new(dialect);
        if packer.bare(value).is_ok() {
            add(seeds, "value", &[ty, selector(dialect)], packer.as_bytes());
        }
        packer.clear();
        if packer.value(value).is_ok() {
            add(seeds, "value", &[0, selector(dialect) + DIALECTS], packer.as_bytes());
        }
        if let Ok(stored) = codec::pack_stored(value) {
            add(seeds, "value", &[ty, 2 * DIALECTS], &stored);
        }
    }
}

/// What is read as text, and what is compressed.
fn of_texts(seeds: &mut Seeds) {
    let compressed = |text: &[u8]| {
        let body = compression::compress(text).expect("short enough");
        [format!("blob:\0component=zlib:\0size={}:\0", body.len()).as_bytes(), &body].concat()
    };
    for map in ["node0,node1", "pmix[odin[3:1-3,10-11],thor[1:0]]", "pmix[[2:1-3]x,n]", "10.0.0.1,n1-ib"] {
        add(seeds, "maps", &[2], map.as_bytes());
        add(seeds, "maps", &[2], &compressed(map.as_bytes()));
        add(seeds, "maps", &[2], &maps::generate_regex(map.as_bytes()).expect("no NUL"));
    }
    for map in ["0-3;4-7", "pmix[0,2;1,3]", "8,1-2;;0"] {
        add(seeds, "maps", &[3], map.as_bytes());
        add(seeds, "maps", &[3], &compressed(map.as_bytes()));
        add(seeds, "maps", &[3], &maps::generate_ppn(map.as_bytes()).expect("no NUL"));
    }
    let text = Value::string("a text that is long enough to be worth it: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let text = compression::compress(text.as_text().unwrap_or_default()).expect("short enough");
    add(seeds, "blob", &[3 * DIALECTS], &text);
    for ty in [42, 59] {
        add(seeds, "value", &[ty, 2 * DIALECTS], &text);
    }
    // One packed array of infos for each family of encoders.
    add(seeds, "value", &[39, 8], &[24, 1, 4, b'k', 0, 0, 3, 4, b'v', 0]);
    add(seeds, "value", &[24, 4], &[0, 0, 0, 2, b'k', 0, 0, 0, 0, 0, 0, 1, 1]);
    add(seeds, "hello", &[3], &[0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 9, 0, 0, 0, 0]);
    let uri = "prte.host.5;tcp4://127.0.0.1:4711";
    for (name, uri) in [("URI41", uri), ("URI2", "a.0;tcp6://[::1]:80"), ("URI4", "a.0;tcp6://::1:80")] {
        let lines = format!(
            "PMIX_NAMESPACE=job@1\nPMIX_RANK=3\nPMIX_SERVER_{name}={uri}\nPMIX_VERSION=4.2.2\nPMIX_DSTORE_SHM=0\n\
             PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_FULLY_DESC\nPMIX_SECURITY_MODE=munge,native\nTMPDIR=/t"
        );
        add(seeds, "hello", &[4], lines.as_bytes());
    }
    for version in ["4.2.2rc2", "v6.1.0", "7.0.0a1"] {
        add(seeds, "hello", &[5], version.as_bytes());
    }
}

/// The dialects of the first peers of the target `engine`.
const ENGINE_PEERS: [Dialect; 3] =
    [Dialect::plain(Module::V41), Dialect::plain(Module::V61), Dialect::new(Module::V3, BufferType::Described)];

/// One step of the target `engine`.
fn step(action: u8, whom: u8, bytes: &[u8]) -> Vec<u8> {
    [&[action, whom, bytes.len().min(255) as u8], bytes].concat()
}

/// What the ranks of a node do in their lives.
fn of_engine(seeds: &mut Seeds) {
    let nspace = Nspace::new("job").expect("a short namespace");
    let of_all = |request: Request| -> Vec<u8> {
        let encode = |dialect| request.encode(dialect, Version::OURS).expect("every encoder knows it");
        (1..).zip(ENGINE_PEERS).flat_map(|(whom, dialect)| step(0, whom, &encode(dialect))).collect()
    };
    let everybody = vec![Proc::new(nspace.clone(), Rank::WILDCARD)];
    let collect = vec![Info::new(keys::COLLECT_DATA, Value::Bool(true)), Info::new(keys::TIMEOUT, Value::Int(9))];
    let kval = Kval { key: Key::from("key"), value: Value::string("value") };
    let commit = of_all(Request::Commit { parts: vec![(3, vec![kval.clone()]), (1, vec![kval.clone()])] });
    let fence = of_all(Request::Fence { procs: everybody.clone(), infos: collect.clone() });
    let get = |rank, key: &'static str| {
        let key = Some(Key::from(key));
        of_all(Request::Get { nspace: nspace.clone(), rank: Rank(rank), infos: Vec::new(), key })
    };
    let codes = vec![Status(-3456)];
    let events = of_all(Request::RegisterEvents { codes: codes.clone(), infos: Vec::new() });
    let notify = of_all(Request::Notify { status: codes[0], range: 3, infos: Vec::new() });
    let connect = of_all(Request::Connect { procs: everybody, infos: collect, extra: Vec::new() });
    let brought = Contribution::encode(Dialect::STORED, true, &[(Rank(4), vec![kval.clone()])]).expect("storable");
    let brought = step(6, 0, &[&[1, 0], brought.as_slice()].concat());
    let values = blob::encode_modex(Dialect::STORED, [(&kval.key, &kval.value)].into_iter()).expect("storable");
    let values = step(6, 0, &[&[1, 0], values.as_slice()].concat());
    let (fork, time, loss) = (step(14, 0, &[]), step(9, 3, &[]), step(10, 1, &[]));
    for scene in [
        vec![&fork, &commit, &fence, &brought, &commit],
        vec![&fence, &time, &time],
        vec![&fence, &loss, &commit, &loss],
        vec![&events, &notify, &loss, &notify],
        vec![&connect, &brought],
    ] {
        let scene: Vec<u8> = scene.into_iter().flatten().copied().collect();
        add(seeds, "engine", &scene, &get(4, "key"));
        add(seeds, "engine", &[scene.clone(), get(4, "key")].concat(), &values);
        add(seeds, "engine", &[get(1, "late"), scene.clone()].concat(), &step(13, 0, &[0]));
        add(seeds, "engine", &scene, &of_all(Request::Finalize));
    }
}

/// What has values that stay where they are: in a commit, in a contribution, in a segment.
fn of_long_values(seeds: &mut Seeds) {
    let value = |len| Value::ByteObject(vec![7; len].into());
    let kvals: Vec<Kval> = [("long", value(Bytes::SHARED_MIN)), ("short", value(3)), ("longer", value(3000))]
        .map(|(key, value)| Kval { key: Key::from(key), value })
        .into();
    let nspace = Nspace::new("job").expect("a short namespace");
    let fence = Request::Fence { procs: vec![Proc::new(nspace, Rank::WILDCARD)], infos: Vec::new() };
    for (whom, dialect) in (1..).zip(ENGINE_PEERS) {
        let form = selector(dialect);
        let version = Version::OURS;
        let message = |form, bytes: &[u8]| {
            let (exchange, bytes) = (String::new(), bytes.to_vec());
            input::write(&Message { exchange, form, dialect, client: version, server: version, bytes })
        };
        let commit = Request::Commit { parts: vec![(3, kvals.clone()), (2, kvals[..1].to_vec())] };
        let commit = commit.encode(dialect, version).expect("storable");
        add(seeds, "message", &[], &message(Form::Request, &commit));
        let fence = fence.encode(dialect, version).expect("every encoder knows it");
        add(seeds, "engine", &[step(0, whom, &fence), vec![0, whom, 255]].concat(), &commit);
        let ranks = [(Rank(0), kvals.clone()), (Rank(4), kvals.clone())];
        let contribution = Contribution::encode(dialect, true, &ranks).expect("storable");
        add(seeds, "message", &[], &message(Form::Fence, &contribution));
        add(seeds, "blob", &[form], &contribution);
        let mut packer = Packer::new(dialect);
        kvals.iter().for_each(|Kval { key, value }| packer.kval(key, value).expect("storable"));
        add(seeds, "segment", &[2, form], packer.as_bytes());
        add(seeds, "segment", &[2, form + DIALECTS], packer.as_bytes());
    }
}

/// Segments of both kinds and several forms, and what is done to them.
fn of_segments(seeds: &mut Seeds) {
    let segments = samples::segments();
    segments.iter().for_each(|bytes| add(seeds, "segment", &[0], bytes));
    for which in 0..segments.len() as u8 {
        add(seeds, "segment", &[1, which, 7 * which, 0], b"damage");
        let far = [7 * which, 0, 8 * (which % 8), 0xff, 0xff, 0xff, 0, 0, 0, 0, 0];
        add(seeds, "segment", &[6, which], &far);
        add(seeds, "segment", &[5, which, 100 * (which % 2), 3 + which, 0, 64, 0xff], &[]);
    }
    // Each word of a table of contents that readers treat in its own way: twice as much, and half.
    for word in 0..samples::contents_words(segments.iter().map(Vec::as_slice)).len() as u16 {
        let [low, high] = word.to_le_bytes();
        (0..2).for_each(|lie| add(seeds, "segment", &[7, low, high, lie], &[]));
    }
    // Of some entries of each length the first bytes, or the last before the check, are those of the next one.
    for (which, bytes) in segments.iter().enumerate() {
        let mut seen = BTreeMap::new();
        for (number, (_, len)) in checked_in(bytes).into_iter().enumerate() {
            let [low, high] = (number as u16).to_le_bytes();
            let count: &mut u32 = seen.entry(len).or_default();
            *count += 1;
            for part in (0..len).step_by(4).filter(|_| *count <= 2) {
                add(seeds, "segment", &[8, which as u8, low, high, 0, part as u8, 4], &[]);
            }
        }
    }
    // Nothing, then the count of the page, an entry, and a byte of a segment.
    add(seeds, "segment", &[4], &[]);
    add(seeds, "segment", &[4], &[0, 64, 0, 0, 3]);
    add(seeds, "segment", &[4], &[1, 64, 0, 0, 1, 1, 68, 0, 0, 0, 4, 0, 2, 0, 255]);
}

/// What real programs put, as servers of ours exchange it.
fn of_published(seeds: &mut Seeds) -> std::io::Result<()> {
    let dialect = Dialect::plain(Module::V61);
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../modex/published"))? {
        for line in fs::read_to_string(file?.path())?.lines() {
            let digits = (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16));
            let bytes: Vec<u8> = digits.collect::<Result<_, _>>().expect("hexadecimal digits");
            for mut contribution in blob::decode_fence(dialect, &bytes).expect("it was recorded") {
                contribution.form = ContributionForm::Columns;
                for (origin, _) in &mut contribution.ranks {
                    if let Origin::Proc(proc) = origin {
                        *origin = Origin::Relative(proc.rank);
                    }
                }
                let columns = contribution.encode_again(dialect).expect("what programs put suits");
                add(seeds, "blob", &[selector(dialect)], &columns);
            }
        }
    }
    Ok(())
}
