//! Busy bodies: a dependent chain of multiplications whose length is calibrated once per run and then counted, not
//! timed.
//!
//! The peers in other languages run the same chain for the same number of steps, so their bodies cost the same cycles
//! (one multiplication and one addition per step, nothing to unroll or vectorise).
use std::time::Instant;

/// Runs `steps` links of the chain.
#[inline(always)]
pub(crate) fn spin(steps: u64) {
    let mut x: u64 = steps;
    for _ in 0..steps {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // SAFETY: an empty piece of assembly that claims to change `x`: it forbids folding several steps into one.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
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

impl Calibration {
    /// Takes about 20 ms.
    pub(crate) fn take() -> Calibration {
        const STEPS: u64 = 50_000;
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
    fn calibration_is_a_positive_time() {
        let step = Calibration::take().ns_per_step;
        assert!(step > 0.01 && step < 1_000.0, "{step}");
    }
}
