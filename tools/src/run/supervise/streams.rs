//! Output and input of ranks: from and to the launcher's own streams, or those of the tool that has started the job.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{getpgrp, read, tcgetpgrp, write};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Proc, Rank, Status};
use pmix_server::Completion;

use super::super::output::Stream;
use super::tree::LAUNCHED;
use super::{CHUNK, RunningJob, Supervisor};

/// From so many bytes of input on that a rank has not read, a tool is to wait with more.
const INPUT_LEN_MAX: usize = 1 << 18;
/// From so many on more is refused.
const INPUT_LEN_LIMIT: usize = 64 * INPUT_LEN_MAX;

/// The standard input of a job's rank 0.
pub(super) struct Input {
    /// The pipe to it, while it is open.
    fd: Option<OwnedFd>,
    /// What is not written yet.
    pending: Vec<u8>,
    /// Whether the input ends after that.
    is_ended: bool,
    /// How many bytes have been taken of the front end, whose pieces have positions. Other tools may send input, too.
    taken: u64,
    /// The tools that wait until the rank has read more.
    paused: BTreeSet<Proc>,
}

impl Input {
    pub fn new(fd: OwnedFd) -> Input {
        Input { fd: Some(fd), pending: Vec::new(), is_ended: false, taken: 0, paused: BTreeSet::new() }
    }

    /// The pipe, if something is to be written to it.
    pub fn waiting_for_room(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().filter(|_| !self.pending.is_empty()).map(AsFd::as_fd)
    }

    fn end(&mut self) {
        self.is_ended = true;
        if self.pending.is_empty() {
            self.fd = None;
        }
    }

    /// Writes what the pipe takes.
    fn write(&mut self) {
        let Some(fd) = &self.fd else { return };
        match write(fd, &self.pending) {
            Ok(len) => {
                self.pending.drain(..len);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => {
                // The rank has closed its input.
                self.pending.clear();
                self.fd = None;
            }
        }
        if self.pending.is_empty() {
            self.pending.shrink_to(CHUNK);
            if self.is_ended {
                self.fd = None;
            }
        }
    }
}

impl Supervisor<'_> {
    /// Whether too much output of a tree waits to read more from its ranks.
    pub(super) fn is_full(&self, tree: u32, stream: Stream) -> bool {
        let front = self.trees.get(&tree).and_then(|tree| tree.front.as_ref());
        match (front, stream) {
            (Some(front), _) => front.window.is_some_and(|window| front.unacknowledged >= window),
            (None, Stream::Out) => self.stdout.is_full(),
            (None, Stream::Err) => self.stderr.is_full(),
        }
    }

    /// Hands output to the tool that has started the tree.
    pub(super) fn deliver(&mut self, tree: u32, source: Proc, stream: Stream, bytes: Vec<u8>) {
        // Empty output is the end of it.
        if bytes.is_empty() {
            return;
        }
        if self.keeps_for_front(tree) {
            return self.keep_and_deliver(tree, source, stream, bytes);
        }
        let channel = stream.channel();
        let len = bytes.len() as u64;
        // Without memory it is lost.
        let delivered = self.server.deliver_output(source, channel, bytes);
        if let Some(front) = self.trees.get_mut(&tree).and_then(|tree| tree.front.as_mut())
            && matches!(delivered, Status::SUCCESS | Status::OPERATION_SUCCEEDED)
        {
            front.unacknowledged += len;
        }
    }

    /// A tool has written output of its jobs.
    pub(super) fn output_was_taken(&mut self, by: &Proc, bytes: u64) {
        let fronts = self.trees.values_mut().filter_map(|tree| tree.front.as_mut());
        for front in fronts.filter(|front| front.tool == *by) {
            front.unacknowledged = front.unacknowledged.saturating_sub(bytes);
            front.kept.iter_mut().for_each(|kept| kept.acknowledge(bytes));
        }
    }

    /// Prints texts of `PMIx_Log` until too much output is queued; the remaining calls wait, but for those of a tree that has ended.
    pub(super) fn print_held(&mut self, ended: Option<u32>) {
        for (by, texts, done) in std::mem::take(&mut self.held) {
            let tree = self.tree_of(&by).unwrap_or(LAUNCHED);
            let is_full = texts.iter().any(|(stream, _)| self.is_full(tree, *stream));
            if is_full && ended != Some(tree) {
                self.held.push((by, texts, done));
                continue;
            }
            for (stream, text) in texts {
                self.put(tree, &by, stream, text);
            }
            done.complete();
        }
    }

    /// Puts output where that of a tree goes. Returns whether it is taken: the reader of the launcher's own output may have closed it.
    fn put(&mut self, tree: u32, source: &Proc, stream: Stream, bytes: Vec<u8>) -> bool {
        if self.trees.get(&tree).is_some_and(|tree| tree.front.is_some()) {
            self.deliver(tree, source.clone(), stream, bytes);
            return true;
        }
        let sink = self.sink(stream);
        sink.write(&bytes);
        !sink.is_closed()
    }

