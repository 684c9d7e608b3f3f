//! Groups with leaders that do not know each other, with added members, and with data of members.

use super::*;
use crate::GroupOperation;
use crate::engine::limits::GROUP_MEMBERS_MAX;
use pmix_dstore::model::InfoFlags;
use pmix_wire::reply::Group;

fn team() -> Option<CString> {
    Some(c"team".to_owned())
}

/// A leader of so many says that it adds a member.
fn leads(leaders: u64, added: u32) -> Vec<Info> {
    vec![
        Info::new(keys::GROUP_BOOTSTRAP, Value::Size(leaders)),
        Info::new(keys::GROUP_ADD_MEMBERS, Value::procs([proc(added)])),
    ]
}

/// What a member sends to the others.
fn sends(number: u64) -> Info {
    Info::new(keys::GROUP_INFO, Value::infos([Info::new("colour", Value::Size(number))]))
}

fn of_context(context: u64) -> Vec<Info> {
    let info = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
    vec![Info { flags: InfoFlags::QUALIFIER, ..info }]
}

impl Bench {
    fn forms(&mut self, rank: u32, procs: Vec<Proc>, infos: Vec<Info>) {
        self.request(rank, 10, Request::GroupConstruct { group: team(), procs, infos });
    }

    fn formed(&mut self, rank: u32) -> Option<(Status, Option<Group>)> {
        let bytes = self.reply(rank, 10)?;
        let reply = GroupReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        Some((reply.status, reply.group))
    }

    fn status_formed(&mut self, rank: u32) -> Option<Status> {
        self.formed(rank).map(|(status, _)| status)
    }

    /// The value that a rank gets of another one in a group.
    fn colour(&mut self, rank: u32, of: u32, context: u64) -> Option<Value> {
        self.get(
            rank,
            11,
            of,
            "colour",
            [of_context(context), vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]].concat(),
        );
        let bytes = self.reply(rank, 11)?;
        let reply = GetReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        let all = reply.objects.iter().flat_map(|(_, kvals)| kvals).filter(|kval| kval.key.is(keys::QUALIFIED_VALUE));
        let found = all.map(|kval| kval.value.iter_infos().cloned().collect::<Vec<_>>());
        found.into_iter().find(|infos| infos[1].value == Value::Size(context)).map(|infos| infos[0].value.clone())
    }
}

#[test]
fn leaders_and_added_members_are_told_to_the_host_one_by_one_and_answered_together() {
    let mut bench = Bench::new(0, 1, 6);
    bench.forms(4, Vec::new(), Vec::new());
    bench.forms(0, vec![proc(0)], leads(2, 5));
    bench.forms(3, vec![proc(3)], leads(2, 4));
    bench.forms(5, Vec::new(), Vec::new());
    bench.forms(1, Vec::new(), Vec::new());
    let told: Vec<(Vec<Proc>, Option<Proc>)> = bench
        .upcalls
        .iter()
        .map(|(_, upcall)| match upcall {
            Upcall::Group { operation: GroupOperation::Construct, procs, infos, .. } => {
                (procs.clone(), Info::find(infos, keys::PROCID).and_then(|named| named.iter_procs().next().cloned()))
            }
            other => panic!("{other:?}"),
        })
        .collect();
    // Who names nobody is named by the server.
    let joins = |rank| (Vec::new(), Some(proc(rank)));
    let leads = |rank| (vec![proc(rank)], None);
    assert_eq!(told, [joins(4), leads(0), leads(3), joins(5), joins(1)]);
    // The host's answer to one is the answer to all; whom nobody has added is no member.
    let members = [0, 3, 4, 5].map(proc);
    let answer = || vec![Info::new(keys::GROUP_MEMBERSHIP, Value::procs(members.clone()))];
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, answer()));
    assert_eq!(bench.formed(1), Some((Status::ERR_NOT_A_MEMBER, None)));
    for rank in [0, 3, 4, 5] {
        let (status, group) = bench.formed(rank).unwrap();
        assert_eq!((status, group.unwrap().members), (Status::SUCCESS, members.to_vec()), "{rank}");
    }
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, answer()));
    assert!(bench.engine.collectives.is_empty());
    let all = vec![Proc::new(Nspace::new("team").unwrap(), Rank::WILDCARD)];
    assert_eq!(bench.engine.members_of(&proc(0), all), Ok(members.to_vec()));
}

#[test]
fn a_host_that_does_not_say_who_is_in_a_group_has_not_formed_it() {
    let mut bench = Bench::new(0, 1, 2);
    bench.forms(0, vec![proc(0)], leads(1, 1));
    bench.answer_last(UpcallResult::Op(Status::OPERATION_SUCCEEDED));
    assert_eq!(bench.status_formed(0), Some(Status::ERR_NOT_SUPPORTED));
    assert!(bench.log.iter().any(|line| line.contains("PMIX_GROUP_MEMBERSHIP is missing")), "{:?}", bench.log);
    assert!(bench.engine.groups.is_empty());
}

