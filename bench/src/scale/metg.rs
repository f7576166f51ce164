//! The shortest task that is worth submitting: at which length half, or a tenth, of the CPU time is overhead.

/// The least length from which on at least `share` of the CPU time is the body's, between two measured lengths on a
/// logarithmic scale. `curve` holds length and share, in order of length. `Err` says why there is none.
pub(super) fn metg(curve: &[(f64, f64)], share: f64) -> Result<f64, String> {
    let percent = share * 100.0;
    let Some(below) = curve.iter().rposition(|&(_, s)| s < share) else {
        return match curve.first() {
            None => Err("no lengths were measured".into()),
            Some((least, _)) => Err(format!("{percent:.0} % at {least} ns already, the shortest that was tried")),
        };
    };
    let (x0, s0) = curve[below];
    let Some(&(x1, s1)) = curve.get(below + 1) else {
        return Err(format!("less than {percent:.0} % at {x0} ns, the longest that was tried"));
    };
    let part = (share - s0) / (s1 - s0);
    Ok((x0.ln() + part * (x1.ln() - x0.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of a pool that costs `overhead` per task.
    fn pool(overhead: f64) -> Vec<(f64, f64)> {
        [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0].map(|x| (x, x / (x + overhead))).into()
    }

    #[test]
    fn half_is_where_the_body_is_as_long_as_the_overhead() {
        let seen = metg(&pool(100.0), 0.5).unwrap();
        assert!((seen - 100.0).abs() < 1.0, "{seen}");
        // Nine times the overhead, within what a straight line between two points misses.
        let seen = metg(&pool(100.0), 0.9).unwrap();
        assert!((800.0..1_000.0).contains(&seen), "{seen}");
    }

    #[test]
    fn a_dip_counts() {
        let curve = [(10.0, 0.6), (20.0, 0.4), (40.0, 0.6)];
        let seen = metg(&curve, 0.5).unwrap();
        assert!((20.0..40.0).contains(&seen), "{seen}");
    }

    #[test]
    fn outside_of_what_was_tried_there_is_a_reason() {
        assert!(metg(&pool(1.0), 0.5).unwrap_err().contains("at 10 ns already"));
        assert!(metg(&pool(1e6), 0.5).unwrap_err().contains("the longest that was tried"));
        assert!(metg(&[], 0.5).is_err());
    }
}
