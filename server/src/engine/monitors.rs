//! Monitors that processes request and the host does not support: heartbeats, changes of a file, and the resource usage of processes,
//! the node and its devices.
//!
//! The engine keeps the deadlines; another thread checks files with the user's permissions, and the server's thread reads the usage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Proc, Result, Status, Value, keys};
use pmix_wire::reply::InfosReply;

use super::events::{Range, Sender};
use super::limits::MONITORS_MAX;
use super::peer::PeerId;
use super::services::Shape;
use super::statistics::Statistics;
use super::{Continuation, Engine, Output};
use crate::cleanup::FileState;
use crate::completion::UpcallResult;
use crate::upcall::Upcall;

/// The group of a user without a verified group.
const NO_GROUP: u32 = 65_534;

/// All monitors by number, and when each is checked next. The cost of an operation that a peer can repeat does not depend on the number
/// of other peers' monitors.
#[derive(Default)]
pub(super) struct Monitors {
    next: u64,
    all: BTreeMap<u64, Monitor>,
    /// The monitors of each connection.
    of_peers: HashMap<PeerId, BTreeSet<u64>>,
    due: BTreeSet<(Instant, u64)>,
    /// The processes with monitored heartbeats.
    beats: HashMap<Proc, Beats>,
}

/// The heartbeats of a process.
#[derive(Default)]
struct Beats {
    /// The count since the first monitor of them.
    count: u64,
    /// The number of monitors of them.
    monitors: usize,
}

struct Monitor {
    /// The connection that has requested it; the monitor ends with it.
    peer: PeerId,
    proc: Proc,
    /// User and group for checks of files.
    user: (u32, u32),
    asked: Asked,
    /// Consecutive checks without a sign of life.
    missed: u32,
    /// The time of the next check.
    due: Option<Instant>,
    sign: Sign,
}

/// The signs of life.
enum Sign {
    Beats {
        /// The count at the last check.
        seen: u64,
        /// The missing heartbeat has been reported.
        is_reported: bool,
    },
    File {
        /// Its state at the last check.
        before: Option<FileState>,
        /// Whether a check is running.
        is_looked_at: bool,
    },
    /// No sign of life, but a sample: the first one answers the request with this tag.
    Sample(Option<u32>),
}

/// A request for a monitor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    /// The requester's name for the monitor.
    id: Option<Vec<u8>>,
    /// The code of the event.
    code: Status,
    range: u8,
    /// `None`: once.
    every: Option<Duration>,
    /// The number of missing signs of life that are tolerated.
    drops: u32,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Beats,
    File(Watched),
    Usage(Statistics),
}

/// A file and the properties that must change; a change of one suffices.
#[derive(Clone, Debug, PartialEq)]
struct Watched {
    path: PathBuf,
    size: bool,
    accessed: bool,
    modified: bool,
}

/// The part of a request that the library performs itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    Watch(Asked),
    /// End the monitors with this name, or all.
    Cancel(Option<Vec<u8>>),
}

