//! One sample of `load`: submitters that keep a window of tasks in flight for a stated time.
use crate::alloc::Counted;
use crate::arms::Arm;
use crate::calib;
use crate::items::stat::Statistic;
use crate::os::{Usage, futex_wait, futex_wake, usage};
use crate::run::PATIENCE;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// What every sample is made of.
pub(crate) struct Plan {
    pub(super) submitters: usize,
    /// Tasks in flight per submitter.
    pub(super) window: u32,
    /// Steps of the busy body.
    pub(super) steps: u64,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    /// One place per latency, allocated and touched before the first sample. Each submitter has its share.
    pub(super) buffer: &'static [AtomicU64],
}

/// What one sample says.
pub(crate) struct Taken {
    /// Tasks that ended in the measured time, and that time.
    pub(super) tasks: u64,
    pub(super) wall: Duration,
    pub(super) usage: Usage,
    pub(super) latency: Statistic,
    /// Latencies for which there was no place.
    pub(super) dropped: u64,
    pub(super) allocations: Option<u64>,
}

/// Phases of a sample.
const WARM_UP: u32 = 0;
const MEASURED: u32 = 1;
const OVER: u32 = 2;

/// What one submitter and its tasks share. The low half of `word` counts ended tasks, the upper one is a sum of
/// hashes of their numbers, so that a lost task is not hidden by one that ran twice.
#[repr(align(128))]
struct Lane {
    word: AtomicU64,
    /// The count at which the submitter wants to be woken.
    wake_at: AtomicU32,
    /// Counts its wake-ups; it sleeps on it.
    woken: AtomicU32,
    /// Latencies that have a place.
    used: AtomicU64,
    steps: u64,
    epoch: Instant,
    buffer: &'static [AtomicU64],
}

/// Not to be recorded.
const NOWHERE: u32 = u32::MAX;

fn token(i: u32) -> u64 {
    let hash = (u64::from(i) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash ^ hash >> 29) & !u64::from(u32::MAX) | 1
}

impl Lane {
    fn new(plan: &Plan, n: usize) -> &'static Lane {
        let share = plan.buffer.len() / plan.submitters;
        // Never freed: a task that comes late must find it.
        Box::leak(Box::new(Lane {
            word: AtomicU64::new(0),
            wake_at: AtomicU32::new(0),
            woken: AtomicU32::new(0),
            used: AtomicU64::new(0),
            steps: plan.steps,
            epoch: Instant::now(),
            buffer: &plan.buffer[n * share..(n + 1) * share],
        }))
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn ended(&self) -> u32 {
        self.word.load(Acquire) as u32
    }

    /// The body of a task: its number, where its latency goes, and when it was submitted.
    #[inline(always)]
    fn body(&self, i: u32, place: u32, submitted: u64) {
        calib::spin(self.steps);
        if place != NOWHERE {
            self.buffer[place as usize].store(self.now() - submitted, Relaxed);
        }
        // AcqRel: the submitter's addition of nothing in `wait` comes before this one, and then we see its `wake_at`,
        // or after it, and then it sees this end.
        let ended = (self.word.fetch_add(token(i), AcqRel) as u32).wrapping_add(1);
        if ended == self.wake_at.load(Relaxed) {
            self.woken.fetch_add(1, Release);
            futex_wake(&self.woken, 1);
        }
    }

    /// Sleeps until `count` tasks have ended. `false`: they did not within a minute.
    fn wait(&self, count: u32) -> bool {
        let start = Instant::now();
        self.wake_at.store(count, Relaxed);
        loop {
            let seen = self.woken.load(Acquire);
            let ended = self.word.fetch_add(0, AcqRel) as u32;
            if (count.wrapping_sub(ended) as i32) <= 0 {
                return true;
            }
            if start.elapsed() > PATIENCE {
                return false;
            }
            futex_wait(&self.woken, seen, PATIENCE);
        }
    }
}

/// What a submitter says at its end.
struct Submitted {
    tasks: u32,
    expected: u64,
    dropped: u64,
    waited: bool,
}

