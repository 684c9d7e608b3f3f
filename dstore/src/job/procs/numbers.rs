//! The numbers of a column's rows: a formula while one gives all of them, else an array of the narrowest width.

use crate::fallible_alloc;
use crate::model::Result;

/// `start + ((row / divisor) % modulus) * step`, modulo 2^64 and masked: the numbers of ranks that are placed in blocks or
/// round-robin. A modulus of 0 means none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Formula {
    pub start: u64,
    pub step: u64,
    pub divisor: u32,
    pub modulus: u32,
}

impl Formula {
    /// One number for all rows.
    pub const fn constant(start: u64) -> Formula {
        Formula { start, step: 0, divisor: 1, modulus: 0 }
    }

    /// The formula that gives these numbers, masked with `mask`, if there is one.
    #[cfg(feature = "builder")]
    pub fn of(mut numbers: impl Iterator<Item = u64>, mask: u64) -> Option<Formula> {
        let mut pattern = Pattern::new(mask);
        numbers.all(|number| pattern.push(number)).then_some(pattern.formula)
    }

    /// `start` plus the row.
    pub const fn counting(start: u64) -> Formula {
        Formula { start, step: 1, divisor: 1, modulus: 0 }
    }

    /// The number of a row, not masked.
    pub fn at(&self, row: u32) -> u64 {
        let mut n = row / self.divisor;
        if self.modulus != 0 {
            n %= self.modulus;
        }
        self.start.wrapping_add(self.step.wrapping_mul(n.into()))
    }
}

/// Detects a formula while numbers are added.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    formula: Formula,
    /// Mask of the bits of a number.
    mask: u64,
    rows: u32,
    /// The number of the last row's block, and the block's index within its round.
    number: u64,
    block: u32,
    /// Remaining rows of that block; practically unlimited while there is only one block.
    left: u32,
}

impl Pattern {
    fn new(mask: u64) -> Pattern {
        Pattern { formula: Formula::constant(0), mask, rows: 0, number: 0, block: 0, left: 0 }
    }

    /// The state after adding a formula's numbers of `rows` rows.
    fn of(formula: Formula, rows: u32, mask: u64) -> Pattern {
        let Formula { start, step, divisor, modulus } = formula;
        let mut pattern = Pattern { formula: Formula::constant(start), number: start, rows, ..Pattern::new(mask) };
        let Some(last) = rows.checked_sub(1) else { return Pattern::new(mask) };
        if step == 0 || modulus == 1 || last < divisor {
            pattern.left = u32::MAX - last;
            return pattern;
        }
        // A modulus counts only after the first complete round.
        let is_round = modulus != 0 && last / divisor >= modulus;
        pattern.formula = Formula { modulus: if is_round { modulus } else { 0 }, ..formula };
        pattern.block = if is_round { last / divisor % modulus } else { last / divisor };
        pattern.left = divisor - 1 - last % divisor;
        pattern.number = pattern.get(last);
        pattern
    }

    /// Adds `count` rows with the same number. Stops at the first number that no formula gives. Returns the number of
    /// added rows.
    fn push_many(&mut self, number: u64, count: u32) -> u32 {
        let mut taken = 0;
        while taken < count && self.push(number) {
            let more = self.left.min(count - taken - 1);
            self.left -= more;
            self.rows += more;
            taken += 1 + more;
        }
        taken
    }

    /// Adds the numbers of the next rows. Stops at the first number that no formula gives. Returns the number of added
    /// rows.
    fn push_all(&mut self, numbers: &[u64]) -> usize {
        let mut rest = numbers;
        loop {
            let same = self.count_same(&rest[..rest.len().min(self.left as usize)]);
            self.left -= same as u32;
            self.rows += same as u32;
            rest = &rest[same..];
            rest = &rest[self.push_steps(rest)..];
            match rest.split_first() {
                Some((number, after)) if self.push(*number) => rest = after,
                _ => return numbers.len() - rest.len(),
            }
        }
    }

    /// Length of the prefix that repeats the last row's number.
    fn count_same(&self, numbers: &[u64]) -> usize {
        // Usually all of them; this test has no branch for each.
        if numbers.iter().fold(0, |others, number| others | (number ^ self.number)) == 0 {
            return numbers.len();
        }
        numbers.iter().take_while(|number| **number == self.number).count()
    }

