//! Gets over the socket, commits that they wait for, and direct modex.

use super::*;

#[test]
fn values_of_a_refused_commit_are_not_waited_for() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(1, 101, 0, "k", Vec::new());
    bench.engine.refuse(peer(0), 50, 1 << 20, false);
    bench.drain();
    assert_eq!((bench.status(0, 50), bench.value(1, 101, "k")), (Some(Status::ERR_NOMEM), None));
    assert!(bench.log.pop().is_some_and(|line| line.contains("1048576 bytes from job:0")), "{:?}", bench.log);
    bench.engine.refuse(peer(0), 51, 1 << 20, true);
    bench.drain();
    assert_eq!(bench.status(0, 51), Some(Status::ERR_NOMEM));
    assert_eq!(bench.value(1, 101, "k"), Some(Err(Status::ERR_NOMEM)));
    bench.get(1, 102, 0, "k", Vec::new());
    assert_eq!(bench.value(1, 102, "k"), Some(Err(Status::ERR_NOMEM)));
    // It tries again with success.
    bench.put(0, 1, "k", 7);
    bench.get(1, 103, 0, "k", Vec::new());
    assert_eq!(bench.value(1, 103, "k"), Some(Ok(7)));
    bench.get(1, 104, 0, "later", Vec::new());
    assert_eq!(bench.value(1, 104, "later"), None);
}

#[test]
fn a_first_commit_is_answered_only_if_it_is_refused() {
    const MIB: usize = 1 << 20;
    let mut bench = Bench::new(0, 1, 2);
    bench.get(1, 101, 0, "k", Vec::new());
    let commit = |value| Request::Commit { parts: vec![(1, vec![Kval { key: Key::from("k"), value }])] };
    bench.engine.refuse(peer(0), TAG_FIRST_COMMIT, MIB, true);
    bench.drain();
    assert_eq!(bench.status(0, TAG_FIRST_COMMIT), Some(Status::ERR_NOMEM));
    assert_eq!(bench.value(1, 101, "k"), Some(Err(Status::ERR_NOMEM)));
    bench.request(0, TAG_FIRST_COMMIT, commit(Value::Uint32(7)));
    bench.get(1, 102, 0, "k", Vec::new());
    assert_eq!((bench.status(0, TAG_FIRST_COMMIT), bench.value(1, 102, "k")), (None, Some(Ok(7))));
    // Such commits do not count as requests without an answer, of which a connection may have 16 MiB.
    for _ in 0..20 {
        bench.request(0, TAG_FIRST_COMMIT, commit(Value::ByteObject(vec![0; MIB].into())));
    }
    assert_eq!(bench.status(0, TAG_FIRST_COMMIT), None);
    bench.put(0, 1, "k", 8);
}

#[test]
fn a_get_waits_for_the_commit_of_a_local_rank() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(0, 20, 1, "key", Vec::new());
    assert_eq!(bench.value(0, 20, "key"), None);
    bench.put(1, 3, "key", 5);
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(5)));
    bench.get(0, 21, 1, "other", Vec::new());
    assert_eq!(bench.value(0, 21, "other"), None, "it may commit again");
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.value(0, 21, "other"), Some(Err(Status::ERR_NOT_FOUND)));
}

