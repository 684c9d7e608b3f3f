//! Heartbeats and files that the library watches.

use std::fs::{self, File};
use std::io::Write;

use super::*;

fn info(key: &'static str, value: Value) -> Info {
    Info::new(key, value)
}

impl Bench {
    /// Asks for something to be watched, where the host leaves it to the library; the status in the reply.
    fn monitor(&mut self, rank: u32, tag: u32, monitor: Info, code: Status, directives: Vec<Info>) -> Status {
        self.request(rank, tag, Request::Monitor { monitor, status: code, directives });
        let asked = self.upcalls.iter().position(|(_, upcall)| matches!(upcall, Upcall::Monitor { .. }));
        if let Some((id, _)) = asked.map(|place| self.upcalls.remove(place)) {
            self.engine.answer(id, Answer::Op(Status::ERR_NOT_SUPPORTED));
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

    /// Lets seconds pass, one after the other; the events that a rank hears meanwhile, with their sources.
    fn events_in(&mut self, seconds: u32, rank: u32) -> Vec<(Status, Proc)> {
        for _ in 0..seconds {
            // A little more, as what is asked for begins a little after the test.
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
    // It lives again, and falls silent again.
    bench.engine.beat(peer(0));
    assert_eq!(bench.events_in(6, 1), [(ALERT, proc(0))]);
    bench.lose(0);
    assert_eq!(bench.engine.monitors.deadline(), None, "it ends with the connection");
}

#[test]
fn a_monitor_is_ended_by_its_name_and_by_nobody_else() {
    let mut bench = Bench::new(0, 1, 2);
    bench.now = Instant::now();
    bench.listens(1);
    let cancel = |bench: &mut Bench, rank, id: Option<&str>| {
        let id = id.map_or(Value::Undef, Value::string);
        bench.monitor(rank, 91, info(keys::MONITOR_CANCEL, id), Status::SUCCESS, Vec::new())
    };
    assert_eq!((bench.beats(0, "one", 1, 0), bench.beats(0, "two", 1, 3)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(cancel(&mut bench, 1, Some("one")), Status::ERR_NOT_FOUND);
    assert_eq!(cancel(&mut bench, 0, Some("three")), Status::ERR_NOT_FOUND);
    assert_eq!(cancel(&mut bench, 0, Some("one")), Status::SUCCESS);
    assert_eq!(bench.events_in(3, 1), []);
    assert_eq!(bench.events_in(1, 1), [(ALERT, proc(0))], "the second one");
    assert_eq!(cancel(&mut bench, 0, None), Status::SUCCESS);
    assert_eq!(bench.engine.monitors.deadline(), None);
}

#[test]
fn what_is_asked_for_must_say_what_and_how_often() {
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
}

#[test]
fn a_host_that_watches_is_left_to_it() {
    let mut bench = Bench::new(0, 1, 1);
    let directives = vec![info(keys::MONITOR_HEARTBEAT_TIME, Value::Uint32(1))];
    let monitor = info(keys::MONITOR_HEARTBEAT, Value::Undef);
    bench.request(0, 93, Request::Monitor { monitor, status: Status::SUCCESS, directives });
    let (id, _) = bench.upcalls.pop().unwrap();
    bench.engine.answer(id, Answer::Infos(Status::SUCCESS, Vec::new()));
    bench.drain();
    assert!(bench.reply(0, 93).is_some());
    assert_eq!(bench.engine.monitors.deadline(), None);
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
