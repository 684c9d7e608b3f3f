//! Output of processes and input for them.

use super::*;

impl Bench {
    /// The output of processes that a peer has got: the handler, the source's rank and the text.
    fn output(&mut self, id: PeerId) -> Vec<(u64, u32, String)> {
        let (output, others) =
            self.sent.drain(..).partition::<Vec<_>, _>(|(peer, tag, _)| *peer == id && *tag == TAG_IOF);
        self.sent = others;
        let decoded = output.into_iter().map(|(_, _, payload)| IoDelivery::decode(PLAIN, &payload).unwrap());
        decoded.map(|o| (o.handler, o.source.rank.0, String::from_utf8(o.data).unwrap())).collect()
    }

    fn says(&mut self, rank: u32, channel: u16, text: &str) {
        let status = self.engine.deliver_output(proc(rank), channel, text.into(), Vec::new(), self.now);
        assert_eq!(status, Status::SUCCESS);
        self.drain();
    }

    /// A pull with directives, which the host accepts.
    fn pull_with(&mut self, rank: u32, tag: u32, directives: &[(&'static str, Value)]) -> IoPullReply {
        let infos = directives.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
        self.request(rank, tag, Request::IoPull { procs: everybody(), infos, channels: 6, handler: Some(5) });
        if !self.upcalls.is_empty() {
            self.answer_last(UpcallResult::Op(Status::SUCCESS));
        }
        IoPullReply::decode(PLAIN, Version::OURS, &self.reply(rank, tag).unwrap()).unwrap()
    }

    /// The texts that a rank has got.
    fn texts(&mut self, rank: u32) -> Vec<String> {
        self.output(peer(rank)).into_iter().map(|(.., text)| text).collect()
    }

    /// So many seconds pass.
    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.engine.tick(self.now);
        self.drain();
    }

    fn pull(&mut self, rank: u32, tag: u32, procs: Vec<Proc>, handler: u64) {
        self.request(rank, tag, Request::IoPull { procs, infos: Vec::new(), channels: 6, handler: Some(handler) });
    }
}

#[test]
fn output_is_sent_to_pullers_and_cached_for_later_ones() {
    let mut bench = Bench::new(0, 1, 3);
    bench.says(1, 2, "early");
    bench.says(1, 8, "diagnostics");
    bench.says(0, 2, "own");
    bench.pull(0, 110, everybody(), 5);
    bench.says(1, 4, "before the answer");
    assert!(bench.output(peer(0)).is_empty(), "the host has not answered");
    let asked = bench.answer_last(UpcallResult::Op(Status::OPERATION_SUCCEEDED));
    assert!(matches!(asked, Upcall::IofPull { channels: 6, .. }));
    let reply = IoPullReply::decode(PLAIN, Version::OURS, &bench.reply(0, 110).unwrap()).unwrap();
    let number = reply.handler.unwrap();
    let expected = [(5, 1, "early".to_owned()), (5, 1, "before the answer".to_owned())];
    assert_eq!(bench.output(peer(0)), expected, "not its own, nor of other channels");

    bench.pull(2, 111, vec![proc(1)], 9);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    assert!(bench.output(peer(2)).is_empty(), "what somebody has had is not kept");
    bench.says(1, 2, "both");
    assert_eq!(bench.output(peer(0)), [(5, 1, "both".to_owned())]);
    assert_eq!(bench.output(peer(2)), [(9, 1, "both".to_owned())]);

    bench.request(2, 112, Request::IoDeregister { infos: Vec::new(), handler: number });
    assert_eq!(bench.status(2, 112), Some(Status::ERR_NOT_FOUND), "it is another one's");
    bench.request(0, 113, Request::IoDeregister { infos: Vec::new(), handler: number });
    let Upcall::IofPull { procs, infos, .. } = bench.answer_last(UpcallResult::Op(Status::SUCCESS)) else { panic!() };
    assert_eq!((procs, infos[0].key.is(keys::IOF_STOP)), (everybody(), true));
    assert_eq!(bench.status(0, 113), Some(Status::SUCCESS));
    bench.says(1, 2, "one");
    assert!(bench.output(peer(0)).is_empty());
    bench.engine.disconnected(peer(2), bench.now);
    bench.says(1, 2, "for nobody");
    bench.pull(0, 114, vec![proc(1)], 6);
    bench.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.status(0, 114), Some(Status::ERR_NOT_SUPPORTED));
    bench.pull(0, 115, vec![proc(1)], 7);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    assert_eq!(bench.output(peer(0)), [(7, 1, "for nobody".to_owned())]);
}

