//! The page: plots, and the same figures in tables. It refers to no other file and runs no script.

use std::fmt::Write;

use serde_json::Value;

use super::comparison::{Cell, Comparison, Shape};
use super::plot::{OTHERS, OURS, Scale, by_kind, by_ranks};
use crate::bench::document::{QUANTILES, text};
use crate::bench::printed::shown;
use crate::machine;

const STYLE: &str = include_str!("page.css");

/// A part of the page: what one command has measured.
struct Part {
    command: &'static str,
    title: &'static str,
    about: &'static str,
    /// Classes that are plotted by the number of ranks, and how.
    by_ranks: &'static [&'static str],
    scale: Scale,
}

const PARTS: [Part; 4] = [
    Part {
        command: "get",
        title: "PMIx_Get",
        about: "Time of one call with the freeing of its value. All ranks call at the same time.",
        by_ranks: &["job", "node-peer", "other-node-peer", "missing"],
        scale: Scale::Logarithmic,
    },
    Part {
        command: "wireup",
        title: "Wire-up",
        about: "What a rank does until it knows all others: PMIx_Init, Put and Commit, the first fence, Gets of all keys. Starting the \
                processes is no part of it.",
        by_ranks: &["total", "processor-time", "read"],
        scale: Scale::Logarithmic,
    },
    Part {
        command: "fence",
        title: "Fences",
        about: "From a rank's entry into PMIx_Fence to its return, with the wait for the ranks that come later.",
        by_ranks: &["fence", "collecting-fence"],
        scale: Scale::Logarithmic,
    },
    Part {
        command: "memory",
        title: "Memory of a rank",
        about: "What the library adds to a rank's own memory, code not counted: after each step of the wire-up. The last line counts code \
                and shared memory, too, divided by the processes that share it.",
        by_ranks: &["open", "read", "with-shared"],
        scale: Scale::Linear,
    },
];

type Colors = Vec<(u8, u8, u8)>;

/// The page of a comparison of documents.
///
/// # Errors
/// Why a plot cannot be drawn.
pub fn html(comparison: &Comparison, documents: &[Value]) -> Result<String, String> {
    let colors = colors_of(comparison);
    let mut body = format!(
        "<h1>PMIx libraries in comparison</h1>\n<p>{}. Measured by pmixbench; each figure is the median of all ranks, and below it are \
         those of the quickest and the slowest rank. Page of {}.</p>\n",
        machines(documents),
        escaped(&machine::now())
    );
    for part in &PARTS {
        body += &section(comparison, part, &colors)?;
    }
    body += &runs(documents);
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>pmixbench</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    ))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Our library has one colour, whoever else is there.
fn colors_of(comparison: &Comparison) -> Colors {
    let (mut others, mut has_ours) = (OTHERS.iter().cycle(), false);
    let colors = comparison.series.iter().map(|series| {
        let is_first = series.is_ours() && !has_ours;
        has_ours |= is_first;
        if is_first { OURS } else { *others.next().unwrap_or(&OURS) }
    });
    colors.collect()
}

/// The machines of the documents, each once.
fn machines(documents: &[Value]) -> String {
    let mut found: Vec<String> = Vec::new();
    for document in documents {
        let machine = &document["machine"];
        let processors = machine["processors"].as_u64().unwrap_or_default();
        let name =
            format!("{}, {processors} processors, Linux {}", text(machine, "processor"), text(machine, "kernel"));
        if !found.contains(&name) {
            found.push(name);
        }
    }
    escaped(&found.join("; "))
}

fn section(comparison: &Comparison, part: &Part, colors: &Colors) -> Result<String, String> {
    let cells = comparison.of_command(part.command);
    if cells.is_empty() {
        return Ok(String::new());
    }
    let mut html = format!("<section id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n", part.command, part.title, part.about);
    html += &legend(comparison, &cells, colors);
    if part.command == "get" {
        html += &kinds_plot(comparison, &cells, colors)?;
    }
    html += &ranks_plots(comparison, part, &cells, colors)?;
    html += &table(comparison, &cells);
    Ok(html + "</section>\n")
}

/// The names of the series that the cells have.
fn legend(comparison: &Comparison, cells: &[&Cell], colors: &Colors) -> String {
    let mut html = "<div class=\"legend\">".to_owned();
    for (which, (series, (red, green, blue))) in comparison.series.iter().zip(colors).enumerate() {
        if cells.iter().any(|cell| cell.series == which) {
            let _ = write!(
                html,
                "<span><i style=\"background:rgb({red},{green},{blue})\"></i>{}</span>",
                escaped(&series.label)
            );
        }
    }
    html + "</div>\n"
}

/// The cells of each kind, kinds in the order of the documents.
fn by_kinds<'a>(cells: &[&'a Cell]) -> Vec<Vec<&'a Cell>> {
    let mut kinds: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        match kinds.iter_mut().find(|kind| kind[0].is_same_kind(cell)) {
            Some(kind) => kind.push(cell),
            None => kinds.push(vec![cell]),
        }
    }
    kinds
}

