//! Groups that are formed by invitation.
//!
//! An invitation is a matter of events between the one who invites, the leader, and those whom it asks: each accepts or
//! declines, and then the leader tells all of them what became of it. Both sides listen in front of the program's own handlers,
//! which may end the chain.

use std::ffi::CString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use pmix_dstore::model::{Info, Proc, Result, Status, Value, keys};

use crate::client::{Client, Inner};
use crate::events::{self, Event, range};
use crate::get::timeout_of;
use crate::groups::{membership, procs_value};
use crate::operation::Done;
use crate::ops::Answer;
use crate::{HandlerId, Operation};

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
    /// names each of the others (`PMIX_GROUP_INVITE_FAILED`).
    ///
    /// # Errors
    /// Where nobody could be invited; then `then` is not called.
    pub fn group_invite(&self, group: CString, procs: Vec<Proc>, infos: &[Info], then: Done<Answer>) -> Result<()> {
        let (then, concluded) = noticed(then);
        let invitation = self.invite(group, procs, infos, then)?;
        let expires = Arc::clone(&invitation);
        expire_after(timeout_of(infos), concluded, move || expires.expire()).inspect_err(|_| invitation.abandon())
    }

    /// As [`Client::group_invite`], and waits for the answers.
    ///
    /// # Errors
    /// As there.
    pub fn group_invite_wait(&self, group: CString, procs: Vec<Proc>, infos: &[Info]) -> Result<Answer> {
        let (then, receiver) = handed_over();
        let invitation = self.invite(group, procs, infos, then)?;
        if let Some(timeout) = timeout_of(infos) {
            match receiver.recv_timeout(timeout) {
                Ok(answer) => return answer,
                Err(_) => invitation.expire(),
            }
        }
        receiver.recv().unwrap_or(Err(Status::ERR_LOST_CONNECTION))
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
        then: Done<Answer>,
    ) -> Result<()> {
        let Some(leader) = leader.clone().filter(|_| accepts) else {
            let told = self.answer_invitation(&group, leader, accepts);
            return told.start(Box::new(|told| then(told.map(|()| no_infos()))));
        };
        let (then, concluded) = noticed(then);
        let (client, then) = (Arc::downgrade(&self.inner), Some(then));
        let joining = Joining { group: group.clone(), leader: leader.clone(), client, state: Mutex::new((None, then)) };
        let joining = Arc::new(joining);
        let hears = Arc::clone(&joining);
        let codes = [&[Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT], &ENDED[..]].concat();
        let observer = self.observe(codes, move |event| hears.hear(event))?;
        joining.state.lock().0 = Some(observer);
        let told = self.answer_invitation(&group, Some(leader), accepts).wait();
        let expires = Arc::clone(&joining);
        let watched = told.and_then(|()| {
            expire_after(timeout_of(infos), concluded, move || expires.conclude(Err(Status::ERR_TIMEOUT)))
        });
        watched.inspect_err(|_| {
            joining.state.lock().1 = None;
            joining.conclude(Ok(no_infos()));
        })
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
    ) -> Result<Answer> {
        if events::is_in_handler() {
            return self.answer_invitation(&group, leader, accepts).wait().map(|()| no_infos());
        }
        let (then, receiver) = handed_over();
        self.group_join(group, leader, accepts, infos, then)?;
        receiver.recv().unwrap_or(Err(Status::ERR_LOST_CONNECTION))
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
        self.notify_event(status, self.me().clone(), range, infos)
    }

    fn invite(&self, group: CString, procs: Vec<Proc>, infos: &[Info], then: Done<Answer>) -> Result<Arc<Invitation>> {
        let invited = self.each_one(procs)?;
        if invited.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let missing = invited.iter().filter(|member| *member != self.me()).cloned().collect();
        let may_lack = Info::is_set(infos, keys::GROUP_OPTIONAL);
        let state = Answers { missing, lacking: Vec::new(), observer: None, then: Some(then) };
        let client = Arc::downgrade(&self.inner);
        let invitation = Arc::new(Invitation { group, invited, may_lack, client, state: Mutex::new(state) });
        let hears = Arc::clone(&invitation);
        let codes = [&[Status::GROUP_INVITE_ACCEPTED, Status::GROUP_INVITE_DECLINED], &ENDED[..]].concat();
        let observer = self.observe(codes, move |event| hears.hear(event))?;
        invitation.state.lock().observer = Some(observer);
        if let Err(status) = invitation.tell(self, Status::GROUP_INVITED, &invitation.invited).wait() {
            invitation.abandon();
            return Err(status);
        }
        invitation.conclude_if_answered();
        Ok(invitation)
    }
}

