//! Writing the column form.

use std::collections::HashMap;
use std::ops::Range;

use pmix_dstore::codec::{Dialect, Packer};
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Bytes, Key, Rank, Result, Status, Value};

use super::runs::{self, Run};
use super::{Allowance, DIFFERENT, EARLIER_NAME, EQUAL, KIND_BITS, MAGIC, PREFIXES, ZEROS, number};

/// Shorter runs of zeros between equal bytes are not worth a segment.
const ZEROS_MIN: usize = 3;

/// The values of ranks for other nodes, as a contribution borrows them.
type Ranks<'a> = [(Rank, Vec<(&'a Key, &'a Value)>)];

/// A packed value.
enum Cell<'a> {
    /// Where it lies among the short ones.
    Short(Range<usize>),
    /// A long one stays where it is.
    Long(&'a Value),
}

/// The values of one key that are equally long.
struct Column<'a> {
    name: usize,
    /// Bytes of each.
    len: usize,
    /// Whether they are packed where they are written, without looking for equal bytes.
    is_long: bool,
    /// The ranks, by their places in the contribution.
    members: Vec<Run>,
    cells: Vec<Cell<'a>>,
}

/// The contribution in the column form, in its envelope. `None` where that does not suit: it would not be shorter than the form of released
/// libraries with `more` bytes beside the values, most values are long, a key or a rank is there twice, or it would stand for more than readers
/// allow. Long values are not copied.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` if the encoder does not know a value's type; `NOMEM`.
pub fn write(dialect: Dialect, ranks: &Ranks<'_>, more: usize) -> Result<Option<GatherBuf>> {
    let mut order: Vec<&(Rank, Vec<(&Key, &Value)>)> = fallible_alloc::vec(ranks.len())?;
    order.extend(ranks);
    order.sort_unstable_by_key(|(rank, _)| rank.0);
    if order.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Ok(None);
    }
    if are_mostly_long(ranks) {
        return Ok(None);
    }
    let mut table = Table::new(dialect);
    for (place, (_, values)) in order.iter().enumerate() {
        if !table.add(place, values)? {
            return Ok(None);
        }
    }
    let mut head = Vec::new();
    fallible_alloc::extend(&mut head, &MAGIC)?;
    let mut rank_runs = Vec::new();
    order.iter().try_for_each(|(rank, _)| runs::add(&mut rank_runs, rank.0.into()))?;
    runs::put(&mut head, &rank_runs)?;
    let mut out = Packer::new(dialect).sharing();
    let mut len = 0;
    out.byte_object_of(|body| {
        table.write(head, order.len(), body)?;
        len = body.len();
        Ok(())
    })?;
    let suits = order.is_empty() || len < table.stock_len(order.len()) + more && table.is_allowed(len, order.len());
    Ok(suits.then(|| out.into_pieces()))
}

/// Whether a value stays where it is.
fn is_long(value: &Value) -> bool {
    matches!(value, Value::ByteObject(bytes) if bytes.len() >= Bytes::SHARED_MIN)
}

/// Whether most values are long: columns would cost more time than the few bytes of their framing are worth.
fn are_mostly_long(ranks: &Ranks<'_>) -> bool {
    let values = || ranks.iter().flat_map(|(_, values)| values);
    values().filter(|(_, value)| is_long(value)).count() > values().count() / 2
}

/// The columns that come about rank by rank.
struct Table<'a> {
    columns: Vec<Column<'a>>,
    /// The names of keys, in the order of first use, and the place of the rank that had one last.
    names: Vec<(&'a [u8], usize)>,
    numbers: HashMap<&'a [u8], usize>,
    /// By name, length and whether it is a column of long values.
    by_shape: HashMap<(usize, usize, bool), usize>,
    /// The columns of the last rank's values: the next rank mostly has the same keys in the same order.
    layout: Vec<usize>,
    /// The short values.
    packed: Packer,
    /// For the length of long ones.
    scratch: Packer,
}

