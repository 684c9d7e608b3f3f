//! Output of processes and input for them. What a process writes is a piece with a number, `[17]`: each receiver gets the pieces that it
//! wants, of processes that it may hear, once, and those of one channel in their order.

use pmix_dstore::model::{Info, Nspace, Proc, Rank as Number, Status, Value, keys};
use pmix_server::UpcallResult;
use pmix_wire::reply::{IoPullReply, StatusReply};
use pmix_wire::{FlowControl, IoDelivery, Reply, Request, Version};

use crate::invariant::Invariant;
use crate::rank::{Call, Role};
use crate::services::numbered;
use crate::world::{SERVER_USER, SERVERS, What, World};

/// The channels of processes: standard output, standard error.
const CHANNELS: [u16; 2] = [2, 4];
/// So many bytes wait for more, in form 1.
const WAITING_MAX: u32 = 20;
/// The ways of a pull.
pub(crate) const FORMS: u8 = 8;

/// What a process has written.
pub(crate) struct Piece {
    from: usize,
    channel: u16,
    /// The pulls that must get it.
    due: Vec<usize>,
}

/// Output that a process wants.
pub(crate) struct Pull {
    of: usize,
    owner: usize,
    form: u8,
    is_lost: bool,
    /// The server's number of it.
    number: Option<u64>,
    /// The connection that it is of.
    cycle: u64,
    /// It has been asked to end, and has ended.
    is_ending: bool,
    has_ended: bool,
    /// The last piece of each channel and source.
    last: Vec<(u16, usize, usize)>,
    got: Vec<usize>,
}

impl Pull {
    /// Some of it may be dropped.
    fn may_lose(&self) -> bool {
        matches!(self.form, 3..=5)
    }
}

/// Whether a user may have the output of another one's processes. Common operations give no right to it.
fn may_have(user: u32, owner: u32) -> bool {
    [owner, SERVER_USER].contains(&user)
}

impl World {
    /// The call that wants a process's output.
    pub(crate) fn new_pull(&mut self, of: usize, owner: usize, form: u8, is_lost: bool) -> Call {
        let (last, got, cycle) = (Vec::new(), Vec::new(), self.ranks[of].cycle);
        self.pulls.push(Pull {
            of,
            owner,
            form,
            is_lost,
            number: None,
            cycle,
            is_ending: false,
            has_ended: false,
            last,
            got,
        });
        Call::Pull(self.pulls.len() - 1)
    }

    pub(crate) fn pull(&self, number: usize) -> Request {
        let pull = &self.pulls[number];
        let mut infos = numbered(number as u32, pull.is_lost);
        let mut say = |key: &'static str, value| infos.push(Info::new(key, value));
        match pull.form {
            1 => say(keys::IOF_BUFFERING_SIZE, Value::Uint32(WAITING_MAX)),
            2 => say(keys::IOF_BUFFERING_TIME, Value::Uint32(2)),
            3 => {
                say(keys::IOF_BUFFERING_TIME, Value::Uint32(3));
                say(keys::IOF_CACHE_SIZE, Value::Uint32(10));
            }
            4 => {
                say(keys::IOF_BUFFERING_TIME, Value::Uint32(3));
                say(keys::IOF_CACHE_SIZE, Value::Uint32(10));
                say(keys::IOF_DROP_OLDEST, Value::Bool(true));
            }
            5 => say(keys::IOF_CACHE_SIZE, Value::Uint32(6)),
            6 => {
                say(keys::IOF_DROP_OLDEST, Value::Bool(true));
                say(keys::IOF_DROP_NEWEST, Value::Bool(true));
            }
            _ => {}
        }
        let owner = self.ranks[pull.owner].proc.clone();
        let whole = Proc::new(owner.nspace.clone(), Number::WILDCARD);
        let procs = vec![if pull.form.is_multiple_of(2) { whole } else { owner }];
        Request::IoPull { procs, infos, channels: CHANNELS[0] | CHANNELS[1], handler: Some(number as u64 + 1) }
    }

