//! The hosts of all servers, and what they know together: they exchange contributions, keep published values, start jobs, pass events on.
//! Answers come late, twice, or after their time-out.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use pmix_dstore::codec::{Dialect, Module, Untyped};
use pmix_dstore::model::{Info, Key, Pdata, Proc, Rank as Number, Status, Value, keys};
use pmix_server::UpcallResult;
use pmix_server::simulate::{Collective, Question};
use pmix_wire::blob;

use crate::calls::NUMBER;
use crate::invariant::Invariant;
use crate::rank::{ADDED, BOOTSTRAP, Kind, Role};
use crate::world::{SERVER_USER, SERVERS, What, World};

/// What a server has given to another one.
pub struct Served {
    /// The asking server, and the number of its question.
    pub for_whom: (usize, u64),
    /// The status.
    pub status: Status,
    /// The data.
    pub data: Vec<u8>,
}

/// A server's part in a collective.
struct Part {
    id: u64,
    /// What the members of a group send each other.
    sent: Vec<Info>,
    data: Vec<u8>,
    status: Status,
}

/// A collective of several servers.
struct Exchange {
    name: String,
    kind: Collective,
    members: Vec<usize>,
    has_context: bool,
    parts: BTreeMap<usize, Part>,
    is_over: bool,
}

/// What hosts know.
#[derive(Default)]
pub struct Host {
    /// What servers have given to others, and is on its way.
    pub served: Arc<Mutex<Vec<Served>>>,
    exchanges: Vec<Exchange>,
    /// How often each server has asked for a collective.
    entered: BTreeMap<(usize, String), usize>,
    /// Collectives that are answered only after their time-out.
    pub lost: Vec<String>,
    /// The answers to them.
    pub late: Vec<(usize, u64, UpcallResult)>,
    /// Published values by key and user.
    published: BTreeMap<(Vec<u8>, u32), (Proc, Value)>,
    questions: u64,
    contexts: u64,
    jobs: usize,
    /// Groups that leaders and added members join one by one: the servers' questions.
    joins: BTreeMap<String, Vec<(usize, u64)>>,
    /// Ranks' data that servers have asked for, by the asking server and the number of its question, and who has them.
    wanted: BTreeMap<(usize, u64), (usize, Proc)>,
    /// Those that have failed.
    aborted: Vec<usize>,
}

/// As many jobs are started at most.
const JOBS_MAX: usize = 4;

impl World {
    /// A server asks its host.
    pub(crate) fn asked(&mut self, server: usize, id: u64, is_at_once: bool, question: Question) {
        match question {
            Question::Collective { kind, procs, infos, data } => {
                self.asked_collective(server, id, (kind, procs), &infos, data);
            }
            Question::DirectModex { proc, infos } => self.asked_modex(server, id, proc, &infos),
            Question::Publish { proc, infos } => {
                let user = self.check_signed(&proc, &infos);
                for info in infos.into_iter().filter(|info| info.key.as_bytes().starts_with(b"pub")) {
                    let key = (info.key.as_bytes().to_vec(), user);
                    self.host.published.insert(key, (proc.clone(), info.value));
                }
                self.answer(server, id, UpcallResult::Op(Status::SUCCESS));
            }
            Question::Lookup { proc, keys, infos } => {
                let user = self.check_signed(&proc, &infos);
                let is_lost = keys.iter().any(|key| key.as_bytes().ends_with(b"lost"));
                let found = |key: &Key| {
                    let (proc, value) = self.host.published.get(&(key.as_bytes().to_vec(), user))?;
                    Some(Pdata { proc: proc.clone(), key: key.clone(), value: value.clone() })
                };
                let data: Vec<Pdata> = keys.iter().filter_map(found).collect();
                let status = if data.is_empty() { Status::ERR_NOT_FOUND } else { Status::SUCCESS };
                self.answer_or_lose(server, id, UpcallResult::Lookup(status, data), is_lost);
            }
            Question::Spawn { proc, infos } => self.asked_spawn(server, id, &proc, &infos),
            Question::Notify { code, source, range, infos } => {
                for other in (0..SERVERS).filter(|other| *other != server) {
                    self.host.questions += 1;
                    let late = self.delay("event", other as u64, self.host.questions);
                    let (source, infos) = (source.clone(), infos.clone());
                    self.after(late, What::Event { server: other, code, source, range, infos });
                }
                self.answer(server, id, UpcallResult::Op(Status::SUCCESS));
            }
            Question::Abort { proc, status, procs } => {
                self.check_aborted(server, &proc, &procs);
                let infos = [Info::new(NUMBER, Value::Uint32(status.0 as u32)), self.of_user(&proc)];
                self.asked_service(server, id, "abort", Some(proc), &infos);
            }
            Question::Query { proc, queries } => self.asked_query(server, id, &proc, &queries),
            Question::Tool { infos } => self.asked_tool(server, id, &infos),
            Question::Pull { procs, infos, .. } => self.asked_pull(server, id, &procs, &infos),
            // Only the return value answers.
            Question::Other { .. } if is_at_once => {
                self.after(0, What::Answer { server, id, answer: Status::SUCCESS.into() });
            }
            Question::Other { slot, proc, infos } => self.asked_service(server, id, slot, proc, &infos),
        }
    }

