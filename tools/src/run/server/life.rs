//! One process of the server, as its launcher sees it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam::channel::{RecvTimeoutError, Sender, bounded};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use pmix_dstore::fallible_alloc::{self, Thread};
use pmix_dstore::model::Status;
use pmix_server::{Relay, UpcallResult};

use super::super::frame;
use super::super::host::RunHost;
use super::message::{Order, Reply, ServerMessage};
use super::process::MODE;

/// How long the server may take for anything. One that takes longer is taken for stuck, and killed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Why an order is not carried out: the server has ended, or is stuck.
#[derive(Debug)]
pub(super) struct Gone;

/// The calls that wait for a reply; none once the server has ended.
type Calls = Option<HashMap<u64, Sender<Reply>>>;

/// The connection to the process, for all threads of the launcher.
pub(super) struct Link {
    stream: Mutex<UnixStream>,
    calls: Mutex<Calls>,
    last: AtomicU64,
    /// The server has done something for its processes.
    has_achieved: AtomicBool,
    /// It has not carried out an order in time.
    is_stuck: AtomicBool,
}

impl Link {
    fn new(stream: UnixStream) -> Link {
        Link {
            stream: Mutex::new(stream),
            calls: Mutex::new(Some(HashMap::new())),
            last: AtomicU64::new(0),
            has_achieved: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Gives an order whose number is not that of a call. An order that is too long, or for which there is no memory, is not given, and the
    /// status says so.
    fn send(&self, id: u64, order: &Order) -> Result<Status, Gone> {
        match order.frame(id) {
            Ok(frame) => self.write(&frame).map(|()| Status::SUCCESS),
            Err(status) => Ok(status),
        }
    }

    /// Gives the answer to an upcall; one that cannot be given becomes its status, so that nobody waits for it.
    fn answer(&self, id: u64, result: UpcallResult) {
        if let Ok(failed) = self.send(id, &Order::Answer { result })
            && failed != Status::SUCCESS
        {
            // A server that has ended has nobody to answer.
            let _ = self.send(id, &Order::Answer { result: failed.into() });
        }
    }

    /// Gives an order and waits for the reply.
    fn ask(&self, order: &Order, patience: Duration) -> Result<Reply, Gone> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let frame = match order.frame(id) {
            Ok(frame) => frame,
            Err(status) => return Ok(Reply::Status(status)),
        };
        let (sender, reply) = bounded(1);
        self.calls.lock().as_mut().ok_or(Gone)?.insert(id, sender);
        let reply = self.write(&frame).and_then(|()| {
            reply.recv_timeout(patience).map_err(|error| {
                self.is_stuck.fetch_or(error == RecvTimeoutError::Timeout, Ordering::Relaxed);
                Gone
            })
        });
        if let Some(calls) = self.calls.lock().as_mut() {
            calls.remove(&id);
        }
        reply
    }

    fn write(&self, frame: &[u8]) -> Result<(), Gone> {
        self.stream.lock().write_all(frame).map_err(|error| {
            self.is_stuck.fetch_or(error.kind() == ErrorKind::WouldBlock, Ordering::Relaxed);
            Gone
        })
    }

    fn take_reply(&self, id: u64, reply: Reply) {
        let waiting = self.calls.lock().as_mut().and_then(|calls| calls.remove(&id));
        // Who does not wait any more does not need it.
        if let Some(waiting) = waiting {
            let _ = waiting.send(reply);
        }
    }

    /// No reply comes any more.
    fn end(&self) {
        *self.calls.lock() = None;
    }
}

/// The process.
pub(super) struct Life {
    child: Child,
    link: Arc<Link>,
    reader: Option<Thread>,
    begun: Instant,
}

/// How a server's process is started.
pub(in super::super) struct Start {
    /// Variables that it has beside those of the launcher.
    pub variables: Vec<(&'static str, OsString)>,
    /// The lock of the launcher's directory.
    pub lock: OwnedFd,
}

impl Life {
    /// Starts the process, the `number`th; its upcalls go to `host`, which is told of its end.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(number: u32, start: &Start, host: &Arc<RunHost>) -> io::Result<Life> {
        let (ours, theirs) = UnixStream::pair()?;
        // A process that reads nothing must not stop the launcher.
        ours.set_write_timeout(Some(PATIENCE))?;
        let (reading, link) = (ours.try_clone()?, Arc::new(Link::new(ours)));
        let mut command = Command::new("/proc/self/exe");
        command.arg0("pmixrun").arg(MODE).arg(std::process::id().to_string());
        command.envs(start.variables.iter().map(|(name, value)| (name, value)));
        // Signals of the terminal are for the launcher.
        command.process_group(0).stdin(OwnedFd::from(theirs)).stdout(start.lock.try_clone()?);
        let child = command.spawn()?;
        // The child's end, without which no end of the stream would come.
        drop(command);
        let mut life = Life { child, link: Arc::clone(&link), reader: None, begun: Instant::now() };
        let host = Arc::clone(host);
        life.reader = Some(fallible_alloc::spawn("pmixrun-server", move || read(&link, reading, &host, number))?);
        Ok(life)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How long it has lived.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether it has done something for its processes.
    pub fn has_achieved(&self) -> bool {
        self.link.has_achieved.load(Ordering::Relaxed)
    }

