//! The numbers of a column's rows: a formula as long as there is one, else an array of the narrowest width.

use crate::model::Result;
use crate::room;

/// `start + ((row / divisor) % modulus) * step`, modulo 2^64 and cut to a mask: what ranks placed in blocks or in turn give.
/// No modulus where it is 0.
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

    /// The formula that gives these numbers of bits of `mask`, if there is one.
    #[cfg(feature = "builder")]
    pub fn of(mut numbers: impl Iterator<Item = u64>, mask: u64) -> Option<Formula> {
        let mut pattern = Pattern::new(mask);
        numbers.all(|number| pattern.push(number)).then_some(pattern.formula)
    }

    /// The number of a row, to be cut to its type.
    pub fn at(&self, row: u32) -> u64 {
        let mut n = row / self.divisor;
        if self.modulus != 0 {
            n %= self.modulus;
        }
        self.start.wrapping_add(self.step.wrapping_mul(n.into()))
    }
}

/// A formula that is found while numbers come one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    formula: Formula,
    /// Bits that a number may have.
    mask: u64,
    rows: u32,
    /// The number of the block that the last row is in, and of its block among those between two beginnings.
    number: u64,
    block: u32,
    /// Rows to come of that block; as good as endless while there is only one.
    left: u32,
}

impl Pattern {
    fn new(mask: u64) -> Pattern {
        Pattern { formula: Formula::constant(0), mask, rows: 0, number: 0, block: 0, left: 0 }
    }

    /// Takes the number of the next row, unless no formula gives it after the others.
    #[inline]
    fn push(&mut self, number: u64) -> bool {
        if self.left != 0 && number == self.number {
            self.left -= 1;
            self.rows += 1;
            return true;
        }
        self.push_block(number)
    }

    /// As [`Pattern::push`], where the number is the first of a block or wrong.
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

/// The same for an array of any width.
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
    /// None yet; they will have bits of `mask` alone.
    pub fn new(mask: u64) -> Numbers {
        Numbers::Pattern(Pattern::new(mask))
    }

    pub fn len(&self) -> usize {
        each_width!(self, array => array.len(), pattern => pattern.rows as usize)
    }

    /// The formula that gives all of them, if they came in such an order that it was seen.
    pub fn formula(&self) -> Option<Formula> {
        match self {
            Numbers::Pattern(pattern) => Some(pattern.formula),
            _ => None,
        }
    }

    /// Bytes of memory they take, beside this.
    pub fn bytes(&self) -> usize {
        each_width!(self, array => size_of_val(array.as_slice()), _pattern => 0)
    }

    /// The number of a row that there is.
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

    fn push_array(&mut self, number: u64) -> Result<()> {
        self.make_array(number)?;
        each_width!(self, array => room::push(array, number as _), _pattern => Ok(()))
    }

    /// Puts a number in place of that of a row that there is.
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

    /// Makes an array of them, with `len` rows; those that are added are 0.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn resize(&mut self, len: usize) -> Result<()> {
        self.make_array(0)?;
        each_width!(self, array => {
            let more = len.saturating_sub(array.len());
            room::reserve(array, more)?;
            array.resize(len, 0);
        }, _pattern => {});
        Ok(())
    }

    /// Makes an array of them that has room for `number`, too.
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
            0..=8 => Numbers::U8(room::collect(rows.map(|row| self.get(row) as u8))?),
            9..=16 => Numbers::U16(room::collect(rows.map(|row| self.get(row) as u16))?),
            17..=32 => Numbers::U32(room::collect(rows.map(|row| self.get(row) as u32))?),
            _ => Numbers::U64(room::collect(rows.map(|row| self.get(row)))?),
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

    /// Adds numbers one by one, and reads them again at each step.
    fn of(numbers: &[u64], mask: u64) -> Numbers {
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
        // In a block, at its end, and where the second round is another one than the first.
        assert_eq!(found(&[1, 1, 2, 2, 3, 4]), None);
        assert_eq!(found(&[0, 1, 2, 4]), None);
        assert_eq!(found(&[0, 1, 2, 0, 1, 3]), None);
        assert_eq!(found(&[0, 1, 2, 0, 1, 2, 3]), None);
        assert_eq!(found(&[0, 0, 1, 1, 0, 1]), None);
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
