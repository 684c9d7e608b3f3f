//! Process-level values: one column per key.

mod column;
mod numbers;
mod texts;

use std::collections::BTreeMap;

use super::placement::Stretches;
use crate::codec::ValueRef;
use crate::maps;
use crate::model::{DataType, Key, Rank, Result, Status, Value};

pub use column::Column;
pub(crate) use column::FullColumn;
pub(crate) use numbers::Formula;
#[cfg(feature = "builder")]
pub(crate) use numbers::{Piece, Piecewise};

/// Process-level values as columns: one per key, indexed by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcTable {
    columns: BTreeMap<Key, Column>,
    rows: u32,
}

impl ProcTable {
    /// Higher ranks are refused. It bounds loops over all ranks below a wrong one.
    pub const RANK_MAX: u32 = maps::RANK_MAX;

    /// A table of these columns, one for each key.
    pub(super) fn of_columns(columns: impl Iterator<Item = (Key, Column)>) -> ProcTable {
        let mut table = ProcTable { columns: columns.filter(|(_, column)| !column.is_empty()).collect(), rows: 0 };
        table.count_rows();
        table
    }

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

    /// Merges the values of another table, which replace existing ones.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn merge(&mut self, newer: ProcTable) -> Result<()> {
        for (key, column) in newer.columns {
            let own = self.columns.entry(key).or_default();
            if own.is_empty() {
                *own = column;
            } else {
                column.iter().try_for_each(|(rank, value)| own.set_ref(rank.0, value))?;
            }
        }
        self.rows = self.rows.max(newer.rows);
        Ok(())
    }

    /// Fills in values that the host did not give. Ranks come in ascending order and are below `rows`.
    pub(super) fn derive<'v>(
        &mut self,
        key: &'static str,
        rows: u32,
        values: impl Iterator<Item = (Rank, ValueRef<'v>)>,
    ) -> Result<()> {
        self.derive_with(key, rows, |column| column.derive(values))
    }

    /// As [`ProcTable::derive`], with the numbers of a formula.
    pub(super) fn derive_numbers(
        &mut self,
        key: &'static str,
        rows: u32,
        ty: DataType,
        formula: Formula,
    ) -> Result<()> {
        self.derive_with(key, rows, |column| column.derive_numbers(ty, formula, rows))
    }

    /// The same for each rank that has a value of any key.
    pub(super) fn derive_of_all(&mut self, key: &'static str, ty: DataType, formula: Formula) -> Result<()> {
        let is_full = |whole: FullColumn<'_>| whole.rows() == self.rows;
        if self.columns.values().filter_map(Column::full).any(is_full) {
            return self.derive_numbers(key, self.rows, ty, formula);
        }
        let mask = ty.scalar_mask().unwrap_or(u64::MAX);
        let number = |rank: Rank| ValueRef::Scalar { ty, bits: formula.at(rank.0) & mask };
        self.derive(key, self.rows, self.ranks().map(|rank| (rank, number(rank))))
    }

    /// As [`ProcTable::derive`], with the values of the nodes on which all ranks are: numbers of one type, or texts.
    pub(super) fn derive_of_nodes(
        &mut self,
        key: &'static str,
        placed: &Stretches,
        of_nodes: &[ValueRef<'_>],
    ) -> Result<()> {
        self.derive_with(key, placed.ranks(), |column| column.derive_of_nodes(placed, of_nodes))
    }

    /// As [`ProcTable::derive`], with the local ranks.
    pub(super) fn derive_locals(&mut self, key: &'static str, placed: &Stretches, ty: DataType) -> Result<()> {
        self.derive_with(key, placed.ranks(), |column| column.derive_locals(placed, ty))
    }

    fn derive_with(
        &mut self,
        key: &'static str,
        rows: u32,
        fill: impl FnOnce(&mut Column) -> Result<()>,
    ) -> Result<()> {
        if self.is_whole(key, rows) {
            return Ok(());
        }
        let column = self.columns.entry(Key::from(key)).or_default();
        fill(column)?;
        self.rows = self.rows.max(column.rows());
        if column.is_empty() {
            self.columns.remove(key.as_bytes());
        }
        Ok(())
    }

    /// Whether each of the first `rows` ranks has a value of `key`, all of one type.
    pub(super) fn is_whole(&self, key: &str, rows: u32) -> bool {
        self.column(key).and_then(Column::full).is_some_and(|whole| whole.rows() >= rows)
    }

    /// Removes all derived values.
    pub(super) fn forget_derived(&mut self) -> Result<()> {
        self.columns.values_mut().try_for_each(Column::forget_derived)?;
        self.columns.retain(|_, column| !column.is_empty());
        self.count_rows();
        Ok(())
    }

    /// Removes the values of a key.
    pub(super) fn remove(&mut self, key: &str) {
        self.columns.remove(key.as_bytes());
        self.count_rows();
    }

    fn count_rows(&mut self) {
        self.rows = self.columns.values().map(Column::rows).max().unwrap_or(0);
    }

    /// The value of `key` for `rank`.
    pub fn get(&self, rank: Rank, key: &[u8]) -> Option<ValueRef<'_>> {
        self.columns.get(key)?.get(rank.0)
    }

    /// The values of a key.
    pub fn column(&self, key: &str) -> Option<&Column> {
        self.columns.get(key.as_bytes())
    }

    /// The columns in key order.
    pub fn columns(&self) -> impl Iterator<Item = (&Key, &Column)> {
        self.columns.iter()
    }

    /// The values of one rank in key order.
    pub fn row(&self, rank: Rank) -> impl Iterator<Item = (&Key, ValueRef<'_>)> {
        self.columns.iter().filter_map(move |(key, column)| Some((key, column.get(rank.0)?)))
    }

    /// The ranks that have a value, ascending.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + Clone + use<> {
        let mut runs: Vec<(u32, u32)> = self.columns.values().flat_map(Column::runs).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, before| {
            let is_joined = next.0 <= before.1;
            before.1 = if is_joined { before.1.max(next.1) } else { before.1 };
            is_joined
        });
        runs.into_iter().flat_map(|(first, last)| first..=last).map(Rank)
    }

    /// Approximate memory of the values in bytes.
    pub fn bytes(&self) -> usize {
        self.columns.values().map(Column::bytes).sum()
    }
}

#[cfg(test)]
mod tests;
