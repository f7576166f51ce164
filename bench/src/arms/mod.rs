//! The pools that are compared. Those in this process implement [`Arm`]; the floor and the programs in other
//! languages are run whole.
use crate::load;
use crate::run::{self, Sample};
use crate::scenario::{Job, Shape};
use serde_json::{Value, json};

mod async_executor;
mod channel;
mod chili;
mod cond;
mod external;
mod floor;
pub(crate) mod ours;
mod rayon;
mod tokio;

pub(crate) use async_executor::AsyncExecutor;
pub(crate) use channel::Channel;
pub(crate) use chili::Chili;
pub(crate) use cond::{Broadcast, Signal};
pub(crate) use external::{go, slow_clock, tbb, tbb_program};
pub(crate) use ours::Ours;
use ours::Way;
pub(crate) use rayon::Rayon;
pub(crate) use tokio::Tokio;

/// System calls a pool has made, by its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Syscalls {
    pub(crate) wakes: u64,
    pub(crate) parks: u64,
    pub(crate) membarriers: u64,
}

impl std::ops::Sub for Syscalls {
    type Output = Syscalls;
    fn sub(self, before: Syscalls) -> Syscalls {
        Syscalls {
            wakes: self.wakes - before.wakes,
            parks: self.parks - before.parks,
            membarriers: self.membarriers - before.membarriers,
        }
    }
}

impl Syscalls {
    /// Wakes and waits: the futex calls, without the barriers.
    pub(crate) fn futex(&self) -> u64 {
        self.wakes + self.parks
    }
}

/// A pool in this process. All of them are built before the first sample and live until the program ends.
pub(crate) trait Arm: Sync + 'static {
    /// Called by threads that are no workers of the pool.
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F);

    /// Called inside a task of the pool.
    #[inline(always)]
    fn submit_inside<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        self.submit(task);
    }

    /// Sums the tree of the job by fork and join; `None` if the pool has none.
    fn join_tree(&'static self, _job: &Job) -> Option<u64> {
        None
    }

    /// Computes a Fibonacci number with a join per call; `None` if the pool has none.
    fn fib(&'static self, _n: u64) -> Option<u64> {
        None
    }

    /// The system calls so far, if the pool counts them.
    fn syscalls(&'static self) -> Option<Syscalls> {
        None
    }

    /// Facts for the report.
    fn facts(&'static self) -> Value {
        Value::Null
    }
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The arm does not exist here, or not for this scenario.
    Absent(String),
    /// It ran and did wrong.
    Failed(String),
}

/// The status of a row.
pub(crate) fn status(trouble: Option<&Trouble>) -> String {
    match trouble {
        None => "ok".into(),
        Some(Trouble::Absent(why)) => format!("absent: {why}"),
        Some(Trouble::Failed(why)) => format!("failed: {why}"),
    }
}

/// An arm as the comparison sees it.
pub(crate) trait Runner {
    fn sample(&mut self, job: &Job) -> Result<Sample, Trouble>;
    /// A sample of `load`.
    fn load(&mut self, _plan: &load::Plan, _count_allocations: bool) -> Result<load::Taken, Trouble> {
        Err(Trouble::Absent("has no load under a clock: not a pool of this process, or not its plain form".into()))
    }

    /// Whether it can be asked again after a failure, without anything left of what failed.
    fn can_start_again(&self) -> bool {
        false
    }

    /// Facts for the report, such as a version only the arm knows.
    fn facts(&mut self) -> Value {
        Value::Null
    }
}

/// The pool, and whether tasks can be submitted to it.
struct Local<A: 'static>(&'static A, bool);

impl<A: Arm> Runner for Local<A> {
    fn sample(&mut self, job: &Job) -> Result<Sample, Trouble> {
        run::sample(self.0, job).map_err(Trouble::Failed)
    }

    fn load(&mut self, plan: &load::Plan, count_allocations: bool) -> Result<load::Taken, Trouble> {
        if self.1 {
            load::drive::sample(self.0, plan, count_allocations).map_err(Trouble::Failed)
        } else {
            Err(Trouble::Absent("has only fork and join".into()))
        }
    }

    fn facts(&mut self) -> Value {
        self.0.facts()
    }
}

fn local<A: Arm>(arm: A) -> Box<dyn Runner> {
    Box::new(Local(Box::leak(Box::new(arm)), true))
}

fn joins_only<A: Arm>(arm: A) -> Box<dyn Runner> {
    Box::new(Local(Box::leak(Box::new(arm)), false))
}

