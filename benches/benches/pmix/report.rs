//! Figures and targets as text, JSON and a plot.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::origin::Origin;
use crate::results::Results;
use crate::targets::{Bound, Target, Verdict};

pub fn text(results: &Results, targets: &[Target], origin: &Origin, rounds: usize) -> String {
    let mut text = format!(
        "{rounds} rounds, medians with the least and the most; a ratio is stock / the other library, within a round\n\n{}\n",
        origin.text()
    );
    text.push_str("| limits of this machine | unit | |\n|---|---|---|\n");
    for (name, unit, _) in &results.limits {
        let _ = writeln!(text, "| {name} | {unit} | {} |", shown(results.limit(name)));
    }
    let names: Vec<_> = results.contenders.iter().map(|c| c.name.as_str()).collect();
    let mut section = "";
    for row in &results.rows {
        if section != row.section {
            section = row.section;
            let ratios: String = names[1..].iter().map(|name| format!(" stock / {name} |")).collect();
            let _ = writeln!(text, "\n| {section} | unit | {} |{ratios}", names.join(" | "));
            let _ = writeln!(text, "|---|---|{}", "---|".repeat(2 * names.len() - 1));
        }
        let _ = write!(text, "| {} | {} |", row.name, row.unit);
        let figures = (0..names.len()).map(|which| match spread(&row.figures[which]) {
            (least, most) if least < most => {
                format!("{} ({} to {})", shown(row.median(which)), shown(least), shown(most))
            }
            _ => shown(row.median(which)),
        });
        let ratios = (1..names.len()).map(|which| shown(row.ratio(which)));
        let cells: Vec<_> = figures.chain(ratios).collect();
        let _ = writeln!(text, " {} |", cells.join(" | "));
    }
    text.push_str("\n| target, for ours | unit | figure | target | |\n|---|---|---|---|---|\n");
    for target in targets {
        let bound = match target.bound {
            Bound::AtMost(most) => format!("at most {most}"),
            Bound::AtLeast(least) => format!("at least {least}"),
        };
        let verdict = match target.verdict() {
            Verdict::Met => "met".to_owned(),
            Verdict::NotMet => "not met".to_owned(),
            Verdict::NotMeasured => "not measured".to_owned(),
            Verdict::Varies => {
                let (least, most) = spread(&target.rounds);
                format!("varies: {} to {}", shown(least), shown(most))
            }
        };
        let _ =
            writeln!(text, "| {} | {} | {} | {bound} | {verdict} |", target.what, target.unit, shown(target.figure));
    }
    let count = |verdict| targets.iter().filter(|target| target.verdict() == verdict).count();
    let (met, vary) = (count(Verdict::Met), count(Verdict::Varies));
    let _ = writeln!(text, "\n{met} of {} targets met, {vary} vary from round to round", targets.len());
    text
}

/// The least and the largest figure of the rounds.
fn spread(rounds: &[f64]) -> (f64, f64) {
    let all = || rounds.iter().copied();
    (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
}

/// Formats a figure with its significant digits.
fn shown(figure: f64) -> String {
    if figure.is_nan() {
        return "-".into();
    }
    let digits = if figure >= 100.0 {
        0
    } else if figure >= 10.0 {
        1
    } else {
        2
    };
    format!("{figure:.digits$}")
}

/// All of it as JSON. `stock` is the release of the stock library.
pub fn json(results: &Results, targets: &[Target], origin: &Origin, stock: &str) -> String {
    let number = |figure: f64| if figure.is_finite() { format!("{figure:.4}") } else { "null".into() };
    let limits: Vec<_> =
        results.limits.iter().map(|(name, ..)| format!("{name:?}:{}", number(results.limit(name)))).collect();
    let rows: Vec<_> = results
        .rows
        .iter()
        .map(|row| {
            let figures: Vec<_> = results
                .contenders
                .iter()
                .enumerate()
                .map(|(which, contender)| {
                    let (least, most) = spread(&row.figures[which]);
                    let [median, ratio, least, most] = [row.median(which), row.ratio(which), least, most].map(number);
                    format!(
                        "{:?}:{{\"median\":{median},\"least\":{least},\"most\":{most},\"stock_ratio\":{ratio}}}",
                        contender.name
                    )
                })
                .collect();
            format!(
                "{{\"section\":{:?},\"name\":{:?},\"unit\":{:?},\"figures\":{{{}}}}}",
                row.section,
                row.name,
                row.unit,
                figures.join(",")
            )
        })
        .collect();
    let targets: Vec<_> = targets
        .iter()
        .map(|target| {
            let bound = match target.bound {
                Bound::AtMost(most) => format!("\"at_most\":{most}"),
                Bound::AtLeast(least) => format!("\"at_least\":{least}"),
            };
            let (verdict, (least, most)) = (target.verdict(), spread(&target.rounds));
            let is_met = match verdict {
                Verdict::NotMeasured => "null",
                Verdict::Met => "true",
                Verdict::NotMet | Verdict::Varies => "false",
            };
            let (figure, least, most) = (number(target.figure), number(least), number(most));
            format!(
                "{{\"name\":{:?},\"unit\":{:?},\"figure\":{figure},\"least\":{least},\"most\":{most},{bound},\"met\":{is_met},\"varies\":{}}}",
                target.what,
                target.unit,
                verdict == Verdict::Varies
            )
        })
        .collect();
    format!(
        "{{\"run\":{},\"stock\":{stock:?},\"limits\":{{{}}},\"rows\":[{}],\"targets\":[{}]}}",
        origin.json(),
        limits.join(","),
        rows.join(","),
        targets.join(",")
    )
}

/// A bar plot of the calls on a logarithmic scale: the stock library, ours, and the lower bound of a lookup and a copy.
pub fn plot(results: &Results) -> String {
    let calls: BTreeMap<_, _> = results.section("one call").map(|row| (&row.name, row)).collect();
    let (left, width, step) = (150.0, 600.0, 30.0);
    // From 10 ns to 100 µs.
    let x = |ns: f64| (ns.max(10.0).log10() - 1.0) / 4.0 * width;
    let height = calls.len() as f64 * step + 50.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        left + width + 60.0
    );
    for (index, (name, row)) in calls.iter().enumerate() {
        let top = index as f64 * step + 10.0;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>", left - 8.0, top + 15.0);
        for (which, (color, place)) in [("#b0b0b0", 0.0), ("#1f77b4", 11.0)].into_iter().enumerate() {
            let ns = row.median(which);
            if ns.is_nan() {
                continue;
            }
            let (y, end) = (top + place, x(ns));
            let _ = writeln!(svg, "<rect x=\"{left}\" y=\"{y}\" width=\"{end:.1}\" height=\"10\" fill=\"{color}\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{}</text>",
                left + end + 3.0,
                y + 9.0,
                shown(ns)
            );
        }
    }
    for name in ["lookup", "copy"] {
        let at = left + x(results.limit(name));
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"6\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"#d62728\" stroke-dasharray=\"3\"><title>{name}</title></line>",
            height - 28.0
        );
    }
    let foot = height - 12.0;
    for (power, label) in [(1, "10 ns"), (2, "100 ns"), (3, "1 µs"), (4, "10 µs"), (5, "100 µs")] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{foot}\" text-anchor=\"middle\">{label}</text>",
            left + x(10f64.powi(power))
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{foot}\"><tspan fill=\"#808080\">stock</tspan> <tspan fill=\"#1f77b4\">ours</tspan> <tspan fill=\"#d62728\">limits</tspan></text>"
    );
    svg.push_str("</svg>\n");
    svg
}