#[test]
fn cached_output_is_bounded_and_freed_with_the_job() {
    let mut bench = Bench::new(0, 1, 2);
    let long = "x".repeat(1 << 20);
    for _ in 0..40 {
        bench.says(1, 2, &long);
    }
    bench.says(1, 2, "last");
    bench.pull(0, 110, everybody(), 5);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    let had = bench.output(peer(0));
    assert_eq!((had.len(), had.last().unwrap().2.as_str()), (16, "last"));
    assert_eq!(bench.engine.deliver_output(proc(1), 1, Vec::new(), Vec::new(), bench.now), Status::ERR_BAD_PARAM);

    let other = Proc::new(Nspace::new("other").unwrap(), Rank(0));
    assert_eq!(bench.engine.deliver_output(other.clone(), 2, b"gone".to_vec(), Vec::new(), bench.now), Status::SUCCESS);
    bench.deregister_nspace(&other.nspace);
    bench.pull(0, 111, vec![other], 6);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    assert!(bench.output(peer(0)).is_empty());
}

#[test]
fn a_tool_is_sent_output_without_asking() {
    let mut bench = Bench::new(0, 1, 1);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(5));
    bench.knock(peer(50), tool(1000), UpcallResult::Name(Status::SUCCESS, Some(name))).unwrap();
    let server = Proc::new(Nspace::new("server").unwrap(), Rank(0));
    assert_eq!(
        bench.engine.deliver_output(server, 4, b"its server's".to_vec(), Vec::new(), bench.now),
        Status::SUCCESS
    );
    bench.drain();
    assert_eq!(bench.output(peer(50)), [(0, 0, "its server's".to_owned())]);

    let spawned = Nspace::new("spawned").unwrap();
    let first = Proc::new(spawned.clone(), Rank(0));
    let spawn = |infos| Request::Spawn { infos, apps: Vec::new() };
    let said = |bench: &mut Bench, text: &str| {
        let status = bench.engine.deliver_output(first.clone(), 2, text.into(), Vec::new(), bench.now);
        assert_eq!(status, Status::SUCCESS);
        bench.drain();
    };
    // A rank gets no output of its spawned job, unless it requests it.
    bench.request(0, 120, spawn(Vec::new()));
    bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(spawned.clone())));
    said(&mut bench, "before");
    assert!(bench.output(peer(0)).is_empty());
    bench.request(50, 120, spawn(vec![Info::new(keys::FWD_STDERR, Value::Bool(false))]));
    bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(spawned.clone())));
    bench.request(0, 121, spawn(vec![Info::new(keys::FWD_STDOUT, Value::Bool(true))]));
    bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(spawned.clone())));
    said(&mut bench, "after");
    assert_eq!(bench.output(peer(50)), [(0, 0, "before".to_owned()), (0, 0, "after".to_owned())]);
    assert_eq!(bench.output(peer(0)), [(0, 0, "after".to_owned())]);
    assert_eq!(
        bench.engine.deliver_output(first.clone(), 4, b"error".to_vec(), Vec::new(), bench.now),
        Status::SUCCESS
    );
    bench.drain();
    assert!(bench.output(peer(50)).is_empty());
}

#[test]
fn a_tool_that_spawns_is_sent_the_data_of_the_job() {
    let mut bench = Bench::new(0, 1, 1);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(5));
    bench.knock(peer(50), tool(1000), UpcallResult::Name(Status::SUCCESS, Some(name))).unwrap();
    let spawned = Nspace::new("spawned").unwrap();
    let infos = [Info::new(keys::NODE_MAP, Value::string(NODES[0])), Info::new(keys::PROC_MAP, Value::string("0"))];
    let plan = JobPlan::read(&spawned, 1, &infos, None, NODES[0]).unwrap();
    assert_eq!(bench.engine.register_nspace(plan), Status::SUCCESS);
    bench.drain();
    // PRRTE stores it when the process runs.
    bench.engine.note_pid(&Proc::new(spawned.clone(), Rank(0)), 4711);
    for id in [0, 50] {
        bench.request(id, 120, Request::Spawn { infos: Vec::new(), apps: Vec::new() });
        bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(spawned.clone())));
        let reply = SpawnReply::decode(PLAIN, Version::OURS, &bench.reply(id, 120).unwrap()).unwrap();
        assert_eq!((reply.status, reply.nspace.as_ref()), (Status::SUCCESS, Some(&spawned)));
        // A rank asks for what it wants to know.
        let blob = reply.kvals.into_iter().find_map(|kval| match kval.value {
            Value::ByteObject(blob) if kval.key.is(keys::PROC_BLOB) => Some(blob),
            _ => None,
        });
        let has_pid = blob.is_some_and(|blob| blob.windows(9).any(|bytes| bytes == keys::PROC_PID.as_bytes()));
        assert_eq!(has_pid, id == 50);
    }
}

