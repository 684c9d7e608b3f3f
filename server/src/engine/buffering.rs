//! Output that is held back for a pull: `PMIX_IOF_BUFFERING_SIZE` and `_TIME` group small pieces, `PMIX_IOF_CACHE_SIZE` bounds what
//! waits, `PMIX_IOF_DROP_OLDEST` and `_NEWEST` say what goes beyond that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Proc, Result, Status, keys};
use pmix_wire::IoDelivery;

/// Estimated overhead of a piece of output.
pub(super) const PIECE: usize = 128;

/// How a pull's output is to be held back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Buffering {
    /// Deliver when a process has written so many bytes on a channel.
    size: Option<usize>,
    /// Deliver what has waited so long.
    time: Option<Duration>,
    /// How many bytes of a channel may wait.
    cache: Option<usize>,
    drops_oldest: bool,
}

/// Output of one process on one channel that waits.
struct Held {
    output: IoDelivery,
    /// How many bytes at the front have been dropped. They go when they are many: to move the others each time would take long.
    dropped: usize,
    since: Instant,
}

impl Held {
    fn len(&self) -> usize {
        self.output.data.len() - self.dropped
    }

    fn drop_oldest(&mut self, bytes: usize) {
        self.dropped += bytes;
        if self.dropped > self.output.data.len() / 2 {
            self.output.data.drain(..self.dropped);
            self.dropped = 0;
        }
    }
}

/// What waits for one pull.
#[derive(Default)]
pub(super) struct Buffer {
    /// By age: what came later has a larger number.
    held: BTreeMap<u64, Held>,
    numbers: BTreeMap<(Proc, u16), u64>,
    last: u64,
    /// The bytes of each channel.
    of_channels: BTreeMap<u16, usize>,
}

/// How much of the output that was kept before a pull is sent to it, of one channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Room {
    skip: usize,
    left: usize,
}

impl Room {
    pub const UNLIMITED: Room = Room { skip: 0, left: usize::MAX };

    /// The part of the next piece that is sent.
    pub fn cut<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let skip = self.skip.min(data.len());
        self.skip -= skip;
        let taken = self.left.min(data.len() - skip);
        self.left -= taken;
        &data[skip..skip + taken]
    }
}

impl Buffering {
    /// Reads the directives of a pull. A size or time of 0 is none.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a value that is no number, and if both the oldest and the newest bytes are to be dropped.
    pub fn read(infos: &[Info]) -> Result<Buffering> {
        let number = |key: &str| {
            let number = Info::find(infos, key).map(|value| value.as_u32().ok_or(Status::ERR_BAD_PARAM)).transpose()?;
            Ok::<_, Status>(number.filter(|number| *number > 0))
        };
        let drops_oldest = Info::is_set(infos, keys::IOF_DROP_OLDEST);
        if drops_oldest && Info::is_set(infos, keys::IOF_DROP_NEWEST) {
            return Err(Status::ERR_BAD_PARAM);
        }
        Ok(Buffering {
            size: number(keys::IOF_BUFFERING_SIZE)?.map(|size| size as usize),
            time: number(keys::IOF_BUFFERING_TIME)?.map(|time| Duration::from_secs(time.into())),
            cache: number(keys::IOF_CACHE_SIZE)?.map(|size| size as usize),
            drops_oldest,
        })
    }

    /// Whether output waits at all.
    pub fn holds(&self) -> bool {
        self.size.is_some() || self.time.is_some()
    }

    /// When output that waits since then is delivered.
    fn due(&self, since: Instant) -> Option<Instant> {
        since.checked_add(self.time?)
    }

    /// What of `total` bytes, which were kept before the pull, it gets.
    pub fn room(&self, total: usize) -> Room {
        match self.cache {
            Some(cache) if self.drops_oldest => Room { skip: total.saturating_sub(cache), left: usize::MAX },
            Some(cache) => Room { skip: 0, left: cache },
            None => Room::UNLIMITED,
        }
    }
}

