//! Plots as SVG, which a page holds as a part of itself. Legends are the page's business.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::bench::printed::shown;

const FONT: &str = "system-ui, sans-serif";
const INK: RGBColor = RGBColor(31, 41, 55);
const FAINT: RGBColor = RGBColor(107, 114, 128);
const GRID: RGBColor = RGBColor(229, 231, 235);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// The colours of series: ours, and others in the order in which they are met. People who see few colours can tell them apart.
pub const OURS: (u8, u8, u8) = (0, 114, 178);
pub const OTHERS: [(u8, u8, u8); 6] =
    [(213, 94, 0), (120, 120, 120), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233)];

/// A colour as plots have it.
fn color((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}

/// How figures are placed along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Each power of ten takes as much room.
    Logarithmic,
    /// From zero.
    Linear,
}

/// An axis of figures.
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    unit: String,
}

impl Axis {
    fn of(figures: impl Iterator<Item = f64>, scale: Scale, unit: &str) -> Axis {
        let (least, most) = figures.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), figure| {
            (least.min(figure.max(f64::MIN_POSITIVE)), most.max(figure))
        });
        let (from, to) = match scale {
            Scale::Logarithmic => (least.min(most).log10() - 0.12, most.log10() + 0.12),
            Scale::Linear => (0.0, most * 1.12),
        };
        Axis { scale, from, to, unit: unit.to_owned() }
    }

    fn at(&self, figure: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic => figure.max(f64::MIN_POSITIVE).log10(),
            Scale::Linear => figure,
        }
    }

    /// Round figures within the axis.
    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Logarithmic => {
                let decades = self.from.floor() as i32..=self.to.ceil() as i32;
                let parts: &[f64] = match self.to - self.from {
                    ..0.8 => &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
                    ..2.2 => &[1.0, 2.0, 5.0],
                    _ => &[1.0],
                };
                let all = decades.flat_map(|decade| parts.iter().map(move |part| part * 10f64.powi(decade)));
                all.filter(|tick| (self.from..=self.to).contains(&tick.log10())).collect()
            }
            Scale::Linear => {
                let rough = self.to / 4.0;
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * power).into_iter().find(|step| *step >= rough);
                let step = step.unwrap_or(rough);
                (0..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= self.to).collect()
            }
        }
    }

    fn label(&self, tick: f64) -> String {
        // Round figures need no digits behind the point.
        shown(tick, &self.unit).replacen(".00 ", " ", 1).replacen(".0 ", " ", 1)
    }
}

fn style(size: i32, color: &'static RGBColor, horizontal: HPos) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).color(color).pos(Pos::new(horizontal, VPos::Center))
}

/// A plot of this size in pixels.
fn drawn(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area).and_then(|()| Ok(area.present()?)).map_err(|error| format!("a plot cannot be drawn: {error}"))?;
    }
    Ok(svg)
}

/// A kind of figure: its name, and for each series the quantiles p50, p99 and p99.9.
pub type Row = (String, Vec<[Option<f64>; 3]>);

const NAMES_WIDTH: i32 = 240;
const LINE_HEIGHT: i32 = 15;
const WIDTH: u32 = 1040;

/// Quantiles by the kind of call: a dot at p50, a line to p99, a stroke at p99.9. Times have a logarithmic scale.
pub fn by_kind(rows: &[Row], colors: &[(u8, u8, u8)], unit: &str) -> Result<String, String> {
    let row_height = LINE_HEIGHT * colors.len() as i32 + 12;
    let bottom = row_height * rows.len() as i32 + 8;
    let figures = || rows.iter().flat_map(|(_, series)| series.iter().flatten().flatten().copied());
    let axis = Axis::of(figures(), Scale::Logarithmic, unit);
    let x = |figure: f64| {
        let part = (axis.at(figure) - axis.from) / (axis.to - axis.from);
        NAMES_WIDTH + (part * f64::from(WIDTH as i32 - NAMES_WIDTH - 20)) as i32
    };
    drawn((WIDTH, (bottom + 30) as u32), |area| {
        for tick in axis.ticks() {
            area.draw(&PathElement::new(vec![(x(tick), 4), (x(tick), bottom)], GRID))?;
            area.draw(&Text::new(axis.label(tick), (x(tick), bottom + 14), style(12, &FAINT, HPos::Center)))?;
        }
        for (number, (name, series)) in rows.iter().enumerate() {
            let top = row_height * number as i32 + 8;
            let middle = top + (row_height - 12) / 2;
            area.draw(&Text::new(name.as_str(), (NAMES_WIDTH - 12, middle), style(14, &INK, HPos::Right)))?;
            for (which, quantiles) in series.iter().enumerate() {
                let y = top + LINE_HEIGHT * which as i32 + LINE_HEIGHT / 2;
                quantile_marks(area, quantiles.map(|figure| figure.map(x)), y, color(colors[which]))?;
            }
        }
        Ok(())
    })
}

