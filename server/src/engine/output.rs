//! Output of processes and input for them: pulls, and a buffer for later pulls.
//!
//! The host delivers output. It is sent to the clients that pull it, and to tools: the server's own output and that of the jobs that
//! the tool spawned. Output without a receiver is kept: a job's first lines arrive before any client can pull them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use pmix_client::get::timeout_of;
use pmix_client::output::{STDDIAG, STDERR, STDIN, STDOUT};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_wire::reply::{IoPullReply, spawn_reply};
use pmix_wire::{FlowControl, IoDelivery, MESSAGE_LEN_MAX, TAG_FLOW_CONTROL, TAG_IOF, jobinfo};

use super::apart::{REFUSED, Reach, sign, sign_with_name};
use super::buffering::{Buffer, Buffering, PIECE, Room};
use super::limits::PULLS_MAX;
use super::nspaces::recipient;
use super::peer::{Peer, PeerId};
use super::services::Shape;
use super::{Continuation, Engine, Output};
use crate::completion::UpcallResult;
use crate::upcall::Upcall;

/// Limit in bytes of kept output, beyond which the oldest is dropped; and of all that waits for pulls, beyond which it is delivered.
const KEPT_MAX: usize = 16 << 20;
/// The handler of a tool without a pull.
const DEFAULT_HANDLER: u64 = 0;

/// The output stream that an entry of a log is for, and its text.
fn stream_of(info: &Info) -> Option<(u16, &[u8])> {
    let streams = [(keys::LOG_STDOUT, STDOUT), (keys::LOG_STDERR, STDERR)];
    let (_, channel) = streams.into_iter().find(|(key, _)| info.key.is(key))?;
    Some((channel, info.value.as_text()?))
}

/// Pulls and kept output.
#[derive(Default)]
pub(super) struct Outputs {
    pulls: BTreeMap<u64, Pull>,
    last: u64,
    /// Output without a receiver; the handler is filled in later.
    kept: VecDeque<IoDelivery>,
    kept_bytes: usize,
    /// What waits for pulls, as [`Buffer::len`] counts it.
    held_bytes: usize,
    /// Nothing that waits is due earlier.
    due: Option<Instant>,
}

struct Pull {
    peer: PeerId,
    /// The processes whose output to send.
    procs: Vec<Proc>,
    channels: u16,
    /// The peer's number of its handler.
    handler: u64,
    /// The host has answered.
    is_open: bool,
    /// The host directs this output to the peer; it has not pulled it.
    is_of_host: bool,
    /// How output is held back, and when that began for what was kept before.
    buffering: Buffering,
    since: Option<Instant>,
    buffer: Buffer,
}

impl Pull {
    /// A pull of the host's for a peer, which takes all at once.
    fn of_host(peer: PeerId, procs: Vec<Proc>, channels: u16) -> Pull {
        Pull {
            peer,
            procs,
            channels,
            handler: DEFAULT_HANDLER,
            is_open: true,
            is_of_host: true,
            buffering: Buffering::default(),
            since: None,
            buffer: Buffer::default(),
        }
    }

    fn wants(&self, source: &Proc, channel: u16) -> bool {
        self.is_open && self.channels & channel != 0 && self.procs.iter().any(|proc| is_meant(proc, source))
    }
}

/// Whether `proc` names the source; no namespace is any.
fn is_meant(proc: &Proc, source: &Proc) -> bool {
    let is_of_rank = proc.rank == Rank::WILDCARD || source.rank == Rank::WILDCARD || proc.rank == source.rank;
    (proc.nspace.is_empty() || proc.nspace == source.nspace) && is_of_rank
}

fn len(output: &IoDelivery) -> usize {
    PIECE + output.data.len() + PIECE * output.infos.len()
}

impl Outputs {
    fn add(&mut self, pull: Pull) -> u64 {
        self.last += 1;
        self.pulls.insert(self.last, pull);
        self.last
    }

    pub fn forget_peer(&mut self, peer: PeerId) {
        self.pulls.retain(|_, pull| pull.peer != peer);
        self.count_held();
    }

    /// Counts anew what waits, after pulls have gone.
    fn count_held(&mut self) {
        self.held_bytes = self.pulls.values().map(|pull| pull.buffer.len()).sum();
    }

