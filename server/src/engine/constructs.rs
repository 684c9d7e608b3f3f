//! Constructs of groups beyond the plain collective: leaders that know only their number (`PMIX_GROUP_BOOTSTRAP`), members that a
//! leader adds (`PMIX_GROUP_ADD_MEMBERS`), and what members send each other (`PMIX_GROUP_INFO`, endpoint data).
//!
//! This server cannot know which servers have the other leaders and the added members. So each of these processes is told to the
//! host by itself, as released servers do, and the host's first answer is the answer to all of them with the same group's name.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::time::Instant;

use pmix_client::get::timeout_of;
use pmix_dstore::codec::{Dialect, Packer};
use pmix_dstore::model::{DataType, Info, InfoFlags, Kval, Nspace, Proc, Result, Scope, Status, Value, keys};

use super::collective::{Arrival, Collective, FormedByHost, Kind, Sent, Terms};
use super::limits::{FENCES_MAX, GROUP_BYTES_MAX, GROUP_MEMBERS_MAX};
use super::peer::PeerId;
use super::{Continuation, Engine};
use crate::GroupOperation;
use crate::upcall::Upcall;

/// Whether an info has endpoint data of a member, which its library adds by itself.
fn is_endpoints(info: &Info) -> bool {
    info.key.is(keys::PROC_INFO_ARRAY)
}

/// Whether an info has what a member sends to the others.
fn is_sent(info: &Info) -> bool {
    info.key.is(keys::GROUP_INFO) || is_endpoints(info)
}

/// The process that a sent array is of, and the infos after its name.
fn sent_by(value: &Value) -> Option<(&Proc, impl Iterator<Item = &Info>)> {
    let mut infos = value.iter_infos();
    match infos.next() {
        Some(Info { key, value: Value::Proc(proc), .. }) if key.is(keys::PROCID) => Some((proc, infos)),
        _ => None,
    }
}

/// The bytes of an info in a message.
fn packed_len(info: &Info) -> Result<usize> {
    let mut packer = Packer::new(Dialect::STORED);
    packer.info(info)?;
    Ok(packer.into_bytes().len())
}

impl Sent {
    /// The bytes that these infos send to a group.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn of(infos: &[Info]) -> Result<Sent> {
        let mut sent = Sent::default();
        for info in infos.iter().filter(|info| is_sent(info)) {
            *sent.part_of(info) += packed_len(info)?;
        }
        Ok(sent)
    }

    fn part_of(&mut self, info: &Info) -> &mut usize {
        if is_endpoints(info) { &mut self.endpoints } else { &mut self.infos }
    }

    /// Adds an info. Returns whether it is not too much.
    fn add(&mut self, info: &Info) -> bool {
        let part = self.part_of(info);
        let sum = packed_len(info).map(|len| *part + len).ok().filter(|sum| *sum <= GROUP_BYTES_MAX);
        *part = sum.unwrap_or(*part);
        sum.is_some()
    }
}

/// Says in what a member sends to the others whose it is. A process must not send in the name of another one.
fn with_sender(proc: &Proc, info: &mut Info) -> Result<()> {
    let is_array =
        matches!(&info.value, Value::DataArray(array) if array.ty == DataType::INFO && !array.items.is_empty());
    if !is_array {
        return Err(Status::ERR_TYPE_MISMATCH);
    }
    match sent_by(&info.value) {
        Some((sender, _)) if sender == proc => return Ok(()),
        Some(_) => return Err(Status::ERR_BAD_PARAM),
        None => {}
    }
    if let Value::DataArray(array) = &mut info.value {
        let sender = Info::new(keys::PROCID, Value::Proc(proc.clone()));
        array.items.insert(0, Value::Info(Box::new(sender)));
    }
    Ok(())
}

