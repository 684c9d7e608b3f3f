//! Replies that wait for publications, and requests that do not.

use super::*;
use crate::engine::Plan;

/// A server with shared memory and the ranks of one node, and the number of the job's directory.
fn with_directory(directory: &Path, ranks: u32) -> (Bench, DirectoryNumber) {
    let bench = Bench::connected_in(directory, ranks);
    let number = bench.engine.nspaces[&nspace()].ledger.number().expect("a directory");
    (bench, number)
}

impl Bench {
    /// Performs all outputs except publications.
    fn drain_unpublished(&mut self) {
        for output in self.engine.take_outputs() {
            match output {
                Output::Send { peer, tag, payload } => self.sent.push((peer, tag, payload)),
                Output::Close(peer) => self.closed.push(peer),
                Output::Log(_, line) => self.log.push(line),
                Output::Call(call) => call(),
                Output::Upcall { id, upcall } => self.upcalls.push((id, upcall)),
                _ => {}
            }
        }
    }

    fn send(&mut self, rank: u32, tag: u32, request: Request) {
        let payload = request.encode(PLAIN, Version::OURS).unwrap();
        self.engine.message(peer(rank), tag, payload, self.now);
        self.drain_unpublished();
    }

    fn send_fence(&mut self, rank: u32, tag: u32) {
        self.send(rank, tag, Request::Fence { procs: everybody(), infos: collect() });
    }

    fn send_commit(&mut self, rank: u32, tag: u32, key: &'static str, value: u32) {
        let kval = Kval { key: Key::from(key), value: Value::Uint32(value) };
        self.send(rank, tag, Request::Commit { parts: vec![(3, vec![kval])] });
    }

    fn send_get(&mut self, rank: u32, tag: u32, of: u32, key: &'static str) {
        let key = Some(Key::from(key));
        self.send(rank, tag, Request::Get { nspace: nspace(), rank: Rank(of), infos: Vec::new(), key });
    }

    /// Both ranks enter a fence that delivers a value of rank 0. Its publication is then under way.
    fn begin_fence(&mut self, number: DirectoryNumber) -> Plan {
        self.put(0, 3, "key", 7);
        (0..2).for_each(|rank| self.send_fence(rank, 10));
        self.engine.take_plan(number).expect("a fence brings values")
    }

    fn carry_out(&mut self, plan: Plan) {
        let published = self.publishers.carry_out(plan);
        self.engine.published(published);
    }

    /// The tags of the replies sent so far, in order.
    fn tags(&self) -> Vec<u32> {
        self.sent.iter().map(|(_, tag, _)| *tag).collect()
    }
}

#[test]
fn a_fence_is_answered_when_its_values_are_published_and_gets_meanwhile_from_the_heap() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, number) = with_directory(directory.path(), 2);
    let view = attach(&mut bench, 0);
    let plan = bench.begin_fence(number);
    assert!(bench.engine.take_plan(number).is_none(), "one at a time");
    assert!(bench.engine.is_publishing() && bench.sent.is_empty());
    bench.send_get(1, 11, 0, "key");
    assert_eq!(bench.value(1, 11, "key"), Some(Ok(7)));
    assert_eq!(read(&view, 0, "key"), None);
    let published = bench.publishers.carry_out(plan);
    bench.drain_unpublished();
    assert_eq!((bench.status(0, 10), read(&view, 0, "key")), (None, Some(7)));
    bench.engine.published(published);
    bench.drain_unpublished();
    assert!(!bench.engine.is_publishing());
    assert_eq!([bench.status(0, 10), bench.status(1, 10)], [Some(Status::SUCCESS); 2]);
}

#[test]
fn a_fence_does_not_overtake_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, number) = with_directory(directory.path(), 2);
    let plan = bench.begin_fence(number);
    // Nothing is new in the second one.
    (0..2).for_each(|rank| bench.send_fence(rank, 11));
    assert!(bench.tags().is_empty());
    bench.carry_out(plan);
    bench.drain_unpublished();
    assert_eq!(bench.tags(), [10, 10, 11, 11]);
}

#[test]
fn changes_during_a_publication_go_with_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, number) = with_directory(directory.path(), 2);
    let view = attach(&mut bench, 0);
    let plan = bench.begin_fence(number);
    // Readers may hold the value before from the segment that is being written.
    bench.send_commit(0, 11, "key", 8);
    bench.send_commit(0, 12, "other", 9);
    assert_eq!(bench.tags(), [12], "nobody holds another value of this one");
    bench.carry_out(plan);
    bench.drain_unpublished();
    assert_eq!(bench.tags(), [12, 10, 10]);
    assert_eq!(read(&view, 0, "key"), Some(7));
    assert!(bench.publish(number));
    bench.drain_unpublished();
    assert_eq!(bench.tags(), [12, 10, 10, 11]);
    assert_eq!((read(&view, 0, "key"), read(&view, 0, "other")), (Some(8), Some(9)));
}