    /// How much waits for pulls.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held_bytes
    }

    /// When something that waits is due, or earlier.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// A job is no more.
    pub fn forget_nspace(&mut self, nspace: &Nspace) {
        self.kept.retain(|output| output.source.nspace != *nspace);
        self.kept_bytes = self.kept.iter().map(len).sum();
        // Pulls made by a spawn end with the job.
        let is_of_it = |pull: &Pull| pull.handler == DEFAULT_HANDLER && pull.procs.iter().all(|p| p.nspace == *nspace);
        self.pulls.retain(|_, pull| !is_of_it(pull));
    }

    fn keep(&mut self, output: IoDelivery) {
        self.kept_bytes += len(&output);
        self.kept.push_back(output);
        while self.kept_bytes > KEPT_MAX {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.kept_bytes -= len(&oldest);
        }
    }
}

impl Engine {
    /// A client pulls output: passed to the host, unless the client is the host itself.
    pub(super) fn pull_output(
        &mut self,
        id: PeerId,
        tag: u32,
        procs: Vec<Proc>,
        infos: Vec<Info>,
        (channels, handler): (u16, Option<u64>),
        now: Instant,
    ) {
        // Releases before 3.1 send no handler number, and could not assign the output.
        let Some(handler) = handler else { return self.reply_status(id, tag, Status::ERR_NOT_SUPPORTED) };
        let count = self.outputs_of_procs.pulls.values().filter(|pull| pull.peer == id && !pull.is_of_host).count();
        if id != PeerId::OWN && count >= PULLS_MAX {
            return self.refuse_more(id, tag, "pulls of output");
        }
        let named = procs.iter().filter(|proc| !proc.nspace.is_empty());
        if self.is_out_of_reach(id, named) {
            return self.reply(id, tag, &IoPullReply { status: REFUSED, handler: None });
        }
        let buffering = match Buffering::read(&infos) {
            Ok(buffering) => buffering,
            Err(status) => return self.reply(id, tag, &IoPullReply { status, handler: None }),
        };
        let pull = Pull {
            peer: id,
            procs: procs.clone(),
            channels,
            handler,
            is_open: false,
            is_of_host: false,
            buffering,
            since: Some(now),
            buffer: Buffer::default(),
        };
        let number = self.outputs_of_procs.add(pull);
        if id == PeerId::OWN {
            return self.pulled(id, tag, number, Status::SUCCESS);
        }
        let mut infos = infos;
        self.sign_pull(id, &mut infos);
        let (then, time) = (Continuation::Pulled(id, tag, number), timeout_of(&infos));
        self.upcall_within(then, id, Upcall::IofPull { procs, infos, channels }, (time, now));
    }

    /// The host's answer to a pull. After success the kept output is sent.
    pub(super) fn pulled(&mut self, id: PeerId, tag: u32, number: u64, status: Status) {
        let Some(pull) = self.outputs_of_procs.pulls.get_mut(&number) else { return };
        if !matches!(status, Status::SUCCESS | Status::OPERATION_SUCCEEDED) {
            self.outputs_of_procs.pulls.remove(&number);
            return self.reply(id, tag, &IoPullReply { status, handler: None });
        }
        pull.is_open = true;
        self.reply(id, tag, &IoPullReply { status: Status::SUCCESS, handler: Some(number) });
        self.send_kept(&[number]);
    }

    /// A client ends a pull.
    pub(super) fn stop_output(&mut self, id: PeerId, tag: u32, mut infos: Vec<Info>, number: u64, now: Instant) {
        if self.outputs_of_procs.pulls.get(&number).is_none_or(|pull| pull.peer != id) {
            return self.reply_status(id, tag, Status::ERR_NOT_FOUND);
        }
        // What waits comes before the answer.
        self.send_held(number, |_| true);
        let Some(Pull { procs, channels, .. }) = self.outputs_of_procs.pulls.remove(&number) else { return };
        if id == PeerId::OWN {
            return self.reply_status(id, tag, Status::SUCCESS);
        }
        infos.push(Info::new(keys::IOF_STOP, Value::Bool(true)));
        self.sign_pull(id, &mut infos);
        let (then, time) = (Continuation::Reply(id, tag, Shape::Status), timeout_of(&infos));
        self.upcall_within(then, id, Upcall::IofPull { procs, infos, channels }, (time, now));
    }

