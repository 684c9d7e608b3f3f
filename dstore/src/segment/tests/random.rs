//! Seeded random data.

use std::ffi::CString;

use crate::job::{JobData, Node, Values};
use crate::model::{Bytes, DataType, Info, InfoFlags, Key, Nspace, Proc, Rank, Status, Value, keys};
use crate::modex::ModexData;
use crate::qualified;

/// xorshift64*: a seed replays a run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn bytes(&mut self, len_max: u64) -> Vec<u8> {
        let len = self.below(len_max + 1);
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn text(&mut self, len_max: u64) -> CString {
        let bytes: Vec<u8> = self.bytes(len_max).into_iter().map(|byte| byte % 26 + b'a').collect();
        CString::new(bytes).expect("letters hold no NUL")
    }

    /// A value of any kind: numbers, strings, bytes, structures.
    pub(crate) fn value(&mut self) -> Value {
        let bits = self.next() >> self.below(60);
        match self.below(27) {
            0 => Value::Undef,
            1 => Value::Bool(bits & 1 != 0),
            2 => Value::Byte(bits as u8),
            3 => Value::Size(bits),
            4 => Value::Pid(bits as i32),
            5 => Value::Int(bits as i32 - 7),
            6 => Value::Int8(bits as i8),
            7 => Value::Int16(bits as i16),
            8 => Value::Int64(-(bits as i64)),
            9 => Value::Uint16(bits as u16),
            10 => Value::Uint64(bits),
            11 => Value::Float(bits as f32),
            12 => Value::Double(-(bits as f64)),
            13 => Value::Time(bits as i64),
            14 => Value::Status(Status(-(bits as i32 & 0xff))),
            15 => Value::Rank(Rank(bits as u32)),
            16 => Value::Code { ty: DataType::SCOPE, bits: bits & 3 },
            17 => Value::Code { ty: DataType::DEVTYPE, bits },
            18 => Value::String(None),
            19 => Value::Regex(self.bytes(40).into()),
            20 => Value::CompressedString(self.bytes(80).into()),
            21 => Value::DataBuffer(self.bytes(9).into()),
            22 => Value::ByteObject(self.bytes(200).into()),
            23 => Value::Timeval { sec: bits as i64, usec: 7 },
            24 => Value::Proc(Proc::new(Nspace::new("other").expect("a short namespace"), Rank(bits as u32))),
            25 => Value::infos([Info::new(keys::RANK, Value::Rank(Rank(bits as u32))), Info::new("x", Value::Undef)]),
            _ => Value::String(Some(self.text(30))),
        }
    }

    /// A value of one type or, now and then, of another.
    fn mostly(&mut self, ty: u64) -> Value {
        match ty {
            _ if self.one_in(20) => self.value(),
            0 => Value::Uint32(self.below(70_000) as u32),
            1 => Value::Uint16(self.below(300) as u16),
            2 => Value::String(Some(self.text(4))),
            3 => Value::ByteObject(self.bytes(3).into()),
            4 => Value::Int(self.below(5) as i32 - 2),
            _ => Value::Uint64(self.next() << 8),
        }
    }
}

/// Keys that the tests ask for; some of them are in no store.
pub(crate) fn key_pool() -> Vec<Key> {
    let reserved = [
        keys::RANK,
        keys::GLOBAL_RANK,
        keys::LOCAL_RANK,
        keys::NODEID,
        keys::HOSTNAME,
        keys::APPNUM,
        keys::APP_RANK,
        keys::LOCAL_PEERS,
        keys::LOCAL_SIZE,
        keys::NODE_SIZE,
        keys::JOB_SIZE,
        keys::UNIV_SIZE,
        keys::JOBID,
        keys::SESSION_ID,
        keys::APP_SIZE,
        keys::WDIR,
        keys::CPUSET,
        keys::LOCALITY_STRING,
        keys::NODE_LIST,
        keys::MAX_PROCS,
        keys::PROC_MAP,
    ];
    let mut all: Vec<Key> = reserved.into_iter().map(Key::from).collect();
    for text in ["btl.tcp.6.1", "k", "", "a key with spaces", "pmix.unknown.reserved"] {
        all.push(Key::from(text));
    }
    all.push(Key::new([b'x'; 511]).expect("the longest key"));
    all.push(Key::new([0xff, 0xfe, 1]).expect("not UTF-8"));
    all
}

fn values(random: &mut Random, pool: &[Key], count: u64) -> Values {
    let mut values = Values::new();
    for _ in 0..random.below(count + 1) {
        let key = pool[random.below(pool.len() as u64) as usize].clone();
        values.insert(key, random.value());
    }
    values
}

