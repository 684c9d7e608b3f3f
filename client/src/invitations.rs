//! Groups that are formed by invitation.
//!
//! An invitation is a matter of events between the one who invites, the leader, and those whom it asks: each accepts or
//! declines, and then the leader tells all of them what became of it. Both sides listen in front of the program's own handlers,
//! which may end the chain.
//!
//! As in release 7.0, each member brings what it has put for other nodes, with its answer, and the leader hands it to all:
//! one info for a member, an array that begins with its name.

use std::ffi::{CStr, CString};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use nix::sys::signal::SigSet;
use parking_lot::Mutex;
use pmix_dstore::model::{Info, InfoFlags, Proc, Result, Status, Value, keys};

use crate::client::groups::membership;
use crate::client::ops::InfoReply;
use crate::client::{Client, Inner};
use crate::events::{self, Event, range};
use crate::get::timeout_of;
use crate::link::after_call;
use crate::operation::Done;
use crate::overlay::Origin;
use crate::{Call, HandlerId, Operation};

/// A process has ended: nothing more comes from it.
const ENDED: [Status; 5] = [
    Status::PROC_TERMINATED,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_TERM_WO_SYNC,
    Status::ERR_LOST_CONNECTION,
];

impl Client {
    /// Invites `procs` into a group. `then` is called when each has answered or ended, or a `PMIX_TIMEOUT` has passed: with the
    /// members, or with `GROUP_CONSTRUCT_ABORT` or `ERR_TIMEOUT` where one declined, ended or said nothing and
    /// `PMIX_GROUP_OPTIONAL` was not given. With it the group is of those who accepted, and an event in this process alone
    /// names each of the others (`PMIX_GROUP_INVITE_FAILED`). With `PMIX_GROUP_ASSIGN_CONTEXT_ID` the host is asked for a context
    /// id, and the group does without where that gives none.
    ///
    /// # Errors
    /// Where nobody could be invited; then `then` is not called.
    pub fn group_invite(&self, group: CString, procs: Vec<Proc>, infos: &[Info], then: Done<InfoReply>) -> Result<()> {
        let _call = Call::begin();
        self.inner.link.ready()?;
        let (then, concluded) = noticed(after_call(&self.inner.link, then));
        let invitation = self.invite(group, procs, infos, then)?;
        let watched = self.expire_after(timeout_of(infos), concluded, &invitation);
        watched.or_else(|status| if invitation.abandon() { Err(status) } else { Ok(()) })
    }

    /// As [`Client::group_invite`], and waits for the answers.
    ///
    /// # Errors
    /// As there.
    pub fn group_invite_wait(&self, group: CString, procs: Vec<Proc>, infos: &[Info]) -> Result<InfoReply> {
        let (then, receiver) = handed_over();
        let invitation = Arc::downgrade(&self.invite(group, procs, infos, then)?);
        wait_for(&receiver, timeout_of(infos), &invitation)
    }

    /// Accepts or declines an invitation. Who accepts it of a leader has the answer when that has formed the group
    /// (`PMIX_GROUP_ID`, `PMIX_GROUP_MEMBERSHIP`, maybe `PMIX_GROUP_CONTEXT_ID`), or with `GROUP_CONSTRUCT_ABORT`, with
    /// `GROUP_LEADER_FAILED` where the leader has ended, with `ERR_TIMEOUT` after a `PMIX_TIMEOUT`. Others have it when theirs is on its way;
    /// without a leader everybody is told.
    ///
    /// # Errors
    /// Where nobody could be told; then `then` is not called.
    pub fn group_join(
        &self,
        group: CString,
        leader: Option<Proc>,
        accepts: bool,
        infos: &[Info],
        then: Done<InfoReply>,
    ) -> Result<()> {
        let _call = Call::begin();
        let Some(leader) = leader.clone().filter(|_| accepts) else {
            let told = self.answer_invitation(&group, leader, accepts);
            return told.start(Box::new(|told| then(told.map(|()| no_infos()))));
        };
        self.inner.link.ready()?;
        let (then, concluded) = noticed(after_call(&self.inner.link, then));
        let joining = self.join(group, leader, then)?;
        let watched = self.expire_after(timeout_of(infos), concluded, &joining);
        watched.or_else(|status| if joining.pending.end().is_some() { Err(status) } else { Ok(()) })
    }

