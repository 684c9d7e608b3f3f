//! What the benchmarks have in common: medians of figures, and the lines in which `benches/programs` print them.

use std::error::Error;

/// The median, the upper one of two, with the smallest and the largest; NaN of none.
pub fn spread(figures: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    [figures.get(figures.len() / 2), figures.first(), figures.last()].map(|figure| figure.copied().unwrap_or(f64::NAN))
}

/// The median, the upper one of two; NaN of none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    spread(figures)[0]
}

/// The lower quartile, the median and the upper quartile; NaN of none.
pub fn quartiles(figures: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| figures.get(figures.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}

/// Lines that begin with `kind`: the next word, and the numbers after it.
pub fn lines(text: &str, kind: &str) -> Vec<(String, Vec<f64>)> {
    let of_kind = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    let parts = of_kind.filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        Some((name, words.filter_map(|word| word.parse().ok()).collect()))
    });
    parts.collect()
}

/// The figure of this name of `benches/programs/host.c`, the first server's where each has one.
///
/// # Errors
/// If there is none.
pub fn of_host(text: &str, name: &str) -> Result<f64, Box<dyn Error>> {
    let found = lines(text, "host").into_iter().find(|(known, _)| known == name);
    let figure = found.and_then(|(_, figures)| figures.first().copied());
    Ok(figure.ok_or_else(|| format!("the host does not say {name}: {text}"))?)
}