    /// Adds the requester for the host: the upcall has no parameter for it.
    fn sign_pull(&self, id: PeerId, infos: &mut Vec<Info>) {
        if let Some(peer) = self.peers.get(&id) {
            sign_with_name(infos, &peer.actor());
        }
    }

    /// A client has input for others.
    pub(super) fn push_input(
        &mut self,
        id: PeerId,
        tag: u32,
        targets: Vec<Proc>,
        infos: Vec<Info>,
        data: Option<Vec<u8>>,
        now: Instant,
    ) {
        if self.is_out_of_reach(id, &targets) {
            return self.reply_status(id, tag, REFUSED);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.has_pushed = true;
        let source = peer.proc.clone();
        let mut infos = infos;
        sign(&mut infos, peer.user);
        let shape = if peer.controls_input { Shape::Status } else { Shape::Input { resumed: peer.resumed } };
        let (then, time) = (Continuation::Reply(id, tag, shape), timeout_of(&infos));
        self.upcall_within(then, id, Upcall::PushStdin { source, targets, infos, data }, (time, now));
    }

    /// The host has accepted input of a peer that cannot be paused, and wants no more for now: the reply waits, since the peer sends its
    /// next piece after it. The host may have resumed input meanwhile.
    pub(super) fn accept_paused_input(&mut self, id: PeerId, tag: u32, resumed: u64) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.resumed == resumed {
            peer.held_input.push(tag);
        } else {
            self.reply_status(id, tag, Status::SUCCESS);
        }
    }

    /// Takes out of what a gateway's host logs the texts for the output streams: they are output of the process that they come from.
    /// The host cannot be asked to write them, since it asks the library. A log for one channel alone (`PMIX_LOG_ONCE`) goes to its
    /// first stream, if it has one: that is the first channel that this library can write, and the host may be one that answers its
    /// own logs without writing them (PRRTE).
    ///
    /// # Errors
    /// `ERR_NOMEM`: texts before that one have been written.
    pub(super) fn write_log(
        &mut self,
        host: &Proc,
        data: &mut Vec<Info>,
        directives: &[Info],
        now: Instant,
    ) -> Result<()> {
        let source = match Info::find(directives, keys::LOG_SOURCE) {
            Some(Value::Proc(source)) => source,
            _ => host,
        };
        if Info::is_set(directives, keys::LOG_ONCE)
            && let Some(first) = data.iter().position(|info| stream_of(info).is_some())
        {
            data.swap(0, first);
            data.truncate(1);
        }
        for info in data.iter() {
            let Some((channel, text)) = stream_of(info) else { continue };
            let (shown, data) = (fallible_alloc::copy(text)?, fallible_alloc::copy(text)?);
            self.deliver_output(source.clone(), channel, data, Vec::new(), now);
            let output = IoDelivery { source: source.clone(), channel, handler: 0, infos: Vec::new(), data: shown };
            self.outputs.push_back(Output::Show(output));
        }
        data.retain(|info| stream_of(info).is_none());
        Ok(())
    }

    /// Output of a process that the host has.
    pub fn deliver_output(
        &mut self,
        source: Proc,
        channel: u16,
        data: Vec<u8>,
        infos: Vec<Info>,
        now: Instant,
    ) -> Status {
        if channel & STDIN != 0 || channel == 0 {
            return Status::ERR_BAD_PARAM;
        }
        let mut output = IoDelivery { source, channel, handler: DEFAULT_HANDLER, infos, data };
        let wanting: Vec<u64> = self
            .outputs_of_procs
            .pulls
            .iter()
            .filter(|(_, pull)| self.is_for(pull, &output))
            .map(|(n, _)| *n)
            .collect();
        for number in &wanting {
            self.send_output(*number, &mut output, Some(now));
        }
        if wanting.is_empty() {
            self.outputs_of_procs.keep(output);
        }
        Status::SUCCESS
    }

    /// Whether a piece of output is sent for a pull: not to its own source, nor to a process without access. The user of a job may
    /// become known only after the pull.
    fn is_for(&self, pull: &Pull, output: &IoDelivery) -> bool {
        let source = &output.source;
        let peer = self.peers.get(&pull.peer).filter(|peer| peer.admitted && !peer.finalized);
        let may_have = |peer: &Peer| match self.reach(&peer.proc, peer.user, &source.nspace) {
            Reach::All => true,
            // The host was asked about a job that the pull named.
            Reach::HostSays => pull.procs.iter().any(|proc| proc.nspace == source.nspace),
            Reach::Nothing => false,
        };
        pull.wants(source, output.channel)
            && peer.is_some_and(|peer| peer.proc != *source && (pull.is_of_host || may_have(peer)))
    }

