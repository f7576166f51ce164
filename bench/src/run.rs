//! One sample of one scenario on a pool that lives in this process.
use crate::alloc::Counted;
use crate::arms::{Arm, Syscalls};
use crate::check::{self, token};
use crate::os::{self, Usage, usage};
use crate::scenario::{GAP, Job, Pass, Shape};
use crate::stats::Latency;
use crate::{calib, tree};
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

mod overhead;

pub(crate) use overhead::Overhead;

/// How long a sample may take before it counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// After the drain: when the pool should be quiet, and for how long it is watched.
const SETTLE: Duration = Duration::from_millis(1);
const WATCH: Duration = Duration::from_millis(10);

/// What one sample says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// From the first submit to the last completion as the waiter saw it, without the gap.
    pub(crate) wall: Duration,
    /// The sleep between two bursts, as it really was.
    pub(crate) gap: Duration,
    /// Of the whole process, from before the first submit to after the last completion.
    pub(crate) usage: Usage,
    pub(crate) allocations: Option<u64>,
    pub(crate) syscalls: Option<Syscalls>,
    pub(crate) latency: Option<Latency>,
    /// All values of it, by task, where this program took them.
    pub(crate) values: Vec<u64>,
    /// CPU time in the 10 ms that begin 1 ms after the drain.
    pub(crate) after_ns: Option<u64>,
}

#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// What the bodies of one sample share. Never freed: a task that comes late must find it.
pub(crate) struct Run {
    word: Line<AtomicU64>,
    done: Line<AtomicU32>,
    target: Line<AtomicU64>,
    job: Job,
    epoch: Instant,
    slots: Vec<AtomicU64>,
}

impl Run {
    pub(crate) fn new(job: &Job) -> &'static Run {
        let slots = if job.pass == Pass::Latency { job.tasks } else { 0 };
        Box::leak(Box::new(Run {
            word: Line::default(),
            done: Line::default(),
            target: Line(AtomicU64::new(job.tasks)),
            job: *job,
            epoch: Instant::now(),
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }))
    }

    /// The body of the scenarios that count, and the end of all others.
    #[inline(always)]
    pub(crate) fn hit(&self, token: u64) {
        // AcqRel: the waiter reads what the bodies wrote before. On x86 it is the same instruction as a relaxed
        // addition.
        let before = self.word.0.fetch_add(token, AcqRel);
        if check::count(before) + 1 == self.target.0.load(Relaxed) {
            self.done.0.store(1, Release);
            os::futex_wake(&self.done.0, 1);
        }
    }

    #[inline(always)]
    pub(crate) fn work(&self, i: u64) {
        calib::spin(self.job.steps(i));
    }

    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    #[inline(always)]
    pub(crate) fn record(&self, i: u64, submitted: u64) {
        self.slots[i as usize].store(self.now() - submitted, Relaxed);
    }

    /// Waits for task `count` of this sample.
    pub(crate) fn expect(&self, count: u64) {
        self.done.0.store(0, Relaxed);
        self.target.0.store(count, Relaxed);
    }

    pub(crate) fn wait(&self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while self.done.0.load(Acquire) == 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let ran = check::count(self.word.0.load(Relaxed));
                return Err(format!("{ran} of {} tasks ran within {PATIENCE:?}", self.target.0.load(Relaxed)));
            }
            os::futex_wait(&self.done.0, 0, left);
        }
        Ok(())
    }

    fn values(&self) -> Vec<u64> {
        self.slots.iter().map(|s| s.load(Relaxed)).collect()
    }

    /// The word as it is now, whichever way this scenario counts.
    pub(crate) fn seen(&self) -> u64 {
        if self.job.scenario.own_counter { own::sum() } else { self.word.0.load(Acquire) }
    }

    /// Waits for the last task of a phase, whichever way this scenario counts.
    pub(crate) fn wait_for_all(&self) -> Result<(), String> {
        if self.job.scenario.own_counter { own::wait(self.job.tasks) } else { self.wait() }
    }
}

/// Counters of which every worker has its own.
pub(crate) mod own {
    use super::*;