/// A job of any shape: placement in blocks, in turn or at random, columns full, thin or of mixed types.
pub(crate) fn job(seed: u64) -> JobData {
    let random = &mut Random::new(seed);
    let pool = key_pool();
    let nspace = Nspace::new(format!("job/{seed}")).expect("a short namespace");
    let mut job = JobData::new(nspace);
    job.session = values(random, &pool, 6);
    job.job = values(random, &pool, 12);
    let nodes = random.below(9);
    let ids = random.below(4);
    for row in 0..nodes {
        let mut node = Node { hostname: format!("node{row:03}").into_bytes(), ..Node::default() };
        node.nodeid = match ids {
            0 => Some(row as u32),
            1 => Some(1000 - 3 * row as u32),
            2 if random.one_in(2) => Some(random.below(4) as u32),
            _ => None,
        };
        if random.one_in(3) {
            node.aliases = vec![format!("n{row}").into_bytes(), b"shared-alias".to_vec()];
        }
        node.values = values(random, &pool, 8);
        job.nodes.push(node);
    }
    for _ in 0..random.below(4) {
        let appnum = random.below(5) as u32;
        job.apps.insert(appnum, values(random, &pool, 6));
    }
    let ranks = random.below(300) as u32;
    procs(random, &mut job, ranks, nodes as u32, &pool);
    if seed.is_multiple_of(5) {
        in_order(random, &mut job);
    }
    job
}

/// Places the ranks as launchers do, and each node has a list of its ranks.
fn in_order(random: &mut Random, job: &mut JobData) {
    let (rows, nodes) = (job.procs.rows(), job.nodes.len() as u32);
    if nodes == 0 || rows == 0 {
        return;
    }
    let node_of = places(random, rows, nodes);
    let mut lists = Vec::new();
    for (row, node) in (0..).zip(&mut job.nodes) {
        let ranks: Vec<u32> = (0..rows).filter(|rank| node_of[*rank as usize] == row).collect();
        let list = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        node.nodeid = Some(row);
        node.values.insert(Key::from(keys::LOCAL_SIZE), Value::Uint32(ranks.len() as u32));
        node.values.insert(Key::from(keys::LOCAL_PEERS), Value::string(&list));
        if ranks.is_empty() {
            node.values.remove(keys::LOCAL_PEERS.as_bytes());
        }
        lists.push(list);
        for rank in ranks {
            job.procs.set(Rank(rank), Key::from(keys::NODEID), Value::Uint32(row)).expect("a rank of a process");
        }
    }
    let form = if rows.is_multiple_of(2) { "raw:" } else { "" };
    job.job.insert(Key::from(keys::PROC_MAP), Value::string(format!("{form}{}", lists.join(";"))));
}

/// The node of each rank: nodes are equal or not, and filled one after the other, or by one or two ranks in turn.
fn places(random: &mut Random, ranks: u32, nodes: u32) -> Vec<u32> {
    let equal = ranks.div_ceil(nodes);
    let mut room: Vec<u32> = match random.below(4) {
        0 => vec![equal; nodes as usize],
        // One node is smaller, or there are two groups.
        1 => (0..nodes).map(|node| if node == 1 { 2 } else { equal + 1 }).collect(),
        2 => (0..nodes).map(|node| if node < nodes / 2 { equal / 2 } else { equal }).collect(),
        _ => (0..nodes).map(|_| random.below(2 * u64::from(equal) + 1) as u32).collect(),
    };
    let at_once = [u32::MAX, u32::MAX, 1, 2][random.below(4) as usize];
    let mut places = Vec::new();
    while places.len() < ranks as usize {
        if room.iter().all(|room| *room == 0) {
            room.fill(1);
        }
        for (node, room) in (0..).zip(&mut room) {
            let count = at_once.min(*room).min(ranks - places.len() as u32);
            *room -= count;
            places.extend((0..count).map(|_| node));
        }
    }
    places
}

