//! What ranks print: whole lines, so that ranks do not mix within one.

use std::io::{self, Write};

/// Which of a rank's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A rank's unfinished line and its tag.
pub(super) struct Lines {
    stream: Stream,
    tag: String,
    pending: Vec<u8>,
}

/// A line longer than this is passed on in parts.
const LINE_LEN_MAX: usize = 1 << 16;

impl Lines {
    /// The lines of one stream of a rank, tagged or as they are.
    pub fn new(rank: u32, stream: Stream, tagged: bool) -> Lines {
        let name = match stream {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        };
        let tag = if tagged { format!("[{rank}]<{name}>: ") } else { String::new() };
        Lines { stream, tag, pending: Vec::new() }
    }

    /// Takes bytes; the whole lines among them are returned, ready to be written.
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

    /// What is left at the end of the stream, made a line where ranks' lines are tagged.
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

    /// Writes bytes to the launcher's stream of the same kind.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.stream {
            Stream::Out => write_all(&mut io::stdout().lock(), bytes),
            Stream::Err => write_all(&mut io::stderr().lock(), bytes),
        }
    }
}

fn write_all(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole() {
        let mut lines = Lines::new(3, Stream::Out, true);
        assert_eq!(lines.take(b"hel"), b"");
        assert_eq!(lines.take(b"lo\nwor"), b"[3]<stdout>: hello\n");
        assert_eq!(lines.take(b"ld\n\nx"), b"[3]<stdout>: world\n[3]<stdout>: \n");
        assert_eq!(lines.finish(), b"[3]<stdout>: x\n");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn untagged_output_is_untouched() {
        let mut lines = Lines::new(0, Stream::Err, false);
        assert_eq!(lines.take(b"a\nb"), b"a\n");
        assert_eq!(lines.finish(), b"b");
        let long = vec![b'x'; LINE_LEN_MAX + 1];
        assert_eq!(lines.take(&long), long);
    }
}