    /// Length of the prefix in which each number is one step after the previous, starting from the last row's number.
    fn count_steps(&self, numbers: &[u64]) -> usize {
        let expected = |index: u64| self.number.wrapping_add(self.formula.step.wrapping_mul(index + 1)) & self.mask;
        let all = || (0..).zip(numbers);
        if all().fold(0, |others, (index, number)| others | (number ^ expected(index))) == 0 {
            return numbers.len();
        }
        all().take_while(|(index, number)| **number == expected(*index)).count()
    }

    /// Adds numbers that are blocks of one row each, up to the next round. Returns the number of added rows.
    fn push_steps(&mut self, numbers: &[u64]) -> usize {
        if self.left != 0 || self.formula.divisor != 1 || self.rows == 0 {
            return 0;
        }
        let round = if self.formula.modulus == 0 { u32::MAX } else { self.formula.modulus };
        let left = (round - 1).saturating_sub(self.block) as usize;
        let count = self.count_steps(&numbers[..numbers.len().min(left)]);
        if let Some(last) = count.checked_sub(1) {
            self.number = numbers[last];
            self.block += count as u32;
            self.rows += count as u32;
        }
        count
    }

    /// Adds the number of the next row. Returns false if no formula gives it after the earlier ones.
    #[inline]
    fn push(&mut self, number: u64) -> bool {
        if self.left != 0 && number == self.number {
            self.left -= 1;
            self.rows += 1;
            return true;
        }
        self.push_block(number)
    }

    /// As [`Pattern::push`], for a number that begins a block or does not fit.
    fn push_block(&mut self, number: u64) -> bool {
        let formula = &mut self.formula;
        if self.rows == 0 {
            formula.start = number;
            self.left = u32::MAX;
        } else if self.left != 0 {
            if formula.step != 0 {
                return false;
            }
            // The first block ends here.
            formula.divisor = self.rows;
            formula.step = number.wrapping_sub(formula.start);
            self.block = 1;
            self.left = self.rows - 1;
        } else {
            let block = self.block + 1;
            let is_last = block == formula.modulus;
            let expected = formula.start.wrapping_add(formula.step.wrapping_mul(block.into())) & self.mask;
            if is_last || number != expected {
                if number != formula.start || !(is_last || formula.modulus == 0) {
                    return false;
                }
                formula.modulus = block;
                self.block = 0;
            } else {
                self.block = block;
            }
            self.left = formula.divisor - 1;
        }
        self.number = number;
        self.rows += 1;
        true
    }

    fn get(&self, row: u32) -> u64 {
        self.formula.at(row) & self.mask
    }
}

/// The numbers of rows 0 to [`Numbers::len`].
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    Pattern(Pattern),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// The same for an array of either width.
macro_rules! each_width {
    ($numbers:expr, $array:ident => $result:expr, $pattern:ident => $other:expr) => {
        match $numbers {
            Numbers::Pattern($pattern) => $other,
            Numbers::U8($array) => $result,
            Numbers::U16($array) => $result,
            Numbers::U32($array) => $result,
            Numbers::U64($array) => $result,
        }
    };
}

impl Numbers {
    /// No rows yet; numbers will be masked with `mask`.
    pub fn new(mask: u64) -> Numbers {
        Numbers::Pattern(Pattern::new(mask))
    }

    /// The numbers of a formula for `rows` rows, masked with `mask`.
    pub fn of(formula: Formula, rows: u32, mask: u64) -> Numbers {
        Numbers::Pattern(Pattern::of(formula, rows, mask))
    }

    pub fn len(&self) -> usize {
        each_width!(self, array => array.len(), pattern => pattern.rows as usize)
    }

    /// The formula of all numbers, if one was detected while they were added.
    pub fn formula(&self) -> Option<Formula> {
        match self {
            Numbers::Pattern(pattern) => Some(pattern.formula),
            _ => None,
        }
    }

    /// Heap memory in bytes.
    pub fn bytes(&self) -> usize {
        each_width!(self, array => size_of_val(array.as_slice()), _pattern => 0)
    }

