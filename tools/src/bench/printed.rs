//! A document as text for people, and as lines for spreadsheets.

use std::fmt::Write;

use serde_json::Value;

use super::document::{QUANTILES, text as member};
use crate::table::Table;

/// What a class is, for people.
pub fn class_for_people(class: &str) -> &str {
    match class {
        "job" => "key of the job",
        "own" => "own key",
        "node-peer" => "key of a rank on the node",
        "other-node-peer" => "key of a rank on another node",
        "missing" => "key that nobody put",
        "fence" => "fence without data",
        "collecting-fence" => "fence with data",
        "init" => "PMIx_Init",
        "publish" => "Put and Commit",
        "first-fence" => "first fence, with data",
        "read" => "Gets of all ranks' keys",
        "total" => "all four steps",
        "processor-time" => "processor time",
        "open" => "library opened",
        "with-shared" => "with its part of what is shared",
        other => other,
    }
}

/// A class with the size of its values.
pub fn kind(figure: &Value) -> String {
    let class = class_for_people(member(figure, "class"));
    match figure["size"].as_u64() {
        Some(bytes) => format!("{class}, {}", size(bytes)),
        None => class.to_owned(),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1024) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// A figure in the unit that suits its size, with three digits.
pub fn shown(figure: f64, unit: &str) -> String {
    let (figure, unit) = match (unit, figure.abs()) {
        ("ns", 1e9..) => (figure / 1e9, "s"),
        ("ns", 1e6..) => (figure / 1e6, "ms"),
        ("ns", 1e3..) => (figure / 1e3, "µs"),
        ("KiB", 1024.0..) => (figure / 1024.0, "MiB"),
        _ => (figure, unit),
    };
    let digits = match figure.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{figure:.digits$} {unit}")
}

/// What was measured where, a line each.
pub fn origin(document: &Value) -> String {
    let machine = &document["machine"];
    let number = |of: &Value| of.as_u64().unwrap_or_default();
    let several = |count, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} of {} on {}, under {}, {}\nlibrary  {}, {}\nserver   {}\nmachine  {}, {}, Linux {}\n",
        member(document, "command"),
        several(number(&document["ranks"]), "rank"),
        several(number(&document["nodes"]), "node"),
        member(document, "launcher"),
        member(document, "date"),
        member(document, "library"),
        member(document, "path"),
        member(document, "server"),
        member(machine, "processor"),
        several(number(&machine["processors"]), "processor"),
        member(machine, "kernel"),
    )
}

/// For people.
pub fn text(document: &Value) -> String {
    let empty = Vec::new();
    let figures = document["figures"].as_array().unwrap_or(&empty);
    let is_single = figures.iter().all(|figure| figure["samples"]["most"] == 1.0);
    let table = if is_single { table_of_single(figures) } else { table_of_quantiles(figures) };
    let foot = match (is_single, document["clock_ns"].as_f64()) {
        (true, _) => "Each rank has one figure; the median, the least and the worst of all ranks.".to_owned(),
        (false, clock) => format!(
            "Medians of all ranks; P50 LEAST and P50 WORST are those of the quickest and the slowest rank. A sample is the mean of BATCH \
             calls.\nA reading of the clock takes {}.",
            clock.map_or("an unknown time".to_owned(), |clock| shown(clock, "ns"))
        ),
    };
    format!("pmixbench {}\n{}\n{foot}\n", origin(document), table.text())
}

fn cell(figure: &Value, name: &str, part: &str) -> String {
    figure[name][part].as_f64().map_or(String::new(), |found| shown(found, member(figure, "unit")))
}

fn table_of_single(figures: &[Value]) -> Table {
    let mut table = Table::new(&["", ">MEDIAN", ">LEAST RANK", ">WORST RANK"]);
    for figure in figures {
        let of_ranks = ["median", "least", "most"].map(|part| cell(figure, "p50", part));
        table.row([kind(figure)].into_iter().chain(of_ranks));
    }
    table
}

fn table_of_quantiles(figures: &[Value]) -> Table {
    let mut table =
        Table::new(&["", ">P50", ">P99", ">P99.9", ">P50 LEAST", ">P50 WORST", ">FIRST", ">SAMPLES", ">BATCH"]);
    for figure in figures {
        let number = |name: &str| figure[name]["median"].as_f64().map_or(String::new(), |number| number.to_string());
        let quantiles = QUANTILES.map(|name| cell(figure, name, "median"));
        let of_ranks = ["least", "most"].map(|part| cell(figure, "p50", part));
        let rest = [cell(figure, "first", "median"), number("samples"), number("batch")];
        table.row([kind(figure)].into_iter().chain(quantiles).chain(of_ranks).chain(rest));
    }
    table
}

/// The columns of the lines, by the member of the document, the rank or the figure.
const OF_DOCUMENT: [&str; 5] = ["command", "date", "ranks", "nodes", "ranks_on_node"];
const OF_RANK: [&str; 5] = ["rank", "host", "version", "path", "server"];
const OF_FIGURE: [&str; 10] = ["class", "size", "unit", "p50", "p99", "p99_9", "most", "first", "samples", "batch"];

/// A line for each rank and figure, after one with the columns' names.
pub fn csv(document: &Value) -> String {
    let names: Vec<&str> = OF_DOCUMENT.iter().chain(&OF_RANK).chain(&OF_FIGURE).copied().collect();
    let mut lines = names.join(",") + "\n";
    for rank in document["by_rank"].as_array().into_iter().flatten() {
        for figure in rank["figures"].as_array().into_iter().flatten() {
            let of_document = OF_DOCUMENT.iter().map(|name| &document[*name]);
            let of_rank = OF_RANK.iter().map(|name| &rank[*name]);
            let values = of_document.chain(of_rank).chain(OF_FIGURE.iter().map(|name| &figure[*name]));
            let _ = writeln!(lines, "{}", values.map(field).collect::<Vec<_>>().join(","));
        }
    }
    lines
}

/// A value as a field: quoted where it holds what separates fields or lines.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::document;

    fn document() -> Value {
        let figure = json!({ "class": "own", "size": 1024, "unit": "ns", "p50": 31.25, "p99": 1500.0, "p99_9": null,
            "most": 2e6, "first": 900.0, "samples": 500, "batch": 64 });
        let rank = json!({ "rank": 0, "host": "n1", "version": "OpenPMIx 4.2.2rc2, repo rev: \"a\"", "path": "/usr/lib/x",
            "server": "pmix-dstore", "launcher": "pmixrun", "figures": [figure], "clock_ns": 25.0 });
        document::of("get", &[rank])
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let all =
            [(31.25, "ns"), (1234.0, "ns"), (4.5e6, "ns"), (2e9, "ns"), (40.0, "KiB"), (2048.0, "KiB"), (150.2, "ns")];
        let texts = all.map(|(figure, unit)| shown(figure, unit));
        assert_eq!(texts, ["31.2 ns", "1.23 µs", "4.50 ms", "2.00 s", "40.0 KiB", "2.00 MiB", "150 ns"]);
    }

    #[test]
    fn people_read_what_was_measured_with_what() {
        let text = text(&document());
        for part in [
            "get of 1 rank on 1 node, under pmixrun",
            "OpenPMIx 4.2.2rc2, /usr/lib/x",
            "own key, 1 KiB",
            "1.50 µs",
            "500",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn lines_have_a_field_for_each_column() {
        let csv = csv(&document());
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[1].contains(
                "\"OpenPMIx 4.2.2rc2, repo rev: \"\"a\"\"\",/usr/lib/x,pmix-dstore,own,1024,ns,31.25,1500.0,,"
            ),
            "{csv}"
        );
    }
}
