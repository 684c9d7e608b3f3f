//! Groups that are formed by invitation.
//!
//! An invitation is an exchange of events between the inviting process (the leader) and the invited processes. Each
//! invited process accepts or declines; then the leader notifies all of them of the outcome. Both sides receive these
//! events before the application's own handlers, because an application's handler may end the event chain.
//!
//! As in release 7.0, each member sends the values that it has put for other nodes with its answer, and the leader
//! sends them to all members: one info for each member, an array that begins with the member's name.

use std::ffi::{CStr, CString};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use parking_lot::Mutex;
use pmix_dstore::channel::{Missed, Receiver, channel};
use pmix_dstore::fallible_alloc;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{DataType, Info, InfoFlags, Proc, Result, Scope, Status, Value, keys};

use crate::client::groups::membership;
use crate::client::ops::InfoReply;
use crate::client::{Client, Inner};
use crate::events::{self, Event, range};
use crate::get_options::timeout_of;
use crate::link::{after_call, receive};
use crate::operation::Done;
use crate::overlay::Origin;
use crate::{Call, HandlerId, Link, Operation};

/// Status codes which report that a process has ended, so that no answer from it will arrive.
const ENDED: [Status; 5] = [
    Status::PROC_TERMINATED,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_TERM_WO_SYNC,
    Status::ERR_LOST_CONNECTION,
];

impl Client {
    /// Invites `procs` into a group. `then` is called when each has answered or ended, or when the `PMIX_TIMEOUT` has
    /// passed. It gets the members, or `GROUP_CONSTRUCT_ABORT` or `ERR_TIMEOUT` if a process declined, ended or did not
    /// answer. With `PMIX_GROUP_OPTIONAL` the group instead consists of the processes that accepted, and a local event
    /// (`PMIX_GROUP_INVITE_FAILED`) names each missing one. With `PMIX_GROUP_ASSIGN_CONTEXT_ID` the host is asked for a
    /// context id; the group has none if the host assigns none.
    ///
    /// # Errors
    /// If the invitation could not be sent; then `then` is not called.
    pub fn group_invite(&self, group: CString, procs: Vec<Proc>, infos: &[Info], then: Done<InfoReply>) -> Result<()> {
        let _call = Call::begin();
        self.inner.link.ready()?;
        let (then, concluded) = with_end_notice(after_call(&self.inner.link, then));
        let limit = Limit::of(infos);
        let invitation = self.invite(group, procs, infos, limit, then)?;
        let watched = self.expire_after(limit.left(), concluded, &invitation);
        watched.or_else(|status| if invitation.abandon() { Err(status) } else { Ok(()) })
    }

    /// As [`Client::group_invite`], and waits for the answers.
    ///
    /// # Errors
    /// As [`Client::group_invite`]; `ERR_WOULD_BLOCK` inside a callback, before anybody is invited: the answers are events, and the thread
    /// that would take them is this one.
    pub fn group_invite_wait(&self, group: CString, procs: Vec<Proc>, infos: &[Info]) -> Result<InfoReply> {
        if self.inner.link.is_callback_thread() {
            return Err(Status::ERR_WOULD_BLOCK);
        }
        let (then, receiver) = result_channel();
        let limit = Limit::of(infos);
        let invitation = Arc::downgrade(&self.invite(group, procs, infos, limit, then)?);
        wait_for(&*self.inner.link, &receiver, limit, &invitation)
    }

