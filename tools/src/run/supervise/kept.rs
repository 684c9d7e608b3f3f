//! Output that is kept for a front end until it has written it.

use std::collections::VecDeque;
use std::time::Instant;

use pmix_dstore::model::Proc;

use super::super::output::Stream;

/// What is kept for a front end.
#[derive(Default)]
pub(super) struct Kept {
    /// How many bytes of output it has acknowledged.
    acknowledged: u64,
    /// Those that it has not.
    pub pieces: VecDeque<Piece>,
    /// It has no connection, and is waited for until then.
    pub away_until: Option<Instant>,
    /// It has come again at least once: output of jobs that were spawned before is not directed to it any more.
    pub has_come_back: bool,
}

/// Output.
pub(super) struct Piece {
    pub source: Proc,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

impl Kept {
    /// The front end has written so many bytes more.
    pub fn acknowledge(&mut self, bytes: u64) {
        self.acknowledged += bytes;
        let mut rest = bytes;
        while let Some(first) = self.pieces.front_mut().filter(|_| rest > 0) {
            let len = first.bytes.len() as u64;
            if len > rest {
                first.bytes.drain(..rest as usize);
                return;
            }
            rest -= len;
            self.pieces.pop_front();
        }
    }

    /// The front end has come again, and has written so many bytes in all.
    pub fn resume(&mut self, written: u64) {
        self.acknowledge(written.saturating_sub(self.acknowledged));
        (self.away_until, self.has_come_back) = (None, true);
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    #[test]
    fn what_is_written_is_forgotten_byte_by_byte() {
        let source = || Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let piece = |text: &str| Piece { source: source(), stream: Stream::Out, bytes: text.as_bytes().to_vec() };
        let mut kept = Kept { pieces: [piece("one"), piece("two"), piece("three")].into(), ..Kept::default() };
        kept.acknowledge(4);
        let left = |kept: &Kept| kept.pieces.iter().flat_map(|piece| piece.bytes.clone()).collect::<Vec<u8>>();
        assert_eq!((left(&kept), kept.len()), (b"wothree".to_vec(), 7));
        // Of these 4 were acknowledged before; what was said of 2 more was lost.
        kept.resume(6);
        assert_eq!(left(&kept), b"three");
        kept.resume(6);
        kept.acknowledge(0);
        assert_eq!(left(&kept), b"three");
        kept.acknowledge(100);
        assert_eq!(kept.len(), 0);
    }
}