    /// Sends a piece of output for a pull, or holds it back. `now` is `None` for pulls that hold nothing back.
    fn send_output(&mut self, number: u64, output: &mut IoDelivery, now: Option<Instant>) {
        let Some(pull) = self.outputs_of_procs.pulls.get_mut(&number) else { return };
        output.handler = pull.handler;
        let Some(now) = now.filter(|_| pull.buffering.holds()) else {
            let peer = pull.peer;
            return self.send(peer, TAG_IOF, |dialect, version| output.encode(dialect, version));
        };
        let before = pull.buffer.len();
        let due = pull.buffer.add(pull.buffering, output, now);
        let (first, held) = (pull.buffer.due(pull.buffering), pull.buffer.len());
        let outputs = &mut self.outputs_of_procs;
        outputs.held_bytes = (outputs.held_bytes + held).saturating_sub(before);
        outputs.due = outputs.due.into_iter().chain(first).min();
        match due {
            Ok(due) => self.send_all(number, due),
            // What cannot wait goes at once, after what came before it.
            Err(_) => {
                self.send_held(number, |_| true);
                let peer = self.outputs_of_procs.pulls.get(&number).map(|pull| pull.peer);
                peer.into_iter().for_each(|peer| self.send(peer, TAG_IOF, |to, version| output.encode(to, version)));
            }
        }
        if self.outputs_of_procs.held_bytes > KEPT_MAX {
            self.send_held(number, |_| true);
        }
    }

    /// Sends what has waited for a pull, of the sources that `is_wanted`.
    fn send_held(&mut self, number: u64, is_wanted: impl Fn(&Proc) -> bool) {
        let Some(pull) = self.outputs_of_procs.pulls.get_mut(&number) else { return };
        let before = pull.buffer.len();
        let held = pull.buffer.take_of(is_wanted);
        let taken = before - pull.buffer.len();
        self.outputs_of_procs.held_bytes -= taken.min(self.outputs_of_procs.held_bytes);
        self.send_all(number, held);
    }

    fn send_all(&mut self, number: u64, outputs: Vec<IoDelivery>) {
        let Some(peer) = self.outputs_of_procs.pulls.get(&number).map(|pull| pull.peer) else { return };
        for output in outputs {
            self.send(peer, TAG_IOF, |dialect, version| output.encode(dialect, version));
        }
    }