    /// Accepts or declines an invitation. A process that accepts a leader's invitation gets its result when the leader
    /// has formed the group (`PMIX_GROUP_ID`, `PMIX_GROUP_MEMBERSHIP`, and `PMIX_GROUP_CONTEXT_ID` if assigned). It
    /// gets `GROUP_CONSTRUCT_ABORT` if the group fails, `GROUP_LEADER_FAILED` if the leader has ended, `ERR_TIMEOUT`
    /// after a `PMIX_TIMEOUT`. In all other cases the operation ends when the answer has been sent; without a leader
    /// the answer goes to all processes of the session.
    ///
    /// # Errors
    /// If the answer could not be sent; then `then` is not called.
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
            let answer = self.answer_invitation(&group, leader, accepts, timeout_of(infos));
            return answer.start(Box::new(|sent| then(sent.map(|()| no_infos()))));
        };
        self.inner.link.ready()?;
        let (then, concluded) = with_end_notice(after_call(&self.inner.link, then));
        let limit = Limit::of(infos);
        let joining = self.join(group, leader, limit, then)?;
        let watched = self.expire_after(limit.left(), concluded, &joining);
        watched.or_else(|status| if joining.pending.end().is_some() { Err(status) } else { Ok(()) })
    }

    /// As [`Client::group_join`], but blocking. Inside a callback it returns when the leader has been notified: the
    /// leader's reply is an event, which cannot be delivered before the callback returns.
    ///
    /// # Errors
    /// As [`Client::group_join`].
    pub fn group_join_wait(
        &self,
        group: CString,
        leader: Option<Proc>,
        accepts: bool,
        infos: &[Info],
    ) -> Result<InfoReply> {
        let Some(leader) = leader.clone().filter(|_| accepts) else {
            return self.answer_invitation(&group, leader, accepts, timeout_of(infos)).wait().map(|()| no_infos());
        };
        let limit = Limit::of(infos);
        if events::is_in_handler() || self.inner.link.is_callback_thread() {
            return self.join(group, leader, limit, Box::new(drop)).map(|_| no_infos());
        }
        let (then, receiver) = result_channel();
        let joining = Arc::downgrade(&self.join(group, leader, limit, then)?);
        wait_for(&*self.inner.link, &receiver, limit, &joining)
    }

    fn answer_invitation(
        &self,
        group: &CString,
        leader: Option<Proc>,
        accepts: bool,
        time: Option<Duration>,
    ) -> Operation<()> {
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
        self.notify_event_within(time, status, self.me().clone(), range, infos)
    }

    /// The values that this process has put for other nodes, which it sends to the group; `None` if there are none.
    fn contribution(&self) -> Option<Info> {
        let puts = self.inner.puts.lock().ok()?;
        let mut infos = vec![Info::new(keys::PROCID, Value::Proc(self.me().clone()))];
        infos.extend(puts.remote().map(|(key, value)| Info::new(key.clone(), value.clone())));
        (infos.len() > 1).then(|| Info::new(keys::PROC_INFO_ARRAY, Value::infos(infos)))
    }

    /// The same for a construct, whose values go through the servers: with their scope, as servers from 6.0 on and hosts expect. `None`
    /// for older servers, which ask for them themselves.
    pub(crate) fn endpoints(&self) -> Option<Info> {
        let link = &self.inner.link;
        if !link.is_ours() && !link.server_version().takes_group_data() {
            return None;
        }
        let mut own = self.contribution()?;
        if let Value::DataArray(array) = &mut own.value {
            let scope = Value::Code { ty: DataType::SCOPE, bits: Scope::Remote as u64 };
            array.items.insert(1, Value::Info(Box::new(Info::new(keys::DATA_SCOPE, scope))));
        }
        Some(own)
    }

    /// Stores the values that the other members sent. With a context id they are readable only with that id as
    /// qualifier; otherwise they are valid until the next fence, which may bring newer ones.
    fn keep_contributions(&self, infos: &[Info], context: Option<u64>) {
        for (member, infos) in infos.iter().filter_map(contribution_in).filter(|(member, _)| *member != self.me()) {
            for info in infos.filter(|info| !info.key.is_reserved()) {
                let (key, value, origin) = match context {
                    None => (info.key.clone(), info.value.clone(), Origin::Refreshed),
                    Some(context) => {
                        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
                        let context = Info { flags: InfoFlags::QUALIFIER, ..context };
                        (keys::QUALIFIED_VALUE.into(), Value::infos([info.clone(), context]), Origin::Own)
                    }
                };
                // On failure a Get asks the server for the value.
                let _ = self.inner.local.overlay.set(&member.nspace, member.rank, key, value, origin);
            }
        }
    }

    /// Registers for the leader's events, and sends it the acceptance.
    fn join(&self, group: CString, leader: Proc, limit: Limit, then: Done<InfoReply>) -> Result<Arc<Joining>> {
        let joining = Arc::new(Joining { leader: leader.clone(), pending: Pending::new(self, group, then) });
        let codes = [Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT];
        self.register_observer(&joining, &codes, limit.left())?;
        match self.answer_invitation(&joining.pending.group, Some(leader), true, limit.left()).wait() {
            Err(status) if joining.pending.end().is_some() => Err(status),
            _ => Ok(joining),
        }
    }

    /// Registers for the invited processes' answers, and sends the invitation.
    fn invite(
        &self,
        group: CString,
        procs: Vec<Proc>,
        infos: &[Info],
        limit: Limit,
        then: Done<InfoReply>,
    ) -> Result<Arc<Invitation>> {
        let invited = self.each_one(procs)?;
        if invited.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let missing = invited.iter().filter(|member| *member != self.me()).cloned().collect();
        let invitation = Arc::new(Invitation {
            invited,
            is_optional: Info::is_set(infos, keys::GROUP_OPTIONAL),
            wants_context: Info::is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID),
            limit,
            pending: Pending::new(self, group, then),
            answers: Mutex::new(Answers { missing, ..Answers::default() }),
        });
        let codes = [Status::GROUP_INVITE_ACCEPTED, Status::GROUP_INVITE_DECLINED];
        self.register_observer(&invitation, &codes, limit.left())?;
        let invited = invitation.notify(self, limit.left(), Status::GROUP_INVITED, &invitation.invited);
        if let Err(status) = invited.wait() {
            invitation.pending.end();
            return Err(status);
        }
        invitation.answers.lock().is_sent = true;
        invitation.conclude_if_decided();
        Ok(invitation)
    }

    /// Delivers events of these codes, and events about ended processes, to `observer`.
    ///
    /// # Errors
    /// If the server refuses the registration.
    fn register_observer(
        &self,
        observer: &Arc<impl EventObserver>,
        codes: &[Status],
        time: Option<Duration>,
    ) -> Result<()> {
        let called = Arc::clone(observer);
        let handler = self.observe([codes, &ENDED].concat(), time, move |handler, event| {
            called.pending().handler.get_or_init(|| handler);
            called.on_event(event);
        })?;
        observer.pending().handler.get_or_init(|| handler);
        Ok(())
    }

    /// Calls `expire` of `observer` on the callback thread when the time has passed, unless the operation is over
    /// before.
    ///
    /// # Errors
    /// `NOMEM` if the waiting thread cannot be started.
    fn expire_after(
        &self,
        timeout: Option<Duration>,
        concluded: Receiver<()>,
        observer: &Arc<impl EventObserver>,
    ) -> Result<()> {
        let Some(timeout) = timeout else { return Ok(()) };
        let until = Instant::now().checked_add(timeout);
        let (client, observer) = (Arc::downgrade(&self.inner), Arc::downgrade(observer));
        let watch = move || {
            // Blocks all signals: the application's signals must be delivered to its own threads.
            let _ = SigSet::all().thread_set_mask();
            if concluded.receive(until) == Err(Missed::Nothing)
                && let Some(client) = client.upgrade()
            {
                client.link.defer(Box::new(move || expire(&observer)));
            }
        };
        let watching = fallible_alloc::spawn("pmix-invitation", watch);
        watching.map(drop).map_err(|_| Status::ERR_NOMEM)
    }
}

