//! The Gets of ranks by class of key and by source, as the ranks' files have them.

use std::collections::BTreeMap;
use std::path::Path;

use pmix_dstore::get_counts::{self, Class, Counts, CountsFile, Source};
use pmix_dstore::model::{Proc, ProcInfo};
use serde_json::{Value, json};

use super::steps::outer_of;
use crate::table::Table;

/// The Gets of the ranks that count them.
#[derive(Default)]
pub struct Gets(BTreeMap<Proc, Counts>);

impl Gets {
    /// Adds those of a job's ranks. `directory` is the namespace's.
    pub fn add(&mut self, directory: &Path, ranks: &[ProcInfo]) {
        // A directory that is not to be read has no counts for this user.
        let Ok(found) = get_counts::files_in(&outer_of(directory)) else { return };
        for (rank, file) in found.files {
            let Ok(file) = file else { continue };
            // A rank may have been replaced by another process, which counts nothing.
            let of_rank = ranks.iter().find(|of| of.proc.rank.0 == rank && of.pid.cast_unsigned() == file.pid);
            if let Some(of_rank) = of_rank {
                self.0.insert(of_rank.proc.clone(), file.counts);
            }
        }
    }

    /// How many ranks count.
    pub fn ranks(&self) -> usize {
        self.0.len()
    }

    /// The number of a rank's Gets; empty for a rank that does not count.
    pub fn of(&self, proc: &Proc) -> String {
        self.0.get(proc).map_or_else(String::new, |counts| counts.total().to_string())
    }

    /// The sum of all ranks, as a table.
    pub fn table(&self) -> String {
        let mut sum = Counts::default();
        self.0.values().for_each(|counts| sum.add(counts));
        as_table(&sum)
    }

    /// A rank's Gets for programs; `null` for a rank that does not count.
    pub fn json(&self, proc: &Proc) -> Value {
        self.0.get(proc).map_or(Value::Null, as_json)
    }
}

/// Counts as a table; sources that gave nothing are left out.
fn as_table(counts: &Counts) -> String {
    let used: Vec<_> = Source::ALL.iter().enumerate().filter(|(at, _)| counts.of_source(*at) > 0).collect();
    let sources = used.iter().map(|(_, source)| format!(">{}", source.to_string().to_uppercase()));
    let mut titles = vec!["GETS OF KEYS".to_owned(), ">ALL".to_owned()];
    titles.extend(sources);
    titles.push(">NOT FOUND".to_owned());
    let mut table = Table::new(&titles);
    for (class, of_class) in Class::ALL.iter().zip(&counts.0) {
        let all = of_class.by_source.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let by_source = used.iter().map(|(at, _)| of_class.by_source[*at]);
        let numbers = [all].into_iter().chain(by_source).chain([of_class.not_found]);
        table.row([class.to_string()].into_iter().chain(numbers.map(|number| number.to_string())));
    }
    table.text()
}

/// Counts for programs: names are those of classes and sources with `_` for what is no letter.
fn as_json(counts: &Counts) -> Value {
    let name = |text: String| text.replace(", ", "_").replace(' ', "_");
    let of_class = |(class, of_class): (&Class, &get_counts::OfClass)| {
        let sources = Source::ALL.iter().zip(of_class.by_source);
        let mut numbers: serde_json::Map<String, Value> =
            sources.map(|(source, count)| (name(source.to_string()), count.into())).collect();
        numbers.insert("not_found".to_owned(), of_class.not_found.into());
        (name(class.to_string()), Value::Object(numbers))
    };
    Class::ALL.iter().zip(&counts.0).map(of_class).collect::<serde_json::Map<_, _>>().into()
}

/// Whether a file begins as one with counts.
pub fn is_counts(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|word| u64::from_ne_bytes(*word) == get_counts::MAGIC)
}

/// The counts of a file, as a table or as JSON.
///
/// # Errors
/// It is none.
pub fn of_file(bytes: &[u8], is_json: bool) -> std::io::Result<String> {
    let CountsFile { nspace, rank, pid, counts } = CountsFile::parse(bytes)?;
    Ok(if is_json {
        format!("{:#}\n", json!({ "nspace": nspace, "rank": rank, "pid": pid, "gets": as_json(&counts) }))
    } else {
        format!("Gets of rank {rank} of {nspace}, process {pid}\n\n{}", as_table(&counts))
    })
}
