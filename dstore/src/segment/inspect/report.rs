//! A report as a tree, and the tree as text.

use std::fmt::Write as _;

/// A report: a tree that can be printed as text or turned into another notation.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A number.
    Number(u64),
    /// Truth.
    Bool(bool),
    /// Words.
    Text(String),
    /// Several of a kind.
    List(Vec<Report>),
    /// Parts by name, in order.
    Map(Vec<(String, Report)>),
}

impl From<u64> for Report {
    fn from(number: u64) -> Report {
        Report::Number(number)
    }
}

impl From<u32> for Report {
    fn from(number: u32) -> Report {
        Report::Number(number.into())
    }
}

impl From<bool> for Report {
    fn from(truth: bool) -> Report {
        Report::Bool(truth)
    }
}

impl From<String> for Report {
    fn from(text: String) -> Report {
        Report::Text(text)
    }
}

impl From<&str> for Report {
    fn from(text: &str) -> Report {
        Report::Text(text.to_owned())
    }
}

impl Report {
    pub(super) fn map() -> Report {
        Report::Map(Vec::new())
    }

    pub(super) fn add(&mut self, name: impl Into<String>, part: impl Into<Report>) {
        if let Report::Map(parts) = self {
            parts.push((name.into(), part.into()));
        }
    }

    /// The part of this name, of a map.
    pub fn get(&self, name: &str) -> Option<&Report> {
        match self {
            Report::Map(parts) => parts.iter().find(|(other, _)| other == name).map(|(_, part)| part),
            _ => None,
        }
    }

    /// The report as indented lines.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        let line = |text: &mut String, name: &str, part: &Report| match part {
            Report::Map(_) | Report::List(_) => {
                let _ = writeln!(text, "{indent}{name}:");
                part.write(text, depth + 1);
            }
            Report::Number(number) => drop(writeln!(text, "{indent}{name}: {number}")),
            Report::Bool(truth) => drop(writeln!(text, "{indent}{name}: {}", if *truth { "yes" } else { "no" })),
            Report::Text(words) => drop(writeln!(text, "{indent}{name}: {words}")),
        };
        match self {
            Report::Map(parts) => parts.iter().for_each(|(name, part)| line(text, name, part)),
            Report::List(items) => items.iter().for_each(|item| match item {
                Report::Text(words) => drop(writeln!(text, "{indent}- {words}")),
                item => item.write(text, depth + 1),
            }),
            single => line(text, "-", single),
        }
    }
}
