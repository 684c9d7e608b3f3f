//! Tools: how they come in, and under which name.

use super::*;

#[test]
fn a_tool_proves_itself_by_the_servers_secret() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.config.trust_claims = false;
    let secret = Secret::new().unwrap();
    let shows = |uid, owner, credential: &str| {
        let hello = Hello { psec: "pmix-dstore".into(), credential: credential.into(), ..tool(uid).0 };
        (hello, Transport::Tcp { owner })
    };
    let name = || UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    assert!(bench.knock(peer(50), shows(1000, Some(1000), secret.text()), name()).is_none(), "there is none");
    bench.engine.config.tool_secret = Some(secret.clone());
    for (uid, owner, credential, allowed) in [
        (1000, None, secret.text(), true),
        (0, None, secret.text(), true),
        (1000, Some(1000), secret.text(), true),
        (0, Some(0), secret.text(), true),
        (1000, None, "0000", false),
        (1000, None, "", false),
        // The secret has got out.
        (1000, Some(2000), secret.text(), false),
        (2000, None, secret.text(), false),
    ] {
        let knocked = bench.knock(peer(50), shows(uid, owner, credential), name());
        assert_eq!(knocked.is_some(), allowed, "{uid} {owner:?} {credential}");
        bench.lose(50);
    }
}

#[test]
fn a_tool_from_another_host_proves_itself_by_munge_alone() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.register_client(&proc(0), 2000, 2001, 0);
    let secret = Secret::new().unwrap();
    bench.engine.config.tool_secret = Some(secret.clone());
    let munge = |uid, is_bound| Transport::Munge { uid, gid: uid + 1, is_remote: true, is_bound };
    let shows = |psec: &str, uid: u32| {
        let proof = if psec == "pmix-dstore" { secret.text().into() } else { Hello::native_credential(uid, uid + 1) };
        Hello { psec: psec.into(), credential: proof, uid_gid: Some((uid, uid + 1)), ..tool(uid).0 }
    };
    let launched = Hello { flag: PeerKind::ToolClient as u8, proc: Some(proc(0)), ..shows("munge", 2000) };
    let name = || UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    for (number, (demands, transport, hello, allowed)) in [
        (false, munge(2000, false), shows("munge", 2000), true),
        (false, munge(0, false), shows("munge", 0), true),
        // It claims to be another.
        (false, munge(2000, true), shows("munge", 0), false),
        (false, munge(2000, true), Hello { uid_gid: Some((2000, 0)), ..shows("munge", 2000) }, false),
        // It has no process here.
        (false, munge(3000, true), shows("munge", 3000), false),
        // Nothing else counts.
        (false, Transport::Remote, shows("munge", 2000), false),
        (false, Transport::Remote, shows("native", 2000), false),
        (false, Transport::Remote, shows("pmix-dstore", 0), false),
        (false, munge(2000, true), launched, false),
        // Root's tools need a credential that was made for this server, where the administrator demands a proof.
        (true, munge(0, false), shows("munge", 0), false),
        (true, munge(0, true), shows("munge", 0), true),
        (true, munge(2000, false), shows("munge", 2000), true),
    ]
    .into_iter()
    .enumerate()
    {
        bench.engine.config.rendezvous.demands_proof = demands;
        let knocked = bench.knock(peer(50), (hello, transport), name());
        assert_eq!(knocked.is_some(), allowed, "case {number}: {:?}", bench.log);
        if allowed {
            assert_eq!(bench.engine.peers[&peer(50)].user.gid, transport.user().map(|uid| uid + 1));
        }
        bench.lose(50);
    }
}