#[test]
fn the_output_of_children_goes_where_their_parents_goes() {
    let mut bench = Bench::new(0, 1, 2);
    let name = || UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    bench.knock(peer(50), tool(1000), name()).unwrap();
    let spawn = |bench: &mut Bench, id, tag, nspace: &Nspace| {
        bench.request(id, tag, Request::Spawn { infos: Vec::new(), apps: Vec::new() });
        bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(nspace.clone())));
    };
    // The tool has spawned the job of rank 0, which spawns another one.
    spawn(&mut bench, 50, 120, &proc(0).nspace);
    let children = Nspace::new("children").unwrap();
    spawn(&mut bench, 0, 121, &children);
    let child = Proc::new(children.clone(), Rank(0));
    assert_eq!(bench.engine.deliver_output(child, 2, b"text".to_vec(), Vec::new(), bench.now), Status::SUCCESS);
    bench.drain();
    assert_eq!(bench.output(peer(50)), [(0, 0, "text".to_owned())]);
    assert!(bench.output(peer(0)).is_empty());
}

/// Neither a pull with the number of the host's own, nor a connection to the server, nor a tool's name brings what the host has not directed.
#[test]
fn the_output_of_children_goes_to_nobody_else() {
    let mut bench = Bench::new(0, 1, 2);
    let name = |nspace| UpcallResult::Name(Status::SUCCESS, Some(Proc::new(Nspace::new(nspace).unwrap(), Rank(0))));
    let own = Nspace::new("own").unwrap();
    bench.knock(peer(50), tool(1000), name("tool")).unwrap();
    bench.knock(peer(51), tool(0), name("other")).unwrap();
    bench.request(50, 120, Request::Spawn { infos: Vec::new(), apps: Vec::new() });
    bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(own.clone())));
    // A pull of everybody's output, with the handler number of the pulls that the host makes; the host has not answered it.
    bench.pull(1, 110, everybody(), 0);
    // A rank whose job nobody has spawned, and a tool, whose name proves nothing, spawn.
    let infos =
        || vec![Info::new(keys::FWD_STDOUT, Value::Bool(false)), Info::new(keys::FWD_STDERR, Value::Bool(false))];
    for (id, tag, nspace) in [(0, 121, "of-rank"), (51, 122, "of-tool")] {
        bench.request(id, tag, Request::Spawn { infos: infos(), apps: Vec::new() });
        let children = Nspace::new(nspace).unwrap();
        bench.answer_last(UpcallResult::Spawn(Status::SUCCESS, Some(children.clone())));
        bench.engine.deliver_output(Proc::new(children, Rank(0)), 2, b"text".to_vec(), Vec::new(), bench.now);
        bench.drain();
    }
    for id in [1, 50, 51] {
        assert!(bench.output(peer(id)).is_empty(), "{id}");
    }
}