    /// The reply to a pull.
    pub(crate) fn pulled(&mut self, rank: usize, number: usize, bytes: &[u8]) -> Option<()> {
        let reply = IoPullReply::decode(self.ranks[rank].dialect(), Version::OURS, bytes).ok()?;
        let pull = &mut self.pulls[number];
        pull.number = reply.handler;
        let (form, is_lost, owner) = (pull.form, pull.is_lost, pull.owner);
        let is_own = self.ranks[rank].role == Role::Server;
        let may_have = may_have(self.ranks[rank].user, self.ranks[owner].user);
        if reply.status.is_success() && !may_have {
            self.violated(
                Invariant::MayRead,
                format!("rank {rank} was let have output of another user's rank {owner}"),
            );
        }
        let is_expected = match reply.status {
            Status::SUCCESS => form != 6 && (!is_lost || is_own),
            Status::ERR_BAD_PARAM => form == 6,
            Status::ERR_TIMEOUT => is_lost,
            Status::ERR_NO_PERMISSIONS => !may_have,
            _ => false,
        };
        if !is_expected {
            let what = format!("rank {rank} wanted output of rank {owner} in form {form}: {}", reply.status);
            self.violated(Invariant::NamedCause, what);
        }
        if reply.status.is_success() && reply.handler.is_none() {
            self.violated(Invariant::AnsweredOnce, format!("pull {number} has no number"));
        }
        Some(())
    }

    /// The call that ends the newest pull of a rank that is open.
    pub(crate) fn stop_of(&mut self, rank: usize) -> Option<Call> {
        let open = |pull: &Pull| pull.of == rank && pull.number.is_some() && !pull.is_ending;
        let number = self.pulls.iter().rposition(open)?;
        self.pulls[number].is_ending = true;
        Some(Call::StopPull(number))
    }

    pub(crate) fn stop(&mut self, number: usize) -> Request {
        let pull = &mut self.pulls[number];
        pull.is_ending = true;
        Request::IoDeregister { infos: numbered(number as u32, false), handler: pull.number.unwrap_or_default() }
    }

    pub(crate) fn stopped(&mut self, number: usize, status: Status) {
        self.pulls[number].has_ended = true;
        // With its connection it has ended by itself.
        let pull = &self.pulls[number];
        let has_gone = status == Status::ERR_NOT_FOUND && self.ranks[pull.of].cycle != pull.cycle;
        if !status.is_success() && !has_gone {
            self.violated(Invariant::NamedCause, format!("pull {number} did not end: {status}"));
        }
    }

    /// Hosts let a process have the output of its own user's jobs: of those that are not registered at its server they alone know the user. Every
    /// second answer is "already done".
    pub(crate) fn asked_pull(&mut self, server: usize, id: u64, procs: &[Proc], infos: &[Info]) {
        let asker = match Info::find(infos, keys::REQUESTOR) {
            Some(Value::Proc(proc)) => proc.clone(),
            _ => return self.violated(Invariant::Signed, "a pull does not say who wants the output".into()),
        };
        let user = self.check_signed(&asker, infos);
        let is_lost = infos.iter().any(|info| info.key.is(keys::TIMEOUT));
        let is_of_user =
            |proc: &Proc| self.jobs.iter().any(|job| job.nspace == proc.nspace && may_have(user, job.user));
        // Whoever stops a pull may do so.
        let is_let = Info::is_set(infos, keys::IOF_STOP) || procs.iter().all(is_of_user);
        let answer = match self.kind_of_answer(2) {
            _ if !is_let => Status::ERR_NO_PERMISSIONS,
            0 => Status::OPERATION_SUCCEEDED,
            _ => Status::SUCCESS,
        };
        self.answer_or_lose(server, id, UpcallResult::Op(answer), is_lost);
    }

