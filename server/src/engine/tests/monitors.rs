//! Monitors of heartbeats and files, and resource usage of processes and the node.

use std::fs::{self, File};
use std::io::Write;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use pmix_dstore::model::{DataArray, DataType};
use pmix_wire::reply::InfosReply;

use super::*;
use crate::engine::statistics::Statistics;

fn info(key: &'static str, value: Value) -> Info {
    Info::new(key, value)
}

impl Bench {
    /// Requests a monitor; the host leaves it to the library. Returns the status in the reply.
    fn monitor(&mut self, rank: u32, tag: u32, monitor: Info, code: Status, directives: Vec<Info>) -> Status {
        self.request(rank, tag, Request::Monitor { monitor, status: code, directives });
        let asked = self.upcalls.iter().position(|(_, upcall)| matches!(upcall, Upcall::Monitor { .. }));
        if let Some((id, _)) = asked.map(|place| self.upcalls.remove(place)) {
            self.engine.answer(id, UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
            self.drain();
        }
        StatusReply::decode(PLAIN, Version::OURS, &self.reply(rank, tag).unwrap()).unwrap().status
    }

    fn beats(&mut self, rank: u32, id: &str, seconds: u32, drops: u32) -> Status {
        let directives = vec![
            info(keys::MONITOR_ID, Value::string(id)),
            info(keys::MONITOR_HEARTBEAT_TIME, Value::Uint32(seconds)),
            info(keys::MONITOR_HEARTBEAT_DROPS, Value::Uint32(drops)),
        ];
        self.monitor(rank, 90, info(keys::MONITOR_HEARTBEAT, Value::Undef), Status::SUCCESS, directives)
    }

    fn cancel(&mut self, rank: u32, id: Option<&str>) -> Status {
        let id = id.map_or(Value::Undef, Value::string);
        self.monitor(rank, 91, info(keys::MONITOR_CANCEL, id), Status::SUCCESS, Vec::new())
    }

    /// Advances the clock second by second; returns the events that a rank gets meanwhile, with their sources.
    fn events_in(&mut self, seconds: u32, rank: u32) -> Vec<(Status, Proc)> {
        // The requests have begun by now.
        self.now = self.now.max(Instant::now());
        for _ in 0..seconds {
            self.now += Duration::from_millis(1001);
            self.engine.tick(self.now);
            self.drain();
        }
        let heard = self.sent.extract_if(.., |(to, tag, _)| *to == peer(rank) && *tag == TAG_NOTIFY);
        let heard: Vec<_> = heard.map(|(.., payload)| Notification::decode(PLAIN, &payload).unwrap()).collect();
        heard.into_iter().map(|event| (event.status, event.source)).collect()
    }

    fn listens(&mut self, rank: u32) {
        self.request(rank, 80, Request::RegisterEvents { codes: Vec::new(), infos: Vec::new() });
        self.reply(rank, 80).unwrap();
    }
}

const ALERT: Status = Status::MONITOR_HEARTBEAT_ALERT;

#[test]
fn a_process_that_falls_silent_is_told_of_to_the_others_once() {
    let mut bench = Bench::new(0, 1, 2);
    bench.now = Instant::now();
    (0..2).for_each(|rank| bench.listens(rank));
    assert_eq!(bench.beats(0, "one", 1, 2), Status::SUCCESS);
    assert_eq!(bench.events_in(2, 1), [], "two may be missing");
    bench.engine.beat(peer(0));
    assert_eq!(bench.events_in(3, 1), [], "the count begins anew");
    assert_eq!(bench.events_in(5, 1), [(ALERT, proc(0))]);
    assert_eq!(bench.events_in(0, 0), [], "it is not told of itself");
    let told =
        bench.upcalls.iter().filter(|(_, upcall)| matches!(upcall, Upcall::NotifyEvent { code, .. } if *code == ALERT));
    assert_eq!(told.count(), 1, "the host may have servers with other processes of the job");
    // It sends a heartbeat, and then stops again.
    bench.engine.beat(peer(0));
    assert_eq!(bench.events_in(6, 1), [(ALERT, proc(0))]);
    bench.lose(0);
    assert!(bench.engine.monitors.is_empty(), "it ends with the connection");
}

#[test]
fn a_monitor_reports_heartbeats_only_while_active() {
    let mut bench = Bench::new(0, 1, 2);
    bench.now = Instant::now();
    bench.listens(1);
    bench.engine.beat(peer(0));
    assert_eq!(bench.beats(0, "first", 3, 0), Status::SUCCESS);
    bench.engine.beat(peer(0));
    assert_eq!(bench.beats(0, "second", 1, 0), Status::SUCCESS);
    assert_eq!(bench.events_in(1, 1), [(ALERT, proc(0))], "what has come before does not count for the second one");
    assert_eq!(bench.events_in(2, 1), [], "but for the first one");
    bench.engine.beat(peer(0));
    assert_eq!(bench.cancel(0, Some("first")), Status::SUCCESS);
    assert_eq!(bench.events_in(1, 1), [], "each beat is for all");
    assert_eq!(bench.cancel(0, Some("second")), Status::SUCCESS);
    assert!(bench.engine.monitors.is_empty());
}

/// The processor time of an action, on average of some and at its best: independent of the machine's load.
fn cost(bench: &mut Bench, mut action: impl FnMut(&mut Bench)) -> i64 {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().num_nanoseconds();
    let mut once = || {
        let start = now();
        (0..100).for_each(|_| action(bench));
        (now() - start) / 100
    };
    (0..5).map(|_| once()).min().unwrap()
}

/// Peers beat, ask and cancel as often as they like, and each time the engine does nothing else.
#[test]
fn monitors_of_others_do_not_delay_a_peer() {
    const OTHERS: u32 = 16;
    let mut bench = Bench::new(0, 1, OTHERS + 1);
    assert_eq!(bench.beats(OTHERS, "own", 60, 0), Status::SUCCESS);
    let costs = |bench: &mut Bench| {
        let beat = cost(bench, |bench| bench.engine.beat(peer(OTHERS)));
        let request = cost(bench, |bench| {
            assert_eq!(bench.beats(OTHERS, "short", 60, 0), Status::SUCCESS);
            assert_eq!(bench.cancel(OTHERS, Some("short")), Status::SUCCESS);
        });
        (beat, request)
    };
    let alone = costs(&mut bench);
    for rank in 0..OTHERS {
        for _ in 0..MONITORS_MAX {
            assert_eq!(bench.beats(rank, "one of many", 60, 0), Status::SUCCESS);
        }
    }
    let among = costs(&mut bench);
    // There are 4096 times as many. The bounds leave room for deeper trees and cold caches.
    assert!(among.0 < alone.0 * 50, "a heartbeat: {alone:?} ns alone, {among:?} among others");
    assert!(among.1 < alone.1 * 5, "a monitor: {alone:?} ns alone, {among:?} among others");
    (0..=OTHERS).for_each(|rank| bench.lose(rank));
    assert!(bench.engine.monitors.is_empty());
}

#[test]
fn a_monitor_is_cancelled_only_by_its_owner_and_name() {
    let mut bench = Bench::new(0, 1, 2);
    bench.now = Instant::now();
    bench.listens(1);
    assert_eq!((bench.beats(0, "one", 1, 0), bench.beats(0, "two", 1, 3)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(bench.cancel(1, Some("one")), Status::ERR_NOT_FOUND);
    assert_eq!(bench.cancel(0, Some("three")), Status::ERR_NOT_FOUND);
    assert_eq!(bench.cancel(0, Some("one")), Status::SUCCESS);
    assert_eq!(bench.events_in(3, 1), []);
    assert_eq!(bench.events_in(1, 1), [(ALERT, proc(0))], "the second one");
    assert_eq!(bench.cancel(0, None), Status::SUCCESS);
    assert!(bench.engine.monitors.is_empty());
}

#[test]
fn monitor_requests_need_a_subject_and_a_rate() {
    let mut bench = Bench::new(0, 1, 1);
    let every = |key| info(key, Value::Uint32(1));
    let file = |path: &str| info(keys::MONITOR_FILE, Value::string(path));
    let of_size = || info(keys::MONITOR_FILE_SIZE, Value::Bool(true));
    let refused = [
        (info(keys::MONITOR_HEARTBEAT, Value::Undef), vec![]),
        (info(keys::MONITOR_HEARTBEAT, Value::Undef), vec![info(keys::MONITOR_HEARTBEAT_TIME, Value::Uint32(0))]),
        (info(keys::MONITOR_HEARTBEAT, Value::Undef), vec![info(keys::MONITOR_HEARTBEAT_TIME, Value::string("1"))]),
        (file("/x"), vec![every(keys::MONITOR_FILE_CHECK_TIME)]),
        (file("/x"), vec![of_size()]),
        (file("x"), vec![of_size(), every(keys::MONITOR_FILE_CHECK_TIME)]),
        (info(keys::MONITOR_FILE, Value::Uint32(1)), vec![of_size(), every(keys::MONITOR_FILE_CHECK_TIME)]),
    ];
    for (monitor, directives) in refused {
        let said = format!("{monitor:?} {directives:?}");
        assert_eq!(bench.monitor(0, 92, monitor, Status::SUCCESS, directives), Status::ERR_BAD_PARAM, "{said}");
    }
    let unknown = info("site.temperature", Value::Undef);
    assert_eq!(bench.monitor(0, 92, unknown, Status::SUCCESS, vec![]), Status::ERR_NOT_SUPPORTED);
    for count in 0..=MONITORS_MAX {
        let expected = if count < MONITORS_MAX { Status::SUCCESS } else { Status::ERR_OUT_OF_RESOURCE };
        assert_eq!(bench.beats(0, "one of many", 60, 0), expected);
    }
    assert_eq!(bench.cancel(0, None), Status::SUCCESS);
    assert_eq!(bench.beats(0, "one again", 60, 0), Status::SUCCESS);
}

#[test]
fn a_host_that_watches_is_left_to_it() {
    let mut bench = Bench::new(0, 1, 1);
    let directives = vec![info(keys::MONITOR_HEARTBEAT_TIME, Value::Uint32(1))];
    let monitor = info(keys::MONITOR_HEARTBEAT, Value::Undef);
    bench.request(0, 93, Request::Monitor { monitor, status: Status::SUCCESS, directives });
    let (id, _) = bench.upcalls.pop().unwrap();
    bench.engine.answer(id, UpcallResult::Infos(Status::SUCCESS, Vec::new()));
    bench.drain();
    assert!(bench.reply(0, 93).is_some());
    assert_eq!(bench.engine.monitors.deadline(), None);
}

#[test]
fn a_file_system_that_does_not_answer_shows_no_sign_of_life() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watched");
    File::create(&path).unwrap();
    let mut bench = Bench::new(0, 1, 2);
    bench.now = Instant::now();
    bench.listens(1);
    let watch = |bench: &mut Bench| {
        let directives = vec![
            info(keys::MONITOR_FILE_SIZE, Value::Bool(true)),
            info(keys::MONITOR_FILE_CHECK_TIME, Value::Uint32(1)),
            info(keys::MONITOR_FILE_DROPS, Value::Uint32(3)),
        ];
        let monitor = info(keys::MONITOR_FILE, Value::string(path.as_os_str().as_encoded_bytes()));
        assert_eq!(bench.monitor(0, 94, monitor, Status(-3401), directives), Status::SUCCESS);
    };
    watch(&mut bench);
    assert_eq!(bench.events_in(1, 1), []);
    bench.no_look_returns = true;
    assert_eq!(bench.events_in(4, 1), []);
    assert_eq!(bench.looks, 1, "no second look before the first is over");
    assert_eq!(bench.events_in(3, 1), [(Status(-3401), proc(0))]);
    assert!(bench.engine.monitors.is_empty());
    // A check that returns late counts like any other.
    watch(&mut bench);
    assert_eq!(bench.events_in(2, 1), []);
    bench.no_look_returns = false;
    let number = bench.engine.monitors.last();
    bench.engine.looked(number, FileState::of(&path, 0, 0), bench.now);
    assert_eq!(bench.events_in(2, 1), []);
    assert_eq!(bench.events_in(1, 1), [(Status(-3401), proc(0))]);
    // A result after the end of its monitor is ignored.
    bench.engine.looked(number, None, bench.now);
}

#[test]
fn a_file_that_stays_as_it_is_is_told_of_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watched");
    let mut bench = Bench::new(0, 1, 2);
    bench.now = Instant::now();
    bench.listens(1);
    let code = Status(-3401);
    let directives = vec![
        info(keys::MONITOR_FILE_SIZE, Value::Bool(true)),
        info(keys::MONITOR_FILE_CHECK_TIME, Value::Uint32(1)),
        info(keys::MONITOR_FILE_DROPS, Value::Uint32(2)),
    ];
    let monitor = info(keys::MONITOR_FILE, Value::string(path.as_os_str().as_encoded_bytes()));
    assert_eq!(bench.monitor(0, 94, monitor, code, directives), Status::SUCCESS);
    assert_eq!(bench.events_in(5, 1), [], "it is not there yet");
    let mut file = File::create(&path).unwrap();
    for _ in 0..4 {
        file.write_all(b"more").unwrap();
        assert_eq!(bench.events_in(1, 1), []);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(bench.events_in(4, 1), [(code, proc(0))], "with the code that the process has named");
    assert_eq!(bench.engine.monitors.deadline(), None);
}

const UPDATE: Status = Status::MONITOR_RESUSAGE_UPDATE;

impl Bench {
    /// Ranks with the pid of this process, which the kernel can measure. They are registered for sample events.
    fn measurable(ranks: u32) -> Bench {
        let mut bench = Bench::new(0, 1, ranks);
        bench.now = Instant::now();
        for rank in 0..ranks {
            let peer = bench.engine.peers.get_mut(&peer(rank)).unwrap();
            peer.pid = Some(std::process::id() as i32);
            peer.user.uid = nix::unistd::geteuid().as_raw();
            bench.request(rank, 80, Request::RegisterEvents { codes: vec![UPDATE], infos: Vec::new() });
            bench.reply(rank, 80).unwrap();
        }
        bench
    }

    /// Requests resource usage from the library, without the host's support.
    fn used(&mut self, rank: u32, monitor: Info, directives: Vec<Info>) -> (Status, Vec<Info>) {
        self.request(rank, 95, Request::Monitor { monitor, status: Status::SUCCESS, directives });
        self.answer_last(UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
        let bytes = self.reply(rank, 95).unwrap();
        match StatusReply::decode(PLAIN, Version::OURS, &bytes).unwrap().status {
            Status::SUCCESS => {
                let reply = InfosReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
                (reply.status, reply.infos.unwrap_or_default())
            }
            status => (status, Vec::new()),
        }
    }
}

fn array(key: &'static str, ty: DataType, items: Vec<Value>) -> Info {
    info(key, Value::DataArray(Box::new(DataArray { ty, items })))
}

/// Requests all statistics of a subject.
fn all_of(key: &'static str) -> Info {
    array(key, DataType::INFO, Vec::new())
}

#[test]
fn process_usage_is_answered_then_sent_to_the_requester() {
    let mut bench = Bench::measurable(3);
    let usage = || all_of(keys::MONITOR_PROC_RESOURCE_USAGE);
    let (status, told) = bench.used(0, usage(), Vec::new());
    assert_eq!((status, told.len()), (Status::SUCCESS, 3), "everybody here");
    assert_eq!(bench.engine.monitors.deadline(), None, "once");
    let directives = vec![
        info(keys::MONITOR_ID, Value::string("usage")),
        info(keys::MONITOR_RESOURCE_RATE, Value::Uint32(1)),
        info(keys::MONITOR_TARGET_PROCS, Value::procs([proc(0), proc(2)])),
    ];
    let (status, told) = bench.used(0, usage(), directives);
    assert_eq!(status, Status::SUCCESS);
    let of: Vec<_> = told.iter().map(|one| one.value.iter_infos().next().unwrap().value.clone()).collect();
    assert_eq!(of, [Value::Proc(proc(0)), Value::Proc(proc(2))]);
    bench.events_in(2, 1);
    let heard = bench.sent.iter().filter(|(_, tag, _)| *tag == TAG_NOTIFY).map(|(to, ..)| *to);
    assert_eq!(heard.collect::<Vec<_>>(), [peer(0), peer(0)], "every second, and nobody else");
    let server = bench.engine.config.me.clone();
    assert_eq!(bench.events_in(0, 0), [(UPDATE, server.clone()), (UPDATE, server)]);
    bench.lose(2);
    bench.lose(0);
    assert_eq!(bench.engine.monitors.deadline(), None, "it ends with the connection");
}

#[test]
fn a_sample_is_ended_by_its_name() {
    let mut bench = Bench::measurable(1);
    let directives =
        vec![info(keys::MONITOR_ID, Value::string("node")), info(keys::MONITOR_RESOURCE_RATE, Value::Uint32(2))];
    let (status, told) = bench.used(0, all_of(keys::MONITOR_NODE_RESOURCE_USAGE), directives);
    assert_eq!((status, told.len()), (Status::SUCCESS, 1));
    assert_eq!(bench.events_in(4, 0).len(), 2);
    let cancel = info(keys::MONITOR_CANCEL, Value::string("node"));
    assert_eq!(bench.monitor(0, 91, cancel, Status::SUCCESS, Vec::new()), Status::SUCCESS);
    assert_eq!(bench.events_in(4, 0), []);
}

#[test]
fn usage_is_of_this_node() {
    let mut bench = Bench::measurable(2);
    let own = std::process::id() as i32;
    let pids = [
        (Some(NODES[0]), u32::MAX, -1, Ok(2)),
        (Some(NODES[0]), u32::MAX, own, Ok(2)),
        (Some(NODES[0]), u32::MAX, 1, Ok(0)),
        (None, 0, own, Ok(2)),
        (None, 7, own, Err(Status::ERR_NOT_SUPPORTED)),
        (Some("elsewhere"), 0, -1, Err(Status::ERR_NOT_SUPPORTED)),
    ];
    // Not by a message: the rank's release does not have this type.
    for (node, nodeid, pid, expected) in pids {
        let hostname = node.map(|node| std::ffi::CString::new(node).unwrap());
        let pid = vec![Value::NodePid { hostname, nodeid, pid }];
        let directives = [array(keys::MONITOR_TARGET_PIDS, DataType::NODE_PID, pid)];
        let wanted = Statistics::read(&all_of(keys::MONITOR_PROC_RESOURCE_USAGE), &directives).unwrap().unwrap();
        let told = bench.engine.is_of_here(peer(0), &wanted).map(|()| bench.engine.targets(peer(0), &wanted).len());
        assert_eq!(told, expected, "{directives:?}");
    }
    let nodes = |name: &str| array(keys::MONITOR_TARGET_NODES, DataType::STRING, vec![Value::string(name)]);
    let ids = |id| array(keys::MONITOR_TARGET_NODEIDS, DataType::UINT32, vec![Value::Uint32(id)]);
    let (processes, node) = (keys::MONITOR_PROC_RESOURCE_USAGE, keys::MONITOR_NODE_RESOURCE_USAGE);
    let cases = [
        (processes, info(keys::MONITOR_TARGET_PROCS, Value::procs([proc(9)])), Status::ERR_NOT_SUPPORTED, 0),
        (processes, info(keys::MONITOR_TARGET_PROCS, Value::procs(everybody())), Status::SUCCESS, 2),
        (processes, nodes("elsewhere"), Status::ERR_NOT_SUPPORTED, 0),
        (processes, info(keys::MONITOR_TARGET_PROCS, Value::Uint32(1)), Status::ERR_BAD_PARAM, 0),
        (processes, info(keys::MONITOR_RESOURCE_RATE, Value::string("often")), Status::ERR_BAD_PARAM, 0),
        (node, nodes(NODES[0]), Status::SUCCESS, 1),
        (node, ids(0), Status::SUCCESS, 1),
        (node, ids(7), Status::ERR_NOT_SUPPORTED, 0),
    ];
    for (key, directive, status, count) in cases {
        let said = format!("{key} {directive:?}");
        let (answered, told) = bench.used(0, all_of(key), vec![directive]);
        assert_eq!((answered, told.len()), (status, count), "{said}");
    }
    let (answered, told) = bench.used(0, info(processes, Value::Uint32(1)), Vec::new());
    assert_eq!((answered, told), (Status::ERR_BAD_PARAM, Vec::new()));
}

#[test]
fn who_ends_all_monitors_still_gets_the_sample_that_is_being_read() {
    let mut bench = Bench::measurable(1);
    for every in [None, Some(1)] {
        let rate = every.map(|every| info(keys::MONITOR_RESOURCE_RATE, Value::Uint32(every)));
        let usage = (all_of(keys::MONITOR_PROC_RESOURCE_USAGE), rate.into_iter().collect());
        let cancel = (info(keys::MONITOR_CANCEL, Value::Undef), Vec::new());
        // Nothing is read in between.
        for (tag, (monitor, directives)) in [(70, usage), (71, cancel)] {
            let request = Request::Monitor { monitor, status: Status::SUCCESS, directives };
            let payload = request.encode(PLAIN, Version::OURS).unwrap();
            bench.engine.message(peer(0), tag, payload, bench.now);
            let asked = bench.engine.outputs.iter().find_map(|output| match output {
                Output::Upcall { id, .. } => Some(*id),
                _ => None,
            });
            if let Some(id) = asked {
                bench.engine.outputs.retain(|output| !matches!(output, Output::Upcall { .. }));
                bench.engine.answer(id, UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
            }
        }
        bench.drain();
        assert_eq!((bench.status(0, 71), bench.status(0, 70)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
        assert!(bench.engine.monitors.is_empty(), "{every:?}");
    }
}
