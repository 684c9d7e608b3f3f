//! Has munge credentials decoded in another thread than the server's: a `munged` that is stopped holds a call for seconds.
//!
//! The thread ends after the last credential. One that munge holds delays only peers that come with credentials.
//!
//! Peers on loopback are asked about first, and all are taken: ranks of a large job come at once, and their connections are bounded by
//! the descriptors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pmix_dstore::fallible_alloc;
use pmix_munge::{Decoded, Fault};
use pmix_wire::Hello;

/// Limit of credentials from other hosts that wait.
const REMOTE_MAX: usize = 64;

/// A peer's first message, with the credential to decode.
pub(super) struct Question {
    /// The connection.
    pub token: u64,
    /// It comes from another host.
    pub is_remote: bool,
    pub hello: Box<Hello>,
}

/// What munge says of it.
pub(super) struct Checked {
    pub token: u64,
    pub hello: Box<Hello>,
    pub decoded: Result<Decoded, Fault>,
}

/// Decodes a credential.
type Decode = dyn Fn(&[u8]) -> Result<Decoded, Fault> + Send + Sync;

/// Tells that there is an answer.
type Tell = dyn Fn() + Send + Sync;

#[derive(Default)]
struct State {
    /// By connection, oldest first.
    from_loopback: BTreeMap<u64, Question>,
    from_hosts: BTreeMap<u64, Question>,
    answers: Vec<Checked>,
    has_thread: bool,
    is_closed: bool,
}

/// What [`Verifier`] and its thread share.
struct Work {
    state: Mutex<State>,
    thread_ended: Condvar,
    decode: Box<Decode>,
    tell: Box<Tell>,
}

pub(super) struct Verifier(Arc<Work>);

impl Verifier {
    /// `tell` is called after each answer, from another thread.
    pub fn new(tell: impl Fn() + Send + Sync + 'static) -> Verifier {
        Verifier::with(pmix_munge::decode, tell)
    }

    fn with(
        decode: impl Fn(&[u8]) -> Result<Decoded, Fault> + Send + Sync + 'static,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Verifier {
        let (state, thread_ended) = (Mutex::default(), Condvar::new());
        Verifier(Arc::new(Work { state, thread_ended, decode: Box::new(decode), tell: Box::new(tell) }))
    }

    /// Queues a credential; gives it back if too many of other hosts wait or no thread can be started.
    pub fn ask(&self, question: Question) -> Result<(), Question> {
        let mut state = self.0.state.lock();
        if state.is_closed || (question.is_remote && state.from_hosts.len() >= REMOTE_MAX) {
            return Err(question);
        }
        if !state.has_thread {
            let work = self.0.clone();
            // The new thread inherits the signal mask of the server's thread, which calls this: all signals are blocked.
            if fallible_alloc::spawn("pmix-munge", move || work.run()).is_err() {
                return Err(question);
            }
            state.has_thread = true;
        }
        let State { from_loopback, from_hosts, .. } = &mut *state;
        let queue = if question.is_remote { from_hosts } else { from_loopback };
        queue.insert(question.token, question);
        Ok(())
    }

    /// The connection has ended: its credential waits no longer.
    pub fn forget(&self, token: u64) {
        let mut state = self.0.state.lock();
        state.from_loopback.remove(&token);
        state.from_hosts.remove(&token);
    }

    /// The answers since the last call.
    pub fn take_answers(&self) -> Vec<Checked> {
        std::mem::take(&mut self.0.state.lock().answers)
    }

    /// Drops what waits, and waits at most `wait` for the thread. One that munge holds ends later.
    pub fn close(&self, wait: Duration) {
        let end = Instant::now() + wait;
        let mut state = self.0.state.lock();
        state.is_closed = true;
        state.from_loopback.clear();
        state.from_hosts.clear();
        while state.has_thread && !self.0.thread_ended.wait_until(&mut state, end).timed_out() {}
    }
}

impl Work {
    fn run(&self) {
        while let Some(Question { token, hello, .. }) = self.next() {
            let decoded = (self.decode)(&hello.credential);
            let mut state = self.state.lock();
            if !state.is_closed {
                state.answers.push(Checked { token, hello, decoded });
                drop(state);
                (self.tell)();
            }
        }
    }

