//! The numbers of a column's rows: formulas, each for a piece of the rows, while these are few; else an array of the narrowest
//! width.

use std::ops::Range;

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

    /// Adds the last `rows` rows `times` times again, if the formula gives them.
    fn repeat(&mut self, rows: u32, times: u32) -> bool {
        let Formula { divisor, modulus, .. } = self.formula;
        let period = u64::from(divisor) * u64::from(modulus);
        let is_at_end = self.left == 0 && modulus != 0 && self.block + 1 == modulus;
        let is_round = is_at_end && self.rows >= rows && u64::from(rows).is_multiple_of(period);
        if is_round {
            self.rows += rows * times;
        }
        is_round
    }

    fn get(&self, row: u32) -> u64 {
        self.formula.at(row) & self.mask
    }
}

/// Rows whose numbers a formula gives, by the row's distance to the first of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub rows: Range<u32>,
    pub formula: Formula,
}

/// Formulas for pieces of the rows: the numbers of ranks on nodes that differ only here and there.
#[derive(Clone, Debug)]
pub(crate) struct Piecewise {
    /// The pieces before the last one.
    done: Vec<Piece>,
    /// The last piece, and its first row.
    last: Pattern,
    first: u32,
}

impl Piecewise {
    /// Maximum number of pieces. Readers search them.
    const COUNT_MAX: usize = 4096;
    /// As many are always allowed; more only with this many rows each, so that they take less memory than an array.
    const COUNT_MIN: usize = 16;
    const ROWS_MIN: usize = 32;

    fn new(mask: u64) -> Piecewise {
        Piecewise { done: Vec::new(), last: Pattern::new(mask), first: 0 }
    }

    /// The pieces of these numbers, masked with `mask`. Nothing if they are too many.
    ///
    /// # Errors
    /// `NOMEM`.
    #[cfg(feature = "builder")]
    pub fn of(numbers: impl Iterator<Item = u64>, mask: u64) -> Result<Option<Piecewise>> {
        let mut pieces = Piecewise::new(mask);
        for number in numbers {
            if !pieces.push(number)? {
                return Ok(None);
            }
        }
        Ok(Some(pieces))
    }

    /// Number of rows.
    pub fn rows(&self) -> u32 {
        self.first + self.last.rows
    }

    /// The only formula, if there is one piece.
    pub fn formula(&self) -> Option<Formula> {
        self.done.is_empty().then_some(self.last.formula)
    }

    /// The pieces in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = Piece> {
        let last = Piece { rows: self.first..self.rows(), formula: self.last.formula };
        self.done.iter().cloned().chain([last])
    }

    /// Number of pieces.
    #[cfg(feature = "builder")]
    pub fn count(&self) -> usize {
        self.done.len() + 1
    }

    /// The numbers with as many consecutive rows as each has within its piece.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u32)> {
        let mask = self.last.mask;
        self.iter().flat_map(move |Piece { rows, formula }| {
            let count = rows.end - rows.start;
            let block = if formula.step == 0 { count.max(1) } else { formula.divisor };
            (0..count).step_by(block as usize).map(move |row| (formula.at(row) & mask, block.min(count - row)))
        })
    }

    /// All numbers in the order of their first rows. A number may come several times.
    #[cfg(feature = "builder")]
    pub fn distinct(&self) -> impl Iterator<Item = u64> {
        let mask = self.last.mask;
        self.iter().flat_map(move |Piece { rows, formula }| {
            let blocks = if formula.step == 0 { 1 } else { (rows.end - rows.start).div_ceil(formula.divisor) };
            let once = if formula.modulus == 0 { blocks } else { blocks.min(formula.modulus) };
            (0..once).map(move |block| formula.at(block * formula.divisor) & mask)
        })
    }

    /// The number of an existing row.
    #[inline]
    fn get(&self, row: u32) -> u64 {
        if row >= self.first { self.last.get(row - self.first) } else { self.get_done(row) }
    }

    #[inline(never)]
    fn get_done(&self, row: u32) -> u64 {
        let piece = &self.done[self.done.partition_point(|piece| piece.rows.end <= row)];
        piece.formula.at(row - piece.rows.start) & self.last.mask
    }

    /// Adds a row. Returns false if there are too many pieces.
    #[inline]
    fn push(&mut self, number: u64) -> Result<bool> {
        if self.last.push(number) { Ok(true) } else { self.push_piece(number) }
    }

    /// As [`Piecewise::push`], for a number that the last formula does not give: it begins a piece.
    #[cold]
    fn push_piece(&mut self, number: u64) -> Result<bool> {
        let count_max = Piecewise::COUNT_MAX.min(Piecewise::COUNT_MIN + self.rows() as usize / Piecewise::ROWS_MIN);
        if self.done.len() + 1 >= count_max {
            return Ok(false);
        }
        // A block that is longer than those before it belongs to the new piece as a whole.
        let Pattern { formula, mask, rows, .. } = self.last;
        let again = if number == self.last.number { formula.divisor } else { 0 };
        let kept = rows - again;
        let formula = Pattern::of(formula, kept, mask).formula;
        fallible_alloc::push(&mut self.done, Piece { rows: self.first..self.first + kept, formula })?;
        self.first += kept;
        self.last = Pattern::new(mask);
        self.last.push_many(number, again + 1);
        Ok(true)
    }
}

