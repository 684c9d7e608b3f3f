//! Output that is kept for a front end until it has written it.

use std::collections::VecDeque;
use std::time::Instant;

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Proc, Status};

use super::super::output::Stream;

/// A piece of so many bytes is not made longer.
const PIECE: usize = 1 << 16;

/// What is kept for a front end.
#[derive(Default)]
pub(super) struct Kept {
    /// How many bytes of output it has acknowledged.
    acknowledged: u64,
    /// Those that it has not.
    pub pieces: VecDeque<Piece>,
    /// The launcher waits for it no longer than this: it has no connection, or the launcher ends.
    pub until: Option<Instant>,
    /// It has reconnected at least once: the server no longer directs the output of jobs that were spawned before to it.
    pub has_reconnected: bool,
}

/// Output that waits.
pub(super) struct Piece {
    pub source: Proc,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

impl Kept {
    /// The front end has written so many bytes more.
    pub fn acknowledge(&mut self, bytes: u64) {
        self.acknowledged = self.acknowledged.saturating_add(bytes);
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

    /// Keeps output. Pieces of one stream become one: a rank may print many short lines.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn push(&mut self, source: Proc, stream: Stream, bytes: &[u8]) -> Result<(), Status> {
        match self.pieces.back_mut() {
            Some(last) if last.source == source && last.stream == stream && last.bytes.len() < PIECE => {
                fallible_alloc::extend(&mut last.bytes, bytes)
            }
            _ => {
                let bytes = fallible_alloc::copy(bytes)?;
                self.pieces.push_back(Piece { source, stream, bytes });
                Ok(())
            }
        }
    }

    /// The front end has reconnected, and has written so many bytes in all.
    pub fn resume(&mut self, written: u64) {
        self.acknowledge(written.saturating_sub(self.acknowledged));
        (self.until, self.has_reconnected) = (None, true);
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
        let mut kept = Kept::default();
        for (stream, text) in [(Stream::Out, "one"), (Stream::Out, "two"), (Stream::Err, "three")] {
            kept.push(source(), stream, text.as_bytes()).unwrap();
        }
        assert_eq!((kept.pieces.len(), kept.len()), (2, 11), "pieces of one stream are one");
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
        kept.acknowledge(u64::MAX);
    }
}