    /// As [`Client::group_join`], and waits. In a handler of events it has its answer when the leader has been told: what the leader
    /// tells then is the next event, which would wait for the handler.
    ///
    /// # Errors
    /// As there.
    pub fn group_join_wait(
        &self,
        group: CString,
        leader: Option<Proc>,
        accepts: bool,
        infos: &[Info],
    ) -> Result<InfoReply> {
        let Some(leader) = leader.clone().filter(|_| accepts) else {
            return self.answer_invitation(&group, leader, accepts).wait().map(|()| no_infos());
        };
        if events::is_in_handler() {
            return self.join(group, leader, Box::new(drop)).map(|_| no_infos());
        }
        let (then, receiver) = handed_over();
        let joining = Arc::downgrade(&self.join(group, leader, then)?);
        wait_for(&receiver, timeout_of(infos), &joining)
    }

    fn answer_invitation(&self, group: &CString, leader: Option<Proc>, accepts: bool) -> Operation<()> {
        let status = if accepts { Status::GROUP_INVITE_ACCEPTED } else { Status::GROUP_INVITE_DECLINED };
        let mut infos = vec![Info::new(keys::GROUP_ID, Value::string(group.to_bytes()))];
        let range = match leader {
            Some(leader) => {
                infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::Proc(leader)));
                range::CUSTOM
            }
            None => range::SESSION,
        };
        infos.extend(self.contribution().filter(|_| accepts));
        self.notify_event(status, self.me().clone(), range, infos)
    }

    /// What this process brings into a group, if it has put anything for other nodes.
    fn contribution(&self) -> Option<Info> {
        let puts = self.inner.puts.lock();
        let mut infos = vec![Info::new(keys::PROCID, Value::Proc(self.me().clone()))];
        infos.extend(puts.remote().map(|(key, value)| Info::new(key.clone(), value.clone())));
        (infos.len() > 1).then(|| Info::new(keys::PROC_INFO_ARRAY, Value::infos(infos)))
    }

    /// Keeps what the other members of a group have brought into it: for the group alone, or until the next fence brings what
    /// is newer.
    fn keep_contributions(&self, infos: &[Info], context: Option<u64>) {
        for (member, infos) in infos.iter().filter_map(brought_by).filter(|(member, _)| *member != self.me()) {
            for info in infos.filter(|info| !info.key.is_reserved()) {
                let (key, value, origin) = match context {
                    None => (info.key.clone(), info.value.clone(), Origin::Refreshed),
                    Some(context) => {
                        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
                        let context = Info { flags: InfoFlags::QUALIFIER, ..context };
                        (keys::QUALIFIED_VALUE.into(), Value::infos([info.clone(), context]), Origin::Own)
                    }
                };
                // Who lacks it asks the server for it.
                let _ = self.inner.local.overlay.set(&member.nspace, member.rank, key, value, origin);
            }
        }
    }

    /// Listens to the leader, and tells it that this process will be in the group.
    fn join(&self, group: CString, leader: Proc, then: Done<InfoReply>) -> Result<Arc<Joining>> {
        let joining = Arc::new(Joining { leader: leader.clone(), pending: Pending::new(self, group, then) });
        self.listen(&joining, &[Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT])?;
        match self.answer_invitation(&joining.pending.group, Some(leader), true).wait() {
            Err(status) if joining.pending.end().is_some() => Err(status),
            _ => Ok(joining),
        }
    }

    /// Listens to those who are invited, and tells them so.
    fn invite(
        &self,
        group: CString,
        procs: Vec<Proc>,
        infos: &[Info],
        then: Done<InfoReply>,
    ) -> Result<Arc<Invitation>> {
        let invited = self.each_one(procs)?;
        if invited.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let missing = invited.iter().filter(|member| *member != self.me()).cloned().collect();
        let invitation = Arc::new(Invitation {
            invited,
            may_lack: Info::is_set(infos, keys::GROUP_OPTIONAL),
            wants_context: Info::is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID),
            pending: Pending::new(self, group, then),
            answers: Mutex::new(Answers { missing, ..Answers::default() }),
        });
        self.listen(&invitation, &[Status::GROUP_INVITE_ACCEPTED, Status::GROUP_INVITE_DECLINED])?;
        if let Err(status) = invitation.tell(self, Status::GROUP_INVITED, &invitation.invited).wait() {
            invitation.pending.end();
            return Err(status);
        }
        invitation.answers.lock().is_told = true;
        invitation.conclude_if_decided();
        Ok(invitation)
    }

    /// Lets `who` hear events of these codes, and of processes that end.
    ///
    /// # Errors
    /// Where the server does not tell of them.
    fn listen(&self, who: &Arc<impl Hears>, codes: &[Status]) -> Result<()> {
        let hears = Arc::clone(who);
        let observer = self.observe([codes, &ENDED].concat(), move |observer, event| {
            hears.pending().observer.get_or_init(|| observer);
            hears.hear(event);
        })?;
        who.pending().observer.get_or_init(|| observer);
        Ok(())
    }

    /// Lets `who` expire on the thread where callbacks run, when the time has passed and nothing was concluded before.
    ///
    /// # Errors
    /// `NOMEM` where there can be no thread that waits.
    fn expire_after(&self, timeout: Option<Duration>, concluded: Receiver<()>, who: &Arc<impl Hears>) -> Result<()> {
        let Some(timeout) = timeout else { return Ok(()) };
        let (client, who) = (Arc::downgrade(&self.inner), Arc::downgrade(who));
        let watch = move || {
            // The application's signals are for its own threads.
            let _ = SigSet::all().thread_set_mask();
            if concluded.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout)
                && let Some(client) = client.upgrade()
            {
                client.link.defer(Box::new(move || expire(&who)));
            }
        };
        let watching = thread::Builder::new().name("pmix-invitation".into()).spawn(watch);
        watching.map(drop).map_err(|_| Status::ERR_NOMEM)
    }
}

