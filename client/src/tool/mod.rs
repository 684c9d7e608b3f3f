//! Tools: processes that choose the server they connect to, and may be connected to several.
//!
//! A tool is a [`Client`] whose link can switch between servers ([`Servers`]). A launched client has none of this
//! overhead.

mod explain;
mod find;
mod listener;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pmix_dstore::codec::{BufferType, Dialect, Module};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Result, Status, Value, keys};

use self::find::{Candidate, ToolTarget};
use crate::channel::{Channel, Offline, Reached, Sink, credentials_of_tool};
use crate::client::{Client, ClientKind, Inner, job_info, sink};
pub use crate::discovery::{FoundServer, ServerKind, ended, has_ended, servers, servers_and_left_out};
use crate::forked::is_child;
use crate::get_options::timeout_of;
use crate::output::Format;
use crate::rendezvous::Contact;
use crate::trusted::Trusted;
use crate::{Environment, Link, ReplyFn, Returned, Task, singleton};
use pmix_wire::reply::StatusReply;
use pmix_wire::{PeerKind, Reply, Request, Version};

/// The time limit for connecting to a server.
const CONNECT_TIME: Duration = Duration::from_secs(30);
/// The time limit for the answer to a finalize.
const FINALIZE_TIME: Duration = Duration::from_secs(10);

/// The time limit for connecting to the debugger that has started this process. It is short, because the debugger
/// listens already.
const RENDEZVOUS_TIME: Duration = Duration::from_secs(2);

/// The servers of a tool. As a link it is the connection to the current server.
pub struct Servers {
    links: Mutex<Links>,
    /// The link that is used without a current server.
    offline: Offline,
    env: Environment,
    me: OnceLock<Proc>,
    kind: Kind,
    /// The caller's attributes for the server that this tool may become.
    for_server: Vec<Info>,
    client: Arc<OnceLock<Weak<Inner>>>,
    /// Whether the tool was connected in `PMIx_tool_init`. If so, its client sends the finalize to the current server.
    is_client: OnceLock<bool>,
}

#[derive(Default)]
struct Links {
    /// The first one is the current server, unless `none_in_use`.
    all: Vec<(Proc, Arc<dyn Link>)>,
    /// The tool uses no server, although it may be connected to some.
    none_in_use: bool,
}

impl Links {
    fn in_use(&self) -> Option<&(Proc, Arc<dyn Link>)> {
        self.all.first().filter(|_| !self.none_in_use)
    }
}

/// The kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tool,
    Launcher,
}

impl Kind {
    fn in_handshake(self, has_name: bool, was_launched: bool) -> PeerKind {
        match (self, has_name, was_launched) {
            (Kind::Tool, _, true) => PeerKind::ToolClient,
            (Kind::Tool, true, _) => PeerKind::ToolWithId,
            (Kind::Tool, false, _) => PeerKind::Tool,
            (Kind::Launcher, _, true) => PeerKind::LauncherClient,
            (Kind::Launcher, true, _) => PeerKind::LauncherWithId,
            (Kind::Launcher, false, _) => PeerKind::Launcher,
        }
    }
}

/// Connects this process as a tool. `infos` are the attributes of `PMIx_tool_init`; the environment provides defaults.
/// A launcher that a debugger has started waits for the debugger's release.
///
/// # Errors
/// `UNREACH` if the debugger that the environment names cannot be reached, or if no server is found or none accepts the
/// tool, unless the connection is optional; `TIMEOUT`; `BAD_PARAM`; `NOMEM`.
pub fn connect(env: Environment, infos: &[Info]) -> Result<(Client, Arc<Servers>)> {
    let wanted = ToolTarget::read(infos)?;
    let own = own_name(&env, infos)?;
    let format = Format::read(infos)?;
    let is_launcher = Info::is_set(infos, keys::LAUNCHER);
    let kind = if is_launcher { Kind::Launcher } else { Kind::Tool };
    let servers = Arc::new(Servers {
        links: Mutex::default(),
        offline: Offline::new()?,
        me: own.clone().map(OnceLock::from).unwrap_or_default(),
        kind,
        for_server: infos_for_server(infos)?,
        client: Arc::default(),
        is_client: OnceLock::new(),
        env,
    });
    if !wanted.do_not_connect {
        match servers.attach(&wanted, timeout_of(infos), true) {
            Err(Status::ERR_UNREACH | Status::ERR_TIMEOUT) if wanted.is_optional => {}
            attached => drop(attached?),
        }
    }
    let me = servers.me.get_or_init(|| name_alone(&servers.env)).clone();
    let job = servers.job(&me)?;
    let is_client = *servers.is_client.get_or_init(|| !servers.all().is_empty());
    let kind = if is_client { ClientKind::Launched } else { ClientKind::Singleton };
    let hostname = servers.env.hostname.clone();
    let client =
        Client::with_servers(me, kind, hostname, servers.clone(), job, &servers.client, servers.env.shared_memory);
    client.show_output(format);
    if let Some(uri) = &servers.env.launcher_rendezvous {
        servers.meet_debugger(&client, uri, timeout_of(infos)).inspect_err(|_| servers.close())?;
    }
    Ok((client, servers))
}

