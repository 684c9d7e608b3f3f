//! The multiplexer against a scripted peer at the other end of a socket pair.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};
use pmix_dstore::gather::Slices;

use super::*;

struct Peer(UnixStream);

impl Peer {
    /// Reads one message: tag and payload.
    fn read(&mut self) -> (u32, Vec<u8>) {
        let mut header = [0; 16];
        self.0.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), 7, "the index given in the handshake");
        let mut payload = vec![0; word(8) as usize];
        self.0.read_exact(&mut payload).unwrap();
        (word(4), payload)
    }

    fn write(&mut self, tag: u32, payload: &[u8]) {
        self.0.write_all(&Header { index: 0, tag, len: payload.len() as u32 }.encode()).unwrap();
        self.0.write_all(payload).unwrap();
    }
}

fn pair() -> (Arc<Mux>, Peer, Receiver<Incoming>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (sender, receiver) = unbounded();
    let mux = Mux::new(ours.into(), 7, Arc::new(move |incoming| sender.send(incoming).unwrap())).unwrap();
    (mux, Peer(theirs), receiver)
}

#[test]
fn callers_get_their_own_replies_in_any_order() {
    let (mux, mut peer, _) = pair();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..4u8)
            .map(|n| {
                let mux = &mux;
                scope.spawn(move || mux.request_wait([n], None))
            })
            .collect();
        let mut requests: Vec<_> = (0..4).map(|_| peer.read()).collect();
        requests.sort();
        assert_eq!(requests.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [101, 102, 103, 104]);
        for (tag, payload) in requests.into_iter().rev() {
            peer.write(1, b"heartbeat");
            peer.write(tag, &[payload[0] + 100]);
        }
        let replies: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        assert_eq!(replies, [Ok(vec![100]), Ok(vec![101]), Ok(vec![102]), Ok(vec![103])]);
    });
    assert!(mux.thread.lock().is_none(), "blocking calls need no thread");
}

#[test]
fn a_first_commit_is_not_answered_unless_it_is_refused() {
    let (mux, mut peer, _) = pair();
    let values = || b"values".to_vec().into();
    assert_eq!(mux.send_first_commit(values()), Ok(()));
    assert_eq!(peer.read(), (TAG_FIRST_COMMIT, b"values".to_vec()));
    assert_eq!(mux.take_commit_refusal(), None);
    peer.write(TAG_FIRST_COMMIT, b"no");
    let peer = thread::spawn(move || {
        let (tag, _) = peer.read();
        peer.write(tag, b"yes");
        peer
    });
    assert_eq!(mux.request_wait(b"fence", None), Ok(b"yes".to_vec()));
    assert_eq!((mux.take_commit_refusal(), mux.take_commit_refusal()), (Some(Ok(b"no".to_vec())), None));
    // The loss of the server is seen by the next request.
    drop(peer.join().unwrap());
    assert_eq!(mux.send_first_commit(values()), Ok(()));
    assert_eq!(mux.request_wait(b"fence", None), Err(Status::ERR_LOST_CONNECTION));
}

#[test]
fn a_passed_deadline_leaves_the_connection_usable() {
    let (mux, mut peer, _) = pair();
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(mux.request_wait(b"slow", Some(soon)), Err(Status::ERR_TIMEOUT));
    let (late, _) = peer.read();
    peer.write(late, b"too late");
    let next = thread::spawn(move || {
        let (tag, _) = peer.read();
        peer.write(tag, b"in time");
        peer
    });
    assert_eq!(mux.request_wait(b"quick", None), Ok(b"in time".to_vec()));
    assert!(mux.state.lock().arrived.is_empty(), "the late reply is dropped");
    drop(next.join().unwrap());
}

