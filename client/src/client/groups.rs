//! Groups: collective construction and destruction, and leaving. Module `invitations` has the other way to form one.
//!
//! Construction and destruction are collectives of the members, which the server gathers.

use std::collections::BTreeMap;
use std::ffi::CString;

use parking_lot::Mutex;
use pmix_dstore::model::{DataType, Info, Proc, Rank, Result, Status, Value, keys};

use super::ops::{InfoReply, done};
use super::{Client, ClientKind, Inner};
use crate::Operation;
use crate::get_options::timeout_of;
use crate::operation::outcome;
use pmix_wire::Request;
use pmix_wire::reply::GroupReply;

/// The groups that this process belongs to, with their members.
pub(crate) type Groups = Mutex<BTreeMap<CString, Vec<Proc>>>;

impl Client {
    /// Forms a group with all of `procs`, each of which makes the same call. The answer holds the members
    /// (`PMIX_GROUP_MEMBERSHIP`) and, if the caller asked for one, the group's context id (`PMIX_GROUP_CONTEXT_ID`). A
    /// caller that is not in `procs` gets `ERR_NOT_A_MEMBER` at once, as in release 7.0. Releases up to 6.1 leave the
    /// check to servers, and with some of these the caller waits for ever.
    ///
    /// Leaders that know only their number say it (`PMIX_GROUP_BOOTSTRAP`) and name themselves; members that a leader adds
    /// (`PMIX_GROUP_ADD_MEMBERS`) name no process. What a caller sends to all members (`PMIX_GROUP_INFO`) is in their answers, and
    /// found by a Get with the context id as its qualifier.
    pub fn group_construct(&self, group: CString, procs: Vec<Proc>, mut infos: Vec<Info>) -> Operation<InfoReply> {
        // Without a server the request below fails with its own status.
        let has_server = self.inner.kind() != ClientKind::Singleton;
        // A process that a leader adds names nobody: it does not know the others.
        if has_server && !procs.is_empty() && !names_not_all(&infos) && !self.inner.is_among(&procs) {
            return Operation::ready(&self.inner.link, Err(Status::ERR_NOT_A_MEMBER));
        }
        let timeout = timeout_of(&infos);
        infos.iter_mut().filter(|info| info.key.is(keys::GROUP_INFO)).for_each(|info| self.sign(info));
        infos.extend(self.endpoints());
        let request = Request::GroupConstruct { group: Some(group.clone()), procs: procs.clone(), infos };
        self.inner.ask(request, timeout, move |inner, reply: GroupReply| {
            outcome(reply.status)?;
            let formed = reply.group.ok_or(Status::ERR_UNPACK_FAILURE)?;
            // Older servers do not list the members.
            let members = if formed.members.is_empty() { procs } else { formed.members };
            let mut infos = vec![membership(&members)];
            infos.extend(formed.context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))));
            infos.extend(formed.infos);
            inner.groups.lock().insert(group, members);
            Ok(InfoReply { status: Status::SUCCESS, infos })
        })
    }

    /// Says in an array of infos whose they are, as servers from 6.0 on expect; ours does it itself, too.
    fn sign(&self, info: &mut Info) {
        if let Value::DataArray(array) = &mut info.value
            && array.ty == DataType::INFO
            && !info_is_signed(array.items.first())
            && self.inner.link.server_version().takes_group_data()
        {
            let me = Info::new(keys::PROCID, Value::Proc(self.me().clone()));
            array.items.insert(0, Value::Info(Box::new(me)));
        }
    }

    /// Dissolves a group, as all its members do.
    pub fn group_destruct(&self, group: CString, infos: Vec<Info>) -> Operation<()> {
        let inner = &self.inner;
        let timeout = timeout_of(&infos);
        let known = inner.groups.lock().get(&group).cloned();
        if known.is_none() && inner.link.server_version().names_group_members() {
            return Operation::ready(&inner.link, Err(Status::ERR_NOT_FOUND));
        }
        let request = Request::GroupDestruct { group: Some(group.clone()), procs: known.unwrap_or_default(), infos };
        inner.ask(request, timeout, move |inner, reply| {
            done(inner, reply)?;
            inner.groups.lock().remove(&group);
            Ok(())
        })
    }

    /// Leaves a group. The other members stay, and get the event `PMIX_GROUP_LEFT`.
    pub fn group_leave(&self, group: CString, infos: Vec<Info>) -> Operation<()> {
        let timeout = timeout_of(&infos);
        let request = Request::GroupLeave { group: Some(group.clone()), infos };
        self.inner.ask(request, timeout, move |inner, reply| {
            done(inner, reply)?;
            inner.groups.lock().remove(&group);
            Ok(())
        })
    }

    /// Replaces each wildcard rank by all processes of its job.
    pub(crate) fn each_one(&self, procs: Vec<Proc>) -> Result<Vec<Proc>> {
        let mut each = Vec::new();
        for proc in procs {
            if proc.rank != Rank::WILDCARD {
                each.push(proc);
                continue;
            }
            let size = self.get_value(&proc, keys::JOB_SIZE, &[])?.as_u64().ok_or(Status::ERR_BAD_PARAM)?;
            let size = u32::try_from(size).map_err(|_| Status::ERR_BAD_PARAM)?;
            each.extend((0..size).map(|rank| Proc::new(proc.nspace.clone(), Rank(rank))));
        }
        Ok(each)
    }
}