/// What becomes of a group, while somebody waits for that. It lives as long as it is listened for.
struct Pending {
    group: CString,
    client: Weak<Inner>,
    /// The handler that hears for it; said by whoever knows first, the one who registered it or its first event.
    observer: OnceLock<HandlerId>,
    /// Until it is concluded.
    then: Mutex<Option<Done<InfoReply>>>,
}

/// Either side of an invitation.
trait Hears: Send + Sync + 'static {
    fn pending(&self) -> &Pending;

    fn hear(&self, event: &Event);

    /// Nobody else is waited for.
    fn expire(&self);
}

impl Pending {
    fn new(client: &Client, group: CString, then: Done<InfoReply>) -> Pending {
        let client = Arc::downgrade(&client.inner);
        Pending { group, client, observer: OnceLock::new(), then: Mutex::new(Some(then)) }
    }

    /// Nothing is heard any more. Once: who gets the callback concludes.
    fn end(&self) -> Option<(Client, Done<InfoReply>)> {
        let then = self.then.lock().take()?;
        let client = self.client.upgrade().map(|inner| Client { inner })?;
        if let Some(observer) = self.observer.get() {
            // This cannot fail.
            let _ = client.deregister_event_handler(*observer).wait();
        }
        Some((client, then))
    }

    /// Whether an event names this group; nothing where it names none, as those of released libraries do.
    fn is_of_group(&self, event: &Event) -> Option<bool> {
        Info::find(&event.infos, keys::GROUP_ID).map(|id| id.as_text() == Some(self.group.to_bytes()))
    }

    /// Whether this process has lost its server.
    fn is_lost(&self, event: &Event) -> bool {
        event.status == Status::ERR_LOST_CONNECTION
            && self.client.upgrade().is_some_and(|client| client.me == event.source)
    }

    /// What this process hears of another that fails the group.
    fn failure(&self, status: Status, client: &Client, who: &Proc) -> Event {
        let infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(who.clone())),
            Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())),
        ];
        Event::new(status, client.me().clone(), infos)
    }
}

/// An invitation that not all have answered.
struct Invitation {
    invited: Vec<Proc>,
    /// Whoever declines, ends or says nothing is left out.
    may_lack: bool,
    /// The group is to have a context id.
    wants_context: bool,
    pending: Pending,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    /// The invitation is on its way; before, nothing is concluded.
    is_told: bool,
    /// The server is gone.
    is_lost: bool,
    missing: Vec<Proc>,
    /// Who will not be in the group.
    lacking: Vec<Proc>,
    /// What the others bring into it.
    brought: Vec<Info>,
}

impl Hears for Invitation {
    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn hear(&self, event: &Event) {
        let is_answer = matches!(event.status, Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED);
        let who = match ended(event) {
            None if is_answer && self.pending.is_of_group(event) != Some(false) => Some(&event.source),
            ended => ended,
        };
        let mut answers = self.answers.lock();
        answers.is_lost |= self.pending.is_lost(event);
        if let Some(at) = answers.missing.iter().position(|proc| Some(proc) == who) {
            let who = answers.missing.remove(at);
            if event.status == Status::GROUP_INVITE_ACCEPTED {
                let own = event.infos.iter().filter(|info| brought_by(info).is_some_and(|(member, _)| *member == who));
                answers.brought.extend(own.cloned());
            } else {
                answers.lacking.push(who);
            }
        }
        drop(answers);
        self.conclude_if_decided();
    }

