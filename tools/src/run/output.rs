//! The ranks' output: whole lines, tagged on request, so that lines of several ranks do not mix.

use std::io::{self, Read, Write};

/// A line longer than this is passed on in pieces.
const LINE_LEN_MAX: usize = 64 << 10;
/// What is read at once.
const READ_LEN: usize = 64 << 10;
/// How a rank hands a figure to the report.
const FIGURE_PREFIX: &[u8] = b"pmixrun-report: ";

/// One of a rank's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        }
    }
}

/// A figure that a rank printed for the report: `pmixrun-report: NAME=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// Cuts the bytes of one stream into lines.
#[derive(Debug)]
pub struct Lines {
    tag: Vec<u8>,
    pending: Vec<u8>,
    figures: Option<Vec<Figure>>,
}

impl Lines {
    /// Of one stream of one rank. With `tagged`, lines begin with both; with `figures`, figures are taken out.
    pub fn new(rank: u32, stream: Stream, tagged: bool, figures: bool) -> Lines {
        let tag = if tagged { format!("[{rank}]<{}> ", stream.name()).into_bytes() } else { Vec::new() };
        let figures = (figures && stream == Stream::Out).then(Vec::new);
        Lines { tag, pending: Vec::new(), figures }
    }

    /// Takes bytes in; adds the lines that are whole now to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.pending.extend_from_slice(bytes);
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else {
            if self.pending.len() >= LINE_LEN_MAX {
                let piece = std::mem::take(&mut self.pending);
                self.line(&piece, out);
            }
            return;
        };
        let rest = self.pending.split_off(end + 1);
        let lines = std::mem::replace(&mut self.pending, rest);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.line(line, out);
        }
    }

    /// The stream has ended: what remains is a line, and gets its end if it is to stand beside those of others.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.line(&rest, out);
            if !self.tag.is_empty() {
                out.push(b'\n');
            }
        }
    }

    /// The figures met so far.
    pub fn take_figures(&mut self) -> Vec<Figure> {
        self.figures.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if let (Some(figures), Some(text)) = (&mut self.figures, line.strip_prefix(FIGURE_PREFIX))
            && let Some(figure) = figure(text)
        {
            figures.push(figure);
            return;
        }
        out.extend_from_slice(&self.tag);
        out.extend_from_slice(line);
    }
}

fn figure(text: &[u8]) -> Option<Figure> {
    let (name, value) = std::str::from_utf8(text).ok()?.trim().split_once('=')?;
    Some(Figure { name: name.to_owned(), value: value.parse().ok()? })
}

/// A stream being passed on.
#[derive(Debug)]
pub struct Forward<R> {
    source: Option<R>,
    lines: Lines,
    stream: Stream,
}

impl<R: Read> Forward<R> {
    /// Passes `source` on to pmixrun's own stream of the same kind.
    pub fn new(source: R, lines: Lines, stream: Stream) -> Forward<R> {
        Forward { source: Some(source), lines, stream }
    }

    /// What to wait on, while the stream is open.
    pub fn source(&self) -> Option<&R> {
        self.source.as_ref()
    }

    /// Passes on what is there; call it when the source is readable. Where our own stream is closed, the source is
    /// closed too, so that the rank learns of it as if it wrote there itself.
    pub fn forward(&mut self) {
        let Some(source) = &mut self.source else { return };
        let mut bytes = [0; READ_LEN];
        let mut out = Vec::new();
        match source.read(&mut bytes) {
            Ok(0) => {
                self.lines.finish(&mut out);
                self.source = None;
            }
            Ok(len) => self.lines.feed(&bytes[..len], &mut out),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => self.source = None,
        }
        let written = match self.stream {
            Stream::Out => write(io::stdout().lock(), &out),
            Stream::Err => write(io::stderr().lock(), &out),
        };
        if written.is_err() {
            self.source = None;
        }
    }

    /// The figures met so far.
    pub fn take_figures(&mut self) -> Vec<Figure> {
        self.lines.take_figures()
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    to.write_all(bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(mut lines: Lines, pieces: &[&str]) -> (String, Vec<Figure>) {
        let mut out = Vec::new();
        for piece in pieces {
            lines.feed(piece.as_bytes(), &mut out);
        }
        lines.finish(&mut out);
        (String::from_utf8(out).unwrap(), lines.take_figures())
    }

    #[test]
    fn lines_leave_whole() {
        let mut lines = Lines::new(3, Stream::Out, true, false);
        let mut out = Vec::new();
        lines.feed(b"one\ntw", &mut out);
        assert_eq!(out, b"[3]<stdout> one\n");
        lines.feed(b"o\nthree", &mut out);
        assert_eq!(out, b"[3]<stdout> one\n[3]<stdout> two\n");
        lines.finish(&mut out);
        assert_eq!(out, b"[3]<stdout> one\n[3]<stdout> two\n[3]<stdout> three\n");
    }

    #[test]
    fn untagged_bytes_are_unchanged() {
        let pieces = ["a", "b\n\n", "c\r\nd"];
        assert_eq!(fed(Lines::new(0, Stream::Err, false, true), &pieces).0, pieces.concat());
    }

    #[test]
    fn a_line_without_end_is_passed_on_in_pieces() {
        let mut lines = Lines::new(0, Stream::Out, false, false);
        let mut out = Vec::new();
        lines.feed(&vec![b'x'; LINE_LEN_MAX + 1], &mut out);
        assert_eq!(out.len(), LINE_LEN_MAX + 1);
    }

    #[test]
    fn figures_are_taken_out_when_asked_for() {
        let text = ["a\npmixrun-report: get_median_ns=250\n", "pmixrun-report: nonsense\n"];
        let (out, figures) = fed(Lines::new(0, Stream::Out, false, true), &text);
        assert_eq!(out, "a\npmixrun-report: nonsense\n");
        assert_eq!(figures, [Figure { name: "get_median_ns".into(), value: 250.0 }]);
        assert_eq!(fed(Lines::new(0, Stream::Out, false, false), &text).0, text.concat());
    }
}
