//! Output of other processes, which a server forwards to this process.
//!
//! A pull names processes and channels, and a handler that is called with their output. Without a handler the library
//! writes the output itself, as the pull's directives say. In a tool it also writes output that a server sends without
//! a pull: the server's own output, and the output of jobs that the tool spawns.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pmix_dstore::channel::channel;
use pmix_dstore::log::{self, Level, Target};
use pmix_dstore::model::{Info, Nspace, Proc, Result, Status, Value, keys};

use super::{Client, ClientKind, Inner, ops};
use crate::Event;
use crate::get_options::timeout_of;
use crate::late::Limited;
use crate::link::{progresses_itself, receive};
use crate::operation::{Operation, outcome};
use crate::output::format::{self, Details};
use crate::output::{ConsoleHandler, Format, IoDelivery, OutputHandler, STDIN, Writer};
use pmix_wire::Request;
use pmix_wire::reply::IoPullReply;

/// How long a thread that ends a pull waits for the callback thread to deliver what the server held back. A callback may be waiting for
/// that thread.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

thread_local! {
    /// Whether this thread calls the handlers of a connection over which there has been a pull. A tool has one for each of its servers.
    static IS_CALLBACK_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// The pulls of this process, and a tool's console.
#[derive(Default)]
pub(crate) struct Outputs {
    pulls: Mutex<Pulls>,
    /// Takes output that belongs to no pull. Only tools, and servers that show output, have one.
    console: OnceLock<Mutex<Console>>,
}

#[derive(Default)]
struct Pulls {
    last: u64,
    open: BTreeMap<u64, Pull>,
}

struct Pull {
    taker: Taker,
    /// The server's number of the pull, once it has answered.
    remote: Option<u64>,
    /// The server may hold output back, and sends it when the pull ends.
    is_buffered: bool,
}

#[derive(Clone)]
enum Taker {
    Handler(OutputHandler),
    Writer(Arc<Mutex<Writer>>),
}

/// Writes output that belongs to no pull.
struct Console {
    writer: Writer,
    /// Takes the output instead of the writers.
    handler: Option<ConsoleHandler>,
    /// Writers of jobs that the tool spawned with formatting directives.
    of_jobs: HashMap<Nspace, Writer>,
    /// Spawns under way. Output of unknown jobs may belong to them.
    spawning: usize,
    /// Output of unknown jobs, held back until the spawns are answered.
    held: Vec<IoDelivery>,
}

impl Console {
    fn write(&mut self, inner: &Arc<Inner>, output: &IoDelivery) -> Result<()> {
        if let Some(handler) = &self.handler {
            handler(output);
            return Ok(());
        }
        let writer = self.of_jobs.get_mut(&output.source.nspace).unwrap_or(&mut self.writer);
        writer.write(&output.source, output.channel, &output.data, &inner.details(writer, &output.source))
    }
}

/// A tool's spawn under way; dropped when the answer has arrived.
pub(crate) struct Spawning {
    inner: Arc<Inner>,
    writer: Option<(Nspace, Writer)>,
}

impl Spawning {
    /// Notes the new job's name and the format of its output.
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
        let mut written = Vec::new();
        for output in std::mem::take(&mut console.held) {
            if is_known(&console, &output) {
                written.push((console.write(&self.inner, &output), output));
            } else {
                console.held.push(output);
            }
        }
        // A handler may have output of its own.
        drop(console);
        written.into_iter().for_each(|(written, output)| self.inner.report_write_error(written, &output));
    }
}