#[test]
fn a_tool_gets_its_name_from_the_host_and_leaves_nothing() {
    let mut bench = Bench::new(0, 1, 1);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(5));
    let given = UpcallResult::Name(Status::SUCCESS, Some(name.clone()));
    let (status, reply) = bench.knock(peer(50), tool(1000), given).unwrap();
    assert_eq!(status, Status::SUCCESS);
    let reply = ToolReply::decode(PeerKind::Tool, &reply).unwrap();
    assert_eq!((reply.assigned, reply.server.nspace.to_string()), (Some(name.clone()), "server".into()));
    // It reads of itself and of the job, and publishes under its name.
    bench.request(50, 101, Request::JobInfo);
    assert!(bench.reply(50, 101).is_some());
    bench.put(0, 3, "key", 7);
    bench.get(50, 102, 0, "key", Vec::new());
    assert_eq!(bench.value(50, 102, "key"), Some(Ok(7)));
    bench.request(
        50,
        103,
        Request::Get { nspace: name.nspace.clone(), rank: Rank(5), infos: Vec::new(), key: Some("no".into()) },
    );
    assert_eq!(bench.value(50, 103, "no"), None, "it may put it yet");
    // Its own job is of one process, whom the host has not registered.
    let queries = vec![Query { keys: vec![CString::new(keys::JOB_SIZE).unwrap()], qualifiers: Vec::new() }];
    bench.request(50, 105, Request::Query { queries });
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    let told = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(50, 105).unwrap()).unwrap();
    let size = vec![Info::new(keys::JOB_SIZE, Value::Uint32(1))];
    assert_eq!((told.status, told.infos), (Status::SUCCESS, Some(size)));
    bench.request(50, 104, Request::Publish { uid: 1000, infos: Vec::new() });
    let asked = bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    assert!(matches!(asked, Upcall::Publish { proc, .. } if proc == name));
    bench.request(50, 106, Request::Spawn { infos: Vec::new(), apps: Vec::new() });
    let Upcall::Spawn { infos, .. } = bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, None)) else { panic!() };
    let says = |key: &str| Info::is_set(&infos, key);
    assert!(says(keys::REQUESTOR_IS_TOOL) && !says(keys::REQUESTOR_IS_CLIENT), "{infos:?}");
    // The host has not launched the tool, so it gets no upcall at its end.
    bench.request(50, 105, Request::Finalize);
    assert_eq!(bench.status(50, 105), Some(Status::SUCCESS));
    assert!(bench.upcalls.is_empty());
    bench.lose(50);
    assert!(bench.engine.job(&name.nspace).is_none());
    assert!(bench.log.is_empty(), "{:?}", bench.log);
}

/// A host of release 7.0 keeps what it knows of a tool until then.
#[test]
fn a_host_that_wants_it_is_told_of_tools_that_finalize() {
    let mut bench = Bench::new(0, 1, 1);
    bench.engine.config.stock_release = Some(7);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    bench.knock(peer(50), tool(1000), UpcallResult::Name(Status::SUCCESS, Some(name.clone()))).unwrap();
    bench.request(50, 105, Request::Finalize);
    assert_eq!(bench.status(50, 105), None, "the host has not answered");
    let told = bench.answer_last(UpcallResult::Op(Status::OPERATION_SUCCEEDED));
    assert!(matches!(told, Upcall::ClientFinalized { proc, object: 0 } if proc == name));
    assert_eq!(bench.status(50, 105), Some(Status::SUCCESS));
    bench.lose(50);
    // One that is lost is reported as such, not as finalized.
    let name = Proc::new(Nspace::new("lost").unwrap(), Rank(0));
    bench.knock(peer(51), tool(1000), UpcallResult::Name(Status::SUCCESS, Some(name))).unwrap();
    bench.lose(51);
    let is_finalized = |(_, upcall): &(_, Upcall)| matches!(upcall, Upcall::ClientFinalized { .. });
    assert!(!bench.upcalls.iter().any(is_finalized));
}

