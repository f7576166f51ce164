//! From the samples of an A/B run to a decision.
//!
//! Ten rounds A,B,A,B..; each leg-run takes three samples, drops the first, and its value is the mean of the other two.
//! The median of ten is the mean of the fifth and the sixth in ascending order. A plan with named targets passes if the
//! weighted mean of their changes is at least +5.0 % and nothing else has lost more than 3.0 %.

use std::fmt;

/// Rounds of a run: as many values has each leg.
pub const ROUNDS: usize = 10;
/// Samples of one leg-run; the first is dropped.
pub const SAMPLES: usize = 3;
/// What the targets must gain together, in percent.
pub const GAIN: f64 = 5.0;
/// What nothing else may fall below, in percent.
pub const LOSS: f64 = -3.0;

/// Part of what the bodies allow at most from which on tasks per second do not tell two programs apart any more.
pub const SATURATED: f64 = 0.95;

/// What a scenario is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Tasks per second.
    Rate,
    /// Tasks per second of CPU time, where both legs reach [`SATURATED`] of the ceiling.
    Cpu,
}

impl Figure {
    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::Rate => "tasks_per_sec",
            Figure::Cpu => "tasks_per_cpu_sec",
        }
    }
}

/// The values of one scenario, one per round and leg. Greater is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Legs {
    /// The scenario.
    pub name: String,
    /// Leg A.
    pub baseline: Vec<f64>,
    /// Leg B.
    pub candidate: Vec<f64>,
}

/// What became of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The scenario.
    pub name: String,
    /// Its weight, if it is a target.
    pub weight: Option<f64>,
    /// Median of leg A.
    pub baseline: f64,
    /// Median of leg B.
    pub candidate: f64,
    /// 100 x (B/A - 1): positive is better.
    pub percent: f64,
}

/// All changes, and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In the order of the legs.
    pub changes: Vec<Change>,
    /// The weighted mean over the targets; `None` without targets.
    pub weighted: Option<f64>,
    /// What speaks against the candidate. Empty: it passes.
    pub against: Vec<String>,
}

impl Verdict {
    /// Whether the plan passes. Without targets there is nothing to pass.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.weighted.is_some() && self.against.is_empty()
    }

    /// The greatest change in either direction, in percent: the noise floor, when both legs are the same program.
    #[must_use]
    pub fn greatest(&self) -> f64 {
        self.changes.iter().map(|c| c.percent.abs()).fold(0.0, f64::max)
    }
}

/// Why nothing can be decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A leg has not one value per round, or not three samples per leg-run.
    Count {
        /// The scenario.
        name: String,
        /// How many there are.
        got: usize,
        /// How many there must be.
        wanted: usize,
    },
    /// A value that is no positive number.
    Value {
        /// The scenario.
        name: String,
        /// What is there instead.
        value: f64,
    },
    /// A target that was not measured.
    Target {
        /// Its name.
        name: String,
        /// What was.
        known: Vec<String>,
    },
    /// A weight that is no positive number.
    Weight {
        /// The target.
        name: String,
        /// The weight.
        weight: f64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Count { name, got, wanted } => write!(f, "{name}: {got} values, {wanted} are needed"),
            Error::Value { name, value } => write!(f, "{name}: {value} is no rate"),
            Error::Target { name, known } => write!(f, "target {name:?} was not measured; known: {}", known.join(", ")),
            Error::Weight { name, weight } => write!(f, "target {name}: {weight} is no weight"),
        }
    }
}

impl std::error::Error for Error {}

fn positive(name: &str, values: &[f64], wanted: usize) -> Result<(), Error> {
    if values.len() != wanted {
        return Err(Error::Count { name: name.into(), got: values.len(), wanted });
    }
    match values.iter().find(|v| !v.is_finite() || **v <= 0.0) {
        Some(value) => Err(Error::Value { name: name.into(), value: *value }),
        None => Ok(()),
    }
}