    /// A process writes, and the hosts of all servers have it after a while.
    pub(crate) fn write(&mut self, from: usize, channel: u8) {
        if !self.ranks[from].lives || self.ranks[from].role != Role::Rank {
            return;
        }
        let channel = CHANNELS[usize::from(channel) % CHANNELS.len()];
        self.pieces.push(Piece { from, channel, due: Vec::new() });
        let number = self.pieces.len() - 1;
        for server in 0..SERVERS {
            // In order at each server, as a pipe has it.
            let late = self.delay("output", server as u64, number as u64);
            let at = (self.now + late).max(self.written[server] + 1);
            self.written[server] = at;
            self.at(at, What::Output { server, piece: number });
        }
    }

    /// A host has a piece of output.
    pub(crate) fn deliver(&mut self, server: usize, piece: usize) {
        let (from, channel) = (self.pieces[piece].from, self.pieces[piece].channel);
        let is_of_job = self.jobs[self.ranks[from].job].servers.contains(&server);
        let is_due = |pull: &Pull| {
            let (one, of) = (&self.ranks[pull.of], &self.ranks[from]);
            let (owner, is_whole) = (&self.ranks[pull.owner], pull.form.is_multiple_of(2));
            let is_wanted = if is_whole { owner.job == of.job } else { pull.owner == from };
            let is_user = one.user == of.user && is_of_job;
            one.server == server && one.lives && is_user && is_wanted && pull.of != from
        };
        let due = (0..self.pulls.len()).filter(|number| {
            let pull = &self.pulls[*number];
            pull.number.is_some() && !pull.is_ending && !pull.may_lose() && is_due(pull)
        });
        let due: Vec<usize> = due.collect();
        self.pieces[piece].due.extend(due);
        let (now, proc) = (self.time(), self.ranks[from].proc.clone());
        let text = format!("[{piece}]").into_bytes();
        self.servers[server].deliver_output(proc, channel, text, now);
        self.take_from(server);
    }