    const LINES: usize = 1024;
    static COUNTERS: [Line<AtomicU64>; LINES] = [const { Line(AtomicU64::new(0)) }; LINES];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Relaxed));

    /// Counts without a locked instruction: nobody else writes this line.
    #[inline(always)]
    pub(crate) fn hit(token: u64) {
        let mine = &COUNTERS[MINE.with(|i| *i)].0;
        // Release: the waiter that reads the sum sees what the bodies did.
        mine.store(mine.load(Relaxed).wrapping_add(token), Release);
    }

    pub(crate) fn sum() -> u64 {
        let used = NEXT.load(Relaxed).min(LINES);
        COUNTERS[..used].iter().fold(0, |sum, c| sum.wrapping_add(c.0.load(Acquire)))
    }

    pub(super) fn until_next_look(passed: Duration, ran: u64, tasks: u64) -> Duration {
        let left = passed.mul_f64((tasks - ran) as f64 / ran.max(1) as f64 / 2.0);
        left.min(passed / 4).clamp(Duration::from_micros(20), Duration::from_millis(5))
    }

    /// Only between samples.
    pub(crate) fn reset() {
        COUNTERS.iter().for_each(|c| c.0.store(0, Relaxed));
    }

    /// Looks again when half of the time that seems to be left has passed, and no later than after a quarter of what
    /// has passed already: at the beginning nothing is known, and a long first sleep would be all that is measured.
    pub(crate) fn wait(tasks: u64) -> Result<(), String> {
        os::sharp_timer();
        let start = Instant::now();
        loop {
            let ran = check::count(sum());
            let passed = start.elapsed();
            if ran >= tasks {
                return Ok(());
            }
            if passed > PATIENCE {
                return Err(format!("{ran} of {tasks} tasks ran within {PATIENCE:?}"));
            }
            std::thread::sleep(until_next_look(passed, ran, tasks));
        }
    }
}

/// A sample on its way: the arm beside the shared part. The closures hold a pointer to it and two words.
struct Ctx<A: 'static> {
    run: &'static Run,
    arm: &'static A,
}

/// Takes one sample and checks that every task ran exactly once.
pub(crate) fn sample<A: Arm>(arm: &'static A, job: &Job) -> Result<Sample, String> {
    if job.scenario.shape == Shape::Join {
        return walk(job, arm.syscalls(), || arm.join_tree(job), || arm.syscalls());
    }
    let run = Run::new(job);
    let ctx: &'static Ctx<A> = Box::leak(Box::new(Ctx { run, arm }));
    let before = arm.syscalls();
    if job.scenario.own_counter {
        own::reset();
    }
    let mut out = match job.scenario.shape {
        Shape::Flat | Shape::Burst if job.pass == Pass::Latency => phases(ctx, submit_timed),
        Shape::Flat | Shape::Burst if job.works() => phases(ctx, |ctx, i| {
            let t = token(i);
            ctx.arm.submit(move || {
                ctx.run.work(i);
                ctx.run.hit(t);
            });
        }),
        Shape::Flat if job.scenario.own_counter => phases(ctx, |ctx, i| {
            let t = token(i);
            ctx.arm.submit(move || {
                let _captured = (ctx, i);
                own::hit(t);
            });
        }),
        Shape::Flat | Shape::Burst => phases(ctx, |ctx, i| {
            let t = token(i);
            ctx.arm.submit(move || {
                let _captured = i;
                ctx.run.hit(t);
            });
        }),
        Shape::Nested if job.pass == Pass::Latency => phases(ctx, |ctx, i| {
            let submitted = ctx.run.now();
            ctx.arm.submit(move || timed_parent(ctx, i, submitted));
        }),
        Shape::Nested => phases(ctx, |ctx, i| {
            let t = token(i);
            ctx.arm.submit(move || parent(ctx, i, t));
        }),
        Shape::Deep if job.scenario.own_counter => phases(ctx, |ctx, i| branch(ctx, i, &|_, t| own::hit(t))),
        Shape::Deep => phases(ctx, |ctx, i| branch(ctx, i, &|ctx, t| ctx.run.hit(t))),
        Shape::Join => unreachable!("handled above"),
        Shape::Serial => unreachable!("`wakeup` has loops of its own for the pools of this process"),
    }?;
    out.syscalls = before.zip(arm.syscalls()).map(|(a, b)| b - a);
    finish(run, out)
}

