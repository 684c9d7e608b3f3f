//! Tables of texts without pointers.
//!
//! A table of `&'static str` has a pointer in each row. The loader writes each of them when a process loads the library, so that the
//! pages of the table are private memory of every rank. Here all texts of a table are one array of bytes, which processes share.

use std::str;

/// The number of bytes that [`append`] needs for a text.
pub const fn len_of(text: &str) -> usize {
    text.len() + 1
}

/// Writes a text with a NUL behind it to `at`, in constants. Returns the position behind the NUL.
pub const fn append(bytes: &mut [u8], at: usize, text: &str) -> usize {
    let end = at + text.len();
    bytes.split_at_mut(end).0.split_at_mut(at).1.copy_from_slice(text.as_bytes());
    bytes[end] = 0;
    end + 1
}

/// Numbers of type `N` with a name each: `ROWS` of them, whose names take `LEN` bytes ([`names_len`]).
pub(crate) struct Names<N, const ROWS: usize, const LEN: usize> {
    numbers: [N; ROWS],
    /// The names in the order of the numbers, each followed by a NUL.
    names: [u8; LEN],
}

/// The length of the names of a table.
pub(crate) const fn names_len<N>(rows: &[(N, &str)]) -> usize {
    let (mut row, mut len) = (0, 0);
    while row < rows.len() {
        (row, len) = (row + 1, len + len_of(rows[row].1));
    }
    len
}

impl<N: Copy + PartialEq, const ROWS: usize, const LEN: usize> Names<N, ROWS, LEN> {
    pub(crate) const fn new(rows: &[(N, &str)]) -> Self {
        let (mut numbers, mut names) = ([rows[0].0; ROWS], [0; LEN]);
        let (mut row, mut at) = (0, 0);
        while row < ROWS {
            numbers[row] = rows[row].0;
            at = append(&mut names, at, rows[row].1);
            row += 1;
        }
        Names { numbers, names }
    }

    /// The rows in their order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (N, &str)> {
        // They were texts.
        self.bytes_of_rows().map(|(number, name)| (number, str::from_utf8(name).unwrap_or_default()))
    }

    fn bytes_of_rows(&self) -> impl Iterator<Item = (N, &[u8])> {
        self.numbers.iter().copied().zip(self.names.split(|byte| *byte == 0))
    }

    /// The first name of a number.
    pub(crate) fn name(&self, number: N) -> Option<&str> {
        self.bytes_of_rows().find(|(known, _)| *known == number).and_then(|(_, name)| str::from_utf8(name).ok())
    }

    /// The number of a name, whose case does not count.
    pub(crate) fn number(&self, name: &str) -> Option<N> {
        self.bytes_of_rows().find(|(_, known)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[(i32, &str)] = &[(0, "NONE"), (-3, "ÜBER"), (-3, "OLD"), (7, "")];
    static NAMES: Names<i32, { ROWS.len() }, { names_len(ROWS) }> = Names::new(ROWS);

    #[test]
    fn a_number_has_its_first_name_and_each_name_its_number() {
        assert_eq!([0, -3, 7, 1].map(|number| NAMES.name(number)), [Some("NONE"), Some("ÜBER"), Some(""), None]);
        assert_eq!(["none", "OLD", "", "ONE"].map(|name| NAMES.number(name)), [Some(0), Some(-3), Some(7), None]);
    }
}
