//! Output of other processes, which a server forwards: who takes it in this process.
//!
//! A pull names processes and channels, and a handler that is called with what they write. Without a handler the library writes
//! it itself, as the pull's directives say; so it does with what a tool's server sends without being asked: its own output,
//! and that of the jobs that the tool spawns.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pmix_dstore::model::{Info, Nspace, Proc, Result, Status, Value, keys};

use super::{Client, ClientKind, Inner, ops};
use crate::Event;
use crate::operation::{Operation, outcome};
use crate::output::format::{self, Details};
use crate::output::{Format, IoDelivery, OutputHandler, STDIN, Writer};
use pmix_wire::Request;
use pmix_wire::reply::IoPullReply;

/// What a process does with output.
#[derive(Default)]
pub(crate) struct Outputs {
    pulls: Mutex<Pulls>,
    /// Where output goes that nobody here has asked for; only a tool has one.
    console: OnceLock<Mutex<Console>>,
}

#[derive(Default)]
struct Pulls {
    last: u64,
    open: BTreeMap<u64, Pull>,
}

struct Pull {
    taker: Taker,
    /// The server's number of it, once it has answered.
    remote: Option<u64>,
}

#[derive(Clone)]
enum Taker {
    Handler(OutputHandler),
    Writer(Arc<Mutex<Writer>>),
}

/// Output that a tool shows.
struct Console {
    writer: Writer,
    /// Jobs that the tool spawned with directives.
    of_jobs: HashMap<Nspace, Writer>,
    /// Spawns under way: what comes of jobs not known yet may be theirs.
    spawning: usize,
    held: Vec<IoDelivery>,
}

impl Console {
    fn write(&mut self, inner: &Arc<Inner>, output: &IoDelivery) -> Result<()> {
        let writer = self.of_jobs.get_mut(&output.source.nspace).unwrap_or(&mut self.writer);
        writer.write(&output.source, output.channel, &output.data, &inner.details(writer, &output.source))
    }
}

/// A spawn of a tool, until its answer has come.
pub(crate) struct Spawning {
    inner: Arc<Inner>,
    writer: Option<(Nspace, Writer)>,
}

impl Spawning {
    /// The job's name has come.
    pub fn name(&mut self, nspace: &Nspace, format: &Format) {
        if *format != Format::default() {
            self.writer = Some((nspace.clone(), Writer::new(format.clone(), true)));
        }
    }
}

impl Drop for Spawning {
    fn drop(&mut self) {
        let Some(console) = self.inner.outputs.console.get() else { return };
        let mut console = console.lock();
        console.of_jobs.extend(self.writer.take());
        console.spawning -= 1;
        let is_known = |console: &Console, output: &IoDelivery| {
            console.spawning == 0 || console.of_jobs.contains_key(&output.source.nspace)
        };
        for output in std::mem::take(&mut console.held) {
            if is_known(&console, &output) {
                let written = console.write(&self.inner, &output);
                self.inner.tell_of_failure(written, &output);
            } else {
                console.held.push(output);
            }
        }
    }
}

