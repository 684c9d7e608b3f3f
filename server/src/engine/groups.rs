//! Groups: named sets of processes.
//!
//! Construct and destruct are collectives of the members; this module has the table of groups and the events for members. A
//! process may name a group in place of a namespace, with the wildcard rank for all its members or with the index of one of
//! them.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};
use pmix_wire::reply::{Group as Formed, GroupReply};

use super::collective::{Collective, Kind};
use super::events::{Range, Sender};
use super::limits::GROUPS_MAX;
use super::peer::{Actor, PeerId};
use super::services::Shape;
use super::{Continuation, Engine};
use crate::upcall::Upcall;

/// The groups that local processes belong to, by name.
pub(super) type Groups = BTreeMap<CString, Group>;

/// One of them.
pub(super) struct Group {
    /// In the order of their group ranks.
    members: Vec<Proc>,
    /// The host takes part in it.
    is_of_host: bool,
    /// Members get an event when another one ends.
    tells_of_end: bool,
    /// The leader, if it was formed by invitation.
    leader: Option<Proc>,
}

impl Group {
    /// Whether a process is a member, or formed it.
    fn is_of(&self, proc: &Proc) -> bool {
        self.members.contains(proc) || self.leader.as_ref() == Some(proc)
    }
}

impl Engine {
    /// A client forms a group with others.
    pub(super) fn construct(
        &mut self,
        peer: PeerId,
        tag: u32,
        group: Option<CString>,
        procs: Vec<Proc>,
        mut infos: Vec<Info>,
        now: Instant,
    ) {
        let Some(proc) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        let Some(group) = group.filter(|group| self.may_name(group)) else {
            return self.reply_status(peer, tag, Status::ERR_BAD_PARAM);
        };
        if let Err(status) = self.read_construct(&proc, &procs, &mut infos) {
            return self.reply_status(peer, tag, status);
        }
        if !self.has_room_for_group(peer) {
            return self.refuse_more(peer, tag, "groups");
        }
        let procs = self.each_one(procs);
        if procs.is_empty() || infos.iter().any(|info| info.key.is(keys::GROUP_BOOTSTRAP)) {
            return self.join_construct(peer, tag, group, procs, infos, now);
        }
        self.enter(Kind::Construct(group), peer, tag, procs, infos, now);
    }

    /// A client dissolves a group with the other members.
    pub(super) fn destruct(&mut self, peer: PeerId, tag: u32, group: Option<CString>, infos: Vec<Info>, now: Instant) {
        let known = group.and_then(|group| Some((self.groups.get(&group)?.members.clone(), group)));
        match known {
            Some((members, group)) => self.enter(Kind::Destruct(group), peer, tag, members, infos, now),
            None => self.reply_status(peer, tag, Status::ERR_NOT_FOUND),
        }
    }

    /// A client leaves a group; the other members get an event.
    pub(super) fn leave_group(
        &mut self,
        peer: PeerId,
        tag: u32,
        group: Option<CString>,
        (time, now): (Option<Duration>, Instant),
    ) {
        let Some(proc) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        let Some(name) = group.filter(|name| self.is_member(name, &proc)) else {
            return self.reply_status(peer, tag, Status::ERR_NOT_FOUND);
        };
        let (infos, is_local) = self.without_member(&name, &proc);
        let code = Status::GROUP_LEFT;
        match Info::copies(&infos) {
            Ok(copies) => self.deliver_event(Sender::About(peer), code, &proc, Range::CUSTOM, copies, now),
            Err(status) => return self.reply_status(peer, tag, status),
        }
        if is_local {
            self.reply_status(peer, tag, Status::SUCCESS);
        } else {
            let upcall = Upcall::NotifyEvent { code, source: proc, range: Range::CUSTOM, infos };
            self.upcall_within(Continuation::Reply(peer, tag, Shape::Notify), peer, upcall, (time, now));
        }
    }

    /// The groups of which a process sees a member, with their members.
    pub(super) fn groups_for<'e>(&'e self, asker: &'e Actor) -> impl Iterator<Item = (&'e CString, &'e [Proc])> + 'e {
        let sees = |member: &Proc| self.sees(&asker.proc, asker.user, &member.nspace);
        let groups = self.groups.iter().map(|(name, group)| (name, &group.members[..]));
        groups.filter(move |(_, members)| members.iter().any(sees))
    }

    /// A process was lost: removes it from its groups, and notifies the members of groups that were formed with that option.
    pub(super) fn leave_groups(&mut self, gone: &Proc, now: Instant) {
        let of_it: Vec<CString> = self.groups.keys().filter(|name| self.is_member(name, gone)).cloned().collect();
        for name in of_it {
            let tells = self.groups.get(&name).is_some_and(|group| group.tells_of_end);
            if tells {
                self.tell_of_failed(&name, gone, now);
            } else {
                self.without_member(&name, gone);
            }
        }
    }