#[test]
fn a_callback_is_told_when_its_deadline_passes_and_no_reply_comes() {
    let (mux, mut peer, _) = pair();
    let (told, heard) = unbounded();
    let tell = |what: &'static str| -> ReplyFn {
        let told = told.clone();
        Box::new(move |reply| told.send((what, reply)).unwrap())
    };
    let after = |time| Some(Instant::now() + Duration::from_millis(time));
    mux.request(b"open", tell("open"));
    // The thread sleeps without a limit by now, or soon.
    mux.request_until(b"later", after(60_000), tell("later"));
    mux.request_until(b"late", after(20), tell("late"));
    mux.request_until(b"sooner", after(5), tell("sooner"));
    let tags: HashMap<Vec<u8>, u32> = (0..4).map(|_| peer.read()).map(|(tag, payload)| (payload, tag)).collect();
    assert_eq!(heard.recv().unwrap(), ("sooner", Err(Status::ERR_TIMEOUT)));
    assert_eq!(heard.recv().unwrap(), ("late", Err(Status::ERR_TIMEOUT)));
    for request in [&b"late"[..], b"later", b"open"] {
        peer.write(tags[request], b"here");
    }
    assert_eq!(heard.recv().unwrap(), ("later", Ok(b"here".to_vec())));
    assert_eq!(heard.recv().unwrap(), ("open", Ok(b"here".to_vec())));
    let state = mux.state.lock();
    assert!(state.limits.is_empty() && state.waiting.is_empty(), "the late reply is dropped");
    drop(state);
    mux.close();
    assert!(heard.is_empty());
}

#[test]
fn a_driver_that_times_out_passes_the_token_on() {
    let (mux, mut peer, _) = pair();
    thread::scope(|scope| {
        let driver = scope.spawn(|| mux.request_wait(b"driver", Some(Instant::now() + Duration::from_millis(50))));
        peer.read();
        let sleeper = scope.spawn(|| mux.request_wait(b"sleeper", None));
        let (tag, _) = peer.read();
        assert_eq!(driver.join().unwrap(), Err(Status::ERR_TIMEOUT));
        peer.write(tag, b"done");
        assert_eq!(sleeper.join().unwrap(), Ok(b"done".to_vec()));
    });
}

#[test]
fn a_callback_thread_that_runs_a_task_passes_the_token_on() {
    let (mux, mut peer, incoming) = pair();
    mux.start_thread().unwrap();
    peer.write(0, b"notification");
    incoming.recv().unwrap();
    thread::scope(|scope| {
        let caller = scope.spawn(|| mux.request_wait(b"caller", None));
        let (tag, _) = peer.read();
        // The caller should sleep by now. If it does not, the test still passes but covers less.
        thread::sleep(Duration::from_millis(20));
        let (start, started) = unbounded();
        let (go, gone) = unbounded::<()>();
        mux.defer(Box::new(move || {
            start.send(()).unwrap();
            gone.recv().unwrap();
        }));
        started.recv().unwrap();
        peer.write(tag, b"while the job runs");
        assert_eq!(caller.join().unwrap(), Ok(b"while the job runs".to_vec()));
        go.send(()).unwrap();
    });
    mux.close();
}

#[test]
fn a_sleeping_caller_keeps_its_deadline_too() {
    let (mux, mut peer, _) = pair();
    thread::scope(|scope| {
        let driver = scope.spawn(|| mux.request_wait(b"driver", None));
        let (tag, _) = peer.read();
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(mux.request_wait(b"sleeper", Some(soon)), Err(Status::ERR_TIMEOUT));
        peer.write(tag, b"done");
        assert_eq!(driver.join().unwrap(), Ok(b"done".to_vec()));
    });
}

#[test]
fn a_driver_that_has_its_reply_passes_the_token_on() {
    let (mux, mut peer, _) = pair();
    thread::scope(|scope| {
        let first = scope.spawn(|| mux.request_wait(b"first", None));
        let (first_tag, _) = peer.read();
        let second = scope.spawn(|| mux.request_wait(b"second", None));
        let (second_tag, _) = peer.read();
        peer.write(first_tag, b"1");
        assert_eq!(first.join().unwrap(), Ok(b"1".to_vec()));
        peer.write(second_tag, b"2");
        assert_eq!(second.join().unwrap(), Ok(b"2".to_vec()));
    });
}

#[test]
fn callbacks_and_notifications_run_in_the_order_of_their_arrival() {
    let (mux, mut peer, incoming) = pair();
    let (sender, replies) = unbounded();
    mux.request(b"please", Box::new(move |reply| sender.send((reply, thread::current().id())).unwrap()));
    let (tag, _) = peer.read();
    peer.write(0, b"before");
    peer.write(tag, b"reply");
    peer.write(0, b"after");
    assert_eq!(incoming.recv().unwrap(), Incoming::Notification(b"before".to_vec()));
    let (reply, callback_thread) = replies.recv().unwrap();
    assert_eq!(reply, Ok(b"reply".to_vec()));
    assert_ne!(callback_thread, thread::current().id());
    assert_eq!(incoming.recv().unwrap(), Incoming::Notification(b"after".to_vec()));
    mux.close();
}

