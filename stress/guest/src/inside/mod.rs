//! The guest's side: every check and its control, each in a process of its own.

mod crew;
mod group;
mod hosts;
mod look;
mod pages;

mod pins;
mod programs;
mod quota;
mod transfers;

use crate::line::{self, Line, Verdict};
use crate::machine::{self, Machine};
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Evidence that it holds, or that it does not.
pub(crate) type Finding = Result<String, String>;

/// One thing that must hold in a boot.
pub(crate) struct Check {
    /// A few words.
    pub(crate) name: &'static str,
    /// The boots where it is looked at.
    pub(crate) boots: &'static [&'static str],
    /// Looks.
    pub(crate) holds: fn(&Machine) -> Finding,
    /// The same look where it must not hold. Shows that the check can fail.
    pub(crate) control: fn(&Machine) -> Finding,
    /// It does not hold yet, which is known. When it does, this mark must go.
    pub(crate) missed: bool,
}

/// The longest check takes a tenth of this; one that hangs does not stop the others.
const LIMIT: Duration = Duration::from_secs(60);
/// Exit code of a look that found the opposite. A panic has another one.
const DOES_NOT_HOLD: u8 = 1;
const BAD_INPUT: u8 = 2;
const USAGE: &str = "usage: inside BOOT | inside BOOT holds CHECK | inside BOOT control CHECK | inside BOOT phase NAME";

fn checks() -> impl Iterator<Item = &'static Check> {
    [hosts::CHECKS, pages::CHECKS, pins::CHECKS, quota::CHECKS, programs::CHECKS].into_iter().flatten()
}

/// The command.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let machine = words.first().and_then(|name| machine::named(name));
    match (machine, &words[..]) {
        (Some(machine), [_]) if machine.counted => phases(machine),
        (Some(machine), [_]) => all(machine),
        (Some(_), [_, "phase", name]) => {
            let Some(at) = transfers::SCENARIOS.iter().position(|scenario| scenario.name == *name) else {
                return refuse();
            };
            tell((transfers::SCENARIOS[at].run)(at + 1))
        }
        (Some(machine), [_, side @ ("holds" | "control"), name]) => {
            let Some(check) = checks().find(|check| check.name == *name) else { return refuse() };
            tell(if *side == "holds" { check.holds } else { check.control }(machine))
        }
        _ => refuse(),
    }
}

fn refuse() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(BAD_INPUT)
}

fn tell(finding: Finding) -> ExitCode {
    let (code, evidence) = match finding {
        Ok(evidence) => (ExitCode::SUCCESS, evidence),
        Err(evidence) => (ExitCode::from(DOES_NOT_HOLD), evidence),
    };
    // The last line is the evidence.
    println!("{}", evidence.split_whitespace().collect::<Vec<_>>().join(" "));
    code
}

fn all(machine: &Machine) -> ExitCode {
    let (mut count, mut good) = (0, true);
    for check in checks().filter(|check| check.boots.contains(&machine.name)) {
        let began = Instant::now();
        let line = judge(check, apart(machine, "holds", check.name), apart(machine, "control", check.name));
        println!("{line}");
        println!("{} took {:.1} s", check.name, began.elapsed().as_secs_f64());
        count += 1;
        good &= line.verdict != Verdict::Fail;
    }
    println!("{}", line::end(count));
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The scenarios whose line transfers the plugin counts, one after the other.
fn phases(machine: &Machine) -> ExitCode {
    let mut good = true;
    for (number, scenario) in (1..).zip(transfers::SCENARIOS) {
        match apart(machine, "phase", scenario.name) {
            Outcome::Holds(evidence) => println!("{}: {evidence}\n{}", scenario.name, scenario.phase(number)),
            Outcome::DoesNot(why) | Outcome::Died(why) => {
                println!("{}: {why}", scenario.name);
                good = false;
            }
        }
    }
    println!("{}", line::end(0));
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a process of its own found.
enum Outcome {
    Holds(String),
    DoesNot(String),
    Died(String),
}

fn judge(check: &Check, holds: Outcome, control: Outcome) -> Line {
    let (control_bites, control) = match control {
        Outcome::DoesNot(evidence) => (true, format!("fails as it must: {evidence}")),
        Outcome::Holds(evidence) => (false, format!("HOLDS, so the check proves nothing: {evidence}")),
        Outcome::Died(how) => (false, how),
    };
    let (verdict, evidence) = match (holds, check.missed) {
        (Outcome::Holds(evidence), false) => (Verdict::Ok, evidence),
        (Outcome::Holds(evidence), true) => (Verdict::Fail, format!("no longer missed, the mark must go: {evidence}")),
        (Outcome::DoesNot(evidence), true) => (Verdict::Miss, evidence),
        (Outcome::DoesNot(evidence), false) => (Verdict::Fail, evidence),
        (Outcome::Died(how), _) => (Verdict::Fail, how),
    };
    let verdict = if control_bites { verdict } else { Verdict::Fail };
    Line { name: check.name.into(), verdict, evidence, control }
}

/// Runs one look in a process of its own: it may bind threads, join groups, hang or crash.
fn apart(machine: &Machine, side: &str, name: &str) -> Outcome {
    let mut command = Command::new("/proc/self/exe");
    command.args([machine.name, side, name]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Outcome::Died(format!("cannot be started: {error}")),
    };
    let end = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Outcome::Died(format!("not done after {} s", LIMIT.as_secs()));
            }
            Err(error) => return Outcome::Died(format!("lost: {error}")),
        }
    };
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let _ = stdout.read_to_string(&mut text);
    }
    let evidence = text.lines().last().unwrap_or("no word").to_owned();
    match status.code() {
        Some(0) => Outcome::Holds(evidence),
        Some(code) if code == i32::from(DOES_NOT_HOLD) => Outcome::DoesNot(evidence),
        _ => Outcome::Died(format!("{status}: {evidence}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(missed: bool, holds: Outcome, control: Outcome) -> Verdict {
        let nothing: fn(&Machine) -> Finding = |_| Ok(String::new());
        let check = Check { name: "n", boots: &[], holds: nothing, control: nothing, missed };
        judge(&check, holds, control).verdict
    }

    #[test]
    fn a_check_is_worth_what_its_control_is_worth() {
        let (yes, no, died) =
            (|| Outcome::Holds(String::new()), || Outcome::DoesNot(String::new()), || Outcome::Died(String::new()));
        assert_eq!(verdict(false, yes(), no()), Verdict::Ok);
        assert_eq!(verdict(false, yes(), yes()), Verdict::Fail);
        assert_eq!(verdict(false, yes(), died()), Verdict::Fail);
        assert_eq!(verdict(false, no(), no()), Verdict::Fail);
        assert_eq!(verdict(false, died(), no()), Verdict::Fail);
        assert_eq!(verdict(true, no(), no()), Verdict::Miss);
        assert_eq!(verdict(true, yes(), no()), Verdict::Fail);
        assert_eq!(verdict(true, no(), yes()), Verdict::Fail);
        assert_eq!(verdict(true, died(), no()), Verdict::Fail);
    }

    #[test]
    fn names_are_unique_and_boots_exist() {
        let names: Vec<_> = checks().map(|check| check.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        for check in checks() {
            assert!(!check.boots.is_empty() && check.boots.iter().all(|name| machine::named(name).is_some()));
        }
        for machine in machine::MACHINES.iter().filter(|machine| !machine.counted) {
            assert!(checks().any(|check| check.boots.contains(&machine.name)), "{}", machine.name);
        }
    }
}