impl Client {
    /// Asks for the output of processes on `channels`, a mask. Returns the pull's number. Without a handler the library
    /// writes the output, as the directives say.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for the channel of input, for required directives that the library does not support, and if the
    /// host does not forward output; `BAD_PARAM`; `UNREACH` without a server; otherwise the server's status.
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
        // Register the pull before the request is sent: output may arrive together with the answer.
        let number = {
            let mut pulls = inner.outputs.pulls.lock();
            pulls.last += 1;
            let number = pulls.last;
            let is_buffered = directives.iter().any(format::is_for_buffer);
            pulls.open.insert(number, Pull { taker, remote: None, is_buffered });
            number
        };
        let timeout = timeout_of(&directives);
        let request = Request::IoPull { procs, infos: directives, channels, handler: Some(number) };
        let payload = match inner.encode(&request) {
            Ok(payload) => payload,
            Err(status) => {
                inner.outputs.pulls.lock().open.remove(&number);
                return Operation::ready(&inner.link, Err(status));
            }
        };
        // The callback thread must run from now on to receive the server's messages.
        inner.link.defer(Box::new(|| IS_CALLBACK_THREAD.set(true)));
        let pulling = Arc::clone(inner);
        let limited = timeout.map(|_| Limited::by(&request));
        Operation::ask(&inner.link, payload, timeout, move |reply| {
            if let Some(limited) = limited {
                limited.ended(&*pulling.link, &pulling.me, &reply);
            }
            let read = |payload: Vec<u8>| {
                let reply = pulling.decode::<IoPullReply>(&payload)?;
                outcome(reply.status)?;
                reply.handler.ok_or(Status::ERR_UNPACK_FAILURE)
            };
            pulling.pull_answered(number, reply.and_then(read))
        })
    }

    /// Ends a pull. Writes the output that has arrived. No new call of the handler starts, but a call may still be
    /// running. If the server holds output back, it is delivered before: inside a callback, after that callback.
    ///
    /// # Errors
    /// `BAD_PARAM` for an unknown number; otherwise the server's status.
    pub fn stop_output(&self, number: u64, directives: Vec<Info>) -> Operation<()> {
        let inner = &self.inner;
        let mut pulls = inner.outputs.pulls.lock();
        let remote = pulls.open.get_mut(&number).and_then(|pull| pull.remote.take_if(|_| pull.is_buffered));
        if let Some(handler) = remote {
            drop(pulls);
            return self.stop_buffered(number, handler, directives);
        }
        // One that is buffered ends already.
        let ends = pulls.open.get(&number).is_some_and(|pull| !pull.is_buffered);
        let pull = if ends { pulls.open.remove(&number) } else { None };
        drop(pulls);
        match pull.and_then(Pull::end) {
            None => Operation::ready(&inner.link, Err(Status::ERR_BAD_PARAM)),
            Some(handler) => {
                let timeout = timeout_of(&directives);
                inner.ask(Request::IoDeregister { infos: directives, handler }, timeout, ops::done)
            }
        }
    }

    /// Ends a pull whose output the server may hold back. The pull stays open until that has been delivered: it comes before the
    /// server's answer, to the callback thread.
    fn stop_buffered(&self, number: u64, handler: u64, directives: Vec<Info>) -> Operation<()> {
        let inner = Arc::clone(&self.inner);
        let timeout = timeout_of(&directives);
        let asked = self.inner.ask(Request::IoDeregister { infos: directives, handler }, timeout, ops::done);
        asked.then(move |answered| {
            let (delivered, wait) = channel();
            let ending = Arc::clone(&inner);
            inner.link.defer(Box::new(move || {
                let pull = ending.outputs.pulls.lock().open.remove(&number);
                let _ = pull.and_then(Pull::end);
                // Nobody may be waiting.
                let _ = delivered.send(());
            }));
            if progresses_itself() || !IS_CALLBACK_THREAD.get() {
                let _ = receive(&*inner.link, &wait, Some(Instant::now() + FLUSH_WAIT));
            }
            answered
        })
    }

    /// Delivers output to the pulls of this process, which is itself a server.
    pub fn take_output(&self, output: IoDelivery) {
        self.inner.take_output(output);
    }

    /// Makes this process, a tool or a server, show output that belongs to no pull.
    pub fn show_output(&self, format: Format) {
        let console = Console {
            writer: Writer::new(format, true),
            handler: None,
            of_jobs: HashMap::new(),
            spawning: 0,
            held: Vec::new(),
        };
        // Set once, when the tool starts.
        let _ = self.inner.outputs.console.set(Mutex::new(console));
    }

    /// Gives the output that belongs to no pull, that of the jobs which this process spawns, to a handler instead of writing it. The handler
    /// asks the library for nothing that waits. Only tools, and servers that show output, have such output.
    pub fn hand_output_to(&self, handler: ConsoleHandler) {
        if let Some(console) = self.inner.outputs.console.get() {
            console.lock().handler = Some(handler);
        }
    }
}