impl Client {
    /// Asks for the output of processes on `channels`, a mask; gives the pull's number. Without a handler the library writes it,
    /// as the directives say.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for the channel of input, for required directives that are not honoured, and where the host does not
    /// forward; `BAD_PARAM`, `UNREACH`; what the server answers.
    pub fn pull_output(
        &self,
        procs: Vec<Proc>,
        directives: Vec<Info>,
        channels: u16,
        handler: Option<OutputHandler>,
    ) -> Operation<u64> {
        let inner = &self.inner;
        let taker = match inner.taker(&directives, channels, handler) {
            Ok(taker) => taker,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        // There before the server knows: output may come with its answer.
        let number = {
            let mut pulls = inner.outputs.pulls.lock();
            pulls.last += 1;
            let number = pulls.last;
            pulls.open.insert(number, Pull { taker, remote: None });
            number
        };
        let request = Request::IoPull { procs, infos: directives, channels, handler: Some(number) };
        let payload = match inner.encode(&request) {
            Ok(payload) => payload,
            Err(status) => {
                inner.outputs.pulls.lock().open.remove(&number);
                return Operation::ready(&inner.link, Err(status));
            }
        };
        // From now on somebody must listen to the server.
        inner.link.defer(Box::new(|| {}));
        let pulling = Arc::clone(inner);
        Operation::ask(&inner.link, payload, None, move |reply| {
            let read = |payload: Vec<u8>| {
                let reply = pulling.decode::<IoPullReply>(&payload)?;
                outcome(reply.status)?;
                reply.handler.ok_or(Status::ERR_UNPACK_FAILURE)
            };
            pulling.pull_answered(number, reply.and_then(read))
        })
    }

    /// Ends a pull. What has come is written; its handler is not called any more, but a call may be under way.
    ///
    /// # Errors
    /// `BAD_PARAM` for a number that is no pull's; what the server answers.
    pub fn stop_output(&self, number: u64, directives: Vec<Info>) -> Operation<()> {
        let inner = &self.inner;
        let pull = inner.outputs.pulls.lock().open.remove(&number);
        let ended = pull.and_then(|pull| {
            if let Taker::Writer(writer) = &pull.taker {
                writer.lock().flush();
            }
            pull.remote
        });
        match ended {
            None => Operation::ready(&inner.link, Err(Status::ERR_BAD_PARAM)),
            Some(handler) => inner.ask(Request::IoDeregister { infos: directives, handler }, None, ops::done),
        }
    }

    /// Takes output of this server's process for its own pulls.
    pub fn take_output(&self, output: IoDelivery) {
        self.inner.take_output(output);
    }

    /// Has this process, a tool or a server, show output that nobody here has asked for.
    pub fn show_output(&self, format: Format) {
        let console =
            Console { writer: Writer::new(format, true), of_jobs: HashMap::new(), spawning: 0, held: Vec::new() };
        // Set once, where the tool begins.
        let _ = self.inner.outputs.console.set(Mutex::new(console));
    }
}

impl Outputs {
    /// Writes lines that have not ended: the process says farewell.
    pub fn flush(&self) {
        for pull in self.pulls.lock().open.values() {
            if let Taker::Writer(writer) = &pull.taker {
                writer.lock().flush();
            }
        }
        if let Some(console) = self.console.get() {
            let mut console = console.lock();
            console.writer.flush();
            console.of_jobs.values_mut().for_each(Writer::flush);
        }
    }
}

impl Inner {
    /// Who takes the output of a pull: the handler, or a writer that does what the directives say.
    fn taker(&self, directives: &[Info], channels: u16, handler: Option<OutputHandler>) -> Result<Taker> {
        if channels & STDIN != 0 {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if self.kind == ClientKind::Singleton {
            return Err(Status::ERR_UNREACH);
        }
        format::check(directives, handler.is_some())?;
        let format = Format::read(directives)?;
        Ok(handler.map_or_else(|| Taker::Writer(Arc::new(Mutex::new(Writer::new(format, true)))), Taker::Handler))
    }

    /// Notes the server's number of a pull, or forgets the pull that the server refuses.
    fn pull_answered(&self, number: u64, remote: Result<u64>) -> Result<u64> {
        let mut pulls = self.outputs.pulls.lock();
        match (remote, pulls.open.get_mut(&number)) {
            (Ok(remote), Some(pull)) => {
                pull.remote = Some(remote);
                Ok(number)
            }
            (Ok(_), None) => Err(Status::ERR_NOT_FOUND),
            (Err(status), _) => {
                pulls.open.remove(&number);
                Err(status)
            }
        }
    }

    /// Output has come.
    pub(crate) fn take_output(self: &Arc<Inner>, output: IoDelivery) {
        let taker = self.outputs.pulls.lock().open.get(&output.handler).map(|pull| pull.taker.clone());
        match taker {
            Some(Taker::Handler(handler)) => handler(output.handler, output),
            Some(Taker::Writer(writer)) => {
                let mut writer = writer.lock();
                let details = self.details(&writer, &output.source);
                let written = writer.write(&output.source, output.channel, &output.data, &details);
                drop(writer);
                self.tell_of_failure(written, &output);
            }
            None => {
                let Some(console) = self.outputs.console.get() else { return };
                let mut console = console.lock();
                if console.spawning > 0 && !console.of_jobs.contains_key(&output.source.nspace) {
                    return console.held.push(output);
                }
                let written = console.write(self, &output);
                drop(console);
                self.tell_of_failure(written, &output);
            }
        }
    }

    /// A spawn begins of which this process, a tool, shows the output.
    pub(crate) fn spawn_begins(self: &Arc<Inner>) -> Option<Spawning> {
        self.outputs.console.get()?.lock().spawning += 1;
        Some(Spawning { inner: Arc::clone(self), writer: None })
    }

    /// What a writer tells of a source beyond its name, as far as it is known here.
    fn details(self: &Arc<Inner>, writer: &Writer, source: &Proc) -> Details {
        if !writer.wants_details() {
            return Details::default();
        }
        let client = Client { inner: Arc::clone(self) };
        let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
        let find = |key: &str| format::detail(&client.get_value(source, key, &optional).ok()?);
        (find(keys::HOSTNAME), find(keys::PROC_PID))
    }

    fn tell_of_failure(self: &Arc<Inner>, written: Result<()>, output: &IoDelivery) {
        let Err(status) = written else { return };
        let infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(output.source.clone()))];
        // A process may have closed its stderr.
        let _ = writeln!(
            io::stderr(),
            "pmix-dstore client {}: the file for output of {} cannot be written; no more of it is",
            self.me,
            output.source
        );
        self.deliver(Event::new(status, self.me.clone(), infos));
    }
}
