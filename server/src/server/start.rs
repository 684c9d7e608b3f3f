//! The start of a server: settings, listener, thread, rendezvous files.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use parking_lot::Mutex;
use pmix_client::Client;
use pmix_client::output::Format;
use pmix_client::socket_owner::SocketTable;
use pmix_dstore::fallible_alloc::{self, Thread};
use pmix_dstore::log::{Level, Target};
use pmix_dstore::model::{Info, Result, Status, keys};
use pmix_dstore::settings;

use super::Server;
use crate::Host;
use crate::config::{self, Config};
use crate::env;
use crate::io::{Listeners, Loop};
use crate::leftovers::{self, Leftover};
use crate::link::OwnLink;
use crate::log::{log, log_at};
use crate::remote::{self, Munge};
use crate::rendezvous::Rendezvous;
use crate::restart::{self, CONNECTIONS_OF_LIFE, Estates};
use crate::shared_state::SharedState;
use crate::topology;

/// Logs the step at which a server could not start, and returns the status for its host.
fn did_not_start(step: &str, error: impl Into<io::Error>) -> Status {
    let error = error.into();
    log_at(Level::Error, Target::Server, &format!("cannot start: {step}: {error}"));
    Status::ERR_OUT_OF_RESOURCE
}

/// The settings. Attributes that are refused are logged.
///
/// # Errors
/// As [`Config::read`]; `NOT_SUPPORTED` if the host requires an attribute that is refused.
fn accepted_config(infos: &[Info]) -> Result<Config> {
    let config = Config::read(infos)?;
    let (refused, is_needed) = config::refused(infos);
    refused.iter().for_each(|line| log(line));
    if is_needed { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(config) }
}

/// The listener on the loopback interface, and its port; `port` 0 is any.
fn listen(port: u16) -> Result<(TcpListener, u16)> {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|error| did_not_start(&format!("listen on 127.0.0.1, port {port}"), error))?;
    let port = tcp.local_addr().map_err(|error| did_not_start("read the listener's port", error))?.port();
    Ok((tcp, port))
}

/// The listeners for tools on other hosts, if both the host and the administrator want them. Without them the job runs
/// all the same, unless the host requires them.
///
/// # Errors
/// `NOT_SUPPORTED`: the host requires them.
fn listen_remote(config: &Config, munge: &Munge, is_required: bool) -> Result<Vec<TcpListener>> {
    let listeners = remote::listen(config, munge, Path::new(remote::LIST), |line| log(&line));
    let none = match listeners {
        Ok(listeners) if !listeners.is_empty() || !is_required => return Ok(listeners),
        Ok(_) if !config.rendezvous.wants_tools() => "the host takes no tools at all".to_owned(),
        Ok(_) => format!("the administrator has named no interface in {}", remote::LIST),
        Err(why) => why,
    };
    log(&format!("tools on other hosts cannot connect: {none}; remove the cause and restart the server"));
    if is_required { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(Vec::new()) }
}

/// Finds out who tells whose a connection over loopback is: the kernel, or else munge.
fn who_tells_of_loopback(config: &mut Config, munge: &Munge) -> SocketTable {
    let table = SocketTable::open();
    if !table.is_there() {
        let munge = munge.works();
        config.munge_for_loopback = munge.is_ok();
        let line = match munge {
            Ok(()) => "the kernel does not tell whose a connection over TCP is; munge does".to_owned(),
            Err(why) => format!("neither the kernel nor munge tells whose a connection over TCP is: {why}"),
        };
        log_at(Level::Info, Target::Server, &line);
    }
    table
}

/// What servers that were killed have left for this one.
fn inherited(config: &mut Config) -> Estates {
    let estates = match config.restart {
        Some(_) if config.shared_memory => restart::find(&config.server_tmpdir, &config.lasting_name),
        _ => Estates::default(),
    };
    config.life = estates.life;
    estates
}

/// Starts the server's thread, which serves the listeners; `connections` is the number of earlier ones.
fn start_thread(shared: &Arc<SharedState>, listeners: Listeners, connections: u64) -> Result<Thread> {
    let serving = Loop::new(shared.clone(), listeners, connections)
        .map_err(|error| did_not_start("watch the listeners", error))?;
    let own = shared.clone();
    // The host's signals are for the host's threads: ours is born with all of them blocked.
    let blocked = |error| did_not_start("block signals", error);
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(blocked)?;
    let thread = fallible_alloc::spawn("pmix-server", move || {
        own.begin_thread();
        drop(own);
        serving.run();
    });
    mask.thread_set_mask().map_err(blocked)?;
    thread.map_err(|error| did_not_start("start a thread", error))
}

