//! The thread that talks to the partner, and what follows from what it says.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pmix_client::events::range;
use pmix_dstore::model::{Info, Key, Nspace, Proc, Status, Value, keys};

use super::super::complain;
use super::super::published::{self, Terms};
use super::link::{Door, ENDED, Link, Opened};
use super::message::Message;
use super::names::Names;
use super::rounds::{Entry, Outcome, Rounds, Side};
use super::{Answered, Partner, Pending, State, for_partner};

/// How long the end of the launcher waits for a partner that does not read.
const CLOSING_TIME: Duration = Duration::from_secs(1);
/// How long after an attempt to let the partner in the next one comes.
const DOOR_PAUSE: u8 = 100;
/// The most jobs of the partner that have not ended.
const JOBS_MAX: usize = 4096;
/// How many of those that have are still known: processes may yet disconnect from them.
const ENDED_KEPT: usize = 64;

impl Partner {
    /// Waits for the partner, and talks to it until one of both ends.
    pub(super) fn work(self: Arc<Self>, opened: Opened) {
        let (link, cluster) = match opened {
            Opened::Second(link, cluster) => (link, cluster),
            Opened::First(door) => match self.admit(door) {
                Some(admitted) => admitted,
                None => return,
            },
        };
        if let Err(why) = self.talk(link, &cluster) {
            self.lose(&cluster, &why);
        }
    }

