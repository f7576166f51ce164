//! One check in one line: how the guest tells the host over the serial console.
//!
//! `guest: NAME | VERDICT | EVIDENCE | CONTROL`. The last line, `guest: end N`, says how many there were, so that a
//! guest that dies on the way is noticed.

use std::fmt;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds, and the control fails.
    Ok,
    /// It does not hold, which is known.
    Miss,
    /// It does not hold, or the control does.
    Fail,
    /// A figure without a bound.
    Figure,
}

impl Verdict {
    const ALL: [Verdict; 4] = [Verdict::Ok, Verdict::Miss, Verdict::Fail, Verdict::Figure];

    fn parse(text: &str) -> Option<Verdict> {
        Self::ALL.into_iter().find(|verdict| verdict.to_string() == text)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Miss => "MISS",
            Verdict::Fail => "FAIL",
            Verdict::Figure => "-",
        })
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What is checked.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was seen.
    pub evidence: String,
    /// What was seen in the control.
    pub control: String,
}

/// What was done in a phase whose line transfers are counted: `guest: phase NUMBER UNITS NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its number, by which the plugin knows it.
    pub number: u32,
    /// How many times something was done, tasks for the most part.
    pub units: u64,
    /// What it was.
    pub name: String,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}phase {} {} {}", self.number, self.units, plain(&self.name))
    }
}

impl Phase {
    fn parse(text: &str) -> Option<Phase> {
        let [number, units, name] = text.splitn(3, ' ').collect::<Vec<_>>().try_into().ok()?;
        Some(Phase { number: number.parse().ok()?, units: units.parse().ok()?, name: name.to_owned() })
    }
}

/// What a line of the console means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The result of a check.
    Check(Line),
    /// A phase in which line transfers were counted.
    Phase(Phase),
    /// All checks are done; there were so many.
    End(usize),
    /// The program ended with this code.
    Exit(String),
}

const MARK: &str = "guest: ";

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, evidence, control] = [&self.name, &self.evidence, &self.control].map(|text| plain(text));
        write!(f, "{MARK}{name} | {} | {evidence} | {control}", self.verdict)
    }
}

/// The line that ends the report.
#[must_use]
pub fn end(checks: usize) -> String {
    format!("{MARK}end {checks}")
}

/// One line without separators.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/")
}

/// Reads a line of the console; `None` for everything that is not ours.
#[must_use]
pub fn parse(line: &str) -> Option<Said> {
    // The console may have something before it, such as what a program printed without a line end.
    let rest = line.trim_end().rsplit_once(MARK)?.1;
    if let Some(count) = rest.strip_prefix("end ") {
        return count.parse().ok().map(Said::End);
    }
    if let Some(phase) = rest.strip_prefix("phase ") {
        return Phase::parse(phase).map(Said::Phase);
    }
    if let Some(code) = rest.strip_prefix("exit ") {
        return Some(Said::Exit(code.to_owned()));
    }
    let [name, verdict, evidence, control] = rest.split(" | ").collect::<Vec<_>>().try_into().ok()?;
    let verdict = Verdict::parse(verdict)?;
    Some(Said::Check(Line { name: name.into(), verdict, evidence: evidence.into(), control: control.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(evidence: &str) -> Line {
        Line {
            name: "pages at home".into(),
            verdict: Verdict::Miss,
            evidence: evidence.into(),
            control: "3 of 8".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = format!("{}\r", line("8 of 8"));
        assert_eq!(parse(&text), Some(Said::Check(line("8 of 8"))));
        assert_eq!(parse(&format!("noise{}", end(7))), Some(Said::End(7)));
        assert_eq!(parse("guest: exit 139"), Some(Said::Exit("139".into())));
        let phase = Phase { number: 3, units: 8000, name: "local submit".into() };
        assert_eq!(parse(&phase.to_string()), Some(Said::Phase(phase)));
    }

    #[test]
    fn separators_in_the_evidence_do_no_harm() {
        assert_eq!(parse(&line("a | b\nc").to_string()), Some(Said::Check(line("a / b c"))));
    }

    #[test]
    fn everything_else_is_noise() {
        for noise in [
            "",
            "guest:",
            "guest: end",
            "guest: end x",
            "guest: phase 1 x y",
            "guest: a | b",
            "guest: a | good | b | c",
            "[ 1.0] x",
        ] {
            assert_eq!(parse(noise), None, "{noise}");
        }
    }
}
