//! The calls of ranks as messages, and what their replies must say.

use std::ffi::CString;

use pmix_dstore::model::{Info, Key, Kval, Nspace, Proc, Rank as Number, Scope, Status, Value, keys};
use pmix_server::simulate::STORE;
use pmix_wire::reply::{ConnectReply, FenceReply, GetReply, GroupReply, LookupReply, SpawnReply, StatusReply};
use pmix_wire::{
    Deletion, FlowControl, Notification, Reply, Request, TAG_DELETED, TAG_FIRST, TAG_FLOW_CONTROL, TAG_IOF, TAG_NOTIFY,
    Version,
};

use crate::invariant::Invariant;
use crate::rank::{
    ADDED, BOOTSTRAP, EARLY, EXCHANGE, FAULT_TOLERANT, FLEETING, LOCAL_ONLY, NOTICE, OPTIONAL, REQUEST, Role, SENDING,
    TELLING,
};
use crate::rank::{Call, Kind, reaches, scope_of, value_text, version_in};
use crate::script::CODES;
use crate::world::{What, World};

/// The info by which an event is recognised.
pub(crate) const NUMBER: &str = "sim.number";
/// Code 0 of the events.
const CODE: i32 = -3000;
/// How long a call waits for a host that does not answer, in seconds.
pub(crate) const TIMEOUT: i32 = 20;

/// The code of an event. One of them is the environment's: the host is asked to report it.
fn code_of(code: u8) -> Status {
    World::alert(code).unwrap_or(if code == 5 { Status(-250) } else { Status(CODE - i32::from(code)) })
}

pub(crate) fn key(number: u8) -> Key {
    Key::new(format!("k{number}")).unwrap_or(Key::from(NUMBER))
}

impl World {
    /// A rank makes its next calls.
    pub(crate) fn go_on(&mut self, rank: usize) {
        while self.ranks[rank].lives && self.ranks[rank].is_admitted && self.ranks[rank].blocked.is_none() {
            let Some(mut call) = self.ranks[rank].program.pop_front() else { return };
            let request = self.request(rank, &mut call);
            self.send(rank, call, &request);
        }
    }

    /// A rank sends a request.
    pub(crate) fn send(&mut self, rank: usize, call: Call, request: &Request) {
        let one = &mut self.ranks[rank];
        let tag = one.tag;
        one.tag += 1;
        if call.blocks() {
            one.blocked = Some(tag);
        }
        // What has no reply.
        let is_answered = !matches!(call, Call::Unregister { .. });
        if is_answered {
            one.calls.insert(tag, call);
        }
        // The form is that of its release, as the server reads it.
        match request.encode(self.ranks[rank].dialect(), self.ranks[rank].version()) {
            Ok(bytes) => {
                if self.restarts && is_answered {
                    self.ranks[rank].sent.insert(tag, bytes.clone());
                }
                let time = self.arrival(rank, 0);
                self.at(time, What::Up { rank, tag, bytes });
            }
            Err(status) => self.violated(Invariant::AnsweredOnce, format!("{request:?} cannot be packed: {status}")),
        }
    }