#[test]
fn pushers_are_told_to_stop_sending_input() {
    let mut bench = Bench::without_clients(0, 1, 4);
    for rank in 0..4 {
        assert_eq!(bench.register_client(&proc(rank), 1000, 1000, 7), Status::SUCCESS);
        // Rank 3 is of a release that takes a pause for a refusal, and knows no message to go on.
        let version = if rank == 3 { "6.1.0" } else { "7.0.0" };
        bench.engine.hello(peer(rank), TCP, Hello { version: version.into(), ..Bench::hello(rank) });
        bench.drain();
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    }
    for rank in [0, 1, 3] {
        let data = Some(b"text".to_vec());
        bench.request(rank, 130, Request::IoPush { targets: everybody(), infos: Vec::new(), data });
        let upcall = bench.answer_last(UpcallResult::Op(Status::ERR_IOF_XOFF));
        assert!(
            matches!(upcall, Upcall::PushStdin { source, data: Some(data), .. } if source == proc(rank) && data == b"text")
        );
        // Its next piece comes after the reply, which therefore waits.
        assert_eq!(bench.status(rank, 130), (rank != 3).then_some(Status::ERR_IOF_XOFF));
    }
    let data = Some(b"own".to_vec());
    bench.enter_as(PeerId::OWN, 130, &Request::IoPush { targets: everybody(), infos: Vec::new(), data });
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    let control = |source, channel| FlowControl { source, channel, is_off: false, infos: Vec::new() };
    let anybody = Proc::new(Nspace::new("").unwrap(), Rank::WILDCARD);
    let refused = bench.engine.control_input(&control(anybody.clone(), 2), |_| panic!("of output"));
    assert_eq!(refused, Status::ERR_NOT_SUPPORTED);
    for (source, told, is_own) in [(anybody, vec![0, 1], true), (proc(1), vec![1], false)] {
        let mut own = false;
        assert_eq!(bench.engine.control_input(&control(source, 1), |_| own = true), Status::SUCCESS);
        assert_eq!(own, is_own, "at once");
        bench.drain();
        for rank in 0..4 {
            let control = bench.reply(rank, TAG_FLOW_CONTROL);
            let control = control.map(|payload| FlowControl::decode(PLAIN, &payload).unwrap());
            assert_eq!(control.is_some_and(|control| !control.is_off), told.contains(&rank));
        }
    }
    assert_eq!(bench.status(3, 130), Some(Status::SUCCESS), "its input is resumed");
    // The host resumes input before its answer, which says that it wants none, is taken.
    bench.request(3, 131, Request::IoPush { targets: everybody(), infos: Vec::new(), data: Some(b"more".to_vec()) });
    bench.engine.control_input(&control(proc(3), 1), |_| ());
    bench.answer_last(UpcallResult::Op(Status::ERR_IOF_XOFF));
    assert_eq!(bench.status(3, 131), Some(Status::SUCCESS));
}

#[test]
fn a_gateway_writes_what_its_host_logs_for_the_output_streams() {
    let mut bench = Bench::new(0, 1, 2);
    let entry = |key, text| Info::new(key, Value::string(text));
    let streams = || vec![entry(keys::LOG_STDERR, "wrong\n"), entry(keys::LOG_STDOUT, "right\n")];
    let log = |data, directives| Request::Log { timestamp: None, data, directives };
    let answer = |bench: &Bench, tag| {
        let sent = bench.sent.iter().find(|(to, of, _)| (*to, *of) == (PeerId::OWN, tag));
        sent.map(|(_, _, payload)| StatusReply::decode(PLAIN, Version::OURS, payload).unwrap().status)
    };
    bench.enter_as(PeerId::OWN, 200, &log(streams(), Vec::new()));
    assert!(bench.shown.is_empty(), "a server that is no gateway asks its host");
    assert!(matches!(&bench.upcalls.pop(), Some((_, Upcall::Log { data, .. })) if data.len() == 2));

    bench.engine.config.is_gateway = true;
    bench.pull(0, 110, everybody(), 5);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    // As a host hands on what it was asked to log for rank 1.
    let of_rank = || vec![Info::new(keys::LOG_SOURCE, Value::Proc(proc(1)))];
    bench.enter_as(PeerId::OWN, 201, &log(streams(), of_rank()));
    assert_eq!(answer(&bench, 201), Some(Status::SUCCESS));
    assert!(bench.upcalls.is_empty(), "the host is not asked again");
    let shown = |bench: &mut Bench| -> Vec<(Proc, u16, Vec<u8>)> {
        bench.shown.drain(..).map(|output| (output.source, output.channel, output.data)).collect()
    };
    assert_eq!(shown(&mut bench), [(proc(1), 4, b"wrong\n".to_vec()), (proc(1), 2, b"right\n".to_vec())]);
    assert_eq!(bench.output(peer(0)), [(5, 1, "wrong\n".to_owned()), (5, 1, "right\n".to_owned())]);

    let data = [streams(), vec![entry("pmix.log.syslog", "noted")]].concat();
    bench.enter_as(PeerId::OWN, 202, &log(data, Vec::new()));
    assert_eq!(shown(&mut bench).len(), 2);
    let Some((_, Upcall::Log { data, .. })) = bench.upcalls.pop() else { panic!("the host is asked about the rest") };
    assert_eq!(data, [entry("pmix.log.syslog", "noted")]);

    // For the first channel alone that can be written here.
    let once = || vec![Info::new(keys::LOG_ONCE, Value::Bool(true))];
    bench.enter_as(PeerId::OWN, 203, &log(streams(), once()));
    assert_eq!((shown(&mut bench).len(), answer(&bench, 203)), (1, Some(Status::SUCCESS)));
    let data = [vec![entry("pmix.log.syslog", "noted")], streams()].concat();
    bench.enter_as(PeerId::OWN, 204, &log(data, once()));
    assert_eq!(shown(&mut bench), [(bench.engine.config.me.clone(), 4, b"wrong\n".to_vec())]);
    assert_eq!((answer(&bench, 204), bench.upcalls.len()), (Some(Status::SUCCESS), 0));
    let data = ["pmix.log.syslog", "pmix.log.email"].map(|channel| entry(channel, "noted")).to_vec();
    bench.enter_as(PeerId::OWN, 205, &log(data, once()));
    assert!(matches!(&bench.upcalls.pop(), Some((_, Upcall::Log { data, .. })) if data.len() == 2));

    bench.request(1, 120, log(streams(), Vec::new()));
    assert!(bench.shown.is_empty(), "what a rank logs is the host's");
    assert!(matches!(&bench.upcalls.pop(), Some((_, Upcall::Log { data, .. })) if data.len() == 2));
}