    /// Sends what waits for the pulls of a peer that has no more requests.
    pub(super) fn send_held_to(&mut self, id: PeerId) {
        let pulls = self.outputs_of_procs.pulls.iter().filter(|(_, pull)| pull.peer == id && pull.buffering.holds());
        let numbers: Vec<u64> = pulls.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.send_held(number, |_| true));
    }

    /// Sends what waits of a job that is no more.
    pub(super) fn send_held_of(&mut self, nspace: &Nspace) {
        let pulls = self.outputs_of_procs.pulls.iter().filter(|(_, pull)| pull.buffering.holds());
        let numbers: Vec<u64> = pulls.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.send_held(number, |source| source.nspace == *nspace));
    }

    /// Sends what has waited for its time.
    pub(super) fn send_due_output(&mut self, now: Instant) {
        if self.outputs_of_procs.due.is_none_or(|due| now < due) {
            return;
        }
        let mut sent = Vec::new();
        for (number, pull) in &mut self.outputs_of_procs.pulls {
            sent.push((*number, pull.buffer.take_due(pull.buffering, now)));
        }
        sent.into_iter().for_each(|(number, due)| self.send_all(number, due));
        let outputs = &mut self.outputs_of_procs;
        outputs.count_held();
        outputs.due = outputs.pulls.values().filter_map(|pull| pull.buffer.due(pull.buffering)).min();
    }

    /// What a new pull gets of the kept output of each channel.
    fn room_of(&self, number: u64) -> BTreeMap<u16, Room> {
        let Some(pull) = self.outputs_of_procs.pulls.get(&number) else { return BTreeMap::new() };
        let mut totals: BTreeMap<u16, usize> = BTreeMap::new();
        for output in self.outputs_of_procs.kept.iter().filter(|output| self.is_for(pull, output)) {
            *totals.entry(output.channel).or_default() += output.data.len();
        }
        totals.into_iter().map(|(channel, total)| (channel, pull.buffering.room(total))).collect()
    }

    /// Sends the kept output to new pulls.
    fn send_kept(&mut self, numbers: &[u64]) {
        let mut rooms: Vec<_> = numbers.iter().map(|number| self.room_of(*number)).collect();
        for mut output in std::mem::take(&mut self.outputs_of_procs.kept) {
            let is_for =
                |number: &&u64| self.outputs_of_procs.pulls.get(number).is_some_and(|pull| self.is_for(pull, &output));
            let wanting: Vec<usize> = (0..numbers.len()).filter(|at| is_for(&&numbers[*at])).collect();
            if wanting.is_empty() {
                self.outputs_of_procs.kept.push_back(output);
                continue;
            }
            for at in wanting {
                self.send_of_kept(numbers[at], rooms[at].get_mut(&output.channel), &mut output);
            }
        }
        self.outputs_of_procs.kept_bytes = self.outputs_of_procs.kept.iter().map(len).sum();
    }

    /// Sends a piece of the kept output, as far as there is room for it.
    fn send_of_kept(&mut self, number: u64, room: Option<&mut Room>, output: &mut IoDelivery) {
        let since = self.outputs_of_procs.pulls.get(&number).and_then(|pull| pull.since);
        let part = room.map(|room| room.cut(&output.data)).filter(|part| part.len() < output.data.len());
        match part {
            None => self.send_output(number, output, since),
            Some([]) => {}
            Some(part) => {
                // Without memory all of it goes rather than none.
                let Ok(data) = fallible_alloc::copy(part) else { return self.send_output(number, output, since) };
                let mut cut =
                    IoDelivery { data, infos: output.infos.clone(), source: output.source.clone(), ..*output };
                self.send_output(number, &mut cut, since);
            }
        }
    }

    /// A tool is sent its server's own output without asking.
    pub(super) fn pull_for_tool(&mut self, id: PeerId) {
        let procs = vec![self.config.me.clone()];
        self.outputs_of_procs.add(Pull::of_host(id, procs, STDOUT | STDERR | STDDIAG));
    }

    /// The channels of a spawned job that the requester pulls: by its directives; for a tool, and for the singleton that this server was
    /// started for, all by default.
    pub(super) fn channels_of_spawn(&self, id: PeerId, infos: &[Info]) -> u16 {
        let shows = |peer: &Peer| peer.is_tool || self.config.singleton.as_ref() == Some(&peer.proc);
        let is_tool = id != PeerId::OWN && self.peers.get(&id).is_some_and(shows);
        let channels = [(keys::FWD_STDOUT, STDOUT), (keys::FWD_STDERR, STDERR), (keys::FWD_STDDIAG, STDDIAG)];
        channels.into_iter().fold(0, |mask, (key, channel)| {
            let said = Info::find(infos, key).map(Value::is_true);
            if said.unwrap_or(is_tool) { mask | channel } else { mask }
        })
    }

    /// A spawned job runs.
    pub(super) fn spawned(&mut self, id: PeerId, tag: u32, channels: u16, answer: UpcallResult) {
        let nspace = match &answer {
            UpcallResult::Spawn(Status::SUCCESS | Status::OPERATION_SUCCEEDED, Some(nspace)) => Some(nspace.clone()),
            _ => None,
        };
        match nspace.as_ref().and_then(|nspace| self.reply_with_job(id, nspace)) {
            Some(reply) => self.send(id, tag, |_, _| Ok(reply)),
            None => self.reply_answer(id, tag, Shape::Spawn, answer),
        }
        let Some((nspace, uid)) = nspace.zip(self.peers.get(&id).map(|peer| peer.user.uid)) else { return };
        self.evict_guests(&nspace, Some(uid));
        // The user that spawned a job has access to it, even if the host has registered it for another user.
        if let Some(state) = self.nspaces.get_mut(&nspace) {
            state.users.insert(uid);
        }
        let mut receivers = self.receivers_of_output(id);
        receivers.insert(id, channels);
        let mut numbers = Vec::with_capacity(receivers.len());
        for (peer, channels) in receivers.into_iter().filter(|(_, channels)| *channels != 0) {
            let procs = vec![Proc::new(nspace.clone(), Rank::WILDCARD)];
            numbers.push(self.outputs_of_procs.add(Pull::of_host(peer, procs, channels)));
        }
        self.send_kept(&numbers);
    }

    /// The reply to a tool that has spawned a job which is known here. It has the job's data: the tool names hosts and process numbers
    /// beside the output. `None` if they do not fit into memory or one message.
    fn reply_with_job(&self, id: PeerId, nspace: &Nspace) -> Option<Vec<u8>> {
        let peer = self.peers.get(&id).filter(|peer| id != PeerId::OWN && peer.is_tool)?;
        let state = self.nspaces.get(nspace)?;
        let to = recipient(peer, &self.config.hostname);
        let write = |with_ranks: bool| {
            spawn_reply(to.dialect, to.version, Status::SUCCESS, Some(nspace), |reply| {
                let ranks = jobinfo::all_ranks(&state.job).filter(|_| with_ranks);
                jobinfo::pack_with(reply, &state.job, &to, ranks, |rank| state.pids.get(&rank).copied())
            })
        };
        // A tool does without the ranks' values if the job is too large for one message.
        let whole = write(true).ok().filter(|reply| reply.len() <= MESSAGE_LEN_MAX);
        whole.or_else(|| write(false).ok().filter(|reply| reply.len() <= MESSAGE_LEN_MAX))
    }

    /// The host keeps the number of a process for itself. Tools are told it with the job that they have spawned.
    pub fn note_pid(&mut self, proc: &Proc, pid: i32) {
        let state = self.nspaces.get_mut(&proc.nspace).filter(|state| proc.rank.0 < state.job.size());
        if let Some(state) = state {
            state.pids.insert(proc.rank, pid);
        }
    }

    /// Who gets the output of a rank's job, and which channels, since it spawned that job: the output of the rank's children goes there,
    /// too. Only to the rank's own user: the host has not said who may have the children's output. A receiver of very many jobs
    /// gets no more of them, since the host may keep them registered for ever.
    fn receivers_of_output(&self, id: PeerId) -> BTreeMap<PeerId, u16> {
        let mut receivers = BTreeMap::new();
        let Some(rank) = self.peers.get(&id).filter(|peer| id != PeerId::OWN && !peer.is_tool) else {
            return receivers;
        };
        let pulls = || self.outputs_of_procs.pulls.values().filter(|pull| pull.is_of_host && pull.is_open);
        let is_of_job = |pull: &&Pull| pull.procs.iter().any(|proc| proc.nspace == rank.proc.nspace);
        let is_of_user = |pull: &&Pull| self.peers.get(&pull.peer).is_some_and(|peer| peer.user.uid == rank.user.uid);
        for pull in pulls().filter(is_of_job).filter(is_of_user) {
            if pulls().filter(|other| other.peer == pull.peer).count() < PULLS_MAX {
                receivers.insert(pull.peer, pull.channels);
            }
        }
        receivers
    }

    /// Flow control of input: forwards the host's pause or resume to every client concerned that has pushed input and knows the message;
    /// the others get the replies that wait for a resume. The server's own process gets it at once, through `own`.
    pub fn control_input(&mut self, control: &FlowControl, own: impl FnOnce(&FlowControl)) -> Status {
        if control.channel & STDIN == 0 {
            return Status::ERR_NOT_SUPPORTED;
        }
        let is_concerned =
            |peer: &Peer| peer.has_pushed && peer.admitted && !peer.finalized && is_meant(&control.source, &peer.proc);
        let concerned = self.peers.iter_mut().filter(|(_, peer)| is_concerned(peer));
        let (mut told, mut accepted) = (Vec::new(), Vec::new());
        for (id, peer) in concerned {
            if peer.controls_input {
                told.push(*id);
            } else if !control.is_off {
                peer.resumed += 1;
                accepted.extend(peer.held_input.drain(..).map(|tag| (*id, tag)));
            }
        }
        if told.contains(&PeerId::OWN) {
            own(control);
        }
        for id in told.into_iter().filter(|id| *id != PeerId::OWN) {
            self.send(id, TAG_FLOW_CONTROL, |dialect, version| control.encode(dialect, version));
        }
        accepted.into_iter().for_each(|(id, tag)| self.reply_status(id, tag, Status::SUCCESS));
        Status::SUCCESS
    }
}
