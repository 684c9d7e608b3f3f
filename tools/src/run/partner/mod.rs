//! Two launchers as two clusters: `pmixrun --cluster-id NAME --partner SOCKET`.
//!
//! What RFC0003 leaves to the hosts of several clusters, for two launchers of one user on one node: values that are published for all, fences,
//! connects and disconnects of processes of both, values of a process of the other one, and events for it. Each launcher is an ordinary
//! host of its server: jobs of the other one are registered there without local processes.
//!
//! When the other launcher ends, all that waits for it ends with a status, and there is no other partner.

mod link;
mod message;
mod names;
mod requests;
mod rounds;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use pmix_dstore::fallible_alloc::{self, Thread};
use pmix_dstore::model::{Bytes, Info, Key, Nspace, Proc, Status, keys};
use pmix_server::{Completion, Server};

use self::link::Opened;
use self::message::{FRAME_MAX, Message};
use self::names::Names;
pub use self::names::cluster;
use self::rounds::{Outcome, Round, Rounds, Side};
use super::published::Published;

pub(super) use self::rounds::Operation;

/// The most bytes of a cluster's part of a fence: the parts of both are one message.
const DATA_MAX: usize = FRAME_MAX / 2 - (1 << 20);

/// Takes the answer to an operation.
pub(super) enum Done {
    /// Of a connect or disconnect.
    Status(Completion<Status>),
    /// Of a fence.
    Data(Completion<(Status, Bytes)>),
}

impl Done {
    fn complete(self, status: Status, data: Vec<u8>) {
        match self {
            Done::Status(done) => done.complete(status),
            Done::Data(done) => done.complete((status, data.into())),
        }
    }
}

/// An upcall that waits for the partner.
enum Pending {
    Collective {
        done: Done,
        round: Round,
        /// Members may end without a disconnect.
        lets_end: bool,
        /// Its status if the partner ends before.
        alone: Status,
        until: Option<Instant>,
    },
    Publish {
        done: Completion<Status>,
        proc: Proc,
        keys: Vec<Key>,
    },
    Modex(Completion<(Status, Bytes)>),
}

/// An upcall with its result.
struct Answered {
    pending: Pending,
    status: Status,
    data: Vec<u8>,
}

/// Whether there is a partner.
#[derive(Debug, PartialEq)]
enum State {
    /// None has come yet.
    Awaited,
    /// It is there.
    Here,
    /// It has ended.
    Lost,
}

/// The processes of a connect, by their names on the link, and its identifier.
type Members = (Vec<Proc>, Option<Vec<u8>>);

/// What the launcher's threads share.
struct Shared {
    state: State,
    /// Frames for the thread that writes them.
    frames: Vec<Vec<u8>>,
    /// The number of the last request to the partner.
    last: u64,
    pending: HashMap<u64, Pending>,
    /// The operations of both clusters, if this launcher decides.
    rounds: Option<Rounds>,
    /// The own jobs that have not ended, as the partner is told of them.
    jobs: BTreeMap<Nspace, Message>,
    /// The own jobs that the server knows, with their clusters.
    known: BTreeSet<Nspace>,
    /// The partner's jobs that have not ended.
    their_jobs: BTreeSet<Nspace>,
    /// Those that have ended and that the server still knows, the oldest first.
    their_ended: VecDeque<Nspace>,
    /// How many of the partner's requests for values wait.
    fetched: usize,
    /// The connected processes, whether they may end, and how often they are connected.
    connected: BTreeMap<Members, (bool, u32)>,
    is_closing: bool,
    /// Something that the partner must know could not be sent.
    is_broken: bool,
}

/// The other launcher.
pub(super) struct Partner {
    names: Names,
    shared: Mutex<Shared>,
    wake: EventFd,
    published: Arc<Mutex<Published>>,
    server: OnceLock<Weak<Server>>,
    thread: Mutex<Option<Thread>>,
}

/// A partner whose thread is still to be started.
pub(super) struct Unstarted {
    partner: Arc<Partner>,
    opened: Opened,
}

impl Partner {
    /// Waits at the socket of this name for the partner, or connects to it.
    ///
    /// # Errors
    /// A message for the user.
    pub fn open(path: &Path, cluster: &str, published: Arc<Mutex<Published>>) -> Result<Unstarted, String> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(|error| format!("eventfd: {error}"))?;
        let opened = link::open(path, cluster)?;
        let names = Names::of(cluster);
        let decides = matches!(opened, Opened::First(_));
        let shared = Shared {
            state: if decides { State::Awaited } else { State::Here },
            frames: Vec::new(),
            last: 0,
            pending: HashMap::new(),
            rounds: decides.then(|| Rounds::new(names.clone())),
            jobs: BTreeMap::new(),
            known: BTreeSet::new(),
            their_jobs: BTreeSet::new(),
            their_ended: VecDeque::new(),
            fetched: 0,
            connected: BTreeMap::new(),
            is_closing: false,
            is_broken: false,
        };
        let (shared, server, thread) = (Mutex::new(shared), OnceLock::new(), Mutex::new(None));
        let partner = Arc::new(Partner { names, shared, wake, published, server, thread });
        Ok(Unstarted { partner, opened })
    }

    /// Whether a process is one of another cluster.
    pub fn is_beyond(&self, proc: &Proc) -> bool {
        !self.names.has(&self.names.on_link(&proc.nspace))
    }

    /// Whether the partner has ended, so that nothing is to be expected of it.
    pub fn is_lost(&self) -> bool {
        self.shared.lock().state == State::Lost
    }

    /// Ends the link. What the partner is still to hear is written, as far as it reads.
    fn close(&self) {
        self.shared.lock().is_closing = true;
        self.wake();
        let thread = self.thread.lock().take();
        thread.into_iter().for_each(Thread::join);
    }

    fn wake(&self) {
        // The counter may be full: then it wakes all the same.
        let _ = self.wake.write(1);
    }

    fn server(&self) -> Option<Arc<Server>> {
        self.server.get()?.upgrade()
    }
}

