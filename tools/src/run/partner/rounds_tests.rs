use super::*;

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

fn proc(name: &str, rank: u32) -> Proc {
    Proc::new(nspace(name), Rank(rank))
}

/// Jobs of two processes on each side.
fn rounds() -> Rounds {
    let mut rounds = Rounds::new(Names::of("east"));
    ["east:job", "west:job"].into_iter().for_each(|name| rounds.job_begins(nspace(name), 2));
    rounds
}

fn connect(id: Option<&str>) -> Round {
    let procs = ["west:job", "east:job"].map(|name| Proc::new(nspace(name), Rank::WILDCARD)).into();
    Round { operation: Operation::Connect, procs, id: id.map(|id| id.as_bytes().to_vec()) }
}

fn entry(side: Side, id: u64) -> Entry {
    Entry { side, id, status: Status::SUCCESS, is_excused: false, data: vec![id as u8] }
}

fn outcome(side: Side, id: u64, status: Status, data: &[u8]) -> Outcome {
    Outcome { side, id, status, data: data.to_vec() }
}

#[test]
fn an_operation_ends_when_both_sides_have_come() {
    let mut rounds = rounds();
    assert_eq!(rounds.enter(connect(None), entry(Side::Own, 1)), []);
    assert_eq!(rounds.enter(connect(Some("other")), entry(Side::Partner, 2)), [], "another one");
    // The same members, each by its rank and in another order.
    let procs = vec![proc("east:job", 1), proc("west:job", 1), proc("east:job", 0), proc("west:job", 0)];
    let one_by_one = Round { procs, ..connect(None) };
    let both = [outcome(Side::Own, 1, Status::SUCCESS, &[1, 3]), outcome(Side::Partner, 3, Status::SUCCESS, &[1, 3])];
    assert_eq!(rounds.enter(one_by_one, entry(Side::Partner, 3)), both);
    // The n-th belongs to the n-th.
    assert_eq!(rounds.enter(connect(None), entry(Side::Own, 4)), []);
    assert_eq!(rounds.enter(connect(None), entry(Side::Own, 5)), []);
    let both = |own, partner| {
        let data = [own as u8, partner as u8];
        [outcome(Side::Own, own, Status::SUCCESS, &data), outcome(Side::Partner, partner, Status::SUCCESS, &data)]
    };
    assert_eq!(rounds.enter(connect(None), entry(Side::Partner, 6)), both(4, 6));
    assert_eq!(rounds.enter(connect(None), entry(Side::Partner, 7)), both(5, 7));
}

#[test]
fn a_failure_of_one_side_is_that_of_both() {
    let mut rounds = rounds();
    rounds.enter(connect(None), entry(Side::Partner, 1));
    let failed = Entry { status: Status::ERR_BAD_PARAM, ..entry(Side::Own, 2) };
    let both =
        [outcome(Side::Partner, 1, Status::ERR_BAD_PARAM, &[]), outcome(Side::Own, 2, Status::ERR_BAD_PARAM, &[])];
    assert_eq!(rounds.enter(connect(None), failed), both);
}

#[test]
fn who_waits_for_processes_that_have_ended_is_told() {
    let mut rounds = rounds();
    rounds.enter(connect(None), entry(Side::Own, 1));
    let fence = Round { operation: Operation::Fence, ..connect(None) };
    rounds.enter(fence.clone(), entry(Side::Partner, 2));
    assert_eq!(rounds.process_ends(proc("west:job", 0)), [], "another one may come");
    assert_eq!(rounds.process_ends(proc("west:job", 7)), [], "there is no such process");
    let lost = outcome(Side::Own, 1, Status::ERR_LOST_CONNECTION, &[1]);
    assert_eq!(rounds.process_ends(proc("west:job", 1)), [lost]);
    let partial = outcome(Side::Partner, 2, Status::ERR_PARTIAL_SUCCESS, &[2]);
    assert_eq!(rounds.job_ends(&nspace("east:job")), [partial]);
    // Who comes later is told at once; where that is allowed, it goes on alone.
    rounds.job_ends(&nspace("west:job"));
    let later = outcome(Side::Own, 3, Status::ERR_LOST_CONNECTION, &[3]);
    assert_eq!(rounds.enter(connect(None), entry(Side::Own, 3)), [later]);
    let excused = Entry { is_excused: true, ..entry(Side::Own, 4) };
    assert_eq!(rounds.enter(fence, excused), [outcome(Side::Own, 4, Status::SUCCESS, &[4])]);
    assert!(rounds.waiting.is_empty() && rounds.ended.is_empty() && rounds.of_partner == (0, 0));
}

#[test]
fn who_gives_up_is_not_met_any_more() {
    let mut rounds = rounds();
    rounds.enter(connect(None), entry(Side::Partner, 1));
    rounds.withdraw(Side::Own, 1);
    rounds.withdraw(Side::Partner, 1);
    assert_eq!(rounds.enter(connect(None), entry(Side::Own, 2)), []);
    assert_eq!(rounds.of_partner, (0, 0));
}

#[test]
fn a_partner_cannot_fill_the_memory() {
    let mut rounds = rounds();
    for id in 0..WAITING_MAX as u64 {
        assert_eq!(rounds.enter(connect(None), Entry { data: Vec::new(), ..entry(Side::Partner, id) }), []);
    }
    let refused = outcome(Side::Partner, 7, Status::ERR_OUT_OF_RESOURCE, &[]);
    assert_eq!(rounds.enter(connect(None), entry(Side::Partner, 7)), [refused]);
    let mut rounds = self::rounds();
    rounds.job_begins(nspace("west:large"), u32::MAX);
    let large = Round { procs: vec![Proc::new(nspace("west:large"), Rank::WILDCARD)], ..connect(None) };
    let refused = outcome(Side::Own, 8, Status::ERR_OUT_OF_RESOURCE, &[]);
    assert_eq!(rounds.enter(large, entry(Side::Own, 8)), [refused]);
}
