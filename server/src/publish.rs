//! A namespace's shared memory, as the server sees it: what is published, and what is due to be.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Backing, Key, Rank, Result, Status, Value};
use pmix_dstore::modex::ModexData;
use pmix_dstore::segment::{FileId, ModexBuilder, Publisher, SegmentKind, build_job};

use crate::Stats;
use crate::config::Config;

/// Who wrote a segment, for `pmixctl inspect`.
const CREATOR: &str = concat!("pmix-dstore ", env!("CARGO_PKG_VERSION"));

/// The server's socket in the namespace's directory.
const SOCKET_NAME: &str = "sock";

/// One published modex segment.
struct Live {
    /// Its place in the directory.
    place: u64,
    bytes: u64,
    /// In the order of ranks and keys, each once.
    contents: Vec<Content>,
}

/// A value of a segment.
struct Content {
    rank: Rank,
    key: u32,
    value: Arc<Value>,
}

/// What is open for the clients.
struct Open {
    publisher: Publisher,
    job_bytes: u64,
    live: Vec<Live>,
    /// (rank, key) that stand in a segment: when one of them changes, readers must not keep the old value.
    published: HashSet<(Rank, u32)>,
}

#[derive(Default)]
enum State {
    /// No client yet.
    #[default]
    New,
    Open(Box<Open>),
    /// There was no room, or the user does not want it: everything goes over the socket.
    Off,
}

/// What is to be published.
struct Changed {
    /// New values, and those in place of others.
    contents: Vec<Content>,
    /// Sorted: what stands in a segment and has been deleted.
    gone: Vec<(Rank, u32)>,
}

impl Changed {
    /// Takes what is dirty, and notes that it stands in a segment.
    ///
    /// # Errors
    /// `NOMEM`.
    fn take(
        dirty: &mut Vec<(Rank, u32)>,
        keys: &[Key],
        visible: &ModexData,
        published: &mut HashSet<(Rank, u32)>,
    ) -> Result<Changed> {
        let mut dirty = std::mem::take(dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let mut changed = Changed { contents: Vec::new(), gone: Vec::new() };
        published.try_reserve(dirty.len()).map_err(|_| Status::ERR_NOMEM)?;
        fallible_alloc::reserve(&mut changed.contents, dirty.len())?;
        for (rank, key) in dirty {
            match visible.shared(rank, keys[key as usize].as_bytes()) {
                Some(value) => {
                    published.insert((rank, key));
                    changed.contents.push(Content { rank, key, value: Arc::clone(value) });
                }
                None if published.remove(&(rank, key)) => fallible_alloc::push(&mut changed.gone, (rank, key))?,
                None => {}
            }
        }
        Ok(changed)
    }

    fn is_empty(&self) -> bool {
        self.contents.is_empty() && self.gone.is_empty()
    }

    /// Which of the live segments is the first that holds a deleted value.
    fn first_with_gone(&self, live: &[Live]) -> usize {
        let holds = |live: &Live, gone: &(Rank, u32)| {
            live.contents.binary_search_by_key(gone, |content| (content.rank, content.key)).is_ok()
        };
        live.iter().position(|live| self.gone.iter().any(|gone| holds(live, gone))).unwrap_or(live.len())
    }
}

impl Open {
    /// Publishes values, merged with those of segments.
    fn publish_modex(&mut self, job: &JobData, keys: &[Key], changed: Changed) -> Result<(), String> {
        // From there on they must be merged.
        let stale = changed.first_with_gone(&self.live);
        let Changed { mut contents, gone } = changed;
        // Values take at least as much in a segment as here. Most often that tells what will be merged, so that nothing
        // is built twice.
        let mut weight = contents.iter().map(|content| weight_of(&content.value)).sum();
        let mut merged = self.live.len();
        let bytes = loop {
            let before = merged;
            while merged > 0 && (merged > stale || self.live[merged - 1].bytes <= 2 * weight) {
                merged -= 1;
                weight += self.live[merged].bytes;
            }
            let older = self.live[merged..before].iter().map(|live| live.contents.len()).sum();
            fallible_alloc::reserve(&mut contents, older).map_err(|_| "out of memory")?;
            // Newer ones are in front, and of equal ones the first stays. What fails now gives up all segments.
            contents.extend(self.live[merged..before].iter_mut().rev().flat_map(|live| live.contents.drain(..)));
            contents.sort_by_key(|content| (content.rank, content.key));
            contents.dedup_by_key(|content| (content.rank, content.key));
            if !gone.is_empty() {
                contents.retain(|content| gone.binary_search(&(content.rank, content.key)).is_err());
            }
            let bytes = build_modex(job, keys, &contents)?;
            weight = bytes.len() as u64;
            if merged == 0 || self.live[merged - 1].bytes > 2 * weight {
                break bytes;
            }
        };
        let merged_places =
            self.live[merged..].first().zip(self.live.last()).map(|(first, last)| first.place..=last.place);
        let published = match merged_places {
            Some(places) => self.publisher.publish_replacing(SegmentKind::Modex, &bytes, places),
            None => self.publisher.publish(SegmentKind::Modex, &bytes),
        };
        let count = published.map_err(|error| error.to_string())?;
        self.live.truncate(merged);
        self.live.push(Live { place: count - 1, bytes: bytes.len() as u64, contents });
        Ok(())
    }
}

/// The shared memory of one namespace.
#[derive(Default)]
pub(crate) struct Shared {
    state: State,
    key_ids: HashMap<Key, u32>,
    keys: Vec<Key>,
    dirty: Vec<(Rank, u32)>,
    /// When what is dirty should be published at the latest.
    pub due: Option<Instant>,
}

impl Shared {
    fn key_id(&mut self, key: &Key) -> u32 {
        if let Some(id) = self.key_ids.get(key) {
            return *id;
        }
        let id = self.keys.len() as u32;
        self.keys.push(key.clone());
        self.key_ids.insert(key.clone(), id);
        id
    }