impl Engine {
    /// Checks what a process says in a construct, and completes it: its own name in what it sends, the added members one by one.
    ///
    /// # Errors
    /// `BAD_PARAM` for no leader, no added member, or another's data; `ERR_TYPE_MISMATCH`; `ERR_OUT_OF_RESOURCE` for too much.
    pub(super) fn read_construct(&self, proc: &Proc, procs: &[Proc], infos: &mut Vec<Info>) -> Result<()> {
        self.check_number(procs)?;
        for info in infos.iter_mut() {
            if is_sent(info) {
                with_sender(proc, info)?;
            } else if info.key.is(keys::GROUP_BOOTSTRAP) {
                info.value.as_u64().filter(|leaders| *leaders > 0).ok_or(Status::ERR_BAD_PARAM)?;
            } else if info.key.is(keys::GROUP_ADD_MEMBERS) {
                let added: Vec<Proc> = info.value.iter_procs().cloned().collect();
                if added.is_empty() {
                    return Err(Status::ERR_BAD_PARAM);
                }
                self.check_number(&added)?;
                info.value = Value::procs(self.each_one(added));
            }
        }
        let sent = Sent::of(infos)?;
        if sent.endpoints > GROUP_BYTES_MAX {
            // Nobody asked for it, and Gets bring the values.
            infos.retain(|info| !is_endpoints(info));
        }
        if sent.infos > GROUP_BYTES_MAX { Err(Status::ERR_OUT_OF_RESOURCE) } else { Ok(()) }
    }

    /// Whether these are no more processes than a group may have.
    fn check_number(&self, procs: &[Proc]) -> Result<()> {
        let count = |proc: &Proc| match self.nspaces.get(&proc.nspace) {
            Some(state) if !proc.rank.is_process() => (state.job.size() as usize).max(1),
            _ => 1,
        };
        let count = procs.iter().fold(0_usize, |sum, proc| sum.saturating_add(count(proc)));
        if count > GROUP_MEMBERS_MAX { Err(Status::ERR_OUT_OF_RESOURCE) } else { Ok(()) }
    }

    /// A further process of this node enters a collective. If it is a construct, adds what the process sends, and the members that
    /// it adds. Returns the collective's id again.
    pub(super) fn add_to_construct(&mut self, id: u64, infos: Vec<Info>) -> u64 {
        let of_group = |other: &&mut Collective| matches!(other.kind, Kind::Construct(_));
        let Some(construct) = self.collectives.get_mut(&id).filter(of_group) else { return id };
        for info in infos {
            if is_sent(&info) {
                if construct.sent.add(&info) {
                    construct.infos.push(info);
                } else if !is_endpoints(&info) {
                    // It fails for all of them, since each is to get all of it.
                    construct.status = Status::ERR_OUT_OF_RESOURCE;
                }
            } else if info.key.is(keys::GROUP_ADD_MEMBERS) {
                match construct.infos.iter_mut().find(|known| known.key.is(keys::GROUP_ADD_MEMBERS)) {
                    Some(known) if known.value == info.value => {}
                    Some(known) => {
                        let mut seen = HashSet::new();
                        let both = known.value.iter_procs().chain(info.value.iter_procs());
                        known.value = Value::procs(both.filter(|proc| seen.insert(*proc)).cloned().collect::<Vec<_>>());
                    }
                    None => construct.infos.push(info),
                }
            }
        }
        let members =
            Info::find(&construct.infos, keys::GROUP_ADD_MEMBERS).map_or(0, |added| added.iter_procs().count());
        if members > GROUP_MEMBERS_MAX {
            construct.status = Status::ERR_OUT_OF_RESOURCE;
        }
        id
    }

    /// Tells the host of a leader that does not know the others, or of an added member, which names no process.
    pub(super) fn join_construct(
        &mut self,
        peer: PeerId,
        tag: u32,
        group: CString,
        procs: Vec<Proc>,
        infos: Vec<Info>,
        now: Instant,
    ) {
        let Some(proc) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        let is_leader = !procs.is_empty();
        let procs = match self.check_joining(&proc, &group, procs) {
            Ok(procs) => procs,
            Err(status) => return self.reply_status(peer, tag, status),
        };
        if self.collectives.len() >= FENCES_MAX && self.fences_of(peer) >= FENCES_MAX {
            return self.refuse_more(peer, tag, "collectives that are not over");
        }
        let mut told = match Info::copies(&infos) {
            Ok(told) => told,
            Err(status) => return self.reply_status(peer, tag, status),
        };
        if !is_leader {
            told.push(Info::new(keys::PROCID, Value::Proc(proc.clone())));
        }
        told.push(Info::new(keys::LOCAL_COLLECTIVE_STATUS, Value::Status(Status::SUCCESS)));
        let mut signature = if is_leader { procs.clone() } else { vec![proc.clone()] };
        signature.sort();
        signature.dedup();
        let kind = Kind::Construct(group.clone());
        let deadline = timeout_of(&infos).map(|wait| now + wait);
        let mut construct = Collective::new(kind, (signature.clone(), signature), infos, Terms::default(), now);
        (construct.at_host, construct.is_joined, construct.deadline) = (true, true, deadline);
        construct.asked = Some(now);
        construct.present.insert(proc.clone());
        construct.arrived.push(Arrival { peer, tag, proc });
        self.collective_next += 1;
        let id = self.collective_next;
        self.collectives.insert(id, construct);
        let upcall = Upcall::Group { operation: GroupOperation::Construct, group, procs, infos: told };
        self.upcall(Continuation::Collective(id), upcall);
    }

