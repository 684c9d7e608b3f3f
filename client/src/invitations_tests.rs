//! Tests of invitations to groups, for the leader and for invited processes.

use crossbeam::channel::{Receiver, unbounded};

use super::super::client::tests::{Stage, flag, nspace, stage};
use std::thread;

use super::*;
use crate::EventHandler;
use pmix_wire::Request;
use pmix_wire::reply::InfosReply;

fn proc(rank: u32) -> Proc {
    Proc::new(nspace("job"), pmix_dstore::model::Rank(rank))
}

fn team() -> CString {
    CString::new("team").unwrap()
}

/// Invites this process (rank 1) and the ranks 0 and 2.
fn invite(stage: &Stage, infos: &[Info]) -> Receiver<Result<InfoReply>> {
    let (sender, answer) = unbounded();
    // The server's replies: to the registration, the invitation and the announcement.
    (0..3).for_each(|_| stage.answers_status(Status::SUCCESS));
    let then = Box::new(move |answer| sender.send(answer).unwrap());
    stage.client.group_invite(team(), (0..3).map(proc).collect(), infos, then).unwrap();
    answer
}

fn join(stage: &Stage, infos: &[Info]) -> Receiver<Result<InfoReply>> {
    let (sender, answer) = unbounded();
    (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
    let then = Box::new(move |answer| sender.send(answer).unwrap());
    stage.client.group_join(team(), Some(proc(0)), true, infos, then).unwrap();
    answer
}

fn deliver(stage: &Stage, status: Status, source: u32, infos: Vec<Info>) {
    stage.client.inner.deliver(Event::new(status, proc(source), infos));
}

/// Waits until the callback thread has run all queued tasks.
fn drain_inbound(client: &Client) {
    let (sender, receiver) = unbounded();
    client.inner.link.defer(Box::new(move || sender.send(()).unwrap()));
    receiver.recv().unwrap();
}

fn of_team() -> Info {
    Info::new(keys::GROUP_ID, Value::string("team"))
}

fn affected(rank: u32) -> Info {
    Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(proc(rank)))
}

/// The events that the process sent, with their infos.
fn sent_events(stage: &Stage) -> Vec<(Status, Vec<Info>)> {
    let requests = stage.asked().into_iter();
    let sent = requests.filter_map(|request| match request {
        Request::Notify { status, infos, .. } => Some((status, infos)),
        _ => None,
    });
    sent.collect()
}

fn ranks(ranks: &[u32]) -> Vec<Proc> {
    ranks.iter().map(|rank| proc(*rank)).collect()
}

fn formed(ranks: Vec<Proc>) -> Result<InfoReply> {
    Ok(InfoReply { status: Status::SUCCESS, infos: vec![membership(&ranks)] })
}

fn seconds(count: i32) -> Info {
    Info::new(keys::TIMEOUT, Value::Int(count))
}

#[test]
fn answers_are_received_even_if_a_handler_ends_the_chain() {
    let stage = stage();
    let calls = stage.reports(Status::GROUP_INVITE_ACCEPTED, Status::EVENT_ACTION_COMPLETE);
    let answer = invite(&stage, &[]);
    for rank in [0, 2] {
        deliver(&stage, Status::GROUP_INVITE_ACCEPTED, rank, vec![of_team()]);
        // The library's own handler adds no result to the chain.
        assert!(calls.recv().unwrap().1.results.is_empty());
    }
    assert_eq!(answer.recv().unwrap(), formed(ranks(&[0, 1, 2])));
    let sent = sent_events(&stage);
    assert_eq!(sent[0].0, Status::GROUP_INVITED);
    assert_eq!(sent[1].0, Status::GROUP_CONSTRUCT_COMPLETE);
    assert!(sent[1].1.contains(&membership(&ranks(&[0, 1, 2]))), "{sent:?}");
}

