//! Columns beside plain maps.

use super::*;
use crate::model::{DataType, Info};

/// Sets ranks in an order, and compares with a plain map.
fn check(ranks: impl Iterator<Item = u32>) -> Column {
    let mut table = ProcTable::default();
    let mut plain = BTreeMap::new();
    for (turn, rank) in (0..).zip(ranks) {
        table.set(Rank(rank), "k".into(), Value::Uint32(turn)).unwrap();
        plain.insert(Rank(rank), Value::Uint32(turn));
    }
    assert_same(&table, &plain);
    table.columns["k".as_bytes()].clone()
}

/// Whether a table's only column has the values of a plain map.
#[track_caller]
fn assert_same(table: &ProcTable, plain: &BTreeMap<Rank, Value>) {
    let none = Column::default();
    let column = table.column("k").unwrap_or(&none);
    assert!(column.iter().eq(plain.iter().map(|(rank, value)| (*rank, value.into()))), "{column:?} for {plain:?}");
    let rows = plain.last_key_value().map_or(0, |(rank, _)| rank.0 + 1);
    assert_eq!((table.rows(), column.rows()), (rows, rows));
    for rank in (0..rows.min(3000) + 2).map(Rank).chain(plain.keys().copied()) {
        assert_eq!(table.get(rank, b"k"), plain.get(&rank).map(ValueRef::from), "{rank} of {plain:?}");
    }
    assert!(table.ranks().eq(plain.keys().copied()));
    assert!(column.dense_len() <= Column::DENSE_LEN + 4 * plain.len(), "{} for {}", column.dense_len(), plain.len());
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
        assert!(column.apart_len() < 10, "as good as all of them side by side");
    }
    check((0..1000).map(|n| n * 1009));
    check([7, 70_000, 3, 70_000, 69_999].into_iter());
    check([ProcTable::RANK_MAX].into_iter());
}

#[test]
fn a_high_rank_costs_no_more_than_a_low_one() {
    for rank in [0, 1 << 20, ProcTable::RANK_MAX] {
        let column = check([rank].into_iter());
        assert!(column.bytes() <= 200, "{rank}: {}", column.bytes());
    }
}

/// Numbers that look drawn, always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// One that a formula may give for the rank, or nearly; seldom one of another type.
    fn value(&mut self, kind: u64, rank: u32) -> Value {
        let number = match self.below(40) {
            0 => return Value::infos([Info::new("x", Value::Uint32(rank))]),
            1 => return Value::Undef,
            2 => return Value::String(None),
            3 => self.below(1 << 31) as u32,
            _ => rank / 4 % 8,
        };
        match kind {
            0 => Value::Uint32(number),
            1 => Value::Int16((number as i16).wrapping_sub(3)),
            2 => Value::string(format!("node{number}")),
            3 => Value::ByteObject(vec![number as u8].into()),
            _ => Value::Uint64(u64::from(number) << 20),
        }
    }
}

#[test]
fn columns_are_as_plain_maps_whatever_is_done_to_them() {
    for seed in 0..300 {
        let random = &mut Random(seed);
        let (mut table, mut plain) = (ProcTable::default(), BTreeMap::new());
        let (kind, end) = (random.below(5), 1 + random.below(400));
        for _ in 0..1 + random.below(4) {
            let mut given = ProcTable::default();
            let by = 1 + random.below(3);
            let is_in_turn = random.below(2) == 0;
            for turn in 0..random.below(end) {
                let rank = if is_in_turn { (turn * by) as u32 } else { random.below(end) as u32 };
                let value = random.value(kind, rank);
                plain.insert(Rank(rank), value.clone());
                let target = if seed % 2 == 0 { &mut table } else { &mut given };
                target.set(Rank(rank), "k".into(), value).unwrap();
            }
            table.merge(given).unwrap();
            assert_same(&table, &plain);
            // Derived values are removed again, and the host's values stay.
            let mut with_derived = plain.clone();
            let values: Vec<(Rank, Value)> = (0..end as u32)
                .filter(|rank| rank % 7 != 0)
                .map(|rank| (Rank(rank), random.value(kind, rank)))
                .collect();
            for (rank, value) in &values {
                with_derived.entry(*rank).or_insert(value.clone());
            }
            let derived = values.iter().map(|(rank, value)| (*rank, ValueRef::from(value)));
            table.derive("k", end as u32, derived).unwrap();
            assert_same(&table, &with_derived);
            table.forget_derived().unwrap();
            assert_same(&table, &plain);
        }
        let mut again = ProcTable::default();
        for (rank, value) in plain.iter().rev() {
            again.set(*rank, "k".into(), value.clone()).unwrap();
        }
        assert_eq!(again, table, "however they were filled");
    }
}

#[test]
fn values_given_by_a_formula_take_no_space() {
    let mut table = ProcTable::default();
    let ranks = || (0..100_000).map(Rank);
    let number = |ty, number: u32| ValueRef::Scalar { ty, bits: number.into() };
    table.derive("rank", 0, ranks().map(|rank| (rank, number(DataType::PROC_RANK, rank.0)))).unwrap();
    table.derive("local", 0, ranks().map(|rank| (rank, number(DataType::UINT16, rank.0 % 64)))).unwrap();
    let names: Vec<Value> = (0..1563).map(|node| Value::string(format!("node{node:05}"))).collect();
    let name = |rank: Rank| ValueRef::from(&names[rank.0 as usize / 64]);
    table.derive("host", 0, ranks().map(|rank| (rank, name(rank)))).unwrap();
    assert!(table.bytes() < 100 * names.len(), "{}", table.bytes());
    assert_eq!(table.get(Rank(99_999), b"host"), Some(name(Rank(99_999))));
    table.forget_derived().unwrap();
    assert_eq!((table.rows(), table.columns().count()), (0, 0));
}