impl Buffer {
    /// Adds a piece of output; returns what is to be delivered now, in order.
    ///
    /// # Errors
    /// `ERR_NOMEM`: the piece is not in it.
    pub fn add(&mut self, how: Buffering, piece: &IoDelivery, now: Instant) -> Result<Vec<IoDelivery>> {
        let mut out = Vec::new();
        let of_source = (piece.source.clone(), piece.channel);
        let number = self.numbers.get(&of_source).copied();
        let mut waiting = number.and_then(|number| self.held.get_mut(&number));
        // The end of a stream does not wait, and infos belong to the bytes that they came with.
        if let Some(number) = number
            && waiting.as_ref().is_some_and(|held| piece.data.is_empty() || held.output.infos != piece.infos)
        {
            out.extend(self.take(number));
            waiting = None;
        }
        if piece.data.is_empty() {
            out.push(piece.clone());
            return Ok(out);
        }
        let len = match waiting {
            Some(held) => {
                fallible_alloc::extend(&mut held.output.data, &piece.data)?;
                held.len()
            }
            None => {
                let output = IoDelivery {
                    source: piece.source.clone(),
                    channel: piece.channel,
                    handler: piece.handler,
                    infos: piece.infos.clone(),
                    data: fallible_alloc::copy(&piece.data)?,
                };
                self.last += 1;
                self.numbers.insert(of_source.clone(), self.last);
                self.held.insert(self.last, Held { output, dropped: 0, since: now });
                piece.data.len()
            }
        };
        *self.of_channels.entry(piece.channel).or_default() += piece.data.len();
        if how.size.is_some_and(|size| len >= size) {
            let number = self.numbers.get(&of_source).copied();
            out.extend(number.and_then(|number| self.take(number)));
        } else if let Some(cache) = how.cache {
            self.shorten(&of_source, cache, how.drops_oldest);
        }
        Ok(out)
    }

    /// Drops bytes of a channel beyond its cache. The newest are those of `newest`, which has got a piece.
    fn shorten(&mut self, newest: &(Proc, u16), cache: usize, drops_oldest: bool) {
        let channel = newest.1;
        let of_channel = self.of_channels.get(&channel).copied().unwrap_or_default();
        let mut excess = of_channel.saturating_sub(cache);
        while excess > 0 {
            let number = match drops_oldest {
                true => self.held.iter().find(|(_, held)| held.output.channel == channel).map(|(number, _)| *number),
                false => self.numbers.get(newest).copied(),
            };
            let Some((number, held)) = number.and_then(|number| Some((number, self.held.get_mut(&number)?))) else {
                return;
            };
            let dropped = excess.min(held.len());
            match drops_oldest {
                true => held.drop_oldest(dropped),
                false => held.output.data.truncate(held.output.data.len() - dropped),
            }
            let is_empty = held.len() == 0;
            excess -= dropped;
            self.count_out(channel, dropped);
            if is_empty {
                self.take(number);
            }
        }
    }

    fn count_out(&mut self, channel: u16, bytes: usize) {
        if let Some(count) = self.of_channels.get_mut(&channel) {
            *count -= bytes;
        }
    }

    /// Takes out what waits of one process and channel.
    fn take(&mut self, number: u64) -> Option<IoDelivery> {
        let Held { mut output, dropped, .. } = self.held.remove(&number)?;
        output.data.drain(..dropped);
        self.numbers.remove(&(output.source.clone(), output.channel));
        self.count_out(output.channel, output.data.len());
        Some(output)
    }

    /// Takes out what waits of the sources that `is_wanted`, the oldest first.
    pub fn take_of(&mut self, is_wanted: impl Fn(&Proc) -> bool) -> Vec<IoDelivery> {
        let wanted = self.held.iter().filter(|(_, held)| is_wanted(&held.output.source));
        let numbers: Vec<u64> = wanted.map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// Takes out what has waited for its time.
    pub fn take_due(&mut self, how: Buffering, now: Instant) -> Vec<IoDelivery> {
        let mut out = Vec::new();
        while let Some((&number, held)) = self.held.first_key_value()
            && how.due(held.since).is_some_and(|due| due <= now)
        {
            out.extend(self.take(number));
        }
        out
    }

    /// When something has waited for its time.
    pub fn due(&self, how: Buffering) -> Option<Instant> {
        how.due(self.held.first_key_value()?.1.since)
    }

    /// An estimate of its memory.
    pub fn len(&self) -> usize {
        self.of_channels.values().sum::<usize>() + self.held.len() * PIECE
    }
}