    /// Makes room for one [`Shared::note`].
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn make_room(&mut self) -> Result<()> {
        fallible_alloc::reserve_entries(&mut self.key_ids, 1)?;
        fallible_alloc::reserve(&mut self.keys, 1)?;
        fallible_alloc::reserve(&mut self.dirty, 1)
    }

    /// Notes that a value changed; tells whether readers may hold the old one from a segment.
    pub fn note(&mut self, rank: Rank, key: &Key) -> bool {
        if matches!(self.state, State::Off) {
            return false;
        }
        let id = self.key_id(key);
        if self.dirty.len() == self.dirty.capacity() {
            // Whoever commits a value again and again takes no more room for it.
            self.dirty.sort_unstable();
            self.dirty.dedup();
            self.dirty.reserve(self.dirty.len().max(64));
        }
        self.dirty.push((rank, id));
        matches!(&self.state, State::Open(open) if open.published.contains(&(rank, id)))
    }

    /// Whether something waits to be published.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The directory that clients are told, while there is one, and which one it is.
    pub fn directory(&self) -> Option<(PathBuf, FileId)> {
        match &self.state {
            State::Open(open) => Some((open.publisher.directory().to_owned(), open.publisher.directory_id())),
            _ => None,
        }
    }

    /// How many entries the directory page has.
    pub fn count(&self) -> Option<u64> {
        match &self.state {
            State::Open(open) => Some(open.publisher.count()),
            _ => None,
        }
    }

    /// Makes the namespace's directory, on the first call; its job segment, what is visible already, and its socket.
    /// Returns the socket, and lines for the log.
    pub fn open(
        &mut self,
        config: &Config,
        job: &JobData,
        visible: &ModexData,
        owner: (u32, u32),
    ) -> (Option<UnixListener>, Vec<String>) {
        if !matches!(self.state, State::New) {
            return (None, Vec::new());
        }
        self.state = State::Off;
        if !config.shared_memory {
            return (None, Vec::new());
        }
        let mut publisher = match Publisher::create(&config.server_tmpdir, &job.nspace, Some(owner)) {
            Ok(publisher) => publisher,
            Err(error) => return (None, vec![without_shared_memory(job, &error.to_string())]),
        };
        let listener = listen(&mut publisher, config.socket_mode).map_err(|error| {
            let path = publisher.directory().join(SOCKET_NAME);
            format!("{}: {error}; clients connect over TCP", path.display())
        });
        self.state =
            State::Open(Box::new(Open { publisher, job_bytes: 0, live: Vec::new(), published: HashSet::new() }));
        let lines: Vec<String> = self.publish_job(job).into_iter().chain(self.flush(job, visible)).collect();
        match listener {
            // Whoever is told of no directory looks for no socket in it.
            _ if self.directory().is_none() => (None, lines),
            Ok(listener) => (Some(listener), lines),
            Err(line) => (None, [vec![line], lines].concat()),
        }
    }