fn quantile_marks(area: &Area<'_>, [p50, p99, p99_9]: [Option<i32>; 3], y: i32, color: RGBColor) -> Drawn {
    let Some(p50) = p50 else { return Ok(()) };
    if let Some(p99) = p99 {
        area.draw(&PathElement::new(vec![(p50, y), (p99, y)], color.stroke_width(3)))?;
    }
    if let Some(p99_9) = p99_9 {
        area.draw(&PathElement::new(vec![(p99.unwrap_or(p50), y), (p99_9, y)], color.mix(0.45).stroke_width(1)))?;
        area.draw(&PathElement::new(vec![(p99_9, y - 4), (p99_9, y + 4)], color.stroke_width(2)))?;
    }
    area.draw(&Circle::new((p50, y), 5, color.filled()))?;
    Ok(())
}

/// A point of a line: the number of ranks, and the median with the least and the most.
pub type Point = (u64, [f64; 3]);

const SMALL: (u32, u32) = (330, 250);
const LEFT: i32 = 58;
const BOTTOM: i32 = 206;

/// A line for each series: figures by the number of ranks, with the range of all ranks.
pub fn by_ranks(lines: &[Vec<Point>], colors: &[(u8, u8, u8)], (scale, unit): (Scale, &str)) -> Result<String, String> {
    let axis = Axis::of(lines.iter().flatten().flat_map(|(_, figures)| *figures), scale, unit);
    let mut ranks: Vec<u64> = lines.iter().flatten().map(|(ranks, _)| *ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let log = |ranks: u64| (ranks.max(1) as f64).log2();
    let from = ranks.first().map_or(0.0, |ranks| log(*ranks)) - 0.4;
    let to = ranks.last().map_or(1.0, |ranks| log(*ranks)) + 0.4;
    let x = |ranks: u64| LEFT + ((log(ranks) - from) / (to - from) * f64::from(SMALL.0 as i32 - LEFT - 16)) as i32;
    let y =
        |figure: f64| BOTTOM - ((axis.at(figure) - axis.from) / (axis.to - axis.from) * f64::from(BOTTOM - 12)) as i32;
    drawn(SMALL, |area| {
        for tick in axis.ticks() {
            area.draw(&PathElement::new(vec![(LEFT, y(tick)), (SMALL.0 as i32 - 8, y(tick))], GRID))?;
            area.draw(&Text::new(axis.label(tick), (LEFT - 8, y(tick)), style(12, &FAINT, HPos::Right)))?;
        }
        for &ranks in &ranks {
            area.draw(&Text::new(ranks.to_string(), (x(ranks), BOTTOM + 14), style(12, &FAINT, HPos::Center)))?;
        }
        let middle = (LEFT + SMALL.0 as i32) / 2;
        area.draw(&Text::new("ranks on the node", (middle, BOTTOM + 32), style(12, &FAINT, HPos::Center)))?;
        for (points, rgb) in lines.iter().zip(colors) {
            let color = color(*rgb);
            let at = |part: usize| points.iter().map(move |(ranks, figures)| (x(*ranks), y(figures[part])));
            let outline: Vec<(i32, i32)> = at(1).chain(at(2).rev()).collect();
            area.draw(&Polygon::new(outline, color.mix(0.12)))?;
            for (low, high) in at(1).zip(at(2)) {
                area.draw(&PathElement::new(vec![low, high], color.mix(0.5).stroke_width(1)))?;
            }
            area.draw(&PathElement::new(at(0).collect::<Vec<_>>(), color.stroke_width(2)))?;
            for point in at(0) {
                area.draw(&Circle::new(point, 4, color.filled()))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_figures_within_the_axis() {
        let ticks = |figures: &[f64], scale| Axis::of(figures.iter().copied(), scale, "ns").ticks();
        assert_eq!(ticks(&[30.0, 20_000.0], Scale::Logarithmic), [100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(&[30.0, 60.0], Scale::Logarithmic), [30.0, 40.0, 60.0]);
        assert_eq!(ticks(&[30.0, 600.0], Scale::Logarithmic), [50.0, 100.0, 200.0, 500.0]);
        assert_eq!(ticks(&[40.0, 700.0], Scale::Linear), [0.0, 200.0, 400.0, 600.0]);
    }

    #[test]
    fn a_plot_shows_each_quantile_and_each_point() {
        let rows = vec![("own key".to_owned(), vec![[Some(30.0), Some(60.0), Some(90.0)], [Some(9000.0), None, None]])];
        let svg = by_kind(&rows, &[OURS, OTHERS[0]], "ns").expect("it is drawn");
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(svg.contains("own key") && svg.contains("10 µs"), "{svg}");
        let lines = [vec![(1, [1.0, 1.0, 1.0]), (4, [2.0, 1.0, 3.0])], vec![]];
        let svg = by_ranks(&lines, &[OURS, OTHERS[0]], (Scale::Linear, "KiB")).expect("it is drawn");
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
    }
}