impl Wish {
    /// Reads a request; `None` for a kind of monitor that only a host may support.
    ///
    /// # Errors
    /// `BAD_PARAM` for values of a wrong type, and for a missing interval or file.
    fn read(monitor: &Info, error: Status, directives: &[Info]) -> Result<Option<Wish>> {
        let number = |key: &str| {
            Info::find(directives, key).map(|value| value.as_u32().ok_or(Status::ERR_BAD_PARAM)).transpose()
        };
        let is_set = |key: &str| Info::is_set(directives, key);
        let id = Info::find(directives, keys::MONITOR_ID).and_then(Value::as_text).map(<[u8]>::to_vec);
        let range = match Info::find(directives, keys::RANGE) {
            None => Range::NAMESPACE,
            Some(range) => range.as_u64().and_then(|range| range.try_into().ok()).ok_or(Status::ERR_BAD_PARAM)?,
        };
        let asked = |alert: Status, every: &str, drops: &str, what| {
            let every = number(every)?.filter(|seconds| *seconds > 0).ok_or(Status::ERR_BAD_PARAM)?;
            let code = if error == Status::SUCCESS { alert } else { error };
            let (every, drops) = (Some(Duration::from_secs(every.into())), number(drops)?.unwrap_or(0));
            Ok(Some(Wish::Watch(Asked { id: id.clone(), code, range, every, drops, what })))
        };
        if monitor.key.is(keys::MONITOR_CANCEL) {
            return Ok(Some(Wish::Cancel(monitor.value.as_text().map(<[u8]>::to_vec))));
        }
        if monitor.key.is(keys::MONITOR_HEARTBEAT) {
            let alert = Status::MONITOR_HEARTBEAT_ALERT;
            return asked(alert, keys::MONITOR_HEARTBEAT_TIME, keys::MONITOR_HEARTBEAT_DROPS, What::Beats);
        }
        if let Some(statistics) = Statistics::read(monitor, directives)? {
            let code = if error == Status::SUCCESS { Status::MONITOR_RESUSAGE_UPDATE } else { error };
            let seconds = number(keys::MONITOR_RESOURCE_RATE)?.filter(|seconds| *seconds > 0);
            let every = seconds.map(|seconds| Duration::from_secs(seconds.into()));
            let what = What::Usage(statistics);
            return Ok(Some(Wish::Watch(Asked { id, code, range, every, drops: 0, what })));
        }
        if !monitor.key.is(keys::MONITOR_FILE) {
            return Ok(None);
        }
        let path = PathBuf::from(OsStr::from_bytes(monitor.value.as_text().ok_or(Status::ERR_BAD_PARAM)?));
        let watched = Watched {
            path,
            size: is_set(keys::MONITOR_FILE_SIZE),
            accessed: is_set(keys::MONITOR_FILE_ACCESS),
            modified: is_set(keys::MONITOR_FILE_MODIFY),
        };
        // The server has another working directory than the process.
        if !watched.path.is_absolute() || !(watched.size || watched.accessed || watched.modified) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let alert = Status::MONITOR_FILE_ALERT;
        asked(alert, keys::MONITOR_FILE_CHECK_TIME, keys::MONITOR_FILE_DROPS, What::File(watched))
    }
}

impl Watched {
    fn has_changed(&self, before: &FileState, now: &FileState) -> bool {
        self.size && before.size != now.size
            || self.accessed && before.accessed != now.accessed
            || self.modified && before.modified != now.modified
    }
}

impl Monitors {
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A connection is gone.
    pub fn forget_peer(&mut self, peer: PeerId) {
        self.remove(peer, |_| true);
    }

    fn count_of(&self, peer: PeerId) -> usize {
        self.of_peers.get(&peer).map_or(0, BTreeSet::len)
    }

    /// Returns its number.
    fn add(&mut self, mut monitor: Monitor) -> u64 {
        self.next += 1;
        let number = self.next;
        if let Sign::Beats { seen, .. } = &mut monitor.sign {
            let beats = self.beats.entry(monitor.proc.clone()).or_default();
            beats.monitors += 1;
            *seen = beats.count;
        }
        self.due.extend(monitor.due.map(|due| (due, number)));
        self.of_peers.entry(monitor.peer).or_default().insert(number);
        self.all.insert(number, monitor);
        number
    }

    fn end(&mut self, number: u64) {
        let Some(monitor) = self.all.remove(&number) else { return };
        if let Some(due) = monitor.due {
            self.due.remove(&(due, number));
        }
        if let Some(numbers) = self.of_peers.get_mut(&monitor.peer) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.of_peers.remove(&monitor.peer);
            }
        }
        if let Sign::Beats { .. } = monitor.sign
            && let Some(beats) = self.beats.get_mut(&monitor.proc)
        {
            beats.monitors -= 1;
            if beats.monitors == 0 {
                self.beats.remove(&monitor.proc);
            }
        }
    }

    /// Ends the monitors of a connection that `is_meant` selects; returns their number.
    fn remove(&mut self, peer: PeerId, is_meant: impl Fn(&Monitor) -> bool) -> usize {
        let Some(numbers) = self.of_peers.get(&peer) else { return 0 };
        let meant = numbers.iter().copied().filter(|number| self.all.get(number).is_some_and(&is_meant));
        let meant: Vec<u64> = meant.collect();
        meant.iter().for_each(|number| self.end(*number));
        meant.len()
    }

    fn cancel(&mut self, peer: PeerId, id: Option<&[u8]>) -> usize {
        let is_meant = |monitor: &Monitor| id.is_none() || monitor.asked.id.as_deref() == id;
        let is_awaited = |monitor: &Monitor| matches!(monitor.sign, Sign::Sample(Some(_)));
        // The first sample answers the request for it: that is still made, and no other.
        let mut awaited = 0;
        for number in self.of_peers.get(&peer).into_iter().flatten() {
            let monitor = self.all.get_mut(number).filter(|monitor| is_meant(monitor) && is_awaited(monitor));
            if let Some(monitor) = monitor {
                monitor.asked.every = None;
                if let Some(due) = monitor.due.take() {
                    self.due.remove(&(due, *number));
                }
                awaited += 1;
            }
        }
        awaited + self.remove(peer, |monitor| is_meant(monitor) && !is_awaited(monitor))
    }
}