/// An invitation that not all have answered.
struct Invitation {
    group: CString,
    invited: Vec<Proc>,
    /// Whoever declines, ends or says nothing is left out.
    may_lack: bool,
    client: Weak<Inner>,
    state: Mutex<Answers>,
}

struct Answers {
    missing: Vec<Proc>,
    /// Who will not be in the group.
    lacking: Vec<Proc>,
    observer: Option<HandlerId>,
    then: Option<Done<Answer>>,
}

impl Invitation {
    fn hear(&self, event: &Event) {
        // Released libraries do not say which group their answers are about.
        let is_other =
            Info::find(&event.infos, keys::GROUP_ID).is_some_and(|id| id.as_text() != Some(self.group.to_bytes()));
        if is_lost(&self.client, event) {
            return self.conclude(Err(Status::ERR_LOST_CONNECTION));
        }
        let who = match event.status {
            Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED if !is_other => &event.source,
            _ => match ended(event) {
                Some(proc) => proc,
                None => return,
            },
        };
        {
            let mut state = self.state.lock();
            let Some(at) = state.missing.iter().position(|proc| proc == who) else { return };
            let who = state.missing.remove(at);
            if event.status != Status::GROUP_INVITE_ACCEPTED {
                state.lacking.push(who);
            }
        }
        self.conclude_if_answered();
    }

    fn conclude_if_answered(&self) {
        let is_whole = {
            let state = self.state.lock();
            if !state.missing.is_empty() {
                return;
            }
            state.lacking.is_empty() || self.may_lack
        };
        self.conclude(if is_whole { Ok(()) } else { Err(Status::GROUP_CONSTRUCT_ABORT) });
    }

    /// Nobody else is waited for.
    fn expire(&self) {
        {
            let mut state = self.state.lock();
            let silent = std::mem::take(&mut state.missing);
            state.lacking.extend(silent);
        }
        self.conclude(if self.may_lack { Ok(()) } else { Err(Status::ERR_TIMEOUT) });
    }

    /// The caller is told of a failure otherwise.
    fn abandon(&self) {
        self.state.lock().then = None;
        self.conclude(Err(Status::GROUP_CONSTRUCT_ABORT));
    }

    /// Tells the members, if it can be done, and the caller what became of it. Once; later answers are nobody's.
    fn conclude(&self, outcome: Result<()>) {
        let (observer, then, lacking) = {
            let mut state = self.state.lock();
            // Before it is heard on, nobody has been invited.
            let Some(observer) = state.observer.take() else { return };
            (observer, state.then.take(), std::mem::take(&mut state.lacking))
        };
        let Some(client) = self.client.upgrade().map(|inner| Client { inner }) else { return };
        // This cannot fail.
        let _ = client.deregister_event_handler(observer).wait();
        let (told, answer) = match outcome {
            Ok(()) => {
                lacking.iter().for_each(|proc| client.inner.notify_here(self.failed(&client, proc)));
                let members: Vec<_> = self.invited.iter().filter(|proc| !lacking.contains(proc)).cloned().collect();
                let answer = Answer { status: Status::SUCCESS, infos: vec![membership(&members)] };
                let told = self.tell(&client, Status::GROUP_CONSTRUCT_COMPLETE, &members);
                client.inner.groups.lock().insert(self.group.clone(), members);
                (told, Ok(answer))
            }
            Err(status) => (self.tell(&client, Status::GROUP_CONSTRUCT_ABORT, &self.invited), Err(status)),
        };
        // The caller hears after the handlers of this process. Where members cannot be told the connection is gone.
        let then = Arc::new(Mutex::new(then.map(|then| (then, answer))));
        let call = move |then: &Mutex<Option<(Done<Answer>, Result<Answer>)>>| {
            if let Some((then, answer)) = then.lock().take() {
                then(answer);
            }
        };
        let after = Arc::clone(&then);
        if told.start(Box::new(move |_| call(&after))).is_err() {
            client.inner.link.defer(Box::new(move || call(&then)));
        }
    }

    /// What this process hears of one that will not be in the group.
    fn failed(&self, client: &Client, who: &Proc) -> Event {
        let infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(who.clone())),
            Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())),
        ];
        Event::new(Status::GROUP_INVITE_FAILED, client.me().clone(), infos)
    }

    /// An event for some alone, and there only for handlers of just this.
    fn tell(&self, client: &Client, what: Status, whom: &[Proc]) -> Operation<()> {
        let mut infos = vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, procs_value(whom)),
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())),
        ];
        if what == Status::GROUP_CONSTRUCT_COMPLETE {
            infos.push(membership(whom));
        }
        client.notify_event(what, client.me().clone(), range::CUSTOM, infos)
    }
}