/// The end of a `PMIX_TIMEOUT`, which holds for the request to the server and for the answers together.
#[derive(Clone, Copy)]
struct Limit(Option<Instant>);

impl Limit {
    fn of(infos: &[Info]) -> Limit {
        Limit(timeout_of(infos).and_then(|time| Instant::now().checked_add(time)))
    }

    fn left(self) -> Option<Duration> {
        self.0.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// A group whose outcome is still open. It lives as long as its event observer is registered.
struct Pending {
    group: CString,
    client: Weak<Inner>,
    /// The id of its event observer. Set by the registering thread or by the first event, whichever is first.
    handler: OnceLock<HandlerId>,
    /// The caller's callback; taken when the outcome is known.
    then: Mutex<Option<Done<InfoReply>>>,
}

/// Either side of an invitation.
trait EventObserver: Send + Sync + 'static {
    fn pending(&self) -> &Pending;

    fn on_event(&self, event: &Event);

    /// The time limit has passed: ends the wait for missing answers.
    fn expire(&self);
}

impl Pending {
    fn new(client: &Client, group: CString, then: Done<InfoReply>) -> Pending {
        let client = Arc::downgrade(&client.inner);
        Pending { group, client, handler: OnceLock::new(), then: Mutex::new(Some(then)) }
    }