#[test]
fn a_time_out_names_who_is_missing_and_ends_it_for_all() {
    let mut bench = Bench::new(0, 1, 6);
    let late = || Info::new(keys::TIMEOUT, Value::Int(2));
    bench.forms(4, Vec::new(), Vec::new());
    bench.forms(0, vec![proc(0)], [leads(3, 5), vec![late()]].concat());
    bench.pass(Duration::from_secs(3));
    for rank in [0, 4] {
        assert_eq!(bench.status_formed(rank), Some(Status::ERR_TIMEOUT), "{rank}");
    }
    let line = bench.log.pop().unwrap();
    assert!(line.ends_with("timed out; missing: 2 of 3 leaders, and job:5"), "{line}");
    bench.forms(4, Vec::new(), vec![late()]);
    bench.pass(Duration::from_secs(3));
    assert!(bench.log.pop().unwrap().ends_with("missing: its leaders"));
    assert_eq!(bench.status_formed(4), Some(Status::ERR_TIMEOUT));
    // A late answer is nobody's.
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, Vec::new()));
    assert!(bench.engine.collectives.is_empty() && bench.engine.groups.is_empty());
}

#[test]
fn the_leaders_of_a_plain_construct_add_members_together() {
    let mut bench = Bench::new(0, 1, 4);
    let adds = |rank| vec![Info::new(keys::GROUP_ADD_MEMBERS, Value::procs([proc(rank), proc(2)]))];
    let leaders = || vec![proc(0), proc(1)];
    bench.forms(0, leaders(), adds(2));
    assert!(bench.upcalls.is_empty());
    bench.forms(1, leaders(), adds(3));
    let answer = vec![Info::new(keys::GROUP_MEMBERSHIP, Value::procs((0..4).map(proc)))];
    let Upcall::Group { procs, infos, .. } = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, answer)) else {
        panic!("a group")
    };
    let added: Vec<Value> =
        infos.into_iter().filter(|info| info.key.is(keys::GROUP_ADD_MEMBERS)).map(|info| info.value).collect();
    assert_eq!((procs, added), (leaders(), vec![Value::procs([proc(2), proc(3)])]));
    assert_eq!(bench.formed(1).unwrap().1.unwrap().members.len(), 4);
}

#[test]
fn members_get_what_the_others_have_sent_by_the_context_id() {
    let mut bench = Bench::new(0, 1, 2);
    for (rank, context) in [(0, 7), (1, 7), (0, 8), (1, 8)] {
        let wants = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true));
        bench.forms(rank, everybody(), vec![wants, sends(context * 10 + u64::from(rank))]);
        if rank == 1 {
            // A host that only assigns the id.
            let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
            let upcall = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, vec![context]));
            let Upcall::Group { infos, .. } = upcall else { panic!("{upcall:?}") };
            assert_eq!(infos.iter().filter(|info| info.key.is(keys::GROUP_INFO)).count(), 2);
            for rank in 0..2 {
                let (_, group) = bench.formed(rank).unwrap();
                let group = group.unwrap();
                let of: Vec<&Proc> = group
                    .infos
                    .iter()
                    .filter_map(|info| info.value.iter_infos().next()?.value.iter_procs().next())
                    .collect();
                assert_eq!((of, group.members), (vec![&proc(0), &proc(1)], everybody_of(2)));
            }
        }
    }
    for (of, context) in [(0, 7), (1, 7), (0, 8), (1, 8)] {
        assert_eq!(bench.colour(1, of, context), Some(Value::Size(context * 10 + u64::from(of))));
    }
    assert_eq!(bench.colour(1, 0, 9), None);
}

fn everybody_of(count: u32) -> Vec<Proc> {
    (0..count).map(proc).collect()
}