#[test]
fn notifications_wait_for_the_callback_thread_and_are_bounded() {
    let (mux, mut peer, incoming) = pair();
    let server = thread::spawn(move || {
        let (tag, _) = peer.read();
        for n in 0..NOTIFICATIONS_MAX + 10 {
            peer.write(0, &n.to_be_bytes());
        }
        peer.write(tag, b"reply");
        peer
    });
    assert_eq!(mux.request_wait(b"blocking", None), Ok(b"reply".to_vec()));
    assert_eq!(incoming.try_recv().ok(), None);
    mux.start_thread().unwrap();
    for n in 0..NOTIFICATIONS_MAX {
        assert_eq!(incoming.recv().unwrap(), Incoming::Notification(n.to_be_bytes().to_vec()));
    }
    drop(server.join().unwrap());
    assert_eq!(incoming.recv().unwrap(), Incoming::Lost);
    mux.close();
}

#[test]
fn a_callback_may_block_on_requests_and_on_other_threads() {
    let (mux, mut peer, _) = pair();
    let (go, gone) = unbounded();
    let (sender, result) = unbounded();
    let inner = Arc::clone(&mux);
    mux.request(
        b"outer",
        Box::new(move |_| {
            let inside = inner.request_wait(b"inside", None);
            // This callback waits for a blocking call that another thread makes meanwhile.
            let other: Result<Vec<u8>> = gone.recv().unwrap();
            sender.send((inside, other)).unwrap();
        }),
    );
    let (tag, _) = peer.read();
    peer.write(tag, b"outer reply");
    let (tag, payload) = peer.read();
    assert_eq!(payload, b"inside");
    peer.write(tag, b"inside reply");
    let server = thread::spawn(move || {
        let (tag, _) = peer.read();
        peer.write(tag, b"other reply");
        peer
    });
    go.send(mux.request_wait(b"other", None)).unwrap();
    assert_eq!(result.recv().unwrap(), (Ok(b"inside reply".to_vec()), Ok(b"other reply".to_vec())));
    drop(server.join().unwrap());
    mux.close();
}

#[test]
fn a_peer_that_writes_before_it_reads_is_no_deadlock() {
    let (mux, mut peer, incoming) = pair();
    const LEN: usize = 4 << 20;
    let server = thread::spawn(move || {
        peer.write(0, &vec![1; LEN]);
        let (tag, payload) = peer.read();
        peer.write(tag, &payload.len().to_be_bytes());
        let (_, payload) = peer.read();
        (payload.len(), peer)
    });
    assert_eq!(mux.request_wait(vec![2; LEN], None), Ok(LEN.to_be_bytes().to_vec()));
    mux.send(vec![3; LEN]).unwrap();
    let (sent, peer) = server.join().unwrap();
    assert_eq!(sent, LEN);
    mux.start_thread().unwrap();
    assert_eq!(incoming.recv().unwrap(), Incoming::Notification(vec![1; LEN]));
    drop(peer);
    mux.close();
}

#[test]
fn a_large_request_of_another_thread_is_written_by_the_driver() {
    let (mux, mut peer, _) = pair();
    const LEN: usize = 4 << 20;
    thread::scope(|scope| {
        let driver = scope.spawn(|| mux.request_wait(b"driver", None));
        let (driver_tag, _) = peer.read();
        let large = scope.spawn(|| mux.request_wait(vec![4; LEN], None));
        let (large_tag, payload) = peer.read();
        assert_eq!(payload.len(), LEN);
        peer.write(large_tag, b"large");
        peer.write(driver_tag, b"small");
        assert_eq!(large.join().unwrap(), Ok(b"large".to_vec()));
        assert_eq!(driver.join().unwrap(), Ok(b"small".to_vec()));
    });
}