    /// The user of a process, as a server would sign it.
    fn of_user(&self, proc: &Proc) -> Info {
        let user = self.find(proc).map_or(0, |rank| self.ranks[rank].user);
        Info::new(keys::USERID, Value::Uint32(user))
    }

    /// The host's answer, after a while; sometimes it comes twice, the second time with an error.
    pub(crate) fn answer(&mut self, server: usize, id: u64, answer: UpcallResult) {
        self.host.questions += 1;
        let which = self.host.questions;
        let late = self.delay("answer", server as u64, which);
        self.after(late, What::Answer { server, id, answer });
        if self.happens("twice", server as u64, which, 8) {
            let answer = UpcallResult::Op(Status::ERROR);
            self.after(late + 1 + which % 50, What::Answer { server, id, answer });
        }
    }

    /// One of so many kinds of answers, in turn. Not by the number of the question, which the worlds of all threads share: then a seed would
    /// not run again as it did.
    pub(crate) fn kind_of_answer(&mut self, kinds: u64) -> u64 {
        self.host.questions += 1;
        self.host.questions % kinds
    }

    pub(crate) fn answer_or_lose(&mut self, server: usize, id: u64, answer: UpcallResult, is_lost: bool) {
        if is_lost {
            self.host.late.push((server, id, answer));
        } else {
            self.answer(server, id, answer);
        }
    }

    /// The user that a server names; it must be the process's.
    pub(crate) fn check_signed(&mut self, proc: &Proc, infos: &[Info]) -> u32 {
        let named: Vec<Option<u32>> =
            infos.iter().filter(|info| info.key.is(keys::USERID)).map(|info| info.value.as_u32()).collect();
        let user = self.find(proc).map(|rank| self.ranks[rank].user);
        if named.len() != 1 || named[0] != user {
            self.violated(Invariant::Signed, format!("{proc} of user {user:?} was presented as {named:?}"));
        }
        user.unwrap_or_default()
    }

    fn asked_modex(&mut self, server: usize, id: u64, proc: Proc, infos: &[Info]) {
        let owner = self.jobs.iter().find(|job| job.nspace == proc.nspace).map(|job| job.user);
        let asker = Info::find(infos, keys::USERID).and_then(Value::as_u32);
        let is_refused = match (asker, owner) {
            (Some(asker), Some(owner)) => asker != owner && !self.has_consented(asker, owner),
            _ => false,
        };
        let place = match proc.rank {
            // One that knows it, if there is one.
            Number::WILDCARD => {
                let job = self.jobs.iter().find(|job| job.nspace == proc.nspace);
                job.and_then(
                    |job| if job.servers.contains(&server) { Some(server) } else { job.servers.first().copied() },
                )
            }
            _ => self.find(&proc).map(|rank| self.ranks[rank].server),
        };
        match place {
            _ if is_refused => {
                self.answer(server, id, UpcallResult::Data(Status::ERR_NO_PERMISSIONS, Vec::new().into()))
            }
            None => self.answer(server, id, UpcallResult::Data(Status::ERR_NOT_FOUND, Vec::new().into())),
            Some(place) => {
                self.host.questions += 1;
                let late = self.delay("modex", place as u64, self.host.questions);
                self.host.wanted.insert((server, id), (place, proc.clone()));
                self.after(late, What::Modex { server: place, proc, for_whom: (server, id) });
            }
        }
    }

