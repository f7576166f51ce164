//! The run sheet: method, table, interpretation, decision, in Markdown.
use super::outcome::{Outcome, words};
use super::plan::{Leg, Plan};
use crate::stats::Spread;
use bench::aggregate::{Change, GAIN, LOSS, ROUNDS, SAMPLES, SATURATED};
use serde_json::Value;

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unknown".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn leg(name: &str, leg: &Leg) -> String {
    let gate = if leg.gate["passed"] == true { "gate 20/20" } else { "NOT GATED" };
    format!("| {name} | `{}` | `{:.12}` | `{:.16}` | {gate} |\n", leg.rev, leg.commit, leg.sha256)
}

fn method(plan: &Plan) -> String {
    let mut out = format!(
        "## Method\n\n{ROUNDS} rounds A,B,A,B..; each leg-run takes {SAMPLES} samples, drops the first, and its value \
         is the mean of the\nother two. Median of ten: the mean of the fifth and the sixth. Change: 100 x (B/A - 1) in \
         tasks per second;\npositive is better. Where both legs reach {:.0} % of what the bodies allow at most, tasks \
         per second of\nCPU time are judged instead. The sources of both legs were built at the same place.\n\n",
        100.0 * SATURATED
    );
    if plan.aa {
        out += "Both legs are **the same source**; a marker that nothing reads makes the programs differ. Their\n\
                code lies at the same addresses, so what differs here is the noise of this host alone.\n\n";
    } else {
        let named: Vec<String> = plan.targets.iter().map(|(n, w)| format!("`{n}` (weight {w})")).collect();
        out += &format!(
            "Targets, fixed before round 1: {}.\nThe plan passes if their weighted mean is at least {GAIN:+.1} % and \
             nothing else is below {LOSS:+.1} %.\n\n",
            named.join(", ")
        );
    }
    out += "| leg | revision | commit | SHA-256 of the program | stress gate |\n|---|---|---|---|---|\n";
    out + &leg("A", &plan.baseline) + &leg("B", &plan.candidate)
}

fn host(outcome: &Outcome) -> String {
    let mut out = String::from("\n## Host\n\n");
    for (i, session) in outcome.host["sessions"].as_array().into_iter().flatten().enumerate() {
        let before = &session["before"];
        if i == 0 {
            out += &format!(
                "{}, kernel {}, {};\nCPUs usable {}, quota {}, governor {}, {} workers.\n\n",
                text(&before["cpu"]),
                text(&before["kernel"]),
                text(&before["rustc"]),
                text(&before["affinity"]),
                before["quota"].as_f64().map_or_else(|| "none".into(), |q| q.to_string()),
                text(&before["governor"]),
                text(&before["workers"]),
            );
            out += "| from | load 1/5/15 before | to | load after |\n|---|---|---|---|\n";
        }
        let (from, to) = (text(&before["date"]), text(&session["after"]["date"]));
        out += &format!("| {from} | {} | {to} | {} |\n", before["load_before"], session["after"]["load"]);
    }
    if let Some(others) = &outcome.foreign {
        out += &format!(
            "\nOther programs kept {:.2} CPUs busy in the median leg-run, {:.2} in the worst.\n",
            others.median, others.max
        );
    }
    let quiet = &outcome.plan.quiet;
    let (rates, load, limit) = (text(&quiet["rates"]), text(&quiet["load1"]), text(&quiet["limit"]));
    out + &format!("\nQuiet rule before round 1: rates **{rates}** (load {load}, limit {limit}).\n")
}

/// `12.3 M/s`.
fn rate(per_second: f64) -> String {
    if per_second >= 1e6 { format!("{:.2} M/s", per_second / 1e6) } else { format!("{:.2} k/s", per_second / 1e3) }
}

fn row(change: &Change, outcome: &Outcome) -> String {
    let name = &change.name;
    let legs = outcome.rates.iter().find(|l| l.name == *name);
    let shown = |values: &[f64]| {
        let of = |s: Spread| format!("{} ({} .. {})", rate(s.median), rate(s.min), rate(s.max));
        Spread::of(values.to_vec()).map_or_else(|| "-".into(), of)
    };
    let (a, b) = legs.map_or_else(Default::default, |l| (shown(&l.baseline), shown(&l.candidate)));
    let role = change.weight.map_or_else(|| "-".into(), |w| format!("target, weight {w}"));
    let percent = |change: Option<f64>| change.map_or_else(|| "-".into(), |c| format!("{c:+.2} %"));
    let (rates, cpu) = (percent(outcome.rate_change(name)), percent(outcome.cpu_change(name)));
    let word = words(outcome.figure(name), change.percent);
    format!("| `{name}` | {role} | {a} | {b} | {rates} | {cpu} | {:+.2} %: B is {word} |\n", change.percent)
}

fn table(outcome: &Outcome) -> String {
    let mut out = String::from("\n## Table\n\n");
    if outcome.plan.tiny {
        out += "**TINY sizes**: a test of the program that wrote this. The figures mean nothing.\n\n";
    }
    out += "| scenario | role | A: median (min .. max) | B: median (min .. max) | change, tasks/s \
            | change, CPU per task | judged |\n\
            |---|---|---|---|---|---|---|\n";
    out + &outcome.verdict.changes.iter().map(|c| row(c, outcome)).collect::<String>()
}

fn interpretation(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let mut out = String::from("\n## Interpretation\n\n");
    let greatest = verdict.greatest();
    if outcome.plan.aa {
        out += &format!(
            "The noise floor of this host in this run is **{greatest:.2} %**: the greatest change between two programs \
             of one\nsource. A change of that size in another run on it says nothing.\n"
        );
        return out;
    }
    if let Some(mean) = verdict.weighted {
        out += &format!("Weighted mean over the targets: **{mean:+.2} %** ({GAIN:+.1} % is needed).\n");
    }
    let worst = verdict.changes.iter().filter(|c| c.weight.is_none()).min_by(|a, b| a.percent.total_cmp(&b.percent));
    if let Some(worst) = worst {
        out +=
            &format!("The worst of the others: `{}`, {:+.2} % ({LOSS:+.1} % is allowed).\n", worst.name, worst.percent);
    }
    out
}

fn decision(outcome: &Outcome) -> String {
    let mut out = format!("\n## Decision\n\n**{}**", outcome.word());
    match (outcome.plan.aa, outcome.verdict.passes()) {
        (true, _) => out += ": nothing to decide.\n",
        (false, true) => out += ": the candidate is kept.\n",
        (false, false) => {
            out += ": the candidate is reverted.\n\n";
            out += &outcome.verdict.against.iter().map(|why| format!("* {why}\n")).collect::<String>();
        }
    }
    if outcome.plan.ungated {
        out += "\nRun with `--ungated`: **NOT GATED**, so this decides nothing for a release.\n";
    }
    if outcome.plan.quiet["rates"] == "forced" {
        out += "\nThe machine was not quiet and the rates were **forced**.\n";
    }
    out + "\nRaw rounds are in [rounds](rounds), the figures above in [aggregate.json](aggregate.json).\n"
}

pub(super) fn write(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let title = if plan.aa { "the same source twice" } else { "baseline against candidate" };
    let head = format!("# {} ({}): {title}\n\n", plan.name, plan.date);
    let parts = [method(plan), host(outcome), table(outcome), interpretation(outcome), decision(outcome)];
    head + &parts.concat()
}
