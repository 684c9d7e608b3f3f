//! What the server tells tools of what waits, and of who is connected.

use pmix_client::inspection::{self, Collective, Connection, Element, JobDirectory, Lost, Missed, Wait};

use super::*;
use crate::access::User;
use crate::engine::peer::Actor;

impl Bench {
    /// What rank 0 is told; the host is not asked.
    fn inspected<T: Element>(&mut self) -> Vec<T> {
        assert!(self.upcalls.is_empty(), "{:?}", self.upcalls);
        let (status, infos) = self.asked(T::KEY, Vec::new(), UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
        assert_eq!(status, Status::SUCCESS);
        inspection::elements(&infos)
    }
}

#[test]
fn a_fence_names_who_has_not_entered() {
    let mut bench = Bench::new(0, 1, 4);
    assert_eq!(bench.inspected::<Collective>(), []);
    bench.fence(3, 10, everybody(), Vec::new());
    bench.pass(Duration::from_millis(2500));
    bench.fence(1, 10, everybody(), Vec::new());
    bench.lose(2);
    let fence = Collective {
        operation: "fence".into(),
        procs: everybody(),
        named: everybody().len() as u64,
        age: Duration::from_millis(2500),
        entered: vec![proc(1), proc(3)],
        absent: vec![proc(0)],
        at_host: false,
    };
    assert_eq!(bench.inspected::<Collective>(), [fence]);
    bench.fence(0, 10, everybody(), Vec::new());
    let after = bench.inspected::<Collective>();
    assert_eq!(after, [], "it is over");
}

#[test]
fn a_fence_of_many_named_processes_is_told_in_short() {
    let mut bench = Bench::new(0, 1, 100);
    let all: Vec<Proc> = (0..100).map(proc).collect();
    bench.fence(7, 10, all.clone(), Vec::new());
    bench.fence(0, 10, all.clone(), Vec::new());
    let told = bench.inspected::<Collective>();
    assert_eq!((told[0].procs.as_slice(), told[0].named), (&all[..64], 100));
    assert_eq!(told[0].absent, all.into_iter().filter(|proc| ![0, 7].contains(&proc.rank.0)).collect::<Vec<_>>());
}

#[test]
fn a_fence_at_the_host_lacks_nobody_here() {
    let mut bench = Bench::new(0, 2, 2);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    let fence = bench.upcalls.pop();
    let told = bench.inspected::<Collective>();
    assert_eq!((told.len(), told[0].at_host, &told[0].absent), (1, true, &Vec::new()));
    assert!(fence.is_some());
}

#[test]
fn a_get_that_waits_is_told_and_counted_if_the_key_does_not_come() {
    let mut bench = Bench::new(0, 1, 2);
    bench.put(1, 3, "key", 5);
    bench.get(0, 21, 1, "other", Vec::new());
    bench.pass(Duration::from_millis(1500));
    let wait = Wait {
        asker: proc(0),
        of: proc(1),
        key: Some("other".into()),
        age: Duration::from_millis(1500),
        at_host: false,
    };
    assert_eq!(bench.inspected::<Wait>(), [wait]);
    assert_eq!(bench.inspected::<Missed>(), []);
    for tag in 22..24 {
        bench.pass(Duration::from_secs(3));
        bench.get(0, tag, 1, "other", Vec::new());
    }
    assert_eq!(bench.inspected::<Missed>(), [Missed { of: proc(1), key: "other".into(), count: 2 }]);
    bench.put(1, 3, "other", 6);
    assert_eq!(bench.inspected::<Missed>(), [], "it has come");
    bench.deregister_nspace(&nspace());
    assert_eq!(bench.engine.missed.len(), 0);
}

#[test]
fn counted_keys_are_bounded() {
    let mut missed = super::super::inspection::MissedKeys::default();
    for number in 0..1000 {
        missed.count(&proc(number), &Key::from("k"));
        missed.count(&proc(0), &Key::from("k"));
    }
    assert_eq!(missed.len(), 256);
}

#[test]
fn connections_have_release_and_store() {
    let mut bench = Bench::new(0, 1, 2);
    bench.lose(1);
    assert_eq!(bench.inspected::<Lost>(), [Lost { proc: proc(1) }]);
    let told = bench.inspected::<Connection>();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].proc, told[0].is_tool, told[0].is_shared), (&proc(0), false, false));
    assert_eq!(told[0].release, Bench::hello(0).version);
}

#[test]
fn nothing_is_told_of_jobs_that_the_asker_may_not_see() {
    let mut bench = Bench::new(0, 1, 2);
    bench.put(1, 3, "key", 5);
    bench.get(0, 20, 1, "other", Vec::new());
    bench.pass(Duration::from_secs(3));
    bench.get(0, 21, 1, "other", Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    let stranger = Actor { proc: Proc::new(Nspace::new("tools").unwrap(), Rank(0)), user: User { uid: 77, gid: None } };
    let owner = Actor { user: User { uid: 1000, gid: None }, ..stranger.clone() };
    for key in [inspection::COLLECTIVES, inspection::WAITS, inspection::MISSED, inspection::CONNECTIONS] {
        let told = |actor: &Actor| {
            let key = CString::new(key).unwrap();
            let info = bench.engine.inspect(&key, &[], (peer(0), actor), bench.now).unwrap();
            let Value::DataArray(array) = info.value else { panic!() };
            array.items.len()
        };
        assert_eq!(told(&stranger), 0, "{key}");
        assert!(told(&owner) > 0, "{key}");
    }
}

/// Who sees a job and is on this node is told where its segments are.
#[test]
fn the_directory_of_a_job_is_told_on_this_node_to_who_sees_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::connected_in(directory.path(), 2);
    attach(&mut bench, 0);
    let named = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    let name = || UpcallResult::Name(Status::SUCCESS, Some(named.clone()));
    let munge = Transport::Munge { uid: 1000, gid: 1000, is_remote: true, is_bound: true };
    let (mut of_other_host, _) = tool(1000);
    of_other_host.psec = "munge".into();
    for (number, (knocks, nspace, is_told)) in [
        (tool(1000), "job", true),
        (tool(0), "job", true),
        (tool(1000), "unknown", false),
        ((of_other_host, munge), "job", false),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(bench.knock(peer(50), knocks, name()).is_some(), "case {number}: {:?}", bench.log);
        let about = Info { flags: InfoFlags::QUALIFIER, ..Info::new(keys::NSPACE, Value::string(nspace)) };
        let query = Query { keys: vec![CString::new(JobDirectory::KEY).unwrap()], qualifiers: vec![about] };
        bench.request(50, 60, Request::Query { queries: vec![query] });
        let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(50, 60).unwrap()).unwrap();
        let told: Vec<JobDirectory> = inspection::elements(&reply.infos.unwrap_or_default());
        assert_eq!(told.len(), usize::from(is_told), "case {number}");
        for JobDirectory { path, id } in told {
            assert!(path.starts_with(directory.path()) && Directory::open(&path, id).is_ok(), "{}", path.display());
        }
        bench.lose(50);
    }
    let stranger = Actor { proc: named.clone(), user: User { uid: 77, gid: None } };
    let about = [Info::new(keys::NSPACE, Value::string("job"))];
    let told = bench.engine.inspect(c"pmix.dstore.directory", &about, (peer(0), &stranger), bench.now).unwrap();
    assert_eq!(inspection::elements::<JobDirectory>(&[told]), []);
}
