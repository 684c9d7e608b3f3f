//! The figures of all ranks as one document of JSON. docs/pmixbench.md lists its members.

use serde_json::{Map, Value, json};

use crate::machine;

/// The version of the document's form.
pub const FORMAT: u64 = 1;
/// The figures that a rank has for each class, as quantiles of its samples.
pub const QUANTILES: [&str; 3] = ["p50", "p99", "p99_9"];

/// The document of a command, from what each rank has measured.
pub fn of(command: &str, ranks: &[Value]) -> Value {
    let on_nodes = by_name(ranks, "host");
    let first = ranks.first().cloned().unwrap_or_default();
    json!({
        "format": FORMAT,
        "program": concat!("pmixbench ", env!("CARGO_PKG_VERSION")),
        "command": command,
        "date": machine::now(),
        "machine": {
            "processor": first["processor"], "processors": first["processors"], "kernel": first["kernel"], "host": first["host"],
        },
        "launcher": first["launcher"],
        "server": joined(ranks, "server"),
        "library": joined_by(ranks, |rank| label(text(rank, "version"))),
        "version": joined(ranks, "version"),
        "path": joined(ranks, "path"),
        "ranks": ranks.len(),
        "nodes": on_nodes.len(),
        "ranks_on_node": on_nodes.iter().map(|(_, count)| *count).max(),
        "clock_ns": first["clock_ns"],
        "figures": summary(ranks),
        "by_rank": ranks.iter().map(of_rank).collect::<Vec<_>>(),
    })
}

/// A library's name and release from the text of `PMIx_Get_version`.
pub fn label(version: &str) -> String {
    let own = version.find("pmix-dstore-").map(|at| &version[at..]);
    match own.and_then(|rest| rest.split(' ').next()) {
        Some(name) => name.replacen("dstore-", "dstore ", 1),
        None => version.split([',', '(']).next().unwrap_or_default().trim().to_owned(),
    }
}

/// A member's text; empty if it is none.
pub fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// The texts of a member with the number of ranks that have them.
fn by_name(ranks: &[Value], name: &str) -> Vec<(String, usize)> {
    counted(ranks.iter().map(|rank| text(rank, name).to_owned()))
}

fn counted(texts: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => found.push((text, 1)),
        }
    }
    found
}

/// The text that all ranks have, or all texts if they differ.
fn joined(ranks: &[Value], name: &str) -> String {
    joined_by(ranks, |rank| text(rank, name).to_owned())
}

fn joined_by(ranks: &[Value], of: impl Fn(&Value) -> String) -> String {
    let found = counted(ranks.iter().map(of));
    match &found[..] {
        [(only, _)] => only.clone(),
        several => {
            let named = several.iter().map(|(text, count)| format!("{text} ({count} ranks)"));
            named.collect::<Vec<_>>().join(" and ")
        }
    }
}

/// What differs between ranks.
fn of_rank(rank: &Value) -> Value {
    let members = ["rank", "host", "version", "path", "server", "figures"];
    Value::Object(members.iter().map(|name| ((*name).to_owned(), rank[*name].clone())).collect())
}

/// For each class and size, over the ranks: the median, the least and the most of each quantile.
fn summary(ranks: &[Value]) -> Vec<Value> {
    let all = || ranks.iter().filter_map(|rank| rank["figures"].as_array()).flatten();
    let mut kinds: Vec<&Value> = Vec::new();
    for figure in all() {
        if !kinds.iter().any(|kind| is_same_kind(kind, figure)) {
            kinds.push(figure);
        }
    }
    let of_kind = |kind: &Value| {
        let figures: Vec<&Value> = all().filter(|figure| is_same_kind(kind, figure)).collect();
        let over_ranks = |name: &str| {
            let of_ranks: Vec<f64> = figures.iter().filter_map(|figure| figure[name].as_f64()).collect();
            spread(of_ranks).map(|[median, least, most]| json!({ "median": median, "least": least, "most": most }))
        };
        let mut summary = Map::new();
        for name in ["class", "size", "unit"] {
            summary.insert(name.into(), kind[name].clone());
        }
        for name in QUANTILES.iter().chain(&["most", "first", "samples", "batch"]) {
            summary.insert((*name).into(), over_ranks(name).unwrap_or_default());
        }
        Value::Object(summary)
    };
    kinds.into_iter().map(of_kind).collect()
}

/// Whether two figures are of one class and size.
pub fn is_same_kind(one: &Value, other: &Value) -> bool {
    one["class"] == other["class"] && one["size"] == other["size"]
}

/// The median, the upper one of two, with the least and the most.
pub fn spread(mut figures: Vec<f64>) -> Option<[f64; 3]> {
    figures.sort_by(f64::total_cmp);
    Some([*figures.get(figures.len() / 2)?, *figures.first()?, *figures.last()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(version: &str, p50: f64) -> Value {
        let figure = json!({ "class": "job", "size": null, "unit": "ns", "p50": p50, "p99": null });
        json!({ "host": "n1", "version": version, "figures": [figure] })
    }

    #[test]
    fn libraries_have_a_name_and_a_release() {
        assert_eq!(label("OpenPMIx 4.2.2, repo rev: pmix-dstore-0.1.0 (PMIx Standard: 4.2)"), "pmix-dstore 0.1.0");
        assert_eq!(label("OpenPMIx 4.2.2rc2, repo rev: v4.2.2rc2 (PMIx Standard: 4.2)"), "OpenPMIx 4.2.2rc2");
        assert_eq!(label("OpenPMIx 6.1.0 (PMIx Standard: 5.1)"), "OpenPMIx 6.1.0");
    }

    #[test]
    fn the_summary_is_that_of_all_ranks() {
        let document = of("get", &[rank("A 1", 5.0), rank("A 1", 1.0), rank("B 2", 3.0)]);
        assert_eq!(document["library"], "A 1 (2 ranks) and B 2 (1 ranks)");
        assert_eq!(
            (&document["ranks"], &document["nodes"], &document["ranks_on_node"]),
            (&json!(3), &json!(1), &json!(3))
        );
        assert_eq!(document["figures"][0]["p50"], json!({ "median": 3.0, "least": 1.0, "most": 5.0 }));
        assert_eq!(document["figures"][0]["p99"], Value::Null);
    }
}