/// The value of one leg-run: without the first of its three samples, which is the warm-up.
///
/// ```
/// assert_eq!(bench::aggregate::value("flood_1m", &[1.0, 10.0, 20.0]), Ok(15.0));
/// assert!(bench::aggregate::value("flood_1m", &[10.0, 20.0]).is_err());
/// ```
///
/// # Errors
/// Not three samples, or one that is no positive number.
pub fn value(name: &str, samples: &[f64]) -> Result<f64, Error> {
    positive(name, samples, SAMPLES)?;
    Ok((samples[1] + samples[2]) / 2.0)
}

/// The mean of the fifth and the sixth of ten values in ascending order.
///
/// ```
/// let values = [10.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0];
/// assert_eq!(bench::aggregate::median("flood_1m", &values), Ok(5.5));
/// ```
///
/// # Errors
/// Not ten values, or one that is no positive number.
pub fn median(name: &str, values: &[f64]) -> Result<f64, Error> {
    positive(name, values, ROUNDS)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok((sorted[ROUNDS / 2 - 1] + sorted[ROUNDS / 2]) / 2.0)
}

/// What a scenario is judged by, and its values: tasks per second, or, where the bodies keep both legs from being any
/// faster, tasks per second of CPU time. A leg that falls behind the ceiling is judged by its rate, so that a worker
/// which does nothing is seen.
///
/// ```
/// use bench::aggregate::{Figure, Legs, figure};
/// let legs = |a: f64, b: f64| Legs { name: "cpu_work_10us".into(), baseline: vec![a; 10], candidate: vec![b; 10] };
/// let (rates, cpu_ns) = (legs(196e3, 197e3), legs(10_200.0, 10_100.0));
/// assert_eq!(figure(&rates, &cpu_ns, Some(200e3)).unwrap().0, Figure::Cpu);
/// assert_eq!(figure(&legs(196e3, 150e3), &cpu_ns, Some(200e3)).unwrap().0, Figure::Rate);
/// assert_eq!(figure(&rates, &cpu_ns, None).unwrap().0, Figure::Rate);
/// ```
///
/// # Errors
/// Rates that are not complete.
pub fn figure(rates: &Legs, cpu_ns: &Legs, ceiling: Option<f64>) -> Result<(Figure, Legs), Error> {
    let slower = median(&rates.name, &rates.baseline)?.min(median(&rates.name, &rates.candidate)?);
    let timed = cpu_ns.baseline.iter().chain(&cpu_ns.candidate).all(|ns| ns.is_finite() && *ns > 0.0);
    if !timed || ceiling.is_none_or(|ceiling| slower < SATURATED * ceiling) {
        return Ok((Figure::Rate, rates.clone()));
    }
    let per_cpu = |ns: &Vec<f64>| ns.iter().map(|ns| 1e9 / ns).collect();
    let (baseline, candidate) = (per_cpu(&cpu_ns.baseline), per_cpu(&cpu_ns.candidate));
    Ok((Figure::Cpu, Legs { name: rates.name.clone(), baseline, candidate }))
}

/// 100 x (B/A - 1), to nine digits behind the point: 97 against 100 is exactly -3, whatever binary fractions make of
/// it.
#[must_use]
pub fn percent(baseline: f64, candidate: f64) -> f64 {
    digits(100.0 * (candidate - baseline) / baseline)
}