#[test]
fn one_that_declines_is_left_out_or_ends_the_group() {
    for is_optional in [true, false] {
        let stage = stage();
        let calls = stage.reports(Status::GROUP_INVITE_FAILED, Status::SUCCESS);
        let directives = if is_optional { vec![flag(keys::GROUP_OPTIONAL)] } else { vec![] };
        let answer = invite(&stage, &directives);
        deliver(&stage, Status::GROUP_INVITE_DECLINED, 2, vec![]);
        deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
        let answer = answer.recv().unwrap();
        let (status, infos) = sent_events(&stage).pop().unwrap();
        if is_optional {
            assert_eq!(answer, formed(ranks(&[0, 1])));
            // The event comes before the caller's callback.
            assert_eq!(*calls.try_recv().unwrap().1.infos, [affected(2), of_team()]);
            assert_eq!(status, Status::GROUP_CONSTRUCT_COMPLETE);
            assert!(infos.contains(&Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(ranks(&[0, 1])))), "{infos:?}");
        } else {
            assert_eq!(answer, Err(Status::GROUP_CONSTRUCT_ABORT));
            assert_eq!(status, Status::GROUP_CONSTRUCT_ABORT);
            assert!(infos.contains(&Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(ranks(&[0, 1, 2])))), "{infos:?}");
        }
    }
}

#[test]
fn silent_members_are_waited_for_until_the_time_limit() {
    let stage = stage();
    let answer = invite(&stage, &[seconds(1)]);
    deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
    assert_eq!(answer.recv().unwrap(), Err(Status::ERR_TIMEOUT));
    let answer = invite(&stage, &[seconds(1), flag(keys::GROUP_OPTIONAL)]);
    deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
    assert_eq!(answer.recv().unwrap(), formed(ranks(&[0, 1])));
    // The end of a process counts as its answer.
    let answer = invite(&stage, &[flag(keys::GROUP_OPTIONAL)]);
    deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
    deliver(&stage, Status::ERR_PROC_ABORTED, 3, vec![affected(2)]);
    assert_eq!(answer.recv().unwrap(), formed(ranks(&[0, 1])));
}

#[test]
fn a_joining_process_is_notified_when_the_group_is_formed() {
    let stage = stage();
    let answer = join(&stage, &[]);
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 3, vec![Info::new(keys::GROUP_ID, Value::string("other"))]);
    deliver(&stage, Status::ERR_PROC_ABORTED, 3, vec![affected(2)]);
    let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(5));
    let all = Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(ranks(&[0, 1])));
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 0, vec![all, of_team(), context.clone()]);
    let infos = vec![of_team(), membership(&ranks(&[0, 1])), context];
    let received = answer.recv().unwrap();
    let keys = received.iter().flat_map(|answer| &answer.infos).map(|info| info.key.as_bytes());
    assert!(keys.eq([keys::GROUP_ID, keys::GROUP_MEMBERSHIP, keys::GROUP_CONTEXT_ID].map(str::as_bytes)));
    assert_eq!(received, Ok(InfoReply { status: Status::SUCCESS, infos }));
    let answer = join(&stage, &[]);
    // An event that names no group and does not come from the leader is ignored.
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 3, vec![]);
    deliver(&stage, Status::GROUP_CONSTRUCT_ABORT, 0, vec![]);
    assert_eq!(answer.recv().unwrap(), Err(Status::GROUP_CONSTRUCT_ABORT));
    let answer = join(&stage, &[seconds(1)]);
    assert_eq!(answer.recv().unwrap(), Err(Status::ERR_TIMEOUT));
}

#[test]
fn a_joining_process_is_notified_when_the_leader_ends() {
    let stage = stage();
    let calls = stage.reports(Status::GROUP_LEADER_FAILED, Status::SUCCESS);
    let answer = join(&stage, &[]);
    deliver(&stage, Status::PROC_TERMINATED, 3, vec![affected(0)]);
    assert_eq!(answer.recv().unwrap(), Err(Status::GROUP_LEADER_FAILED));
    assert_eq!(*calls.recv().unwrap().1.infos, [affected(0), of_team()]);
}