    /// Passes on what servers have given.
    pub(crate) fn pass_served(&mut self) {
        let served = std::mem::take(&mut *self.host.served.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for Served { for_whom: (server, id), status, data } in served {
            self.host.wanted.remove(&(server, id));
            self.answer(server, id, UpcallResult::Data(status, data.into()));
        }
    }

    fn asked_spawn(&mut self, server: usize, id: u64, proc: &Proc, infos: &[Info]) {
        let user = self.check_signed(proc, infos);
        let is_lost = infos.iter().any(|info| info.key.is(keys::TIMEOUT));
        if self.host.jobs >= JOBS_MAX {
            let answer = UpcallResult::Spawn(Status::ERR_OUT_OF_RESOURCE, None);
            return self.answer_or_lose(server, id, answer, is_lost);
        }
        self.host.jobs += 1;
        let parent = self.find(proc).unwrap_or_default();
        let name = format!("child{}of{parent}", self.host.jobs);
        // Some jobs are on one node, and no other server hears of them.
        let only = (self.host.jobs % 2 == 1).then_some(parent % SERVERS);
        let nspace = self.start_job(&name, user, 2, only, Some(proc));
        self.answer_or_lose(server, id, UpcallResult::Spawn(Status::SUCCESS, Some(nspace)), is_lost);
    }

    fn asked_collective(
        &mut self,
        server: usize,
        id: u64,
        (kind, procs): (Collective, Vec<Proc>),
        infos: &[Info],
        data: Vec<u8>,
    ) {
        let data = if kind == Collective::Fence { self.as_of_stock(server, data) } else { data };
        let names: Vec<String> = procs.iter().map(Proc::to_string).collect();
        let connect = Info::find(infos, keys::CONNECT_ID).and_then(Value::as_text).map(String::from_utf8_lossy);
        let name = match &kind {
            Collective::Construct(group) => format!("construct {}", group.to_string_lossy()),
            Collective::Destruct(group) => format!("destruct {}", group.to_string_lossy()),
            other => format!("{other:?} {} {}", connect.unwrap_or_default(), names.join(" ")),
        };
        if let Collective::Construct(group) = &kind
            && let Some(number) = self.joined(group)
        {
            if self.host.aborted.contains(&number) {
                return self.answer(server, id, UpcallResult::Infos(Status::GROUP_CONSTRUCT_ABORT, Vec::new()));
            }
            self.host.joins.entry(name).or_default().push((server, id));
            return self.conclude_join(number);
        }
        let count = self.host.entered.entry((server, name.clone())).or_default();
        *count += 1;
        let name = format!("{name} #{count}");
        let status = match Info::find(infos, keys::LOCAL_COLLECTIVE_STATUS) {
            Some(Value::Status(status)) => *status,
            _ => Status::SUCCESS,
        };
        let of = |proc: &Proc| -> Vec<usize> {
            (0..self.ranks.len()).filter(|rank| proc.covers(&self.ranks[*rank].proc)).collect()
        };
        let members: Vec<usize> = procs.iter().flat_map(of).collect();
        let has_context = Info::is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID);
        let at = self.host.exchanges.iter().position(|other| other.name == name).unwrap_or_else(|| {
            let exchange =
                Exchange { name, kind, members: Vec::new(), has_context, parts: BTreeMap::new(), is_over: false };
            self.host.exchanges.push(exchange);
            self.host.exchanges.len() - 1
        });
        let exchange = &mut self.host.exchanges[at];
        exchange.members.extend(members);
        let is_sent = |info: &&Info| info.key.is(keys::GROUP_INFO) || info.key.is(keys::PROC_INFO_ARRAY);
        let sent = infos.iter().filter(is_sent).cloned().collect();
        exchange.parts.insert(server, Part { id, data, status, sent });
        self.conclude(at);
    }