#[test]
fn a_lost_connection_is_reported_to_all_waiters() {
    let (mux, mut peer, incoming) = pair();
    let (sender, reply) = unbounded();
    mux.request(b"callback", Box::new(move |reply| sender.send(reply).unwrap()));
    thread::scope(|scope| {
        let caller = scope.spawn(|| mux.request_wait(b"caller", None));
        peer.read();
        peer.read();
        drop(peer);
        assert_eq!(caller.join().unwrap(), Err(Status::ERR_LOST_CONNECTION));
    });
    assert_eq!(reply.recv().unwrap(), Err(Status::ERR_LOST_CONNECTION));
    assert_eq!(incoming.recv().unwrap(), Incoming::Lost);
    for _ in 0..1000 {
        assert!(mux.state.lock().reader.is_some(), "no thread drives a lost connection");
    }
    assert_eq!(mux.request_wait(b"later", None), Err(Status::ERR_LOST_CONNECTION));
    assert_eq!(mux.send(b"later"), Err(Status::ERR_LOST_CONNECTION));
    mux.close();
    assert_eq!(incoming.try_recv().ok(), None);
}

#[test]
fn an_empty_reply_means_a_lost_connection() {
    let (mux, mut peer, incoming) = pair();
    let server = thread::spawn(move || {
        let (tag, _) = peer.read();
        peer.write(tag, b"");
        peer
    });
    assert_eq!(mux.request_wait(b"caller", None), Err(Status::ERR_LOST_CONNECTION));
    mux.start_thread().unwrap();
    assert_eq!(incoming.recv().unwrap(), Incoming::Lost);
    drop(server.join().unwrap());
    mux.close();
}

#[test]
fn replies_written_before_the_peer_closed_still_arrive() {
    let (mux, mut peer, _) = pair();
    let server = thread::spawn(move || {
        let (tag, _) = peer.read();
        peer.write(tag, b"last words");
    });
    assert_eq!(mux.request_wait(b"caller", None), Ok(b"last words".to_vec()));
    server.join().unwrap();
}

#[test]
fn close_completes_pending_requests_and_ends_the_thread() {
    let (mux, mut peer, incoming) = pair();
    let (sender, reply) = unbounded();
    mux.request(b"callback", Box::new(move |reply| sender.send(reply).unwrap()));
    thread::scope(|scope| {
        let caller = scope.spawn(|| mux.request_wait(b"caller", None));
        peer.read();
        peer.read();
        mux.close();
        assert_eq!(caller.join().unwrap(), Err(Status::ERR_LOST_CONNECTION));
    });
    assert_eq!(reply.recv().unwrap(), Err(Status::ERR_LOST_CONNECTION));
    assert_eq!(incoming.try_recv().ok(), None, "a requested close is no event");
    assert_eq!(mux.request_wait(b"later", None), Err(Status::ERR_UNREACH));
    assert_eq!(peer.0.read(&mut [0; 1]).unwrap(), 0, "the socket is closed");
    assert_eq!(Arc::strong_count(&mux), 1, "the thread is gone");
}

#[test]
fn output_that_came_before_close_is_passed_on() {
    let (mux, mut peer, incoming) = pair();
    let inner = Arc::clone(&mux);
    // The callback thread gets to the output after the close only.
    mux.defer(Box::new(move || {
        while inner.ready().is_ok() {
            thread::yield_now();
        }
    }));
    let server = thread::spawn(move || {
        let (tag, _) = peer.read();
        peer.write(TAG_IOF, b"output");
        peer.write(tag, b"reply");
        peer
    });
    assert_eq!(mux.request_wait(b"finalize", None), Ok(b"reply".to_vec()));
    mux.close();
    assert_eq!(incoming.try_recv(), Ok(Incoming::Output(b"output".to_vec())));
    drop(server.join().unwrap());
}

#[test]
fn close_inside_a_callback_does_not_wait_for_itself() {
    let (mux, _peer, _) = pair();
    let (sender, closed) = unbounded();
    let inner = Arc::clone(&mux);
    mux.defer(Box::new(move || {
        inner.close();
        sender.send(()).unwrap();
    }));
    closed.recv().unwrap();
    assert_eq!(mux.request_wait(b"later", None), Err(Status::ERR_UNREACH));
}

#[test]
fn tasks_run_though_the_connection_is_closed() {
    let (mux, _peer, _) = pair();
    let (sender, ran) = unbounded();
    let task = |name: &'static str| -> Task {
        let sender = sender.clone();
        Box::new(move || sender.send(name).unwrap())
    };
    let (due, late) = (task("due at close"), task("after close"));
    let inner = Arc::clone(&mux);
    mux.defer(Box::new(move || {
        inner.defer(due);
        inner.close();
        inner.defer(late);
    }));
    drop(sender);
    assert_eq!(ran.iter().collect::<Vec<_>>(), ["due at close", "after close"]);
}