#[test]
fn a_handler_that_joins_does_not_wait_for_the_next_event() {
    let stage = stage();
    let (sender, joined) = unbounded();
    (0..3).for_each(|_| stage.answers_status(Status::SUCCESS));
    let client = stage.client.clone();
    let invited: EventHandler = Arc::new(move |_, event, _| {
        sender.send(client.group_join_wait(team(), Some(event.source), true, &[])).unwrap();
    });
    stage.client.register_event_handler(vec![Status::GROUP_INVITED], vec![], invited).wait().unwrap();
    deliver(&stage, Status::GROUP_INVITED, 0, vec![of_team()]);
    assert_eq!(joined.recv().unwrap(), Ok(no_infos()));
    assert_eq!(sent_events(&stage)[0].0, Status::GROUP_INVITE_ACCEPTED);
    // The leader's later event still takes effect.
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 0, vec![of_team(), membership(&ranks(&[0, 1]))]);
    let (sender, receiver) = unbounded();
    stage.client.later(Box::new(move || sender.send(()).unwrap()));
    receiver.recv().unwrap();
    assert_eq!(stage.client.inner.groups.lock()[&team()], ranks(&[0, 1]));
    // Breaks the reference cycle: the handler holds the client, and the client holds the handler.
    stage.answers_status(Status::SUCCESS);
    stage.client.finalize(&[]).unwrap();
}