impl Pull {
    /// Writes an incomplete line; returns the server's number of the pull.
    fn end(self) -> Option<u64> {
        if let Taker::Writer(writer) = &self.taker {
            writer.lock().flush();
        }
        self.remote
    }
}

impl Outputs {
    /// Writes incomplete lines, when the process finalizes.
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
    /// The receiver of a pull's output: the handler, or a writer that follows the directives.
    fn taker(&self, directives: &[Info], channels: u16, handler: Option<OutputHandler>) -> Result<Taker> {
        if channels & STDIN != 0 {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if self.kind() == ClientKind::Singleton {
            return Err(Status::ERR_UNREACH);
        }
        let buffers = self.kind() == ClientKind::InProcessServer || self.link.awaits_commits();
        format::check(directives, handler.is_some(), buffers)?;
        let format = Format::read(directives)?;
        Ok(handler.map_or_else(|| Taker::Writer(Arc::new(Mutex::new(Writer::new(format, true)))), Taker::Handler))
    }

    /// Stores the server's number of a pull, or removes a pull that the server refuses.
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

    /// Passes output to the handler or writer of its pull, or to the console.
    pub(crate) fn take_output(self: &Arc<Inner>, output: IoDelivery) {
        let taker = self.outputs.pulls.lock().open.get(&output.handler).map(|pull| pull.taker.clone());
        match taker {
            // No handler is called once finalize has begun.
            Some(Taker::Handler(_)) if self.is_final() => {}
            Some(Taker::Handler(handler)) => handler(output.handler, output),
            Some(Taker::Writer(writer)) => {
                let mut writer = writer.lock();
                let details = self.details(&writer, &output.source);
                let written = writer.write(&output.source, output.channel, &output.data, &details);
                drop(writer);
                self.report_write_error(written, &output);
            }
            None => {
                let Some(console) = self.outputs.console.get() else { return };
                let mut console = console.lock();
                if console.spawning > 0 && !console.of_jobs.contains_key(&output.source.nspace) {
                    return console.held.push(output);
                }
                let written = console.write(self, &output);
                drop(console);
                self.report_write_error(written, &output);
            }
        }
    }

    /// Starts a spawn whose output this process shows. `None` if it shows none.
    pub(crate) fn spawn_begins(self: &Arc<Inner>) -> Option<Spawning> {
        self.outputs.console.get()?.lock().spawning += 1;
        Some(Spawning { inner: Arc::clone(self), writer: None })
    }

    /// Host name and process id of a source, if the writer needs them and they are known without asking the server.
    fn details(self: &Arc<Inner>, writer: &Writer, source: &Proc) -> Details {
        if !writer.wants_details() {
            return Details::default();
        }
        let client = Client { inner: Arc::clone(self) };
        let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
        let find = |key: &str| format::detail(&client.get_value(source, key, &optional).ok()?);
        (find(keys::HOSTNAME), find(keys::PROC_PID))
    }

    fn report_write_error(self: &Arc<Inner>, written: Result<()>, output: &IoDelivery) {
        let Err(status) = written else { return };
        let infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(output.source.clone()))];
        log::write(
            Level::Warn,
            Target::Output,
            log::Writer::Client(&self.me),
            format_args!("cannot write the output file of {}; the rest of its output is not written", output.source),
        );
        self.deliver(Event::new(status, self.me.clone(), infos));
    }
}