    /// Forwards output of a rank, about `len_max` bytes of each stream at most.
    pub(super) fn pass_output(&mut self, number: u32, len_max: usize) {
        let Some((job, source)) = self.job_of(number).zip(self.proc(number)) else { return };
        let tree = self.jobs[&job].tree;
        let Some(rank) = self.rank_mut(number).filter(|rank| !rank.outputs.is_empty()) else { return };
        let mut outputs = std::mem::take(&mut rank.outputs);
        let mut buffer = vec![0; CHUNK];
        outputs.retain_mut(|output| {
            let mut passed = 0;
            while passed < len_max {
                match read(&output.fd, &mut buffer) {
                    Ok(0) => {
                        self.put(tree, &source, output.stream, output.lines.finish());
                        return false;
                    }
                    Ok(len) => {
                        passed += len;
                        if !self.put(tree, &source, output.stream, output.lines.take(&buffer[..len])) {
                            // The reader of our output has closed it. Close the rank's pipe: the rank gets SIGPIPE or
                            // EPIPE, as it would without us.
                            return false;
                        }
                    }
                    Err(Errno::EAGAIN) => return true,
                    Err(Errno::EINTR) => {}
                    Err(_) => return false,
                }
            }
            true
        });
        if let Some(rank) = self.rank_mut(number) {
            rank.outputs = outputs;
        }
    }

    pub(super) fn close_outputs(&mut self, number: u32) {
        let Some((job, source)) = self.job_of(number).zip(self.proc(number)) else { return };
        let tree = self.jobs[&job].tree;
        let outputs = self.rank_mut(number).map(|rank| std::mem::take(&mut rank.outputs));
        for mut output in outputs.into_iter().flatten() {
            let rest = output.lines.finish();
            self.put(tree, &source, output.stream, rest);
        }
    }

    /// The input of the launched job, if it is open.
    fn launched_input(&self) -> Option<&Input> {
        let job = self.jobs.get(&self.trees.get(&LAUNCHED)?.root)?;
        job.input.as_ref().filter(|input| input.fd.is_some())
    }

    pub(super) fn wants_stdin(&self) -> bool {
        self.stdin_open && self.launched_input().is_some_and(|input| input.pending.is_empty())
    }

    /// Whether the launcher may read its input. In the background of a terminal it may not: the input is for the
    /// foreground job.
    pub(super) fn may_read_stdin(&self) -> bool {
        !self.stdin_is_terminal || is_in_foreground()
    }

    pub(super) fn read_stdin(&mut self) {
        let mut buffer = vec![0; CHUNK];
        let got = read(std::io::stdin().as_fd(), &mut buffer);
        let may_read = self.may_read_stdin();
        let Some(root) = self.trees.get(&LAUNCHED).map(|tree| tree.root) else { return };
        let Some(input) = self.jobs.get_mut(&root).and_then(|job| job.input.as_mut()) else { return };
        match got {
            // Our parent may have made our standard input non-blocking.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // The launcher has moved to the background since the check.
            Err(Errno::EIO) if !may_read => {}
            Ok(0) | Err(_) => {
                // Rank 0 sees the end of its input.
                self.stdin_open = false;
                input.end();
            }
            Ok(len) => {
                buffer.truncate(len);
                input.pending = buffer;
                input.write();
            }
        }
    }

    /// A rank's pipe has room.
    pub(super) fn write_input(&mut self, job: u32) {
        let Some(input) = self.jobs.get_mut(&job).and_then(|job| job.input.as_mut()) else { return };
        input.write();
        if input.pending.len() < INPUT_LEN_MAX / 2 {
            for by in std::mem::take(&mut input.paused) {
                self.server.resume_input(by);
            }
        }
    }

    /// A tool has input for a job, which may say where it begins; empty input is its end.
    pub(super) fn take_input(
        &mut self,
        by: Proc,
        targets: &[Proc],
        (mut data, at): (Option<Vec<u8>>, Option<u64>),
        done: Completion<Status>,
    ) {
        let is_for = |job: &RunningJob| {
            targets
                .iter()
                .any(|target| target.nspace == *job.nspace() && matches!(target.rank, Rank(0) | Rank::WILDCARD))
        };
        let input = self.jobs.values_mut().find(|job| is_for(job)).and_then(|job| job.input.as_mut());
        let Some(input) = input else { return done.complete(Status::ERR_NOT_SUPPORTED) };
        if let Some(at) = at {
            // Sent again: nobody knew whether it was taken by the server that was killed.
            let before = usize::try_from(input.taken.saturating_sub(at)).unwrap_or(usize::MAX);
            let len = data.as_ref().map_or(0, Vec::len);
            if (before > 0 && before >= len) || (len == 0 && input.is_ended) {
                return done.complete(Status::SUCCESS);
            }
            data.iter_mut().for_each(|data| drop(data.drain(..before)));
        }
        if input.is_ended {
            return done.complete(Status::ERR_NOT_SUPPORTED);
        }
        match data.filter(|data| !data.is_empty()) {
            None => input.end(),
            // The rank has closed it: what comes is for nobody.
            Some(_) if input.fd.is_none() => return done.complete(Status::ERR_NOT_SUPPORTED),
            // A tool that does not wait.
            Some(_) if input.pending.len() > INPUT_LEN_LIMIT => return done.complete(Status::ERR_OUT_OF_RESOURCE),
            Some(data) => {
                if let Err(status) = fallible_alloc::extend(&mut input.pending, &data) {
                    return done.complete(status);
                }
                if at.is_some() {
                    input.taken += data.len() as u64;
                }
                input.write();
            }
        }
        let is_full = input.pending.len() > INPUT_LEN_MAX;
        if is_full {
            input.paused.insert(by);
        }
        done.complete(if is_full { Status::ERR_IOF_XOFF } else { Status::SUCCESS });
    }
}

/// Whether the process may read its terminal.
pub(in super::super) fn is_in_foreground() -> bool {
    // A terminal that does not control our session has no foreground group, and any process may read it.
    tcgetpgrp(std::io::stdin()).map_or(true, |group| group == getpgrp())
}
