//! Groups of processes.

use super::*;

impl Bench {
    fn construct(&mut self, rank: u32, tag: u32, procs: Vec<Proc>, infos: Vec<Info>) {
        self.request(rank, tag, Request::GroupConstruct { group: group(), procs, infos });
    }

    fn destruct(&mut self, rank: u32, tag: u32) {
        self.request(rank, tag, Request::GroupDestruct { group: group(), procs: Vec::new(), infos: Vec::new() });
    }

    /// The status and context id in the reply to a construction.
    fn constructed(&mut self, rank: u32, tag: u32) -> Option<(Status, Option<u64>)> {
        let bytes = self.reply(rank, tag)?;
        let reply = GroupReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        Some((reply.status, reply.group.and_then(|group| group.context)))
    }

    fn heard(&self, rank: u32) -> Vec<(Status, Proc)> {
        let to_it = self.sent.iter().filter(|(to, tag, _)| (*to, *tag) == (peer(rank), TAG_NOTIFY));
        let events = to_it.map(|(_, _, bytes)| Notification::decode(PLAIN, bytes).unwrap());
        events.map(|event| (event.status, event.source)).collect()
    }
}

#[test]
fn a_group_of_one_node_is_formed_used_and_dissolved_without_the_host() {
    let mut bench = Bench::new(0, 1, 3);
    let members = vec![proc(2), proc(0)];
    for (rank, others) in [(0, members.clone()), (2, vec![proc(0), proc(2)])] {
        bench.construct(rank, 10, others, Vec::new());
    }
    for rank in [0, 2] {
        assert_eq!(bench.constructed(rank, 10), Some((Status::SUCCESS, None)));
    }
    // All of them by the wildcard, and one by its place.
    let team = |rank| Proc::new(Nspace::new("team").unwrap(), rank);
    bench.fence(0, 11, vec![team(Rank::WILDCARD)], Vec::new());
    assert_eq!(bench.status(0, 11), None);
    bench.fence(2, 11, members, Vec::new());
    assert_eq!((bench.status(0, 11), bench.status(2, 11)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.fence(2, 12, vec![team(Rank(0))], Vec::new());
    assert_eq!(bench.status(2, 12), Some(Status::SUCCESS));
    bench.fence(2, 12, vec![team(Rank(1)), team(Rank(2))], Vec::new());
    assert_eq!(bench.status(2, 12), Some(Status::ERR_BAD_PARAM));
    // A process that is not a member does not participate, and is not held.
    bench.fence(1, 12, vec![team(Rank::WILDCARD)], Vec::new());
    assert_eq!(bench.status(1, 12), Some(Status::SUCCESS));
    assert!(bench.engine.collectives.is_empty());
    bench.destruct(1, 13);
    assert_eq!(bench.status(1, 13), Some(Status::ERR_BAD_PARAM));
    bench.destruct(0, 13);
    assert_eq!(bench.status(0, 13), None);
    bench.destruct(2, 13);
    assert_eq!((bench.status(0, 13), bench.status(2, 13)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.destruct(0, 14);
    assert_eq!(bench.status(0, 14), Some(Status::ERR_NOT_FOUND));
    assert!(bench.upcalls.is_empty());
}

#[test]
fn the_host_gives_a_group_its_context_id_and_hears_of_its_end() {
    let mut bench = Bench::new(0, 1, 2);
    let wanted = vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true))];
    for rank in 0..2 {
        bench.construct(rank, 10, everybody(), wanted.clone());
    }
    let context = vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(77))];
    let upcall = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, context));
    let Upcall::Group { operation: GroupOperation::Construct, procs, .. } = upcall else { panic!("{upcall:?}") };
    assert_eq!(procs, [proc(0), proc(1)]);
    for rank in 0..2 {
        assert_eq!(bench.constructed(rank, 10), Some((Status::SUCCESS, Some(77))));
    }
    for rank in 0..2 {
        bench.destruct(rank, 11);
    }
    let upcall = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, Vec::new()));
    assert!(matches!(upcall, Upcall::Group { operation: GroupOperation::Destruct, .. }), "{upcall:?}");
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    // A host that cannot forms none.
    for rank in 0..2 {
        bench.construct(rank, 12, everybody(), wanted.clone());
    }
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.constructed(1, 12), Some((Status::ERR_NOT_SUPPORTED, None)));
    bench.destruct(0, 13);
    assert_eq!(bench.status(0, 13), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_group_of_several_nodes_is_the_hosts() {
    let mut bench = Bench::new(0, 2, 1);
    bench.construct(0, 10, everybody(), Vec::new());
    let upcall = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, Vec::new()));
    assert!(matches!(upcall, Upcall::Group { operation: GroupOperation::Construct, .. }), "{upcall:?}");
    assert_eq!(bench.constructed(0, 10), Some((Status::SUCCESS, None)));
    // Asked for by name, it stays on this node.
    let local = vec![Info::new(keys::GROUP_LOCAL_ONLY, Value::Bool(true))];
    bench.construct(0, 11, vec![proc(0)], local);
    assert_eq!((bench.constructed(0, 11), bench.upcalls.len()), (Some((Status::SUCCESS, None)), 0));
}

