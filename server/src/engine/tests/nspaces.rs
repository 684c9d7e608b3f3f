//! Jobs and clients that are registered, again, or no longer.

use super::*;

#[test]
fn a_deregistered_namespace_lets_its_waiters_go() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(0, 20, 1, "key", Vec::new());
    bench.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(bench.value(0, 20, "key"), Some(Err(Status::ERR_NOT_FOUND)));
}

#[test]
fn data_of_deregistered_jobs_are_freed_after_earlier_work() {
    let mut bench = Bench::new(0, 1, 2);
    let job = bench.engine.job(&nspace()).unwrap();
    bench.deregister_nspace(&nspace());
    let of_caller = Arc::new(Mutex::new(0));
    let (seen, watched) = (of_caller.clone(), job.clone());
    bench.engine.defer(Box::new(move || *seen.lock() = Arc::strong_count(&watched)));
    bench.engine.free_discarded();
    bench.drain();
    assert_eq!(*of_caller.lock(), 3, "this one's, the callback's, and the data to be freed");
    assert_eq!(Arc::strong_count(&job), 1);
}

#[test]
fn a_deregistered_namespace_ends_its_fences_and_connections() {
    let mut bench = Bench::new(0, 1, 2);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(bench.status(0, 10), Some(Status::ERR_NOT_FOUND));
    bench.closed.sort();
    assert_eq!(bench.closed, [peer(0), peer(1)]);
    // The next job of the name: the old one's connections mean nothing to it.
    for rank in 0..2 {
        bench.register_client(&proc(rank), 1000, 1000, 0);
        connect_as(&mut bench, PeerId(u64::from(rank) + 900), rank);
    }
    let payload = Request::Commit { parts: vec![(3, vec![Kval { key: Key::from("old"), value: Value::Int(1) }])] };
    bench.engine.message(peer(1), 10, payload.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    bench.lose(1);
    assert!(bench.engine.nspaces[&nspace()].is_alive(Rank(1)));
    assert!(!bench.engine.nspaces[&nspace()].visible.has_rank(Rank(1)));
}

#[test]
fn a_client_registered_anew_is_not_touched_by_its_old_connection() {
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.deregister_client(&proc(1));
    bench.register_client(&proc(1), 1000, 1000, 0);
    connect_as(&mut bench, PeerId(900), 1);
    bench.lose(1);
    assert!(bench.engine.nspaces[&nspace()].is_alive(Rank(1)));
}

#[test]
fn registering_a_client_again_keeps_its_secret_and_connections() {
    let mut bench = Bench::new(0, 1, 1);
    bench.put(0, 3, "key", 1);
    let before = bench.engine.nspaces[&nspace()].clients[&Rank(0)].secret.text().to_owned();
    bench.register_client(&proc(0), 1000, 1000, 8);
    let client = &bench.engine.nspaces[&nspace()].clients[&Rank(0)];
    assert_eq!((client.secret.text(), client.committed, client.object), (before.as_str(), true, 8));
    assert_eq!(client.connections.len(), 1);
}

#[test]
fn published_data_outlives_deregistration_of_its_rank() {
    let mut bench = Bench::new(0, 2, 2);
    bench.put(1, 3, "key", 5);
    bench.engine.deregister_client(&proc(1));
    bench.get(0, 20, 1, "key", Vec::new());
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(5)));
    bench.get(0, 21, 1, "other", Vec::new());
    assert_eq!(bench.value(0, 21, "other"), Some(Err(Status::ERR_NOT_FOUND)));
    let answers = Arc::new(Mutex::new(Vec::new()));
    bench.engine.deregister_client(&proc(0));
    for rank in 0..2 {
        let answered = answers.clone();
        let done = Box::new(move |status, data: Vec<u8>| answered.lock().push((status, data.is_empty())));
        bench.engine.dmodex_request(proc(rank), done);
    }
    bench.drain();
    assert_eq!(*answers.lock(), [(Status::ERR_NOT_FOUND, true), (Status::SUCCESS, false)]);
}