    /// Ends the observation. Only the first call returns the callback, so that the caller gets one result.
    fn end(&self) -> Option<(Client, Done<InfoReply>)> {
        let then = self.then.lock().take()?;
        let client = self.client.upgrade().map(|inner| Client { inner })?;
        if let Some(handler) = self.handler.get() {
            // This cannot fail.
            let _ = client.deregister_event_handler(*handler).wait();
        }
        Some((client, then))
    }

    /// Logs whom the group has waited for in vain.
    fn log_late(&self, what: &str, missing: &[Proc]) {
        let Some(client) = self.client.upgrade() else { return };
        let (group, missing) = (self.group.to_string_lossy(), Proc::list(missing));
        log::write(
            Level::Warn,
            Target::Client,
            Writer::Client(&client.me),
            format_args!("{what} to group {group} timed out; missing: {missing}"),
        );
    }

    /// Whether an event names this group; `None` if it names no group, as events of released libraries do.
    fn is_of_group(&self, event: &Event) -> Option<bool> {
        Info::find(&event.infos, keys::GROUP_ID).map(|id| id.as_text() == Some(self.group.to_bytes()))
    }

    /// Whether this process has lost its server.
    fn is_lost(&self, event: &Event) -> bool {
        event.status == Status::ERR_LOST_CONNECTION
            && self.client.upgrade().is_some_and(|client| client.me == event.source)
    }

    /// The local event that reports a process because of which the group fails or lacks a member.
    fn failure(&self, status: Status, client: &Client, affected: &Proc) -> Event {
        let infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(affected.clone())),
            Info::new(keys::GROUP_ID, Value::string(self.group.to_bytes())),
        ];
        Event::new(status, client.me().clone(), infos)
    }
}

/// The leader's side: an invitation that still misses answers.
struct Invitation {
    invited: Vec<Proc>,
    /// `PMIX_GROUP_OPTIONAL`: the group is formed without processes that decline, end or do not answer.
    is_optional: bool,
    /// `PMIX_GROUP_ASSIGN_CONTEXT_ID`: the group needs a context id.
    wants_context: bool,
    limit: Limit,
    pending: Pending,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    /// The invitation has been sent. Before, no outcome is decided.
    is_sent: bool,
    /// The connection to the server is lost.
    is_lost: bool,
    missing: Vec<Proc>,
    /// Processes that will not be in the group.
    absent: Vec<Proc>,
    /// The values that the accepting processes sent.
    contributions: Vec<Info>,
}

impl EventObserver for Invitation {
    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn on_event(&self, event: &Event) {
        let is_answer = matches!(event.status, Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED);
        let member = match ended(event) {
            None if is_answer && self.pending.is_of_group(event) != Some(false) => Some(&event.source),
            ended => ended,
        };
        let mut answers = self.answers.lock();
        answers.is_lost |= self.pending.is_lost(event);
        if let Some(at) = answers.missing.iter().position(|proc| Some(proc) == member) {
            let member = answers.missing.remove(at);
            if event.status == Status::GROUP_INVITE_ACCEPTED {
                let own =
                    event.infos.iter().filter(|info| contribution_in(info).is_some_and(|(from, _)| *from == member));
                answers.contributions.extend(own.cloned());
            } else {
                answers.absent.push(member);
            }
        }
        drop(answers);
        self.conclude_if_decided();
    }

    fn expire(&self) {
        {
            let mut answers = self.answers.lock();
            let silent = std::mem::take(&mut answers.missing);
            if !silent.is_empty() {
                self.pending.log_late("an invitation", &silent);
            }
            answers.absent.extend(silent);
        }
        self.conclude(if self.is_optional { Ok(()) } else { Err(Status::ERR_TIMEOUT) });
    }
}