#[test]
fn a_namespace_may_be_forgotten_while_its_segment_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, number) = with_directory(directory.path(), 2);
    let view = attach(&mut bench, 0);
    let plan = bench.begin_fence(number);
    let ((), tickets) = bench.engine.recording(|engine| {
        engine.deregister_nspace(&nspace());
    });
    let sent = |output: &Output| matches!(output, Output::Send { .. });
    let outputs: Vec<Output> = bench.engine.take_outputs().into();
    let close = outputs.iter().position(|output| matches!(output, Output::Close(_))).expect("connections end");
    assert_eq!(outputs[..close].iter().filter(|output| sent(output)).count(), 2, "the fence was over before");
    assert!(!outputs[close..].iter().any(sent));
    assert!(tickets.iter().any(|ticket| !bench.engine.is_published(ticket)), "its files are there");
    assert!(bench.engine.take_plan(number).is_none(), "another thread is at it");
    // The same name again is another directory.
    let plan_again = bench.plan(0, 1, 2);
    bench.engine.register_nspace(plan_again);
    bench.register_client(&proc(0), 1000, 1000, 0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    bench.carry_out(plan);
    assert!(!view.is_retired());
    let removal = bench.engine.take_removal(number).expect("who has written removes it");
    bench.carry_out(removal);
    assert!(view.is_retired() && tickets.iter().all(|ticket| bench.engine.is_published(ticket)));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    bench.drain();
    assert_eq!(shared_env(&bench.engine.setup_fork(&proc(0))).len(), 3);
}

#[test]
fn live_segments_stay_known_when_only_the_job_is_published() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, _) = with_directory(directory.path(), 2);
    let view = attach(&mut bench, 0);
    bench.put(0, 3, "key", 7);
    (0..2).for_each(|rank| bench.fence(rank, 10, everybody(), collect()));
    let before = bench.engine.stats();
    let plan = bench.plan(0, 1, 2);
    bench.operate(|engine| engine.register_nspace(plan));
    bench.drain();
    let after = bench.engine.stats();
    assert_eq!((after.segments, after.modex_segment_bytes), (before.segments, before.modex_segment_bytes));
    // A deleted value leaves its segment only if the ledger knows that segment.
    let kval = Kval { key: Key::from("key"), value: Value::Undef };
    bench.request(0, 11, Request::Commit { parts: vec![(7, vec![kval])] });
    assert_eq!((bench.status(0, 11), read(&view, 0, "key")), (Some(Status::SUCCESS), None));
}

/// Other servers ask their hosts for the fences of a step of Slurm in the order in which the ranks enter them. A fence that waits for
/// the marked one must not be overtaken while the values of the marked one are being published.
#[test]
fn fences_of_a_step_reach_the_host_in_order_while_a_publication_is_under_way() {
    let directory = tempfile::tempdir().unwrap();
    JOB.set("slurm.pmix.1.0");
    let (mut a, mut b) = (Bench::in_directory(0, 2, 1, Some(directory.path())), Bench::new(1, 2, 1));
    a.register_client(&proc(0), 1000, 1000, 0);
    a.connect(0);
    a.put(0, 3, "key", 7);
    a.send_fence(0, 10);
    b.fence(1, 10, everybody(), collect());
    let all = contributions(&a, &b);
    let (marked, _) = a.upcalls.pop().expect("the marked fence");
    let send = |a: &mut Bench, tag| a.send(0, tag, Request::Fence { procs: everybody(), infos: Vec::new() });
    send(&mut a, 11);
    assert!(a.upcalls.is_empty(), "it waits for the marked one");
    a.engine.answer(marked, UpcallResult::Data(Status::SUCCESS, all.into()));
    a.drain_unpublished();
    assert!(a.engine.is_publishing() && a.status(0, 10).is_none());
    send(&mut a, 12);
    assert_eq!(a.upcalls.len(), 2);
    let (first, _) = a.upcalls.remove(0);
    a.engine.answer(first, UpcallResult::Op(Status::SUCCESS));
    let number = a.engine.nspaces[&nspace()].ledger.number().expect("a directory");
    assert!(a.publish(number));
    a.drain();
    assert_eq!([10, 11, 12].map(|tag| a.status(0, tag)), [Some(Status::SUCCESS), Some(Status::SUCCESS), None]);
}

#[test]
fn a_publication_that_fails_lets_everybody_go_on_over_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, number) = with_directory(directory.path(), 2);
    let view = attach(&mut bench, 0);
    let plan = bench.begin_fence(number);
    bench.send_commit(0, 11, "key", 8);
    drop(plan);
    let log = vec!["no room".to_owned()];
    bench.engine.published(Published { directory: number, written: None, log });
    bench.drain();
    assert_eq!(bench.tags(), [10, 10, 11]);
    assert_eq!((bench.log.len(), shared_env(&bench.engine.setup_fork(&proc(0))).len()), (1, 0));
    assert!(!bench.engine.is_publishing() && !view.is_retired());
    bench.get(1, 12, 0, "key", Vec::new());
    assert_eq!(bench.value(1, 12, "key"), Some(Ok(8)));
}

#[test]
fn directories_are_left_to_the_thread_that_ends_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bench, number) = with_directory(directory.path(), 2);
    let plan = bench.begin_fence(number);
    let outputs = bench.engine.shut_down();
    assert_eq!(outputs.iter().filter(|output| matches!(output, Output::Send { .. })).count(), 2);
    bench.carry_out(plan);
    bench.drain();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// The engine's modules do not access files or sockets: they produce an [`Output`] for that.
#[test]
fn the_engine_does_no_file_work() {
    const WORDS: [&str; 9] = [
        "std::fs",
        "std::net",
        "std::io",
        "os::fd",
        "os::unix::net",
        " nix::",
        "libc::",
        "Publisher",
        "crate::publisher",
    ];
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    let mut seen = 0;
    for entry in std::fs::read_dir(&engine).unwrap() {
        let path = entry.unwrap().path();
        let is_source = path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs");
        if !is_source {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        // Tests are at the end of a module and may read files.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let word = WORDS.iter().find(|word| line.contains(**word));
            assert!(word.is_none(), "{}: {line}", path.display());
        }
    }
    assert!(seen > 20, "{seen} modules");
}
