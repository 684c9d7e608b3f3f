//! Latency of a small request while a server stores and publishes the data of a large fence.
//!
//! `make bench-latency`, or `cargo bench -p pmix-benches --bench latency [MIB]`. The server has two local ranks and 64
//! ranks of another node. One local rank enters a fence with the others, which delivers 256 MiB (or MIB). The other
//! local rank repeatedly requests a small value of the first over TCP. The benchmark runs once with values of 4 MiB and
//! once with values of 1 KiB. One line is for requests answered before the host delivered the data, the other for later
//! ones.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pmix_dstore::codec::{Dialect, Module, Untyped};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Bytes, Info, Key, Kval, Nspace, Proc, Rank, Status, Value, keys};
use pmix_server::{Completion, Host, Server};
use pmix_tests::peers::{PLAIN, Peer, Target, Way, message};
use pmix_wire::blob::Contribution;
use pmix_wire::{Request, Version};

const EXCHANGE: Dialect = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);
const LOCAL: u32 = 2;
const REMOTE: u32 = 64;

type Asked = Mutex<Option<Completion<(Status, Bytes)>>>;

/// A host that holds the fence's answer until the benchmark gives it.
#[derive(Default)]
struct Later(Asked);

impl Host for Later {
    fn fence_nb(&self, _: &[Proc], _: &[Info], _: GatherBuf, done: Completion<(Status, Bytes)>) -> Status {
        *self.0.lock() = Some(done);
        Status::SUCCESS
    }
}

/// A connection over TCP, as a stock client makes it.
fn connect(server: &Server, proc: &Proc) -> Result<Peer, Status> {
    let variable = |(name, value): (String, OsString)| (name, value.to_string_lossy().into_owned());
    let environment: HashMap<_, _> = server.setup_fork(proc)?.into_iter().map(variable).collect();
    Ok(Target::new(&environment).let_in(Way::Tcp))
}

fn encoded(request: &Request) -> Result<Vec<u8>, Status> {
    request.encode(PLAIN, Version::OURS)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(256);
    println!("{mib} MiB in one fence; a small Get over TCP meanwhile, us: median, 99 %, longest");
    for len in [4 << 20, 1 << 10] {
        measure(mib << 20, len)?;
    }
    Ok(())
}

/// The contribution of the other node's ranks: values of `len` bytes, `total` bytes in all.
fn contribution(total: usize, len: usize) -> Result<Vec<u8>, Status> {
    let each = (total / len / REMOTE as usize).max(1);
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
    let (mut fencing, mut asking) =
        (connect(&server, &proc(0)).map_err(text)?, connect(&server, &proc(1)).map_err(text)?);
    let kval = Kval { key: Key::from("small"), value: Value::Uint32(1) };
    fencing.ask(&encoded(&Request::Commit { parts: vec![(3, vec![kval])] }).map_err(text)?);

    let data = contribution(total, len).map_err(text)?;
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let key = Some(Key::from("small"));
    let get = encoded(&Request::Get { nspace: nspace.clone(), rank: Rank(0), infos: Vec::new(), key }).map_err(text)?;
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let asker = scope.spawn(|| {
            let mut latencies = [Vec::new(), Vec::new()];
            while !stop.load(Ordering::Acquire) {
                let start = Instant::now();
                asking.ask(&get);
                latencies[usize::from(begun.load(Ordering::Acquire))].push(start.elapsed());
                thread::sleep(Duration::from_micros(200));
            }
            latencies
        });
        let participants: Vec<Proc> = (0..LOCAL + REMOTE).filter(|rank| *rank != 1).map(proc).collect();
        let collect = vec![Info::new(keys::COLLECT_DATA, Value::Bool(true))];
        fencing.say(&message(&encoded(&Request::Fence { procs: participants, infos: collect }).map_err(text)?));
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
        fencing.hear().ok_or("the server has closed the connection")?;
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
