//! Invitations to groups, from both sides.

use std::sync::mpsc::{Receiver, channel};

use super::super::client::tests::{Stage, flag, nspace, reporter, stage};
use super::*;
use crate::EventHandler;
use crate::wire::Request;

fn proc(rank: u32) -> Proc {
    Proc::new(nspace("job"), pmix_dstore::model::Rank(rank))
}

fn team() -> CString {
    CString::new("team").unwrap()
}

/// Of this process, rank 1, and the ranks 0 and 2.
fn invite(stage: &Stage, infos: &[Info]) -> Receiver<Result<Answer>> {
    let (sender, answer) = channel();
    // To the registration, and to what is told before and after.
    (0..3).for_each(|_| stage.answers_status(Status::SUCCESS));
    let then = Box::new(move |answer| sender.send(answer).unwrap());
    stage.client.group_invite(team(), (0..3).map(proc).collect(), infos, then).unwrap();
    answer
}

fn join(stage: &Stage, infos: &[Info]) -> Receiver<Result<Answer>> {
    let (sender, answer) = channel();
    (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
    let then = Box::new(move |answer| sender.send(answer).unwrap());
    stage.client.group_join(team(), Some(proc(0)), true, infos, then).unwrap();
    answer
}

fn deliver(stage: &Stage, status: Status, source: u32, infos: Vec<Info>) {
    stage.client.inner.deliver(Event::new(status, proc(source), infos));
}

fn of_team() -> Info {
    Info::new(keys::GROUP_ID, Value::string("team"))
}

fn affected(rank: u32) -> Info {
    Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(proc(rank)))
}

/// What the process told others, and the infos.
fn told(stage: &Stage) -> Vec<(Status, Vec<Info>)> {
    let requests = stage.asked().into_iter();
    let told = requests.filter_map(|request| match request {
        Request::Notify { status, infos, .. } => Some((status, infos)),
        _ => None,
    });
    told.collect()
}

fn ranks(ranks: &[u32]) -> Vec<Proc> {
    ranks.iter().map(|rank| proc(*rank)).collect()
}

fn formed(ranks: Vec<Proc>) -> Result<Answer> {
    Ok(Answer { status: Status::SUCCESS, infos: vec![membership(&ranks)] })
}

fn seconds(count: i32) -> Info {
    Info::new(keys::TIMEOUT, Value::Int(count))
}

#[test]
fn answers_are_heard_also_where_the_program_ends_the_chain() {
    let stage = stage();
    let (sender, calls) = channel();
    stage.answers_status(Status::SUCCESS);
    let ending: EventHandler = reporter("program", Status::EVENT_ACTION_COMPLETE, &sender);
    stage.client.register_event_handler(vec![Status::GROUP_INVITE_ACCEPTED], vec![], ending).wait().unwrap();
    let answer = invite(&stage, &[]);
    for rank in [0, 2] {
        deliver(&stage, Status::GROUP_INVITE_ACCEPTED, rank, vec![of_team()]);
        // The library's own handler is no part of the chain.
        assert!(calls.recv().unwrap().1.results.is_empty());
    }
    assert_eq!(answer.recv().unwrap(), formed(ranks(&[0, 1, 2])));
    let told = told(&stage);
    assert_eq!(told[0].0, Status::GROUP_INVITED);
    assert_eq!(told[1].0, Status::GROUP_CONSTRUCT_COMPLETE);
    assert!(told[1].1.contains(&membership(&ranks(&[0, 1, 2]))), "{told:?}");
}

#[test]
fn one_that_declines_is_left_out_or_ends_the_group() {
    for may_lack in [true, false] {
        let stage = stage();
        let (sender, calls) = channel();
        stage.answers_status(Status::SUCCESS);
        let hears = reporter("failed", Status::SUCCESS, &sender);
        stage.client.register_event_handler(vec![Status::GROUP_INVITE_FAILED], vec![], hears).wait().unwrap();
        let directives = if may_lack { vec![flag(keys::GROUP_OPTIONAL)] } else { vec![] };
        let answer = invite(&stage, &directives);
        deliver(&stage, Status::GROUP_INVITE_DECLINED, 2, vec![]);
        deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
        let answer = answer.recv().unwrap();
        let (status, infos) = told(&stage).pop().unwrap();
        if may_lack {
            assert_eq!(answer, formed(ranks(&[0, 1])));
            // Before the caller.
            assert_eq!(*calls.try_recv().unwrap().1.infos, [affected(2), of_team()]);
            assert_eq!(status, Status::GROUP_CONSTRUCT_COMPLETE);
            assert!(infos.contains(&Info::new(keys::EVENT_CUSTOM_RANGE, procs_value(&ranks(&[0, 1])))), "{infos:?}");
        } else {
            assert_eq!(answer, Err(Status::GROUP_CONSTRUCT_ABORT));
            assert_eq!(status, Status::GROUP_CONSTRUCT_ABORT);
            assert!(infos.contains(&Info::new(keys::EVENT_CUSTOM_RANGE, procs_value(&ranks(&[0, 1, 2])))), "{infos:?}");
        }
    }
}