fn submit_timed<A: Arm>(ctx: &'static Ctx<A>, i: u64) {
    let submitted = ctx.run.now();
    ctx.arm.submit(move || {
        ctx.run.work(i);
        ctx.run.record(i, submitted);
        ctx.run.hit(token(i));
    });
}

/// Parent `i` of `tasks / 5`; its children are numbered behind all parents.
#[inline(always)]
fn parent<A: Arm>(ctx: &'static Ctx<A>, i: u64, t: u64) {
    let first = ctx.run.job.tasks / 5 + 4 * i;
    for child in first..first + 4 {
        let t = token(child);
        ctx.arm.submit_inside(move || {
            let _captured = child;
            ctx.run.hit(t);
        });
    }
    ctx.run.hit(t);
}

/// As [`parent`], with the time from submit to end of every task.
fn timed_parent<A: Arm>(ctx: &'static Ctx<A>, i: u64, submitted: u64) {
    let first = ctx.run.job.tasks / 5 + 4 * i;
    for child in first..first + 4 {
        let submitted = ctx.run.now();
        ctx.arm.submit_inside(move || {
            ctx.run.record(child, submitted);
            ctx.run.hit(token(child));
        });
    }
    ctx.run.record(i, submitted);
    ctx.run.hit(token(i));
}

/// Submits the root from outside.
fn branch<A: Arm, H: Fn(&'static Ctx<A>, u64) + Copy + Send + Sync + 'static>(ctx: &'static Ctx<A>, _i: u64, hit: &H) {
    let hit = *hit;
    let levels = u64::from(ctx.run.job.levels);
    ctx.arm.submit(move || grow(ctx, 0, levels, hit));
}

/// Node `i` of the task tree; the children of `i` are `4i + 1` to `4i + 4`.
#[inline(always)]
fn grow<A: Arm, H: Fn(&'static Ctx<A>, u64) + Copy + Send + Sync + 'static>(
    ctx: &'static Ctx<A>,
    i: u64,
    levels: u64,
    hit: H,
) {
    if levels > 0 {
        for child in 4 * i + 1..4 * i + 5 {
            ctx.arm.submit_inside(move || grow_again(ctx, child, levels - 1, hit));
        }
    }
    hit(ctx, token(i));
}

/// Cuts the recursion that inlining would otherwise follow.
fn grow_again<A: Arm, H: Fn(&'static Ctx<A>, u64) + Copy + Send + Sync + 'static>(
    ctx: &'static Ctx<A>,
    i: u64,
    levels: u64,
    hit: H,
) {
    grow(ctx, i, levels, hit);
}

/// Submits one after the other, from as many threads as the scenario has submitters.
fn phases<A: Arm>(ctx: &'static Ctx<A>, submit: impl Fn(&'static Ctx<A>, u64) + Sync) -> Result<Sample, String> {
    let calls = match ctx.run.job.scenario.shape {
        Shape::Nested => ctx.run.job.tasks / 5,
        Shape::Deep => 1,
        _ => ctx.run.job.tasks,
    };
    drive(ctx.run, calls, || (), |(), range| range.for_each(|i| submit(ctx, i)))
}

/// Runs all calls of one sample under the clock: `prepare` before it, once per submitter, and `go` with that
/// submitter's share of the calls.
pub(crate) fn drive<L>(
    run: &'static Run,
    calls: u64,
    prepare: impl Fn() -> L + Sync,
    go: impl Fn(&mut L, Range<u64>) + Sync,
) -> Result<Sample, String> {
    if run.job.scenario.submitters > 1 {
        return contended(run, calls, &prepare, &go);
    }
    let mut lane = prepare();
    let mut phase = |range: Range<u64>| {
        run.expect(range.end * run.job.tasks / calls);
        let start = Instant::now();
        go(&mut lane, range);
        run.wait_for_all()?;
        Ok::<_, String>(start.elapsed())
    };
    let counted = (run.job.pass == Pass::Allocations).then(Counted::start);
    let before = usage();
    let mut out = Sample::default();
    if run.job.scenario.shape == Shape::Burst {
        out.wall += phase(0..calls / 2)?;
        let slept = Instant::now();
        std::thread::sleep(GAP);
        out.gap = slept.elapsed();
        out.wall += phase(calls / 2..calls)?;
    } else {
        out.wall = phase(0..calls)?;
    }
    out.usage = usage() - before;
    out.allocations = counted.map(Counted::stop);
    Ok(out)
}

/// Several submitters, released together. The clock starts in the first of them: started by the waiter, it could
/// start after they are done.
fn contended<L>(
    run: &'static Run,
    calls: u64,
    prepare: &(impl Fn() -> L + Sync),
    go: &(impl Fn(&mut L, Range<u64>) + Sync),
) -> Result<Sample, String> {
    let submitters = run.job.scenario.submitters;
    let each = calls / submitters;
    let gate = Barrier::new(submitters as usize + 1);
    let first = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        for n in 0..submitters {
            let (gate, first) = (&gate, &first);
            scope.spawn(move || {
                let mut lane = prepare();
                gate.wait();
                first.fetch_min(run.now(), AcqRel);
                go(&mut lane, n * each..(n + 1) * each);
            });
        }
        // The threads are at the gate or on their way: what creating them cost lies before the snapshot, but for the
        // last steps of some.
        std::thread::sleep(SETTLE);
        let counted = (run.job.pass == Pass::Allocations).then(Counted::start);
        let before = usage();
        gate.wait();
        let waited = run.wait_for_all();
        let end = run.now();
        let used = usage() - before;
        let allocations = counted.map(Counted::stop);
        waited?;
        let wall = Duration::from_nanos(end - first.load(Acquire));
        Ok(Sample { wall, usage: used, allocations, ..Sample::default() })
    })
}

