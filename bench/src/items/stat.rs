//! The statistic of a stream of values: count, extremes, moments and percentiles, four digits each.
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Values up to this are kept apart, in nanoseconds: a minute.
const MAX: u64 = 60_000_000_000;
/// Significant digits.
const DIGITS: u8 = 4;

/// Memory of a fixed size: recording allocates nothing. What is above a minute counts as a minute.
pub(crate) struct Statistic(Histogram<u64>);

/// The statistic at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) p9999: u64,
}

impl Statistic {
    pub(crate) fn new() -> Statistic {
        Statistic(Histogram::new_with_bounds(1, MAX, DIGITS).expect("1 <= MAX / 2 and DIGITS <= 5"))
    }

    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.0.saturating_record(value);
    }

    /// `None` without values.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let h = &self.0;
        let at = |quantile| h.value_at_quantile(quantile);
        (!h.is_empty()).then(|| Summary {
            count: h.len(),
            min: h.min(),
            max: h.max(),
            mean: h.mean(),
            stddev: h.stdev(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
        })
    }
}

impl Statistic {
    /// The value at each of these percentiles.
    pub(crate) fn curve(&self, percentiles: &[f64]) -> Vec<[f64; 2]> {
        // 99.9 / 100 is a little more than 0.999 in binary, and would be the rank above.
        let quantile = |p: f64| (p / 100.0 - 1e-12).max(0.0);
        percentiles.iter().map(|&p| [p, self.0.value_at_quantile(quantile(p)) as f64]).collect()
    }
}

impl Summary {
    pub(crate) fn json(&self) -> Value {
        json!({
            "count": self.count, "min": self.min, "max": self.max, "mean": self.mean, "stddev": self.stddev,
            "p50": self.p50, "p90": self.p90, "p95": self.p95, "p99": self.p99, "p999": self.p999,
            "p9999": self.p9999,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = u64>) -> Summary {
        let mut all = Statistic::new();
        values.for_each(|v| all.record(v));
        all.summary().unwrap()
    }

    /// Equal to four digits.
    #[track_caller]
    fn same(seen: f64, exact: f64) {
        assert!((seen - exact).abs() <= exact * 1e-4, "{seen} is not {exact}");
    }

    #[test]
    fn one_to_ten_thousand_is_exact() {
        let s = of((1..=10_000).rev());
        assert_eq!((s.count, s.min, s.max), (10_000, 1, 10_000));
        assert_eq!((s.p50, s.p90, s.p95), (5_000, 9_000, 9_500));
        assert_eq!((s.p99, s.p999, s.p9999), (9_900, 9_990, 9_999));
        same(s.mean, 5_000.5);
        // Of 1..=n it is the root of (n^2 - 1) / 12.
        same(s.stddev, (99_999_999.0_f64 / 12.0).sqrt());
    }

    #[test]
    fn large_values_keep_four_digits() {
        let s = of((1..=10_000).map(|v| v * 123_457));
        same(s.p50 as f64, 5_000.0 * 123_457.0);
        same(s.p9999 as f64, 9_999.0 * 123_457.0);
        same(s.max as f64, 10_000.0 * 123_457.0);
        same(s.mean, 5_000.5 * 123_457.0);
    }

    #[test]
    fn what_is_too_large_is_counted_all_the_same() {
        let s = of([1, u64::MAX].into_iter());
        assert_eq!(s.count, 2);
        assert!(s.max >= MAX && s.max < MAX + MAX / 1_000, "{s:?}");
        assert_eq!(Statistic::new().summary(), None);
    }

    #[test]
    fn a_curve_follows_the_percentiles() {
        let mut all = Statistic::new();
        (1..=1_000).for_each(|v| all.record(v));
        assert_eq!(all.curve(&[0.0, 50.0, 99.9, 100.0]), [[0.0, 1.0], [50.0, 500.0], [99.9, 999.0], [100.0, 1_000.0]]);
    }
}