/// A partner whose thread runs; it ends with this.
pub(super) struct Started(Arc<Partner>);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Unstarted {
    /// The partner, for the host.
    pub fn partner(&self) -> Arc<Partner> {
        Arc::clone(&self.partner)
    }

    /// Starts the thread that talks to the partner. The server must be told of its jobs.
    ///
    /// # Errors
    /// A message for the user.
    pub fn start(self, server: &Arc<Server>) -> Result<Started, String> {
        let Unstarted { partner, opened } = self;
        let _ = partner.server.set(Arc::downgrade(server));
        let there = Arc::clone(&partner);
        let body = move || there.work(opened);
        let thread = fallible_alloc::spawn("pmixrun-partner", body);
        let thread = thread.map_err(|error| format!("no thread for the partner: {error}"))?;
        *partner.thread.lock() = Some(thread);
        Ok(Started(partner))
    }
}

impl Shared {
    /// Sends a message to the partner, if there is one.
    ///
    /// # Errors
    /// Those of packing.
    fn try_send(&mut self, message: &Message) -> Result<(), Status> {
        if self.state == State::Here {
            self.frames.push(message.frame()?);
        }
        Ok(())
    }

    /// Sends what the partner must know: without memory for it the link ends.
    fn send(&mut self, message: &Message) {
        self.is_broken |= self.try_send(message).is_err();
    }

    /// Sends a request with a number; notes who waits for its result.
    ///
    /// # Errors
    /// Those of packing; `ERR_UNREACH` before the partner has come, `ERR_LOST_CONNECTION` after it has ended.
    fn ask(&mut self, pending: Pending, message: impl FnOnce(u64) -> Message) -> Result<(), Status> {
        match self.state {
            State::Awaited => return Err(Status::ERR_UNREACH),
            State::Lost => return Err(Status::ERR_LOST_CONNECTION),
            State::Here => {}
        }
        self.last += 1;
        self.frames.push(message(self.last).frame()?);
        self.pending.insert(self.last, pending);
        Ok(())
    }

    /// Sends the result of a request of the partner; what is too large for it, or for the memory, is a failure.
    fn send_result(&mut self, id: u64, status: Status, data: Vec<u8>) {
        if let Err(status) = self.try_send(&Message::Result { id, status, data }) {
            self.send(&Message::Result { id, status, data: Vec::new() });
        }
    }

    /// Takes the upcalls that have these results, and sends the partner its own. Both under one lock: once the partner has a result,
    /// neither its end nor a time limit changes that of the other side.
    fn take_all_answered(&mut self, outcomes: Vec<Outcome>) -> Vec<Answered> {
        let mut answered = Vec::new();
        for Outcome { side, id, status, data } in outcomes {
            match side {
                Side::Own => answered.extend(self.take_answered(id, status, data)),
                Side::Partner => self.send_result(id, status, data),
            }
        }
        answered
    }

    /// Forgets connections that end with a job: those without processes of one of the clusters.
    fn forget_connections(&mut self) {
        let Shared { connected, jobs, their_jobs, .. } = self;
        connected.retain(|(procs, _), _| {
            procs.iter().any(|proc| jobs.contains_key(&proc.nspace))
                && procs.iter().any(|proc| their_jobs.contains(&proc.nspace))
        });
    }

    /// Takes the upcall that has this result, and notes who is connected from now on; `None` for one that has been answered.
    fn take_answered(&mut self, id: u64, status: Status, data: Vec<u8>) -> Option<Answered> {
        let pending = self.pending.remove(&id)?;
        if let Pending::Collective { round, lets_end, .. } = &pending
            && status.is_success()
        {
            let key = key_of(round);
            match round.operation {
                Operation::Fence => {}
                Operation::Connect => {
                    let (may_end, count) = self.connected.entry(key).or_insert((true, 0));
                    (*may_end, *count) = (*may_end && *lets_end, *count + 1);
                }
                Operation::Disconnect => {
                    if let Some((_, count)) = self.connected.get_mut(&key) {
                        *count -= 1;
                    }
                    self.connected.retain(|_, (_, count)| *count > 0);
                }
            }
        }
        Some(Answered { pending, status, data })
    }
}

/// The connected processes of an operation, and its directive that holds for later ones.
fn key_of(round: &Round) -> Members {
    let mut procs = round.procs.clone();
    procs.sort_unstable();
    procs.dedup();
    (procs, round.id.clone())
}

/// The values and the terms of a publication that the partner is told of.
fn for_partner(names: &Names, infos: &[Info]) -> Result<Vec<Info>, Status> {
    let mut infos = Info::copies(infos)?;
    infos.retain(|info| !info.key.is(keys::USERID) && !info.key.is(keys::GRPID));
    infos.iter_mut().filter(|info| info.key.is(keys::EVENT_CUSTOM_RANGE)).for_each(|range| {
        names.infos_on_link(std::slice::from_mut(range));
    });
    Ok(infos)
}