    pub(crate) fn request(&mut self, rank: usize, call: &mut Call) -> Request {
        let user = self.ranks[rank].user;
        let timeout = || Info::new(keys::TIMEOUT, Value::Int(TIMEOUT));
        // What a process claims of itself.
        let claim = || Info::new(keys::USERID, Value::Uint32(0));
        match call {
            Call::Commit { key } => {
                *self.ranks[rank].put.entry(*key).or_default() +=
                    u32::from(*key != 5 || self.ranks[rank].tag > TAG_FIRST);
                self.ranks[rank].deleted.remove(key);
                self.commit(rank, *key)
            }
            Call::Delete { key: number } => {
                self.ranks[rank].deleted.insert(*number, false);
                let scope = scope_of(*number);
                let kval = || Kval { key: key(*number), value: Value::Undef };
                let code = |scope: Scope| scope.deletion_code();
                let (local, remote) = (code(Scope::Local), code(Scope::Remote));
                let mut parts = Vec::new();
                if scope != 2 {
                    parts.push((local, vec![kval()]));
                }
                if scope != 1 {
                    parts.push((remote, vec![kval()]));
                }
                Request::Commit { parts }
            }
            Call::Enter(number) => self.enter(rank, *number),
            Call::Get { owner, key: number, has_timeout, at_least, deleted } => {
                let is_gone = self.ranks[*owner].deleted.get(number) == Some(&true);
                if is_gone && self.ranks[*owner].server == self.ranks[rank].server {
                    *deleted = self.ranks[*owner].put.get(number).copied().unwrap_or(0);
                }
                *at_least = self.ranks[rank].known.get(&(*owner, *number)).copied().unwrap_or(0);
                let Proc { nspace, rank } = self.ranks[*owner].proc.clone();
                let infos = has_timeout.then(timeout).into_iter().collect();
                Request::Get { nspace, rank, infos, key: Some(key(*number)) }
            }
            Call::Register { code } => {
                self.ranks[rank].registered.entry(*code).or_insert(false);
                self.ranks[rank].ever.insert(*code);
                let codes = if *code == CODES { Vec::new() } else { vec![code_of(*code)] };
                Request::RegisterEvents { codes, infos: vec![claim()] }
            }
            Call::Notify(number) => {
                let report = &self.reports[*number];
                let target = self.ranks[report.target].proc.clone();
                let code = report.code;
                let is_sure = |one: &usize| self.ranks[*one].registered.get(&code) == Some(&true);
                let registered = (0..self.ranks.len()).filter(is_sure).collect();
                self.reports[*number].registered = registered;
                let infos = vec![
                    Info::new(NUMBER, Value::Uint32(*number as u32)),
                    Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([target])),
                ];
                Request::Notify { status: code_of(code), range: self.reports[*number].range, infos }
            }
            Call::Publish { key } => {
                self.ranks[rank].published += 1;
                let text = format!("{user} pub{key} {}", self.ranks[rank].proc);
                let name = Key::new(format!("pub{key}")).unwrap_or(Key::from(NUMBER));
                Request::Publish { uid: 0, infos: vec![Info::new(name, Value::string(text)), claim()] }
            }
            Call::Lookup { key, is_lost } => {
                let name = format!("pub{key}{}", if *is_lost { "lost" } else { "" });
                let infos = [claim()].into_iter().chain(is_lost.then(timeout)).collect();
                Request::Lookup { uid: 0, keys: Key::new(name).into_iter().collect(), infos }
            }
            Call::Spawn { is_lost } => {
                let infos = [claim()].into_iter().chain(is_lost.then(timeout)).collect();
                Request::Spawn { infos, apps: Vec::new() }
            }
            Call::Finalize { .. } => Request::Finalize,
            Call::Read { kind, owner, at_least } => {
                let number = *owner as u8 % 6;
                // Others are to be fresh, or ask for no single value.
                let is_promised = matches!(kind, 3 | 4);
                *at_least = self.ranks[rank].known.get(&(*owner, number)).copied().filter(|_| is_promised).unwrap_or(0);
                self.read(*kind, *owner)
            }
            Call::Serve { kind, number, is_lost } => self.service(rank, *kind, *number, *is_lost),
            Call::Query { kind, about, is_lost } => self.query(*kind, *about, *is_lost),
            Call::Pull(number) => self.pull(*number),
            Call::StopPull(number) => self.stop(*number),
            Call::Push { number, target } => self.push(*number, *target),
            Call::Watch { kind } => self.watch(rank, *kind),
            Call::Unwatch => self.unwatch(rank),
            Call::Unregister { code } => {
                self.ranks[rank].registered.remove(code);
                // What is under way may come, or may not.
                let of_code = self.reports.iter_mut().filter(|report| report.code == *code);
                of_code.for_each(|report| report.registered.retain(|other| *other != rank));
                let code = if *code == CODES { Request::DEFAULT_HANDLER } else { code_of(*code) };
                Request::DeregisterEvents { codes: vec![code] }
            }
            Call::Leave(number) => {
                let group = CString::new(format!("op{number}.")).ok();
                Request::GroupLeave { group, infos: Vec::new() }
            }
        }
    }

    /// The commit of all values of a rank, or of one.
    fn commit(&self, rank: usize, changed: u8) -> Request {
        let one = &self.ranks[rank];
        let is_whole = self.happens("whole", rank as u64, u64::from(one.tag), 2);
        let part = |is_of: fn(u8) -> bool| {
            let keys = one.put.iter().filter(|(number, _)| {
                let is_there = !one.deleted.contains_key(number);
                is_of(scope_of(**number)) && is_there && (is_whole || **number == changed)
            });
            keys.map(|(number, version)| Kval {
                key: key(*number),
                value: Value::string(value_text(&one.proc, *number, *version)),
            })
            .collect()
        };
        Request::Commit { parts: vec![(1, part(|scope| scope != 2)), (2, part(|scope| scope != 1))] }
    }

    fn enter(&mut self, rank: usize, number: usize) -> Request {
        let put = self.ranks[rank].put.clone();
        let operation = &mut self.operations[number];
        operation.committed.insert(rank, put);
        let first = operation.after.unwrap_or(number);
        let name = CString::new(format!("op{first}.")).ok();
        let mut procs: Vec<Proc> = operation.members.iter().map(|member| self.ranks[*member].proc.clone()).collect();
        if operation.is_of_node {
            procs = vec![Proc::new(self.ranks[rank].proc.nspace.clone(), Number::LOCAL_PEERS)];
        }
        if operation.is_of_job {
            procs = vec![Proc::new(self.ranks[rank].proc.nspace.clone(), Number::WILDCARD)];
        }
        let mut infos: Vec<Info> =
            operation.is_lost.then(|| Info::new(keys::TIMEOUT, Value::Int(TIMEOUT))).into_iter().collect();
        let connect_id = Info::new(keys::CONNECT_ID, Value::string(format!("op{first}.")));
        match operation.kind {
            Kind::Fence { collects } => {
                if let Some(group) = operation.after.and_then(|group| Nspace::new(format!("op{group}.")).ok()) {
                    procs = vec![Proc::new(group, Number::WILDCARD)];
                }
                infos.push(Info::new(keys::COLLECT_DATA, Value::Bool(collects)));
                Request::Fence { procs, infos }
            }
            Kind::Construct { has_context, form } => {
                // A local group has no context id: that is the host's.
                let has_context = has_context && form != LOCAL_ONLY;
                infos.push(Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(has_context)));
                let me = self.ranks[rank].proc.clone();
                match form {
                    SENDING => {
                        let sent = Info::new("sim.group", Value::string(me.to_string()));
                        infos.push(Info::new(keys::GROUP_INFO, Value::infos([sent])));
                        // What its library adds by itself: endpoints.
                        let endpoint = Info::new("sim.endpoint", Value::string(me.to_string()));
                        infos.push(Info::new(keys::PROC_INFO_ARRAY, Value::infos([endpoint])));
                    }
                    TELLING => infos.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, Value::Bool(true))),
                    FAULT_TOLERANT => infos.push(Info::new(keys::GROUP_FT_COLLECTIVE, Value::Bool(true))),
                    LOCAL_ONLY => infos.push(Info::new(keys::GROUP_LOCAL_ONLY, Value::Bool(true))),
                    BOOTSTRAP => {
                        infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(procs.len() as u64)));
                        procs = vec![me];
                    }
                    ADDED if procs.first() == Some(&me) => {
                        let others = procs.split_off(1);
                        infos.push(Info::new(keys::GROUP_ADD_MEMBERS, Value::procs(others)));
                    }
                    ADDED => procs.clear(),
                    _ => {}
                }
                Request::GroupConstruct { group: name, procs, infos }
            }
            Kind::Destruct => Request::GroupDestruct { group: name, procs, infos },
            Kind::Connect { form } => {
                infos.push(connect_id);
                infos.extend(terms_of(form));
                Request::Connect { procs, infos, extra: Vec::new() }
            }
            Kind::Disconnect { form } => {
                infos.push(connect_id);
                infos.extend(terms_of(form));
                Request::Disconnect { procs, infos }
            }
        }
    }

    /// A message of its server arrives at a rank.
    pub(crate) fn received(&mut self, rank: usize, tag: u32, bytes: &[u8]) {
        if !self.ranks[rank].lives {
            return;
        }
        if tag == TAG_NOTIFY {
            return self.notified(rank, bytes);
        }
        match tag {
            TAG_IOF => return self.has_output(rank, bytes),
            TAG_FLOW_CONTROL if FlowControl::decode(self.ranks[rank].dialect(), bytes).is_err() => {
                return self.violated(Invariant::AnsweredOnce, format!("rank {rank} cannot read flow control"));
            }
            TAG_DELETED if Deletion::decode(self.ranks[rank].dialect(), bytes).is_err() => {
                return self.violated(Invariant::AnsweredOnce, format!("rank {rank} cannot read a deletion"));
            }
            tag if tag < TAG_FIRST => return,
            _ => {}
        }
        self.ranks[rank].sent.remove(&tag);
        let Some(call) = self.ranks[rank].calls.remove(&tag) else {
            let what = format!("{} got a reply to what it did not ask, or a second one", self.ranks[rank].proc);
            return self.violated(Invariant::AnsweredOnce, what);
        };
        if self.replied(rank, &call, bytes).is_none() {
            let what = format!("{} cannot read the reply to {call:?}", self.ranks[rank].proc);
            self.violated(Invariant::AnsweredOnce, what);
        }
        if self.ranks[rank].blocked == Some(tag) {
            self.ranks[rank].blocked = None;
            self.go_on(rank);
        }
    }

    fn replied(&mut self, rank: usize, call: &Call, bytes: &[u8]) -> Option<()> {
        let dialect = self.ranks[rank].dialect();
        // Those without a status are read by themselves.
        match call {
            Call::Read { .. } => return self.was_read(rank, call, bytes),
            Call::Serve { .. } => return self.served(rank, call, bytes),
            Call::Query { .. } => return self.queried(rank, call, bytes),
            Call::Pull(number) => return self.pulled(rank, *number, bytes),
            Call::Push { .. } => return self.pushed(rank, call, bytes),
            Call::Watch { .. } | Call::Unwatch => return self.watched(rank, call, bytes),
            _ => {}
        }
        let status = StatusReply::decode(dialect, Version::OURS, bytes).ok()?.status;
        let is_ok = status.is_success();
        match call {
            Call::StopPull(number) => self.stopped(*number, status),
            Call::Leave(_) if is_ok || status == Status::ERR_NOT_FOUND => {}
            Call::Delete { key } => {
                self.must_succeed(rank, call, status);
                // Unless it has been put again meanwhile.
                if let Some(is_answered) = self.ranks[rank].deleted.get_mut(key) {
                    *is_answered = true;
                }
            }
            Call::Commit { .. } | Call::Publish { .. } => self.must_succeed(rank, call, status),
            Call::Register { code } => {
                self.must_succeed(rank, call, status);
                // Unless it has deregistered meanwhile.
                if let Some(is_sure) = self.ranks[rank].registered.get_mut(code) {
                    *is_sure = true;
                }
            }
            Call::Notify(number) => {
                self.must_succeed(rank, call, status);
                self.reports[*number].is_done = is_ok;
            }
            Call::Finalize { returns } => {
                self.must_succeed(rank, call, status);
                self.ranks[rank].lives = false;
                self.ranks[rank].returns = *returns;
                self.end_pulls_of(rank);
                let time = self.arrival(rank, 0);
                self.at(time, What::Ended(rank));
            }
            Call::Enter(number) => self.left(rank, *number, status, bytes)?,
            Call::Leave(_) => self.must_succeed(rank, call, status),
            // These are read above, or have no reply.
            Call::Read { .. }
            | Call::Serve { .. }
            | Call::Query { .. }
            | Call::Pull(_)
            | Call::Push { .. }
            | Call::Watch { .. }
            | Call::Unwatch
            | Call::Unregister { .. } => {}
            Call::Get { owner, key, has_timeout, at_least, deleted } => {
                let reply = if is_ok { Some(GetReply::decode(dialect, Version::OURS, bytes).ok()?) } else { None };
                self.got(rank, (*owner, *key), *has_timeout, (*at_least, *deleted), status, reply);
            }
            Call::Lookup { key, is_lost } => {
                let reply = LookupReply::decode(dialect, Version::OURS, bytes).ok()?;
                self.looked_up(rank, *key, *is_lost, &reply);
            }
            Call::Spawn { is_lost } => {
                let reply = SpawnReply::decode(dialect, Version::OURS, bytes).ok()?;
                let is_own =
                    reply.nspace.as_ref().is_some_and(|nspace| nspace.to_string().ends_with(&format!("of{rank}")));
                if is_ok && !is_own {
                    let what = format!("{} got the job {:?} of another one", self.ranks[rank].proc, reply.nspace);
                    self.violated(Invariant::OwnValue, what);
                }
                let expected = if *is_lost { Status::ERR_TIMEOUT } else { Status::ERR_OUT_OF_RESOURCE };
                if !is_ok && status != expected || is_ok && *is_lost {
                    self.violated(Invariant::NamedCause, format!("{call:?} of rank {rank} ended with {status}"));
                }
            }
        }
        Some(())
    }

    fn must_succeed(&mut self, rank: usize, call: &Call, status: Status) {
        if !status.is_success() {
            let what = format!("{call:?} of {} failed with {status}", self.ranks[rank].proc);
            self.violated(Invariant::NamedCause, what);
        }
    }

    /// A rank leaves an operation.
    fn left(&mut self, rank: usize, number: usize, status: Status, bytes: &[u8]) -> Option<()> {
        let (dialect, version) = (self.ranks[rank].dialect(), self.ranks[rank].version());
        let is_ok = status.is_success();
        match self.operations[number].kind {
            Kind::Fence { collects } => {
                let reply = FenceReply::decode(dialect, Version::OURS, bytes).ok()?;
                let shares = self.ranks[rank].hello().gds == STORE;
                if reply.segment_count.is_some() && !shares {
                    self.violated(Invariant::MayRead, format!("{number} names segments to who does not map them"));
                }
                if is_ok && collects {
                    self.learn(rank, number);
                }
            }
            Kind::Construct { has_context, form } => {
                let has_context = has_context && form != LOCAL_ONLY;
                let group = GroupReply::decode(dialect, version, bytes).ok()?.group;
                let group = group.map(|group| (group.members, group.context)).filter(|_| is_ok);
                if is_ok && has_context && group.as_ref().is_none_or(|(_, context)| context.is_none()) {
                    self.violated(Invariant::SameResult, format!("{number} has no context id"));
                }
                self.operations[number].groups.extend(group);
            }
            Kind::Connect { .. } => _ = ConnectReply::decode(dialect, Version::OURS, bytes).ok()?,
            Kind::Destruct | Kind::Disconnect { .. } => {}
        }
        let operation = &mut self.operations[number];
        operation.results.insert(rank, status);
        let has_loss = self.has_loss(number);
        let operation = &self.operations[number];
        let cause = match status {
            Status::ERR_TIMEOUT => operation.is_lost,
            status => status.is_success() || has_loss,
        };
        if !cause {
            let (kind, proc) = (&operation.kind, &self.ranks[rank].proc);
            let what = format!("{kind:?} {number} failed for {proc} with {status}, and no member had died");
            self.violated(Invariant::NamedCause, what);
        }
        self.check_agreement(number);
        Some(())
    }

    /// Whether a member of an operation has died, or counts as lost.
    fn has_loss(&self, number: usize) -> bool {
        let is_lost = |member: &usize| self.ranks[*member].has_died || self.ranks[*member].is_missed;
        self.operations[number].members.iter().any(is_lost)
    }

    /// All members that live see the same.
    fn check_agreement(&mut self, number: usize) {
        let operation = &self.operations[number];
        if operation.is_lost {
            return;
        }
        let of_living: Vec<Status> = operation
            .results
            .iter()
            .filter(|(rank, _)| !self.ranks[**rank].has_died)
            .map(|(_, status)| *status)
            .collect();
        let has_loss = self.has_loss(number);
        let are_same = of_living.windows(2).all(|two| two[0] == two[1]);
        let contexts: Vec<Option<u64>> = operation.groups.iter().map(|(_, context)| *context).collect();
        let lists: Vec<&Vec<Proc>> =
            operation.groups.iter().map(|(list, _)| list).filter(|list| !list.is_empty()).collect();
        let are_groups = contexts.windows(2).all(|two| two[0] == two[1])
            && (has_loss || lists.windows(2).all(|two| two[0] == two[1]));
        if !are_same || !are_groups {
            let what = format!(
                "{:?} {number} of {:?}: {:?}, {:?}",
                operation.kind, operation.members, operation.results, operation.groups
            );
            self.violated(Invariant::SameResult, what);
        }
    }

    /// A collecting fence is over for a rank: from now on it reads what the others had committed.
    fn learn(&mut self, rank: usize, number: usize) {
        let operation = &self.operations[number];
        // A group that has lost a member is another set of processes for who names it later.
        if operation.after.is_some() && operation.members.iter().any(|member| self.ranks[*member].has_died) {
            return;
        }
        for (owner, versions) in &operation.committed {
            if self.ranks[*owner].has_died {
                continue;
            }
            for (key, version) in versions.iter().filter(|(key, _)| **key < FLEETING) {
                let known = self.ranks[rank].known.entry((*owner, *key)).or_default();
                *known = (*known).max(*version);
            }
        }
    }

    pub(crate) fn got(
        &mut self,
        reader: usize,
        (owner, wanted): (usize, u8),
        has_timeout: bool,
        (at_least, deleted): (u32, u32),
        status: Status,
        reply: Option<GetReply>,
    ) {
        let may_read = self.has_consented(self.ranks[reader].user, self.ranks[owner].user);
        let is_same_node = self.ranks[reader].server == self.ranks[owner].server;
        let (name, proc) = (self.ranks[reader].proc.clone(), self.ranks[owner].proc.clone());
        let mut found = None;
        for (of, kvals) in reply.iter().flat_map(|reply| &reply.objects) {
            if !may_read {
                return self.violated(Invariant::MayRead, format!("{name} got values of {of}"));
            }
            for kval in kvals.iter().filter(|kval| of.rank.is_process() && kval.key.as_bytes().starts_with(b"k")) {
                let number = kval.key.as_bytes().get(1).map_or(0, |digit| digit.wrapping_sub(b'0'));
                let newest = self.ranks[owner].put.get(&number).copied().unwrap_or(0);
                let version = kval.value.as_text().and_then(|text| version_in(text, &proc, number));
                if *of != proc || version.is_none_or(|version| version == 0 || version > newest) {
                    let what = format!("{name} asked for {proc} and got {:?} as {of}'s {}", kval.value, kval.key);
                    return self.violated(Invariant::OwnValue, what);
                }
                if !reaches(number, is_same_node) {
                    return self.violated(Invariant::Scope, format!("{name} got {proc}'s {}", kval.key));
                }
                found = found.or(version.filter(|_| number == wanted));
            }
        }
        if found.is_some_and(|found| found <= deleted) {
            let what = format!("{name} got version {found:?} of {proc}'s k{wanted}, which was deleted as {deleted}");
            return self.violated(Invariant::Deleted, what);
        }
        let is_promised = at_least > 0 && reaches(wanted, is_same_node);
        if is_promised && found.is_none_or(|found| found < at_least) && !(has_timeout && status == Status::ERR_TIMEOUT)
        {
            let what =
                format!("{name} got version {found:?} ({status}) of {proc}'s k{wanted}, a fence brought {at_least}");
            self.violated(Invariant::NoOlderThanFence, what);
        }
    }

    fn looked_up(&mut self, rank: usize, key: u8, is_lost: bool, reply: &LookupReply) {
        let user = self.ranks[rank].user;
        for data in &reply.data {
            let begins = format!("{user} pub{key} {}", data.proc);
            if data.value.as_text() != Some(begins.as_bytes()) {
                let what = format!("rank {rank} of user {user} looked up pub{key} and got {:?}", data.value);
                self.violated(Invariant::MayRead, what);
            }
        }
        let is_late = reply.status == Status::ERR_TIMEOUT;
        if is_late != is_lost || !is_late && reply.status.is_success() == reply.data.is_empty() {
            let what = format!("rank {rank} looked up pub{key}, lost {is_lost}: {}, {:?}", reply.status, reply.data);
            self.violated(Invariant::NamedCause, what);
        }
    }

    /// An event arrives.
    fn notified(&mut self, rank: usize, bytes: &[u8]) {
        let Ok(event) = Notification::decode(self.ranks[rank].dialect(), bytes) else {
            return self.violated(Invariant::AnsweredOnce, format!("rank {rank} cannot read an event"));
        };
        self.check_alert(rank, &event);
        let number = Info::find(&event.infos, NUMBER).and_then(Value::as_u32).map(|number| number as usize);
        let Some((number, report)) = number.and_then(|number| Some((number, self.reports.get(number)?))) else {
            return;
        };
        let one = &self.ranks[rank];
        let is_meant = self.is_in_range(rank, number)
            && [report.code, CODES].iter().any(|code| one.ever.contains(code))
            && (rank != report.from || one.cycle > 0);
        let is_whole = event.source == self.ranks[report.from].proc && event.status == code_of(report.code);
        // What a host passes on comes from the host: that decides who gets it.
        let is_of_server = one.server == self.ranks[report.from].server;
        let is_of_host = self.ranks[report.from].role == Role::Server || one.role == Role::Server;
        if is_of_server && !is_of_host && !self.has_consented(one.user, self.ranks[report.from].user) {
            self.violated(Invariant::MayRead, format!("rank {rank} got event {number} of another user"));
        } else if !is_meant || !is_whole {
            self.violated(Invariant::EventInRange, format!("rank {rank} got event {number}, which is not for it"));
        } else if !self.ranks[rank].got.insert(number) {
            self.violated(Invariant::EventInRange, format!("rank {rank} got event {number} twice"));
        }
    }

    /// Whether a rank is in the range of an event.
    fn is_in_range(&self, rank: usize, number: usize) -> bool {
        let (report, one) = (&self.reports[number], &self.ranks[rank]);
        match report.range {
            // What a host reports is for the ranks of its own server.
            _ if self.ranks[report.from].role == Role::Server && one.server != self.ranks[report.from].server => false,
            2 => one.server == self.ranks[report.from].server,
            // Tools may have a job's name, too.
            3 => one.proc.nspace == self.ranks[report.from].proc.nspace,
            6 => rank == report.target,
            _ => true,
        }
    }

    /// Who was registered, and is meant, has got each event whose sender was told that it is done.
    pub(crate) fn check_events(&mut self) {
        for number in 0..self.reports.len() {
            let report = &self.reports[number];
            let is_due = |rank: &&usize| {
                let (one, from) = (&self.ranks[**rank], &self.ranks[report.from]);
                let is_meant = **rank != report.from && self.is_in_range(**rank, number);
                one.lives && report.is_done && is_meant && one.user == from.user && !one.got.contains(&number)
            };
            if let Some(rank) = report.registered.iter().find(|rank| is_due(rank)) {
                let what = format!("rank {rank} did not get event {number} of rank {}", report.from);
                self.violated(Invariant::EventInRange, what);
            }
        }
    }
}

/// The terms of a connect in a form, and of its disconnect.
fn terms_of(form: u8) -> Option<Info> {
    let key = match form {
        NOTICE => keys::CONNECT_NOTIFY_EACH,
        REQUEST => keys::CONNECT_NOTIFY_REQ,
        OPTIONAL => keys::CONNECT_OPTIONAL,
        EARLY => keys::CONNECT_EARLY_TERM_ALLOWED,
        EXCHANGE => keys::CONNECT_XCHG_ONLY,
        _ => return None,
    };
    Some(Info::new(key, Value::Bool(true)))
}