#[test]
fn a_task_wakes_the_callback_thread_from_its_poll() {
    let (mux, mut peer, incoming) = pair();
    mux.start_thread().unwrap();
    peer.write(0, b"notification");
    incoming.recv().unwrap();
    // The callback thread drives by now, or will soon.
    for _ in 0..100 {
        let (sender, ran) = unbounded();
        mux.defer(Box::new(move || sender.send(()).unwrap()));
        ran.recv().unwrap();
    }
    mux.close();
}

#[test]
fn a_forked_child_is_refused_and_leaves_the_parent_undisturbed() {
    let (mut mux, mut peer, _) = pair();
    let parent = mux.pid;
    Arc::get_mut(&mut mux).unwrap().pid = parent + 1;
    assert_eq!(mux.request_wait(b"child", None), Err(Status::ERR_UNREACH));
    assert_eq!(mux.send(b"child"), Err(Status::ERR_UNREACH));
    assert_eq!(mux.ready(), Err(Status::ERR_UNREACH));
    // A thread of the parent was in the state when it forked, and never leaves it here.
    std::mem::forget(mux.state.lock());
    assert_eq!(mux.take_commit_refusal().map(drop), None);
    // SAFETY: the guard that holds it is forgotten.
    unsafe { mux.state.force_unlock() };
    mux.close();
    Arc::get_mut(&mut mux).unwrap().pid = parent;
    let server = thread::spawn(move || {
        let (tag, payload) = peer.read();
        peer.write(tag, &payload);
        peer
    });
    assert_eq!(mux.request_wait(b"parent", None), Ok(b"parent".to_vec()));
    drop(server.join().unwrap());
}

#[test]
fn callbacks_after_one_that_panics_still_run() {
    let (mux, _peer, _) = pair();
    mux.defer(Box::new(|| panic!("on purpose")));
    let (sender, ran) = unbounded();
    mux.defer(Box::new(move || sender.send(()).unwrap()));
    ran.recv().unwrap();
    mux.close();
}

#[test]
fn many_threads_and_callbacks_share_a_connection() {
    const THREADS: u32 = 4;
    const CALLS: u32 = 300;
    let (mux, mut peer, _incoming) = pair();
    let server = thread::spawn(move || {
        for n in 0..THREADS * CALLS * 2 {
            let (tag, payload) = peer.read();
            if n % 7 == 0 {
                peer.write(0, b"noise");
            }
            peer.write(tag, &payload);
        }
        peer
    });
    let (sender, echoes) = unbounded();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (mux, sender) = (&mux, sender.clone());
            scope.spawn(move || {
                for call in 0..CALLS {
                    let payload = (thread * CALLS + call).to_be_bytes();
                    let sender = sender.clone();
                    mux.request(payload, Box::new(move |echo| sender.send(echo == Ok(payload.to_vec())).unwrap()));
                    assert_eq!(mux.request_wait(payload, None), Ok(payload.to_vec()));
                }
            });
        }
    });
    drop(sender);
    assert!((0..THREADS * CALLS).all(|_| echoes.recv().unwrap()));
    mux.close();
    drop(server.join().unwrap());
}

#[test]
fn tags_wrap_and_skip_those_in_use() {
    let mut state = State { tag_last: u32::MAX - 1, ..State::default() };
    state.waiting.insert(101, Waiting { taker: Taker::Caller, payload: None });
    assert_eq!([state.next_tag(), state.next_tag(), state.next_tag()], [u32::MAX, 102, 103]);
}

#[test]
fn a_request_after_close_is_answered_at_once() {
    let (mux, _peer, _) = pair();
    mux.ready().unwrap();
    mux.close();
    let (sender, receiver) = unbounded();
    mux.request([1], Box::new(move |reply| sender.send(reply).unwrap()));
    assert_eq!(receiver.try_recv(), Ok(Err(Status::ERR_UNREACH)));
}

/// As [`pair`], where the program progresses the connection itself.
fn external_pair() -> (Arc<Mux>, Peer, Receiver<Incoming>) {
    let (mut mux, peer, incoming) = pair();
    Arc::get_mut(&mut mux).unwrap().is_external = true;
    (mux, peer, incoming)
}