    /// The next credential; with `None` the thread ends.
    fn next(&self) -> Option<Question> {
        let mut state = self.state.lock();
        let next = state.from_loopback.pop_first().or_else(|| state.from_hosts.pop_first()).map(|(_, next)| next);
        if next.is_none() {
            state.has_thread = false;
            self.thread_ended.notify_all();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crossbeam::channel::{Receiver, Sender, unbounded};
    use pmix_dstore::codec::{BufferType, Module};
    use pmix_wire::PeerKind;

    use super::*;

    fn question(token: u64, is_remote: bool) -> Question {
        let hello = Hello {
            psec: "munge".into(),
            credential: token.to_string().into_bytes(),
            flag: PeerKind::Tool as u8,
            uid_gid: Some((7, 8)),
            proc: None,
            version: "4.2.2".into(),
            module: Module::V41,
            buffer: BufferType::NonDescribed,
            gds: "hash".into(),
            infos: Vec::new(),
        };
        Question { token, is_remote, hello: Box::new(hello) }
    }

    /// Munge that answers once for each message of the sender, and who is told of answers.
    fn held() -> (Verifier, Sender<()>, Receiver<()>) {
        let ((release, released), (sender, told)) = (unbounded(), unbounded());
        let decode = move |credential: &[u8]| {
            let _ = released.recv();
            Ok(Decoded { uid: 7, gid: 8, payload: credential.to_vec() })
        };
        let tell = move || {
            let _ = sender.send(());
        };
        (Verifier::with(decode, tell), release, told)
    }

    #[test]
    fn credentials_of_other_hosts_are_bounded_and_answered_in_turn() {
        let (verifier, release, told) = held();
        let taken = (0..2 * REMOTE_MAX as u64).filter(|token| verifier.ask(question(*token, true)).is_ok()).count();
        // The thread may not have taken the first one yet.
        assert!((REMOTE_MAX..=REMOTE_MAX + 1).contains(&taken), "{taken}");
        assert!(verifier.take_answers().is_empty(), "nobody waits for munge");
        (0..taken).for_each(|_| release.send(()).unwrap());
        assert_eq!(told.iter().take(taken).count(), taken);
        let answers = verifier.take_answers();
        assert!(answers.windows(2).all(|pair| pair[0].token < pair[1].token));
        assert!(answers.iter().all(|answer| answer.decoded.as_ref().is_ok_and(|found| found.uid == 7)));
        assert_eq!(answers.len(), taken);
    }

    #[test]
    fn ranks_of_this_host_are_all_asked_about_and_first() {
        let (verifier, release, told) = held();
        // Munge holds this one.
        assert!(verifier.ask(question(0, true)).is_ok());
        while !verifier.0.state.lock().from_hosts.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        let (remote, local) = (REMOTE_MAX as u64, 10 * REMOTE_MAX as u64);
        assert!((1..=remote).all(|token| verifier.ask(question(token, true)).is_ok()));
        assert!(verifier.ask(question(remote + 1, true)).is_err());
        assert!((1000..1000 + local).all(|token| verifier.ask(question(token, false)).is_ok()));
        // Connections that have ended leave nothing behind.
        [5, 1005].iter().for_each(|token| verifier.forget(*token));
        assert!(verifier.ask(question(remote + 2, true)).is_ok(), "there is room again");
        let expected = [0].into_iter().chain((1000..1000 + local).filter(|token| *token != 1005));
        let expected: Vec<u64> = expected.chain((1..=remote).filter(|token| *token != 5)).chain([remote + 2]).collect();
        expected.iter().for_each(|_| release.send(()).unwrap());
        assert_eq!(told.iter().take(expected.len()).count(), expected.len());
        let answered: Vec<u64> = verifier.take_answers().iter().map(|answer| answer.token).collect();
        assert_eq!(answered, expected);
    }

    #[test]
    fn the_end_of_the_server_does_not_wait_for_munge() {
        let (verifier, release, told) = held();
        assert!(verifier.ask(question(1, false)).is_ok() && verifier.ask(question(2, true)).is_ok());
        while !verifier.0.state.lock().from_loopback.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        verifier.close(Duration::from_millis(10));
        assert!(verifier.0.state.lock().has_thread && verifier.ask(question(3, false)).is_err());
        release.send(()).unwrap();
        while verifier.0.state.lock().has_thread {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(told.try_recv().is_err() && verifier.take_answers().is_empty());
    }
}
