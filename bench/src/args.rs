//! The command line.
use crate::session::{Common, Output};
use crate::{arms, io, items, load, realistic, scale, scenario, skew, wakeup};
use clap::{Args, Parser, Subcommand};

/// Scenarios against the pools that are present, and counts that do not depend on the machine.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compare: Compare,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Rates, CPU time and counts of the scenarios, all arms interleaved (the default)
    Compare(Compare),
    /// Allocations, instructions, locked instructions and system calls, per path and arm
    Counts(Counts),
    /// What one serial wake-up costs: six metrics, 4 and 16 workers
    Wakeup(wakeup::Options),
    /// One producer, one worker: what it costs to count an item elsewhere
    Items(items::Options),
    /// Two revisions against each other: ten interleaved rounds, and a kill gate for named targets
    Ab(crate::ab::Ab),
    /// One HTML page with charts, from JSON reports of any subcommand
    Report(crate::report::Report),
    /// How well uneven work spreads from one worker (needs the feature `measure`)
    Skew(skew::Options),
    /// Latency of the eight scenarios on our own pool
    Realistic(realistic::Options),
    /// Submitters with a window of tasks in flight, for a stated time
    Load(load::Options),
    /// Says whether reports have the form that scripts depend on (`schema/`)
    Check(crate::schema::Check),
    /// What a task costs as submitters, workers, depth and length vary
    Scale(scale::Options),
    /// What the policy does on hosts with several nodes, counted in virtual time, beside policies that must fail
    Numa(crate::numa::Options),
    /// Futures, timers and I/O, beside the runtimes that people use
    Io(io::Options),
    /// One sample of `io`, run under a tracer
    #[command(hide = true)]
    IoChild(io::Child),
    /// The servers of one arm of `io`
    #[command(hide = true)]
    IoServe(io::Serve),
    /// Prints the hash of the sources that the stress gate covers
    GateHash,
    /// One measured path, run by `counts` under an instruction counter
    #[command(hide = true)]
    CountChild(CountChild),
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Compare {
    /// Scenarios, separated by commas; `deep_tree` and `join_tree` bring their variants, `own_counter` names two
    #[arg(long, value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,
    /// Arms, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) arms: Vec<String>,
    /// Workers of every pool; by default as many as there are usable CPUs
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) workers: Option<u16>,
    /// Timed rounds; a warm-up round comes before them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) samples: u16,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Paths, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) paths: Vec<String>,
    /// Arms, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) arms: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CountChild {
    #[arg(long)]
    pub(crate) path: String,
    #[arg(long)]
    pub(crate) arm: String,
    #[arg(long)]
    pub(crate) workers: usize,
    /// Tasks of the measured part
    #[arg(long)]
    pub(crate) tasks: u64,
    /// Tasks that are queued while they are measured
    #[arg(long)]
    pub(crate) depth: u64,
}

/// The chosen ones of `known` in their own order; all that `by_default` names if nothing was chosen.
pub(crate) fn choose<T>(
    what: &str,
    known: &'static [T],
    name: fn(&T) -> &'static str,
    meant: impl Fn(&T, &str) -> bool,
    by_default: impl Fn(&T) -> bool,
    chosen: &[String],
) -> Result<Vec<&'static T>, String> {
    for word in chosen {
        if !known.iter().any(|k| meant(k, word)) {
            let names: Vec<_> = known.iter().map(name).collect();
            return Err(format!("unknown {what} {word:?}; known: {}", names.join(", ")));
        }
    }
    let picked = |k: &&T| {
        if chosen.is_empty() { by_default(k) } else { chosen.iter().any(|w| meant(k, w)) }
    };
    Ok(known.iter().filter(picked).collect())
}

/// The scenarios that were asked for.
pub(crate) fn scenarios(chosen: &[String]) -> Result<Vec<&'static scenario::Scenario>, String> {
    choose("scenario", &scenario::ALL, |s| s.name, |s, word| s.answers_to(word), |_| true, chosen)
}

/// The arms that were asked for.
pub(crate) fn arms(chosen: &[String]) -> Result<Vec<&'static arms::Kind>, String> {
    choose("arm", &arms::ALL, |a| a.name, |a, word| a.name == word, |a| a.default, chosen)
}

/// The paths that were asked for.
pub(crate) fn paths(chosen: &[String]) -> Result<Vec<&'static crate::counts::Path>, String> {
    choose("path", &crate::counts::PATHS, |p| p.name, |p, word| p.name == word, |_| true, chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn unknown_names_list_the_known_ones() {
        let error = scenarios(&words(&["flood_1m", "flod"])).unwrap_err();
        assert!(error.starts_with("unknown scenario \"flod\"; known: flood_1m, flood_1m_own_counter,"), "{error}");
        let error = arms(&words(&["rust"])).unwrap_err();
        assert!(error.contains("known: scheduler, scheduler-submitter, "), "{error}");
        assert!(paths(&words(&["elsewhere"])).unwrap_err().contains("known: external"));
    }

    #[test]
    fn families_and_defaults() {
        let names: Vec<_> = scenarios(&words(&["deep_tree", "flood_1m"])).unwrap().iter().map(|s| s.name).collect();
        assert_eq!(names, ["flood_1m", "deep_tree", "deep_tree_own_counter"]);
        assert_eq!(scenarios(&[]).unwrap().len(), 15);
        let names: Vec<_> = arms(&[]).unwrap().iter().map(|a| a.name).collect();
        assert_eq!(names[..4], ["scheduler", "scheduler-submitter", "scheduler-batch", "scheduler-worker"]);
        assert_eq!(names[4..], ["tokio", "rayon", "channel", "async-executor", "chili", "go", "tbb", "floor"]);
    }

    #[test]
    fn options_stand_with_and_without_the_word_compare() {
        let bare = Cli::try_parse_from(["bench", "--samples", "3", "--force-rates"]).unwrap();
        assert!(bare.command.is_none() && bare.compare.common.calm.force_rates && bare.compare.samples == 3);
        let named = Cli::try_parse_from(["bench", "compare", "--arms", "tokio,go"]).unwrap();
        let Some(Command::Compare(c)) = named.command else { panic!("not compare") };
        assert_eq!(c.arms, ["tokio", "go"]);
        assert!(Cli::try_parse_from(["bench", "--workers", "0"]).is_err());
        assert!(Cli::try_parse_from(["bench", "--samples", "none"]).is_err());
    }
}