impl Engine {
    /// A process requests a monitor. The host gets the request first.
    pub(super) fn monitor(
        &mut self,
        id: PeerId,
        tag: u32,
        (monitor, error, mut directives): (Info, Status, Vec<Info>),
        (time, now): (Option<Duration>, Instant),
    ) {
        let Some(peer) = self.peers.get(&id) else { return };
        let (proc, asker) = (peer.proc.clone(), self.asker(peer));
        let wish = Wish::read(&monitor, error, &directives);
        if let Ok(Some(Wish::Cancel(name))) = &wish
            && self.monitors.cancel(id, name.as_deref()) > 0
        {
            return self.is_watched(id, tag);
        }
        asker.sign(&mut directives);
        let then = Continuation::Monitor(id, tag, Box::new(wish));
        self.upcall_within(then, id, Upcall::Monitor { proc, monitor, error, directives }, (time, now));
    }

    /// Takes the host's answer: it monitors, or leaves it to the library.
    pub(super) fn monitor_answered(&mut self, id: PeerId, tag: u32, wish: Result<Option<Wish>>, answer: UpcallResult) {
        if answer.status() != Status::ERR_NOT_SUPPORTED {
            return self.reply_answer(id, tag, Shape::Infos, answer);
        }
        match wish {
            Ok(Some(Wish::Watch(asked))) => self.watch(id, tag, asked, self.now()),
            Ok(Some(Wish::Cancel(_))) => self.reply_status(id, tag, Status::ERR_NOT_FOUND),
            Ok(None) => self.reply_status(id, tag, Status::ERR_NOT_SUPPORTED),
            Err(status) => self.reply_status(id, tag, status),
        }
    }

    fn watch(&mut self, id: PeerId, tag: u32, asked: Asked, now: Instant) {
        let Some((proc, user)) = self.peers.get(&id).map(|peer| (peer.proc.clone(), peer.user)) else { return };
        let client = self.nspaces.get(&proc.nspace).and_then(|state| state.clients.get(&proc.rank));
        let user = (user.uid, user.gid.or(client.map(|client| client.gid)).unwrap_or(NO_GROUP));
        if self.monitors.count_of(id) >= MONITORS_MAX {
            return self.refuse_more(id, tag, "monitors");
        }
        let sign = match &asked.what {
            What::File(_) => Sign::File { before: None, is_looked_at: false },
            What::Beats => Sign::Beats { seen: 0, is_reported: false },
            What::Usage(statistics) => match self.is_of_here(id, statistics) {
                Ok(()) => Sign::Sample(Some(tag)),
                Err(status) => return self.reply_status(id, tag, status),
            },
        };
        let is_sample = matches!(sign, Sign::Sample(_));
        let due = asked.every.map(|every| now + every);
        let number = self.monitors.add(Monitor { peer: id, proc, user, asked, missed: 0, due, sign });
        if is_sample {
            return self.measure(number);
        }
        self.is_watched(id, tag);
    }

    fn is_watched(&mut self, id: PeerId, tag: u32) {
        self.reply(id, tag, &InfosReply { status: Status::SUCCESS, infos: Some(Vec::new()) });
    }

