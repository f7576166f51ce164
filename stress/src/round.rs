//! One test in one round: its seed, its profile, and what surrounds it.

use crate::planned;
use crate::profile::{self, Profile};
use crate::random::{Random, mix, of_name};
use crate::report::say;
use crate::storm::Storm;
use crate::watchdog::{self, Watchdog};
use crate::{os, profile::ROUNDS};
use scheduler::internals::worker::Tuning;
use scheduler::{Builder, Scheduler};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How much more time the emphasised class of a round gets.
const EMPHASIS: u32 = 5;

/// The test's view of the round.
pub struct Round {
    /// What the test calls itself: `class::name`, the class being the name of its file.
    pub name: &'static str,
    /// Number of the round, from 1.
    pub number: u32,
    /// The seed of everything random in this round.
    pub seed: u64,
    /// What this round is like.
    pub profile: Profile,
}

/// Runs `body` under the profile of the current round, alone in the process, watched.
///
/// `STRESS_ROUND` chooses round and profile; unset, the seed does. `STRESS_SEED` is the seed (decimal or `0x..`);
/// unset, it comes from the clock. Both are printed.
///
/// # Panics
/// With the panic of the body; also if any thread panicked in a way that no test planned.
pub fn run(name: &'static str, body: impl FnOnce(&Round)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    planned::install_hook();
    let round = Round::of_environment(name);
    let cpus = os::affinity();
    if round.profile.one_cpu {
        os::set_affinity(&os::first_cpu(&cpus));
    }
    let unplanned = planned::unplanned();
    let watchdog = Watchdog::begin(&round.how_to_repeat());
    let storm = Storm::begin(round.profile.fault, round.random());
    let result = catch_unwind(AssertUnwindSafe(|| body(&round)));
    drop(storm);
    drop(watchdog);
    os::set_affinity(&cpus);
    let unplanned = planned::unplanned() - unplanned;
    if let Err(payload) = result {
        say(&format!("FAILED {}", round.how_to_repeat()));
        resume_unwind(payload);
    }
    assert_eq!(unplanned, 0, "assertions failed inside of tasks: {}", round.how_to_repeat());
}

impl Round {
    fn of_environment(name: &'static str) -> Round {
        static SAID: Mutex<bool> = Mutex::new(false);
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        static SEED: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        let seed = *SEED.get_or_init(|| number("STRESS_SEED").unwrap_or_else(|| mix(clock())));
        let round = number("STRESS_ROUND").map_or((seed % u64::from(ROUNDS)) as u32 + 1, |round| round as u32);
        let round = Round { name, number: round, seed, profile: profile::of_round(round) };
        let mut said = SAID.lock().unwrap_or_else(|e| e.into_inner());
        if !std::mem::replace(&mut *said, true) {
            say(&format!("round {} seed {:#x} {:?}", round.number, round.seed, round.profile));
        }
        round
    }

    /// The command that repeats this test.
    pub fn how_to_repeat(&self) -> String {
        let (class, test) = self.name.split_once("::").unwrap_or(("", self.name));
        let (round, seed) = (self.number, self.seed);
        format!("STRESS_ROUND={round} STRESS_SEED={seed:#x} cargo test --release -p stress --test {class} {test}")
    }

    /// Random numbers of this test in this round.
    pub fn random(&self) -> Random {
        Random::new(self.seed ^ of_name(self.name))
    }

    fn weight(&self) -> u32 {
        let emphasised = self.name.split("::").next() == Some(self.profile.emphasis);
        (if emphasised { EMPHASIS } else { 1 }) * number("STRESS_SCALE").unwrap_or(1).clamp(1, 1000) as u32
    }

    /// `milliseconds`, or more of them where the round or `STRESS_SCALE` says so.
    pub fn time(&self, milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds) * self.weight()
    }

    /// `n`, or more where the round or `STRESS_SCALE` says so.
    pub fn times(&self, n: usize) -> usize {
        n * self.weight() as usize
    }

    /// A builder with the workers and the barrier of this round.
    pub fn builder(&self) -> Builder {
        self.builder_of(self.profile.workers)
    }

    /// A builder with the barrier of this round.
    pub fn builder_of(&self, workers: usize) -> Builder {
        let tuning = Tuning { no_membarrier: self.profile.bare, ..Tuning::default() };
        let builder = Scheduler::builder().workers(workers).barrier(self.profile.barrier).tuning(tuning);
        builder.thread_name(|index| format!("w-{index}"))
    }

    /// Builds, and watches what was built.
    ///
    /// # Panics
    /// When nothing can be built.
    pub fn build(&self, builder: Builder) -> Scheduler {
        let scheduler = builder.build().expect("a scheduler");
        watchdog::add(scheduler.handle());
        scheduler
    }

    /// A scheduler as this round wants it, watched.
    pub fn scheduler(&self) -> Scheduler {
        self.build(self.builder())
    }
}

/// The value of an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Starts a named thread that a storm may hit.
///
/// # Panics
/// When the system refuses the thread.
pub fn submitter<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new().name("sub-".into()).spawn(f).expect("a thread")
}