/// The plot of all kinds, for the largest of the shapes that most series have.
fn kinds_plot(comparison: &Comparison, cells: &[&Cell], colors: &Colors) -> Result<String, String> {
    let series_of = |shape: Shape| {
        (0..colors.len()).filter(|which| cells.iter().any(|cell| cell.series == *which && cell.shape == shape)).count()
    };
    let Some(shape) = cells.iter().map(|cell| cell.shape).max_by_key(|shape| (series_of(*shape), *shape)) else {
        return Ok(String::new());
    };
    let rows = by_kinds(cells).into_iter().map(|kind| {
        let of_series = (0..comparison.series.len()).map(|which| {
            let cell = kind.iter().find(|cell| cell.series == which && cell.shape == shape);
            cell.map_or([None; 3], |cell| cell.quantiles.map(|figures| figures.map(|[median, ..]| median)))
        });
        (kind[0].kind.clone(), of_series.collect::<Vec<_>>())
    });
    let rows: Vec<_> = rows.filter(|(_, series)| series.iter().any(|figures| figures[0].is_some())).collect();
    let svg = by_kind(&rows, colors, &cells[0].unit)?;
    let heading = format!("By kind of key, {}", shape_for_people(shape));
    let about = "Dot: p50. Thick line: to p99. Stroke: p99.9. The scale is logarithmic.";
    Ok(format!("<h3>{heading}</h3>\n<p>{about}</p>\n{svg}\n"))
}

fn shape_for_people(shape: Shape) -> String {
    let several = |count, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!("{} on {}", several(shape.ranks, "rank"), several(shape.nodes, "node"))
}

/// For each class of the part, with its least size: the median of the ranks by their number on the node.
fn ranks_plots(comparison: &Comparison, part: &Part, cells: &[&Cell], colors: &Colors) -> Result<String, String> {
    let kinds = by_kinds(cells);
    let chosen = part
        .by_ranks
        .iter()
        .filter_map(|class| kinds.iter().filter(|kind| kind[0].class == *class).min_by_key(|kind| kind[0].size));
    let mut html = "<div class=\"plots\">\n".to_owned();
    for kind in chosen {
        let lines: Vec<_> = (0..comparison.series.len())
            .map(|which| {
                let of_series = kind.iter().filter(|cell| cell.series == which);
                of_series.filter_map(|cell| Some((cell.shape.ranks_on_node, cell.quantiles[0]?))).collect::<Vec<_>>()
            })
            .collect();
        let svg = by_ranks(&lines, colors, (part.scale, &kind[0].unit))?;
        let _ = writeln!(html, "<div><h3>{}, by ranks</h3>\n{svg}</div>", escaped(&capitalised(&kind[0].kind)));
    }
    Ok(html + "</div>\n")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// All figures of the cells: a row for each kind and shape, columns for each series, and how they compare with ours.
fn table(comparison: &Comparison, cells: &[&Cell]) -> String {
    let is_single = cells.iter().all(|cell| cell.quantiles[1].is_none());
    let names = if is_single { &QUANTILES[..1] } else { &QUANTILES[..] };
    let present: Vec<usize> =
        (0..comparison.series.len()).filter(|which| cells.iter().any(|cell| cell.series == *which)).collect();
    let ours = present.iter().copied().find(|which| comparison.series[*which].is_ours());
    let others: Vec<usize> = present.iter().copied().filter(|which| ours.is_some_and(|ours| ours != *which)).collect();
    let mut html = head(comparison, &present, &others, names);
    for kind in by_kinds(cells) {
        let mut shapes: Vec<Shape> = kind.iter().map(|cell| cell.shape).collect();
        shapes.dedup();
        for (number, shape) in shapes.iter().copied().enumerate() {
            let of = |which: usize| kind.iter().find(|cell| cell.series == which && cell.shape == shape).copied();
            if number == 0 {
                let (rows, name) = (shapes.len(), escaped(&kind[0].kind));
                let _ = write!(html, "<tr class=\"kind\"><td class=\"what\" rowspan=\"{rows}\">{name}</td>");
            } else {
                html += "<tr>";
            }
            let _ = write!(html, "<td>{}</td>", ranks_for_people(shape));
            for which in &present {
                html += &figures(of(*which), &comparison.series[*which].label, names.len());
            }
            for which in &others {
                let p50 = |which| of(which).and_then(|cell| cell.quantiles[0]).map(|[median, ..]| median);
                let ratio = ours.and_then(|ours| Some(p50(*which)? / p50(ours)?)).filter(|ratio| ratio.is_finite());
                let ratio = ratio.map_or("–".to_owned(), |ratio| shown(ratio, "").trim_end().to_owned());
                let _ = write!(html, "<td class=\"first\">{ratio}</td>");
            }
            html += "</tr>\n";
        }
    }
    html + "</tbody></table></div>\n"
}

/// The nodes are named where there are several.
fn ranks_for_people(shape: Shape) -> String {
    if shape.nodes == 1 { shape.ranks.to_string() } else { format!("{} on {}", shape.ranks, shape.nodes) }
}

fn head(comparison: &Comparison, present: &[usize], others: &[usize], names: &[&str]) -> String {
    let mut html = "<div class=\"table\"><table>\n<thead><tr><th></th><th></th>".to_owned();
    for which in present {
        let label = escaped(&comparison.series[*which].label);
        let _ = write!(html, "<th class=\"first\" colspan=\"{}\">{label}</th>", names.len());
    }
    for which in others {
        let _ = write!(html, "<th class=\"first\">{} / ours</th>", escaped(&comparison.series[*which].label));
    }
    html += "</tr>\n<tr><th class=\"what\">what</th><th>ranks</th>";
    for _ in present {
        for (number, name) in names.iter().enumerate() {
            let title = if names.len() == 1 { "median" } else { name };
            let _ = write!(html, "<th{}>{}</th>", first_of(number), title.replace('_', "."));
        }
    }
    html + &"<th class=\"first\">p50</th>".repeat(others.len()) + "</tr></thead>\n<tbody>\n"
}

/// The first column of a series has a line before it.
fn first_of(number: usize) -> &'static str {
    if number == 0 { " class=\"first\"" } else { "" }
}

