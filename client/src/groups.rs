//! Groups: forming and dissolving them together, joining them by invitation, leaving them.
//!
//! Construction and destruction are collectives of the members, which the server gathers. An invitation is a matter of events
//! between the one who invites and those whom it asks: each accepts or declines, and then all of them are told.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pmix_dstore::model::{DataArray, DataType, Info, Proc, Rank, Result, Status, Value, keys};

use crate::client::{Client, Inner};
use crate::events::{Event, range};
use crate::get::{GetOptions, GetRequest, timeout_of};
use crate::operation::{Done, outcome};
use crate::ops::{Answer, done};
use crate::wire::Request;
use crate::wire::reply::GroupReply;
use crate::{HandlerId, Operation};

/// The groups that this process belongs to, with their members.
pub(crate) type Groups = Mutex<BTreeMap<CString, Vec<Proc>>>;

impl Client {
    /// Forms a group with all of `procs`, which do the same. The answer holds the members (`PMIX_GROUP_MEMBERSHIP`) and, where
    /// one was asked for, the group's context id (`PMIX_GROUP_CONTEXT_ID`).
    pub fn group_construct(&self, group: CString, procs: Vec<Proc>, infos: Vec<Info>) -> Operation<Answer> {
        if procs.is_empty() {
            return Operation::ready(&self.inner.link, Err(Status::ERR_BAD_PARAM));
        }
        let timeout = timeout_of(&infos);
        let request = Request::GroupConstruct { group: Some(group.clone()), procs: procs.clone(), infos };
        self.inner.ask(request, timeout, move |inner, reply: GroupReply| {
            outcome(reply.status)?;
            let formed = reply.group.ok_or(Status::ERR_UNPACK_FAILURE)?;
            // Older servers do not say who the members are.
            let members = if formed.members.is_empty() { procs } else { formed.members };
            let mut infos = vec![membership(&members)];
            infos.extend(formed.context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))));
            infos.extend(formed.infos);
            inner.groups.lock().insert(group, members);
            Ok(Answer { status: Status::SUCCESS, infos })
        })
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

    /// Leaves a group without the others, who are told by an event (`PMIX_GROUP_LEFT`).
    pub fn group_leave(&self, group: CString, infos: Vec<Info>) -> Operation<()> {
        let timeout = timeout_of(&infos);
        let request = Request::GroupLeave { group: Some(group.clone()), infos };
        self.inner.ask(request, timeout, move |inner, reply| {
            done(inner, reply)?;
            inner.groups.lock().remove(&group);
            Ok(())
        })
    }

    /// Accepts or declines an invitation. The operation is over when the answer is on its way; that the group is complete
    /// all its members are told by an event (`PMIX_GROUP_CONSTRUCT_COMPLETE`). Without a leader everybody is told.
    pub fn group_join(&self, group: &CString, leader: Option<Proc>, accepts: bool) -> Operation<()> {
        let status = if accepts { Status::GROUP_INVITE_ACCEPTED } else { Status::GROUP_INVITE_DECLINED };
        let mut infos = vec![Info::new(keys::GROUP_ID, Value::string(group.to_bytes()))];
        let range = match leader {
            Some(leader) => {
                infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::Proc(leader)));
                range::CUSTOM
            }
            None => range::SESSION,
        };
        self.notify_event(status, self.me().clone(), range, infos)
    }

    /// Invites `procs` into a group; the caller is one of them. `then` is called when each has answered or ended: with the members,
    /// or with `GROUP_CONSTRUCT_ABORT` where one declined or ended and `PMIX_GROUP_OPTIONAL` was not given.
    ///
    /// # Errors
    /// Where nobody could be invited; then `then` is not called.
    pub fn group_invite(&self, group: CString, procs: Vec<Proc>, infos: &[Info], then: Done<Answer>) -> Result<()> {
        self.invite(group, procs, infos, then).map(drop)
    }

    /// As [`Client::group_invite`], and waits for the answers.
    ///
    /// # Errors
    /// As there; `ERR_TIMEOUT` where a `PMIX_TIMEOUT` passed.
    pub fn group_invite_wait(&self, group: CString, procs: Vec<Proc>, infos: &[Info]) -> Result<Answer> {
        let (sender, receiver) = sync_channel(1);
        let answered: Done<Answer> = Box::new(move |answer| {
            // Who gave up waiting does not hear.
            let _ = sender.send(answer);
        });
        let invitation = self.invite(group, procs, infos, answered)?;
        let answer = match timeout_of(infos) {
            Some(timeout) => receiver.recv_timeout(timeout),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        answer.unwrap_or_else(|_| {
            invitation.conclude(Err(Status::ERR_TIMEOUT));
            Err(Status::ERR_TIMEOUT)
        })
    }

    fn invite(&self, group: CString, procs: Vec<Proc>, infos: &[Info], then: Done<Answer>) -> Result<Arc<Invitation>> {
        let members = self.each_one(procs)?;
        if !members.contains(self.me()) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let missing = members.iter().filter(|member| *member != self.me()).cloned().collect();
        let may_lack = Info::is_set(infos, keys::GROUP_OPTIONAL);
        let state = Answers { members, missing, is_refused: false, handler: None, then: Some(then) };
        let client = Arc::downgrade(&self.inner);
        let invitation = Arc::new(Invitation { group, may_lack, client, state: Mutex::new(state) });
        let codes = vec![
            Status::GROUP_INVITE_ACCEPTED,
            Status::GROUP_INVITE_DECLINED,
            Status::PROC_TERMINATED,
            Status::EVENT_PROC_TERMINATED,
            Status::ERR_LOST_CONNECTION,
        ];
        let first = vec![Info::new(keys::EVENT_HDLR_PREPEND, Value::Bool(true))];
        let hears = Arc::clone(&invitation);
        let handler = self.register_event_handler(
            codes,
            first,
            Arc::new(move |_, event, done| {
                hears.hear(&event);
                // Others may want to hear of it, too.
                done.finish(Status::SUCCESS, Vec::new());
            }),
        );
        let handler = handler.wait()?;
        invitation.state.lock().handler = Some(handler);
        if let Err(status) = invitation.tell(self, Status::GROUP_INVITED).wait() {
            invitation.state.lock().then = None;
            invitation.conclude(Err(status));
            return Err(status);
        }
        invitation.conclude_if_answered();
        Ok(invitation)
    }

    /// Names each process, also those of whole jobs.
    fn each_one(&self, procs: Vec<Proc>) -> Result<Vec<Proc>> {
        let mut each = Vec::new();
        for proc in procs {
            if proc.rank != Rank::WILDCARD {
                each.push(proc);
                continue;
            }
            let request = GetRequest {
                nspace: Some(proc.nspace.as_bytes()),
                rank: Rank::WILDCARD,
                key: Some(keys::JOB_SIZE.as_bytes()),
                options: GetOptions::default(),
                infos: &Vec::new,
            };
            let size = self.get(&request, |value| value.to_value())??.as_u64().ok_or(Status::ERR_BAD_PARAM)?;
            let size = u32::try_from(size).map_err(|_| Status::ERR_BAD_PARAM)?;
            each.extend((0..size).map(|rank| Proc::new(proc.nspace.clone(), Rank(rank))));
        }
        Ok(each)
    }
}

