//! The texts of a column, without duplicates.

use std::collections::HashMap;
use std::ffi::CStr;

use xxhash_rust::xxh3::xxh3_64;

use crate::fallible_alloc;
use crate::model::Result;

/// Texts, numbered in order of first occurrence; one of them may be NULL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    /// The texts back to back, each with its NUL.
    bytes: Vec<u8>,
    /// The end of each text in the bytes.
    ends: Vec<usize>,
    /// The number of NULL.
    null: Option<u32>,
    /// Numbers by hash. If two texts have the same hash, only the first is found.
    numbers: HashMap<u64, u32>,
    /// The number of the last text that was looked up.
    last: u32,
}

impl Texts {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Heap memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.len() * (size_of::<usize>() + size_of::<(u64, u32)>())
    }

    /// The text with a number.
    pub fn get(&self, number: u32) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.with_nul(number)).ok()
    }

    /// A text with its NUL; nothing for NULL.
    fn with_nul(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    /// The number of a text, which is added if it is new.
    ///
    /// # Errors
    /// `NOMEM`.
    #[inline]
    pub fn number_of(&mut self, text: Option<&CStr>) -> Result<u32> {
        let bytes = text.map_or(&[][..], CStr::to_bytes_with_nul);
        // Ranks of one node are usually consecutive, or nodes alternate.
        if !bytes.is_empty() && !self.ends.is_empty() && self.with_nul(self.last) == bytes {
            return Ok(self.last);
        }
        self.number_of_other(text, bytes)
    }

    #[inline(never)]
    fn number_of_other(&mut self, text: Option<&CStr>, bytes: &[u8]) -> Result<u32> {
        let next = if self.last as usize + 1 < self.len() { self.last + 1 } else { 0 };
        if !bytes.is_empty() && !self.ends.is_empty() && self.with_nul(next) == bytes {
            self.last = next;
            return Ok(next);
        }
        self.last = if text.is_some() { self.find_or_add(bytes)? } else { self.number_of_null()? };
        Ok(self.last)
    }

    fn number_of_null(&mut self) -> Result<u32> {
        match self.null {
            Some(number) => Ok(number),
            None => {
                let number = self.add(&[])?;
                self.null = Some(number);
                Ok(number)
            }
        }
    }

    fn find_or_add(&mut self, bytes: &[u8]) -> Result<u32> {
        let hash = xxh3_64(bytes);
        let known = self.numbers.get(&hash).copied();
        if let Some(number) = known.filter(|number| self.with_nul(*number) == bytes) {
            return Ok(number);
        }
        fallible_alloc::reserve_entries(&mut self.numbers, 1)?;
        let number = self.add(bytes)?;
        self.numbers.entry(hash).or_insert(number);
        Ok(number)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<u32> {
        let number = self.ends.len() as u32;
        fallible_alloc::extend(&mut self.bytes, bytes)?;
        fallible_alloc::push(&mut self.ends, self.bytes.len())?;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_one_number() {
        let mut texts = Texts::default();
        let all = [Some(c"n1"), Some(c"n1"), None, Some(c""), Some(c"n2"), None, Some(c"n1"), Some(c"")];
        let numbers: Vec<u32> = all.iter().map(|text| texts.number_of(*text).unwrap()).collect();
        assert_eq!(numbers, [0, 0, 1, 2, 3, 1, 0, 2]);
        assert!(all.iter().zip(&numbers).all(|(text, number)| texts.get(*number) == *text));
        assert_eq!(texts.len(), 4);
        let mut first_null = Texts::default();
        assert_eq!((first_null.number_of(None), first_null.number_of(Some(c""))), (Ok(0), Ok(1)));
    }
}
