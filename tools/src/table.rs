//! Tables for people: columns that are as wide as their contents.

/// Columns of texts with a title each.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns of numbers, which end at the same place.
    right: Vec<bool>,
}

impl Table {
    /// A table with titles. Titles that begin with `>` are of columns of numbers.
    pub fn new(titles: &[impl AsRef<str>]) -> Table {
        let titles = || titles.iter().map(AsRef::as_ref);
        let right = titles().map(|title| title.starts_with('>')).collect();
        let titles = titles().map(|title| title.trim_start_matches('>').to_owned()).collect();
        Table { rows: vec![titles], right }
    }

    /// Adds a row. An empty text is shown as `-`.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cell = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// The number of rows, without the titles.
    pub fn len(&self) -> usize {
        self.rows.len() - 1
    }

    /// The lines of the table.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let blanks = " ".repeat(width - cell.chars().count());
                line += if line.is_empty() { "" } else { "  " };
                line += &if *right { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let mut table = Table::new(&["JOB", ">RANK", "STATE"]);
        table.row(["a".into(), "0".into(), "running".into()]);
        table.row(["a long name".into(), "10".into(), String::new()]);
        assert_eq!(table.text(), "JOB          RANK  STATE\na               0  running\na long name    10  -\n");
        assert_eq!(table.len(), 2);
    }
}