#[test]
fn expiry_is_reported_on_the_callback_thread() {
    let stage = stage();
    let (sender, threads) = unbounded();
    let second = sender.clone();
    stage.client.later(Box::new(move || second.send(thread::current().id()).unwrap()));
    (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
    let then: Done<InfoReply> = Box::new(move |answer| {
        assert_eq!(answer, Err(Status::ERR_TIMEOUT));
        sender.send(thread::current().id()).unwrap();
    });
    stage.client.group_join(team(), Some(proc(0)), true, &[seconds(1)], then).unwrap();
    assert_eq!(threads.recv().unwrap(), threads.recv().unwrap());
    (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
    let waited = stage.client.group_join_wait(team(), Some(proc(0)), true, &[seconds(1)]);
    assert_eq!(waited, Err(Status::ERR_TIMEOUT));
}

#[test]
fn pending_invitations_are_freed_when_the_client_ends() {
    let stage = stage();
    let token = Arc::new(());
    let long = [seconds(1000)];
    let kept = |token: &Arc<()>| -> Done<InfoReply> {
        let token = Arc::clone(token);
        Box::new(move |_| drop(token))
    };
    (0..4).for_each(|_| stage.answers_status(Status::SUCCESS));
    stage.client.group_invite(team(), vec![proc(0)], &long, kept(&token)).unwrap();
    stage.client.group_join(team(), Some(proc(0)), true, &long, kept(&token)).unwrap();
    assert_eq!(Arc::strong_count(&token), 3);
    (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
    let (sender, receiver) = unbounded();
    stage.meanwhile(move |request| {
        if matches!(request, Request::Notify { .. }) {
            sender.send(()).unwrap();
        }
    });
    let client = stage.client.clone();
    let waits = thread::spawn(move || client.group_invite_wait(team(), vec![proc(0)], &[]));
    receiver.recv().unwrap();
    stage.answers_status(Status::SUCCESS);
    stage.client.finalize(&[]).unwrap();
    assert_eq!(Arc::strong_count(&token), 1);
    assert_eq!(waits.join().unwrap(), Err(Status::ERR_LOST_CONNECTION));
}

#[test]
fn the_thread_that_watches_the_time_leaves_signals_to_the_program() {
    let stage = stage();
    let _answer = join(&stage, &[seconds(1000)]);
    // Other tests of this program have such threads, too.
    let masks = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
        let statuses = threads.filter_map(|thread| std::fs::read_to_string(thread.join("status")).ok());
        let watching = statuses.filter(|status| status.starts_with("Name:\tpmix-invitation\n"));
        let mask = |status: String| {
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"))?;
            u64::from_str_radix(blocked, 16).ok()
        };
        watching.filter_map(mask).collect::<Vec<_>>()
    };
    // The thread may not have started yet.
    while !masks().iter().any(|mask| mask & 1 << (libc::SIGTERM - 1) != 0) {
        thread::yield_now();
    }
}

/// The leader's event arrives before the process knows the id of its event handler.
#[test]
fn a_join_that_is_answered_at_once_is_answered_once() {
    for outcome in [Status::SUCCESS, Status::ERR_UNREACH] {
        let stage = stage();
        let (sender, answer) = unbounded();
        let client = stage.client.clone();
        stage.meanwhile(move |request| {
            if matches!(request, Request::RegisterEvents { .. }) {
                client.inner.deliver(Event::new(Status::GROUP_CONSTRUCT_ABORT, proc(0), vec![of_team()]));
                drain_inbound(&client);
            }
        });
        [Status::SUCCESS, outcome].into_iter().for_each(|status| stage.answers_status(status));
        let then = Box::new(move |answer| sender.send(answer).unwrap());
        assert_eq!(stage.client.group_join(team(), Some(proc(0)), true, &[], then), Ok(()));
        assert_eq!(answer.recv().unwrap(), Err(Status::GROUP_CONSTRUCT_ABORT));
        let deregistered = stage.asked().into_iter().filter(|asked| matches!(asked, Request::DeregisterEvents { .. }));
        assert_eq!(deregistered.count(), 1);
    }
}

#[test]
fn an_invitation_that_cannot_be_sent_ends_with_an_error() {
    let stage = stage();
    let client = stage.client.clone();
    stage.meanwhile(move |request| {
        if matches!(request, Request::Notify { .. }) {
            for rank in [0, 2] {
                client.inner.deliver(Event::new(Status::GROUP_INVITE_ACCEPTED, proc(rank), vec![of_team()]));
            }
            drain_inbound(&client);
        }
    });
    [Status::SUCCESS, Status::ERR_UNREACH].into_iter().for_each(|status| stage.answers_status(status));
    let then: Done<InfoReply> = Box::new(|answer| panic!("{answer:?}"));
    let invited = stage.client.group_invite(team(), (0..3).map(proc).collect(), &[], then);
    assert_eq!(invited, Err(Status::ERR_UNREACH));
}

#[test]
fn undelivered_events_are_kept_for_later_handlers() {
    let stage = stage();
    stage.answers_status(Status::SUCCESS);
    let code = Status(-3001);
    let elsewhere = vec![
        Info::new(keys::RANGE, Value::Uint8(range::CUSTOM)),
        Info::new(keys::EVENT_CUSTOM_RANGE, Value::Proc(proc(3))),
    ];
    let handler: EventHandler = Arc::new(|_, event, _| panic!("{event:?}"));
    stage.client.register_event_handler(vec![code], elsewhere, handler).wait().unwrap();
    deliver(&stage, code, 2, vec![]);
    deliver(&stage, code, 0, vec![flag(keys::EVENT_DO_NOT_CACHE)]);
    // The server has delivered the event already, and does not send it again.
    let (sender, calls) = unbounded();
    let handler: EventHandler = Arc::new(move |_, event, _| sender.send(event.source).unwrap());
    stage.client.register_event_handler(vec![code], vec![], handler).wait().unwrap();
    assert_eq!(calls.recv().unwrap(), proc(2));
    deliver(&stage, code, 1, vec![]);
    assert_eq!(calls.recv().unwrap(), proc(1), "and nothing twice");
}

#[test]
fn events_seen_only_by_the_library_are_kept_for_the_program() {
    let stage = stage();
    let answer = join(&stage, &[]);
    deliver(&stage, Status::GROUP_CONSTRUCT_ABORT, 3, vec![Info::new(keys::GROUP_ID, Value::string("other"))]);
    let here = Event::new(Status::PROC_TERMINATED, proc(1), vec![affected(3)]);
    stage.client.inner.notify_here(here);
    // A second observer does not consume the events.
    let other = join(&stage, &[]);
    for (code, source) in [(Status::GROUP_CONSTRUCT_ABORT, 3), (Status::PROC_TERMINATED, 1)] {
        let calls = stage.reports(code, Status::SUCCESS);
        assert_eq!(calls.recv().unwrap().1.source, proc(source));
    }
    deliver(&stage, Status::GROUP_CONSTRUCT_ABORT, 0, vec![of_team()]);
    for answer in [answer, other] {
        assert_eq!(answer.recv().unwrap(), Err(Status::GROUP_CONSTRUCT_ABORT));
    }
}

/// The values that a member sends to a group.
fn contribution_of(rank: u32, value: u32) -> Info {
    let name = Info::new(keys::PROCID, Value::Proc(proc(rank)));
    let scope = Info::new(keys::DATA_SCOPE, Value::Uint8(2));
    Info::new(keys::PROC_INFO_ARRAY, Value::infos([name, scope, Info::new("endpoint", Value::Uint32(value))]))
}

/// The value that a member sent, by a Get that does not ask the server.
fn contributed_value(stage: &Stage, rank: u32, context: Option<u64>) -> Result<Value> {
    let qualifier =
        |context| Info { flags: InfoFlags::QUALIFIER, ..Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)) };
    let infos: Vec<_> = context.map(qualifier).into_iter().chain([flag(keys::OPTIONAL)]).collect();
    stage.get_of(None, pmix_dstore::model::Rank(rank), Some("endpoint"), &infos)
}