    /// Output arrives at a process.
    pub(crate) fn has_output(&mut self, rank: usize, bytes: &[u8]) {
        let Ok(output) = IoDelivery::decode(self.ranks[rank].dialect(), bytes) else {
            return self.violated(Invariant::AnsweredOnce, format!("rank {rank} cannot read output"));
        };
        let Some(source) = self.find(&output.source) else {
            return self.violated(Invariant::Output, format!("rank {rank} got output of {}", output.source));
        };
        let (to, of) = (&self.ranks[rank], &self.ranks[source]);
        // A server's own output is its tools', too.
        let is_of_server = of.role == Role::Server && of.server == to.server && matches!(to.role, Role::Tool(_));
        if !is_of_server && !may_have(to.user, of.user) {
            return self
                .violated(Invariant::MayRead, format!("rank {rank} got output of another user's rank {source}"));
        }
        let text = String::from_utf8_lossy(&output.data).into_owned();
        // Whole pieces; where some may be dropped, the first and the last may be cut.
        let pieces =
            text.split_inclusive(']').filter_map(|piece| piece.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
        let pieces: Vec<usize> = pieces.collect();
        let Some(number) = output.handler.checked_sub(1).map(|number| number as usize) else { return };
        if self.pulls.get(number).is_none_or(|pull| pull.of != rank) {
            return self
                .violated(Invariant::Output, format!("rank {rank} got output of pull {number}, which is not its own"));
        }
        let wrong = pieces.iter().any(|piece| {
            self.pieces.get(*piece).is_none_or(|piece| piece.from != source || piece.channel != output.channel)
        });
        let pull = &mut self.pulls[number];
        let last = pull.last.iter().position(|(channel, of, _)| (*channel, *of) == (output.channel, source));
        let last = last.unwrap_or_else(|| {
            pull.last.push((output.channel, source, 0));
            pull.last.len() - 1
        });
        let mut is_in_order = true;
        for piece in &pieces {
            is_in_order &= pull.last[last].2 < piece + 1;
            pull.last[last].2 = piece + 1;
        }
        let has_ended = pull.has_ended;
        let is_whole = pull.may_lose() || text.len() == pieces.iter().map(|piece| format!("[{piece}]").len()).sum();
        pull.got.extend(&pieces);
        if wrong || !is_in_order || !is_whole || has_ended {
            let what = format!(
                "rank {rank} got {text:?} of rank {source} by pull {number}; in order: {is_in_order}, over: {has_ended}"
            );
            self.violated(Invariant::Output, what);
        }
    }

    /// Whether a piece may still wait for more bytes of its source and channel.
    fn may_wait(&self, pull: &Pull, number: usize) -> bool {
        let of = |piece: &Piece| (piece.from, piece.channel);
        let is_like = |other: &usize| of(&self.pieces[*other]) == of(&self.pieces[number]) && !pull.got.contains(other);
        let waiting = (0..self.pieces.len()).filter(is_like).map(|piece| format!("[{piece}]").len()).sum::<usize>();
        pull.form == 1 && waiting < WAITING_MAX as usize
    }

    /// The pulls of a process end with its connection.
    pub(crate) fn end_pulls_of(&mut self, rank: usize) {
        self.pulls.iter_mut().filter(|pull| pull.of == rank).for_each(|pull| pull.is_ending = true);
    }

    /// Who wanted a piece has got it.
    pub(crate) fn check_output(&mut self) {
        for (number, piece) in self.pieces.iter().enumerate() {
            let lacks = |pull: &&usize| {
                let pull = &self.pulls[**pull];
                self.ranks[pull.of].lives
                    && !pull.is_ending
                    && !pull.got.contains(&number)
                    && !self.may_wait(pull, number)
            };
            if let Some(pull) = piece.due.iter().find(lacks) {
                let what = format!("rank {} did not get piece {number} by pull {pull}", self.pulls[*pull].of);
                return self.violated(Invariant::Output, what);
            }
        }
    }

    pub(crate) fn push(&self, number: u32, target: usize) -> Request {
        let data = (!number.is_multiple_of(7)).then(|| number.to_le_bytes().into());
        let targets = vec![self.ranks[target].proc.clone()];
        Request::IoPush { targets, infos: numbered(number, false), data }
    }

    /// The host takes input, and sometimes wants no more for a while.
    pub(crate) fn input_answer(&mut self, server: usize, number: u32) -> UpcallResult {
        if !number.is_multiple_of(3) {
            return UpcallResult::Op(Status::SUCCESS);
        }
        let late = self.delay("resume", server as u64, number.into());
        self.after(late, What::Flow { server, is_off: true });
        // After the answer, however late that is: hosts resume input after they have paused it.
        self.after(late + 9000, What::Flow { server, is_off: false });
        UpcallResult::Op(Status::ERR_IOF_XOFF)
    }

    /// A host pauses or resumes input.
    pub(crate) fn flow(&mut self, server: usize, is_off: bool) {
        // The empty name is everybody's.
        let Ok(all) = Nspace::new("") else { return };
        let source = Proc::new(all, Number::WILDCARD);
        let control = FlowControl { source, channel: 1, is_off, infos: Vec::new() };
        self.servers[server].control_input(&control);
        self.take_from(server);
    }

    /// The reply to input.
    pub(crate) fn pushed(&mut self, rank: usize, call: &Call, bytes: &[u8]) -> Option<()> {
        let Call::Push { number, target } = *call else { return None };
        let status = StatusReply::decode(self.ranks[rank].dialect(), Version::OURS, bytes).ok()?.status;
        let is_own = self.ranks[rank].role == Role::Server;
        let is_expected = match status {
            Status::SUCCESS => true,
            // Only who can be told to go on is told of a pause.
            Status::ERR_IOF_XOFF => (is_own || self.ranks[rank].is_ours) && number.is_multiple_of(3),
            Status::ERR_NO_PERMISSIONS => self.ranks[rank].user != self.ranks[target].user,
            _ => false,
        };
        if !is_expected {
            self.violated(Invariant::OwnAnswer, format!("{call:?} of rank {rank} was answered with {status}"));
        }
        Some(())
    }
}