#[test]
fn another_rank_that_registers_does_not_stand_in_for_one_that_left() {
    let mut bench = Bench::without_clients(0, 1, 3);
    bench.register_client(&proc(0), 1000, 1000, 0);
    bench.engine.deregister_client(&proc(0));
    for rank in 1..3 {
        bench.register_client(&proc(rank), 1000, 1000, 0);
        bench.connect(rank);
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    assert_eq!(bench.status(1, 10), Some(Status::ERR_PARTIAL_SUCCESS), "the fence is over, without rank 0");
    assert!(bench.log[0].contains("goes on without job:0, which ended before"), "{:?}", bench.log);
    (1..3).for_each(|rank| bench.fence(rank, 11, everybody(), Vec::new()));
    assert_eq!(bench.log.len(), 1, "{:?}", bench.log);
}

#[test]
fn job_cleanup_waits_for_the_end_of_the_job() {
    let top = tempfile::tempdir().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut bench = Bench::without_clients(0, 1, 2);
    for rank in 0..2 {
        bench.register_client(&proc(rank), uid, gid, 0);
        let hello = Hello { credential: Hello::native_credential(uid, gid), ..Bench::hello(rank) };
        bench.engine.hello(peer(rank), TCP, hello);
        bench.drain();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    }
    let cases = [("own", vec![proc(0)]), ("none", vec![]), ("all", everybody())];
    for (name, targets) in cases.clone() {
        let file = top.path().join(name);
        std::fs::write(&file, "").unwrap();
        let directives = vec![Info::new(keys::REGISTER_CLEANUP, Value::string(file.to_str().unwrap()))];
        bench.request(0, 10, Request::JobControl { targets, directives });
        assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    }
    // Directives other than clean-up go to the host, with those beside them.
    let how = [keys::CLEANUP_RECURSIVE, keys::CLEANUP_LEAVE_TOPDIR, keys::JOB_CTRL_PAUSE];
    let how = how.map(|key| Info::new(key, Value::Bool(true)));
    let directory = Info::new(keys::REGISTER_CLEANUP_DIR, Value::string(top.path().join("no").to_str().unwrap()));
    for (count, is_for_host) in [(2, false), (3, true)] {
        let directives = [std::slice::from_ref(&directory), &how[..count]].concat();
        bench.request(0, 10, Request::JobControl { targets: vec![], directives });
        let asked = bench.upcalls.iter().any(|(_, upcall)| matches!(upcall, Upcall::JobControl { .. }));
        assert_eq!(asked, is_for_host);
    }
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, vec![]));
    let left = || cases.iter().filter(|(name, _)| top.path().join(name).exists()).count();
    bench.request(0, 11, Request::Finalize);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    bench.lose(0);
    assert!(!top.path().join("own").exists());
    assert_eq!(left(), 2, "rank 1 may use what belongs to the job");
    bench.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(left(), 0);
}

#[test]
fn collected_job_data_is_read_back() {
    let bench = Bench::new(0, 2, 2);
    assert_eq!(bench.engine.collect_job_info(&[]), Err(Status::ERR_BAD_PARAM));
    let stranger = Proc::new(Nspace::new("stranger").unwrap(), Rank(0));
    assert_eq!(bench.engine.collect_job_info(std::slice::from_ref(&stranger)), Ok(Vec::new()));
    let bytes = bench.engine.collect_job_info(&[proc(0), stranger, proc(1)]).unwrap();
    let mut unpacker = Unpacker::new(EXCHANGE, &bytes);
    let object = unpacker.byte_object().unwrap();
    assert!(unpacker.is_empty(), "each job once");
    let job = jobinfo::decode(EXCHANGE, object).unwrap();
    let known = bench.engine.job(&nspace()).unwrap();
    assert_eq!((job.nspace.clone(), job.size()), (nspace(), known.size()));
    for rank in (0..4).map(Rank) {
        let hostname =
            |job: &JobData| job.procs.get(rank, keys::HOSTNAME.as_bytes()).map(|name| name.to_value().unwrap());
        assert!(hostname(&job).is_some() && hostname(&job) == hostname(&known), "{rank}");
    }
}
