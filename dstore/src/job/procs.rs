//! Process-level values: one column per key.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Key, Rank, Result, Status, Value};
use crate::room;

/// Process-level values as columns: one per key, indexed by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcTable {
    columns: BTreeMap<Key, Column>,
    rows: u32,
}

/// The values of one key. It costs memory for its values, not for the ranks below the highest: a server tells the ranks
/// of one node of a large job, and who means harm names a high rank under many keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The lowest ranks, as long as a fair part of them has values.
    dense: Vec<Option<Value>>,
    /// How many of them have.
    filled: usize,
    /// Ranks above these.
    apart: BTreeMap<u32, Value>,
    /// Which values are derived: ranges of ranks, from and to, ascending.
    derived: Vec<(u32, u32)>,
}

impl ProcTable {
    /// Ranks above this are refused: what goes over all ranks below a wrong one must end.
    pub const RANK_MAX: u32 = 1 << 28;

    /// One more than the highest rank that has a value.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Sets the value of `key` for `rank`.
    ///
    /// # Errors
    /// `BAD_PARAM` for a special rank or one above [`ProcTable::RANK_MAX`]; `NOMEM`.
    pub fn set(&mut self, rank: Rank, key: Key, value: Value) -> Result<()> {
        if rank.0 > Self::RANK_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.columns.entry(key).or_default().set(rank.0, value)?;
        self.rows = self.rows.max(rank.0 + 1);
        Ok(())
    }

    /// Fills in a value that the host did not give. Ranks come in ascending order.
    pub(super) fn derive(&mut self, rank: Rank, key: &'static str, value: impl FnOnce() -> Value) -> Result<()> {
        if self.get(rank, key.as_bytes()).is_some() {
            return Ok(());
        }
        self.set(rank, Key::from(key), value())?;
        let derived = &mut self.columns.entry(Key::from(key)).or_default().derived;
        match derived.last_mut() {
            Some((_, last)) if *last + 1 == rank.0 => *last = rank.0,
            _ => room::push(derived, (rank.0, rank.0))?,
        }
        Ok(())
    }

    /// Takes out all that was derived.
    pub(super) fn forget_derived(&mut self) {
        for column in self.columns.values_mut() {
            for (first, last) in std::mem::take(&mut column.derived) {
                (first..=last).for_each(|rank| column.unset(rank));
            }
        }
        self.columns.retain(|_, column| !column.is_empty());
        self.rows = self.columns.values().map(Column::rows).max().unwrap_or(0);
    }

    /// Takes out a key of all ranks.
    pub(super) fn remove(&mut self, key: &str) {
        self.columns.remove(key.as_bytes());
        self.rows = self.columns.values().map(Column::rows).max().unwrap_or(0);
    }

    /// The value of `key` for `rank`.
    pub fn get(&self, rank: Rank, key: &[u8]) -> Option<&Value> {
        self.columns.get(key)?.get(rank.0)
    }

    /// The columns in key order.
    pub fn columns(&self) -> impl Iterator<Item = (&Key, &Column)> {
        self.columns.iter()
    }

    /// The values of one rank in key order.
    pub fn row(&self, rank: Rank) -> impl Iterator<Item = (&Key, &Value)> {
        self.columns.iter().filter_map(move |(key, column)| Some((key, column.get(rank.0)?)))
    }

    /// The ranks that have a value, ascending.
    pub fn ranks(&self) -> Vec<Rank> {
        let dense_len = self.columns.values().map(|column| column.dense.len()).max().unwrap_or(0);
        let mut dense = vec![false; dense_len];
        let mut apart = BTreeSet::new();
        for (rank, _) in self.columns.values().flat_map(Column::iter) {
            match dense.get_mut(rank.0 as usize) {
                Some(has) => *has = true,
                None => drop(apart.insert(rank)),
            }
        }
        (0..).map(Rank).zip(dense).filter_map(|(rank, has)| has.then_some(rank)).chain(apart).collect()
    }
}

impl Column {
    /// A dense part of at most this length is kept whatever it holds.
    const DENSE_LEN: usize = 16;
    /// Above that one in so many has a value.
    const DENSE_SHARE: usize = 4;