/// The cells of one series in a row. Each names its figure, for programs that read the page.
fn figures(cell: Option<&Cell>, label: &str, count: usize) -> String {
    let mut html = String::new();
    for (number, name) in QUANTILES.iter().enumerate().take(count) {
        let Some((cell, [median, least, most])) = cell.and_then(|cell| Some((cell, cell.quantiles[number]?))) else {
            let _ = write!(html, "<td{}>–</td>", first_of(number));
            continue;
        };
        let size = cell.size.map_or("-".to_owned(), |size| size.to_string());
        let Shape { ranks, nodes, .. } = cell.shape;
        let id = format!("{}|{}|{size}|{ranks}|{nodes}|{label}|{name}", cell.command, cell.class);
        let [median, least, most] = [median, least, most].map(|figure| shown(figure, &cell.unit));
        let runs = if cell.runs > 1 { format!(", {} runs", cell.runs) } else { String::new() };
        // The spread of one quantile is enough to read a table; documents have that of each.
        let spread = if number == 0 { format!("<small>{least} to {most}{runs}</small>") } else { String::new() };
        let _ = write!(html, "<td{} data-figure=\"{}\"><b>{median}</b>{spread}</td>", first_of(number), escaped(&id));
    }
    html
}

/// Where each document comes from.
fn runs(documents: &[Value]) -> String {
    let mut html = "<section id=\"runs\">\n<h2>Runs</h2>\n<p>Each line is a document that was read.</p>\n<div class=\"table\">\
                    <table class=\"texts\">\n<thead><tr><th>what</th><th>date</th><th>ranks</th><th>library and file</th><th>server</th>\
                    <th>launcher</th><th>machine</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for document in documents {
        let of = |name: &str| escaped(text(document, name));
        let machine = &document["machine"];
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}<small>{}</small></td><td>{}</td><td>{}</td><td>{}<small>Linux {}, {}</small></td></tr>",
            of("command"),
            of("date"),
            document["ranks"],
            of("version"),
            of("path"),
            of("server"),
            of("launcher"),
            escaped(text(machine, "processor")),
            escaped(text(machine, "kernel")),
            of("program"),
        );
    }
    html + "</tbody></table></div>\n</section>\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(library: &str, p50: f64) -> Value {
        let of_ranks = |figure: f64| json!({ "median": figure, "least": figure / 2.0, "most": figure * 2.0 });
        let figure = json!({ "class": "own", "size": 64, "unit": "ns", "p50": of_ranks(p50), "p99": of_ranks(3.0 * p50), "p99_9": null });
        json!({ "program": "pmixbench", "command": "get", "library": library, "version": library, "server": "s", "ranks": 4, "nodes": 1,
            "ranks_on_node": 4, "path": "/<x>", "machine": { "processor": "P", "processors": 2, "kernel": "6" }, "figures": [figure] })
    }

    #[test]
    fn the_page_has_each_figure_and_refers_to_nothing() {
        let documents = [document("pmix-dstore 1", 40.0), document("A & B", 9000.0)];
        let html = html(&Comparison::of(&documents), &documents).expect("a page");
        assert!(
            html.contains("data-figure=\"get|own|64|4|1|pmix-dstore 1|p50\"><b>40.0 ns</b><small>20.0 ns to 80.0 ns"),
            "{html}"
        );
        assert!(html.contains("data-figure=\"get|own|64|4|1|A &amp; B|p99\"><b>27.0 µs</b>"), "{html}");
        assert!(html.contains("<td class=\"first\">225</td>"), "{html}");
        assert!(html.contains("/&lt;x&gt;") && !html.contains("<x>"), "{html}");
        for foreign in ["http://", "https://", "<script", "url(", "@import"] {
            let own = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
            assert!(!own.contains(foreign), "{foreign}: {html}");
        }
    }
}