/// The numbers of rows 0 to [`Numbers::len`].
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    Piecewise(Piecewise),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// The same for an array of either width.
macro_rules! each_width {
    ($numbers:expr, $array:ident => $result:expr, $pieces:ident => $other:expr) => {
        match $numbers {
            Numbers::Piecewise($pieces) => $other,
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
        Numbers::Piecewise(Piecewise::new(mask))
    }

    /// The numbers of a formula for `rows` rows, masked with `mask`.
    pub fn of(formula: Formula, rows: u32, mask: u64) -> Numbers {
        Numbers::Piecewise(Piecewise { last: Pattern::of(formula, rows, mask), ..Piecewise::new(mask) })
    }

    pub fn len(&self) -> usize {
        each_width!(self, array => array.len(), pieces => pieces.rows() as usize)
    }

    /// The pieces whose formulas give all numbers, if they were few enough while numbers were added.
    pub fn pieces(&self) -> Option<&Piecewise> {
        match self {
            Numbers::Piecewise(pieces) => Some(pieces),
            _ => None,
        }
    }

    /// The numbers with as many consecutive rows as have each. Neighbouring runs may have the same number; those of an array are
    /// of one row each.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u32)> {
        let stored = if self.pieces().is_some() { 0 } else { self.len() as u32 };
        self.pieces().into_iter().flat_map(Piecewise::runs).chain((0..stored).map(|row| (self.get(row), 1)))
    }

    /// Heap memory in bytes.
    pub fn bytes(&self) -> usize {
        each_width!(self, array => size_of_val(array.as_slice()), pieces => size_of_val(pieces.done.as_slice()))
    }

    /// The number of an existing row.
    #[inline]
    pub fn get(&self, row: u32) -> u64 {
        let index = row as usize;
        match self {
            Numbers::Piecewise(pieces) => pieces.get(row),
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
        if let Numbers::Piecewise(pieces) = self
            && pieces.push(number)?
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
        let mut rest = numbers;
        while let (Some((number, after)), Numbers::Piecewise(pieces)) = (rest.split_first(), &mut *self) {
            let taken = pieces.last.push_all(rest);
            rest = &rest[taken..];
            if taken == 0 {
                self.push(*number)?;
                rest = after;
            }
        }
        rest.iter().try_for_each(|number| self.push(*number))
    }

    /// Adds rows with the same number.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn push_many(&mut self, number: u64, count: u32) -> Result<()> {
        let mut left = count;
        while left > 0
            && let Numbers::Piecewise(pieces) = self
        {
            let taken = pieces.last.push_many(number, left);
            left -= taken;
            if taken == 0 {
                self.push(number)?;
                left -= 1;
            }
        }
        (0..left).try_for_each(|_| self.push(number))
    }

    /// Calls `push_round`, which adds the same rows each time, `times` times; less often if a formula gives all further rows.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn push_rounds(&mut self, times: u32, push_round: impl Fn(&mut Numbers) -> Result<()>) -> Result<()> {
        for left in (0..times).rev() {
            let before = self.len();
            push_round(self)?;
            let added = (self.len() - before) as u32;
            if let Numbers::Piecewise(pieces) = self
                && pieces.last.repeat(added, left)
            {
                break;
            }
        }
        Ok(())
    }

    fn push_array(&mut self, number: u64) -> Result<()> {
        let bits = each_width!(self, array => 8 * size_of_first(array), _pieces => 0);
        if 64 - number.leading_zeros() as usize > bits || bits == 0 {
            self.make_array(number)?;
        }
        each_width!(self, array => fallible_alloc::push(array, number as _), _pieces => Ok(()))
    }

    /// Replaces the number of an existing row.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn replace(&mut self, row: u32, number: u64) -> Result<()> {
        if self.get(row) != number {
            self.make_array(number)?;
            each_width!(self, array => array[row as usize] = number as _, _pieces => {});
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
        }, _pieces => {});
        Ok(())
    }

    /// Converts the numbers to an array that can hold `number`, too.
    fn make_array(&mut self, number: u64) -> Result<()> {
        let own = each_width!(self, array => 8 * size_of_first(array), pieces => {
            64 - pieces.runs().fold(0, |all, (number, _)| all | number).leading_zeros() as usize
        });
        let bits = own.max(64 - number.leading_zeros() as usize);
        if self.pieces().is_none() && bits == own {
            return Ok(());
        }
        *self = match bits {
            0..=8 => Numbers::U8(self.array(|number| number as u8)?),
            9..=16 => Numbers::U16(self.array(|number| number as u16)?),
            17..=32 => Numbers::U32(self.array(|number| number as u32)?),
            _ => Numbers::U64(self.array(|number| number)?),
        };
        Ok(())
    }

    /// All numbers in an array.
    fn array<T: Clone>(&self, of: impl Fn(u64) -> T) -> Result<Vec<T>> {
        let mut array = fallible_alloc::vec(self.len())?;
        self.runs().for_each(|(number, count)| array.extend(std::iter::repeat_n(of(number), count as usize)));
        Ok(array)
    }
}

