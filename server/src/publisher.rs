//! Performs the engine's publications: writes directories, segments and the clients' sockets, never with the engine's lock held.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use pmix_dstore::channel::{Sender, channel};
use pmix_dstore::fallible_alloc::{self, Thread};
use pmix_dstore::file_ban;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Bytes, Key, Nspace, Result, Status};
use pmix_dstore::segment::{JOURNAL_NAME, ModexBuilder, PublishError, Publisher, SOCKET_NAME, SegmentKind, build_job};

use crate::config::Config;
use crate::engine::{
    Batch, Content, DirectoryNumber, JournalEntry, LiveSegment, Merged, ModexBatch, Plan, Published, Replacement, Work,
    Written, without_shared_memory,
};
use crate::restart::{Inherited, JournalFile, Origin, Record, remove_journal};

/// The writer of a segment, for `pmixctl inspect`.
const CREATOR: &str = concat!("pmix-dstore ", env!("CARGO_PKG_VERSION"));

/// Publications from this size in bytes on are written by the publisher's own thread, so that the server's thread serves clients
/// meanwhile (`docs/scale.md`). The bound is chosen, not measured.
const OWN_THREAD_MIN: u64 = 1 << 20;

/// Why a namespace cannot be published.
struct GaveUp(String);

impl From<Status> for GaveUp {
    fn from(status: Status) -> GaveUp {
        GaveUp(status.to_string())
    }
}

impl From<PublishError> for GaveUp {
    fn from(error: PublishError) -> GaveUp {
        GaveUp(error.to_string())
    }
}

/// The shared memory of one namespace.
struct NspacePublisher {
    publisher: Publisher,
    /// It is of the server before this one.
    is_inherited: bool,
}

impl NspacePublisher {
    /// Writes a batch.
    fn write(&mut self, batch: &mut Batch) -> Result<Written, GaveUp> {
        let mut written = Written::default();
        if batch.writes_job {
            let bytes = build_job(&batch.job, CREATOR).map_err(|error| GaveUp(error.to_string()))?;
            // The readers of a server before this one have the same.
            match self.is_inherited {
                true => self.publisher.publish_changed_job(&bytes)?,
                false => self.publisher.publish(SegmentKind::Job, &bytes)?,
            };
            written.job_bytes = Some(bytes.len() as u64);
        }
        if let Some(modex) = batch.modex.take() {
            self.write_modex(&batch.job, modex, &mut written)?;
        }
        written.count = self.publisher.count();
        Ok(written)
    }

    fn write_modex(&mut self, job: &JobData, modex: ModexBatch, written: &mut Written) -> Result<(), GaveUp> {
        if modex.is_empty() {
            written.live = Some(modex.live);
            return Ok(());
        }
        let build = |keys: &[Key], contents: &[Content]| -> Result<(GatherBuf, u64), GaveUp> {
            let bytes = build_modex(job, keys, contents).map_err(GaveUp)?;
            let len = bytes.len() as u64;
            Ok((bytes, len))
        };
        let Merged { segment, mut contents, replaces, mut live } = modex.merge(build)?;
        let count = match replaces {
            Some((first, last)) => self.publisher.publish_replacing(SegmentKind::Modex, &segment, first..=last)?,
            None => self.publisher.publish(SegmentKind::Modex, &segment)?,
        };
        let bytes = segment.len() as u64;
        drop(segment);
        written.replacements = copy_lent(&mut contents);
        live.push(LiveSegment { place: count - 1, bytes, contents });
        written.live = Some(live);
        Ok(())
    }
}

/// Copies values in memory that a host has lent, so that it can be returned. If an allocation fails, it is returned later.
fn copy_lent(contents: &mut [Content]) -> Vec<Replacement> {
    let mut replacements = Vec::new();
    for content in contents.iter_mut().filter(|content| content.is_lent()) {
        let copy = content.value.bytes().and_then(|bytes| Bytes::copy_of(bytes).ok());
        let Some(copy) = copy.and_then(|bytes| content.value.with_bytes(bytes)).map(Arc::new) else { continue };
        let lent = std::mem::replace(&mut content.value, Arc::clone(&copy));
        replacements.push(Replacement { rank: content.rank, key: content.key, lent, copy });
    }
    replacements
}

fn build_modex(job: &JobData, keys: &[Key], contents: &[Content]) -> Result<GatherBuf, String> {
    let mut builder = ModexBuilder::new(job.nspace.clone());
    for Content { rank, key, value } in contents {
        builder.add(*rank, &keys[*key as usize], value).map_err(|error| error.to_string())?;
    }
    builder.finish(CREATOR).map_err(|error| error.to_string())
}