#[test]
fn the_leader_requests_a_context_id_and_forwards_member_data() {
    let not_found = Err(Status::ERR_NOT_FOUND);
    for context in [Some(7), None] {
        let stage = stage();
        stage.client.put(pmix_dstore::model::Scope::Remote, "endpoint".into(), Value::Uint32(11)).unwrap();
        stage.client.put(pmix_dstore::model::Scope::Local, "local".into(), Value::Uint32(1)).unwrap();
        (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
        let infos = context.map(|context| vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))]);
        let status = if context.is_some() { Status::SUCCESS } else { Status::ERR_NOT_SUPPORTED };
        stage.answers(InfosReply { status, infos });
        stage.answers_status(Status::SUCCESS);
        let (sender, answer) = unbounded();
        let then = Box::new(move |answer| sender.send(answer).unwrap());
        let infos = [flag(keys::GROUP_ASSIGN_CONTEXT_ID)];
        stage.client.group_invite(team(), (0..3).map(proc).collect(), &infos, then).unwrap();
        deliver(
            &stage,
            Status::GROUP_INVITE_ACCEPTED,
            0,
            vec![of_team(), contribution_of(0, 10), contribution_of(2, 666)],
        );
        deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 2, vec![of_team(), contribution_of(2, 12)]);
        let id = context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)));
        let infos = [membership(&ranks(&[0, 1, 2]))].into_iter().chain(id.clone()).collect();
        assert_eq!(answer.recv().unwrap(), Ok(InfoReply { status: Status::SUCCESS, infos }));
        let asked = stage.asked();
        let directives = vec![flag(keys::GROUP_ASSIGN_CONTEXT_ID), of_team()];
        assert!(asked.contains(&Request::JobControl { targets: Vec::new(), directives }), "{asked:?}");
        let Some(Request::Notify { status: Status::GROUP_CONSTRUCT_COMPLETE, infos, .. }) = asked.last() else {
            panic!("{asked:?}")
        };
        let name = Info::new(keys::PROCID, Value::Proc(proc(1)));
        let own = Value::infos([name, Info::new("endpoint", Value::Uint32(11))]);
        for info in [contribution_of(0, 10), contribution_of(2, 12), Info::new(keys::PROC_INFO_ARRAY, own)]
            .into_iter()
            .chain(id)
        {
            assert!(infos.contains(&info), "{info:?}");
        }
        assert!(!infos.contains(&contribution_of(2, 666)), "of another");
        assert_eq!(contributed_value(&stage, 0, context), Ok(Value::Uint32(10)));
        assert_eq!(contributed_value(&stage, 2, context), Ok(Value::Uint32(12)));
        if context.is_some() {
            assert_eq!(contributed_value(&stage, 2, None), not_found, "for the group alone");
            assert_eq!(contributed_value(&stage, 2, Some(8)), not_found);
        }
    }
}

#[test]
fn joining_sends_own_values_and_keeps_those_of_others() {
    let stage = stage();
    stage.client.put(pmix_dstore::model::Scope::Global, "endpoint".into(), Value::Uint32(11)).unwrap();
    let answer = join(&stage, &[]);
    let name = Info::new(keys::PROCID, Value::Proc(proc(1)));
    let own = Info::new(keys::PROC_INFO_ARRAY, Value::infos([name, Info::new("endpoint", Value::Uint32(11))]));
    assert!(sent_events(&stage)[0].1.contains(&own));
    let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(7));
    let all = membership(&ranks(&[0, 1]));
    // The leader's event also contains this process's own values.
    let infos = vec![of_team(), all.clone(), context.clone(), contribution_of(0, 10), contribution_of(1, 666)];
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 0, infos);
    let infos = vec![of_team(), all, context];
    assert_eq!(answer.recv().unwrap(), Ok(InfoReply { status: Status::SUCCESS, infos }));
    assert_eq!(contributed_value(&stage, 0, Some(7)), Ok(Value::Uint32(10)));
    assert_eq!(contributed_value(&stage, 1, None), Ok(Value::Uint32(11)));
}
