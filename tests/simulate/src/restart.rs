//! Servers that are killed and started again (`docs/restart.md`), in some seeds. The engine is dropped, at rest or in the middle of a step. What is
//! left are the bytes of its journals and the values of its segments; publications that were under way are lost, or done. The host dies with its
//! server; the next one registers the same jobs and processes again, bit by bit. Ranks see their connection end, try again until they are let in
//! or give up, and send again what may be sent again by the client's own table.

use std::collections::BTreeSet;
use std::time::Duration;

use pmix_client::channel::may_repeat;
use pmix_dstore::model::{Info, Proc, Value};
use pmix_server::simulate::{Remains, Simulation};
use pmix_wire::{FORMER_INDEX, Hello};

use crate::invariant::{Exception, Invariant};
use crate::random::{drawn, of_text};
use crate::rank::{Call, Rank, Role};
use crate::script::Action;
use crate::world::{GATEWAY, Job, SERVER_USER, SERVERS, What, World, node};

/// For how long ranks wait for the next server, in milliseconds.
const PATIENCE: u64 = 5000;
/// The pause between two attempts to connect.
const PAUSE: u64 = 50;
/// One seed in so many has restarts.
const SEEDS: u64 = 3;

/// What is known of a server beside its engine.
#[derive(Default)]
pub(crate) struct Life {
    /// It was killed, and is not started again so far.
    pub is_down: bool,
    /// It is killed in its next step.
    pub is_doomed: bool,
    /// How often it was killed.
    pub kills: u64,
    /// The ranks that the host has not registered again.
    pub unregistered: BTreeSet<usize>,
    /// What is in its directories while it is down.
    remains: Vec<Remains>,
}

/// Whether servers are restarted in the runs of this seed.
pub(crate) fn is_of(seed: u64) -> bool {
    drawn(&[seed, of_text("restarts")]).is_multiple_of(SEEDS)
}

/// The script of a seed with restarts, made of another one: what the next server does not know any more is left out.
pub(crate) fn script_of(seed: u64, actions: Vec<Action>) -> Vec<Action> {
    let replaced = |(number, action): (usize, Action)| {
        let number = drawn(&[seed, of_text("restart"), number as u64]);
        let [rank, more, other] = [8, 16, 24].map(|bits| (number >> bits) as u8);
        let is_known = matches!(
            action,
            Action::Put { .. }
                | Action::Fleet { .. }
                | Action::Fence { .. }
                | Action::FenceHere { .. }
                | Action::Get { .. }
                | Action::Read { .. }
                | Action::Register { .. }
                | Action::Unregister { .. }
                | Action::Notify { .. }
                | Action::Publish { .. }
                | Action::Lookup { .. }
                | Action::Kill { .. }
                | Action::Return { .. }
                | Action::Wait { .. }
        );
        match number % 64 {
            0 | 1 => Action::Restart { server: rank, form: more },
            _ if is_known => action,
            2..20 => Action::Put { rank, key: more % 6 },
            20..36 => Action::Fence {
                job: rank,
                members: if more < 128 { u8::MAX } else { other },
                collects: other < 180,
                is_lost: false,
            },
            _ => Action::Get { reader: rank, owner: other, key: more % 6, has_timeout: more < 64 },
        }
    };
    actions.into_iter().enumerate().map(replaced).collect()
}

/// The engine of a server that may be restarted.
pub(crate) fn engine(number: usize, name: Proc, remains: Vec<Remains>) -> Result<Simulation, String> {
    let (user, patience) = ((SERVER_USER, SERVER_USER), Duration::from_millis(PATIENCE));
    Simulation::restartable(name, &node(number), user, number == GATEWAY, patience, remains)
}

impl World {
    /// A server is killed, now or in the middle of its next step.
    pub(crate) fn restart(&mut self, server: usize, form: u8) {
        if !self.restarts || self.lives[server].is_down {
            return;
        }
        if form.is_multiple_of(2) {
            return self.kill_server(server);
        }
        self.lives[server].is_doomed = true;
        let kills = self.lives[server].kills;
        self.after(500, What::Doomed { server, kills });
    }

    /// It has had no step in which it could have been killed.
    pub(crate) fn doomed(&mut self, server: usize, kills: u64) {
        if self.lives[server].is_doomed && self.lives[server].kills == kills {
            self.kill_server(server);
        }
    }