/// Binds the namespace's socket in its directory, reached through the directory's descriptor: `sun_path` is short.
fn listen(publisher: &mut Publisher, mode: u32) -> io::Result<UnixListener> {
    file_ban::check();
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", publisher.dir_fd().as_raw_fd());
    let path = Path::new(&path);
    let listener = UnixListener::bind(path)?;
    publisher.adopt(SOCKET_NAME).map_err(io::Error::other)?;
    // The outer directory keeps other users out; the secret and the kernel's peer credentials protect the socket itself.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What journals of a server say of it; boot and directory are added where one is made.
fn origin_of(config: &Config) -> Origin {
    let patience = config.restart.unwrap_or_default();
    let seconds = patience.as_secs() + u64::from(patience.subsec_nanos() > 0);
    Origin {
        life: config.life,
        patience: seconds.try_into().unwrap_or(u32::MAX),
        server: config.lasting_name.clone().into(),
        ..Origin::default()
    }
}

/// The line about a journal that cannot be written.
pub(crate) fn no_journal(path: &Path, error: &dyn Display) -> String {
    format!("{}: {error}; if this server is killed, its clients cannot go on with another one", path.display())
}

/// The directories of all namespaces.
pub(crate) struct Publishers {
    tmpdir: PathBuf,
    socket_mode: u32,
    /// What journals say of this server.
    origin: Origin,
    /// Directories of servers that were killed, until their namespaces are registered again.
    inherited: Mutex<HashMap<Nspace, Inherited>>,
    /// Journals, if the server may be restarted. Locked before the engine.
    journals: Mutex<HashMap<DirectoryNumber, JournalFile>>,
    /// The directories that no thread works on.
    directories: Mutex<HashMap<DirectoryNumber, NspacePublisher>>,
    /// Sockets that the server's thread has not taken over yet.
    listeners: Mutex<HashMap<DirectoryNumber, UnixListener>>,
    worker: Mutex<Worker>,
}

/// The publisher's own thread, for large plans.
#[derive(Default)]
enum Worker {
    /// No large plan so far.
    #[default]
    None,
    Running(Sender<Plan>, Thread),
    /// The server ends.
    Ended,
}

impl Publishers {
    pub fn new(config: &Config) -> Publishers {
        Publishers {
            tmpdir: config.server_tmpdir.clone(),
            socket_mode: config.socket_mode,
            origin: origin_of(config),
            inherited: Mutex::default(),
            journals: Mutex::default(),
            directories: Mutex::default(),
            listeners: Mutex::default(),
            worker: Mutex::default(),
        }
    }

    /// Takes the directories of servers that were killed.
    pub fn inherit(&self, directories: HashMap<Nspace, Inherited>) {
        *self.inherited.lock() = directories;
    }

    /// Removes those whose namespaces were not registered again.
    pub fn disinherit(&self) {
        self.inherited.lock().clear();
    }

    /// Writes to the journals what `pending` takes, by whether a journal exists; returns which of them failed, and why.
    pub fn write_journals(
        &self,
        pending: impl FnOnce(&dyn Fn(DirectoryNumber) -> bool) -> Vec<(DirectoryNumber, JournalEntry)>,
    ) -> Vec<(DirectoryNumber, PathBuf, String)> {
        let mut journals = self.journals.lock();
        let pending = pending(&|number| journals.contains_key(&number));
        let mut failed = Vec::new();
        for (number, entry) in pending {
            let Some(journal) = journals.get_mut(&number) else { continue };
            let written = match entry {
                JournalEntry::Append(record) => journal.append(&record).map_err(|error| error.to_string()),
                JournalEntry::Rewrite(records) => journal.rewrite(&records).map_err(|error| error.to_string()),
                JournalEntry::Stop(why) => Err(why),
            };
            if let Err(why) = written
                && let Some(journal) = journals.remove(&number)
            {
                failed.push((number, journal.path(), why));
                // A part of it would be worse than none.
                journal.remove();
            }
        }
        failed
    }

    /// Removes the journal of a directory.
    fn remove_journal(&self, number: DirectoryNumber) {
        if let Some(journal) = self.journals.lock().remove(&number) {
            journal.remove();
        }
    }

    /// Performs a plan on this thread.
    pub fn carry_out(&self, plan: Plan) -> Published {
        let number = plan.directory;
        let of_nspace = self.directories.lock().remove(&number);
        match plan.work {
            Work::Write(mut batch) => {
                let mut log = Vec::new();
                let written = self.write(number, of_nspace, &mut batch, &mut log).inspect_err(|GaveUp(error)| {
                    self.listeners.lock().remove(&number);
                    self.remove_journal(number);
                    // Without a directory the lines about its socket are of no use.
                    log.clear();
                    log.push(without_shared_memory(&batch.job.nspace, error));
                });
                Published { directory: number, written: written.ok(), log }
            }
            Work::Retire => {
                self.listeners.lock().remove(&number);
                self.remove_journal(number);
                // Dropping it notifies readers and removes the files.
                drop(of_nspace);
                Published { directory: number, written: None, log: Vec::new() }
            }
        }
    }

    fn write(
        &self,
        number: DirectoryNumber,
        of_nspace: Option<NspacePublisher>,
        batch: &mut Batch,
        log: &mut Vec<String>,
    ) -> Result<Written, GaveUp> {
        let (mut opened, mut has_no_journal) = (None, false);
        let mut of_nspace = match of_nspace {
            Some(of_nspace) => {
                if let Some(owner) = batch.owner.take()
                    && let Err(error) = of_nspace.publisher.give_to(owner)
                {
                    let (nspace, uid) = (&batch.job.nspace, owner.0);
                    log.push(format!("namespace {nspace}: {error}; clients of user {uid} connect over TCP"));
                }
                of_nspace
            }
            None if !batch.opens => return Err(GaveUp("its directory is gone".into())),
            None => {
                let (mut publisher, is_inherited) = self.open(batch)?;
                if let Some(records) = batch.journal.take() {
                    has_no_journal = !self.begin_journal(number, &publisher, &batch.job.nspace, records, log);
                }
                let has_socket = self.listen(number, &mut publisher, log);
                opened = Some((publisher.directory().to_owned(), publisher.directory_id(), has_socket));
                NspacePublisher { publisher, is_inherited }
            }
        };
        let written = of_nspace.write(batch)?;
        self.directories.lock().insert(number, of_nspace);
        Ok(Written { opened, has_no_journal, ..written })
    }

    /// Makes the directory of a namespace, or takes that of a server before this one.
    fn open(&self, batch: &mut Batch) -> Result<(Publisher, bool), GaveUp> {
        let nspace = &batch.job.nspace;
        let inherited = self.inherited.lock().remove(nspace).and_then(Inherited::into_publisher);
        match inherited {
            Some(publisher) => {
                if let Some(owner) = batch.owner.take() {
                    publisher.give_to(owner)?;
                }
                Ok((publisher, true))
            }
            None => Ok((Publisher::create(&self.tmpdir, nspace, batch.owner.take())?, false)),
        }
    }

    /// Begins the journal of a directory; returns whether it did. Without one the server cannot be restarted, and goes on; nor may one of the
    /// server before this one stay, which the next one would believe.
    fn begin_journal(
        &self,
        number: DirectoryNumber,
        publisher: &Publisher,
        nspace: &Nspace,
        records: Result<Vec<Record>>,
        log: &mut Vec<String>,
    ) -> bool {
        let made = records
            .map_err(|status| io::Error::other(status.to_string()))
            .and_then(|records| JournalFile::create(publisher, nspace, &self.origin, &records));
        match made {
            Ok(journal) => {
                self.journals.lock().insert(number, journal);
                true
            }
            Err(error) => {
                remove_journal(publisher.dir_fd());
                log.push(no_journal(&publisher.directory().join(JOURNAL_NAME), &error));
                false
            }
        }
    }

    /// Creates the clients' socket; returns whether it succeeded.
    fn listen(&self, number: DirectoryNumber, publisher: &mut Publisher, log: &mut Vec<String>) -> bool {
        match listen(publisher, self.socket_mode) {
            Ok(listener) => {
                self.listeners.lock().insert(number, listener);
                true
            }
            Err(error) => {
                let path = publisher.directory().join(SOCKET_NAME);
                log.push(format!("{}: {error}; clients connect over TCP", path.display()));
                false
            }
        }
    }

    /// The socket of a directory, for the server's thread; `None` if the directory is gone.
    pub fn take_listener(&self, number: DirectoryNumber) -> Option<UnixListener> {
        self.listeners.lock().remove(&number)
    }

    /// The number of sockets that the server's thread has not taken over.
    #[cfg(test)]
    pub fn listening(&self) -> usize {
        self.listeners.lock().len()
    }

    /// Passes a large plan to the publisher's own thread, which `perform`s it; returns a small plan to the caller, and any plan if the
    /// thread cannot be started or has ended.
    pub fn hand_over(&self, plan: Plan, perform: impl Fn(Plan) + Send + 'static) -> Result<(), Plan> {
        if plan.weight() < OWN_THREAD_MIN {
            return Err(plan);
        }
        let mut worker = self.worker.lock();
        if let Worker::None = *worker {
            let (sender, plans) = channel();
            // It inherits the signal mask of the server's thread: all signals are blocked.
            let thread = fallible_alloc::spawn("pmix-publisher", move || {
                while let Ok(plan) = plans.receive(None) {
                    perform(plan);
                }
            });
            match thread {
                Ok(thread) => *worker = Worker::Running(sender, thread),
                Err(_) => return Err(plan),
            }
        }
        match &*worker {
            Worker::Running(sender, _) => sender.send(plan),
            _ => Err(plan),
        }
    }

    /// Ends the publisher's own thread after its pending plans.
    pub fn finish(&self) {
        let worker = std::mem::replace(&mut *self.worker.lock(), Worker::Ended);
        if let Worker::Running(sender, thread) = worker {
            drop(sender);
            thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