impl Invitation {
    fn conclude_if_decided(&self) {
        let outcome = {
            let answers = self.answers.lock();
            match () {
                () if !answers.is_sent => return,
                () if answers.is_lost => Err(Status::ERR_LOST_CONNECTION),
                () if !answers.missing.is_empty() => return,
                () if answers.absent.is_empty() || self.is_optional => Ok(()),
                () => Err(Status::GROUP_CONSTRUCT_ABORT),
            }
        };
        self.conclude(outcome);
    }

    /// Ends the invitation without calling the callback: the caller gets the error as a return value. False if the
    /// outcome was decided before.
    fn abandon(&self) -> bool {
        let Some((client, _)) = self.pending.end() else { return false };
        self.notify(&client, None, Status::GROUP_CONSTRUCT_ABORT, &self.invited).begin(Box::new(drop));
        true
    }

    /// Reports the outcome to the members, as far as possible, and to the caller. Only the first call has an effect;
    /// later answers are ignored.
    fn conclude(&self, outcome: Result<()>) {
        let Some((client, then)) = self.pending.end() else { return };
        if let Err(status) = outcome {
            let notified = self.notify(&client, None, Status::GROUP_CONSTRUCT_ABORT, &self.invited);
            if status == Status::ERR_TIMEOUT {
                // The host may be what has not answered.
                notified.begin(Box::new(drop));
                return then(Err(status));
            }
            return notified.begin(Box::new(move |_| then(Err(status))));
        }
        let Answers { absent, contributions, .. } = std::mem::take(&mut *self.answers.lock());
        for process in &absent {
            client.inner.notify_here(self.pending.failure(Status::GROUP_INVITE_FAILED, &client, process));
        }
        let members = self.invited.iter().filter(|proc| !absent.contains(proc)).cloned().collect();
        let infos = contributions.into_iter().chain(client.contribution()).collect();
        let formed = Formed { group: self.pending.group.clone(), members, infos, limit: self.limit, then };
        if !self.wants_context {
            return formed.announce(&client, None);
        }
        let mut directives = vec![
            Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true)),
            Info::new(keys::GROUP_ID, Value::string(self.pending.group.to_bytes())),
        ];
        directives.extend(self.limit.left().map(|left| {
            let seconds = i32::try_from(left.as_secs()).unwrap_or(i32::MAX).saturating_add(1);
            Info::new(keys::TIMEOUT, Value::Int(seconds))
        }));
        let assigned = client.job_control(Vec::new(), directives);
        assigned.begin(Box::new(move |answer| {
            let context = answer.ok().and_then(|answer| Info::find(&answer.infos, keys::GROUP_CONTEXT_ID)?.as_u64());
            formed.announce(&client, context);
        }));
    }

    fn notify(&self, client: &Client, time: Option<Duration>, status: Status, recipients: &[Proc]) -> Operation<()> {
        notify(client, time, status, &self.pending.group, recipients, Vec::new())
    }
}

/// A group whose members are decided, but not yet announced by the leader.
struct Formed {
    group: CString,
    members: Vec<Proc>,
    /// The values that the members sent.
    infos: Vec<Info>,
    limit: Limit,
    then: Done<InfoReply>,
}

impl Formed {
    /// Announces the group to the members. The caller's callback runs after the event handlers of this process.
    fn announce(self, client: &Client, context: Option<u64>) {
        let Formed { group, members, mut infos, limit, then } = self;
        client.keep_contributions(&infos, context);
        let mut answer = vec![membership(&members)];
        answer.extend(context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))));
        infos.extend_from_slice(&answer);
        let notified = notify(client, limit.left(), Status::GROUP_CONSTRUCT_COMPLETE, &group, &members, infos);
        client.inner.groups.lock().insert(group, members);
        let answer = InfoReply { status: Status::SUCCESS, infos: answer };
        // The result is ignored: sending fails only if the connection is lost.
        notified.begin(Box::new(move |_| then(Ok(answer))));
    }
}

