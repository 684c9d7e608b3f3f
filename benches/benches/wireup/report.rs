//! Figures of jobs as text and JSON.

use std::fmt::Write;

use pmix_tests::{Library, Pair};

use crate::launcher::{FIGURES, Figures, Job};

/// One kind of job under one launcher with one pair of libraries.
pub struct Row {
    pub launcher: String,
    pub job: Job,
    pub pair: Pair,
    pub rounds: usize,
    /// Rounds in which the job failed or hung.
    pub failed: usize,
    /// As [`FIGURES`] has them; none where there is nothing to measure.
    pub figures: Vec<Option<Figure>>,
}

/// What the rounds gave for one figure.
pub struct Figure {
    /// The tenth, the half and the nine tenths of all rounds are at most these.
    quantiles: [f64; 3],
    /// The same of the stock library's figure of the round, divided by this one.
    stock_ratios: [f64; 3],
}

const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];

impl Figure {
    /// The figure number `which` of these rounds, beside those of the stock library.
    pub fn of(rounds: &[Option<Figures>], stock: &[Option<Figures>], which: usize) -> Option<Figure> {
        let of = |figures: &Option<Figures>| figures.map(|figures| figures[which]).filter(|figure| figure.is_finite());
        let values: Vec<f64> = rounds.iter().filter_map(of).collect();
        let ratios: Vec<f64> =
            rounds.iter().zip(stock).filter_map(|(figures, stock)| Some(of(stock)? / of(figures)?)).collect();
        if values.is_empty() || ratios.is_empty() {
            return None;
        }
        Some(Figure { quantiles: quantiles(values), stock_ratios: quantiles(ratios) })
    }
}

fn quantiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    QUANTILES.map(|part| values[((values.len() - 1) as f64 * part).round() as usize])
}

fn name(library: Library) -> &'static str {
    if library.is_ours() { "ours" } else { "stock" }
}

pub fn text(rows: &[Row]) -> String {
    let mut text = "medians; in brackets, the stock library's on both sides / this, within a round\n\n".to_owned();
    let titles: Vec<_> = FIGURES.iter().map(|(name, unit)| format!("{name}, {unit}")).collect();
    let _ = writeln!(text, "| launcher | ranks | server | clients | rounds | failed | {} |", titles.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(6 + titles.len()));
    for Row { launcher, job, pair, rounds, failed, figures } in rows {
        let shown = |figure: &Option<Figure>| {
            let figure = figure.as_ref()?;
            Some(format!("{:.1} ({:.2})", figure.quantiles[1], figure.stock_ratios[1]))
        };
        let cells: Vec<_> = figures.iter().map(|figure| shown(figure).unwrap_or_default()).collect();
        let (server, clients) = (name(pair.server), name(pair.ranks));
        let _ = writeln!(
            text,
            "| {launcher} | {job} | {server} | {clients} | {rounds} | {failed} | {} |",
            cells.join(" | ")
        );
    }
    text
}

pub fn json(rows: &[Row]) -> String {
    let mut rows_as_json = Vec::new();
    for Row { launcher, job, pair, rounds, failed, figures } in rows {
        let figures = FIGURES.iter().zip(figures).filter_map(|((name, unit), figure)| {
            let Figure { quantiles: [low, median, high], stock_ratios: [low_ratio, ratio, high_ratio] } =
                figure.as_ref()?;
            Some(format!(
                "\"{name}\":{{\"unit\":\"{unit}\",\"median\":{median:.3},\"p10\":{low:.3},\"p90\":{high:.3},\
                 \"stock_ratio\":{ratio:.4},\"stock_ratio_p10\":{low_ratio:.4},\"stock_ratio_p90\":{high_ratio:.4}}}"
            ))
        });
        let figures: Vec<_> = figures.collect();
        let (server, clients) = (name(pair.server), name(pair.ranks));
        rows_as_json.push(format!(
            "{{\"launcher\":\"{launcher}\",\"ranks\":\"{job}\",\"server\":\"{server}\",\"clients\":\"{clients}\",\
             \"rounds\":{rounds},\"failed\":{failed},\"figures\":{{{}}}}}",
            figures.join(",")
        ));
    }
    format!("{{\"rows\":[\n{}\n]}}\n", rows_as_json.join(",\n"))
}