#[test]
fn a_program_that_progresses_the_connection_itself_runs_all_callbacks() {
    let (mux, mut peer, incoming) = external_pair();
    assert_eq!(mux.ready(), Ok(()));
    let (told, heard) = unbounded();
    let (again, me) = (told.clone(), thread::current().id());
    let deferred = Arc::clone(&mux);
    mux.request(
        b"ask".to_vec(),
        Box::new(move |reply| {
            assert_eq!(thread::current().id(), me);
            told.send(reply).unwrap();
            // A callback may progress the connection, and what it defers runs then.
            deferred.defer(Box::new(move || again.send(Ok(b"deferred".to_vec())).unwrap()));
            deferred.progress();
        }),
    );
    let (tag, _) = peer.read();
    mux.progress();
    assert!(heard.is_empty(), "it does not wait");
    peer.write(TAG_NOTIFY, b"event");
    peer.write(tag, b"reply");
    // A thread that drives the connection meanwhile runs no callback.
    assert_eq!(mux.request_wait(b"other", Some(Instant::now() + Duration::from_millis(20))), Err(Status::ERR_TIMEOUT));
    assert!(heard.is_empty() && incoming.is_empty());
    mux.progress();
    assert_eq!(incoming.try_recv(), Ok(Incoming::Notification(b"event".to_vec())));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [Ok(b"reply".to_vec()), Ok(b"deferred".to_vec())]);
    assert!(mux.thread.lock().is_none(), "there is no callback thread");
    // The loss of the peer is told, too, and what is due at the end runs.
    drop(peer);
    mux.progress();
    assert_eq!(incoming.try_recv(), Ok(Incoming::Lost));
    let (told, heard) = unbounded();
    mux.defer(Box::new(move || told.send(()).unwrap()));
    mux.close();
    assert_eq!(heard.try_recv(), Ok(()));
    mux.progress();
}

#[test]
fn callbacks_run_in_one_thread_at_a_time() {
    let (mux, _peer, _) = external_pair();
    let (begun, has_begun) = unbounded();
    let (go, end) = unbounded::<()>();
    let (told, heard) = unbounded();
    let heard_by = heard.clone();
    mux.defer(Box::new(move || {
        begun.send(()).unwrap();
        end.recv().unwrap();
    }));
    let shared = &mux;
    // What a failure leaves ends the callback, too: `go` is dropped.
    thread::scope(move |scope| {
        scope.spawn(|| shared.progress());
        has_begun.recv().unwrap();
        shared.defer(Box::new(move || told.send(()).unwrap()));
        shared.progress();
        assert!(heard_by.is_empty(), "another thread is in it");
        go.send(()).unwrap();
    });
    mux.progress();
    assert_eq!(heard.try_recv(), Ok(()));
}

/// A thread that wants the driver token while the program has it for a moment gets it afterwards.
#[test]
fn a_program_that_progresses_the_connection_does_not_keep_the_token() {
    const ROUNDS: usize = 1000;
    let (mux, mut peer, _) = external_pair();
    let (begin, begun) = unbounded();
    let shared = &mux;
    thread::scope(move |scope| {
        scope.spawn(|| {
            // A few looks in each round, and then none: nobody else wakes the caller.
            begun.into_iter().for_each(|()| (0..3).for_each(|_| shared.progress()));
        });
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                let (tag, _) = peer.read();
                thread::sleep(Duration::from_micros(200));
                peer.write(tag, b"reply");
            }
        });
        for _ in 0..ROUNDS {
            begin.send(()).unwrap();
            let until = Instant::now() + Duration::from_secs(10);
            assert_eq!(shared.request_wait(b"while it is progressed", Some(until)), Ok(b"reply".to_vec()));
        }
    });
}

/// Gives the sockets of servers that are started again, and then none.
struct Restarts(Mutex<Vec<UnixStream>>);

impl Redial for Restarts {
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn dial(&self, former: i32, _: Instant) -> again::Dialled {
        assert_eq!(former, 7);
        match self.0.lock().pop() {
            Some(socket) => again::Dialled::Connected(socket.into(), 7),
            None => again::Dialled::Never,
        }
    }

    fn greetings(&self) -> Vec<Vec<u8>> {
        vec![b"events".to_vec()]
    }