    fn set(&mut self, row: u32, value: Value) -> Result<()> {
        room::check()?;
        if row as usize >= dense_len_max(self.filled).max(self.dense.len()) {
            self.apart.insert(row, value);
            return Ok(());
        }
        self.set_dense(row, value)?;
        while let Some(next) =
            self.apart.first_entry().filter(|next| (*next.key() as usize) < dense_len_max(self.filled))
        {
            let (row, value) = next.remove_entry();
            self.set_dense(row, value)?;
        }
        Ok(())
    }

    fn set_dense(&mut self, row: u32, value: Value) -> Result<()> {
        let row = row as usize;
        if self.dense.len() <= row {
            let more = row + 1 - self.dense.len();
            room::reserve(&mut self.dense, more)?;
            self.dense.resize(row + 1, None);
        }
        self.filled += usize::from(self.dense[row].replace(value).is_none());
        Ok(())
    }

    fn unset(&mut self, row: u32) {
        match self.dense.get_mut(row as usize) {
            Some(cell) => self.filled -= usize::from(cell.take().is_some()),
            None => drop(self.apart.remove(&row)),
        }
        while self.dense.last().is_some_and(Option::is_none) {
            self.dense.pop();
        }
    }

    fn is_empty(&self) -> bool {
        self.dense.is_empty() && self.apart.is_empty()
    }

    /// The value of a rank.
    pub fn get(&self, row: u32) -> Option<&Value> {
        match self.dense.get(row as usize) {
            Some(cell) => cell.as_ref(),
            None if self.apart.is_empty() => None,
            None => self.apart.get(&row),
        }
    }

    /// One more than the highest rank that has a value.
    pub fn rows(&self) -> u32 {
        self.apart.last_key_value().map_or(self.dense.len() as u32, |(row, _)| row + 1)
    }

    /// The ranks with their values, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, &Value)> {
        let dense = (0..).zip(&self.dense).filter_map(|(row, cell)| Some((Rank(row), cell.as_ref()?)));
        dense.chain(self.apart.iter().map(|(row, value)| (Rank(*row), value)))
    }
}

/// How long a dense part with so many values may be.
fn dense_len_max(filled: usize) -> usize {
    Column::DENSE_LEN + Column::DENSE_SHARE * filled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets ranks in an order, and compares with a plain map.
    fn check(ranks: impl Iterator<Item = u32>) -> Column {
        let mut table = ProcTable::default();
        let mut plain = BTreeMap::new();
        for (turn, rank) in (0..).zip(ranks) {
            table.set(Rank(rank), "k".into(), Value::Uint32(turn)).unwrap();
            plain.insert(Rank(rank), Value::Uint32(turn));
        }
        let column = table.columns["k".as_bytes()].clone();
        assert!(column.iter().eq(plain.iter().map(|(rank, value)| (*rank, value))));
        assert!(plain.iter().all(|(rank, value)| table.get(*rank, b"k") == Some(value)));
        assert_eq!(table.rows(), plain.last_key_value().unwrap().0.0 + 1);
        assert_eq!(column.rows(), table.rows());
        assert!(table.ranks().iter().eq(plain.keys()));
        assert_eq!(column.filled, column.dense.iter().flatten().count());
        assert!(column.dense.len() <= dense_len_max(column.filled), "{} for {}", column.dense.len(), column.filled);
        column
    }

    #[test]
    fn columns_hold_ranks_in_any_order() {
        for ranks in [
            (0..1000).collect::<Vec<u32>>(),
            (0..1000).rev().collect(),
            (0..1000).map(|n| n * 7919 % 1009).collect(),
            (0..1000).chain((0..1000).rev()).collect(),
        ] {
            let column = check(ranks.into_iter());
            assert!(column.apart.len() < 10, "as good as all of them side by side");
        }
        check((0..1000).map(|n| n * 1009));
        check([7, 70_000, 3, 70_000, 69_999].into_iter());
        check([ProcTable::RANK_MAX].into_iter());
    }

    #[test]
    fn a_high_rank_costs_no_more_than_a_low_one() {
        for rank in [0, 1 << 20, ProcTable::RANK_MAX] {
            let column = check([rank].into_iter());
            assert!(column.dense.capacity() <= 2 * Column::DENSE_LEN, "{rank}");
        }
    }
}