    /// Whether a process may join the construct of a group; returns the processes that it names, without groups.
    ///
    /// # Errors
    /// The status for its reply.
    fn check_joining(&self, proc: &Proc, group: &CStr, procs: Vec<Proc>) -> Result<Vec<Proc>> {
        let procs = self.members_of(proc, procs)?;
        if !procs.is_empty() && !procs.iter().any(|named| named.covers(proc)) {
            return Err(Status::ERR_NOT_A_MEMBER);
        }
        if self.constructs_of(group).any(|(_, other)| other.present.contains(proc)) {
            return Err(Status::ERR_EXISTS);
        }
        Ok(procs)
    }

    /// The constructs of a group that the host brings together.
    fn constructs_of(&self, group: &CStr) -> impl Iterator<Item = (u64, &Collective)> {
        let is_of = move |other: &Collective| matches!(&other.kind, Kind::Construct(name) if name.as_c_str() == group);
        let brought =
            move |other: &Collective| other.at_host && (other.is_joined || other.adds_members()) && is_of(other);
        self.collectives.iter().filter(move |(_, other)| brought(other)).map(|(id, other)| (*id, other))
    }

    /// The collectives that end with this one.
    pub(super) fn ending_with(&self, id: u64) -> Vec<u64> {
        match self.collectives.get(&id) {
            Some(Collective { kind: Kind::Construct(group), at_host: true, .. }) => {
                let mut all: Vec<u64> = self.constructs_of(group).map(|(id, _)| id).collect();
                if !all.contains(&id) {
                    all = vec![id];
                }
                all
            }
            _ => vec![id],
        }
    }

    /// The processes that a construct of several parts waits for, in words; `None` if it is not one, or they are all there.
    pub(super) fn missing_of_construct(&self, construct: &Collective) -> Option<String> {
        let Kind::Construct(group) = &construct.kind else { return None };
        let (mut leaders, mut wanted, mut is_named) = (0, 0, false);
        let (mut added, mut present) = (Vec::new(), HashSet::new());
        for (_, part) in self.constructs_of(group) {
            present.extend(&part.present);
            added.extend(Info::find(&part.infos, keys::GROUP_ADD_MEMBERS).into_iter().flat_map(Value::iter_procs));
            let number = Info::find(&part.infos, keys::GROUP_BOOTSTRAP).and_then(Value::as_u64);
            leaders += u64::from(number.is_some());
            wanted = wanted.max(number.unwrap_or(0));
            is_named |= number.is_some() || part.adds_members();
        }
        if present.is_empty() {
            return None;
        }
        let mut seen = HashSet::new();
        let absent = added.into_iter().filter(|proc| !present.contains(*proc) && seen.insert(*proc));
        let absent: Vec<Proc> = absent.cloned().collect();
        let mut words = Vec::new();
        if !is_named {
            words.push("its leaders".into());
        } else if wanted > leaders {
            words.push(format!("{} of {wanted} leaders", wanted - leaders));
        }
        if !absent.is_empty() {
            words.push(Proc::list(&absent));
        }
        (!words.is_empty()).then(|| words.join(", and "))
    }

    /// Takes the host's answer about a group.
    pub(super) fn group_answered(&mut self, id: u64, status: Status, infos: &[Info]) {
        let formed = FormedByHost {
            context: Info::find(infos, keys::GROUP_CONTEXT_ID).and_then(Value::as_u64),
            members: Info::find(infos, keys::GROUP_MEMBERSHIP)
                .into_iter()
                .flat_map(Value::iter_procs)
                .cloned()
                .collect(),
            infos: Vec::new(),
        };
        let told = match self.keep_endpoints(infos) {
            Ok(()) => group_infos(infos),
            Err(status) => Err(status),
        };
        for id in self.ending_with(id) {
            let mut status = status;
            if let Some(construct) = self.collectives.get_mut(&id) {
                construct.formed = formed.clone();
                match told.as_ref().map_err(|status| *status).and_then(|told| Info::copies(told)) {
                    Ok(told) => construct.formed.infos = told,
                    Err(failed) => status = failed,
                }
                // A host may ignore the status of the local members.
                if !construct.status.is_success() && matches!(construct.kind, Kind::Construct(_)) {
                    status = construct.status;
                }
            }
            self.collective_answered(id, status, Default::default());
        }
    }