impl Server {
    /// Starts a server: its listener, its thread, and its own client.
    ///
    /// `infos` are the attributes of `PMIx_server_init`. The machine's topology as XML among them (`PMIX_HWLOC_XML_V2`, `PMIX_HWLOC_XML_V1`,
    /// `PMIX_LOCAL_TOPO`) becomes a value of all jobs, unless their registration has it; with `PMIX_SERVER_SHARE_TOPOLOGY` the server reads it.
    ///
    /// # Errors
    /// `BAD_PARAM` for attributes of a wrong type, `NOT_SUPPORTED` for one that is refused and marked as required,
    /// `OUT_OF_RESOURCE` if there are no descriptors or threads or the port is in use, `NOMEM`;
    /// `INIT` if the URI cannot be reported as the host requests. A logged line names the step that failed, with the system's error.
    pub fn init(host: Arc<dyn Host>, infos: &[Info]) -> Result<Arc<Server>> {
        Server::start(host, infos, 0)
    }

    /// As [`Server::init`], for a server that had `connections` connections before.
    pub(super) fn start(host: Arc<dyn Host>, infos: &[Info], connections: u64) -> Result<Arc<Server>> {
        // First, because the host may still have one thread.
        pmix_client::process::prepare();
        fallible_alloc::reserve_emergency()?;
        let mut config = Config { stock_release: host.stock_release(), ..accepted_config(infos)? };
        let format = Format::read(infos)?;
        // Before the thread starts: an error must not leave it running.
        let topology = topology::values(infos, log)?;
        let (tcp, port) = listen(config.port)?;
        let munge = Munge::new(config.uid, config.gid);
        let table = who_tells_of_loopback(&mut config, &munge);
        let remote = listen_remote(&config, &munge, config::requires_remote(infos))?;
        let addresses: Vec<SocketAddr> = remote.iter().filter_map(remote::address_of).collect();
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(|error| did_not_start("open an eventfd", error))?;
        let (me, hostname) = (config.me.clone(), config.hostname.clone());
        let (accepted, uri) = (config.clone(), env::uri(&config, port));
        let shared_memory = if config.shared_memory { "on" } else { "off" };
        let line = format!("listens at 127.0.0.1:{port}; shared memory is {shared_memory}");
        log_at(Level::Info, Target::Server, &line);
        for address in &addresses {
            let line = format!("listens for tools on other hosts at {}", env::uri_at(&me, *address));
            log_at(Level::Info, Target::Server, &line);
        }
        for complaint in settings::complaints() {
            log_at(Level::Warn, Target::Server, &complaint);
        }
        let estates = inherited(&mut config);
        let connections = connections + u64::from(config.life) * CONNECTIONS_OF_LIFE;
        let shared = SharedState::new(config, port, host, wake);
        shared.inherit(estates);
        if let Some(singleton) = &accepted.singleton {
            // It may connect before the host registers its job.
            shared.engine.lock().register_client(singleton, accepted.uid, accepted.gid, 0).ok()?;
        }
        let link = Arc::new(OwnLink(Arc::downgrade(&shared)));
        let client = Arc::new(Client::with_link(me.clone(), hostname.clone().into_bytes(), uri, link));
        shared.set_client(&client);
        let thread = Mutex::new(Some(start_thread(&shared, Listeners { tcp, table, remote }, connections)?));
        let shows_output = Info::is_set(infos, keys::IOF_LOCAL_OUTPUT);
        if shows_output {
            client.show_output(format);
        }
        let rendezvous = Mutex::default();
        let pid = std::process::id();
        let server = Server { shared, client, me, hostname, thread, topology, shows_output, rendezvous, pid };
        Server::sweep(&accepted);
        // Only now, so that readers of the files find a server that answers.
        server.report_address(&accepted, port, &addresses)?;
        Ok(Arc::new(server))
    }

    /// Removes what servers that were killed have left where this one puts its files.
    fn sweep(config: &Config) {
        let session = leftovers::sweep(&config.server_tmpdir, &config.hostname, Some(&config.lasting_name));
        for Leftover { path, reason, outcome, .. } in
            session.into_iter().chain(leftovers::sweep_system(&config.system_tmpdir, &config.hostname))
        {
            let line = format!("{} was left behind: {reason}; {outcome}", path.display());
            log_at(Level::Info, Target::Server, &line);
        }
    }

    /// Writes the rendezvous files, and reports the address where the host wants it.
    fn report_address(&self, config: &Config, port: u16, remote: &[SocketAddr]) -> Result<()> {
        let opened = Rendezvous::open(config, port, remote, |line| self.shared.log(&line));
        *self.rendezvous.lock() = opened.map_err(|(path, error)| {
            let path = path.display();
            self.shared.log(&format!("{path}: {error}; the address of this server cannot be reported there"));
            Status::ERR_INIT
        })?;
        Ok(())
    }

    /// The address for tools on this node.
    pub fn uri(&self) -> String {
        self.rendezvous.lock().uri().to_owned()
    }

    /// As `PMIX_TCP_REPORT_URI` of [`Server::init`], later: when those who wait for the address may come. The file is removed with the
    /// server.
    ///
    /// # Errors
    /// The system's, where it cannot be written.
    pub fn report_uri(&self, target: &str) -> io::Result<()> {
        self.rendezvous.lock().report(target)
    }
}