#[test]
fn who_says_nothing_is_waited_for_so_long() {
    let stage = stage();
    let answer = invite(&stage, &[seconds(1)]);
    deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
    assert_eq!(answer.recv().unwrap(), Err(Status::ERR_TIMEOUT));
    let answer = invite(&stage, &[seconds(1), flag(keys::GROUP_OPTIONAL)]);
    deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
    assert_eq!(answer.recv().unwrap(), formed(ranks(&[0, 1])));
    // Those who end answer, too.
    let answer = invite(&stage, &[flag(keys::GROUP_OPTIONAL)]);
    deliver(&stage, Status::GROUP_INVITE_ACCEPTED, 0, vec![]);
    deliver(&stage, Status::ERR_PROC_ABORTED, 3, vec![affected(2)]);
    assert_eq!(answer.recv().unwrap(), formed(ranks(&[0, 1])));
}

#[test]
fn who_joins_hears_when_the_leader_has_formed_the_group() {
    let stage = stage();
    let answer = join(&stage, &[]);
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 3, vec![Info::new(keys::GROUP_ID, Value::string("other"))]);
    deliver(&stage, Status::ERR_PROC_ABORTED, 3, vec![affected(2)]);
    let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(5));
    let all = Info::new(keys::EVENT_CUSTOM_RANGE, procs_value(&ranks(&[0, 1])));
    deliver(&stage, Status::GROUP_CONSTRUCT_COMPLETE, 0, vec![all, of_team(), context.clone()]);
    let infos = vec![of_team(), membership(&ranks(&[0, 1])), context];
    let heard = answer.recv().unwrap();
    let keys = heard.iter().flat_map(|answer| &answer.infos).map(|info| info.key.as_bytes());
    assert!(keys.eq([keys::GROUP_ID, keys::GROUP_MEMBERSHIP, keys::GROUP_CONTEXT_ID].map(str::as_bytes)));
    assert_eq!(heard, Ok(Answer { status: Status::SUCCESS, infos }));
    let answer = join(&stage, &[]);
    deliver(&stage, Status::GROUP_CONSTRUCT_ABORT, 0, vec![]);
    assert_eq!(answer.recv().unwrap(), Err(Status::GROUP_CONSTRUCT_ABORT));
    let answer = join(&stage, &[seconds(1)]);
    assert_eq!(answer.recv().unwrap(), Err(Status::ERR_TIMEOUT));
}

#[test]
fn who_joins_hears_that_the_leader_has_ended() {
    let stage = stage();
    let (sender, calls) = channel();
    stage.answers_status(Status::SUCCESS);
    let hears = reporter("leader", Status::SUCCESS, &sender);
    stage.client.register_event_handler(vec![Status::GROUP_LEADER_FAILED], vec![], hears).wait().unwrap();
    let answer = join(&stage, &[]);
    deliver(&stage, Status::PROC_TERMINATED, 3, vec![affected(0)]);
    assert_eq!(answer.recv().unwrap(), Err(Status::GROUP_LEADER_FAILED));
    assert_eq!(*calls.recv().unwrap().1.infos, [affected(0), of_team()]);
}

#[test]
fn a_handler_that_joins_does_not_wait_for_the_next_event() {
    let stage = stage();
    let (sender, joined) = channel();
    (0..2).for_each(|_| stage.answers_status(Status::SUCCESS));
    let client = stage.client.clone();
    let invited: EventHandler = Arc::new(move |_, event, _| {
        sender.send(client.group_join_wait(team(), Some(event.source), true, &[])).unwrap();
    });
    stage.client.register_event_handler(vec![Status::GROUP_INVITED], vec![], invited).wait().unwrap();
    deliver(&stage, Status::GROUP_INVITED, 0, vec![of_team()]);
    assert_eq!(joined.recv().unwrap(), Ok(no_infos()));
    assert_eq!(told(&stage)[0].0, Status::GROUP_INVITE_ACCEPTED);
}