#[test]
fn group_members_hear_of_departed_and_lost_members() {
    let mut bench = Bench::new(0, 1, 4);
    let tells = vec![Info::new(keys::GROUP_NOTIFY_TERMINATION, Value::Bool(true))];
    for rank in 0..4 {
        let codes = vec![Status::GROUP_LEFT, Status::GROUP_MEMBER_FAILED];
        bench.request(rank, 9, Request::RegisterEvents { codes, infos: Vec::new() });
        if rank < 3 {
            bench.construct(rank, 10, (0..3).map(proc).collect(), tells.clone());
        }
    }
    bench.request(0, 11, Request::GroupLeave { group: group(), infos: Vec::new() });
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    bench.lose(1);
    let left = (Status::GROUP_LEFT, proc(0));
    assert_eq!(bench.heard(1), std::slice::from_ref(&left));
    assert_eq!(bench.heard(2), [left, (Status::GROUP_MEMBER_FAILED, proc(1))]);
    assert_eq!((bench.heard(0), bench.heard(3)), (Vec::new(), Vec::new()));
    // The last member destructs the group alone.
    bench.destruct(2, 12);
    assert_eq!(bench.status(2, 12), Some(Status::SUCCESS));
    bench.request(0, 13, Request::GroupLeave { group: group(), infos: Vec::new() });
    assert_eq!(bench.status(0, 13), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_group_that_loses_a_member_before_it_is_formed_is_formed_only_where_that_is_wanted() {
    let mut bench = Bench::new(0, 1, 4);
    let with = |keys: &[&'static str]| keys.iter().map(|key| Info::new(*key, Value::Bool(true))).collect::<Vec<_>>();
    for rank in 0..3 {
        let codes = vec![Status::GROUP_MEMBER_FAILED];
        bench.request(rank, 9, Request::RegisterEvents { codes, infos: Vec::new() });
        bench.construct(rank, 10, everybody(), Vec::new());
        let group = CString::new("of the host");
        let infos = with(&[keys::GROUP_ASSIGN_CONTEXT_ID]);
        bench.request(rank, 11, Request::GroupConstruct { group: group.ok(), procs: everybody(), infos });
        let group = CString::new("tolerant");
        let infos = with(&[keys::GROUP_FT_COLLECTIVE]);
        bench.request(rank, 12, Request::GroupConstruct { group: group.ok(), procs: everybody(), infos });
    }
    bench.lose(3);
    let context = vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(77))];
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, context));
    let failed = (Status::GROUP_MEMBER_FAILED, proc(3));
    for rank in 0..3 {
        assert_eq!(bench.constructed(rank, 10), Some((Status::GROUP_CONSTRUCT_ABORT, None)));
        assert_eq!(bench.constructed(rank, 11), Some((Status::GROUP_CONSTRUCT_ABORT, None)));
        assert_eq!(bench.constructed(rank, 12), Some((Status::SUCCESS, None)));
        assert_eq!(bench.heard(rank), std::slice::from_ref(&failed));
    }
    let tolerant = bench.engine.members_of(&proc(0), vec![Proc::new(Nspace::new("tolerant").unwrap(), Rank::WILDCARD)]);
    assert_eq!((bench.engine.groups.len(), tolerant), (1, Ok((0..3).map(proc).collect())));
    bench.construct(0, 13, vec![proc(1)], Vec::new());
    assert_eq!(bench.constructed(0, 13), Some((Status::ERR_NOT_A_MEMBER, None)));
}