/// An invitation that this process has accepted, and whose leader has not formed the group yet.
struct Joining {
    group: CString,
    leader: Proc,
    client: Weak<Inner>,
    state: Mutex<(Option<HandlerId>, Option<Done<Answer>>)>,
}

impl Joining {
    fn hear(&self, event: &Event) {
        let is_other =
            Info::find(&event.infos, keys::GROUP_ID).is_some_and(|id| id.as_text() != Some(self.group.to_bytes()));
        match event.status {
            Status::GROUP_CONSTRUCT_COMPLETE if !is_other => self.conclude(Ok(self.formed(event))),
            Status::GROUP_CONSTRUCT_ABORT if !is_other => self.conclude(Err(Status::GROUP_CONSTRUCT_ABORT)),
            _ if is_lost(&self.client, event) => self.conclude(Err(Status::ERR_LOST_CONNECTION)),
            _ if ended(event) == Some(&self.leader) => self.conclude(Err(Status::GROUP_LEADER_FAILED)),
            _ => {}
        }
    }

    /// What the leader says of the group. Those of releases before 7.0 say who its members are by whom they tell.
    fn formed(&self, event: &Event) -> Answer {
        let told =
            Info::find(&event.infos, keys::GROUP_MEMBERSHIP).or(Info::find(&event.infos, keys::EVENT_CUSTOM_RANGE));
        let members = told.map(events::procs).and_then(Result::ok).unwrap_or_default();
        let mut infos = vec![Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())), membership(&members)];
        infos.extend(event.infos.iter().filter(|info| info.key.is(keys::GROUP_CONTEXT_ID)).cloned());
        if let Some(inner) = self.client.upgrade() {
            inner.groups.lock().insert(self.group.clone(), members);
        }
        Answer { status: Status::SUCCESS, infos }
    }

    /// Tells the caller, once.
    fn conclude(&self, answer: Result<Answer>) {
        let (observer, then) = std::mem::take(&mut *self.state.lock());
        if let (Some(observer), Some(client)) = (observer, self.client.upgrade().map(|inner| Client { inner })) {
            // This cannot fail.
            let _ = client.deregister_event_handler(observer).wait();
            if answer.as_ref().err() == Some(&Status::GROUP_LEADER_FAILED) {
                let infos = vec![
                    Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(self.leader.clone())),
                    Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())),
                ];
                let event = Event::new(Status::GROUP_LEADER_FAILED, client.me().clone(), infos);
                client.inner.notify_here(event);
            }
        }
        if let Some(then) = then {
            then(answer);
        }
    }
}

/// Whose end an event tells of.
fn ended(event: &Event) -> Option<&Proc> {
    match Info::find(&event.infos, keys::EVENT_AFFECTED_PROC) {
        Some(Value::Proc(proc)) if ENDED.contains(&event.status) => Some(proc),
        _ => None,
    }
}

/// Whether this process has lost its server.
fn is_lost(client: &Weak<Inner>, event: &Event) -> bool {
    event.status == Status::ERR_LOST_CONNECTION && client.upgrade().is_some_and(|client| client.me == event.source)
}

fn no_infos() -> Answer {
    Answer { status: Status::SUCCESS, infos: Vec::new() }
}

/// A callback that hands the answer to who waits for it.
fn handed_over() -> (Done<Answer>, Receiver<Result<Answer>>) {
    let (sender, receiver) = sync_channel(1);
    let then: Done<Answer> = Box::new(move |answer| {
        // Whoever waits is there.
        let _ = sender.send(answer);
    });
    (then, receiver)
}

/// A callback whose call, or end without one, is noticed at the other end.
fn noticed(then: Done<Answer>) -> (Done<Answer>, Receiver<()>) {
    let (sender, receiver) = sync_channel::<()>(0);
    let then: Done<Answer> = Box::new(move |answer| {
        drop(sender);
        then(answer);
    });
    (then, receiver)
}

/// Calls `expire` when the time has passed and nothing was concluded before.
///
/// # Errors
/// `NOMEM` where there can be no thread that waits.
fn expire_after(
    timeout: Option<Duration>,
    concluded: Receiver<()>,
    expire: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let Some(timeout) = timeout else { return Ok(()) };
    let watch = move || {
        if concluded.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            expire();
        }
    };
    let watching = thread::Builder::new().name("pmix-invitation".into()).spawn(watch);
    watching.map(drop).map_err(|_| Status::ERR_NOMEM)
}

#[cfg(test)]
#[path = "invitations_tests.rs"]
mod tests;