#[test]
fn a_get_waits_for_a_late_key_as_long_as_is_set() {
    let with_wait = |wait: Duration| {
        let mut bench = Bench::new(0, 2, 2);
        bench.engine.config.late_key_wait = wait;
        bench.put(1, 3, "key", 5);
        bench
    };
    let mut bench = with_wait(LATE_KEY_WAIT);
    bench.get(0, 20, 1, "other", Vec::new());
    bench.pass(Duration::from_millis(1900));
    assert_eq!(bench.value(0, 20, "other"), None, "stock servers wait for 2 s");

    let mut bench = with_wait(Duration::ZERO);
    bench.get(0, 20, 1, "other", Vec::new());
    bench.pass(Duration::ZERO);
    assert_eq!(bench.value(0, 20, "other"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.get(0, 21, 1, "other", vec![Info::new(keys::TIMEOUT, Value::Int(5))]);
    bench.get(1, 22, 0, "other", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    bench.get(1, 23, 0, "other", Vec::new());
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.value(0, 21, "other"), None, "the time that the caller names");
    assert_eq!((bench.value(1, 22, "other"), bench.value(1, 23, "other")), (None, None), "a first commit is to come");
    bench.put(1, 3, "other", 6);
    assert_eq!(bench.value(0, 21, "other"), Some(Ok(6)));

    let mut bench = with_wait(Duration::from_secs(3600));
    bench.get(0, 20, 1, "other", Vec::new());
    bench.pass(Duration::from_secs(1800));
    bench.put(1, 3, "other", 6);
    assert_eq!(bench.value(0, 20, "other"), Some(Ok(6)));
}

#[test]
fn remote_scope_values_of_local_ranks_are_not_waited_for() {
    let mut bench = Bench::new(0, 2, 2);
    bench.get(1, 20, 0, "remote", Vec::new());
    assert_eq!(bench.value(1, 20, "remote"), None);
    bench.put(0, 2, "remote", 10);
    assert_eq!(bench.value(1, 20, "remote"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.get(1, 21, 0, "remote", Vec::new());
    assert_eq!(bench.value(1, 21, "remote"), Some(Err(Status::ERR_NOT_FOUND)));
    // It may be put again for all.
    bench.put(0, 3, "remote", 11);
    bench.get(1, 22, 0, "remote", Vec::new());
    assert_eq!(bench.value(1, 22, "remote"), Some(Ok(11)));
}

#[test]
fn a_get_ends_by_its_timeout_or_the_ranks_death() {
    let mut bench = Bench::new(0, 1, 3);
    bench.get(0, 20, 1, "key", vec![Info::new(keys::TIMEOUT, Value::Int(5))]);
    bench.get(0, 21, 2, "key", Vec::new());
    bench.pass(Duration::from_secs(4));
    assert_eq!(bench.value(0, 20, "key"), None);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.value(0, 20, "key"), Some(Err(Status::ERR_TIMEOUT)));
    bench.lose(2);
    assert_eq!(bench.value(0, 21, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.pass(LOSS_DELAY);
    assert!(bench.log.iter().any(|line| line.contains("job:2")), "{:?}", bench.log);
}

#[test]
fn an_immediate_get_waits_for_the_first_commit_of_a_local_rank_only() {
    let mut bench = Bench::new(0, 2, 4);
    let immediate = || vec![Info::new(keys::IMMEDIATE, Value::Bool(true))];
    let both = || vec![Info::new(keys::IMMEDIATE, Value::Bool(true)), Info::new(keys::OPTIONAL, Value::Bool(true))];
    bench.get(0, 20, 1, "key", immediate());
    assert_eq!(bench.value(0, 20, "key"), None, "rank 1 is about to commit");
    bench.get(0, 21, 1, "key", both());
    assert_eq!(bench.value(0, 21, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.put(1, 3, "key", 5);
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(5)));
    bench.get(0, 22, 1, "other", immediate());
    assert_eq!(bench.value(0, 22, "other"), Some(Err(Status::ERR_NOT_FOUND)), "rank 1 has committed");
    bench.get(0, 23, 4, "key", immediate());
    assert_eq!(bench.value(0, 23, "key"), Some(Err(Status::ERR_NOT_FOUND)), "rank 4 runs on another node");
    bench.get(1, 24, 0, "key", immediate());
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.value(1, 24, "key"), Some(Err(Status::ERR_NOT_FOUND)), "the wait is bounded");
    bench.get(0, 25, 0, "key", immediate());
    assert_eq!(bench.value(0, 25, "key"), Some(Err(Status::ERR_NOT_FOUND)), "its own commit");
    let mut patient = immediate();
    patient.push(Info::new(keys::TIMEOUT, Value::Int(60)));
    bench.get(1, 26, 0, "key", patient);
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.value(1, 26, "key"), Some(Err(Status::ERR_NOT_FOUND)), "whatever time it names");
    assert!(bench.upcalls.is_empty(), "the host is not asked: {:?}", bench.upcalls);
}

#[test]
fn each_timeout_ends_at_its_own_time() {
    let mut a = Bench::new(0, 1, 2);
    let within = |seconds| vec![Info::new(keys::TIMEOUT, Value::Int(seconds))];
    a.put(1, 3, "first", 1);
    // For a key that its rank may still put: to the end of the time, whether longer or shorter than the server waits itself.
    for (tag, seconds) in [(20, 1), (21, 5)] {
        a.get(0, tag, 1, "second", within(seconds));
    }
    a.get(0, 22, 1, "second", within(0));
    let requests = [
        (30, Request::Lookup { uid: 0, keys: vec!["service".into()], infos: within(3) }),
        (31, Request::Spawn { infos: within(3), apps: Vec::new() }),
        (32, Request::Query { queries: vec![Query { keys: vec![c"what".into()], qualifiers: within(3) }] }),
        (33, Request::JobControl { targets: Vec::new(), directives: within(3) }),
        (34, Request::Lookup { uid: 0, keys: vec!["service".into()], infos: within(0) }),
    ];
    requests.into_iter().for_each(|(tag, request)| a.request(0, tag, request));
    let mut heard = Vec::new();
    for half_second in 1..=12 {
        a.pass(Duration::from_millis(500));
        for tag in (20..40).filter(|tag| !heard.iter().any(|(_, heard, _)| heard == tag)).collect::<Vec<_>>() {
            heard.extend(a.status(0, tag).map(|status| (half_second, tag, status)));
        }
    }
    let late = Status::ERR_TIMEOUT;
    let expected =
        [(2, 20, late), (4, 22, Status::ERR_NOT_FOUND), (6, 30, late), (6, 31, late), (6, 32, late), (6, 33, late)];
    assert_eq!(heard, [&expected[..], &[(10, 21, late)]].concat());
    // The host's answers are too late for these Gets, and in time for the one that waits.
    let upcalls: Vec<u64> = a.upcalls.iter().map(|(id, _)| *id).collect();
    for id in upcalls {
        a.engine.answer(id, UpcallResult::Op(Status::ERR_NOT_FOUND));
    }
    a.drain();
    assert_eq!((30..40).filter_map(|tag| a.status(0, tag).map(|_| tag)).collect::<Vec<_>>(), [34]);
}

#[test]
fn a_host_wakes_the_servers_thread_only_for_work() {
    let mut bench = Bench::new(0, 1, 2);
    let within = |seconds| vec![Info::new(keys::TIMEOUT, Value::Int(seconds))];
    bench.engine.plan_wake_up();
    bench.engine.prepare_client(&proc(0));
    bench.engine.setup_fork(&proc(0));
    assert!(!bench.engine.needs_thread(), "the host asks for an environment");
    bench.get(0, 20, 1, "key", Vec::new());
    assert!(!bench.engine.needs_thread(), "this Get may wait for ever");
    bench.get(0, 21, 1, "key", within(30));
    assert!(bench.engine.needs_thread(), "the thread sleeps without end");
    bench.engine.plan_wake_up();
    bench.get(0, 22, 1, "key", within(60));
    assert!(!bench.engine.needs_thread(), "the thread wakes before");
    bench.get(0, 23, 1, "key", within(5));
    assert!(bench.engine.needs_thread(), "the thread wakes too late");
    bench.engine.plan_wake_up();
    bench.engine.defer(Box::new(|| ()));
    assert!(bench.engine.needs_thread(), "there is an output");
}

#[test]
fn the_first_get_that_may_be_late_wakes_the_server() {
    let mut bench = Bench::new(0, 1, 2);
    let begin = bench.now;
    let at = |seconds| Some(begin + Duration::from_secs(seconds));
    let within = |seconds| vec![Info::new(keys::TIMEOUT, Value::Int(seconds))];
    bench.get(0, 20, 1, "key", Vec::new());
    assert_eq!(bench.engine.deadline(), None);
    bench.get(0, 21, 1, "key", within(60));
    bench.get(0, 22, 1, "key", within(5));
    bench.get(0, 23, 1, "key", within(30));
    assert_eq!(bench.engine.deadline(), at(5));
    bench.pass(Duration::from_secs(5));
    assert_eq!((bench.status(0, 22), bench.status(0, 23)), (Some(Status::ERR_TIMEOUT), None));
    assert_eq!(bench.engine.deadline(), at(30));
    // They are answered; the server wakes once for nothing.
    bench.put(1, 3, "key", 1);
    assert_eq!(bench.value(0, 21, "key"), Some(Ok(1)));
    bench.pass(Duration::from_secs(25));
    assert_eq!(bench.engine.deadline(), None);
}

#[test]
fn direct_modex_is_asked_once_and_kept() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    a.get(0, 20, 2, "key", Vec::new());
    a.get(1, 20, 2, "key", Vec::new());
    assert_eq!(a.upcalls.len(), 1);
    let answers = Arc::new(Mutex::new(Vec::new()));
    let answered = answers.clone();
    let done = Box::new(move |status, data| answered.lock().push((status, data)));
    assert_eq!(b.engine.dmodex_request(proc(2), done), Status::SUCCESS);
    b.drain();
    assert!(answers.lock().is_empty(), "rank 2 has not committed");
    b.put(2, 1, "hidden", 1);
    b.put(2, 2, "key", 9);
    let (status, data) = answers.lock().pop().expect("the commit answers");
    assert_eq!(status, Status::SUCCESS);
    // The request was answered by the first commit, before `key` was put: as with released servers.
    let answered = answers.clone();
    let done = Box::new(move |status, data| answered.lock().push((status, data)));
    b.engine.dmodex_request(proc(2), done);
    b.drain();
    let (_, whole) = answers.lock().pop().expect("committed ranks are answered at once");
    assert!(whole.len() > data.len());
    a.answer_last(UpcallResult::Data(Status::SUCCESS, whole.into()));
    for rank in 0..2 {
        assert_eq!(a.value(rank, 20, "key"), Some(Ok(9)));
    }
    a.get(0, 21, 2, "key", Vec::new());
    assert_eq!(a.value(0, 21, "key"), Some(Ok(9)));
    a.get(0, 22, 2, "hidden", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(a.value(0, 22, "hidden"), Some(Err(Status::ERR_NOT_FOUND)));
    assert!(a.upcalls.is_empty());
}

/// Open MPI exchanges values in the background while its ranks request them, and a host may lose requests.
#[test]
fn a_fence_answers_pending_direct_modex_requests() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    a.get(0, 20, 1, "key", Vec::new());
    a.get(0, 21, 1, "late", vec![Info::new(keys::TIMEOUT, Value::Int(5))]);
    a.get(0, 22, 1, "other", Vec::new());
    let (asked, _) = a.upcalls.pop().expect("the host is asked");
    b.put(1, 3, "key", 1);
    let packed = |kvals: &[(&'static str, u32)]| {
        let kvals: Vec<_> = kvals.iter().map(|(key, value)| (Key::from(*key), Value::Uint32(*value))).collect();
        let data = blob::encode_modex(PLAIN, kvals.iter().map(|(key, value)| (key, value))).unwrap();
        UpcallResult::Data(Status::SUCCESS, data.into())
    };
    b.put(1, 3, "key", 2);
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        bench.fence(rank, 10, everybody(), collect());
    }
    a.pass(Duration::from_secs(4));
    exchange(&mut a, &mut b);
    assert_eq!(a.value(0, 20, "key"), Some(Ok(2)));
    assert_eq!((a.value(0, 21, "late"), a.value(0, 22, "other")), (None, None), "the host may bring these");
    assert!(a.upcalls.is_empty(), "and has been asked for them");
    a.pass(Duration::from_secs(1));
    assert_eq!(a.value(0, 21, "late"), Some(Err(Status::ERR_TIMEOUT)), "the fence is no reason to wait longer");
    // The host's answer was packed before the fence, or after it.
    a.engine.answer(asked, packed(&[("key", 1), ("other", 3)]));
    a.drain();
    assert_eq!(a.value(0, 22, "other"), Some(Ok(3)));
    a.get(0, 23, 1, "key", Vec::new());
    assert_eq!(a.value(0, 23, "key"), Some(Ok(2)), "none older than the last fence");
    // Requested after the fence, it is a new value.
    a.get(0, 24, 1, "key", vec![Info::new(keys::GET_REFRESH_CACHE, Value::Bool(true))]);
    a.answer_last(packed(&[("key", 4)]));
    assert_eq!(a.value(0, 24, "key"), Some(Ok(4)));
}

/// Clients from 5.0 on send this request before they look for the fresh value.
#[test]
fn a_refresh_brings_all_that_there_is_by_now() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    let refresh = |bench: &mut Bench, tag, of: u32| {
        let of = proc(of);
        bench.request(0, tag, Request::RefreshCache { nspace: of.nspace, rank: of.rank });
    };
    let told = |bench: &mut Bench, tag| -> Option<(Status, Vec<(String, Value)>)> {
        let payload = bench.reply(0, tag)?;
        let RefreshReply { status, kvals } = RefreshReply::decode(PLAIN, Version::OURS, &payload).unwrap();
        Some((status, kvals.into_iter().map(|kval| (kval.key.to_string(), kval.value)).collect()))
    };
    let nothing = Some((Status::ERR_NOT_FOUND, Vec::new()));
    let one = |number| Some((Status::SUCCESS, vec![("key".to_owned(), Value::Uint32(number))]));
    // A Get of the value follows, which waits for the commit: the refresh neither waits nor asks the host.
    for (tag, of) in [(20, 1), (21, 2), (22, 9)] {
        refresh(&mut a, tag, of);
        assert_eq!(told(&mut a, tag), nothing);
    }
    let of = Proc::new(Nspace::new("nobody").unwrap(), Rank(0));
    a.request(0, 23, Request::RefreshCache { nspace: of.nspace, rank: of.rank });
    assert_eq!(a.status(0, 23), Some(Status::ERR_NOT_FOUND));
    assert!(a.upcalls.is_empty());
    for number in 1..=2 {
        a.put(1, 3, "key", number);
        refresh(&mut a, 24 + number, 1);
        assert_eq!(told(&mut a, 24 + number), one(number));
    }
    b.put(2, 3, "key", 5);
    for (bench, ranks) in [(&mut a, 0..2), (&mut b, 2..4)] {
        ranks.for_each(|rank| bench.fence(rank, 10, everybody(), collect()));
    }
    exchange(&mut a, &mut b);
    // For a process of another node the host supplies the values put since.
    let packed = |number: u32| {
        let (key, value) = (Key::from("key"), Value::Uint32(number));
        let data = blob::encode_modex(PLAIN, [(&key, &value)].into_iter()).unwrap();
        UpcallResult::Data(Status::SUCCESS, data.into())
    };
    refresh(&mut a, 30, 2);
    assert_eq!(told(&mut a, 30), None);
    a.answer_last(packed(6));
    assert_eq!(told(&mut a, 30), one(6));
    // If the host does not supply the value, or does not answer, the present values stay.
    refresh(&mut a, 31, 2);
    a.answer_last(UpcallResult::Data(Status::ERR_NOT_FOUND, Vec::new().into()));
    assert_eq!(told(&mut a, 31), one(6));
    refresh(&mut a, 32, 2);
    a.pass(Duration::from_secs(3));
    assert_eq!(told(&mut a, 32), one(6));
}

#[test]
fn a_commit_of_nothing_ends_the_wait_for_it() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 2));
    let answers = Arc::new(Mutex::new(Vec::new()));
    let answered = answers.clone();
    let done = Box::new(move |status, data: Vec<u8>| answered.lock().push((status, data)));
    assert_eq!(b.engine.dmodex_request(proc(2), done), Status::SUCCESS);
    b.get(3, 20, 2, "key", Vec::new());
    b.request(2, 50, Request::Commit { parts: Vec::new() });
    assert_eq!(b.status(2, 50), Some(Status::SUCCESS));
    let (status, data) = answers.lock().pop().expect("the commit answers");
    a.get(0, 20, 1, "key", Vec::new());
    a.answer_last(UpcallResult::Data(status, data.into()));
    b.pass(Duration::from_secs(3));
    for (bench, rank) in [(&mut a, 0), (&mut b, 3)] {
        assert_eq!(bench.value(rank, 20, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    }
}

#[test]
fn a_host_without_direct_modex_is_an_answer() {
    let mut bench = Bench::new(0, 2, 1);
    bench.get(0, 20, 1, "key", Vec::new());
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.value(0, 20, "key"), Some(Err(Status::ERR_NOT_SUPPORTED)));
}