/// Submits until the phase says that it is over, then waits for the last task.
fn submitter<A: Arm>(arm: &'static A, lane: &'static Lane, plan: &Plan, phase: &AtomicU32) -> Submitted {
    let mut out = Submitted { tasks: 0, expected: 0, dropped: 0, waited: true };
    let mut used = 0_usize;
    loop {
        let now = phase.load(Relaxed);
        if now == OVER {
            break;
        }
        if out.tasks.wrapping_sub(lane.ended()) >= plan.window {
            // Half of the window at once: waking the submitter for every task would be what is measured.
            out.waited = lane.wait(out.tasks.wrapping_sub(plan.window / 2));
            if !out.waited {
                return out;
            }
        }
        let (i, place) = (out.tasks, if now == WARM_UP || used == lane.buffer.len() { NOWHERE } else { used as u32 });
        used += usize::from(place != NOWHERE);
        out.dropped += u64::from(now == MEASURED && place == NOWHERE);
        out.tasks = out.tasks.wrapping_add(1);
        out.expected = out.expected.wrapping_add(token(i));
        let (numbers, submitted) = (u64::from(i) << 32 | u64::from(place), lane.now());
        arm.submit(move || lane.body((numbers >> 32) as u32, numbers as u32, submitted));
    }
    out.waited = lane.wait(out.tasks);
    lane.used.store(used as u64, Relaxed);
    out
}

/// Takes one sample and checks that every task ran exactly once.
pub(crate) fn sample<A: Arm>(arm: &'static A, plan: &Plan, count_allocations: bool) -> Result<Taken, String> {
    let lanes: Vec<&'static Lane> = (0..plan.submitters).map(|n| Lane::new(plan, n)).collect();
    let phase = AtomicU32::new(WARM_UP);
    let ended = || lanes.iter().map(|l| u64::from(l.ended())).sum::<u64>();
    let (taken, submitted) = std::thread::scope(|scope| {
        let threads: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| submitter(arm, lane, plan, &phase))).collect();
        std::thread::sleep(plan.warm_up);
        let counted = count_allocations.then(Counted::start);
        let (before, used, start) = (ended(), usage(), Instant::now());
        phase.store(MEASURED, Relaxed);
        std::thread::sleep(plan.measured);
        let (tasks, usage, wall) = (ended() - before, usage() - used, start.elapsed());
        let allocations = counted.map(Counted::stop);
        phase.store(OVER, Relaxed);
        let submitted: Vec<Submitted> = threads.into_iter().filter_map(|t| t.join().ok()).collect();
        (Taken { tasks, wall, usage, latency: Statistic::new(), dropped: 0, allocations }, submitted)
    });
    if submitted.len() != lanes.len() {
        return Err("a submitter panicked".into());
    }
    let mut taken = taken;
    for (lane, done) in lanes.iter().zip(&submitted) {
        if !done.waited {
            return Err(format!("{} of {} tasks ran within {PATIENCE:?}", lane.ended(), done.tasks));
        }
        verify(lane.word.load(Acquire), done.tasks, done.expected)?;
        taken.dropped += done.dropped;
        let used = lane.used.load(Relaxed) as usize;
        lane.buffer[..used].iter().for_each(|ns| taken.latency.record(ns.load(Relaxed)));
    }
    Ok(taken)
}

fn verify(word: u64, tasks: u32, expected: u64) -> Result<(), String> {
    match (word as u32 == tasks, word == expected) {
        (false, _) => Err(format!("{} of {tasks} tasks ran", word as u32)),
        (true, false) => Err(format!("{tasks} runs were counted, but not of {tasks} different tasks")),
        (true, true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::Channel;

    #[test]
    fn lost_and_doubled_tasks_are_seen() {
        let word = (0..100).fold(0_u64, |sum, i| sum.wrapping_add(token(i)));
        assert_eq!(verify(word, 100, word), Ok(()));
        assert_eq!(verify(word.wrapping_sub(token(3)), 100, word).unwrap_err(), "99 of 100 tasks ran");
        let doubled = word.wrapping_sub(token(3)).wrapping_add(token(4));
        assert!(verify(doubled, 100, word).unwrap_err().contains("different tasks"));
    }

    #[test]
    fn a_full_buffer_is_told() {
        let arm: &'static Channel = Box::leak(Box::new(Channel::new(2).unwrap()));
        let buffer: &'static [AtomicU64] = Box::leak((0..10).map(|_| AtomicU64::new(0)).collect());
        let (warm_up, measured) = (Duration::from_millis(1), Duration::from_millis(20));
        let plan = Plan { submitters: 2, window: 4, steps: 0, warm_up, measured, buffer };
        let mut most = 0;
        // On a busy machine the submitters may get no time at all while they are measured.
        for _ in 0..50 {
            let taken = sample(arm, &plan, true).unwrap();
            let recorded = taken.latency.summary().map_or(0, |s| s.count);
            assert!(recorded <= 10 && taken.allocations.is_some());
            assert!(taken.dropped == 0 || recorded >= 5, "a place was free");
            most = most.max(taken.dropped);
        }
        assert!(most > 0);
    }
}