    fn expire(&self) {
        {
            let mut answers = self.answers.lock();
            let silent = std::mem::take(&mut answers.missing);
            answers.lacking.extend(silent);
        }
        self.conclude(if self.may_lack { Ok(()) } else { Err(Status::ERR_TIMEOUT) });
    }
}

impl Invitation {
    fn conclude_if_decided(&self) {
        let outcome = {
            let answers = self.answers.lock();
            match () {
                () if !answers.is_told => return,
                () if answers.is_lost => Err(Status::ERR_LOST_CONNECTION),
                () if !answers.missing.is_empty() => return,
                () if answers.lacking.is_empty() || self.may_lack => Ok(()),
                () => Err(Status::GROUP_CONSTRUCT_ABORT),
            }
        };
        self.conclude(outcome);
    }

    /// The caller is to be told of a failure otherwise. Whether nothing was concluded before.
    fn abandon(&self) -> bool {
        let Some((client, _)) = self.pending.end() else { return false };
        self.tell(&client, Status::GROUP_CONSTRUCT_ABORT, &self.invited).begin(Box::new(drop));
        true
    }

    /// Tells the members, if it can be done, and the caller what became of it. Once; later answers are nobody's.
    fn conclude(&self, outcome: Result<()>) {
        let Some((client, then)) = self.pending.end() else { return };
        if let Err(status) = outcome {
            let told = self.tell(&client, Status::GROUP_CONSTRUCT_ABORT, &self.invited);
            return told.begin(Box::new(move |_| then(Err(status))));
        }
        let Answers { lacking, brought, .. } = std::mem::take(&mut *self.answers.lock());
        for who in &lacking {
            client.inner.notify_here(self.pending.failure(Status::GROUP_INVITE_FAILED, &client, who));
        }
        let members = self.invited.iter().filter(|proc| !lacking.contains(proc)).cloned().collect();
        let infos = brought.into_iter().chain(client.contribution()).collect();
        let formed = Formed { group: self.pending.group.clone(), members, infos, then };
        if !self.wants_context {
            return formed.announce(&client, None);
        }
        let directives = vec![
            Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true)),
            Info::new(keys::GROUP_ID, Value::string(self.pending.group.to_bytes())),
        ];
        let asked = client.job_control(Vec::new(), directives);
        asked.begin(Box::new(move |answer| {
            let context = answer.ok().and_then(|answer| Info::find(&answer.infos, keys::GROUP_CONTEXT_ID)?.as_u64());
            formed.announce(&client, context);
        }));
    }

    fn tell(&self, client: &Client, what: Status, whom: &[Proc]) -> Operation<()> {
        tell(client, what, &self.pending.group, whom, Vec::new())
    }
}

/// A group whose members are known to the leader alone.
struct Formed {
    group: CString,
    members: Vec<Proc>,
    /// What they bring into it.
    infos: Vec<Info>,
    then: Done<InfoReply>,
}

impl Formed {
    /// Tells the members, and the caller after the handlers of this process.
    fn announce(self, client: &Client, context: Option<u64>) {
        let Formed { group, members, mut infos, then } = self;
        client.keep_contributions(&infos, context);
        let mut answer = vec![membership(&members)];
        answer.extend(context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))));
        infos.extend_from_slice(&answer);
        let told = tell(client, Status::GROUP_CONSTRUCT_COMPLETE, &group, &members, infos);
        client.inner.groups.lock().insert(group, members);
        let answer = InfoReply { status: Status::SUCCESS, infos: answer };
        // Where members cannot be told the connection is gone.
        told.begin(Box::new(move |_| then(Ok(answer))));
    }
}

/// An event for some alone, and there only for handlers of just this.
fn tell(client: &Client, what: Status, group: &CStr, whom: &[Proc], more: Vec<Info>) -> Operation<()> {
    let mut infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(whom.iter().cloned())),
        Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(keys::GROUP_ID, Value::string(group.to_bytes())),
    ];
    infos.extend(more);
    client.notify_event(what, client.me().clone(), range::CUSTOM, infos)
}

/// Who has brought what into a group, where the info says that.
fn brought_by(info: &Info) -> Option<(&Proc, impl Iterator<Item = &Info>)> {
    let mut infos = info.value.iter_infos();
    let first = infos.next().filter(|first| info.key.is(keys::PROC_INFO_ARRAY) && first.key.is(keys::PROCID))?;
    Some((first.value.iter_procs().next()?, infos))
}