/// A walk over a join tree: `go` runs it and returns the sum.
pub(crate) fn walk(
    job: &Job,
    before: Option<Syscalls>,
    go: impl FnOnce() -> Option<u64>,
    after: impl FnOnce() -> Option<Syscalls>,
) -> Result<Sample, String> {
    tree::tree(job.levels);
    let counted = (job.pass == Pass::Allocations).then(Counted::start);
    let used = usage();
    let start = Instant::now();
    let sum = go();
    let wall = start.elapsed();
    let usage = usage() - used;
    let allocations = counted.map(Counted::stop);
    let syscalls = before.zip(after()).map(|(a, b)| b - a);
    let sum = sum.ok_or("this pool has no fork and join")?;
    if sum != check::expected(job.nodes()).wrapping_mul(job.walks) {
        return Err(format!("the sum over {} nodes is wrong", job.nodes()));
    }
    Ok(Sample { wall, usage, allocations, syscalls, after_ns: Some(watch()), ..Sample::default() })
}

/// CPU time of the process in a while that begins shortly after the drain.
fn watch() -> u64 {
    std::thread::sleep(SETTLE);
    let before = usage();
    std::thread::sleep(WATCH);
    (usage() - before).cpu_ns
}

/// Gives late and doubled tasks time to show themselves, then checks.
pub(crate) fn finish(run: &'static Run, mut out: Sample) -> Result<Sample, String> {
    out.after_ns = Some(watch());
    check::verify(run.job.tasks, run.seen())?;
    if run.job.pass == Pass::Latency {
        out.values = run.values();
        out.latency = Latency::of(out.values.clone());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks at counters that nobody announces the end of: how late the last one can be.
    #[test]
    fn the_last_look_is_not_late() {
        for run_us in [500, 1_500, 5_000, 100_000] {
            for slow_start in [0.0, 0.5] {
                let run = Duration::from_micros(run_us);
                let mut now = Duration::ZERO;
                let mut looks = 0;
                while now < run {
                    let share = (now.as_secs_f64() / run.as_secs_f64() - slow_start).max(0.0) / (1.0 - slow_start);
                    now += own::until_next_look(now, (share * 349_525.0) as u64, 349_525);
                    looks += 1;
                }
                let late = now - run;
                assert!(late <= Duration::from_micros(20).max(run / 8), "{run:?}: {late:?} late");
                assert!(looks < 60, "{run:?}: {looks}");
            }
        }
    }
}