#[test]
fn a_lost_member_does_not_disconnect_the_others() {
    let mut bench = Bench::new(0, 1, 4);
    for rank in 0..4 {
        bench.construct(rank, 10, everybody(), Vec::new());
    }
    let team = vec![Proc::new(Nspace::new("team").unwrap(), Rank::WILDCARD)];
    bench.fence(0, 11, team.clone(), Vec::new());
    bench.destruct(0, 12);
    bench.lose(3);
    for rank in 1..3 {
        bench.fence(rank, 11, team.clone(), Vec::new());
        bench.destruct(rank, 12);
    }
    for rank in 0..3 {
        assert_eq!(bench.status(rank, 11), Some(Status::ERR_PARTIAL_SUCCESS), "{rank}");
        assert_eq!(bench.status(rank, 12), Some(Status::SUCCESS), "{rank}");
    }
}

#[test]
fn a_group_has_no_jobs_name_and_a_process_is_in_so_many() {
    let mut bench = Bench::new(0, 1, 1);
    let name = |name: &str| Some(CString::new(name).unwrap());
    let construct = |name| Request::GroupConstruct { group: name, procs: everybody(), infos: Vec::new() };
    for name in [name("job"), name(""), None] {
        bench.request(0, 10, construct(name));
        assert_eq!(bench.constructed(0, 10), Some((Status::ERR_BAD_PARAM, None)));
    }
    for number in 0..GROUPS_MAX {
        bench.request(0, 10, construct(name(&format!("group{number}"))));
        assert_eq!(bench.constructed(0, 10), Some((Status::SUCCESS, None)));
    }
    bench.request(0, 10, construct(name("one more")));
    assert_eq!(bench.constructed(0, 10), Some((Status::ERR_OUT_OF_RESOURCE, None)));
    bench.deregister_nspace(&nspace());
    assert!(bench.engine.groups.is_empty());
}

#[test]
fn an_invitation_that_is_complete_is_a_group() {
    let mut bench = Bench::new(0, 1, 3);
    let members = Value::procs([proc(0), proc(1)]);
    let told = |name: &str| {
        let infos =
            vec![Info::new(keys::GROUP_ID, Value::string(name)), Info::new(keys::EVENT_CUSTOM_RANGE, members.clone())];
        Request::Notify { status: Status::GROUP_CONSTRUCT_COMPLETE, range: Range::CUSTOM, infos }
    };
    // A job's name stays its own.
    bench.request(0, 10, told("job"));
    bench.request(0, 10, told("team"));
    assert_eq!(bench.engine.groups.len(), 1);
    // A stranger says the same of others.
    let of_stranger = vec![
        Info::new(keys::GROUP_ID, Value::string("team")),
        Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([proc(1), proc(2)])),
    ];
    let (status, range) = (Status::GROUP_CONSTRUCT_COMPLETE, Range::CUSTOM);
    bench.request(2, 10, Request::Notify { status, range, infos: of_stranger });
    for rank in 0..2 {
        bench.destruct(rank, 11);
    }
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    // One that others belong to; so many, as if it were a member.
    for number in 0..GROUPS_MAX {
        bench.request(2, 10, told(&format!("group{number}")));
    }
    assert_eq!(bench.engine.groups.len(), GROUPS_MAX);
    bench.request(2, 10, told("one more"));
    assert_eq!(bench.engine.groups.len(), GROUPS_MAX);
}

#[test]
fn a_group_with_processes_of_jobs_elsewhere_ends_with_the_last_job_that_is_known_here() {
    let mut bench = Bench::new(0, 1, 1);
    let elsewhere = Proc::new(Nspace::new("elsewhere").unwrap(), Rank(0));
    bench.construct(0, 10, vec![proc(0), elsewhere], Vec::new());
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, Vec::new()));
    assert_eq!(bench.constructed(0, 10), Some((Status::SUCCESS, None)));
    assert_eq!(bench.engine.groups.len(), 1);
    // Nobody tells this server of the end of the other job.
    bench.deregister_nspace(&nspace());
    assert!(bench.engine.groups.is_empty());
}