#[test]
fn a_tool_that_the_host_does_not_want_is_hung_up_on() {
    let mut bench = Bench::new(0, 1, 1);
    for answer in [
        UpcallResult::Name(Status::ERR_INVALID_CRED, None),
        UpcallResult::Op(Status::ERR_INVALID_CRED),
        // An invalid name; no host that could assign one.
        UpcallResult::Name(Status::SUCCESS, None),
        UpcallResult::Name(Status::SUCCESS, Some(everybody().remove(0))),
        UpcallResult::Op(Status::ERR_NOT_SUPPORTED),
    ] {
        assert_eq!(bench.knock(peer(50), tool(1000), answer), None);
    }
    // A tool with a name needs no host.
    let silent = || UpcallResult::Op(Status::ERR_NOT_SUPPORTED);
    let own = Proc::new(Nspace::new("own").unwrap(), Rank(0));
    let knocked = bench.knock(peer(51), named_tool(1000, PeerKind::ToolWithId, own.clone()), silent());
    assert_eq!(knocked.map(|(status, _)| status), Some(Status::SUCCESS));
    assert!(bench.engine.job(&own.nspace).is_some());
    // Not one with a name that no process can have.
    let wild = Proc::new(Nspace::new("wild").unwrap(), Rank::WILDCARD);
    for name in [wild, Proc::new(Nspace::new("").unwrap(), Rank(0))] {
        let knocked = bench.knock(peer(53), named_tool(1000, PeerKind::ToolWithId, name.clone()), silent());
        assert_eq!(knocked, None, "{name}");
        assert!(bench.engine.job(&name.nspace).is_none(), "{name}");
    }
    // One that is gone before the host has answered.
    bench.engine.hello(peer(52), TCP, tool(1000).0);
    bench.drain();
    bench.lose(52);
    bench.answer_last(UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("late").unwrap(), Rank(0)))));
    assert!(bench.engine.job(&Nspace::new("late").unwrap()).is_none());
}

#[test]
fn tools_need_a_user_with_business_here() {
    let name = || UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    let mut bench = Bench::without_clients(0, 1, 1);
    assert!(bench.knock(peer(50), tool(1000), name()).is_some(), "the server's own user");
    assert!(bench.knock(peer(51), tool(0), name()).is_some(), "root");
    assert!(bench.knock(peer(52), tool(2000), name()).is_none());
    assert!(bench.log.pop().is_some_and(|line| line.contains("user 2000's, who has no process here")));
    bench.register_client(&proc(0), 2000, 2000, 7);
    bench.lose(50);
    bench.lose(51);
    assert!(bench.knock(peer(53), tool(2000), name()).is_some(), "a user of the job");
    // A tool of root counts as root, whatever it claims.
    let (claims, _) = tool(2000);
    bench.engine.hello(peer(60), Transport::Tcp { owner: Some(0) }, claims);
    bench.drain();
    let Some((_, Upcall::ToolConnected { infos })) = bench.upcalls.pop() else { panic!("it may come") };
    assert_eq!(Info::find(&infos, keys::USERID), Some(&Value::Uint32(0)));
    // Its claims must be consistent with each other, and with the kernel's information.
    let (mut liar, transport) = tool(1000);
    liar.uid_gid = Some((0, 0));
    assert!(bench.knock(peer(54), (liar, transport), name()).is_none());
    let (pretender, _) = tool(1000);
    assert!(bench.knock(peer(54), (pretender, Transport::Tcp { owner: Some(3000) }), name()).is_none());
    // The names of others are not for the taking.
    for kind in [PeerKind::ToolWithId, PeerKind::LauncherWithId, PeerKind::Scheduler] {
        assert!(bench.knock(peer(55), named_tool(2000, kind, proc(0)), name()).is_none());
    }
    let of_tool = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    assert!(bench.knock(peer(55), named_tool(1000, PeerKind::ToolWithId, of_tool.clone()), name()).is_none());
    assert!(bench.knock(peer(56), named_tool(2000, PeerKind::ToolWithId, of_tool), name()).is_some());
    // A tool that the host has launched is a registered client.
    assert!(bench.knock(peer(57), named_tool(1000, PeerKind::ToolClient, proc(0)), name()).is_none());
    assert!(bench.knock(peer(58), named_tool(2000, PeerKind::ToolClient, proc(0)), name()).is_some());
    assert!(bench.knock(peer(59), named_tool(2000, PeerKind::ToolClient, proc(9)), name()).is_none());
}

