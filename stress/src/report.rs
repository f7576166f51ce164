//! Figures that a round prints.

use std::time::Duration;

/// Quantiles of waiting times.
#[derive(Clone, Copy, Debug)]
pub struct Quantiles {
    /// How many there were.
    pub count: usize,
    /// The median.
    pub p50: Duration,
    /// One in a hundred is longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl Quantiles {
    /// Of these times, in any order; at least one.
    ///
    /// # Panics
    /// Without any.
    pub fn of(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "no times");
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        Quantiles { count: times.len(), p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        write!(
            f,
            "n {}  p50 {:.1} us  p99 {:.1} us  max {:.1} us",
            self.count,
            us(self.p50),
            us(self.p99),
            us(self.max)
        )
    }
}

/// Prints past the test harness, which swallows what a passing test prints.
pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "stress: {line}");
}