fn size_of_first<T>(_: &[T]) -> usize {
    size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula_of(numbers: &Numbers) -> Option<Formula> {
        numbers.pieces().and_then(Piecewise::formula)
    }

    fn pieces_of(numbers: &Numbers) -> Option<Vec<Piece>> {
        numbers.pieces().map(|pieces| pieces.iter().collect())
    }

    /// Adds numbers one by one and reads all back at each step; then adds them in batches of several lengths, with the same
    /// result.
    fn of(numbers: &[u64], mask: u64) -> Numbers {
        for first in 0..numbers.len() {
            let mut pieces = Numbers::new(mask);
            let (before, after) = numbers.split_at(first);
            [before, after].into_iter().for_each(|piece| pieces.push_all(piece).unwrap());
            let mut each = Numbers::new(mask);
            numbers.iter().for_each(|number| each.push(*number).unwrap());
            assert_eq!(pieces_of(&pieces), pieces_of(&each), "{numbers:?}");
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
        let found = |numbers: &[u64]| formula_of(&of(numbers, u32::MAX.into()));
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
                assert_eq!(
                    formula_of(&made),
                    formula_of(&of(&numbers(rows), u32::MAX.into())),
                    "{rows} of {formula:?}"
                );
                // It continues and ends as the original does.
                for row in rows..rows + 40 {
                    made.push(formula.at(row) & 0xffff_ffff).unwrap();
                }
                let mut all = of(&numbers(rows + 40), u32::MAX.into());
                assert_eq!(formula_of(&made), formula_of(&all), "{rows} of {formula:?}");
                for number in [formula.at(rows + 40) & 0xffff_ffff, 99] {
                    made.push(number).unwrap();
                    all.push(number).unwrap();
                    assert_eq!(formula_of(&made), formula_of(&all), "{rows} of {formula:?}");
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
            assert_eq!(pieces_of(&all), pieces_of(&of(&each, u64::MAX)), "{runs:?}");
            assert_eq!((0..all.len() as u32).map(|row| all.get(row)).collect::<Vec<_>>(), each);
        }
    }

    /// Numbers of `count` rows of each of these blocks.
    fn blocks(counts: &[u64], number: fn(u64, u64) -> u64) -> Vec<u64> {
        (0..).zip(counts).flat_map(|(block, count)| (0..*count).map(move |local| number(block, local))).collect()
    }

    #[test]
    fn numbers_of_unequal_blocks_are_few_pieces() {
        let count = |numbers: &[u64]| of(numbers, u64::MAX).pieces().map(Piecewise::count);
        let [odd, groups] = [[&[64u64; 9][..], &[2], &[64; 9]].concat(), [[64u64; 9], [32; 9], [48; 9]].concat()];
        for (counts, of_nodes, of_locals) in [
            (&odd[..], 2, 2),
            (&odd[..10], 1, 1),
            // The pattern of the first block fits a part of the second.
            (&odd[9..], 2, 3),
            (&groups[..], 3, 4),
        ] {
            assert_eq!(count(&blocks(counts, |block, _| block)), Some(of_nodes), "{counts:?}");
            assert_eq!(count(&blocks(counts, |_, local| local)), Some(of_locals), "{counts:?}");
        }
        // Dealt round over nodes of which the first has two ranks.
        let dealt: Vec<u64> =
            (0..64).flat_map(|round| (u64::from(round > 1)..9).map(move |node| node << 32 | round)).collect();
        assert_eq!(count(&dealt.iter().map(|both| both >> 32).collect::<Vec<_>>()), Some(2));
        assert_eq!(count(&dealt.iter().map(|both| both & 0xff).collect::<Vec<_>>()), Some(2));
        // By socket: two neighbours on each node in each round.
        let sockets: Vec<u64> = (0..8).flat_map(|round| (0..18).map(move |place| 2 * round + place % 2)).collect();
        assert_eq!(count(&sockets), Some(8));
    }

    #[test]
    fn pieces_that_are_many_become_an_array() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let drawn: Vec<u64> = (0..2000).map(|_| next(200)).collect();
        assert_eq!(of(&drawn[..200], u64::MAX).pieces().map(Piecewise::count), None);
        let regular: Vec<u64> = (0..1000).map(|row| row / 4).collect();
        let [before, after] = [[&regular[..], &drawn].concat(), [&drawn[..], &regular].concat()];
        for numbers in [before, after] {
            let all = numbers.iter().fold(Numbers::new(u64::MAX), |mut all, number| {
                all.push(*number).unwrap();
                all
            });
            assert!(matches!(all, Numbers::U8(_)) && all.bytes() == numbers.len());
            assert!((0..).zip(&numbers).all(|(row, number)| all.get(row) == *number));
            let runs: Vec<u64> =
                all.runs().flat_map(|(number, count)| std::iter::repeat_n(number, count as usize)).collect();
            assert_eq!(runs, numbers);
        }
    }

    #[test]
    fn rounds_are_as_their_rows_one_by_one() {
        // The fourth can end with a round of the rows before it, but is no whole round itself; the last ends with rounds of its own that are
        // shorter than it is.
        let rounds: [&[u64]; 8] = [
            &[0, 1, 2],
            &[4, 4, 5, 5],
            &[7],
            &[1, 2],
            &[0, 2, 1],
            &[0, 1, 0, 1],
            &[3, 3, 4],
            &[4, 5, 6, 7, 9, 0, 1, 0, 1, 0],
        ];
        for before in [&[][..], &[9], &[0, 1, 2], &[4, 4, 5, 5, 4, 4, 5, 5], &[0, 1], &[0, 1, 2, 0]] {
            for (round, times) in rounds.iter().flat_map(|round| (0..7).map(move |times| (round, times))) {
                let mut made = Numbers::new(u64::MAX);
                made.push_all(before).unwrap();
                made.push_rounds(times, |numbers| numbers.push_all(round)).unwrap();
                made.push_all(&[5, 6]).unwrap();
                let each = [before, &round.repeat(times as usize), &[5, 6]].concat();
                assert_eq!(pieces_of(&made), pieces_of(&of(&each, u64::MAX)), "{before:?}, {times} {round:?}");
                assert!((0..).zip(&each).all(|(row, number)| made.get(row) == *number), "{each:?}");
                let Some(pieces) = made.pieces() else { continue };
                let mut numbers: Vec<u64> = pieces.distinct().collect();
                let mut known = std::collections::HashSet::new();
                numbers.retain(|number| known.insert(*number));
                known.clear();
                assert_eq!(numbers, each.into_iter().filter(|number| known.insert(*number)).collect::<Vec<_>>());
            }
        }
        // Most of the rounds are not added one by one.
        let calls = std::cell::Cell::new(0);
        let mut made = Numbers::new(u64::MAX);
        made.push_rounds(1000, |numbers| {
            calls.set(calls.get() + 1);
            numbers.push_all(&[0, 1, 2])
        })
        .unwrap();
        assert_eq!((made.len(), calls.get()), (3000, 2));
    }

    #[test]
    fn arrays_are_as_wide_as_they_must() {
        let width = |numbers: &[u64]| {
            let mut all = of(numbers, u64::MAX);
            all.resize(numbers.len()).unwrap();
            each_width!(all, array => size_of_first(&array), _pieces => 0)
        };
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
        assert!(formula_of(&all).is_some());
        all.replace(1, 600).unwrap();
        all.resize(5).unwrap();
        all.push(1).unwrap();
        assert_eq!((0..6).map(|row| all.get(row)).collect::<Vec<_>>(), [5, 600, 5, 0, 0, 1]);
    }
}