fn digits(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

/// Judges a whole run. `targets` are names with weights, fixed before the first round; without any, only the changes
/// are of interest (two builds of one source).
///
/// # Errors
/// Legs that are not complete, and targets that were not measured or weigh nothing.
pub fn judge(legs: &[Legs], targets: &[(String, f64)]) -> Result<Verdict, Error> {
    for (name, weight) in targets {
        if !legs.iter().any(|l| l.name == *name) {
            let known = legs.iter().map(|l| l.name.clone()).collect();
            return Err(Error::Target { name: name.clone(), known });
        }
        if !weight.is_finite() || *weight <= 0.0 {
            return Err(Error::Weight { name: name.clone(), weight: *weight });
        }
    }
    let change = |leg: &Legs| {
        let (baseline, candidate) = (median(&leg.name, &leg.baseline)?, median(&leg.name, &leg.candidate)?);
        let weight = targets.iter().find(|(name, _)| *name == leg.name).map(|(_, weight)| *weight);
        Ok(Change { name: leg.name.clone(), weight, baseline, candidate, percent: percent(baseline, candidate) })
    };
    let changes: Vec<Change> = legs.iter().map(change).collect::<Result<_, Error>>()?;
    let total: f64 = changes.iter().filter_map(|c| c.weight).sum();
    let gained: f64 = changes.iter().filter_map(|c| c.weight.map(|w| w * c.percent)).sum();
    let weighted = (total > 0.0).then(|| digits(gained / total));
    let mut against = vec![];
    if let Some(mean) = weighted.filter(|mean| *mean < GAIN) {
        against.push(format!("the targets gained {mean:+.2} %, and {GAIN:+.1} % is needed"));
    }
    let lost = changes.iter().filter(|c| weighted.is_some() && c.weight.is_none() && c.percent < LOSS);
    against.extend(lost.map(|c| format!("{} lost: {:+.2} %, and {LOSS:+.1} % is allowed", c.name, c.percent)));
    Ok(Verdict { changes, weighted, against })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legs(name: &str, baseline: f64, candidate: f64) -> Legs {
        // A spread around the median that the median does not see.
        let spread = |m: f64| (0..10).map(|i| m + if i < 5 { -0.01 } else { 0.01 } * f64::from(1 + i % 5)).collect();
        Legs { name: name.into(), baseline: spread(baseline), candidate: spread(candidate) }
    }

    fn target(name: &str, weight: f64) -> (String, f64) {
        (name.into(), weight)
    }

    fn passes(target_gain: f64, other: f64) -> bool {
        let legs = [flat("t", 100.0, 100.0 + target_gain), flat("o", 100.0, 100.0 + other)];
        judge(&legs, &[target("t", 1.0)]).unwrap().passes()
    }

    fn flat(name: &str, baseline: f64, candidate: f64) -> Legs {
        Legs { name: name.into(), baseline: vec![baseline; 10], candidate: vec![candidate; 10] }
    }

    #[test]
    fn the_gate_is_closed_to_a_hundredth_of_a_percent() {
        assert!(passes(5.0, -3.0), "exactly the limits");
        assert!(!passes(4.99, -3.0));
        assert!(!passes(5.0, -3.01));
        assert!(!passes(4.99, -3.01));
        assert!(passes(5.01, -2.99));
    }

    /// The same with rates as they are measured, whose quotients are no round binary fractions.
    #[test]
    fn the_limits_are_exact_for_all_magnitudes() {
        for base in [7.0, 0.3, 49_912_345.678, 1e9 / 3.0, 27_300_000.1] {
            let run = |t: f64, o: f64| {
                let legs = [flat("t", base, base * t), flat("o", base, base * o)];
                judge(&legs, &[target("t", 2.0)]).unwrap().passes()
            };
            assert!(run(1.05, 0.97), "{base}");
            assert!(!run(1.0499, 0.97), "{base}");
            assert!(!run(1.05, 0.9699), "{base}");
        }
    }

    #[test]
    fn medians_are_the_known_ones() {
        assert_eq!(median("x", &[3.0, 9.0, 1.0, 7.0, 5.0, 2.0, 8.0, 4.0, 6.0, 100.0]), Ok(5.5));
        assert_eq!(median("x", &[1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 9.0, 9.0, 9.0, 9.0]), Ok(3.0));
        assert_eq!(median("x", &[2.0; 9]), Err(Error::Count { name: "x".into(), got: 9, wanted: 10 }));
        assert_eq!(value("x", &[99.0, 4.0, 6.0]), Ok(5.0));
        assert!(matches!(value("x", &[1.0, f64::NAN, 2.0]), Err(Error::Value { .. })));
        assert!(matches!(value("x", &[1.0, 0.0, 2.0]), Err(Error::Value { value: 0.0, .. })));
        let change = &judge(&[legs("x", 50.0, 55.0)], &[]).unwrap().changes[0];
        assert_eq!((change.baseline, change.candidate, change.percent), (50.0, 55.0, 10.0));
    }

    #[test]
    fn weights_count() {
        let legs = [flat("a", 100.0, 108.0), flat("b", 100.0, 99.0), flat("o", 100.0, 100.0)];
        let run = |a, b| judge(&legs, &[target("a", a), target("b", b)]).unwrap();
        assert_eq!(run(2.0, 1.0).weighted, Some(5.0));
        assert!(run(2.0, 1.0).passes());
        assert_eq!(run(1.0, 1.0).weighted, Some(3.5));
        assert!(!run(1.0, 1.0).passes());
        // A target may lose: it is judged by the mean.
        let legs = [flat("a", 100.0, 130.0), flat("b", 100.0, 90.0)];
        assert!(judge(&legs, &[target("a", 1.0), target("b", 1.0)]).unwrap().passes());
    }

    #[test]
    fn what_is_against_it_is_said() {
        let legs = [flat("t", 100.0, 101.0), flat("o", 100.0, 90.0)];
        let against = judge(&legs, &[target("t", 1.0)]).unwrap().against;
        assert_eq!(against.len(), 2);
        assert_eq!(against[0], "the targets gained +1.00 %, and +5.0 % is needed");
        assert_eq!(against[1], "o lost: -10.00 %, and -3.0 % is allowed");
    }

    #[test]
    fn at_the_ceiling_cpu_time_is_judged() {
        let rates = flat("t", 195.0, 196.0);
        let of = |rates: &Legs, cpu: &Legs| figure(rates, cpu, Some(200.0)).unwrap();
        let (judged_by, legs) = of(&rates, &flat("t", 100.0, 80.0));
        let change = &judge(&[legs], &[]).unwrap().changes[0];
        assert_eq!((judged_by, change.percent), (Figure::Cpu, 25.0), "a fifth less is a quarter more per second");
        // Exactly at the limit, and below it in either leg.
        assert_eq!(of(&flat("t", 190.0, 190.0), &flat("t", 1.0, 1.0)).0, Figure::Cpu);
        assert_eq!(of(&flat("t", 189.9, 195.0), &flat("t", 1.0, 1.0)).0, Figure::Rate);
        assert_eq!(of(&flat("t", 195.0, 189.9), &flat("t", 1.0, 1.0)).0, Figure::Rate);
        // A clock of whole ticks may say that a tiny sample took no time.
        assert_eq!(of(&rates, &flat("t", 0.0, 1.0)).0, Figure::Rate);
        assert!(figure(&Legs { baseline: vec![], ..rates.clone() }, &rates, None).is_err());
    }

    #[test]
    fn bad_plans_are_named() {
        let legs = [flat("a", 1.0, 1.0)];
        let error = judge(&legs, &[target("b", 1.0)]).unwrap_err();
        assert_eq!(error.to_string(), "target \"b\" was not measured; known: a");
        assert!(judge(&legs, &[target("a", 0.0)]).unwrap_err().to_string().contains("0 is no weight"));
        assert!(judge(&legs, &[target("a", f64::NAN)]).is_err());
        let short = Legs { baseline: vec![1.0; 3], ..flat("a", 1.0, 1.0) };
        assert_eq!(judge(&[short], &[]).unwrap_err().to_string(), "a: 3 values, 10 are needed");
    }

    #[test]
    fn two_builds_of_one_source_have_a_noise_floor_and_no_verdict() {
        let verdict = judge(&[flat("a", 100.0, 98.0), flat("b", 100.0, 101.0)], &[]).unwrap();
        assert_eq!((verdict.greatest(), verdict.weighted, verdict.passes()), (2.0, None, false));
        assert!(verdict.against.is_empty());
    }
}