/// The attributes that say by which files other tools find the server that this tool may become.
fn infos_for_server(infos: &[Info]) -> Result<Vec<Info>> {
    const OF_SERVER: [&str; 6] = [
        keys::SERVER_TOOL_SUPPORT,
        keys::SERVER_SESSION_SUPPORT,
        keys::SERVER_SYSTEM_SUPPORT,
        keys::SERVER_TMPDIR,
        keys::SYSTEM_TMPDIR,
        keys::TCP_REPORT_URI,
    ];
    let mut infos = Info::copies(infos)?;
    infos.retain(|info| OF_SERVER.iter().any(|key| info.key.is(key)));
    Ok(infos)
}

/// The tool's name if it is given: by the caller, or by the server that launched the tool.
fn own_name(env: &Environment, infos: &[Info]) -> Result<Option<Proc>> {
    let find = |key: &str| Info::find(infos, key);
    match (find(keys::TOOL_NSPACE), find(keys::TOOL_RANK)) {
        (Some(nspace), rank) => {
            let nspace =
                Nspace::new(nspace.as_text().ok_or(Status::ERR_BAD_PARAM)?).map_err(|_| Status::ERR_BAD_PARAM)?;
            let rank = match rank {
                // The tool is the only process of its namespace.
                None => Rank(0),
                Some(Value::Rank(rank)) => *rank,
                Some(other) => Rank(other.as_u32().ok_or(Status::ERR_BAD_PARAM)?),
            };
            Ok(Some(Proc::new(nspace, rank)))
        }
        (None, None) => Ok(env.nspace.clone().zip(env.rank).map(|(nspace, rank)| Proc::new(nspace, rank))),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Writes one line for the tool's user.
fn complain(line: String) {
    log::write(Level::Warn, Target::Tool, Writer::Tool, format_args!("{line}"));
}

/// The name of a tool without a given name, in the form of released libraries.
fn name_alone(env: &Environment) -> Proc {
    let mut name = env.hostname[..env.hostname.len().min(200)].to_vec();
    name.retain(|byte| *byte != 0);
    name.extend_from_slice(format!(":{}", std::process::id()).as_bytes());
    Proc::new(Nspace::new(name).expect("shorter than the limit, and without a NUL"), Rank(0))
}

/// The encoder for a server of this release; by default the newest that this library supports.
fn module_for(version: &str) -> Module {
    match Version::parse(version) {
        Some(version) if version < Version::new(2, 1, 0) => Module::V20,
        Some(version) if version < Version::new(3, 0, 0) => Module::V21,
        Some(version) if version < Version::new(4, 0, 0) => Module::V3,
        Some(version) if version < Version::new(4, 1, 0) => Module::V4,
        _ => Module::V41,
    }
}

impl Servers {
    /// Connects to one more server. It becomes the current server if it is the first, or with `PMIX_PRIMARY_SERVER`. The
    /// event handlers of this process hear of its events, too.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn attach_to(&self, infos: &[Info]) -> Result<Proc> {
        let is_primary = Info::is_set(infos, keys::PRIMARY_SERVER);
        let server = self.attach(&ToolTarget::read(infos)?, timeout_of(infos), is_primary)?;
        self.register_events(&server)?;
        Ok(server)
    }

    /// Tells a connected server what the event handlers of this process want to hear.
    fn register_events(&self, server: &Proc) -> Result<()> {
        let link = self.links.lock().all.iter().find(|(other, _)| other == server).map(|(_, link)| Arc::clone(link));
        let client = self.client.get().and_then(Weak::upgrade);
        client.zip(link).map_or(Ok(()), |(client, link)| client.register_events_at(&*link))
    }

    fn attach(&self, wanted: &ToolTarget, timeout: Option<Duration>, is_primary: bool) -> Result<Proc> {
        let deadline = Instant::now() + timeout.unwrap_or(CONNECT_TIME);
        let trusted = Trusted::of_node(complain);
        let mut left = wanted.retries;
        let (server, channel) = loop {
            match self.try_in_turn(wanted, &trusted, deadline) {
                Err(Status::ERR_UNREACH) if left > 0 && Instant::now() + wanted.delay < deadline => {
                    left -= 1;
                    thread::sleep(wanted.delay);
                }
                Err(Status::ERR_UNREACH) => {
                    if !wanted.is_optional {
                        explain::lines(wanted, &self.env, &trusted).into_iter().for_each(complain);
                    }
                    return Err(Status::ERR_UNREACH);
                }
                other => break other?,
            }
        };
        let channel: Arc<dyn Link> = Arc::new(channel);
        // Starts the callback thread, so that messages which are not replies are received at once: a tool may only wait
        // for events or output.
        channel.defer(Box::new(|| {}));
        let mut links = self.links.lock();
        links.none_in_use &= !(is_primary || links.all.is_empty());
        let place = if is_primary { 0 } else { links.all.len() };
        links.all.insert(place, (server.clone(), channel));
        Ok(server)
    }

    /// Attaches to the debugger that has started this process as a launcher, and waits for its release. Then the
    /// previous server becomes the current one again.
    fn meet_debugger(&self, client: &Client, uri: &str, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let before = self.links.lock().in_use().map(|(server, _)| server.clone());
        let wanted = ToolTarget::at(uri);
        let debugger = match self.attach(&wanted, Some(RENDEZVOUS_TIME), true) {
            // The tool is connected to it already.
            Err(Status::ERR_EXISTS) => {
                let known = wanted.proc().ok_or(Status::ERR_UNREACH)?;
                self.choose(&known, &[]).map(|()| known)
            }
            attached => attached,
        };
        let debugger = debugger.map_err(|_| Status::ERR_UNREACH)?;
        client.store_internal(client.me(), keys::PARENT_ID.into(), Value::Proc(debugger))?;
        client.inner.local.reply_cache.add_job(self.job(client.me())?, false)?;
        client.wait_for_release(deadline, false)?;
        match before {
            Some(server) => self.choose(&server, &[]),
            None => {
                self.links.lock().none_in_use = true;
                Ok(())
            }
        }
    }

    /// Connects to the first matching server that accepts the tool.
    ///
    /// # Errors
    /// `TIMEOUT` if the files are not read in time; `UNREACH` if there is none; the error of the first server that answered with one;
    /// `NO_PERMISSIONS` if an untrusted user listens at a server's address: then no other server is tried.
    fn try_in_turn(&self, wanted: &ToolTarget, trusted: &Trusted, deadline: Instant) -> Result<(Proc, Channel)> {
        let mut candidates = wanted.candidates(&self.env);
        let mut refused = Status::ERR_UNREACH;
        candidates.reverse();
        while let Some(candidate) = candidates.pop() {
            let contact = match wanted.look(candidate, &self.env, trusted, deadline) {
                Err(Status::ERR_UNREACH) => continue,
                contact => contact?,
            };
            if self.links.lock().all.iter().any(|(server, _)| *server == contact.uri.proc) {
                return Err(Status::ERR_EXISTS);
            }
            // Uses only half of the remaining time, so that a silent server leaves time for the other candidates.
            let left = deadline.saturating_duration_since(Instant::now());
            let until = if candidates.is_empty() { deadline } else { deadline - left / 2 };
            let Ok(reached) = Reached::at(contact.uri.address, until) else { continue };
            listener::check(&contact, trusted, complain)?;
            match self.introduce(reached, &contact, wanted, candidate == Candidate::Launcher, until) {
                Err(error) if matches!(error, Status::ERR_NOMEM | Status::ERR_BAD_PARAM) => return Err(error),
                Err(error) if refused == Status::ERR_UNREACH => refused = error,
                Err(_) => {}
                connected => return connected,
            }
        }
        Err(refused)
    }

    /// Does the handshake with a server. To the server that launched it, this process connects as a client.
    fn introduce(
        &self,
        reached: Reached,
        contact: &Contact,
        wanted: &ToolTarget,
        is_launcher: bool,
        deadline: Instant,
    ) -> Result<(Proc, Channel)> {
        let me = self.me.get();
        let was_launched = is_launcher && self.env.nspace.is_some();
        let kind = self.kind.in_handshake(me.is_some(), was_launched);
        let mut env = self.env.clone();
        env.server = Some(contact.uri.clone());
        env.server_version.clone_from(&contact.version);
        env.module = module_for(&contact.version);
        env.buffer = if was_launched { env.buffer } else { BufferType::NonDescribed };
        let sink: Sink = sink(Arc::clone(&self.client));
        // The server that launched this process needs no proof: it knows the process by name.
        let proof = contact.read_proof().filter(|_| !was_launched);
        let infos = handshake_infos(&wanted.others, self.kind)?;
        let mut lack = None;
        let shown = credentials_of_tool(&env, &contact.uri, proof, deadline, |line| lack = Some(line));
        let (mut reached, mut refused) = (Some(reached), Status::ERR_UNREACH);
        for (number, credential) in
            shown.inspect_err(|_| lack.take().into_iter().for_each(complain))?.into_iter().enumerate()
        {
            let reached = reached.take().map_or_else(|| Reached::at(contact.uri.address, deadline), Ok)?;
            let infos = Info::copies(&infos)?;
            match reached.introduce(&env, kind, me, (credential, infos), deadline, &sink) {
                Ok((channel, reply)) => {
                    if let Some(assigned) = reply.assigned {
                        self.me.get_or_init(|| assigned);
                    }
                    return Ok((reply.server, channel));
                }
                Err(error) if number == 0 => refused = error,
                Err(_) => {}
            }
        }
        lack.into_iter().for_each(complain);
        Err(refused)
    }

    /// The data of this process's job: those of the current server, and what the process knows itself.
    fn job(&self, me: &Proc) -> Result<JobData> {
        let link = self.links.lock().in_use().map(|(_, link)| link.clone());
        let job = match link.map(|link| job_info(&*link, me, Instant::now() + CONNECT_TIME)) {
            // Other errors mean that no job of that name is registered.
            Some(Err(Status::ERR_NOMEM)) => return Err(Status::ERR_NOMEM),
            job => job.and_then(Result::ok).unwrap_or_else(|| JobData::new(me.nspace.clone())),
        };
        singleton::complete(job, me, &self.env.hostname)
    }

    /// The attributes of `PMIx_tool_init` for the server that this tool may become.
    pub fn infos_for_server(&self) -> &[Info] {
        &self.for_server
    }

    /// Whether the tool starts jobs.
    pub fn is_launcher(&self) -> bool {
        self.kind == Kind::Launcher
    }

    /// Whether there is a current server.
    pub fn is_connected(&self) -> bool {
        self.links.lock().in_use().is_some()
    }

    /// The servers, the current one first.
    pub fn all(&self) -> Vec<Proc> {
        self.links.lock().all.iter().map(|(server, _)| server.clone()).collect()
    }

    /// Makes a connected server the current one, and tells it what the event handlers want to hear: those that were
    /// registered since it was connected have told another server. With `PMIX_WAIT_FOR_CONNECTION` this waits until another thread has
    /// connected to it, at most until `PMIX_TIMEOUT`. If the tool names itself, it uses no server.
    ///
    /// # Errors
    /// `UNREACH`, `TIMEOUT`.
    pub fn choose(&self, server: &Proc, infos: &[Info]) -> Result<()> {
        let waits = Info::is_set(infos, keys::WAIT_FOR_CONNECTION);
        let deadline = Instant::now() + timeout_of(infos).unwrap_or(CONNECT_TIME);
        loop {
            let found =
                self.links.lock().all.iter().find(|(other, _)| server.covers(other)).map(|(name, _)| name.clone());
            if let Some(name) = &found {
                self.register_events(name)?;
            }
            let mut links = self.links.lock();
            // Another thread may have left the server meanwhile.
            if let Some(place) = links.all.iter().position(|(other, _)| Some(other) == found.as_ref()) {
                links.all[..=place].rotate_right(1);
                links.none_in_use = false;
                return Ok(());
            }
            if self.me.get() == Some(server) {
                links.none_in_use = true;
                return Ok(());
            }
            drop(links);
            match waits {
                false => return Err(Status::ERR_UNREACH),
                true if Instant::now() >= deadline => return Err(Status::ERR_TIMEOUT),
                true => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Sends a finalize to a server and closes the connection.
    ///
    /// # Errors
    /// `NOT_FOUND` if the tool is not connected to it, `BAD_PARAM` for an empty name.
    pub fn leave(&self, server: &Proc) -> Result<()> {
        if server.nspace.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let mut links = self.links.lock();
        let place = links.all.iter().position(|(other, _)| other == server).ok_or(Status::ERR_NOT_FOUND)?;
        let (_, link) = links.all.remove(place);
        drop(links);
        finalize(&*link);
        // Not here: the caller may hold a lock that a callback takes.
        link.close_and_leave().into_iter().for_each(|task| self.defer(task));
        Ok(())
    }

    fn with<R>(&self, run: impl FnOnce(&dyn Link) -> R) -> R {
        // A child has none, and might find the lock taken.
        let link = if is_child() { None } else { self.links.lock().in_use().map(|(_, link)| link.clone()) };
        match link {
            Some(link) => run(&*link),
            None => run(&self.offline),
        }
    }
}

/// Sends a finalize. Errors are ignored: the caller could not act on them.
fn finalize(link: &dyn Link) {
    let request = Request::Finalize.encode(link.dialect(), link.server_version());
    let answer = request.and_then(|request| link.request_wait(request.into(), Some(Instant::now() + FINALIZE_TIME)));
    let _ = answer.and_then(|answer| StatusReply::decode(link.dialect(), link.server_version(), &answer));
}

/// The infos of the handshake: the caller's, and those about this process.
fn handshake_infos(infos: &[Info], kind: Kind) -> Result<Vec<Info>> {
    /// Attributes that only this side uses, or that the handshake carries in other fields.
    const OURS: [&str; 6] = [
        keys::TOOL_NSPACE,
        keys::TOOL_RANK,
        keys::PRIMARY_SERVER,
        keys::WAIT_FOR_CONNECTION,
        keys::TIMEOUT,
        keys::LAUNCHER,
    ];
    let mut all = Info::copies(infos)?;
    all.retain(|info| !OURS.iter().any(|key| info.key.is(key)));
    all.push(Info::new(keys::PROC_PID, Value::Pid(std::process::id() as i32)));
    if kind == Kind::Launcher {
        all.push(Info::new(keys::LAUNCHER, Value::Bool(true)));
    }
    let line: Vec<OsString> = std::env::args_os().collect();
    let line: Vec<Vec<u8>> = line.into_iter().map(OsStringExt::into_vec).collect();
    let mut line = line.join(&b' ');
    // The size of a handshake is limited.
    line.truncate(4096);
    all.push(Info::new(keys::CMD_LINE, Value::string(line)));
    Ok(all)
}

impl Link for Servers {
    fn ready(&self) -> Result<()> {
        self.with(|link| link.ready())
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        self.with(|link| link.request(payload, reply));
    }

    fn request_until(&self, payload: Vec<u8>, deadline: Option<Instant>, reply: ReplyFn) {
        self.with(|link| link.request_until(payload, deadline, reply));
    }

    fn is_callback_thread(&self) -> bool {
        self.with(|link| link.is_callback_thread())
    }

    fn request_wait(&self, payload: GatherBuf, deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.with(|link| link.request_wait(payload, deadline))
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.with(|link| link.send(payload))
    }

    fn beat(&self) -> Result<()> {
        self.with(|link| link.beat())
    }

    fn defer(&self, task: Task) {
        self.with(|link| link.defer(task));
    }

    /// All of them: each server may send events.
    fn progress(&self) {
        let all = self.links.lock().all.clone();
        all.iter().for_each(|(_, link)| link.progress());
        self.offline.progress();
    }

    fn after(&self, returned: Returned, task: Task) {
        self.with(|link| link.after(returned, task));
    }

    fn dialect(&self) -> Dialect {
        self.with(|link| link.dialect())
    }

    fn server_version(&self) -> Version {
        self.with(|link| link.server_version())
    }

    fn is_ours(&self) -> bool {
        self.with(|link| link.is_ours())
    }

    fn has_server(&self) -> bool {
        self.is_connected()
    }

    fn further(&self) -> Vec<Arc<dyn Link>> {
        let links = self.links.lock();
        let in_use = usize::from(links.in_use().is_some());
        links.all.iter().skip(in_use).map(|(_, link)| Arc::clone(link)).collect()
    }

    /// The current server may have got its finalize from the client already.
    fn close(&self) {
        // First of all: callbacks that run below may make calls, whose own callbacks must not wait for a thread of this link.
        self.offline.close();
        let (all, none_in_use) = {
            let links = self.links.lock();
            (links.all.clone(), links.none_in_use)
        };
        for (place, (_, link)) in all.iter().enumerate() {
            let is_finalized = place == 0 && !none_in_use && self.is_client.get() == Some(&true);
            if !is_finalized {
                finalize(&**link);
            }
            // Output that is left is read with the dialect of the link in use.
            link.close();
        }
        *self.links.lock() = Links::default();
    }
}

#[cfg(test)]
mod tests;