fn procs(random: &mut Random, job: &mut JobData, ranks: u32, nodes: u32, pool: &[Key]) {
    let per_node = ranks.div_ceil(nodes.max(1)).max(1);
    let by_turn = random.one_in(2);
    for rank in 0..ranks {
        let (node, local) =
            if by_turn { (rank % nodes.max(1), rank / nodes.max(1)) } else { (rank / per_node, rank % per_node) };
        let mut set = |key: &'static str, value| {
            job.procs.set(Rank(rank), Key::from(key), value).expect("a rank of a process");
        };
        set(keys::RANK, Value::Rank(Rank(rank)));
        set(keys::LOCAL_RANK, Value::Uint16(local as u16));
        if nodes != 0 {
            set(keys::NODEID, Value::Uint32(job.nodes[node as usize % nodes as usize].nodeid.unwrap_or(node)));
            set(keys::HOSTNAME, Value::string(format!("node{node:03}")));
        }
        set(keys::APPNUM, Value::Uint32(u32::from(rank > ranks / 2)));
    }
    for key in pool {
        let ty = random.below(6);
        let share = [1, 1, 2, 10, 100][random.below(5) as usize];
        if random.one_in(2) {
            continue;
        }
        for rank in 0..ranks {
            if random.one_in(share) {
                let value = random.mostly(ty);
                job.procs.set(Rank(rank), key.clone(), value).expect("a rank of a process");
            }
        }
    }
}

/// Published values of some ranks: one shape or many, dense, in steps or scattered, of equal or differing lengths.
pub(crate) fn modex(seed: u64) -> ModexData {
    let random = &mut Random::new(seed);
    let pool = key_pool();
    let mut data = ModexData::default();
    let ranks = random.below(120) as u32;
    let first = [0, 17, 4_000_000_000][random.below(3) as usize];
    let step = [1, 1, 4, 0][random.below(4) as usize];
    let is_uniform = random.one_in(2);
    let same_len = random.one_in(2);
    let kinds: Vec<u64> = pool.iter().map(|_| random.below(6)).collect();
    for index in 0..ranks {
        let rank = match step {
            0 => random.next() as u32,
            step => first + index * step,
        };
        for (key, kind) in pool.iter().zip(&kinds) {
            if !is_uniform && random.one_in(8) {
                continue;
            }
            let value = match kind {
                0 if same_len => Value::ByteObject(vec![index as u8; 64].into()),
                1 if same_len => Value::string(format!("{index:08}")),
                kind => random.mostly(*kind),
            };
            data.set(Rank(rank), key.clone(), value).unwrap();
        }
        if seed.is_multiple_of(3) && index % 4 == 0 {
            data.set(Rank(rank), Key::from(keys::QUALIFIED_VALUE), qualified_values(index)).unwrap();
        }
        // Long enough that the segment's builder does not copy it.
        if seed.is_multiple_of(4) && index % 16 == 1 {
            let long = Bytes::from(vec![index as u8; Bytes::SHARED_MIN + random.below(500) as usize]);
            data.set(Rank(rank), Key::from("k"), Value::ByteObject(long)).unwrap();
        }
    }
    data
}

/// More than readers copy when they open a segment: places of ranks, or fields of shapes.
pub(crate) fn large_modex(is_scattered: bool) -> ModexData {
    let random = &mut Random::new(3);
    let pool = key_pool();
    let mut data = ModexData::default();
    for index in 0..260 {
        let rank = if is_scattered { random.next() as u32 } else { 7 + index };
        for (key, at) in pool.iter().zip(0..) {
            if if is_scattered { at < 3 } else { random.one_in(2) } {
                data.set(Rank(rank), key.clone(), random.mostly(at % 3)).unwrap();
            }
        }
    }
    data
}

/// Nearly all ranks have values of equal length; two have more and one has none.
pub(crate) fn uneven_modex() -> ModexData {
    let mut data = ModexData::default();
    for rank in (0..40).filter(|rank| *rank != 11) {
        let mut put = |key: Key, len: u8| {
            let bytes: Vec<u8> = (0..len).map(|byte| byte ^ rank as u8).collect();
            data.set(Rank(rank), key, Value::ByteObject(bytes.into())).expect("room");
        };
        let mut pool = key_pool().into_iter();
        put(pool.next().expect("a key"), 64);
        if rank == 3 || rank == 29 {
            pool.take(3).for_each(|key| put(key, 100 + rank as u8));
        }
    }
    data
}

/// Two values of a rank under one key, distinguished by a qualifier.
fn qualified_values(number: u32) -> Value {
    let one = |which: u32| {
        let qualifier = Info { flags: InfoFlags::QUALIFIER, ..Info::new("which", Value::Uint32(which)) };
        Value::infos([Info::new("qualified", Value::Uint32(number + which)), qualifier])
    };
    let first = qualified::merge(None, &one(1)).expect("a value under a qualifier");
    qualified::merge(Some(&first), &one(2)).expect("another one")
}
