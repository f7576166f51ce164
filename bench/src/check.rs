//! Proof that every task ran exactly once, at the price of the one locked addition the scenarios ask for.
//!
//! The body adds `token(i)` to one shared word. The low 24 bits of every token are 1, so they count; the upper 40 are
//! a hash of the task's number, so a task that was lost cannot be hidden by another that ran twice. The peers in
//! other languages compute the same tokens.

/// How many low bits of the word count tasks.
pub(crate) const COUNT_BITS: u32 = 24;
/// The most tasks one sample may have.
pub(crate) const MAX_TASKS: u64 = (1 << COUNT_BITS) - 1;

/// What task `i` adds to the word.
#[inline(always)]
pub(crate) fn token(i: u64) -> u64 {
    let mut x = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 32;
    x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (x & !MAX_TASKS) | 1
}

/// How many tasks a word has seen.
#[inline(always)]
pub(crate) fn count(word: u64) -> u64 {
    word & MAX_TASKS
}

/// The word after tasks `0..tasks` have run once each.
pub(crate) fn expected(tasks: u64) -> u64 {
    (0..tasks).fold(0, |sum: u64, i| sum.wrapping_add(token(i)))
}

/// `Ok` if `word` is what tasks `0..tasks` leave behind; else the sentence for the report.
pub(crate) fn verify(tasks: u64, word: u64) -> Result<(), String> {
    let ran = count(word);
    if ran != tasks {
        return Err(format!("{ran} of {tasks} tasks ran"));
    }
    if word != expected(tasks) {
        return Err(format!("{tasks} runs were counted, but not of {tasks} different tasks"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_task_is_seen() {
        let word = expected(1000);
        assert_eq!(verify(1000, word), Ok(()));
        assert_eq!(verify(1000, word.wrapping_sub(token(17))).unwrap_err(), "999 of 1000 tasks ran");
    }

    #[test]
    fn a_task_run_twice_in_place_of_another_is_seen() {
        let word = expected(1000).wrapping_sub(token(17)).wrapping_add(token(18));
        assert_eq!(count(word), 1000);
        assert!(verify(1000, word).unwrap_err().contains("different tasks"));
        // Sums of indices alone would not see this one: 10 + 20 = 14 + 16.
        let swapped = [10, 20].iter().fold(expected(1000), |w, &i| w.wrapping_sub(token(i)));
        let swapped = [14, 16].iter().fold(swapped, |w, &i| w.wrapping_add(token(i)));
        assert!(verify(1000, swapped).is_err());
    }
}
