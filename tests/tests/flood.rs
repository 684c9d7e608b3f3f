//! Authenticated clients that send requests without end, or never read: their queues are bounded, and other clients are
//! served meanwhile.

use pmix_dstore::model::{Info, Key, Proc, Rank, Status, Value};
use pmix_tests::peers::{PLAIN, Peer, Target, Way, attacked, encode, log, tagged};
use pmix_tests::{Ended, Library, Run, Traces, pmixrun, program};
use pmix_wire::reply::StatusReply;
use pmix_wire::{Request, TAG_FIRST, TAG_NOTIFY};

const MIB: u64 = 1 << 20;

fn is_refusal(reply: &[u8]) -> bool {
    reply == StatusReply { status: Status::ERR_OUT_OF_RESOURCE }.bytes(PLAIN)
}

#[test]
fn unanswered_requests_are_bounded() {
    let (job, target, mut witness) = attacked();
    let mut offender = target.let_in(Way::Unix);
    let before = job.server_memory();
    // A key that no rank will put before the job goes on.
    let get = encode(&Request::Get {
        nspace: target.proc.nspace.clone(),
        rank: Rank(0),
        infos: Vec::new(),
        key: Some(Key::from("never")),
    });
    for tag in 0..65_536 {
        offender.say(&tagged(TAG_FIRST + tag, &get));
    }
    for tag in 70_000..70_100 {
        offender.say(&tagged(tag, &get));
        let (of, reply) = offender.hear().expect("a refusal");
        assert!(of == tag && is_refusal(&reply), "{of}: {reply:?}");
    }
    assert!(!is_refusal(&witness.ask(&encode(&Request::JobInfo))), "another connection");
    let grown = job.server_memory().saturating_sub(before);
    assert!(grown < 64 * MIB, "the server has grown by {grown} bytes");
    drop(offender);
    let ended = job.finish();
    assert_eq!(log(&ended).iter().filter(|line| line.contains("more are refused")).count(), 1, "{ended}");
}

#[test]
fn events_for_a_client_that_never_reads_are_dropped() {
    let (job, target, mut witness) = attacked();
    let event = Status(-3001);
    let mut deaf = target.let_in(Way::Unix);
    deaf.ask(&encode(&Request::RegisterEvents { codes: vec![event], infos: Vec::new() }));
    let mut offender = target.let_in(Way::Unix);
    let before = job.server_memory();
    let infos = vec![Info::new("large", Value::ByteObject(vec![7; 1 << 16].into()))];
    // To processes of this node only, so the host gets no upcall.
    let notify = encode(&Request::Notify { status: event, range: 2, infos });
    for _ in 0..2048 {
        assert!(!is_refusal(&offender.ask(&notify)));
    }
    let job_info = encode(&Request::JobInfo);
    assert!(!witness.ask(&job_info).is_empty());
    let grown = job.server_memory().saturating_sub(before);
    assert!(grown < 64 * MIB, "the server has grown by {grown} bytes for 128 MiB of events");
    // It was not disconnected: its queued messages arrive.
    assert_eq!(deaf.hear().map(|(tag, _)| tag), Some(TAG_NOTIFY));
    drop((deaf, offender));
    let ended = job.finish();
    let told = log(&ended).iter().filter(|line| line.contains("does not read")).count();
    assert!((1..=11).contains(&told), "a line for each power of two: {ended}");
}

#[test]
fn connections_of_one_process_are_bounded() {
    let (job, target, _anchor) = attacked();
    let held: Vec<Peer> = (0..63).map(|_| target.let_in(Way::Unix)).collect();
    for way in [Way::Unix, Way::Tcp] {
        assert_eq!(target.knock(way, &target.hello(way)), b"", "{way:?}");
    }
    let other = Target::new(&job.environment(0));
    let mut theirs = other.let_in(Way::Unix);
    let fence = Request::Fence { procs: vec![Proc::new(other.proc.nspace.clone(), Rank(0))], infos: Vec::new() };
    assert!(!is_refusal(&theirs.ask(&encode(&fence))));
    theirs.ask(&encode(&Request::Finalize));
    drop((held, theirs));
    let ended = job.finish();
    let refused = log(&ended).iter().filter(|line| line.contains("it has 64 connections already")).count();
    assert_eq!(refused, 2, "{ended}");
}

/// The result of `hoard`: the number of accepted texts or values, and the launcher's peak memory.
fn hoarded(ended: &Ended) -> (u64, u64) {
    let line = ended.stderr.lines().find_map(|line| line.strip_prefix("taken ")).unwrap_or_else(|| panic!("{ended}"));
    let (taken, kib) = line.split_once(", launcher ").expect("two numbers");
    (taken.parse().expect("a number"), kib.trim_end_matches(" KiB").parse::<u64>().expect("a number") * 1024)
}

#[test]
fn log_requests_wait_for_a_slow_reader() {
    const COUNT: u64 = 2048;
    let traces = Traces::begin();
    // A pipe that is open and not read for a while. The ranks wait until it is read.
    let script = "mkfifo \"$OWN/pipe\"; exec 3<>\"$OWN/pipe\"\n\
                  \"$0\" -n 1 \"$1\" log $2 > \"$OWN/pipe\" 3>&- & launcher=$!\n\
                  sleep 3; exec 4< \"$OWN/pipe\" 3>&-; wc -c <&4 & reader=$!; exec 4<&-\n\
                  wait $launcher; status=$?; wait $reader; exit $status";
    let ended = Run::new("/bin/sh", Library::ours())
        .traced(&traces)
        .env("OWN", traces.own())
        .arg("-c")
        .arg(script)
        .arg(pmixrun())
        .arg(program("hoard"))
        .arg(COUNT.to_string())
        .succeed();
    let (taken, memory) = hoarded(&ended);
    assert!(taken >= COUNT, "{ended}");
    assert_eq!(ended.stdout.trim(), (taken << 16).to_string(), "all that was taken is printed: {ended}");
    assert!(memory < 128 * MIB, "the launcher has had {memory} bytes for {} MiB: {ended}", 2 * COUNT / 16);
    traces.assert_none_left(&ended);
}

#[test]
fn published_data_of_a_rank_is_bounded() {
    let traces = Traces::begin();
    let ended = Run::ranks(1, program("hoard"), Library::ours()).traced(&traces).arg("publish").succeed();
    let (taken, memory) = hoarded(&ended);
    assert!((2..=512).contains(&taken), "{ended}");
    assert!(memory < 128 * MIB, "the launcher has had {memory} bytes: {ended}");
    traces.assert_none_left(&ended);
}