impl Inner {
    /// Puts the members of own groups in the place of their groups, for servers that know none.
    pub(crate) fn members_of(&self, procs: Vec<Proc>) -> Vec<Proc> {
        let groups = self.groups.lock();
        if groups.is_empty() || !self.link.server_version().names_group_members() {
            return procs;
        }
        let members = |proc: &Proc| {
            let members = groups.get(&CString::new(proc.nspace.as_bytes()).ok()?)?;
            match proc.rank {
                Rank::WILDCARD => Some(members.clone()),
                place => Some(vec![members.get(place.0 as usize)?.clone()]),
            }
        };
        procs.into_iter().flat_map(|proc| members(&proc).unwrap_or_else(|| vec![proc])).collect()
    }
}

/// An invitation that not all have answered.
struct Invitation {
    group: CString,
    /// Whoever declines or ends is left out.
    may_lack: bool,
    client: Weak<Inner>,
    state: Mutex<Answers>,
}

struct Answers {
    members: Vec<Proc>,
    missing: Vec<Proc>,
    is_refused: bool,
    handler: Option<HandlerId>,
    then: Option<Done<Answer>>,
}

impl Invitation {
    fn hear(&self, event: &Event) {
        let about = |key| Info::find(&event.infos, key);
        // Released libraries do not say which group their answers are about.
        let is_other = about(keys::GROUP_ID).is_some_and(|id| id.as_text() != Some(self.group.to_bytes()));
        if event.status == Status::ERR_LOST_CONNECTION && self.is_of_me(&event.source) {
            return self.conclude(Err(Status::ERR_LOST_CONNECTION));
        }
        let who = match (event.status, about(keys::EVENT_AFFECTED_PROC)) {
            (Status::PROC_TERMINATED | Status::EVENT_PROC_TERMINATED, Some(Value::Proc(proc))) => proc,
            (Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED, _) if !is_other => &event.source,
            _ => return,
        };
        {
            let mut state = self.state.lock();
            let awaited = state.missing.len();
            state.missing.retain(|proc| proc != who);
            if state.missing.len() == awaited {
                return;
            }
            if event.status != Status::GROUP_INVITE_ACCEPTED {
                state.is_refused = true;
                state.members.retain(|proc| proc != who);
            }
        }
        self.conclude_if_answered();
    }

