//! Figures of all rounds.

use std::fs;
use std::path::PathBuf;

use pmix_benches::figures::median;

use crate::Failure;

/// A library under measurement, and its name in tables.
pub struct Contender {
    pub name: String,
    pub directory: PathBuf,
    /// What `PMIx_Get_version` says, as the file has it.
    pub release: String,
    /// The library of this source, which the targets are about.
    pub is_ours: bool,
    /// This project's library of some version: it takes as many turns as ours.
    pub is_quick: bool,
}

impl Contender {
    pub fn new(name: String, directory: PathBuf, is_ours: bool) -> Result<Contender, Failure> {
        // All versions of it read this variable, and no other library does.
        let marker = b"PMIX_DSTORE_SHM";
        let library = directory.join("libpmix.so");
        let content = fs::read(&library).map_err(|error| format!("{}: {error}", library.display()))?;
        let is_quick = content.windows(marker.len()).any(|bytes| bytes == marker);
        let release = release_in(&content).ok_or_else(|| format!("{}: no release in it", library.display()))?;
        Ok(Contender { name, directory, release, is_ours, is_quick })
    }
}

/// The text `OpenPMIx 4.2.2, ...` or `PMIx 6.1.0, ...` in a library, up to its bracket.
fn release_in(content: &[u8]) -> Option<String> {
    let start = b"PMIx ";
    let texts = content.windows(start.len() + 1).enumerate().filter(|(_, bytes)| bytes.starts_with(start));
    let mut releases = texts.filter(|(_, bytes)| bytes[start.len()].is_ascii_digit()).map(|(at, _)| &content[at..]);
    let found = releases.next()?;
    let end = found.iter().position(|byte| *byte == 0 || *byte == b'(')?;
    Some(String::from_utf8_lossy(&found[..end]).trim().to_owned())
}

/// One figure: section, name, unit and value.
pub type Figure = (&'static str, String, &'static str, f64);

/// One line of a table: the figure of each library in each round.
pub struct Row {
    pub section: &'static str,
    pub name: String,
    pub unit: &'static str,
    pub figures: Vec<Vec<f64>>,
}

impl Row {
    pub fn median(&self, which: usize) -> f64 {
        median(self.figures[which].iter().copied())
    }

    /// The median of the ratio between another library's figure and the first library's in the same round.
    pub fn ratio(&self, which: usize) -> f64 {
        median(self.ratios(which))
    }

    /// That ratio of each round.
    pub fn ratios(&self, which: usize) -> Vec<f64> {
        self.figures[0].iter().zip(&self.figures[which]).map(|(first, other)| first / other).collect()
    }
}

/// All rows, grouped by section.
pub struct Results {
    /// The libraries. The first one is the baseline.
    pub contenders: Vec<Contender>,
    /// The limits of the machine, each with its unit and its figure in each round.
    pub limits: Vec<(String, &'static str, Vec<f64>)>,
    pub rows: Vec<Row>,
}

impl Results {
    pub fn new(contenders: Vec<Contender>) -> Results {
        Results { contenders, limits: Vec::new(), rows: Vec::new() }
    }

    pub fn add_limit(&mut self, name: String, unit: &'static str, figure: f64) {
        match self.limits.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., all)) => all.push(figure),
            None => self.limits.push((name, unit, vec![figure])),
        }
    }

    pub fn add(&mut self, which: usize, (section, name, unit, figure): Figure) {
        let known = self.rows.iter().position(|row| row.section == section && row.name == name);
        let row = known.unwrap_or_else(|| {
            let end = self.rows.iter().rposition(|row| row.section == section).map_or(self.rows.len(), |last| last + 1);
            let figures = vec![Vec::new(); self.contenders.len()];
            self.rows.insert(end, Row { section, name, unit, figures });
            end
        });
        self.rows[row].figures[which].push(figure);
    }

    pub fn limit(&self, name: &str) -> f64 {
        self.limits.iter().find(|(known, ..)| known == name).map_or(f64::NAN, |(.., all)| median(all.iter().copied()))
    }

    pub fn section(&self, section: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.section == section)
    }
}