fn variant(workers: usize, way: Way) -> Result<Box<dyn Runner>, String> {
    Ok(Box::new(ours::Variant::new(workers, way)?))
}

/// Why every sample of an arm is missing.
struct Missing(String);

impl Runner for Missing {
    fn sample(&mut self, _job: &Job) -> Result<Sample, Trouble> {
        Err(Trouble::Absent(self.0.clone()))
    }

    fn load(&mut self, _plan: &load::Plan, _count_allocations: bool) -> Result<load::Taken, Trouble> {
        Err(Trouble::Absent(self.0.clone()))
    }
}

/// An arm by name.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether `compare` runs it unless told otherwise.
    pub(crate) default: bool,
    /// The package in Cargo.lock that it stands for.
    pub(crate) package: Option<&'static str>,
    joins: bool,
    submits: bool,
    build: fn(usize) -> Result<Box<dyn Runner>, String>,
}

const POOL: Kind =
    Kind { name: "", default: true, package: None, joins: false, submits: true, build: |_| Err("not built".into()) };

/// All arms, ours first.
pub(crate) static ALL: [Kind; 14] = [
    Kind { name: "scheduler", joins: true, package: Some("scheduler"), build: |w| Ours::new(w).map(local), ..POOL },
    Kind { name: "scheduler-submitter", build: |w| variant(w, Way::Submitter), ..POOL },
    Kind { name: "scheduler-batch", build: |w| variant(w, Way::Batch), ..POOL },
    Kind { name: "scheduler-worker", build: |w| variant(w, Way::Worker), ..POOL },
    Kind { name: "tokio", package: Some("tokio"), build: |w| Tokio::new(w).map(local), ..POOL },
    Kind { name: "rayon", joins: true, package: Some("rayon-core"), build: |w| Rayon::new(w).map(local), ..POOL },
    Kind { name: "channel", package: Some("crossbeam-channel"), build: |w| Channel::new(w).map(local), ..POOL },
    Kind {
        name: "async-executor",
        package: Some("async-executor"),
        build: |w| AsyncExecutor::new(w).map(local),
        ..POOL
    },
    Kind {
        name: "chili",
        joins: true,
        submits: false,
        package: Some("chili"),
        build: |w| Chili::new(w).map(joins_only),
        ..POOL
    },
    Kind { name: "go", build: external::go, ..POOL },
    Kind { name: "tbb", joins: true, build: external::tbb, ..POOL },
    Kind { name: "cond-broadcast", default: false, build: |w| cond::Broadcast::new(w).map(local), ..POOL },
    Kind { name: "cond-signal", default: false, build: |w| cond::Signal::new(w).map(local), ..POOL },
    Kind { name: "floor", joins: true, build: |w| Ok(Box::new(floor::Floor::new(w))), ..POOL },
];

impl Kind {
    /// `Err` says why this arm has no row of numbers in this scenario.
    pub(crate) fn takes_part(&self, shape: Shape) -> Result<(), &'static str> {
        match (shape == Shape::Join, self.joins, self.submits) {
            (true, false, _) => Err("has no fork and join"),
            (false, _, false) => Err("has only fork and join"),
            _ => Ok(()),
        }
    }

    /// Builds the pool; an arm that cannot be built stays as one that says why.
    pub(crate) fn build(&self, workers: usize) -> Box<dyn Runner> {
        (self.build)(workers).unwrap_or_else(|why| Box::new(Missing(why)))
    }
}

/// The version of a package this program was built with.
pub(crate) fn version(package: &str) -> Option<&'static str> {
    let lock = include_str!("../../../Cargo.lock");
    let start = lock.find(&format!("name = \"{package}\"\n"))?;
    lock[start..].lines().nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// `{name: version}` of the arms that come from a package.
pub(crate) fn versions() -> Value {
    let known = ALL.iter().filter_map(|k| Some((k.name.to_owned(), json!(version(k.package?)?))));
    Value::Object(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(version("tokio").unwrap().starts_with("1."));
        assert!(version("rayon-core").unwrap().starts_with("1."));
        assert_eq!(version("no-such-package"), None);
        assert_eq!(versions().as_object().unwrap().len(), 6);
    }

    #[test]
    fn arms_without_joins_sit_the_join_trees_out() {
        let of = |name| ALL.iter().find(|k| k.name == name).unwrap();
        assert!(of("tokio").takes_part(Shape::Join).is_err());
        assert!(of("chili").takes_part(Shape::Flat).is_err());
        assert!(of("chili").takes_part(Shape::Join).is_ok());
        assert!(of("floor").takes_part(Shape::Join).is_ok());
    }
}
