//! How long a small request waits while a server stores and publishes what a large fence brings.
//!
//! `cargo bench -p pmix-benches --bench latency [MIB]`. A server of two local ranks and 64 ranks of another node. One local rank
//! enters a fence with the others, which brings 256 MiB, or so many MiB; the other one asks over TCP for a small value of its
//! neighbour, again and again. The same is done with values of 4 MiB and of 1 KiB. The figures are of the requests that were answered before the
//! host brought the data, and of those that were answered later.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pmix_dstore::codec::{BufferType, Dialect, Module, Untyped};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Bytes, Info, Key, Kval, Nspace, Proc, Rank, Status, Value, keys};
use pmix_server::{Completion, Host, Server};
use pmix_wire::blob::Contribution;
use pmix_wire::{Header, Hello, PeerKind, Request, Version};

const PLAIN: Dialect = Dialect::plain(Module::V41);
const EXCHANGE: Dialect = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);
const LOCAL: u32 = 2;
const REMOTE: u32 = 64;

type Asked = Mutex<Option<Completion<(Status, Bytes)>>>;

/// A host that answers a fence when the benchmark does.
#[derive(Default)]
struct Later(Asked);

impl Host for Later {
    fn fence_nb(&self, _: &[Proc], _: &[Info], _: GatherBuf, done: Completion<(Status, Bytes)>) -> Status {
        *self.0.lock() = Some(done);
        Status::SUCCESS
    }
}

struct Peer(TcpStream);

impl Peer {
    fn connect(server: &Server, proc: &Proc, uid: (u32, u32)) -> Result<Peer, Box<dyn Error>> {
        let env = server.setup_fork(proc).map_err(|status| status.to_string())?;
        let uri = env.iter().find(|(name, _)| name == "PMIX_SERVER_URI41").ok_or("no address")?.1.clone();
        let uri = uri.into_string().map_err(|_| "no text")?;
        let address: SocketAddr = uri.split_once("tcp4://").ok_or("no address")?.1.parse()?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let hello = Hello {
            psec: "native".into(),
            credential: Hello::native_credential(uid.0, uid.1),
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(proc.clone()),
            version: "4.2.2".into(),
            module: Module::V41,
            buffer: BufferType::NonDescribed,
            gds: "hash".into(),
            infos: Vec::new(),
        };
        stream.write_all(&hello.encode().map_err(|status| status.to_string())?)?;
        stream.read_exact(&mut [0; 8])?;
        Ok(Peer(stream))
    }

    fn send(&mut self, tag: u32, request: Request) -> Result<(), Box<dyn Error>> {
        let payload = request.encode(PLAIN, Version::OURS).map_err(|status| status.to_string())?;
        let header = Header { index: 0, tag, len: payload.len() as u32 };
        self.0.write_all(&[&header.encode()[..], &payload].concat())?;
        Ok(())
    }