    fn may_repeat(&self, payload: &GatherBuf) -> bool {
        payload.slices().next().is_some_and(|first| first.starts_with(b"safe"))
    }
}

/// A connection to a server that is started again as often as there are further peers.
fn restartable(further: usize) -> (Arc<Mux>, Vec<Peer>, Receiver<Incoming>) {
    let (mut ours, theirs): (Vec<_>, Vec<_>) = (0..=further)
        .map(|_| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (ours, Peer(theirs))
        })
        .unzip();
    let (sender, receiver) = unbounded();
    let sink: Sink = Arc::new(move |incoming| sender.send(incoming).unwrap());
    let first = ours.pop().unwrap();
    // The last of ours is the first connection; so is the last of theirs.
    let mux = Mux::restartable(first.into(), 7, sink, Some(Box::new(Restarts(Mutex::new(ours))))).unwrap();
    (mux, theirs, receiver)
}

#[test]
fn a_restarted_server_gets_what_waits_and_may_be_sent_again() {
    let (mux, mut peers, incoming) = restartable(1);
    let (mut first, mut second) = (peers.pop().unwrap(), peers.pop().unwrap());
    thread::scope(|scope| {
        assert_eq!(mux.send_first_commit(b"values".to_vec().into()), Ok(()));
        let safe = scope.spawn(|| mux.request_wait(b"safe".to_vec(), None));
        assert_eq!((first.read().0, first.read()), (TAG_FIRST_COMMIT, (101, b"safe".to_vec())));
        let never = scope.spawn(|| mux.request_wait(b"never".to_vec(), None));
        assert_eq!(first.read(), (102, b"never".to_vec()));
        drop(first);
        assert_eq!(never.join().unwrap(), Err(Status::ERR_COMM_FAILURE), "nobody knows whether it was done");
        // The first commit before all others: the server may not have had it.
        assert_eq!(second.read(), (TAG_FIRST_COMMIT, b"values".to_vec()));
        assert_eq!(second.read().1, b"events");
        assert_eq!(second.read(), (101, b"safe".to_vec()));
        second.write(101, b"yes");
        assert_eq!(safe.join().unwrap(), Ok(b"yes".to_vec()));
        // A request of which nothing was sent before.
        let later = scope.spawn(|| mux.request_wait(b"never again".to_vec(), None));
        let (tag, payload) = second.read();
        assert_eq!(payload, b"never again");
        second.write(tag, b"done");
        assert_eq!(later.join().unwrap(), Ok(b"done".to_vec()));
    });
    assert_eq!(incoming.try_iter().collect::<Vec<_>>(), [Incoming::Again]);
    mux.close();
}

#[test]
fn a_first_commit_that_the_server_had_is_not_sent_again() {
    let (mux, mut peers, _incoming) = restartable(1);
    let (mut first, mut second) = (peers.pop().unwrap(), peers.pop().unwrap());
    thread::scope(|scope| {
        assert_eq!(mux.send_first_commit(b"values".to_vec().into()), Ok(()));
        let asked = scope.spawn(|| mux.request_wait(b"safe".to_vec(), None));
        assert_eq!((first.read().0, first.read().0), (TAG_FIRST_COMMIT, 101));
        first.write(101, b"yes");
        assert_eq!(asked.join().unwrap(), Ok(b"yes".to_vec()));
        let waits = scope.spawn(|| mux.request_wait(b"safe too".to_vec(), None));
        first.read();
        drop(first);
        assert_eq!(second.read().1, b"events");
        let (tag, payload) = second.read();
        assert_eq!(payload, b"safe too");
        second.write(tag, b"yes");
        assert_eq!(waits.join().unwrap(), Ok(b"yes".to_vec()));
    });
    mux.close();
}

#[test]
fn a_server_that_does_not_come_back_is_lost() {
    let (mux, mut peers, incoming) = restartable(0);
    let mut only = peers.pop().unwrap();
    mux.start_thread().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| mux.request_wait(b"safe".to_vec(), None));
        only.read();
        drop(only);
        assert_eq!(waits.join().unwrap(), Err(Status::ERR_LOST_CONNECTION));
    });
    assert_eq!(incoming.recv(), Ok(Incoming::Lost));
    assert_eq!(mux.request_wait(b"safe".to_vec(), None), Err(Status::ERR_LOST_CONNECTION));
    mux.close();
}
