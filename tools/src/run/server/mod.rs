//! The launcher's server: in this process, or with `--restart` in a process of its own, which is started again when it is killed.
//!
//! ```text
//!   launcher                              server's process (pmixrun --server-process PID)
//!   Supervisor -> Serving::Restartable  ---- orders ---->  Server     <-- sockets, shared memory -->  ranks, tools
//!   RunHost    <- reader thread   <--- upcalls ----  Forwarder
//!   Completion -> Relay           ---- answers --->  Completion
//! ```
//!
//! All that must outlive a server is in the launcher: jobs, published values, and what each server must be told (`registrations`).

mod calls;
mod fields;
mod history;
mod life;
mod message;
pub mod process;
mod registrations;
mod restartable;
mod results;

use std::ffi::{CString, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use pmix_client::{EventDone, HandlerId};
use pmix_dstore::model::{Info, Nspace, Proc, Status, Value, keys};
use pmix_server::{Server, Stats, Waiting};

use self::life::Start;
use self::message::{Order, Reply};
use self::restartable::{Lost, Restartable, variables};
use super::host::{HEARD, RunHost};

/// How long a server may take to say what its processes wait for, which somebody wants to know who is about to end them.
const WAITING_PATIENCE: Duration = Duration::from_secs(2);

/// The server of a launcher.
pub(super) enum Serving {
    /// In this process.
    Here(Arc<Server>),
    /// In a process of its own.
    Restartable(Box<Restartable>),
}

impl Serving {
    /// Starts the server in this process.
    ///
    /// # Errors
    /// A message for the user.
    pub fn here(host: Arc<RunHost>, infos: &[Info]) -> Result<Serving, String> {
        let server =
            Server::init(host.clone(), infos).map_err(|status| format!("the server did not start: {status}"))?;
        hear(&server, move |event| host.heard(event.status, &event.source, &event.infos))?;
        Ok(Serving::Here(server))
    }

    /// Starts the server in a process of its own. When that one is killed, ranks wait so many seconds for the next one. `lock` is that of the
    /// launcher's directory.
    ///
    /// # Errors
    /// A message for the user.
    pub fn restartable(
        host: Arc<RunHost>,
        mut infos: Vec<Info>,
        seconds: u32,
        lock: OwnedFd,
    ) -> Result<Serving, String> {
        // The variable would not count where this launcher is itself a rank.
        infos.push(Info::new(keys::DSTORE_RESTART, Value::Uint32(seconds)));
        let start = Start { variables: variables(seconds), lock };
        Restartable::begin(host, start, infos).map(|restartable| Serving::Restartable(Box::new(restartable)))
    }

    /// The server of this process, for who needs more than launchers do.
    pub fn in_this_process(&self) -> Option<&Arc<Server>> {
        match self {
            Serving::Here(server) => Some(server),
            Serving::Restartable(_) => None,
        }
    }

    pub fn register_nspace(&self, nspace: Nspace, size: u32, infos: Vec<Info>) -> Status {
        match self {
            Serving::Here(server) => server.register_nspace(nspace, size as i32, infos, None),
            Serving::Restartable(restartable) => restartable.register(Order::RegisterNspace { nspace, size, infos }),
        }
    }

    pub fn deregister_nspace(&self, nspace: &Nspace) {
        match self {
            Serving::Here(server) => {
                let _ = server.deregister_nspace(nspace, None);
            }
            Serving::Restartable(restartable) => restartable.forget(Order::DeregisterNspace { nspace: nspace.clone() }),
        }
    }

    pub fn register_client(&self, proc: Proc, uid: u32, gid: u32, object: u32) -> Status {
        match self {
            Serving::Here(server) => server.register_client(proc, uid, gid, object as usize, None),
            Serving::Restartable(restartable) => {
                restartable.register(Order::RegisterClient { proc, uid, gid, object: u64::from(object) })
            }
        }
    }

    pub fn deregister_client(&self, proc: &Proc) {
        match self {
            Serving::Here(server) => {
                let _ = server.deregister_client(proc, None);
            }
            Serving::Restartable(restartable) => restartable.forget(Order::DeregisterClient { proc: proc.clone() }),
        }
    }

    /// # Errors
    /// The server's, and `ERR_LOST_CONNECTION` where there is none any more.
    pub fn setup_fork(&self, proc: &Proc) -> Result<Vec<(String, OsString)>, Status> {
        match self {
            Serving::Here(server) => server.setup_fork(proc),
            Serving::Restartable(restartable) => match restartable.ask(&Order::SetupFork { proc: proc.clone() }) {
                Ok(Reply::Variables(variables)) => Ok(variables),
                Ok(Reply::Status(status)) => Err(status),
                Ok(_) => Err(Status::ERROR),
                Err(Lost) => Err(Status::ERR_LOST_CONNECTION),
            },
        }
    }

    pub fn define_process_set(&self, name: CString, members: Vec<Proc>) -> Status {
        match self {
            Serving::Here(server) => server.define_process_set(name, members),
            Serving::Restartable(restartable) => restartable.register(Order::DefineSet { name, members }),
        }
    }

    pub fn delete_process_set(&self, name: CString) {
        match self {
            Serving::Here(server) => {
                let _ = server.delete_process_set(name);
            }
            Serving::Restartable(restartable) => restartable.forget(Order::DeleteSet { name }),
        }
    }

    pub fn notify_event(&self, code: Status, source: Proc, range: u8, infos: Vec<Info>) {
        match self {
            Serving::Here(server) => {
                let _ = server.notify_event(code, source, range, infos, None);
            }
            Serving::Restartable(restartable) => {
                let _ = restartable.tell(&Order::Notify { code, source, range, infos });
            }
        }
    }

    pub fn forget_events(&self, code: Status) {
        match self {
            Serving::Here(server) => {
                let _ = server.forget_events(code);
            }
            Serving::Restartable(restartable) => {
                let _ = restartable.tell(&Order::ForgetEvents { code });
            }
        }
    }

    pub fn announce_end(&self, nspace: &Nspace) {
        match self {
            Serving::Here(server) => server.announce_end(nspace),
            Serving::Restartable(restartable) => {
                let _ = restartable.tell(&Order::AnnounceEnd { nspace: nspace.clone() });
            }
        }
    }

    pub fn deliver_output(&self, source: Proc, channel: u16, data: Vec<u8>) -> Status {
        match self {
            Serving::Here(server) => server.deliver_output(source, channel, data, Vec::new(), None),
            Serving::Restartable(restartable) => restartable.tell(&Order::Deliver { source, channel, data }),
        }
    }

    /// As [`Serving::deliver_output`], but only by the server's process of this number: who takes it has another connection with the next one.
    pub fn deliver_output_by(&self, life: u32, source: Proc, channel: u16, data: Vec<u8>) {
        match self {
            Serving::Here(_) => drop(self.deliver_output(source, channel, data)),
            Serving::Restartable(restartable) => restartable.tell_life(life, &Order::Deliver { source, channel, data }),
        }
    }

    /// The number of the server's process; 0 for this one.
    pub fn life(&self) -> u32 {
        match self {
            Serving::Here(_) => 0,
            Serving::Restartable(restartable) => restartable.lives(),
        }
    }

    /// A process whose input was paused may go on.
    pub fn resume_input(&self, by: Proc) {
        match self {
            Serving::Here(server) => {
                let _ = server.control_input(Some(by), pmix_client::output::STDIN, false, Vec::new(), None);
            }
            Serving::Restartable(restartable) => {
                let _ = restartable.tell(&Order::ResumeInput { by });
            }
        }
    }

    pub fn waiting(&self) -> Waiting {
        match self {
            Serving::Here(server) => server.waiting(),
            Serving::Restartable(restartable) => match restartable.ask_shortly(&Order::Waiting, WAITING_PATIENCE) {
                Some(Reply::Waiting(waiting)) => waiting,
                _ => Waiting::default(),
            },
        }
    }

    /// Figures for a report; of the last server, if it was started again.
    pub fn stats(&self) -> Stats {
        match self {
            Serving::Here(server) => server.stats(),
            Serving::Restartable(restartable) => match restartable.ask(&Order::Stats) {
                Ok(Reply::Stats(stats)) => stats,
                _ => Stats::default(),
            },
        }
    }

    /// The server's address, which the next one has, too, if it can.
    pub fn uri(&self) -> String {
        match self {
            Serving::Here(server) => server.uri(),
            Serving::Restartable(restartable) => restartable.uri(),
        }
    }

    /// Writes the server's address to a file, or to standard output (`-`) or standard error (`+`).
    ///
    /// # Errors
    /// A message for the user.
    pub fn report_uri(&self, target: &str) -> Result<(), String> {
        let failed = |why: String| format!("cannot write the address of the server to {target}: {why}");
        let restartable = match self {
            Serving::Here(server) => return server.report_uri(target).map_err(|error| failed(error.to_string())),
            Serving::Restartable(restartable) => restartable,
        };
        // The server's process does not have the launcher's standard output.
        let written = match target {
            "-" => writeln!(io::stdout(), "{}", restartable.uri()),
            "+" => writeln!(io::stderr(), "{}", restartable.uri()),
            _ => return restartable.report(target.to_owned()).map_err(failed),
        };
        written.map_err(|error| failed(error.to_string()))
    }

    /// Waits until all upcalls that the server has made so far have come.
    pub fn catch_up(&self) {
        if let Serving::Restartable(restartable) = self {
            let _ = restartable.ask(&Order::Settle);
        }
    }

    /// The `number`th process of the server has ended.
    pub fn has_ended(&self, number: u32) {
        if let Serving::Restartable(restartable) = self {
            restartable.has_ended(number);
        }
    }

    /// What the user is to be told of the server's processes.
    pub fn take_lines(&self) -> Vec<String> {
        match self {
            Serving::Here(_) => Vec::new(),
            Serving::Restartable(restartable) => restartable.take_lines(),
        }
    }

    /// Why there is no server any more.
    pub fn lost(&self) -> Option<String> {
        match self {
            Serving::Here(_) => None,
            Serving::Restartable(restartable) => restartable.lost(),
        }
    }

    pub fn finalize(&self) {
        match self {
            Serving::Here(server) => {
                let _ = server.finalize();
            }
            Serving::Restartable(restartable) => restartable.finalize(),
        }
    }
}

/// Lets the host know of what is no upcall: see [`HEARD`].
fn hear(server: &Server, heard: impl Fn(&pmix_client::Event) + Send + Sync + 'static) -> Result<(), String> {
    let on_event = move |_: HandlerId, event: pmix_client::Event, done: EventDone| {
        heard(&event);
        done.finish(Status::SUCCESS, Vec::new());
    };
    let registered = server.client().register_event_handler(HEARD.to_vec(), Vec::new(), Arc::new(on_event)).wait();
    registered.map(drop).map_err(|status| format!("the server takes no events: {status}"))
}