#[test]
fn tools_of_a_user_and_of_all_users_are_bounded() {
    let mut bench = Bench::without_clients(0, 1, 1);
    let mut next = 500;
    for rank in 0..4 {
        bench.register_client(&proc(rank), 2000 + rank, 2000, 7);
    }
    let mut come = |bench: &mut Bench, uid: u32| {
        next += 1;
        let name = Proc::new(Nspace::new(format!("tool.{next}")).unwrap(), Rank(0));
        bench.knock(peer(next), tool(uid), UpcallResult::Name(Status::SUCCESS, Some(name))).is_some().then_some(next)
    };
    // An eighth of the descriptors, where this is less than 256.
    for (descriptors, most) in [(1024, 128), (1 << 20, 256)] {
        bench.engine.config.descriptors = descriptors;
        let mut came = Vec::new();
        while came.len() <= most
            && let Some(id) = come(&mut bench, 2000)
        {
            came.push(id);
        }
        assert_eq!(came.len(), most);
        assert!(bench.log.pop().is_some_and(|line| line.contains("too many tools are connected")));
        assert!(
            come(&mut bench, 2001).is_some_and(|id| {
                bench.lose(id);
                true
            }),
            "another user's"
        );
        // One that the host has launched is a process of its job.
        assert!(
            bench
                .knock(
                    peer(400),
                    named_tool(2000, PeerKind::ToolClient, proc(0)),
                    UpcallResult::Op(Status::ERR_NOT_SUPPORTED)
                )
                .is_some()
        );
        bench.lose(400);
        bench.lose(came.pop().unwrap());
        came.push(come(&mut bench, 2000).expect("one has left"));
        came.into_iter().for_each(|id| bench.lose(id));
    }
    // A quarter for all users.
    bench.engine.config.descriptors = 1024;
    let all: Vec<u32> = (2000..2003).flat_map(|uid| std::iter::repeat_n(uid, 120)).collect();
    let came: Vec<u32> = all.into_iter().filter_map(|uid| come(&mut bench, uid)).collect();
    assert_eq!(came.len(), 256);
    assert!(come(&mut bench, 2003).is_none());
    // Users that could stop the server have no limit.
    for uid in [0, 1000] {
        assert!((0..300).all(|_| come(&mut bench, uid).is_some()), "user {uid}");
    }
}

#[test]
fn tools_that_wait_for_the_host_are_counted() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.config.foreign_tools = true;
    bench.engine.config.descriptors = 128;
    for number in 0..16 {
        let (hello, transport) = tool(2000);
        bench.engine.hello(peer(500 + number), transport, hello);
    }
    bench.drain();
    assert!(bench.knock(peer(600), tool(2000), UpcallResult::Op(Status::ERR_NOT_SUPPORTED)).is_none());
    assert!(bench.log.pop().is_some_and(|line| line.contains("too many tools are connected")));
    bench.engine.disconnected(peer(503), Instant::now());
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    assert!(bench.knock(peer(601), tool(2000), UpcallResult::Name(Status::SUCCESS, Some(name))).is_some());
}

/// If the administrator demands it, tools of root and of the server's user must present the secret that only these can read.
#[test]
fn a_proof_is_demanded_where_the_server_is_told_to() {
    let name = || UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    let mut bench = Bench::without_clients(0, 1, 1);
    let secret = Secret::new().unwrap();
    bench.engine.config.tool_secret = Some(secret.clone());
    let showing = |uid: u32| {
        let (mut hello, transport) = tool(uid);
        hello.psec = crate::SECURITY_NAME.into();
        hello.credential = secret.text().as_bytes().to_vec();
        (hello, transport)
    };
    bench.register_client(&proc(0), 2000, 2000, 7);
    for demands in [false, true] {
        bench.engine.config.rendezvous.demands_proof = demands;
        for uid in [0, 1000] {
            assert_eq!(bench.knock(peer(51), tool(uid), name()).is_some(), !demands, "user {uid} without");
            bench.lose(51);
            assert!(bench.knock(peer(52), showing(uid), name()).is_some(), "user {uid} with");
            bench.lose(52);
        }
        // A tool of root that claims to be launched is still a tool of root.
        let launched = named_tool(0, PeerKind::ToolClient, proc(0));
        assert_eq!(bench.knock(peer(53), launched, name()).is_some(), !demands, "launched");
        bench.lose(53);
        // Others have none to show.
        assert!(bench.knock(peer(54), tool(2000), name()).is_some());
        bench.lose(54);
    }
}

