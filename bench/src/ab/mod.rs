//! `ab`: two revisions against each other, with a kill gate.
use crate::host::{self, Cpus, Quiet, Rates};
use crate::session::Calm;
use crate::source::Source;
use crate::{compare, os, output, paths};
use bench::aggregate::ROUNDS;
use build::Workshop;
use clap::Args;
use indicatif::ProgressBar;
use outcome::Outcome;
use plan::{Leg, Plan};
use rounds::Stop;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod build;
mod outcome;
mod plan;
mod rounds;
mod sheet;

#[derive(Args, Clone, Debug)]
pub(crate) struct Ab {
    /// Revision of leg A
    #[arg(long, default_value = "HEAD")]
    baseline: String,
    /// Revision of leg B
    #[arg(long, required_unless_present_any = ["aa", "resume"])]
    candidate: Option<String>,
    /// Scenarios that must gain, with weights: `flood_1m=2,nested_fanout_4x`
    #[arg(long = "target", value_delimiter = ',', required_unless_present_any = ["aa", "resume"])]
    targets: Vec<String>,
    /// Build the baseline twice, with a marker that makes the programs differ: shows the noise of this host
    #[arg(long, conflicts_with_all = ["candidate", "targets"])]
    aa: bool,
    /// Name of the plan, part of the name of its folder; by default made of the commits
    #[arg(long)]
    plan: Option<String>,
    /// Scenarios, separated by commas; all by default
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Workers of the pool; by default as many as there are usable CPUs
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Run although the stress gate has not passed for the candidate, and say so
    #[arg(long)]
    ungated: bool,
    #[command(flatten)]
    calm: Calm,
    /// Sizes so small that the figures mean nothing: to test this program itself
    #[arg(long)]
    tiny: bool,
    /// Go on with the interrupted run in this folder
    #[arg(long, conflicts_with_all = ["candidate", "targets", "aa", "plan", "out", "scenarios", "tiny", "workers"])]
    resume: Option<PathBuf>,
    /// The repository; by default the one this program was built from
    #[arg(long)]
    repo: Option<PathBuf>,
    /// The folder of the run; by default `docs/performance/DATE-PLAN` in the repository
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where the programs are built; by default `bench-ab` in the target folder
    #[arg(long)]
    build_dir: Option<PathBuf>,
}

/// Everything that a run needs until its end.
struct Run {
    shop: Workshop,
    target: PathBuf,
    folder: PathBuf,
    bar: ProgressBar,
}