/// An invitation that this process has accepted, and whose leader has not formed the group yet.
struct Joining {
    leader: Proc,
    pending: Pending,
}

impl Hears for Joining {
    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn hear(&self, event: &Event) {
        // Of an event that names no group its source must say it.
        let is_of_group = self.pending.is_of_group(event).unwrap_or(event.source == self.leader);
        match event.status {
            Status::GROUP_CONSTRUCT_COMPLETE if is_of_group => self.conclude(Ok(self.formed(event))),
            Status::GROUP_CONSTRUCT_ABORT if is_of_group => self.conclude(Err(Status::GROUP_CONSTRUCT_ABORT)),
            _ if self.pending.is_lost(event) => self.conclude(Err(Status::ERR_LOST_CONNECTION)),
            _ if ended(event) == Some(&self.leader) => self.conclude(Err(Status::GROUP_LEADER_FAILED)),
            _ => {}
        }
    }

    fn expire(&self) {
        self.conclude(Err(Status::ERR_TIMEOUT));
    }
}

impl Joining {
    /// What the leader says of the group. Those of releases before 7.0 say who its members are by whom they tell.
    fn formed(&self, event: &Event) -> InfoReply {
        let told =
            Info::find(&event.infos, keys::GROUP_MEMBERSHIP).or(Info::find(&event.infos, keys::EVENT_CUSTOM_RANGE));
        let members: Vec<Proc> = told.into_iter().flat_map(Value::iter_procs).cloned().collect();
        let group = &self.pending.group;
        let mut infos = vec![Info::new(keys::GROUP_ID, Value::string(group.to_bytes())), membership(&members)];
        let context = event.infos.iter().find(|info| info.key.is(keys::GROUP_CONTEXT_ID));
        infos.extend(context.cloned());
        if let Some(inner) = self.pending.client.upgrade() {
            let client = Client { inner };
            client.keep_contributions(&event.infos, context.and_then(|context| context.value.as_u64()));
            client.inner.groups.lock().insert(group.clone(), members);
        }
        InfoReply { status: Status::SUCCESS, infos }
    }

    /// Tells the caller, once.
    fn conclude(&self, answer: Result<InfoReply>) {
        let Some((client, then)) = self.pending.end() else { return };
        if answer.as_ref().err() == Some(&Status::GROUP_LEADER_FAILED) {
            client.inner.notify_here(self.pending.failure(Status::GROUP_LEADER_FAILED, &client, &self.leader));
        }
        then(answer);
    }
}

/// Whose end an event tells of.
fn ended(event: &Event) -> Option<&Proc> {
    match Info::find(&event.infos, keys::EVENT_AFFECTED_PROC) {
        Some(Value::Proc(proc)) if ENDED.contains(&event.status) => Some(proc),
        _ => None,
    }
}

fn no_infos() -> InfoReply {
    InfoReply { status: Status::SUCCESS, infos: Vec::new() }
}

/// A callback that hands the answer to who waits for it.
fn handed_over() -> (Done<InfoReply>, Receiver<Result<InfoReply>>) {
    let (sender, receiver) = bounded(1);
    let then: Done<InfoReply> = Box::new(move |answer| {
        // Whoever waits is there.
        let _ = sender.send(answer);
    });
    (then, receiver)
}

/// A callback whose call, or end without one, is noticed at the other end.
fn noticed(then: Done<InfoReply>) -> (Done<InfoReply>, Receiver<()>) {
    let (sender, receiver) = bounded::<()>(0);
    let then: Done<InfoReply> = Box::new(move |answer| {
        drop(sender);
        then(answer);
    });
    (then, receiver)
}

/// Nobody else is waited for, if somebody still is.
fn expire(who: &Weak<impl Hears>) {
    if let Some(who) = who.upgrade() {
        who.expire();
    }
}

/// The answer that is handed over, which is not waited for longer than the time that there is.
fn wait_for(
    receiver: &Receiver<Result<InfoReply>>,
    timeout: Option<Duration>,
    who: &Weak<impl Hears>,
) -> Result<InfoReply> {
    if let Some(timeout) = timeout {
        match receiver.recv_timeout(timeout) {
            Ok(answer) => return answer,
            Err(_) => expire(who),
        }
    }
    receiver.recv().unwrap_or(Err(Status::ERR_LOST_CONNECTION))
}

#[cfg(test)]
#[path = "invitations_tests.rs"]
mod tests;