    /// Counts a heartbeat of a process, on any of its connections.
    pub fn beat(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id).filter(|peer| peer.admitted) else { return };
        if let Some(beats) = self.monitors.beats.get_mut(&peer.proc) {
            beats.count += 1;
        }
    }

    /// Performs the checks that are due.
    pub(super) fn look_at_monitors(&mut self, now: Instant) {
        while let Some((due, number)) = self.monitors.due.first().copied().filter(|(due, _)| *due <= now) {
            self.monitors.due.remove(&(due, number));
            let Some(monitor) = self.monitors.all.get_mut(&number) else { continue };
            // Counted from now: after a pause of the server (SIGSTOP), the intervals of the pause do not count as missed.
            monitor.due = monitor.asked.every.map(|every| now + every);
            self.monitors.due.extend(monitor.due.map(|due| (due, number)));
            match (&mut monitor.sign, &monitor.asked.what) {
                (Sign::Sample(_), _) => self.measure(number),
                // A file system that does not answer counts as a missing sign of life. One more check may be late for another reason.
                (Sign::File { is_looked_at: true, .. }, _) => {
                    monitor.missed = monitor.missed.saturating_add(1);
                    if monitor.missed > monitor.asked.drops {
                        self.alert(number, now);
                        self.monitors.end(number);
                    }
                }
                (Sign::File { is_looked_at, .. }, What::File(watched)) => {
                    *is_looked_at = true;
                    let (path, user) = (watched.path.clone(), monitor.user);
                    self.outputs.push_back(Output::Look { monitor: number, path, user });
                }
                (Sign::Beats { seen, is_reported }, _) => {
                    let count = self.monitors.beats.get(&monitor.proc).map_or(*seen, |beats| beats.count);
                    if std::mem::replace(seen, count) != count {
                        (monitor.missed, *is_reported) = (0, false);
                        continue;
                    }
                    monitor.missed = monitor.missed.saturating_add(1);
                    if monitor.missed > monitor.asked.drops && !std::mem::replace(is_reported, true) {
                        self.alert(number, now);
                    }
                }
                (Sign::File { .. }, _) => {}
            }
        }
    }

    /// Takes the result of a check; `None` if the file is missing or not accessible for its user: it may appear later.
    pub fn looked(&mut self, number: u64, seen: Option<FileState>, now: Instant) {
        let Some(monitor) = self.monitors.all.get_mut(&number) else { return };
        let (What::File(watched), Sign::File { before, is_looked_at }) = (&monitor.asked.what, &mut monitor.sign)
        else {
            return;
        };
        *is_looked_at = false;
        let Some(seen) = seen else { return };
        let lives = before.replace(seen).is_none_or(|before| watched.has_changed(&before, &seen));
        monitor.missed = if lives { 0 } else { monitor.missed.saturating_add(1) };
        if !lives && monitor.missed >= monitor.asked.drops {
            self.alert(number, now);
            // Reported once.
            self.monitors.end(number);
        }
    }

    /// Requests a reading of the usage.
    fn measure(&mut self, monitor: u64) {
        let Some(Monitor { peer, asked: Asked { what: What::Usage(statistics), .. }, .. }) =
            self.monitors.all.get(&monitor)
        else {
            return;
        };
        let (targets, usage) = (self.targets(*peer, statistics), statistics.usage.clone());
        let hostname = self.config.hostname.clone();
        self.outputs.push_back(Output::Measure { monitor, usage, targets, hostname });
    }

    /// Takes a usage sample. It is the answer to the request, or the next event, which only the requester gets.
    pub fn measured(&mut self, number: u64, mut told: Vec<Info>) {
        let Some(monitor) = self.monitors.all.get_mut(&number) else { return };
        let (peer, code, is_once) = (monitor.peer, monitor.asked.code, monitor.asked.every.is_none());
        let asked = match &mut monitor.sign {
            Sign::Sample(asked) => asked.take(),
            _ => return,
        };
        match asked {
            Some(tag) => self.reply(peer, tag, &InfosReply { status: Status::SUCCESS, infos: Some(told) }),
            None if told.is_empty() => {}
            None => {
                let id = monitor.asked.id.as_ref();
                told.extend(id.map(|id| Info::new(keys::MONITOR_ID, Value::string(id.as_slice()))));
                self.tell_only(peer, code, told);
            }
        }
        if is_once {
            self.monitors.end(number);
        }
    }

    /// Raises the event for its receivers, and for the host, whose other servers have processes of the same job.
    fn alert(&mut self, number: u64, now: Instant) {
        let Some(Monitor { peer, proc, asked, .. }) = self.monitors.all.get(&number) else { return };
        let (peer, source, code, range) = (*peer, proc.clone(), asked.code, asked.range);
        let mut infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(source.clone()))];
        infos.extend(asked.id.as_ref().map(|id| Info::new(keys::MONITOR_ID, Value::string(id.as_slice()))));
        if let Ok(copies) = Info::copies(&infos) {
            self.deliver_event(Sender::Peer(peer), code, &source, range, copies, now);
        }
        if range != Range::LOCAL && range != Range::PROC_LOCAL {
            self.upcall(Continuation::Nothing, Upcall::NotifyEvent { code, source, range, infos });
        }
    }
}

#[cfg(test)]
impl Monitors {
    /// The number of the newest monitor.
    pub fn last(&self) -> u64 {
        self.next
    }

    /// Whether all tables are empty.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.of_peers.is_empty() && self.due.is_empty() && self.beats.is_empty()
    }
}