    fn reply(&mut self) -> Result<(), Box<dyn Error>> {
        let mut head = [0; Header::LEN];
        self.0.read_exact(&mut head)?;
        let len = u64::from(Header::decode(&head).len);
        std::io::copy(&mut (&self.0).take(len), &mut std::io::sink())?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(256);
    println!("{mib} MiB in one fence; a small Get over TCP meanwhile, us: median, 99 %, longest");
    for len in [4 << 20, 1 << 10] {
        measure(mib << 20, len)?;
    }
    Ok(())
}

/// What the other node's ranks contribute: values of `len` bytes, `total` bytes in all.
fn contribution(total: usize, len: usize) -> Result<Vec<u8>, Status> {
    let each = total / len / REMOTE as usize;
    let keys: Vec<Key> = (0..each).filter_map(|n| Key::new(format!("key.{n}")).ok()).collect();
    let values: Vec<Value> = (0..REMOTE).map(|rank| Value::ByteObject(vec![rank as u8; len].into())).collect();
    let of_rank = |rank: u32| keys.iter().map(|key| (key, &values[rank as usize])).collect();
    let ranks: Vec<_> = (0..REMOTE).map(|rank| (Rank(LOCAL + rank), of_rank(rank))).collect();
    let bytes = Contribution::encode_borrowed(EXCHANGE, true, &ranks)?.into_bytes()?;
    let blob = [Contribution::encode(EXCHANGE, true, &[])?, bytes];
    Ok(blob.concat())
}

fn measure(total: usize, len: usize) -> Result<(), Box<dyn Error>> {
    let text = |status: Status| status.to_string();
    let directory = std::env::var_os("TMPDIR").unwrap_or_else(|| "/dev/shm".into());
    let nspace = Nspace::new("latency")?;
    let proc = |rank| Proc::new(nspace.clone(), Rank(rank));
    let host = Arc::new(Later::default());
    let tmpdir = Info::new(keys::SERVER_TMPDIR, Value::string(directory.to_str().ok_or("no text")?));
    let node = Info::new(keys::HOSTNAME, Value::string("here"));
    let server = Server::init(host.clone(), &[tmpdir, node]).map_err(text)?;
    let list = |from: u32, count: u32| (from..from + count).map(|r| r.to_string()).collect::<Vec<_>>().join(",");
    let infos = vec![
        Info::new(keys::NODE_MAP, Value::string("here,there")),
        Info::new(keys::PROC_MAP, Value::string(format!("{};{}", list(0, LOCAL), list(LOCAL, REMOTE)))),
    ];
    server.register_nspace(nspace.clone(), LOCAL as i32, infos, None);
    let user = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    for rank in 0..LOCAL {
        server.register_client(proc(rank), user.0, user.1, 0, None);
    }
    let (mut fencing, mut asking) = (Peer::connect(&server, &proc(0), user)?, Peer::connect(&server, &proc(1), user)?);
    let kval = Kval { key: Key::from("small"), value: Value::Uint32(1) };
    fencing.send(101, Request::Commit { parts: vec![(3, vec![kval])] })?;
    fencing.reply()?;

    let data = contribution(total, len).map_err(text)?;
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let get =
        || Request::Get { nspace: nspace.clone(), rank: Rank(0), infos: Vec::new(), key: Some(Key::from("small")) };
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let asker = scope.spawn(|| {
            let mut latencies = [Vec::new(), Vec::new()];
            for tag in 200.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                let start = Instant::now();
                if asking.send(tag, get()).and_then(|()| asking.reply()).is_err() {
                    break;
                }
                latencies[usize::from(begun.load(Ordering::Acquire))].push(start.elapsed());
                thread::sleep(Duration::from_micros(200));
            }
            latencies
        });
        let participants: Vec<Proc> = (0..LOCAL + REMOTE).filter(|rank| *rank != 1).map(proc).collect();
        let collect = vec![Info::new(keys::COLLECT_DATA, Value::Bool(true))];
        fencing.send(102, Request::Fence { procs: participants, infos: collect })?;
        let done = loop {
            if let Some(done) = host.0.lock().take() {
                break done;
            }
            thread::sleep(Duration::from_millis(1));
        };
        thread::sleep(Duration::from_millis(500));
        begun.store(true, Ordering::Release);
        let start = Instant::now();
        done.complete((Status::SUCCESS, Bytes::external(data)));
        let answered = start.elapsed();
        fencing.reply()?;
        let fence = start.elapsed();
        stop.store(true, Ordering::Release);
        let latencies = asker.join().map_err(|_| "a thread has panicked")?;
        println!(
            "values of {len} bytes: fence {} ms, of which the host's call {} ms",
            fence.as_millis(),
            answered.as_millis()
        );
        for (what, mut latencies) in ["before", "within"].into_iter().zip(latencies) {
            latencies.sort();
            let at = |part: f64| {
                latencies.get(((latencies.len() - 1) as f64 * part) as usize).map_or(0, Duration::as_micros)
            };
            println!("  {what:8} {:5} requests: {:8} {:8} {:8}", latencies.len(), at(0.5), at(0.99), at(1.0));
        }
        Ok(())
    })?;
    server.finalize();
    Ok(())
}