#[test]
fn the_host_brings_what_members_of_other_nodes_have_sent() {
    let mut bench = Bench::new(0, 2, 1);
    let of_other = |key: &'static str| {
        let from = Info::new(keys::PROCID, Value::Proc(proc(1)));
        Info::new(key, Value::infos([from, Info::new("address", Value::string("tcp://1"))]))
    };
    bench.forms(0, everybody(), vec![sends(5)]);
    let sent = Value::infos([Info::new(keys::PROCID, Value::Proc(proc(1))), Info::new("colour", Value::Size(6))]);
    let all = Value::infos([Info::new("any", sent)]);
    let answer = vec![
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(9)),
        Info::new(keys::GROUP_INFO_ARRAY, all),
        of_other(keys::GROUP_ENDPT_DATA),
    ];
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, answer));
    assert_eq!(bench.status_formed(0), Some(Status::SUCCESS));
    assert_eq!(bench.colour(0, 1, 9), Some(Value::Size(6)));
    // Without a question to the other node.
    bench.get(0, 12, 1, "address", Vec::new());
    let reply = GetReply::decode(PLAIN, Version::OURS, &bench.reply(0, 12).unwrap()).unwrap();
    let found = reply.objects.iter().flat_map(|(_, kvals)| kvals).any(|kval| kval.value == Value::string("tcp://1"));
    assert!(found && bench.upcalls.is_empty(), "{reply:?}");
}

#[test]
fn a_construct_that_asks_for_too_much_or_speaks_for_others_is_refused() {
    let mut bench = Bench::new(0, 1, 2);
    let of_other = Value::infos([Info::new(keys::PROCID, Value::Proc(proc(1))), Info::new("colour", Value::Size(6))]);
    let too_much = Value::infos([Info::new("colour", Value::ByteObject(vec![0; 9 << 20].into()))]);
    let many = Value::procs(std::iter::repeat_n(proc(1), GROUP_MEMBERS_MAX + 1));
    let refused = [
        (Info::new(keys::GROUP_INFO, of_other.clone()), Status::ERR_BAD_PARAM),
        (Info::new(keys::PROC_INFO_ARRAY, of_other), Status::ERR_BAD_PARAM),
        (Info::new(keys::GROUP_INFO, Value::Int(1)), Status::ERR_TYPE_MISMATCH),
        (Info::new(keys::GROUP_INFO, Value::infos([])), Status::ERR_TYPE_MISMATCH),
        (Info::new(keys::GROUP_INFO, too_much), Status::ERR_OUT_OF_RESOURCE),
        (Info::new(keys::GROUP_ADD_MEMBERS, many), Status::ERR_OUT_OF_RESOURCE),
        (Info::new(keys::GROUP_ADD_MEMBERS, Value::Int(1)), Status::ERR_BAD_PARAM),
        (Info::new(keys::GROUP_BOOTSTRAP, Value::Size(0)), Status::ERR_BAD_PARAM),
        (Info::new(keys::GROUP_BOOTSTRAP, Value::string("two")), Status::ERR_BAD_PARAM),
    ];
    for (info, status) in refused {
        let key = info.key.clone();
        bench.forms(0, everybody(), vec![info]);
        assert_eq!(bench.status_formed(0), Some(status), "{key:?}");
    }
    bench.forms(0, vec![proc(1)], leads(2, 1));
    assert_eq!(bench.status_formed(0), Some(Status::ERR_NOT_A_MEMBER));
    // Each of them sends little enough, both do not.
    let half =
        || Info::new(keys::GROUP_INFO, Value::infos([Info::new("colour", Value::ByteObject(vec![0; 5 << 20].into()))]));
    for rank in 0..2 {
        bench.forms(rank, everybody(), vec![half()]);
    }
    for rank in 0..2 {
        assert_eq!(bench.status_formed(rank), Some(Status::ERR_OUT_OF_RESOURCE));
    }
    // One that joins is in it once.
    bench.forms(0, Vec::new(), Vec::new());
    bench.forms(0, Vec::new(), Vec::new());
    assert_eq!(bench.status_formed(0), Some(Status::ERR_EXISTS));
    assert!(bench.engine.groups.is_empty());
}

/// Libraries add endpoint data without being asked, so it must not fail the construct. Gets bring the values.
#[test]
fn endpoint_data_that_is_too_much_is_left_out() {
    let bytes = |mib: usize| {
        let data = Info::new("address", Value::ByteObject(vec![0; mib << 20].into()));
        Info::new(keys::PROC_INFO_ARRAY, Value::infos([data]))
    };
    // Of one process, and of both together.
    for (first, second, kept) in [(9, 1, 1), (9, 9, 0), (5, 5, 1), (1, 1, 2)] {
        let mut bench = Bench::new(0, 1, 2);
        let wants = || Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true));
        bench.forms(0, everybody(), vec![wants(), bytes(first)]);
        bench.forms(1, everybody(), vec![wants(), bytes(second)]);
        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
        let Upcall::Group { infos, .. } = bench.answer_last(UpcallResult::Infos(Status::SUCCESS, vec![context])) else {
            panic!("a group")
        };
        let told = infos.iter().filter(|info| info.key.is(keys::PROC_INFO_ARRAY)).count();
        assert_eq!((told, bench.status_formed(0)), (kept, Some(Status::SUCCESS)), "{first} and {second} MiB");
    }
}