    /// Waits for the partner at the door; `None` if the launcher ends before.
    fn admit(&self, door: Door) -> Option<(Link, String)> {
        let mut has_complained = false;
        loop {
            let mut fds =
                [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN), PollFd::new(door.fd(), PollFlags::POLLIN)];
            let polled = poll(&mut fds, PollTimeout::NONE);
            let _ = self.wake.read();
            if self.shared.lock().is_closing {
                return None;
            }
            if let Err(error) = polled
                && error != Errno::EINTR
            {
                complain(&format!("--partner: poll: {error}; no partner is awaited any more"));
                return None;
            }
            match door.admit(self.names.cluster()) {
                Ok(None) => {}
                Ok(Some(admitted)) => return Some(admitted),
                // One line: whoever comes again and again must not fill the output.
                Err(why) if !std::mem::replace(&mut has_complained, true) => {
                    complain(&format!("--partner: not the partner that is awaited: {why}"));
                }
                Err(_) => {}
            }
            // Whoever waits at the door may still be there, where a descriptor for it is missing: the next attempt would come at once.
            let _ = poll(&mut [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)], DOOR_PAUSE);
        }
    }

    /// Tells the partner what there is, and goes on until this launcher ends.
    ///
    /// # Errors
    /// Why there is no partner any more.
    fn talk(self: &Arc<Self>, mut link: Link, cluster: &str) -> Result<(), String> {
        self.begin();
        let theirs = Names::of(cluster);
        let mut close_at = None;
        loop {
            // Under one lock: what is sent before the end is written before it.
            let (frames, is_closing, is_broken) = {
                let mut shared = self.shared.lock();
                (std::mem::take(&mut shared.frames), shared.is_closing, shared.is_broken)
            };
            link.write(frames, Instant::now())?;
            if is_broken {
                return Err("there was no memory for what it must know".into());
            }
            if is_closing {
                let until = *close_at.get_or_insert_with(|| Instant::now() + CLOSING_TIME);
                if !link.has_queue() || until <= Instant::now() {
                    return Ok(());
                }
            }
            let next = [self.expire(Instant::now()), link.deadline(), close_at].into_iter().flatten().min();
            let is_readable = self.wait(&link, next)?;
            if is_readable {
                link.messages()?.into_iter().try_for_each(|message| self.take(message, &theirs))?;
            }
        }
    }

    /// Waits until something is to be done; returns whether the partner has said something.
    fn wait(&self, link: &Link, until: Option<Instant>) -> Result<bool, String> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let left = left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        let wanted = if link.has_queue() { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        let mut fds = [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN), PollFd::new(link.fd(), wanted)];
        let polled = poll(&mut fds, left);
        let _ = self.wake.read();
        match polled {
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(format!("poll: {error}")),
            Ok(_) => Ok(fds[1].revents().is_some_and(|events| events.intersects(!PollFlags::POLLOUT))),
        }
    }

    /// The partner is there: tells it of the jobs, and of the values that are published for both clusters.
    fn begin(&self) {
        let published = self.published.lock();
        let mut shared = self.shared.lock();
        shared.state = State::Here;
        if shared.rounds.is_none() {
            // The second launcher has been linked from its start, and has told of everything.
            return;
        }
        let jobs: Vec<_> = shared.jobs.values().map(Message::frame).collect();
        for job in jobs {
            match job {
                Ok(frame) => shared.frames.push(frame),
                Err(_) => shared.is_broken = true,
            }
        }
        for (publisher, infos) in published.for_partner() {
            let Ok(infos) = for_partner(&self.names, &infos) else { continue };
            let message = Message::Publish { id: 0, proc: self.names.proc_on_link(publisher), infos };
            shared.send(&message);
        }
    }

    /// What the partner says.
    ///
    /// # Errors
    /// What it must not say: it speaks for the processes of its own cluster only.
    fn take(self: &Arc<Self>, message: Message, theirs: &Names) -> Result<(), String> {
        let is_theirs = |nspace: &Nspace| match theirs.has(nspace) {
            true => Ok(()),
            false => Err(format!("it speaks for {nspace}")),
        };
        match message {
            Message::Hello { .. } => return Err("it says again who it is".into()),
            Message::Job { nspace, size, infos } => {
                is_theirs(&nspace)?;
                self.their_job_begins(nspace, size, infos)?;
            }
            Message::JobEnded { nspace } => self.their_job_ends(&nspace),
            Message::ProcessEnded { proc } => {
                is_theirs(&proc.nspace)?;
                self.published.lock().process_ended(&proc);
                self.decide(|rounds| rounds.process_ends(proc));
            }
            Message::Publish { id, proc, infos } => {
                is_theirs(&proc.nspace)?;
                let status = self.their_values(&proc, infos);
                if id != 0 {
                    self.result(id, status, Vec::new());
                }
            }
            Message::Unpublish { proc, keys } => {
                is_theirs(&proc.nspace)?;
                let keys: Result<Vec<Key>, _> = keys.into_iter().map(Key::new).collect();
                self.published.lock().remove(&proc, &keys.map_err(|_| "it takes back what has no name")?);
            }
            Message::Enter { id, round, status, is_excused, data } => {
                let entry = Entry { side: Side::Partner, id, status, is_excused, data };
                if !self.decide(|rounds| rounds.enter(round, entry)) {
                    return Err("it asks for a decision that is its own".into());
                }
            }
            Message::Withdraw { id } => {
                self.shared.lock().rounds.iter_mut().for_each(|rounds| rounds.withdraw(Side::Partner, id));
            }
            Message::Modex { id, proc } => self.give(id, &proc),
            Message::Result { id, status, data } => self.answer(id, status, data),
            Message::Event { code, source, mut infos } => {
                is_theirs(&source.nspace)?;
                self.names.infos_here(&mut infos);
                if let Some(server) = self.server() {
                    server.notify_event(code, source, range::CUSTOM, infos, None);
                }
            }
        }
        Ok(())
    }

    fn their_job_begins(&self, nspace: Nspace, size: u32, mut infos: Vec<Info>) -> Result<(), String> {
        {
            let mut shared = self.shared.lock();
            if shared.their_jobs.len() >= JOBS_MAX {
                return Err(format!("it has more than {JOBS_MAX} jobs"));
            }
            shared.their_jobs.insert(nspace.clone());
            shared.rounds.iter_mut().for_each(|rounds| rounds.job_begins(nspace.clone(), size));
        }
        self.names.infos_here(&mut infos);
        infos.extend(nspace.split_cluster().map(|(cluster, _)| Info::new(keys::CLUSTER_ID, Value::string(cluster))));
        if let Some(server) = self.server() {
            // What cannot be registered the server logs; its processes are unknown here, then.
            server.register_nspace(nspace, 0, infos, None);
        }
        Ok(())
    }

    fn their_job_ends(&self, nspace: &Nspace) {
        let mut shared = self.shared.lock();
        if !shared.their_jobs.remove(nspace) {
            return;
        }
        shared.forget_connections();
        shared.their_ended.push_back(nspace.clone());
        let oldest = if shared.their_ended.len() > ENDED_KEPT { shared.their_ended.pop_front() } else { None };
        drop(shared);
        self.published.lock().job_ended(nspace);
        self.decide(|rounds| rounds.job_ends(nspace));
        if let Some((server, oldest)) = self.server().zip(oldest) {
            server.deregister_nspace(&oldest, None);
        }
    }

    /// Values of a process of the other cluster; returns the status for it.
    fn their_values(&self, proc: &Proc, mut infos: Vec<Info>) -> Status {
        self.names.infos_here(&mut infos);
        let mut values = self.published.lock();
        let added = Terms::read(&infos).and_then(|terms| values.add(proc, published::values(&infos), &terms));
        published::answer_ready(values);
        added.err().unwrap_or(Status::SUCCESS)
    }

    /// Has this launcher decide about operations, and passes on the results; returns whether it is the one that decides.
    pub(super) fn decide(&self, decide: impl FnOnce(&mut Rounds) -> Vec<Outcome>) -> bool {
        let mut shared = self.shared.lock();
        let Some(outcomes) = shared.rounds.as_mut().map(decide) else { return false };
        let answered = shared.take_all_answered(outcomes);
        drop(shared);
        self.wake();
        answered.into_iter().for_each(|answered| self.complete(answered));
        true
    }

    /// Answers an upcall that waited for the partner. One that has been answered already is unknown.
    fn answer(&self, id: u64, status: Status, data: Vec<u8>) {
        let answered = self.shared.lock().take_answered(id, status, data);
        answered.into_iter().for_each(|answered| self.complete(answered));
    }

    pub(super) fn complete(&self, Answered { pending, status, data }: Answered) {
        match pending {
            Pending::Collective { done, .. } => done.complete(status, data),
            Pending::Modex(done) => done.complete((status, data.into())),
            Pending::Publish { done, proc, keys } => {
                if !status.is_success() {
                    // All of a publication or nothing.
                    self.published.lock().remove(&proc, &keys);
                }
                done.complete(status);
            }
        }
    }

    /// Answers the operations whose time is over; returns the next time limit.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut guard = self.shared.lock();
        let shared = &mut *guard;
        let until = |pending: &Pending| match pending {
            Pending::Collective { until, .. } => *until,
            _ => None,
        };
        let is_late = |pending: &Pending| until(pending).is_some_and(|until| until <= now);
        let late: Vec<u64> = shared.pending.iter().filter(|(_, one)| is_late(one)).map(|(id, _)| *id).collect();
        for id in &late {
            match &mut shared.rounds {
                Some(rounds) => rounds.withdraw(Side::Own, *id),
                None => shared.send(&Message::Withdraw { id: *id }),
            }
        }
        let next = shared.pending.values().filter_map(until).filter(|until| *until > now).min();
        drop(guard);
        late.into_iter().for_each(|id| self.answer(id, Status::ERR_TIMEOUT, Vec::new()));
        next
    }

    /// The partner is gone: what waits for it ends, and processes that were connected with its own hear of their end.
    fn lose(&self, cluster: &str, why: &str) {
        let mut shared = self.shared.lock();
        shared.state = State::Lost;
        shared.frames.clear();
        let pending: Vec<_> = shared.pending.drain().collect();
        let running = std::mem::take(&mut shared.their_jobs);
        let connected = std::mem::take(&mut shared.connected);
        drop(shared);
        // One whose processes have all ended before has nothing to fail.
        if !running.is_empty() || why != ENDED {
            complain(&format!("--partner: the pmixrun of cluster {cluster} is gone: {why}; what waits for it fails"));
        }
        let theirs = Names::of(cluster);
        for (_, pending) in pending {
            match pending {
                Pending::Collective { done, alone, .. } => done.complete(alone, Vec::new()),
                Pending::Modex(done) => done.complete((Status::ERR_LOST_CONNECTION, Vec::new().into())),
                // It is published here.
                Pending::Publish { done, .. } => done.complete(Status::SUCCESS),
            }
        }
        let waiting = {
            let mut published = self.published.lock();
            published.launcher_ended(|nspace| theirs.has(nspace));
            published.take_waiting_beyond()
        };
        waiting.into_iter().for_each(|done| done.complete((Status::ERR_LOST_CONNECTION, Vec::new())));
        for ((procs, id), (may_end, _)) in connected {
            let gone: Vec<Proc> = procs.iter().filter(|proc| theirs.has(&proc.nspace)).cloned().collect();
            if !may_end && gone.iter().any(|proc| running.contains(&proc.nspace)) {
                self.tell_of_end(&procs, gone, id);
            }
        }
    }

    /// The event of the end of connected processes, as the server sends it of its own.
    fn tell_of_end(&self, procs: &[Proc], gone: Vec<Proc>, id: Option<Vec<u8>>) {
        let Some((server, source)) = self.server().zip(gone.first().cloned()) else { return };
        let left = procs.iter().filter(|proc| self.names.has(&proc.nspace)).map(|proc| self.names.proc_here(proc));
        let mut infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROCS, Value::procs(gone)),
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(left)),
            Info::new(keys::EVENT_DO_NOT_CACHE, Value::Bool(true)),
        ];
        infos.extend(id.map(|id| Info::new(keys::CONNECT_ID, Value::string(id))));
        server.notify_event(Status::ERR_PROC_TERM_WO_SYNC, source, range::CUSTOM, infos, None);
    }
}