impl Inner {
    /// Replaces this process's groups by their members, for servers that do not know groups.
    pub(crate) fn members_of(&self, procs: Vec<Proc>) -> Vec<Proc> {
        if self.link.server_version().names_group_members() { self.members_of_groups(procs) } else { procs }
    }

    /// Replaces this process's groups by their members.
    pub(crate) fn members_of_groups(&self, procs: Vec<Proc>) -> Vec<Proc> {
        let groups = self.groups.lock();
        if groups.is_empty() {
            return procs;
        }
        procs.into_iter().flat_map(|proc| named(&groups, &proc).unwrap_or_else(|| vec![proc])).collect()
    }

    /// Whether `procs` include this process, by name or as a member of one of its groups. Special ranks of the own job
    /// count as this process: only the server knows which processes they denote.
    fn is_among(&self, procs: &[Proc]) -> bool {
        let groups = self.groups.lock();
        procs.iter().any(|proc| match named(&groups, proc) {
            Some(members) => members.contains(&self.me),
            None => proc.nspace == self.me.nspace && (proc.rank == self.me.rank || !proc.rank.is_process()),
        })
    }
}

/// The members that `proc` denotes if its namespace is the name of one of this process's groups: all members for the
/// wildcard rank, otherwise the member whose index is the rank. `None` if it denotes none.
fn named(groups: &BTreeMap<CString, Vec<Proc>>, proc: &Proc) -> Option<Vec<Proc>> {
    let members = groups.get(&CString::new(proc.nspace.as_bytes()).ok()?)?;
    match proc.rank {
        Rank::WILDCARD => Some(members.clone()),
        index => Some(vec![members.get(index.0 as usize)?.clone()]),
    }
}

/// Whether the directives add members that `procs` does not name.
fn names_not_all(infos: &[Info]) -> bool {
    infos.iter().any(|info| info.key.is(keys::GROUP_ADD_MEMBERS) || info.key.is(keys::GROUP_BOOTSTRAP))
}

/// Whether the first of some infos names the process whose they are.
fn info_is_signed(first: Option<&Value>) -> bool {
    matches!(first, Some(Value::Info(first)) if matches!(first.value, Value::Proc(_)))
}

/// The info that lists the members of a group (`PMIX_GROUP_MEMBERSHIP`).
pub(crate) fn membership(members: &[Proc]) -> Info {
    Info::new(keys::GROUP_MEMBERSHIP, Value::procs(members.iter().cloned()))
}
