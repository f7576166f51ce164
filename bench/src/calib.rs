//! Busy bodies: a dependent chain of multiplications whose length is calibrated once per run and then counted, not
//! timed.
//!
//! The peers in other languages run the same chain for the same number of steps, so their bodies cost the same cycles
//! (one multiplication and one addition per step, nothing to unroll or vectorise).
use std::time::Instant;

/// `x`, of which the compiler knows nothing any more: several links of a chain cannot be folded into one.
#[inline(always)]
pub(crate) fn opaque(mut x: u64) -> u64 {
    // SAFETY: an empty piece of assembly that claims to change `x`.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
    x
}

/// Runs `steps` links of the chain.
#[inline(always)]
pub(crate) fn spin(steps: u64) {
    let mut x: u64 = steps;
    for _ in 0..steps {
        x = opaque(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
}

/// As [`spin`], and nothing that comes after begins before it is done: a chain of a few dozen steps would otherwise
/// overlap with the next one, and two nodes of 45 ns would take 50.
#[inline(always)]
pub(crate) fn spin_alone(steps: u64) {
    spin(steps);
    // SAFETY: a fence of the instruction stream changes neither registers nor memory.
    unsafe { std::arch::asm!("lfence", options(nostack, preserves_flags)) };
}

/// How long one step takes.
#[derive(Clone, Copy)]
pub(crate) struct Calibration {
    /// Nanoseconds per step: the least of many short trials, so that interruptions do not lengthen the bodies.
    pub(crate) ns_per_step: f64,
}

/// Steps of one trial of the calibration.
const STEPS: u64 = 50_000;
/// What is timed must be so many times longer than the smallest step of the clock: 5 % of error at most.
const STEPS_OF_CLOCK: u64 = 20;

/// The smallest step that `clock`, in nanoseconds, was seen to make; `None`: it did not move.
pub(crate) fn resolution(mut clock: impl FnMut() -> u64) -> Option<u64> {
    const LOOKS: u32 = 100_000;
    let mut step = || {
        let before = clock();
        (0..LOOKS).find_map(|_| clock().checked_sub(before).filter(|&step| step > 0))
    };
    // A few only: looks may be slow, and one that was interrupted is longer than the others.
    (0..10).filter_map(|_| step()).min()
}

/// `Err` if a clock that moves in steps of `resolution` cannot time what lasts `length_ns`.
pub(crate) fn resolves(what: &str, length_ns: u64, resolution: Option<u64>) -> Result<(), String> {
    match resolution {
        None => Err("the clock does not move".into()),
        Some(step) if length_ns < step.saturating_mul(STEPS_OF_CLOCK) => Err(format!(
            "the clock moves in steps of {step} ns and cannot resolve {what} of {length_ns} ns \
             (it takes {STEPS_OF_CLOCK} steps at least)"
        )),
        Some(_) => Ok(()),
    }
}

/// The smallest step of the clock that everything here is timed with.
pub(crate) fn clock_step() -> Option<u64> {
    let start = Instant::now();
    resolution(|| start.elapsed().as_nanos() as u64)
}

impl Calibration {
    /// As [`Calibration::take`]; `Err` if the clock is too coarse for it.
    pub(crate) fn checked() -> Result<Calibration, String> {
        let step = clock_step();
        let start = Instant::now();
        spin(STEPS);
        resolves("the calibration loop", start.elapsed().as_nanos() as u64, step)?;
        Ok(Calibration::take())
    }

    /// Takes about 20 ms.
    pub(crate) fn take() -> Calibration {
        let trial = |_| {
            let start = Instant::now();
            spin(STEPS);
            start.elapsed().as_nanos() as f64 / STEPS as f64
        };
        Calibration { ns_per_step: (0..200).map(trial).fold(f64::INFINITY, f64::min) }
    }

    /// The number of steps that takes `ns`.
    pub(crate) fn steps(&self, ns: u64) -> u64 {
        (ns as f64 / self.ns_per_step).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_body_has_proportionally_more_steps() {
        let calibration = Calibration { ns_per_step: 2.0 };
        assert_eq!(calibration.steps(10_000), 5_000);
        assert_eq!(calibration.steps(1_000_000), 500_000);
        assert_eq!(calibration.steps(0), 0);
    }

    #[test]
    fn a_coarse_clock_is_refused() {
        let mut now = 0;
        let step = resolution(|| {
            now += 1;
            now / 7 * 1_000
        });
        assert_eq!(step, Some(1_000));
        assert!(resolves("a body", 19_999, step).unwrap_err().contains("1000 ns and cannot resolve a body of 19999"));
        assert_eq!(resolves("a body", 20_000, step), Ok(()));
        assert_eq!(resolution(|| 5), None);
        assert!(resolves("a body", 1_000_000, None).unwrap_err().contains("does not move"));
        assert!(clock_step().is_some());
    }

    #[test]
    fn calibration_is_a_positive_time() {
        let step = Calibration::take().ns_per_step;
        assert!(step > 0.01 && step < 1_000.0, "{step}");
    }
}