    /// Stores the endpoint data of members on other nodes, as a fence would. Each array begins with the member's name.
    fn keep_endpoints(&mut self, infos: &[Info]) -> Result<()> {
        let is_endpoints = |info: &&Info| info.key.is(keys::PROC_INFO_ARRAY) || info.key.is(keys::GROUP_ENDPT_DATA);
        for (proc, values) in infos.iter().filter(is_endpoints).filter_map(|info| sent_by(&info.value)) {
            let mut kvals = Vec::new();
            for Info { key, value, .. } in values.filter(|info| !info.key.is_reserved()) {
                kvals.push(Kval { key: key.clone(), value: value.copy()? });
            }
            self.store_remote(&proc.nspace, proc.rank, kvals)?;
            if self.gets.is_asked(proc) {
                self.fenced(std::slice::from_ref(proc));
            }
            self.publish(&proc.nspace);
        }
        Ok(())
    }

    /// What the members of a group sent each other, and the namespaces whose values it changes. It is stored if the group has a
    /// context id; without one only the replies have it.
    ///
    /// # Errors
    /// As [`Engine::keep_group_infos`].
    pub(super) fn sent_to_group(&mut self, construct: &Collective) -> Result<(Vec<Info>, Vec<Nspace>)> {
        // A host that only assigns an id leaves out what the members have sent.
        let sent = if construct.formed.infos.is_empty() { &construct.infos } else { &construct.formed.infos };
        let infos = group_infos(sent)?;
        let changed = match construct.formed.context {
            Some(context) => self.keep_group_infos(context, &infos)?,
            None => Vec::new(),
        };
        Ok((infos, changed))
    }

    /// The host registers data of a group, as it does before it answers.
    ///
    /// # Errors
    /// `BAD_PARAM` for infos of members without a context id; `NOMEM`.
    pub(super) fn register_group(&mut self, infos: &[Info]) -> Result<()> {
        self.keep_endpoints(infos)?;
        let sent = group_infos(infos)?;
        if sent.is_empty() {
            return Ok(());
        }
        let context = Info::find(infos, keys::GROUP_CONTEXT_ID).and_then(Value::as_u64);
        self.keep_group_infos(context.ok_or(Status::ERR_BAD_PARAM)?, &sent).map(drop)
    }

    /// Stores what the members of a group sent each other: each value is found with the group's context id as its qualifier.
    ///
    /// # Errors
    /// `NOMEM`; a part of it may be stored.
    pub(super) fn keep_group_infos(&mut self, context: u64, infos: &[Info]) -> Result<Vec<Nspace>> {
        let mut changed = Vec::new();
        for (proc, values) in infos.iter().filter_map(|info| sent_by(&info.value)) {
            let Some(state) = self.nspaces.get_mut(&proc.nspace) else { continue };
            for value in values {
                let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
                let context = Info { flags: InfoFlags::QUALIFIER, ..context };
                let qualified = Value::infos([value.copy()?, context]);
                state.store(proc.rank, keys::QUALIFIED_VALUE.into(), qualified, Scope::Local)?;
            }
            if !changed.contains(&proc.nspace) {
                changed.push(proc.nspace.clone());
            }
        }
        changed.iter().for_each(|nspace| self.publish(nspace));
        Ok(changed)
    }
}

impl Collective {
    /// Whether a leader adds members to the group.
    pub fn adds_members(&self) -> bool {
        self.infos.iter().any(|info| info.key.is(keys::GROUP_ADD_MEMBERS))
    }
}

/// What members sent to a group, one info for each: hosts name them so, or in an array of such arrays.
fn group_infos(infos: &[Info]) -> Result<Vec<Info>> {
    let mut all = Vec::new();
    for info in infos {
        if info.key.is(keys::GROUP_INFO) {
            all.push(info.copy()?);
        } else if info.key.is(keys::GROUP_INFO_ARRAY) {
            for one in info.value.iter_infos() {
                all.push(Info::new(keys::GROUP_INFO, one.value.copy()?));
            }
        }
    }
    Ok(all)
}