    /// Gives the namespace's directory to a user, where it was made for another one. Returns a line for the log.
    pub fn give_to(&mut self, owner: (u32, u32), job: &JobData) -> Option<String> {
        let State::Open(open) = &mut self.state else { return None };
        let error = open.publisher.give_to(owner).err()?;
        Some(format!("namespace {}: {error}; clients of user {} connect over TCP", job.nspace, owner.0))
    }

    /// Publishes the job's data; it replaces what was published of it before.
    pub fn publish_job(&mut self, job: &JobData) -> Option<String> {
        let State::Open(open) = &mut self.state else { return None };
        let bytes = match build_job(job, CREATOR) {
            Ok(bytes) => bytes,
            Err(error) => return Some(self.give_up(job, &error.to_string())),
        };
        match open.publisher.publish(SegmentKind::Job, &bytes) {
            Ok(_) => {
                open.job_bytes = bytes.len() as u64;
                None
            }
            Err(error) => Some(self.give_up(job, &error.to_string())),
        }
    }

    /// Publishes what is dirty. Segments are merged geometrically: each live one is more than twice as large as what
    /// follows it, so that readers look through about log2 of them. One that holds a value that has been deleted is merged, too, with
    /// all that follow it, and the value is left out: segments have no word for what is gone.
    pub fn flush(&mut self, job: &JobData, visible: &ModexData) -> Option<String> {
        self.due = None;
        let State::Open(open) = &mut self.state else {
            // Before the first client nothing is lost: opening publishes what is noted.
            return None;
        };
        let changed = match Changed::take(&mut self.dirty, &self.keys, visible, &mut open.published) {
            Ok(changed) if changed.is_empty() => return None,
            Ok(changed) => changed,
            Err(_) => return Some(self.give_up(job, "out of memory")),
        };
        match open.publish_modex(job, &self.keys, changed) {
            Ok(()) => None,
            Err(error) => Some(self.give_up(job, &error)),
        }
    }

    /// Turns shared memory off for the namespace: the page is marked retired, and its readers turn to the socket.
    fn give_up(&mut self, job: &JobData, error: &str) -> String {
        self.state = State::Off;
        self.dirty = Vec::new();
        without_shared_memory(job, error)
    }

    /// Lets what is published mean other memory than `whole`: that of the values now.
    pub fn leave(&mut self, whole: &Arc<Backing>, visible: &ModexData) {
        let State::Open(open) = &mut self.state else { return };
        for content in open.live.iter_mut().flat_map(|live| &mut live.contents) {
            if content.value.bytes().is_some_and(|bytes| bytes.is_part_of(whole))
                && let Some(value) = visible.shared(content.rank, self.keys[content.key as usize].as_bytes())
            {
                content.value = Arc::clone(value);
            }
        }
    }

    /// Adds what is published now to `stats`.
    pub fn add_to(&self, stats: &mut Stats) {
        if let State::Open(open) = &self.state {
            stats.job_segment_bytes += open.job_bytes;
            stats.modex_segment_bytes += open.live.iter().map(|live| live.bytes).sum::<u64>();
            stats.segments += open.publisher.live().count() as u64;
        }
    }
}

fn without_shared_memory(job: &JobData, error: &str) -> String {
    format!("namespace {}: no shared memory, values go over the socket: {error}", job.nspace)
}

fn build_modex(job: &JobData, keys: &[Key], contents: &[Content]) -> Result<GatherBuf, String> {
    let mut builder = ModexBuilder::new(job.nspace.clone());
    for Content { rank, key, value } in contents {
        builder.add(*rank, &keys[*key as usize], value).map_err(|error| error.to_string())?;
    }
    builder.finish(CREATOR).map_err(|error| error.to_string())
}

/// Bytes that a value has, as far as that is known without packing it.
fn weight_of(value: &Value) -> u64 {
    let len = match ValueRef::from(value) {
        ValueRef::Str(text) => text.map_or(0, |text| text.count_bytes()),
        ValueRef::Bytes { bytes, .. } => bytes.len(),
        _ => 0,
    };
    len as u64
}

/// Binds the namespace's socket in its directory, reached through the directory's descriptor: `sun_path` is short.
fn listen(publisher: &mut Publisher, mode: u32) -> io::Result<UnixListener> {
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", publisher.dir_fd().as_raw_fd());
    let path = Path::new(&path);
    let listener = UnixListener::bind(path)?;
    publisher.adopt(SOCKET_NAME).map_err(io::Error::other)?;
    // The outer directory keeps other users out; the secret and the kernel's word do the rest.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