    /// Removes a lost member from a group, and notifies the others.
    fn tell_of_failed(&mut self, name: &CStr, gone: &Proc, now: Instant) {
        let (infos, is_local) = self.without_member(name, gone);
        let code = Status::GROUP_MEMBER_FAILED;
        if let Ok(copies) = Info::copies(&infos) {
            self.deliver_event(Sender::Server, code, gone, Range::CUSTOM, copies, now);
        }
        if !is_local {
            let upcall = Upcall::NotifyEvent { code, source: gone.clone(), range: Range::CUSTOM, infos };
            self.upcall(Continuation::Nothing, upcall);
        }
    }

    /// Removes a member from a group. Returns the infos of the event for the others, and whether all of them are on this node.
    fn without_member(&mut self, name: &CStr, gone: &Proc) -> (Vec<Info>, bool) {
        let Some(group) = self.groups.get_mut(name) else { return (Vec::new(), true) };
        group.members.retain(|member| member != gone);
        let members = group.members.clone();
        if members.is_empty() {
            self.groups.remove(name);
        }
        let is_local = self.all_local(&members);
        let infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(gone.clone())),
            Info::new(keys::GROUP_ID, Value::string(name.to_bytes())),
            Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(members)),
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
        ];
        (infos, is_local)
    }

    /// Processes are gone: no group has them as members any more, and nobody is told. Drops the groups without a process of a job that is
    /// known here: nobody tells this server of the end of another job.
    pub(super) fn end_groups(&mut self, is_gone: impl Fn(&Proc) -> bool) {
        self.groups.values_mut().for_each(|group| group.members.retain(|member| !is_gone(member)));
        let (nspaces, own) = (&self.nspaces, &self.config.me);
        let is_known = |member: &Proc| nspaces.get(&member.nspace).is_some_and(|state| !state.foreign);
        self.groups.retain(|_, group| group.members.iter().any(|member| member == own || is_known(member)));
    }

    /// An event reports that the processes of a leader's invitation have formed a group.
    pub(super) fn note_invited(&mut self, source: &Proc, infos: &[Info]) {
        let text = |value: &Value| value.as_text().and_then(|text| CString::new(text).ok());
        let name = Info::find(infos, keys::GROUP_ID).and_then(text);
        let members = Info::find(infos, keys::EVENT_CUSTOM_RANGE).map(|named| named.iter_procs().cloned().collect());
        let (Some(name), Some(members)) = (name.filter(|name| self.may_name(name)), members) else { return };
        // A process outside the group cannot replace a group that has processes of this node.
        let is_of_others = |group: &Group| {
            let is_local = |member: &Proc| self.all_local(std::slice::from_ref(member));
            !group.is_of(source) && group.members.iter().any(is_local)
        };
        if self.groups.get(&name).is_some_and(is_of_others) || self.groups_of(source) >= GROUPS_MAX {
            return;
        }
        let members = self.each_one(members);
        let leader = Some(source.clone());
        self.groups.insert(name, Group { members, is_of_host: false, tells_of_end: false, leader });
    }

    /// Whether the host has a part in forming or dissolving a group: where some of its members are elsewhere, or it is
    /// to have a context id, which is the same everywhere.
    pub(super) fn is_of_host(&self, kind: &Kind, signature: &[Proc], infos: &[Info]) -> bool {
        match kind {
            // Added members are told to the host alone.
            Kind::Construct(_) if infos.iter().any(|info| info.key.is(keys::GROUP_ADD_MEMBERS)) => true,
            Kind::Construct(_) if Info::is_set(infos, keys::GROUP_LOCAL_ONLY) => false,
            Kind::Construct(_) if Info::is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID) => true,
            Kind::Destruct(group) if self.groups.get(group).is_some_and(|group| group.is_of_host) => true,
            _ => !self.all_local(signature),
        }
    }

    /// Answers the members of a construct that has succeeded or failed, and notifies them of members that were lost before they entered.
    pub(super) fn complete_construct(&mut self, name: CString, construct: Collective, status: Status) {
        let formed = if status.is_success() { self.members_formed(&construct) } else { Err(status) };
        let sent = formed.and_then(|members| Ok((members, self.sent_to_group(&construct)?)));
        let (members, (infos, changed)) = match sent {
            Ok(sent) => sent,
            Err(status) => return self.answer_construct(&construct, GroupReply { status, group: None }),
        };
        let (lost, members): (Vec<Proc>, Vec<Proc>) = members.into_iter().partition(|proc| self.is_lost(proc));
        let (is_of_host, context) = (construct.at_host, construct.formed.context);
        let tells_of_end = Info::is_set(&construct.infos, keys::GROUP_NOTIFY_TERMINATION);
        let group = Group { members: members.clone(), is_of_host, tells_of_end, leader: None };
        self.groups.insert(name.clone(), group);
        let is_whole = construct.is_joined || construct.adds_members() || !infos.is_empty();
        let group = Formed { members, context, infos, is_whole };
        // Members find the values once they are told of the group.
        self.after_publication(&changed, move |engine| {
            engine.answer_construct(&construct, GroupReply { status, group: Some(group) });
            for gone in &lost {
                let now = engine.now();
                engine.tell_of_failed(&name, gone, now);
            }
        });
    }

    fn answer_construct(&mut self, construct: &Collective, reply: GroupReply) {
        for (peer, tag) in construct.participants() {
            self.reply(peer, tag, &reply);
        }
    }

    /// The members of a group that is being formed.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if only the host can know them, and does not say; `NOT_A_MEMBER` for a process that joined and is none.
    fn members_formed(&mut self, construct: &Collective) -> Result<Vec<Proc>, Status> {
        let named = &construct.formed.members;
        let is_of_host = construct.is_joined || construct.adds_members();
        if !is_of_host {
            return Ok(construct.procs.clone());
        }
        if named.is_empty() {
            self.log(
                "the host has formed a group without saying who is in it: PMIX_GROUP_MEMBERSHIP is missing".into(),
            );
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if construct.is_joined && !construct.present.iter().all(|proc| named.iter().any(|member| member.covers(proc))) {
            return Err(Status::ERR_NOT_A_MEMBER);
        }
        let nspaces = Self::nspaces_of(named);
        self.let_read(construct.participants().map(|(peer, _)| peer), &nspaces, true);
        Ok(self.each_one(named.clone()))
    }

    /// A group is dissolved, or it is not.
    pub(super) fn complete_destruct(&mut self, name: &CStr, destruct: Collective, status: Status) {
        if status.is_success() {
            self.groups.remove(name);
        }
        for (peer, tag) in destruct.participants() {
            self.reply_status(peer, tag, status);
        }
    }

    /// Puts the members of groups in the place of their groups.
    ///
    /// # Errors
    /// `BAD_PARAM` for a place that a group does not have.
    pub(super) fn of_groups(&self, procs: Vec<Proc>) -> Result<Vec<Proc>, Status> {
        let group_of = |proc: &Proc| {
            let name = CString::new(proc.nspace.as_bytes()).ok()?;
            // The name of a job stays its own.
            self.groups.get(&name).filter(|_| !self.nspaces.contains_key(&proc.nspace))
        };
        if self.groups.is_empty() || !procs.iter().any(|proc| group_of(proc).is_some()) {
            return Ok(procs);
        }
        let mut members = Vec::new();
        for proc in procs {
            match group_of(&proc) {
                None => members.push(proc),
                Some(group) if proc.rank == Rank::WILDCARD => members.extend(group.members.iter().cloned()),
                Some(group) => {
                    members.push(group.members.get(proc.rank.0 as usize).ok_or(Status::ERR_BAD_PARAM)?.clone())
                }
            }
        }
        Ok(members)
    }

    /// Expands jobs of known size to their processes, so that single ones can leave.
    pub(super) fn each_one(&self, procs: Vec<Proc>) -> Vec<Proc> {
        let size = |proc: &Proc| self.nspaces.get(&proc.nspace).map_or(0, |state| state.job.size());
        let mut each = Vec::new();
        for proc in procs {
            match size(&proc) {
                size if size > 0 && proc.rank == Rank::WILDCARD => {
                    each.extend((0..size).map(|rank| Proc::new(proc.nspace.clone(), Rank(rank))));
                }
                _ => each.push(proc),
            }
        }
        each
    }

    fn is_member(&self, name: &CStr, proc: &Proc) -> bool {
        self.groups.get(name).is_some_and(|group| group.members.contains(proc))
    }

    /// Whether a group may have this name: one that is no job's.
    fn may_name(&self, name: &CStr) -> bool {
        Nspace::new(name.to_bytes()).is_ok_and(|name| !name.is_empty() && !self.nspaces.contains_key(&name))
    }

    /// The number of groups that count against the limit of a process.
    fn groups_of(&self, proc: &Proc) -> usize {
        self.groups.values().filter(|group| group.is_of(proc)).count()
    }

    fn has_room_for_group(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| self.groups_of(&peer.proc) < GROUPS_MAX)
    }
}