#[test]
fn direct_modex_brings_the_job_data_of_another_server() {
    let other = Nspace::new("other").unwrap();
    let (mut a, mut b) = (Bench::new(0, 1, 1), Bench::without_clients(0, 1, 1));
    let infos = [Info::new(keys::JOB_SIZE, Value::Uint32(3))];
    b.engine.register_nspace(JobPlan::read(&other, 1, &infos, None, NODES[0]).unwrap());
    let ask = |bench: &mut Bench, tag, rank, key: &'static str| {
        let key = Some(Key::from(key));
        bench.request(0, tag, Request::Get { nspace: other.clone(), rank, infos: Vec::new(), key });
    };
    ask(&mut a, 20, Rank(2), "key");
    let kval = Kval { key: Key::from("key"), value: Value::Uint32(6) };
    let data = blob::encode_modex(PLAIN, [(&kval.key, &kval.value)].into_iter()).unwrap();
    a.answer_last(UpcallResult::Data(Status::SUCCESS, data.into()));
    // The data of the job, of which the host knows nothing yet.
    a.answer_last(UpcallResult::Op(Status::ERR_NOT_FOUND));
    assert_eq!(a.value(0, 20, "key"), Some(Ok(6)));
    ask(&mut a, 21, Rank(2), "key");
    assert_eq!(a.value(0, 21, "key"), Some(Ok(6)), "and kept");
    ask(&mut a, 22, Rank::WILDCARD, keys::JOB_SIZE);
    let answer = Arc::new(Mutex::new(Vec::new()));
    let answered = answer.clone();
    let job = Proc::new(other.clone(), Rank::WILDCARD);
    b.engine.dmodex_request(job, Box::new(move |_, data| *answered.lock() = data));
    b.drain();
    let data = std::mem::take(&mut *answer.lock());
    a.answer_last(UpcallResult::Data(Status::SUCCESS, data.into()));
    assert_eq!(a.value(0, 22, keys::JOB_SIZE), Some(Ok(3)));
    ask(&mut a, 23, Rank::WILDCARD, keys::JOB_SIZE);
    assert_eq!(a.value(0, 23, keys::JOB_SIZE), Some(Ok(3)));
    ask(&mut a, 24, Rank::WILDCARD, keys::UNIV_SIZE);
    a.answer_last(UpcallResult::Data(Status::SUCCESS, Bytes::default()));
    assert_eq!(a.value(0, 24, keys::UNIV_SIZE), Some(Err(Status::ERR_NOT_FOUND)));
}

#[test]
fn gets_of_the_host_itself_never_wait() {
    let mut bench = Bench::new(0, 2, 1);
    for (tag, of) in [(10, 0), (11, 1)] {
        let (rank, key) = (Rank(of), Some(Key::from("key")));
        bench.enter_as(PeerId::OWN, tag, &Request::Get { nspace: nspace(), rank, infos: Vec::new(), key });
        let position = bench.sent.iter().position(|(to, of, _)| (*to, *of) == (PeerId::OWN, tag));
        let bytes = bench.sent.remove(position.expect("an answer at once")).2;
        assert_eq!(StatusReply::decode(PLAIN, Version::OURS, &bytes).unwrap().status, Status::ERR_NOT_FOUND);
    }
    assert!(bench.upcalls.is_empty(), "it may be the thread on which it would be answered");
}