#[test]
fn singletons_are_answered_as_their_release_expects() {
    let mut bench = Bench::new(0, 1, 1);
    let silent = || UpcallResult::Op(Status::ERR_NOT_SUPPORTED);
    let alone = Proc::new(Nspace::new("singleton.here.1").unwrap(), Rank(0));
    let (tool, client) = (ToolReply::len(PeerKind::Singleton), ClientReply::LEN);
    let releases = [
        ("4.2.2", tool),
        ("5.0.7a1", tool),
        ("5.0.9", client),
        ("6.0.0", tool),
        ("6.1.0", client),
        ("7.0.0rc1", client),
    ];
    for (version, len) in releases {
        let (hello, transport) = named_tool(1000, PeerKind::Singleton, alone.clone());
        let knocked = bench.knock(peer(50), (Hello { version: version.into(), ..hello }, transport), silent());
        assert_eq!(knocked.map(|(_, reply)| reply.len()), Some(len), "{version}");
        bench.lose(50);
    }
    assert_eq!(bench.log.len(), releases.len(), "they did not say farewell: {:?}", bench.log);
}

#[test]
fn a_host_that_wants_no_tools_is_not_asked() {
    let mut bench = Bench::new(0, 1, 1);
    bench.engine.config.rendezvous.tools = false;
    assert_eq!(bench.knock(PeerId(70), tool(1000), UpcallResult::Op(Status::SUCCESS)), None);
    assert!(bench.log.pop().is_some_and(|line| line.contains("the host takes no tools")), "{:?}", bench.log);
    // A tool that the host has launched is its own.
    let (hello, transport) = named_tool(1000, PeerKind::ToolClient, proc(0));
    bench.engine.hello(PeerId(71), transport, hello);
    let is_asked = |output: &Output| matches!(output, Output::Upcall { upcall: Upcall::ToolConnected { .. }, .. });
    assert!(bench.engine.take_outputs().iter().any(is_asked));
}

#[test]
fn a_tool_that_takes_the_name_of_an_unknown_job_ends_nothing_of_others_when_it_goes() {
    let mut bench = Bench::new(0, 1, 1);
    let elsewhere = |rank| Proc::new(Nspace::new("elsewhere").unwrap(), Rank(rank));
    // A rank here and one of a job that only other servers know form a group, and connect.
    let members = vec![proc(0), elsewhere(0)];
    bench.request(0, 10, Request::GroupConstruct { group: group(), procs: members.clone(), infos: Vec::new() });
    bench.answer_last(UpcallResult::Infos(Status::SUCCESS, Vec::new()));
    bench.request(0, 11, Request::Connect { procs: members, infos: Vec::new(), extra: Vec::new() });
    let (id, _) = bench.upcalls.pop().expect("the host is asked");
    let tool = named_tool(1000, PeerKind::ToolWithId, elsewhere(500));
    assert!(bench.knock(PeerId(900), tool, UpcallResult::Name(Status::SUCCESS, None)).is_some());
    bench.engine.disconnected(PeerId(900), bench.now);
    bench.drain();
    assert_eq!(bench.status(0, 11), None);
    bench.engine.answer(id, UpcallResult::Op(Status::SUCCESS));
    bench.drain();
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    assert_eq!((bench.engine.groups.len(), bench.engine.connected.len()), (1, 1));
}

#[test]
fn a_name_that_tools_alone_have_is_no_job_with_data_for_others() {
    let mut bench = Bench::new(0, 1, 1);
    let elsewhere = Proc::new(Nspace::new("elsewhere").unwrap(), Rank(500));
    let tool = named_tool(1000, PeerKind::ToolWithId, elsewhere.clone());
    assert!(bench.knock(PeerId(900), tool, UpcallResult::Name(Status::SUCCESS, None)).is_some());
    assert_eq!(bench.engine.collect_job_info(&[elsewhere]), Ok(Vec::new()));
}