    /// The number of an existing row.
    #[inline]
    pub fn get(&self, row: u32) -> u64 {
        let index = row as usize;
        match self {
            Numbers::Pattern(pattern) => pattern.get(row),
            Numbers::U8(array) => array[index].into(),
            Numbers::U16(array) => array[index].into(),
            Numbers::U32(array) => array[index].into(),
            Numbers::U64(array) => array[index],
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `NOMEM`.
    #[inline]
    pub fn push(&mut self, number: u64) -> Result<()> {
        if let Numbers::Pattern(pattern) = self
            && pattern.push(number)
        {
            return Ok(());
        }
        self.push_array(number)
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn push_all(&mut self, numbers: &[u64]) -> Result<()> {
        let taken = if let Numbers::Pattern(pattern) = self { pattern.push_all(numbers) } else { 0 };
        numbers[taken..].iter().try_for_each(|number| self.push(*number))
    }

    /// Adds rows with the same number.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn push_many(&mut self, number: u64, count: u32) -> Result<()> {
        let taken = if let Numbers::Pattern(pattern) = self { pattern.push_many(number, count) } else { 0 };
        (taken..count).try_for_each(|_| self.push(number))
    }

    fn push_array(&mut self, number: u64) -> Result<()> {
        self.make_array(number)?;
        each_width!(self, array => fallible_alloc::push(array, number as _), _pattern => Ok(()))
    }

    /// Replaces the number of an existing row.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn replace(&mut self, row: u32, number: u64) -> Result<()> {
        if self.get(row) != number {
            self.make_array(number)?;
            each_width!(self, array => array[row as usize] = number as _, _pattern => {});
        }
        Ok(())
    }

    /// Converts the numbers to an array of `len` rows; new rows are 0.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn resize(&mut self, len: usize) -> Result<()> {
        self.make_array(0)?;
        each_width!(self, array => {
            let more = len.saturating_sub(array.len());
            fallible_alloc::reserve(array, more)?;
            array.resize(len, 0);
        }, _pattern => {});
        Ok(())
    }

    /// Converts the numbers to an array that can hold `number`, too.
    fn make_array(&mut self, number: u64) -> Result<()> {
        let own = each_width!(self, array => 8 * size_of_first(array), pattern => {
            let rows = pattern.rows;
            64 - (0..rows).fold(0, |all, row| all | pattern.get(row)).leading_zeros() as usize
        });
        let bits = own.max(64 - number.leading_zeros() as usize);
        let is_wide = !matches!(self, Numbers::Pattern(_)) && bits == own;
        if is_wide {
            return Ok(());
        }
        let rows = 0..self.len() as u32;
        *self = match bits {
            0..=8 => Numbers::U8(fallible_alloc::collect(rows.map(|row| self.get(row) as u8))?),
            9..=16 => Numbers::U16(fallible_alloc::collect(rows.map(|row| self.get(row) as u16))?),
            17..=32 => Numbers::U32(fallible_alloc::collect(rows.map(|row| self.get(row) as u32))?),
            _ => Numbers::U64(fallible_alloc::collect(rows.map(|row| self.get(row)))?),
        };
        Ok(())
    }
}