fn number(value: u32) -> Value {
    Value::Uint32(value)
}

#[test]
fn small_pieces_are_delivered_together() {
    let mut bench = Bench::new(0, 1, 3);
    let size = (keys::IOF_BUFFERING_SIZE, number(6));
    assert_eq!(
        bench.pull_with(0, 110, &[size.clone(), (keys::IOF_BUFFERING_TIME, number(10))]).status,
        Status::SUCCESS
    );
    bench.says(1, 2, "ab");
    bench.says(2, 2, "12");
    bench.says(1, 4, "error");
    assert!(bench.texts(0).is_empty(), "each process and channel for itself");
    bench.wait(4);
    bench.says(1, 2, "cdef");
    assert_eq!(bench.texts(0), ["abcdef"]);
    bench.says(1, 2, "gh");
    bench.says(1, 2, "long enough");
    assert_eq!(bench.texts(0), ["ghlong enough"]);
    bench.wait(5);
    assert!(bench.texts(0).is_empty());
    bench.says(2, 2, "34");
    bench.wait(1);
    assert_eq!(bench.texts(0), ["1234", "error"], "what has waited longest is first");
    assert_eq!(bench.engine.deadline(), None);
    // The end of a stream takes along what waits.
    bench.says(1, 2, "rest");
    bench.says(1, 2, "");
    assert_eq!(bench.texts(0), ["rest", ""]);
    // Infos stay with the bytes that they came with.
    let marked = vec![Info::new("mark", Value::Bool(true))];
    bench.says(1, 2, "one");
    assert_eq!(bench.engine.deliver_output(proc(1), 2, b"two".to_vec(), marked, bench.now), Status::SUCCESS);
    bench.drain();
    assert_eq!(bench.texts(0), ["one"]);
    bench.wait(10);
    assert_eq!(bench.texts(0), ["two"]);
}

#[test]
fn what_waits_is_delivered_at_the_end() {
    let mut bench = Bench::new(0, 1, 3);
    let directives = [(keys::IOF_BUFFERING_SIZE, number(100))];
    // A pull that ends: before its answer.
    let pulled = bench.pull_with(0, 110, &directives).handler.unwrap();
    bench.says(1, 2, "rest");
    bench.wait(1000);
    assert!(bench.texts(0).is_empty(), "without a time it waits for the size");
    bench.request(0, 111, Request::IoDeregister { infos: Vec::new(), handler: pulled });
    assert_eq!(bench.texts(0), ["rest"]);
    assert_eq!(bench.engine.outputs_of_procs.held(), 0);
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    assert_eq!(bench.status(0, 111), Some(Status::SUCCESS));
    // A process that ends, and one that is gone.
    bench.pull_with(0, 112, &directives);
    bench.pull_with(2, 112, &directives);
    bench.says(1, 2, "last");
    bench.request(0, 113, Request::Finalize);
    if !bench.upcalls.is_empty() {
        bench.answer_last(UpcallResult::Op(Status::SUCCESS));
    }
    assert_eq!((bench.texts(0), bench.status(0, 113)), (vec!["last".to_owned()], Some(Status::SUCCESS)));
    bench.engine.disconnected(peer(2), bench.now);
    assert_eq!(bench.engine.outputs_of_procs.held(), 0);
    // A job that is no more.
    let mut bench = Bench::new(0, 1, 2);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    bench.knock(peer(50), tool(1000), UpcallResult::Name(Status::SUCCESS, Some(name))).unwrap();
    bench.pull_with(50, 114, &directives);
    bench.says(1, 2, "job's");
    bench.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(bench.texts(50), ["job's"]);
}