    /// Kills a server, and with it its host.
    pub(crate) fn kill_server(&mut self, server: usize) {
        let life = &mut self.lives[server];
        life.kills += 1;
        (life.is_doomed, life.is_down) = (false, true);
        let which = [self.seed, of_text("kill"), server as u64, life.kills];
        let name = self.ranks[self.own[server]].proc.clone();
        // Until the next one is started nothing happens there.
        let nobody = engine(server, name, Vec::new()).expect("nothing is left that could be refused");
        let dead = std::mem::replace(&mut self.servers[server], nobody);
        let mut draws = 0;
        let remains = dead.kill(|limit| {
            draws += 1;
            drawn(&[&which[..], &[draws]].concat()) % limit.max(1)
        });
        self.lives[server].remains = remains;
        self.lives[server].unregistered =
            (0..self.ranks.len()).filter(|rank| self.is_of_server(*rank, server)).collect();
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].server == server {
                self.loses_server(rank);
            }
        }
        self.forget_values(server);
        self.drop_what_is_under_way(server);
        // Some come back so late that ranks do not wait for them.
        let kills = self.lives[server].kills;
        let late = match self.happens("late server", server as u64, kills, 16) {
            true => PATIENCE + 2000,
            false => 1 + self.delay("down", server as u64, kills),
        };
        self.after(late, What::Starts(server));
    }

    /// A job without a directory leaves nothing: who comes to the next server as if for the first time finds no value from before.
    fn forget_values(&mut self, server: usize) {
        let remains = &self.lives[server].remains;
        let is_lost =
            |rank: &Rank| rank.server == server && !remains.iter().any(|one| *one.nspace() == rank.proc.nspace);
        let lost: BTreeSet<usize> = (0..self.ranks.len()).filter(|rank| is_lost(&self.ranks[*rank])).collect();
        self.ranks.iter_mut().for_each(|rank| rank.known.retain(|(owner, _), _| !lost.contains(owner)));
    }

    fn is_of_server(&self, rank: usize, server: usize) -> bool {
        self.ranks[rank].server == server && self.ranks[rank].role == Role::Rank
    }

    /// What becomes of a rank whose server is killed, and when it sees it: messages that the server had written may arrive before that.
    fn loses_server(&mut self, rank: usize) {
        let (server, kills) = (self.ranks[rank].server, self.lives[self.ranks[rank].server].kills);
        let which = drawn(&[rank as u64, kills]);
        let reads_on =
            if self.happens("reads on", rank as u64, which, 2) { 0 } else { self.delay("reads", rank as u64, which) };
        let until = self.now + reads_on;
        let is_own = self.ranks[rank].role == Role::Server;
        // What it would get later is lost.
        self.drop_queued(|time, what| match what {
            What::Down { rank: of, .. } | What::Admitted { rank: of, .. } => *of == rank && (is_own || time > until),
            _ => false,
        });
        let is_left =
            self.lives[server].remains.iter().any(|remains| *remains.nspace() == self.ranks[rank].proc.nspace);
        let one = &mut self.ranks[rank];
        if is_own {
            // The host itself: a new process, which begins anew.
            one.calls.clear();
            one.sent.clear();
            one.program.clear();
            one.registered.clear();
            (one.blocked, one.is_admitted) = (None, false);
            return;
        }
        one.can_return &= is_left && one.is_ours;
        if !is_left {
            // Who is started now is started by the next server.
            one.secret = None;
        }
        // It will have to register again.
        one.registered.values_mut().for_each(|is_sure| *is_sure = false);
        let has_connection = one.lives && one.has_connected;
        // Nobody but the host can tell the next server of its end.
        one.has_connected &= one.is_admitted && is_left;
        if has_connection || self.is_queued(|what| matches!(what, What::Notices(of) if *of == rank)) {
            self.drop_queued(|_, what| matches!(what, What::Hello(of) | What::Notices(of) if *of == rank));
            self.at(until + 1, What::Notices(rank));
        }
        self.except(rank, Exception::EventLost);
    }

    /// What was on its way to a server that is killed, or that it had asked its host, is lost.
    fn drop_what_is_under_way(&mut self, server: usize) {
        let of: Vec<usize> = self.ranks.iter().map(|rank| rank.server).collect();
        let ended: Vec<usize> = (0..of.len())
            .filter(|rank| {
                of[*rank] == server && self.is_queued(|what| matches!(what, What::Ended(ended) if ended == rank))
            })
            .collect();
        self.drop_queued(|_, what| match what {
            What::Up { rank, .. } | What::Ended(rank) | What::Beat(rank) => of[*rank] == server,
            What::Answer { server: at, .. }
            | What::Begin { server: at, .. }
            | What::End { server: at, .. }
            | What::Event { server: at, .. }
            | What::Output { server: at, .. }
            | What::Flow { server: at, .. }
            | What::Looked { server: at, .. }
            | What::Measured { server: at, .. }
            | What::MemoryRead { server: at, .. }
            | What::Registers { server: at, .. } => *at == server,
            What::RegistersRank(rank) => of[*rank] == server,
            // Asked by that server: nobody wants it any more.
            What::Modex { server: at, for_whom, .. } => *at == server || for_whom.0 == server,
            _ => false,
        });
        for rank in ended {
            self.ranks[rank].is_cut = true;
            if self.ranks[rank].returns {
                self.come_back(rank);
                continue;
            }
            // Nobody has seen its end.
            self.except(rank, Exception::CountsAsLost);
            let late = 5 + self.delay("learns", rank as u64, 1);
            self.after(late, What::Learns(rank));
        }
        self.forget_host(server);
    }

    /// A rank sees that its connection has ended.
    pub(crate) fn notices(&mut self, rank: usize) {
        if !self.ranks[rank].lives {
            return;
        }
        if !self.ranks[rank].can_return {
            self.ranks[rank].has_connected = false;
            return self.except(rank, Exception::ConnectionLost);
        }
        let connection = self.connection(rank);
        self.drop_queued(|_, what| matches!(what, What::Up { rank: of, .. } if *of == rank));
        let one = &mut self.ranks[rank];
        one.former = one.is_admitted.then_some((connection & 0x7fff_ffff) as u32).or(one.former);
        one.is_admitted = false;
        one.gives_up = Some(self.now + PATIENCE);
        let calls: Vec<u32> = one.calls.keys().copied().collect();
        for tag in calls {
            let one = &mut self.ranks[rank];
            if one.sent.get(&tag).is_some_and(|request| may_repeat(one.dialect(), request)) {
                continue;
            }
            one.calls.remove(&tag);
            one.sent.remove(&tag);
            one.blocked = one.blocked.filter(|blocked| *blocked != tag);
            self.except(rank, Exception::NobodyKnows);
        }
        self.after(2, What::Hello(rank));
    }

    /// Whether a rank cannot connect now, and must try again later, or gives up.
    pub(crate) fn tries_again(&mut self, rank: usize) -> bool {
        let server = self.ranks[rank].server;
        if !self.restarts || self.ranks[rank].role != Role::Rank {
            return false;
        }
        let (life, nspace) = (&self.lives[server], &self.ranks[rank].proc.nspace);
        let is_away = match self.ranks[rank].former {
            // It connects at the socket, whether the host has registered it again or not.
            Some(_) => life.is_down || !self.servers[server].listens(nspace),
            // It is started when its job has its directory, or can have none.
            None => {
                let engine = &self.servers[server];
                let waits = self.ranks[rank].shares && !engine.listens(nspace) && engine.is_publishing();
                life.is_down || life.unregistered.contains(&rank) || waits
            }
        };
        let is_lost = self.ranks[rank].former.is_some() && !self.ranks[rank].can_return;
        if is_lost {
            // Its directory is gone: no server will come there.
            self.except(rank, Exception::ConnectionLost);
        } else if is_away {
            self.wait_for_server(rank);
        }
        is_away || is_lost
    }

    /// A server drops who comes too early.
    pub(crate) fn is_too_early(&mut self, server: usize, rank: usize) -> bool {
        let is_early = self.ranks[rank].former.is_some() && self.lives[server].unregistered.contains(&rank);
        if is_early {
            self.wait_for_server(rank);
        }
        is_early
    }

    fn wait_for_server(&mut self, rank: usize) {
        match self.ranks[rank].gives_up {
            Some(end) if self.now >= end => self.except(rank, Exception::ConnectionLost),
            _ => self.after(PAUSE, What::Hello(rank)),
        }
    }

    /// What a rank's handshake says of its former connection.
    pub(crate) fn with_former(&self, rank: usize, hello: Hello) -> Hello {
        match self.ranks[rank].former {
            Some(former) => Hello { infos: vec![Info::new(FORMER_INDEX, Value::Uint32(former))], ..hello },
            None => hello,
        }
    }

    /// A rank is let in again: it registers its events, and sends again what waits.
    pub(crate) fn goes_on(&mut self, rank: usize) {
        self.ranks[rank].gives_up = None;
        if self.ranks[rank].former.take().is_none() {
            return;
        }
        let waiting: Vec<(u32, Vec<u8>)> = std::mem::take(&mut self.ranks[rank].sent).into_iter().collect();
        let codes: Vec<u8> = self.ranks[rank].registered.keys().copied().collect();
        for code in codes {
            let mut call = Call::Register { code };
            let request = self.request(rank, &mut call);
            self.send(rank, call, &request);
        }
        for (tag, bytes) in waiting {
            self.ranks[rank].sent.insert(tag, bytes.clone());
            let time = self.arrival(rank, 0);
            self.at(time, What::Up { rank, tag, bytes });
        }
    }

    /// The next server is started, and finds what the one before has left.
    pub(crate) fn starts(&mut self, server: usize) {
        let name = self.ranks[self.own[server]].proc.clone();
        let remains = std::mem::take(&mut self.lives[server].remains);
        match engine(server, name, remains) {
            Ok(engine) => self.servers[server] = engine,
            Err(why) => {
                return self.violated(Invariant::NamedCause, format!("server {server} refuses what was left: {why}"));
            }
        }
        self.lives[server].is_down = false;
        self.tell_time(server);
        let own = self.own[server];
        self.ranks[own].is_admitted = true;
        self.go_on(own);
        for job in 0..self.jobs.len() {
            if self.jobs[job].servers.contains(&server) {
                let late = self.delay("registers", job as u64, self.lives[server].kills);
                self.after(late, What::Registers { server, job });
            }
        }
    }

    /// The host registers a job again, and then its processes.
    pub(crate) fn registers(&mut self, server: usize, job: usize) {
        let Job { nspace, infos, ranks, .. } = &self.jobs[job];
        let local = ranks.iter().filter(|rank| self.ranks[**rank].server == server).count();
        self.servers[server].register_nspace(nspace, local as i32, infos);
        for rank in self.jobs[job].ranks.clone() {
            if self.lives[server].unregistered.contains(&rank) {
                let late = self.delay("registers rank", rank as u64, self.lives[server].kills);
                self.after(late % 50, What::RegistersRank(rank));
            }
        }
        self.take_from(server);
    }

    /// The host registers a process again, also one that has ended.
    pub(crate) fn registers_rank(&mut self, rank: usize) {
        let server = self.ranks[rank].server;
        let (proc, user) = (self.ranks[rank].proc.clone(), self.ranks[rank].user);
        if proc.rank.0 % 4 == 2 {
            self.servers[server].prepare_client(&proc);
        }
        self.servers[server].register_client(&proc, (user, user));
        // It deregisters those that had been, if it remembers, and those that ended unseen.
        let one = &mut self.ranks[rank];
        let was_deregistered = std::mem::take(&mut one.is_deregistered);
        let (is_over, is_unseen) = (one.is_known_dead, !one.has_connected);
        if is_over
            && (is_unseen || was_deregistered && self.happens("remembers", rank as u64, self.lives[server].kills, 2))
        {
            self.after(5, What::Learns(rank));
        }
        self.lives[server].unregistered.remove(&rank);
        self.take_from(server);
    }

    /// Whether the host of a rank cannot speak for it now.
    pub(crate) fn is_without_host(&self, rank: usize) -> bool {
        let life = &self.lives[self.ranks[rank].server];
        life.is_down || life.unregistered.contains(&rank)
    }

    /// Whether the host of a server cannot speak for a process, or for a job.
    pub(crate) fn is_without_job(&self, server: usize, proc: &Proc) -> bool {
        let life = &self.lives[server];
        life.is_down || life.unregistered.iter().any(|rank| self.ranks[*rank].proc.nspace == proc.nspace)
    }

    /// The secret that a rank was started with; `new` if it is started now.
    pub(crate) fn first_secret(&mut self, rank: usize, new: Option<Vec<u8>>) -> Option<Vec<u8>> {
        if !self.restarts {
            return new;
        }
        let one = &mut self.ranks[rank];
        if one.secret.is_none() {
            one.secret = new;
        }
        one.secret.clone().filter(|_| self.servers[one.server].listens(&one.proc.nspace))
    }

    /// Something need not hold for a rank: what follows.
    fn except(&mut self, rank: usize, exception: Exception) {
        match exception {
            // The call is over without a result.
            Exception::NobodyKnows => {}
            Exception::EventLost => {
                self.reports.iter_mut().for_each(|report| report.registered.retain(|other| *other != rank));
            }
            Exception::CountsAsLost => self.ranks[rank].is_missed = true,
            // Its program ends.
            Exception::ConnectionLost => self.kill_now(rank),
        }
    }
}

/// All servers, in their first lives.
pub(crate) fn lives() -> Vec<Life> {
    (0..SERVERS).map(|_| Life::default()).collect()
}