    /// Gives an order without a reply.
    pub fn tell(&self, order: &Order) -> Result<Status, Gone> {
        self.link.send(0, order)
    }

    /// Gives an order and waits for the reply.
    pub fn ask(&self, order: &Order, patience: Duration) -> Result<Reply, Gone> {
        self.link.ask(order, patience)
    }

    /// Ends the process, if it has not ended; returns how it has, in words. All that it has told before is done then.
    pub fn end(mut self) -> String {
        let (pid, is_stuck) = (self.pid(), self.link.is_stuck.load(Ordering::Relaxed));
        let status = self.stop();
        match is_stuck {
            true => format!("the server (process {pid}) does not answer, and was killed"),
            false => ending(pid, status),
        }
    }

    fn stop(&mut self) -> Option<ExitStatus> {
        // One that has ended keeps its status.
        let _ = self.child.kill();
        let status = self.child.wait().ok();
        // A process that it has left with its end of the stream does not count.
        let _ = self.link.stream.lock().shutdown(Shutdown::Write);
        self.reader.take().into_iter().for_each(Thread::join);
        status
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The end of a process in words.
fn ending(pid: u32, status: Option<ExitStatus>) -> String {
    let how = match status.map(|status| (status.signal(), status.code())) {
        Some((Some(signal), _)) => {
            let name = Signal::try_from(signal).map_or("real-time", Signal::as_str);
            format!("was killed by signal {signal} ({name})")
        }
        Some((None, Some(code))) => format!("has ended with status {code}"),
        _ => "has ended".to_owned(),
    };
    format!("the server (process {pid}) {how}")
}

/// Takes what the process says, to its end.
fn read(link: &Arc<Link>, stream: UnixStream, host: &Arc<RunHost>, number: u32) {
    let answering = Arc::clone(link);
    // The end of the server is told below.
    let relay = Relay::new(move |id, result| answering.answer(id, result));
    let mut stream = BufReader::new(stream);
    // An error of the stream, and what is not understood, are the end, too: the process is killed then.
    while let Ok(Some(message)) = frame::receive(&mut stream) {
        let Ok((id, said)) = ServerMessage::read(&message) else { break };
        match said {
            ServerMessage::Reply(reply) => link.take_reply(id, reply),
            ServerMessage::Upcall(call) if id == 0 => {
                let _ = call.perform(&**host, 0);
            }
            ServerMessage::Upcall(call) => {
                let own = relay.open(id);
                let status = call.perform(&**host, own);
                // `SUCCESS` means that the answer follows.
                if status != Status::SUCCESS && relay.close(own) {
                    link.answer(id, status.into());
                }
            }
            ServerMessage::Event { code, source, infos } => host.heard(code, &source, &infos),
            ServerMessage::Achieved => link.has_achieved.store(true, Ordering::Relaxed),
        }
    }
    drop(relay);
    link.end();
    host.server_ended(number);
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{DataArray, DataType, Info, Value};

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_packed_becomes_its_status() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let link = Link::new(ours);
        let array = DataArray { ty: DataType::UINT32, items: vec![Value::Bool(true)] };
        let wrong = vec![Info::new("wrong", Value::DataArray(Box::new(array)))];
        link.answer(7, UpcallResult::Infos(Status::SUCCESS, wrong));
        let message = frame::receive(&mut &theirs).unwrap().expect("a message");
        let failed = UpcallResult::Op(Status::ERR_TYPE_MISMATCH);
        assert_eq!(Order::read(&message), Ok((7, Order::Answer { result: failed })));
    }
}