    /// A contribution to a fence. In some runs one server is of another library, which knows no marks.
    fn as_of_stock(&self, server: usize, data: Vec<u8>) -> Vec<u8> {
        if server != 1 || !self.happens("stock", 0, 0, 5) {
            return data;
        }
        let exchange = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);
        let Ok(mut contributions) = blob::decode_fence(exchange, &data) else { return data };
        for contribution in &mut contributions {
            for (_, kvals) in &mut contribution.ranks {
                kvals.retain(|kval| !kval.key.as_bytes().starts_with(b"dstore."));
            }
            contribution.ranks.retain(|(_, kvals)| !kvals.is_empty());
        }
        let again = contributions.iter().map(|contribution| contribution.encode_again(exchange));
        again.collect::<Result<Vec<_>, _>>().map_or(data, |all| all.concat())
    }

    /// The operation that forms this group, if its members come one by one.
    fn joined(&self, group: &CString) -> Option<usize> {
        let number: usize = group.to_str().ok()?.strip_prefix("op")?.strip_suffix('.')?.parse().ok()?;
        let form = match self.operations.get(number)?.kind {
            Kind::Construct { form, .. } => form,
            _ => return None,
        };
        matches!(form, BOOTSTRAP | ADDED).then_some(number)
    }

    /// Answers a group whose living members have all come.
    fn conclude_join(&mut self, number: usize) {
        let name = format!("construct op{number}.");
        let members = &self.operations[number].members;
        let awaited = members.iter().filter(|rank| !self.ranks[**rank].is_known_dead).count();
        let Some(ids) = self.host.joins.get(&name).filter(|ids| ids.len() >= awaited) else { return };
        let is_lost = self.operations[number].is_lost;
        let (ids, is_whole) = (ids.clone(), awaited == members.len());
        let procs: Vec<Proc> = members.iter().map(|rank| self.ranks[*rank].proc.clone()).collect();
        self.host.joins.remove(&name);
        self.host.contexts += 1;
        let infos = vec![
            Info::new(keys::GROUP_MEMBERSHIP, Value::procs(procs)),
            Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.host.contexts)),
        ];
        if !is_whole {
            self.host.aborted.push(number);
        }
        let status = if is_whole { Status::SUCCESS } else { Status::GROUP_CONSTRUCT_ABORT };
        for (server, id) in ids {
            self.answer_or_lose(server, id, UpcallResult::Infos(status, infos.clone()), is_lost);
        }
    }

    /// Answers a collective that all servers with a living participant have entered.
    fn conclude(&mut self, at: usize) {
        let exchange = &self.host.exchanges[at];
        let is_awaited = |rank: &&usize| {
            let rank = &self.ranks[**rank];
            !rank.is_known_dead && !exchange.parts.contains_key(&rank.server)
        };
        if exchange.is_over || exchange.members.iter().any(|rank| is_awaited(&rank)) {
            return;
        }
        let exchange = &mut self.host.exchanges[at];
        exchange.is_over = true;
        let failed = exchange.parts.values().map(|part| part.status).find(|status| !status.is_success());
        let status = failed.unwrap_or(Status::SUCCESS);
        let data: Vec<u8> = exchange.parts.values().flat_map(|part| part.data.iter().copied()).collect();
        self.host.contexts += 1;
        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.host.contexts));
        let sent = exchange.parts.values().flat_map(|part| part.sent.iter().cloned());
        let infos: Vec<Info> = exchange.has_context.then_some(context).into_iter().chain(sent).collect();
        let answer = match exchange.kind {
            Collective::Fence => UpcallResult::Data(status, data.into()),
            Collective::Construct(_) | Collective::Destruct(_) => UpcallResult::Infos(status, infos),
            _ => UpcallResult::Op(status),
        };
        let is_lost = self.host.lost.iter().any(|lost| exchange.name.contains(lost));
        let ids: Vec<(usize, u64)> = exchange.parts.iter().map(|(server, part)| (*server, part.id)).collect();
        for (server, id) in ids {
            self.answer_or_lose(server, id, answer.clone(), is_lost);
        }
    }

    /// The hosts learn that a rank has ended.
    pub(crate) fn host_learns(&mut self, rank: usize) {
        self.ranks[rank].is_known_dead = true;
        let (server, proc) = (self.ranks[rank].server, self.ranks[rank].proc.clone());
        if self.ranks[rank].role != Role::Rank {
            return;
        }
        // What the server cannot have seen, or may take for the end of a cycle, it must be told.
        let must_tell = !self.ranks[rank].has_connected || self.ranks[rank].ends_unseen;
        if must_tell || self.happens("deregisters", rank as u64, 0, 2) {
            self.servers[server].deregister_client(&proc);
            self.take_from(server);
            if self.lives[server].is_down {
                // It was killed meanwhile, and the next host learns it anew.
                return self.after(50, What::Learns(rank));
            }
            self.ranks[rank].is_deregistered = true;
        }
        (0..self.host.exchanges.len()).for_each(|at| self.conclude(at));
        let joins: Vec<CString> = self.host.joins.keys().filter_map(|name| CString::new(&name[10..]).ok()).collect();
        for number in joins.iter().filter_map(|group| self.joined(group)).collect::<Vec<_>>() {
            self.conclude_join(number);
        }
        if self.host.exchanges.len() > 64 {
            self.host.exchanges.retain(|exchange| !exchange.is_over);
        }
    }

    /// The host of a server has ended with it: what it had under way is lost. What others want from there is asked again.
    pub(crate) fn forget_host(&mut self, server: usize) {
        self.host.served.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        for exchange in self.host.exchanges.iter_mut().filter(|exchange| !exchange.is_over) {
            exchange.parts.remove(&server);
        }
        self.host.exchanges.retain(|exchange| exchange.is_over || !exchange.parts.is_empty());
        self.host.late.retain(|(of, ..)| *of != server);
        self.host.wanted.retain(|(of, _), _| *of != server);
        let wanted = self.host.wanted.iter().filter(|(_, (place, _))| *place == server);
        for (for_whom, (place, proc)) in wanted.map(|(whom, what)| (*whom, what.clone())).collect::<Vec<_>>() {
            self.after(50, What::Modex { server: place, proc, for_whom });
        }
    }

    /// Whether jobs of two users have had a common operation.
    pub(crate) fn has_consented(&self, one: u32, other: u32) -> bool {
        [one, other].contains(&SERVER_USER) || one == other || self.consents.contains(&(one.min(other), one.max(other)))
    }

    /// The answers that did not come in time come.
    pub(crate) fn answer_late(&mut self) {
        for (server, id, answer) in std::mem::take(&mut self.host.late) {
            self.after(1, What::Answer { server, id, answer });
        }
    }
}
