//! What several documents say of the same figure: by library, by the number of ranks.

use serde_json::Value;

use crate::bench::document::{QUANTILES, spread, text};
use crate::bench::printed::kind;

/// A library under a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub library: String,
    pub server: String,
    /// As short as it can be without being another's.
    pub label: String,
}

/// The size of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub ranks_on_node: u64,
    pub ranks: u64,
    pub nodes: u64,
}

/// A figure of a series in a shape; of several documents the median, with the least and the most of all their ranks.
#[derive(Clone, Debug)]
pub struct Cell {
    pub command: String,
    pub class: String,
    pub size: Option<u64>,
    pub unit: String,
    /// The class and the size, for people.
    pub kind: String,
    pub series: usize,
    pub shape: Shape,
    /// As [`QUANTILES`] has them: the median, the least, the most.
    pub quantiles: [Option<[f64; 3]>; 3],
    pub runs: usize,
}

/// All figures.
pub struct Comparison {
    pub series: Vec<Series>,
    pub cells: Vec<Cell>,
}

impl Comparison {
    /// The figures of documents. Series, classes and sizes have the order in which they are first met, shapes that of their size.
    pub fn of(documents: &[Value]) -> Comparison {
        let mut series = Vec::new();
        for document in documents {
            let found = Series::of(document);
            if !series.contains(&found) {
                series.push(found);
            }
        }
        let mut parts: Vec<Vec<Cell>> = Vec::new();
        for document in documents {
            let which = series.iter().position(|known| *known == Series::of(document)).unwrap_or_default();
            for figure in document["figures"].as_array().into_iter().flatten() {
                let cell = Cell::of(document, which, figure);
                match parts.iter_mut().find(|known| known.first().is_some_and(|first| first.is_same(&cell))) {
                    Some(known) => known.push(cell),
                    None => parts.push(vec![cell]),
                }
            }
        }
        let mut comparison = Comparison { cells: parts.into_iter().filter_map(merged).collect(), series };
        comparison.cells.sort_by_key(|cell| cell.shape);
        comparison.name_series();
        comparison
    }

    /// The server's name is a part of the label where a library has run under several.
    fn name_series(&mut self) {
        let all = self.series.clone();
        for one in &mut self.series {
            let is_alone = all.iter().filter(|other| other.library == one.library).count() == 1;
            one.label = if is_alone { one.library.clone() } else { format!("{} under {}", one.library, one.server) };
        }
    }

    /// The cells of a command.
    pub fn of_command(&self, command: &str) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.command == command).collect()
    }
}

impl Series {
    fn of(document: &Value) -> Series {
        let [library, server] = ["library", "server"].map(|name| text(document, name).to_owned());
        Series { library, server, label: String::new() }
    }

    /// Whether the ranks have this project's library.
    pub fn is_ours(&self) -> bool {
        self.library.starts_with("pmix-dstore")
    }
}

impl Shape {
    fn of(document: &Value) -> Shape {
        let number = |name: &str| document[name].as_u64().unwrap_or_default();
        Shape { ranks: number("ranks"), nodes: number("nodes"), ranks_on_node: number("ranks_on_node") }
    }
}

impl Cell {
    fn of(document: &Value, series: usize, figure: &Value) -> Cell {
        let quantile = |name: &str| {
            let part = |part: &str| figure[name][part].as_f64();
            Some([part("median")?, part("least")?, part("most")?])
        };
        Cell {
            command: text(document, "command").to_owned(),
            class: text(figure, "class").to_owned(),
            size: figure["size"].as_u64(),
            unit: text(figure, "unit").to_owned(),
            kind: kind(figure),
            series,
            shape: Shape::of(document),
            quantiles: QUANTILES.map(quantile),
            runs: 1,
        }
    }

    fn is_same(&self, other: &Cell) -> bool {
        self.is_same_kind(other) && self.series == other.series && self.shape == other.shape
    }

    /// Whether the other one is of the same command, class and size.
    pub fn is_same_kind(&self, other: &Cell) -> bool {
        self.command == other.command && self.class == other.class && self.size == other.size
    }
}

/// One cell for those of several documents.
fn merged(cells: Vec<Cell>) -> Option<Cell> {
    let part = |quantile: usize, which: usize| {
        let figures = cells.iter().filter_map(|cell| cell.quantiles[quantile].map(|figures| figures[which]));
        spread(figures.collect())
    };
    let quantiles =
        [0, 1, 2].map(|quantile| Some([part(quantile, 0)?[0], part(quantile, 1)?[1], part(quantile, 2)?[2]]));
    Some(Cell { quantiles, runs: cells.len(), ..cells.first()?.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(library: &str, server: &str, p50: f64) -> Value {
        let figure = json!({ "class": "job", "size": null, "unit": "ns",
            "p50": { "median": p50, "least": p50 - 1.0, "most": p50 + 1.0 } });
        json!({ "command": "get", "library": library, "server": server, "ranks": 4, "nodes": 1, "ranks_on_node": 4,
            "figures": [figure] })
    }

    #[test]
    fn runs_of_one_series_become_one_cell() {
        let comparison = Comparison::of(&[document("A", "s", 5.0), document("A", "s", 9.0), document("A", "s", 7.0)]);
        assert_eq!(comparison.cells.len(), 1);
        assert_eq!(comparison.cells[0].quantiles, [Some([7.0, 4.0, 10.0]), None, None]);
        assert_eq!(comparison.cells[0].runs, 3);
    }

    #[test]
    fn the_server_is_named_where_it_makes_the_difference() {
        let comparison = Comparison::of(&[document("A", "s", 5.0), document("A", "t", 9.0), document("B", "t", 7.0)]);
        let labels: Vec<&str> = comparison.series.iter().map(|series| series.label.as_str()).collect();
        assert_eq!(labels, ["A under s", "A under t", "B"]);
    }
}