    fn is_of_me(&self, source: &Proc) -> bool {
        self.client.upgrade().is_some_and(|client| client.me == *source)
    }

    fn conclude_if_answered(&self) {
        let answer = {
            let state = self.state.lock();
            if !state.missing.is_empty() {
                return;
            }
            match state.is_refused && !self.may_lack {
                true => Err(Status::GROUP_CONSTRUCT_ABORT),
                false => Ok(Answer { status: Status::SUCCESS, infos: vec![membership(&state.members)] }),
            }
        };
        self.conclude(answer);
    }

    /// Tells the caller and, if it can be done, the members what became of it. Once; later answers are nobody's.
    fn conclude(&self, answer: Result<Answer>) {
        let (handler, then, members) = {
            let mut state = self.state.lock();
            (state.handler.take(), state.then.take(), state.members.clone())
        };
        if let (Some(handler), Some(client)) = (handler, self.client.upgrade().map(|inner| Client { inner })) {
            // This cannot fail.
            let _ = client.deregister_event_handler(handler).wait();
            let what = match &answer {
                Ok(_) => {
                    client.inner.groups.lock().insert(self.group.clone(), members);
                    Status::GROUP_CONSTRUCT_COMPLETE
                }
                Err(_) => Status::GROUP_CONSTRUCT_ABORT,
            };
            // The members hear of it, or the connection is gone.
            let _ = self.tell(&client, what).start(Box::new(drop));
        }
        if let Some(then) = then {
            then(answer);
        }
    }

    /// An event for the members alone, and there only for handlers of just this.
    fn tell(&self, client: &Client, what: Status) -> Operation<()> {
        let members = self.state.lock().members.iter().cloned().map(Value::Proc).collect();
        let members = DataArray { ty: DataType::PROC, items: members };
        let infos = vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(members.into())),
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())),
        ];
        client.notify_event(what, client.me().clone(), range::CUSTOM, infos)
    }
}

/// Who the members of a group are.
fn membership(members: &[Proc]) -> Info {
    let items = members.iter().cloned().map(Value::Proc).collect();
    let members = DataArray { ty: DataType::PROC, items };
    Info::new(keys::GROUP_MEMBERSHIP, Value::DataArray(members.into()))
}
