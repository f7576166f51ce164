//! The summary.

use super::boot::Boot;
use crate::line::Verdict;
use std::fmt;

/// How many checks ended how; a boot that did not come back whole counts as one that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    ok: usize,
    missed: usize,
    failed: usize,
    not_run: usize,
    figures: usize,
}

impl Sum {
    /// Nothing failed, and something was checked.
    pub(crate) fn good(&self) -> bool {
        self.failed == 0 && self.ok > 0
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ok, {} failed", self.ok, self.failed)?;
        if self.missed > 0 {
            write!(f, ", {} known to be missed", self.missed)?;
        }
        if self.not_run > 0 {
            write!(f, ", {} NOT RUN", self.not_run)?;
        }
        Ok(())
    }
}

/// Columns of evidence; all of it is in the log of the boot.
const EVIDENCE: usize = 180;

fn cut(text: &str) -> String {
    if text.chars().count() <= EVIDENCE {
        text.to_owned()
    } else {
        text.chars().take(EVIDENCE).collect::<String>() + " .."
    }
}

/// Prints a row per check, below it what the control saw.
pub(crate) fn print(boots: &[Boot]) -> Sum {
    let (text, sum) = rows(boots);
    print!("\n{text}\n");
    sum
}

fn rows(boots: &[Boot]) -> (String, Sum) {
    use std::fmt::Write;
    let (mut text, mut sum) = (String::new(), Sum::default());
    let width = boots.iter().flat_map(|boot| &boot.lines).map(|line| line.name.len()).max().unwrap_or(0);
    for boot in boots {
        for line in &boot.lines {
            *match line.verdict {
                Verdict::Ok => &mut sum.ok,
                Verdict::Miss => &mut sum.missed,
                Verdict::Fail => &mut sum.failed,
                Verdict::Figure => &mut sum.figures,
            } += 1;
            let _ = writeln!(text, "{:4}  {:9} {:width$}  {}", line.verdict, boot.name, line.name, cut(&line.evidence));
            let _ = writeln!(text, "{:4}  {:9} {:>width$}  {}", "", "", "control:", cut(&line.control));
        }
        if let Some(why) = &boot.not_run {
            sum.not_run += 1;
            let _ = writeln!(text, "{:4}  {:9} NOT RUN: {why}", "", boot.name);
        }
        if let Some(trouble) = &boot.trouble {
            sum.failed += 1;
            let _ = writeln!(text, "{:4}  {:9} {:width$}  {trouble}", Verdict::Fail, boot.name, "the boot itself");
        }
    }
    (text, sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;

    fn boot(verdicts: &[Verdict], trouble: Option<&str>) -> Boot {
        let line = |&verdict| Line { name: "n".into(), verdict, evidence: "e".into(), control: "c".into() };
        let lines = verdicts.iter().map(line).collect();
        Boot { name: "five", lines, trouble: trouble.map(str::to_owned), not_run: None, seconds: 1.0 }
    }

    #[test]
    fn what_counts_as_good() {
        let of = |boots: &[Boot]| rows(boots).1;
        assert!(of(&[boot(&[Verdict::Ok, Verdict::Miss], None)]).good());
        assert!(!of(&[boot(&[Verdict::Ok, Verdict::Fail], None)]).good());
        assert!(!of(&[boot(&[Verdict::Ok], Some("died"))]).good());
        assert!(!of(&[boot(&[], None)]).good());
    }

    #[test]
    fn everything_is_shown() {
        let (text, sum) = rows(&[boot(&[Verdict::Ok, Verdict::Miss, Verdict::Fail], Some("died"))]);
        assert_eq!(sum.to_string(), "1 ok, 2 failed, 1 known to be missed");
        for part in ["ok ", "MISS", "FAIL", "died", "control:"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
