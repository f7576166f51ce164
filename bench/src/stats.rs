//! Medians and percentiles.
use serde_json::{Value, json};

/// Median, least and greatest of a few samples, with the samples themselves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// In the order in which they were taken.
    pub(crate) samples: Vec<f64>,
}

impl Spread {
    /// `None` without samples. Of an even number the median is the mean of the two in the middle.
    pub(crate) fn of(samples: Vec<f64>) -> Option<Spread> {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Spread { median, min: first, max: last, samples })
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max, "samples": self.samples })
    }
}

/// Percentiles of the time from the call of submit to the end of the body, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Latency {
    /// `None` without values. A percentile is the least value that at least that share of all values does not exceed
    /// (nearest rank).
    pub(crate) fn of(mut values: Vec<u64>) -> Option<Latency> {
        values.sort_unstable();
        let max = *values.last()?;
        let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        Some(Latency { p50: at(50), p95: at(95), p99: at(99), max })
    }

    /// The median of each percentile over several rounds, and the greatest maximum.
    pub(crate) fn across(rounds: &[Latency]) -> Option<Latency> {
        let median = |part: fn(&Latency) -> u64| {
            Spread::of(rounds.iter().map(|l| part(l) as f64).collect()).map(|s| s.median.round() as u64)
        };
        Some(Latency {
            p50: median(|l| l.p50)?,
            p95: median(|l| l.p95)?,
            p99: median(|l| l.p99)?,
            max: rounds.iter().map(|l| l.max).max()?,
        })
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "p50": self.p50, "p95": self.p95, "p99": self.p99, "max": self.max })
    }
}

/// The percentiles that are shown where whole samples are the values.
pub(crate) const QUANTILES: [(&str, u64); 7] =
    [("p0", 0), ("p25", 25), ("p50", 50), ("p75", 75), ("p90", 90), ("p99", 99), ("p100", 100)];

/// Values in order, for percentiles by nearest rank: `p0` is the least, `p100` the greatest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sorted(Vec<f64>);

impl Sorted {
    /// `None` without values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Sorted> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Sorted(values))
    }

    pub(crate) fn at(&self, percent: u64) -> f64 {
        let rank = (self.0.len() as u64 * percent).div_ceil(100).max(1);
        self.0[rank as usize - 1]
    }

    pub(crate) fn json(&self) -> Value {
        Value::Object(QUANTILES.iter().map(|&(name, percent)| (name.to_owned(), json!(self.at(percent)))).collect())
    }
}

/// `2.1x faster`, `1.3x slower`.
pub(crate) fn direction(ratio: f64, better: &str, worse: &str) -> String {
    // Two digits where one would say that nothing differs.
    let times = |r: f64| if r < 1.95 { format!("{r:.2}x") } else { format!("{r:.1}x") };
    if ratio >= 1.0 { format!("{} {better}", times(ratio)) } else { format!("{} {worse}", times(1.0 / ratio)) }
}

/// `12345678` as `12,345,678`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even() {
        let odd = Spread::of(vec![5.0, 1.0, 3.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (3.0, 1.0, 5.0));
        assert_eq!(odd.samples, [5.0, 1.0, 3.0]);
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 8.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let all = Latency::of((1..=10_000).rev().collect()).unwrap();
        assert_eq!(all, Latency { p50: 5_000, p95: 9_500, p99: 9_900, max: 10_000 });
        assert_eq!(Latency::of(vec![7]).unwrap(), Latency { p50: 7, p95: 7, p99: 7, max: 7 });
        assert_eq!(Latency::of(vec![1, 2, 3]).unwrap().p50, 2);
        assert_eq!(Latency::of(vec![]), None);
    }

    #[test]
    fn quantiles_of_thirty_samples() {
        let all = Sorted::of((1..=30).rev().map(f64::from).collect()).unwrap();
        let seen: Vec<f64> = QUANTILES.iter().map(|&(_, p)| all.at(p)).collect();
        assert_eq!(seen, [1.0, 8.0, 15.0, 23.0, 27.0, 30.0, 30.0]);
        assert_eq!(all.json()["p75"], 23.0);
        assert_eq!(Sorted::of(vec![]), None);
    }

    #[test]
    fn rounds_are_joined_by_median_and_maximum() {
        let round = |p50, max| Latency { p50, p95: 20, p99: 30, max };
        let all = Latency::across(&[round(5, 90), round(9, 40), round(6, 50)]).unwrap();
        assert_eq!((all.p50, all.max), (6, 90));
    }

    #[test]
    fn grouping() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