fn size_of_first<T>(_: &[T]) -> usize {
    size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds numbers one by one and reads all back at each step; then adds them in batches of several lengths, with the same
    /// result.
    fn of(numbers: &[u64], mask: u64) -> Numbers {
        for first in 0..numbers.len() {
            let mut pieces = Numbers::new(mask);
            let (before, after) = numbers.split_at(first);
            [before, after].into_iter().for_each(|piece| pieces.push_all(piece).unwrap());
            let mut each = Numbers::new(mask);
            numbers.iter().for_each(|number| each.push(*number).unwrap());
            assert_eq!(pieces.formula(), each.formula(), "{numbers:?}");
            assert_eq!(pieces.len(), numbers.len());
            assert!((0..).zip(numbers).all(|(row, number)| pieces.get(row) == *number), "{numbers:?}");
        }
        let mut all = Numbers::new(mask);
        for (row, number) in (0..).zip(numbers) {
            all.push(*number).unwrap();
            assert_eq!(all.len(), row as usize + 1);
            assert_eq!(all.get(row), *number);
        }
        assert!((0..).zip(numbers).all(|(row, number)| all.get(row) == *number), "{numbers:?}");
        all
    }

    #[test]
    fn formulas_are_found_while_numbers_come() {
        let formula = |start, step, divisor, modulus| Some(Formula { start, step, divisor, modulus });
        let all = |n: u64, number: fn(u64) -> u64| (0..n).map(number).collect::<Vec<_>>();
        let found = |numbers: &[u64]| of(numbers, u32::MAX.into()).formula();
        assert_eq!(found(&[]), formula(0, 0, 1, 0));
        assert_eq!(found(&[7; 100]), formula(7, 0, 1, 0));
        assert_eq!(found(&all(100, |n| n)), formula(0, 1, 1, 0));
        assert_eq!(found(&all(100, |n| 3 + n / 8)), formula(3, 1, 8, 0));
        assert_eq!(found(&all(100, |n| n % 8)), formula(0, 1, 1, 8));
        assert_eq!(found(&all(100, |n| n / 4 % 5 * 3)), formula(0, 3, 4, 5));
        assert_eq!(found(&all(100, |n| 5u64.wrapping_sub(n) & 0xffff_ffff)), formula(5, u64::MAX, 1, 0));
        assert_eq!(found(&[1, 1, 1, 2]), formula(1, 1, 3, 0));
        // Inside a block, at its end, and where the second round differs from the first.
        assert_eq!(found(&[1, 1, 2, 2, 3, 4]), None);
        assert_eq!(found(&[0, 1, 2, 4]), None);
        assert_eq!(found(&[0, 1, 2, 0, 1, 3]), None);
        assert_eq!(found(&[0, 1, 2, 0, 1, 2, 3]), None);
        assert_eq!(found(&[0, 0, 1, 1, 0, 1]), None);
    }

    #[test]
    fn formulas_reproduce_their_numbers() {
        for (start, step, divisor, modulus) in
            [(7, 0, 1, 0), (0, 1, 1, 0), (3, 1, 8, 0), (0, 1, 1, 8), (0, 3, 4, 5), (5, u64::MAX, 1, 0), (0, 1, 1, 1)]
        {
            let formula = Formula { start, step, divisor, modulus };
            for rows in 0..64 {
                let mut made = Numbers::of(formula, rows, u32::MAX.into());
                let numbers = |rows| (0..rows).map(|row| formula.at(row) & 0xffff_ffff).collect::<Vec<_>>();
                assert_eq!(made.formula(), of(&numbers(rows), u32::MAX.into()).formula(), "{rows} of {formula:?}");
                // It continues and ends as the original does.
                for row in rows..rows + 40 {
                    made.push(formula.at(row) & 0xffff_ffff).unwrap();
                }
                let mut all = of(&numbers(rows + 40), u32::MAX.into());
                assert_eq!(made.formula(), all.formula(), "{rows} of {formula:?}");
                for number in [formula.at(rows + 40) & 0xffff_ffff, 99] {
                    made.push(number).unwrap();
                    all.push(number).unwrap();
                    assert_eq!(made.formula(), all.formula(), "{rows} of {formula:?}");
                }
            }
        }
    }

    #[test]
    fn rows_can_be_added_many_at_once() {
        let runs = [
            &[(0, 4), (1, 4), (2, 3)][..],
            &[(0, 4), (1, 4), (2, 5)],
            &[(5, 1), (6, 1), (5, 1), (6, 2)],
            &[(1, 2), (2, 2), (1, 2), (2, 1), (2, 1), (1, 7)],
            &[(9, 0), (9, 3), (300, 3), (9, 1)],
        ];
        for runs in runs {
            let mut all = Numbers::new(u64::MAX);
            runs.iter().for_each(|(number, count)| all.push_many(*number, *count).unwrap());
            let each: Vec<u64> =
                runs.iter().flat_map(|(number, count)| std::iter::repeat_n(*number, *count as usize)).collect();
            assert_eq!(all.formula(), of(&each, u64::MAX).formula(), "{runs:?}");
            assert_eq!((0..all.len() as u32).map(|row| all.get(row)).collect::<Vec<_>>(), each);
        }
    }

    #[test]
    fn arrays_are_as_wide_as_they_must() {
        let width = |numbers: &[u64]| each_width!(of(numbers, u64::MAX), array => size_of_first(&array), _pattern => 0);
        assert_eq!(width(&[1, 7, 3]), 1);
        assert_eq!(width(&[1, 7, 3, 255]), 1);
        assert_eq!(width(&[1, 7, 3, 256, 1]), 2);
        assert_eq!(width(&[1, 7, 3, 256, 70_000, 2]), 4);
        assert_eq!(width(&[1, 7, 3, 1 << 32, 2]), 8);
        assert_eq!(width(&[300, 301, 302, 1]), 2, "those that a formula gave count, too");
    }

    #[test]
    fn rows_can_be_added_and_replaced() {
        let mut all = of(&[5, 5, 5], u64::MAX);
        all.replace(1, 5).unwrap();
        assert!(all.formula().is_some());
        all.replace(1, 600).unwrap();
        all.resize(5).unwrap();
        all.push(1).unwrap();
        assert_eq!((0..6).map(|row| all.get(row)).collect::<Vec<_>>(), [5, 600, 5, 0, 0, 1]);
    }
}