#[test]
fn a_cache_bounds_what_waits() {
    let cache = |more: &[(&'static str, Value)]| {
        let mut directives = vec![(keys::IOF_BUFFERING_TIME, number(5)), (keys::IOF_CACHE_SIZE, number(6))];
        directives.extend_from_slice(more);
        directives
    };
    for (more, expected) in [
        (&[][..], ["abcd", "ef", "err"]),
        (&[(keys::IOF_DROP_NEWEST, Value::Bool(true))], ["abcd", "ef", "err"]),
        (&[(keys::IOF_DROP_OLDEST, Value::Bool(true))], ["d", "efghi", "err"]),
    ] {
        let mut bench = Bench::new(0, 1, 3);
        bench.pull_with(0, 110, &cache(more));
        bench.says(1, 2, "abcd");
        bench.says(2, 2, "ef");
        bench.says(2, 2, "ghi");
        bench.says(1, 4, "err");
        bench.wait(5);
        assert_eq!(bench.texts(0), expected, "the cache is each channel's");
        // There is room again.
        bench.says(1, 2, "new");
        bench.wait(5);
        assert_eq!(bench.texts(0), ["new"]);
    }
    let both = [(keys::IOF_DROP_NEWEST, Value::Bool(true)), (keys::IOF_DROP_OLDEST, Value::Bool(true))];
    let mut bench = Bench::new(0, 1, 3);
    assert_eq!(bench.pull_with(0, 110, &both).status, Status::ERR_BAD_PARAM);
    let text = [(keys::IOF_CACHE_SIZE, Value::string("six"))];
    assert_eq!(bench.pull_with(0, 111, &text).status, Status::ERR_BAD_PARAM);
    assert!(bench.upcalls.is_empty());
    // A cache without buffering holds nothing back.
    bench.pull_with(0, 112, &[(keys::IOF_CACHE_SIZE, number(1))]);
    bench.says(1, 2, "whole");
    assert_eq!(bench.texts(0), ["whole"]);
}

#[test]
fn a_cache_bounds_what_was_kept_before_the_pull() {
    for (oldest, expected) in [(false, vec!["abcd", "ef", "err"]), (true, vec!["cd", "efgh", "err"])] {
        let mut bench = Bench::new(0, 1, 3);
        bench.says(1, 2, "abcd");
        bench.says(1, 4, "err");
        bench.says(2, 2, "ef");
        bench.says(2, 2, "gh");
        let directives = [(keys::IOF_CACHE_SIZE, number(6)), (keys::IOF_DROP_OLDEST, Value::Bool(oldest))];
        bench.pull_with(0, 110, &directives);
        let mut texts = bench.texts(0);
        texts.sort_by_key(|text| text == "err");
        let joined: Vec<_> = if oldest { vec!["cd", "ef", "gh", "err"] } else { expected.clone() };
        assert_eq!(texts, joined);
    }
}

#[test]
fn what_waits_for_all_pulls_is_bounded() {
    let mut bench = Bench::new(0, 1, 3);
    bench.pull_with(0, 110, &[(keys::IOF_BUFFERING_SIZE, number(u32::MAX))]);
    bench.pull_with(2, 110, &[(keys::IOF_BUFFERING_SIZE, number(u32::MAX))]);
    let long = "x".repeat(3 << 20);
    let mut delivered = 0;
    for _ in 0..20 {
        bench.says(1, 2, &long);
        assert!(bench.engine.outputs_of_procs.held() <= 16 << 20);
        delivered += bench.texts(0).iter().map(String::len).sum::<usize>();
    }
    assert!(delivered > 40 << 20, "it is delivered early, and not dropped: {delivered}");
}