/// Runs the command. Exit codes: 0 the plan passes (or was none), 1 it fails or a leg-run failed, 2 refused or
/// interrupted.
pub(crate) fn main(options: &Ab) -> Result<ExitCode, String> {
    os::note_interrupts();
    let target = options.build_dir.clone().unwrap_or_else(|| paths::target().join("bench-ab"));
    let target = std::path::absolute(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    let repo = options.repo.clone().or_else(|| Source::find().root);
    let repo = repo.ok_or("the repository is neither where this was built nor where it was started: say --repo")?;
    let shop = Workshop::open(&repo, &target.join("ab"))?;
    let date = host::now()[..10].to_owned();
    let (folder, fresh) = match &options.resume {
        Some(folder) => (folder.clone(), None),
        None => {
            let name = new_name(options, &shop)?;
            let docs = shop.repo().join(format!("docs/performance/{date}-{name}"));
            (options.out.clone().unwrap_or(docs), Some(name))
        }
    };
    let folder = std::path::absolute(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    // Without links, as git names the repository that it may lie in.
    let folder = folder.canonicalize().unwrap_or(folder);
    let run = Run { shop, target, folder, bar: compare::bar((2 * ROUNDS) as u64) };
    run.refuse_dirty()?;
    let plan = match fresh {
        Some(name) => run.or_nothing(|| run.begin(options, name, date))?,
        None => run.go_on(options)?,
    };
    run.finish(&plan)
}

fn new_name(options: &Ab, shop: &Workshop) -> Result<String, String> {
    match (&options.plan, options.aa) {
        (Some(name), _) => plan::name(name),
        (None, true) => Ok(format!("aa-{:.9}", shop.commit(&options.baseline)?)),
        (None, false) => {
            let candidate = options.candidate.as_deref().unwrap_or("HEAD");
            Ok(format!("{:.9}-{:.9}", shop.commit(&options.baseline)?, shop.commit(candidate)?))
        }
    }
}

impl Run {
    fn refuse_dirty(&self) -> Result<(), String> {
        let changes = self.shop.changes(&self.folder)?;
        if changes.is_empty() {
            return Ok(());
        }
        let shown = changes.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
        Err(format!("the worktree is dirty: commit first, or nobody knows what was compared\n{shown}"))
    }

    /// Removes the folders again that were made for a run which never began.
    fn or_nothing(&self, begin: impl FnOnce() -> Result<Plan, String>) -> Result<Plan, String> {
        let made: Vec<&Path> = self.folder.ancestors().take_while(|f| !f.exists()).collect();
        // Those that hold something stay: this removes empty ones only.
        begin().inspect_err(|_| made.iter().for_each(|folder| drop(std::fs::remove_dir(folder))))
    }

    /// Everything before round 1. The plan is written last: from then on the run can be resumed.
    fn begin(&self, options: &Ab, name: String, date: String) -> Result<Plan, String> {
        if self.folder.join("plan.json").exists() {
            let folder = self.folder.display();
            return Err(format!("{folder}: this plan has begun; `--resume {folder}` goes on with it"));
        }
        let scenarios = plan::scenarios(options)?;
        let targets = plan::targets(&options.targets, &scenarios)?;
        output::check(&self.folder.join("plan.json"))?;
        let candidate = options.candidate.as_deref().unwrap_or(&options.baseline);
        let leg = |rev: &str| {
            let commit = self.shop.commit(rev)?;
            Ok::<_, String>(Leg { rev: rev.to_owned(), commit, sha256: String::new(), gate: Value::Null })
        };
        let (baseline, candidate) = (leg(&options.baseline)?, leg(candidate)?);
        let cpus = Cpus::read();
        let mut plan = Plan {
            name,
            date,
            baseline,
            candidate,
            targets,
            scenarios,
            workers: options.workers.map_or_else(|| cpus.workers(), usize::from),
            tiny: options.tiny,
            ungated: options.ungated,
            aa: options.aa,
            quiet: Value::Null,
        };
        self.build(&mut plan)?;
        plan.quiet = self.quiet(options, &cpus)?.json();
        output::json(&self.folder.join("plan.json"), &plan.json())?;
        Ok(plan)
    }

    /// Both programs; the plan learns their hashes and the gate.
    fn build(&self, plan: &mut Plan) -> Result<(), String> {
        let (name, aa) = (self.key(plan), plan.aa);
        let leg = |which: &str, leg: &mut Leg, fresh: bool| {
            self.say(format!("building leg {which}: {:.12}", leg.commit));
            if fresh {
                let gate = self.shop.check_out(&leg.commit)?;
                leg.gate = gate.json();
                if which == "b" && !gate.passed && !plan.ungated {
                    return Err(format!(
                        "{} for the candidate's tree {}: run `cargo run --release -p stress --bin gate` there, or say \
                         --ungated",
                        gate.line(),
                        gate.tree
                    ));
                }
            }
            leg.sha256 = self.shop.build(&self.target, &name, which, aa.then_some(which))?;
            if os::interrupted() { Err("interrupted while building; nothing is kept".into()) } else { Ok(()) }
        };
        // The candidate first: it may be refused.
        leg("b", &mut plan.candidate, true)?;
        if aa {
            plan.baseline.gate = plan.candidate.gate.clone();
        }
        leg("a", &mut plan.baseline, !aa)?;
        self.shop.clear();
        if plan.baseline.sha256 == plan.candidate.sha256 {
            let sha = &plan.baseline.sha256;
            return Err(format!("both legs are the same program (SHA-256 {sha}): there is nothing to compare"));
        }
        Ok(())
    }

    /// What the programs of a plan are filed under: the name of its folder.
    fn key(&self, plan: &Plan) -> String {
        self.folder.file_name().map_or_else(|| plan.name.clone(), |n| n.to_string_lossy().into_owned())
    }

    fn quiet(&self, options: &Ab, cpus: &Cpus) -> Result<Quiet, String> {
        let quiet = options.calm.decide(cpus, &self.bar);
        match (quiet.rates, quiet.why()) {
            (Rates::NotMeasured, why) => {
                Err(format!("NOT MEASURED: {} (--force-rates takes them anyway)", why.unwrap_or_default()))
            }
            _ => Ok(quiet),
        }
    }

    /// The plan of an interrupted run, with its programs as they were.
    fn go_on(&self, options: &Ab) -> Result<Plan, String> {
        let plan = Plan::read(&self.folder.join("plan.json"))?;
        let key = self.key(&plan);
        let there = |which: &str, leg: &Leg| {
            stress::tree::of_file(&self.shop.program(&key, which)).is_ok_and(|sha| sha == leg.sha256)
        };
        if !there("a", &plan.baseline) || !there("b", &plan.candidate) {
            let mut again = plan.clone();
            self.build(&mut again)?;
            if (&again.baseline.sha256, &again.candidate.sha256) != (&plan.baseline.sha256, &plan.candidate.sha256) {
                return Err("the programs of this run are gone, and built again they are others: start anew".into());
            }
        }
        self.quiet(options, &Cpus::read())?;
        Ok(plan)
    }

    /// The rounds that are missing, and what follows from all of them.
    fn finish(&self, plan: &Plan) -> Result<ExitCode, String> {
        let log = self.folder.join("host.json");
        let mut host = output::read_json(&log).unwrap_or_else(|_| json!({ "sessions": [] }));
        let mut before = host::describe(&Cpus::read(), plan.workers);
        for own in ["commit", "dirty", "commit_why", "marker", "profile"] {
            before.as_object_mut().map(|o| o.remove(own));
        }
        let key = self.key(plan);
        let programs = ["a", "b"].map(|leg| self.shop.program(&key, leg));
        let [a, b] = [&programs[0], &programs[1]].map(PathBuf::as_path);
        let stopped = rounds::run(&self.folder, plan, [a, b], |round, leg| {
            self.bar.set_position((2 * round - 2) as u64 + u64::from(leg == "b"));
            self.say(format!("round {round} of {ROUNDS}, leg {}", leg.to_uppercase()));
        });
        let after = json!({ "date": host::now(), "load": host::load() });
        if let Some(sessions) = host["sessions"].as_array_mut() {
            sessions.push(json!({ "before": before, "after": after }));
        }
        output::json(&log, &host)?;
        let folder = self.folder.display();
        match stopped {
            Err(Stop::Interrupted) => return Err(format!("interrupted; `bench ab --resume {folder}` goes on")),
            Err(Stop::Failed(why)) => {
                eprintln!("bench: {why}\nbench: the rounds before it are kept in {folder}");
                return Ok(ExitCode::FAILURE);
            }
            Ok(()) => {}
        }
        self.bar.finish_and_clear();
        let outcome = Outcome::of(&self.folder, plan, host)?;
        outcome.write(&self.folder)?;
        self.print(plan);
        outcome.print();
        println!("run sheet: {}", self.folder.join("README.md").display());
        let good = plan.aa || outcome.verdict.passes();
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print(&self, plan: &Plan) {
        println!("plan {}: A {:.12}, B {:.12}", plan.name, plan.baseline.commit, plan.candidate.commit);
        println!("{}", gate_line(&plan.candidate.gate));
        if plan.ungated {
            println!("--ungated was said");
        }
        if plan.tiny {
            println!("TINY sizes: a test of this program, not a measurement");
        }
        println!("rates: {}", plan.quiet["rates"].as_str().unwrap_or("unknown"));
    }

    /// On a terminal beside the bar, else as a line of its own.
    fn say(&self, text: String) {
        if self.bar.is_hidden() {
            eprintln!("{text}");
        }
        self.bar.set_message(text);
        self.bar.tick();
    }
}

fn gate_line(gate: &Value) -> String {
    match gate["passed"] == true {
        true => "stress gate: 20/20".into(),
        false => format!("stress gate: NOT GATED ({})", gate["why"].as_str().unwrap_or("unknown")),
    }
}
