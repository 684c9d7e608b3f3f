//! Output of ranks. It is forwarded in whole lines, so that the output of ranks does not mix within a line, and without
//! blocking on the reader.

use std::io::{Stderr, Stdout, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::LazyLock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;
use pmix_client::output::{STDERR, STDOUT};

/// An output stream of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Its name in marks of lines.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        }
    }

    /// Its channel for tools.
    pub fn channel(self) -> u16 {
        match self {
            Stream::Out => STDOUT,
            Stream::Err => STDERR,
        }
    }
}

/// A rank's unfinished line and its tag.
pub(super) struct Lines {
    tag: String,
    pending: Vec<u8>,
}

/// A longer line is forwarded in parts.
const LINE_LEN_MAX: usize = 1 << 16;

impl Lines {
    /// The lines of one stream of a rank, tagged with its name or unchanged.
    pub fn new(rank: &str, stream: Stream, tagged: bool) -> Lines {
        let tag = if tagged { format!("[{rank}]<{}>: ", stream.name()) } else { String::new() };
        Lines { tag, pending: Vec::new() }
    }

    /// Takes bytes; returns the whole lines, ready to be written.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let end = match self.pending.iter().rposition(|byte| *byte == b'\n') {
            Some(position) => position + 1,
            None if self.pending.len() > LINE_LEN_MAX => self.pending.len(),
            None => return Vec::new(),
        };
        let rest = self.pending.split_off(end);
        let lines = std::mem::replace(&mut self.pending, rest);
        self.tagged(&lines)
    }

    /// The rest at the end of the stream; if lines are tagged, with a newline added.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() && !self.tag.is_empty() {
            rest.push(b'\n');
        }
        self.tagged(&rest)
    }

    fn tagged(&self, lines: &[u8]) -> Vec<u8> {
        if self.tag.is_empty() {
            return lines.to_vec();
        }
        let tag = self.tag.as_bytes();
        lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [tag, line].concat()).collect()
    }
}

/// One of the launcher's own streams, with the output that waits to be written.
///
/// The launcher must handle signals and keep its time limit even if nobody reads its output. The descriptor is
/// shared with other processes, so it stays blocking; one write is no longer than a writable pipe accepts.
pub(super) struct Sink {
    stream: Stream,
    queue: Vec<u8>,
    /// Bytes at the front of `queue` that are written.
    written: usize,
    /// The reader has closed the stream.
    closed: bool,
    /// The error of the first failed write, other than a closed reader, and whether it has been reported.
    failure: Option<(Errno, bool)>,
}

/// If more is queued, no more output is read from ranks.
const QUEUE_LEN_MAX: usize = 1 << 18;
/// `PIPE_BUF`: a pipe that polls as writable accepts a write of this length without blocking.
const WRITE_LEN_MAX: usize = 4096;

impl Sink {
    /// A sink for one of the launcher's streams.
    pub fn new(stream: Stream) -> Sink {
        Sink { stream, queue: Vec::new(), written: 0, closed: false, failure: None }
    }

    /// The descriptor, to poll it.
    pub fn fd(&self) -> BorrowedFd<'static> {
        static STDOUT: LazyLock<Stdout> = LazyLock::new(stdout);
        static STDERR: LazyLock<Stderr> = LazyLock::new(stderr);
        match self.stream {
            Stream::Out => STDOUT.as_fd(),
            Stream::Err => STDERR.as_fd(),
        }
    }

    /// Queues bytes, and writes as much as possible without blocking.
    pub fn write(&mut self, bytes: &[u8]) {
        if !self.closed && self.failure.is_none() {
            self.queue.extend_from_slice(bytes);
            self.flush();
        }
    }

    /// Writes as much as possible without blocking.
    pub fn flush(&mut self) {
        while self.is_waiting() {
            let end = self.queue.len().min(self.written + WRITE_LEN_MAX);
            let mut polled = [PollFd::new(self.fd(), PollFlags::POLLOUT)];
            match poll(&mut polled, PollTimeout::ZERO).and_then(|ready| match ready {
                0 => Err(Errno::EAGAIN),
                _ => write(self.fd(), &self.queue[self.written..end]),
            }) {
                Ok(len) => self.written += len,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(error) => {
                    self.written = self.queue.len();
                    // A closed pipe ends the ranks, as it would without a launcher. Any other error, for example a full
                    // disk, is reported.
                    match error {
                        Errno::EPIPE => self.closed = true,
                        error => self.failure = Some((error, false)),
                    }
                }
            }
        }
        // Written bytes are dropped in large pieces.
        if !self.is_waiting() || self.written >= QUEUE_LEN_MAX {
            self.queue.drain(..self.written);
            self.written = 0;
        }
    }

    /// Whether output waits to be written.
    pub fn is_waiting(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Whether too much is queued to read more from ranks.
    pub fn is_full(&self) -> bool {
        self.queue.len() - self.written > QUEUE_LEN_MAX
    }

    /// Whether a write failed.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The error of a failed write, returned once so that it is reported once.
    pub fn unreported_failure(&mut self) -> Option<Errno> {
        let (error, is_reported) = self.failure.as_mut()?;
        (!std::mem::replace(is_reported, true)).then_some(*error)
    }

    /// Whether the reader has closed the stream.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole() {
        let mut lines = Lines::new("3", Stream::Out, true);
        assert_eq!(lines.take(b"hel"), b"");
        assert_eq!(lines.take(b"lo\nwor"), b"[3]<stdout>: hello\n");
        assert_eq!(lines.take(b"ld\n\nx"), b"[3]<stdout>: world\n[3]<stdout>: \n");
        assert_eq!(lines.finish(), b"[3]<stdout>: x\n");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn untagged_output_is_untouched() {
        let mut lines = Lines::new("0", Stream::Err, false);
        assert_eq!(lines.take(b"a\nb"), b"a\n");
        assert_eq!(lines.finish(), b"b");
        let long = vec![b'x'; LINE_LEN_MAX + 1];
        assert_eq!(lines.take(&long), long);
    }
}