/// The place of no rank.
const NOWHERE: usize = usize::MAX;

impl<'a> Table<'a> {
    fn new(dialect: Dialect) -> Table<'a> {
        Table {
            columns: Vec::new(),
            names: Vec::new(),
            numbers: HashMap::new(),
            by_shape: HashMap::new(),
            layout: Vec::new(),
            packed: Packer::new(dialect),
            scratch: Packer::new(dialect).sharing(),
        }
    }

    /// Adds the values of the rank at `place`. Whether each key is there once.
    fn add(&mut self, place: usize, values: &[(&'a Key, &'a Value)]) -> Result<bool> {
        for (nth, (key, value)) in values.iter().enumerate() {
            let (cell, len) = self.pack(value)?;
            let number = self.column(nth, key.as_bytes(), len, matches!(cell, Cell::Long(_)))?;
            let column = &mut self.columns[number];
            let seen = std::mem::replace(&mut self.names[column.name].1, place);
            if seen == place {
                return Ok(false);
            }
            runs::add(&mut column.members, place as u64)?;
            fallible_alloc::push(&mut column.cells, cell)?;
        }
        Ok(true)
    }

    /// Packs a value, and its length.
    fn pack(&mut self, value: &'a Value) -> Result<(Cell<'a>, usize)> {
        if is_long(value) {
            self.scratch.clear();
            self.scratch.value(value)?;
            return Ok((Cell::Long(value), self.scratch.len()));
        }
        let start = self.packed.len();
        self.packed.value(value)?;
        Ok((Cell::Short(start..self.packed.len()), self.packed.len() - start))
    }

    /// The column for values of a key and a length, the `nth` of their rank.
    fn column(&mut self, nth: usize, key: &'a [u8], len: usize, is_long: bool) -> Result<usize> {
        if let Some(&number) = self.layout.get(nth) {
            let column = &self.columns[number];
            if column.len == len && column.is_long == is_long && self.names[column.name].0 == key {
                return Ok(number);
            }
        }
        fallible_alloc::reserve_entries(&mut self.numbers, 1)?;
        let name = *self.numbers.entry(key).or_insert(self.names.len());
        if name == self.names.len() {
            fallible_alloc::push(&mut self.names, (key, NOWHERE))?;
        }
        fallible_alloc::reserve_entries(&mut self.by_shape, 1)?;
        let number = *self.by_shape.entry((name, len, is_long)).or_insert(self.columns.len());
        if number == self.columns.len() {
            let column = Column { name, len, is_long, members: Vec::new(), cells: Vec::new() };
            fallible_alloc::push(&mut self.columns, column)?;
        }
        if nth < self.layout.len() {
            self.layout[nth] = number;
        } else {
            fallible_alloc::push(&mut self.layout, number)?;
        }
        Ok(number)
    }

    /// Writes `head` and the columns, for `ranks` ranks.
    fn write(&self, mut head: Vec<u8>, ranks: usize, body: &mut Packer) -> Result<()> {
        number::put(&mut head, self.columns.len() as u64)?;
        let mut written = 0;
        for column in &self.columns {
            self.put_name(&mut head, column.name, &mut written)?;
            number::put(&mut head, column.len as u64)?;
            match column.members[..] {
                [Run { first: 0, len }] if len == ranks as u64 => number::put(&mut head, 0)?,
                ref members => runs::put(&mut head, members)?,
            }
            if column.is_long {
                put_segment(&mut head, DIFFERENT, column.len)?;
                body.raw(&head)?;
                head.clear();
                column.cells.iter().try_for_each(|cell| match cell {
                    Cell::Long(value) => body.value(value),
                    Cell::Short(_) => Err(Status::ERR_PACK_FAILURE),
                })?;
            } else {
                self.put_values(&mut head, column)?;
            }
        }
        body.raw(&head)
    }

    /// Names are numbered in the order in which columns need them first, which is that of `names`.
    fn put_name(&self, out: &mut Vec<u8>, name: usize, written: &mut usize) -> Result<()> {
        if name < *written {
            return number::put(out, EARLIER_NAME + name as u64);
        }
        *written = name + 1;
        let bytes = self.names[name].0;
        let prefix = PREFIXES.iter().rposition(|prefix| bytes.starts_with(prefix.as_bytes())).unwrap_or(0);
        let suffix = &bytes[PREFIXES[prefix].len()..];
        number::put(out, prefix as u64)?;
        number::put(out, suffix.len() as u64)?;
        fallible_alloc::extend(out, suffix)
    }

    /// The segments of a column, the bytes that are equal, and those that are not, rank by rank.
    fn put_values(&self, out: &mut Vec<u8>, column: &Column<'a>) -> Result<()> {
        let packed = self.packed.as_bytes();
        let rows = || {
            column.cells.iter().map(|cell| match cell {
                Cell::Short(range) => &packed[range.clone()],
                Cell::Long(_) => &[],
            })
        };
        let Some(first) = rows().next() else { return Ok(()) };
        let mut differs = fallible_alloc::filled(0, first.len())?;
        for row in rows() {
            differs.iter_mut().zip(row).zip(first).for_each(|((differs, byte), first)| *differs |= byte ^ first);
        }
        let segments = segments_of(first, &differs)?;
        segments.iter().try_for_each(|(kind, range)| put_segment(out, *kind, range.len()))?;
        for (_, range) in segments.iter().filter(|(kind, _)| *kind == EQUAL) {
            fallible_alloc::extend(out, &first[range.clone()])?;
        }
        let own = || segments.iter().filter(|(kind, _)| *kind == DIFFERENT).map(|(_, range)| range.clone());
        for row in rows() {
            own().try_for_each(|range| fallible_alloc::extend(out, &row[range]))?;
        }
        Ok(())
    }

    /// About what the values take in the form of released libraries with a key map.
    fn stock_len(&self, ranks: usize) -> usize {
        let names: usize = self.names.iter().map(|(name, _)| name.len() + 2).sum();
        let values: usize = self.columns.iter().map(|column| column.cells.len() * (column.len + 2)).sum();
        names + values + 5 * ranks
    }

    /// Whether readers allow what a contribution of `len` bytes stands for.
    fn is_allowed(&self, len: usize, ranks: usize) -> bool {
        let mut allowance = Allowance::of(len);
        let weight = |column: &Column<'_>| if column.is_long { 0 } else { column.len as u64 };
        allowance.take(ranks as u64, 0)
            && self.columns.iter().all(|column| allowance.take(column.cells.len() as u64, weight(column)))
    }
}

fn put_segment(out: &mut Vec<u8>, kind: u64, len: usize) -> Result<()> {
    number::put(out, (len as u64 - 1) << KIND_BITS | kind)
}

/// The segments of values of which `first` is one and `differs` has the bits in which others differ from it.
fn segments_of(first: &[u8], differs: &[u8]) -> Result<Vec<(u64, Range<usize>)>> {
    let mut segments: Vec<(u64, Range<usize>)> = Vec::new();
    for (at, (byte, differs)) in first.iter().zip(differs).enumerate() {
        let kind = match (byte, differs) {
            (0, 0) => ZEROS,
            (_, 0) => EQUAL,
            _ => DIFFERENT,
        };
        match segments.last_mut() {
            Some((last, range)) if *last == kind => range.end = at + 1,
            _ => fallible_alloc::push(&mut segments, (kind, at..at + 1))?,
        }
        // Few zeros between equal bytes are equal bytes.
        if let [.., (EQUAL, before), (ZEROS, zeros), (EQUAL, _)] = &mut segments[..]
            && zeros.len() < ZEROS_MIN
        {
            before.end = at + 1;
            segments.truncate(segments.len() - 2);
        }
    }
    Ok(segments)
}