/// Sends an event to `recipients` only; default handlers do not get it.
fn notify(
    client: &Client,
    time: Option<Duration>,
    status: Status,
    group: &CStr,
    recipients: &[Proc],
    more: Vec<Info>,
) -> Operation<()> {
    let mut infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(recipients.iter().cloned())),
        Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(keys::GROUP_ID, Value::string(group.to_bytes())),
    ];
    infos.extend(more);
    client.notify_event_within(time, status, client.me().clone(), range::CUSTOM, infos)
}

/// The member and its values, if the info carries a member's contribution.
fn contribution_in(info: &Info) -> Option<(&Proc, impl Iterator<Item = &Info>)> {
    let mut infos = info.value.iter_infos();
    let first = infos.next().filter(|first| info.key.is(keys::PROC_INFO_ARRAY) && first.key.is(keys::PROCID))?;
    Some((first.value.iter_procs().next()?, infos))
}

/// The invited side: an invitation that this process has accepted, and whose leader has not formed the group yet.
struct Joining {
    leader: Proc,
    pending: Pending,
}

impl EventObserver for Joining {
    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn on_event(&self, event: &Event) {
        // An event of a released library names no group; then it must come from the leader.
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
        self.pending.log_late("joining", std::slice::from_ref(&self.leader));
        self.conclude(Err(Status::ERR_TIMEOUT));
    }
}

impl Joining {
    /// The group as the leader's event describes it. Releases before 7.0 send no membership; there the event's
    /// recipients are the members.
    fn formed(&self, event: &Event) -> InfoReply {
        let listed =
            Info::find(&event.infos, keys::GROUP_MEMBERSHIP).or(Info::find(&event.infos, keys::EVENT_CUSTOM_RANGE));
        let members: Vec<Proc> = listed.into_iter().flat_map(Value::iter_procs).cloned().collect();
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

    /// Calls the caller's callback; only the first call has an effect.
    fn conclude(&self, answer: Result<InfoReply>) {
        let Some((client, then)) = self.pending.end() else { return };
        if answer.as_ref().err() == Some(&Status::GROUP_LEADER_FAILED) {
            client.inner.notify_here(self.pending.failure(Status::GROUP_LEADER_FAILED, &client, &self.leader));
        }
        then(answer);
    }
}

/// The process whose end an event reports.
fn ended(event: &Event) -> Option<&Proc> {
    match Info::find(&event.infos, keys::EVENT_AFFECTED_PROC) {
        Some(Value::Proc(proc)) if ENDED.contains(&event.status) => Some(proc),
        _ => None,
    }
}

fn no_infos() -> InfoReply {
    InfoReply { status: Status::SUCCESS, infos: Vec::new() }
}

/// A callback that sends its result to the returned receiver.
fn result_channel() -> (Done<InfoReply>, Receiver<Result<InfoReply>>) {
    let (sender, receiver) = channel();
    let then: Done<InfoReply> = Box::new(move |answer| {
        // The waiting thread keeps the receiver.
        let _ = sender.send(answer);
    });
    (then, receiver)
}

/// Wraps a callback. The returned receiver is disconnected when the callback is called or dropped.
fn with_end_notice(then: Done<InfoReply>) -> (Done<InfoReply>, Receiver<()>) {
    let (sender, receiver) = channel::<()>();
    let then: Done<InfoReply> = Box::new(move |answer| {
        drop(sender);
        then(answer);
    });
    (then, receiver)
}

/// Ends the wait for missing answers, if it is still going on.
fn expire(observer: &Weak<impl EventObserver>) {
    if let Some(observer) = observer.upgrade() {
        observer.expire();
    }
}

/// Waits for the result, and after the timeout ends the wait for missing answers.
fn wait_for(
    link: &dyn Link,
    receiver: &Receiver<Result<InfoReply>>,
    limit: Limit,
    observer: &Weak<impl EventObserver>,
) -> Result<InfoReply> {
    if limit.0.is_some() {
        match receive(link, receiver, limit.0) {
            Ok(answer) => return answer,
            Err(_) => expire(observer),
        }
    }
    receive(link, receiver, None).unwrap_or(Err(Status::ERR_LOST_CONNECTION))
}

#[cfg(test)]
#[path = "invitations_tests.rs"]
mod tests;
