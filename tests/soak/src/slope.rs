//! Slopes by least squares.

/// A straight line through samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    /// The growth of y for each unit of x.
    pub(crate) each: f64,
    /// Half of the interval in which the true slope lies with a confidence of 95 %.
    pub(crate) half: f64,
}

/// The quantile of Student's distribution for 95 % with about 40 samples.
const QUANTILE: f64 = 2.02;

/// The slope of samples; none of fewer than ten.
pub(crate) fn slope(samples: &[(f64, f64)]) -> Option<Slope> {
    let count = samples.len() as f64;
    if samples.len() < 10 {
        return None;
    }
    let mean_x = samples.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = samples.iter().map(|(_, y)| y).sum::<f64>() / count;
    let square = samples.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    let each = samples.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / square;
    let rest = samples.iter().map(|(x, y)| (y - mean_y - each * (x - mean_x)).powi(2)).sum::<f64>();
    Some(Slope { each, half: QUANTILE * (rest / (count - 2.0) / square).sqrt() })
}

impl Slope {
    /// Whether over `range` the value has grown by no more than `bound`, with the confidence of the interval.
    pub(crate) fn is_flat(self, range: f64, bound: f64) -> bool {
        (self.each - self.half) * range <= bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_among_noise() {
        let noise = |n: usize| if n.is_multiple_of(2) { 1.0 } else { -1.0 };
        let line: Vec<_> = (0..40).map(|n| (n as f64, 3.0 * n as f64 + noise(n))).collect();
        let found = slope(&line).unwrap();
        assert!((found.each - 3.0).abs() < found.half && found.half < 0.1, "{found:?}");
        assert!(!found.is_flat(40.0, 10.0));
        let level: Vec<_> = (0..40).map(|n| (n as f64, 5.0 + noise(n))).collect();
        assert!(slope(&level).unwrap().is_flat(40.0, 0.0));
        assert_eq!(slope(&line[..9]), None);
    }
}
