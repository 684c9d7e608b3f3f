use super::*;
use pmix_dstore::model::{Nspace, Rank};

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// One call of a process: a leader of so many that adds a member, or an added member.
fn call(groups: &mut Groups, rank: u32, leaders: Option<(u64, u32)>, seconds: i32) -> Status {
    let mut infos = vec![Info::new(keys::TIMEOUT, Value::Int(seconds))];
    match leaders {
        Some((leaders, adds)) => {
            infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(leaders)));
            infos.push(Info::new(keys::GROUP_ADD_MEMBERS, Value::procs([proc(adds)])));
        }
        None => infos.push(Info::new(keys::PROCID, Value::Proc(proc(rank)))),
    }
    let procs = if leaders.is_some() { vec![proc(rank)] } else { Vec::new() };
    groups.construct(c"team", &procs, &infos, Completion::by_id(0), Instant::now())
}

#[test]
fn a_group_is_formed_when_its_leaders_and_added_members_have_called() {
    let mut groups = Groups::default();
    // A member that no leader has added yet does not form it.
    for (rank, leaders) in [(5, None), (0, Some((2, 4))), (4, None)] {
        assert_eq!(call(&mut groups, rank, leaders, 0), Status::SUCCESS);
        assert_eq!(groups.forming.len(), 1);
    }
    assert_eq!(call(&mut groups, 3, Some((3, 5)), 0), Status::ERR_BAD_PARAM, "another number of leaders");
    assert_eq!(call(&mut groups, 3, Some((2, 5)), 0), Status::SUCCESS);
    assert!(groups.forming.is_empty());
    let unnamed = groups.construct(c"team", &[], &[], Completion::by_id(0), Instant::now());
    assert_eq!((unnamed, groups.forming.len()), (Status::ERR_BAD_PARAM, 0));
}

#[test]
fn a_group_is_given_up_with_a_process_and_with_an_attempt() {
    let mut groups = Groups::default();
    // A leader, a member that has called, and one that has not.
    for gone in [0, 4, 5] {
        call(&mut groups, 4, None, 0);
        call(&mut groups, 0, Some((2, 5)), 0);
        groups.process_ended(&proc(3));
        assert_eq!(groups.forming.len(), 1);
        groups.process_ended(&proc(gone));
        assert!(groups.forming.is_empty(), "{gone}");
    }
    // Whoever calls again has been given up by its server; the others of that attempt do not count.
    call(&mut groups, 4, None, 0);
    call(&mut groups, 0, Some((1, 5)), 0);
    call(&mut groups, 0, Some((1, 5)), 1);
    assert!(!groups.forming[c"team"].has(&proc(4)));
    groups.forming.get_mut(c"team").unwrap().deadline = Some(Instant::now());
    call(&mut groups, 5, None, 0);
    assert!(!groups.forming[c"team"].has(&proc(0)), "its time was over");
}
