//! Figures of jobs as text and JSON.

use std::fmt::Write;

use crate::launcher::{FIGURES, Figures, Job};

/// One kind of job under one launcher with one library on each side.
pub struct Row {
    pub launcher: String,
    pub job: Job,
    /// The server's and the ranks'.
    pub libraries: [&'static str; 2],
    pub rounds: usize,
    /// Rounds in which the job failed or hung.
    pub failed: usize,
    /// As [`FIGURES`] has them; none where there is nothing to measure.
    pub figures: Vec<Option<Figure>>,
}

/// What the rounds gave for one figure.
pub struct Figure {
    /// Of all rounds: the [`QUANTILES`].
    quantiles: Quantiles,
    /// The same of the figure of the launcher with the stock library in the round, divided by this one.
    stock_ratios: Quantiles,
    /// The same of the launcher with our library.
    ours_ratios: Option<Quantiles>,
    /// The same of what this is above the floor of the round, divided by what the stock library is above it.
    above_floor: Option<Quantiles>,
}

type Quantiles = [f64; QUANTILES.len()];

/// These parts of all rounds are at most the figure. With their names in JSON.
const QUANTILES: [(f64, &str); 5] = [(0.1, "p10"), (0.25, "p25"), (0.5, "median"), (0.75, "p75"), (0.9, "p90")];
const MEDIAN: usize = 2;

/// The figures of each round, none where the job failed.
pub type Rounds = Vec<Option<Figures>>;

/// Those with which a figure is compared.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// The launcher with the stock library on both sides.
    pub stock: &'a Rounds,
    /// The launcher with our library on both sides.
    pub ours: &'a Rounds,
    pub floor: Option<&'a Rounds>,
}

impl Figure {
    /// The figure number `which` of these rounds.
    pub fn of(rounds: &Rounds, beside: Beside<'_>, which: usize) -> Option<Figure> {
        let of = |figures: &Option<Figures>| figures.map(|figures| figures[which]).filter(|figure| figure.is_finite());
        let ratios = |of_others: &Rounds| {
            let both = rounds.iter().zip(of_others).filter_map(|(this, other)| Some(of(other)? / of(this)?));
            quantiles(both.collect())
        };
        let above_floor = beside.floor.and_then(|floor| {
            let rounds = rounds.iter().zip(beside.stock).zip(floor);
            let above = |floor: f64, this: f64, stock: f64| (this - floor) / (stock - floor);
            quantiles(
                rounds.filter_map(|((this, stock), floor)| Some(above(of(floor)?, of(this)?, of(stock)?))).collect(),
            )
        });
        Some(Figure {
            quantiles: quantiles(rounds.iter().filter_map(of).collect())?,
            stock_ratios: ratios(beside.stock)?,
            ours_ratios: ratios(beside.ours),
            above_floor,
        })
    }
}

fn quantiles(mut values: Vec<f64>) -> Option<Quantiles> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(QUANTILES.map(|(part, _)| values[(last as f64 * part).round() as usize]))
}

/// Members of a JSON object for some quantiles. The median has the name `name`, the others are named after it.
fn members(name: &str, quantiles: Quantiles, digits: usize) -> String {
    let named = QUANTILES.iter().zip(quantiles).map(|((_, part), figure)| match (name, *part) {
        ("", part) => format!("\"{part}\":{figure:.digits$}"),
        (name, "median") => format!("\"{name}\":{figure:.digits$}"),
        (name, part) => format!("\"{name}_{part}\":{figure:.digits$}"),
    });
    named.collect::<Vec<_>>().join(",")
}

pub fn text(rows: &[Row]) -> String {
    let mut text =
        "medians; in brackets, the stock library's on both sides / this, and what this is above the floor / what \
                    the stock library is above it, within a round\n\n"
            .to_owned();
    let titles: Vec<_> = FIGURES.iter().map(|(name, unit)| format!("{name}, {unit}")).collect();
    let _ = writeln!(text, "| launcher | ranks | server | clients | rounds | failed | {} |", titles.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(6 + titles.len()));
    for Row { launcher, job, libraries: [server, clients], rounds, failed, figures } in rows {
        let shown = |figure: &Option<Figure>| {
            let Figure { quantiles, stock_ratios, above_floor, .. } = figure.as_ref()?;
            let above = above_floor.map_or(String::new(), |parts| format!("; {:.2}", parts[MEDIAN]));
            Some(format!("{:.1} ({:.2}{above})", quantiles[MEDIAN], stock_ratios[MEDIAN]))
        };
        let cells: Vec<_> = figures.iter().map(|figure| shown(figure).unwrap_or_default()).collect();
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
    for Row { launcher, job, libraries: [server, clients], rounds, failed, figures } in rows {
        let figures = FIGURES.iter().zip(figures).filter_map(|((name, unit), figure)| {
            let figure = figure.as_ref()?;
            let ratios = [
                ("stock_ratio", Some(figure.stock_ratios)),
                ("ours_ratio", figure.ours_ratios),
                ("above_floor", figure.above_floor),
            ];
            let ratios = ratios.iter().filter_map(|(name, ratios)| Some(members(name, (*ratios)?, 4)));
            let members: Vec<_> = std::iter::once(members("", figure.quantiles, 3)).chain(ratios).collect();
            Some(format!("\"{name}\":{{\"unit\":\"{unit}\",{}}}", members.join(",")))
        });
        let figures: Vec<_> = figures.collect();
        rows_as_json.push(format!(
            "{{\"launcher\":\"{launcher}\",\"ranks\":\"{job}\",\"server\":\"{server}\",\"clients\":\"{clients}\",\
             \"rounds\":{rounds},\"failed\":{failed},\"figures\":{{{}}}}}",
            figures.join(",")
        ));
    }
    format!("{{\"rows\":[\n{}\n]}}\n", rows_as_json.join(",\n"))
}
