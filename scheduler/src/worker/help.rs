//! Waiting: a worker helps with other tasks meanwhile, any other thread sleeps.

use super::context::{Context, current};
use super::search::Outcome;
use crate::config::REFUSED_US;
use crate::park::{Parked, Parker};
use crate::sync::{Arc, Relaxed, light};
use crate::task::raw::Verb;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Something that will be over.
pub trait Wait {
    /// It is over.
    fn is_over(&self) -> bool;
    /// The owner of `parker` wants a token when it is over. False: it is over already. Registering twice is legal.
    fn register(&self, parker: Arc<Parker>) -> bool;
}

impl Context {
    /// Runs tasks until `wait` is over; sleeps when there are none.
    pub fn help(&self, wait: &dyn Wait) {
        while !wait.is_over() {
            if !self.stack_left() {
                // A spare thread is this worker meanwhile.
                if self.on_fresh_stack(&|| self.help(wait)) {
                    return;
                }
                if !self.stack_left_at_all() {
                    self.starve(wait);
                    continue;
                }
            }
            self.keep_time();
            if self.shared.wired.load(Relaxed) {
                self.keep_io();
            }
            if let Some(task) = self.next() {
                self.run_guarded(task);
                continue;
            }
            match self.search(Some(wait)) {
                Outcome::Task(task) => self.run_found(task),
                Outcome::Again | Outcome::Finished => {}
            }
        }
    }

    /// Runs one task of its own or of the lanes, if there is one and stack for it.
    pub fn help_once(&self) -> bool {
        let task = self.stack_left().then(|| self.next()).flatten();
        task.map(|task| self.run_guarded(task)).is_some()
    }

    /// Neither stack nor a thread that has some: the others do the work, if there are any, and the system is asked
    /// again after a while. What a scheduler that aborts drops needs little stack.
    #[cold]
    fn starve(&self, wait: &dyn Wait) {
        self.look_for_abort();
        if self.verb.get() == Verb::DROP
            && let Some(task) = self.next()
        {
            return self.run_guarded(task);
        }
        self.hand_over();
        sleep(&self.me().parker, wait, Some(Duration::from_micros(REFUSED_US)));
    }

    /// Waits without running anything. What this worker hides is published first, so that others can run it.
    pub fn stand_still(&self, wait: &dyn Wait) {
        self.hand_over();
        if !wait.register(self.me().parker.clone()) {
            return;
        }
        while !wait.is_over() {
            // What completes here is for the others. First of all: its token may be used up already.
            if self.shared.wired.load(Relaxed) && self.keep_io() {
                self.hand_over();
            }
            if !self.io_waits() {
                let _ = self.sleep(None);
            }
        }
    }

    /// What this worker hides is published, for the others.
    fn hand_over(&self) {
        self.slow_down();
        while self.forks().publish() {}
        self.ring().publish(u32::MAX);
        // Whoever goes idle from here on sees what was published; before, it is seen here.
        light();
        let _ = self.word().settle();
        self.shared.notify(self.me().shard, u64::MAX);
    }
}

fn sleep(parker: &Arc<Parker>, wait: &dyn Wait, limit: Option<Duration>) -> bool {
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    if !wait.register(parker.clone()) {
        return true;
    }
    while !wait.is_over() {
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        if parker.park(left) == Parked::TimedOut && left == Some(Duration::ZERO) {
            return wait.is_over();
        }
    }
    true
}

thread_local! {
    static PARKER: Arc<Parker> = Arc::new(Parker::new());
}

/// Where the calling thread sleeps that is no worker. One whose locals are gone already makes a parker for this one
/// wait.
pub fn parker() -> Arc<Parker> {
    PARKER.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Parker::new()))
}

/// Waits on whatever thread this is, at most for `limit`; a worker helps until `wait` is over, however long its last
/// task takes. True: it is over.
pub fn block(wait: &dyn Wait, limit: Option<Duration>) -> bool {
    if wait.is_over() {
        return true;
    }
    match (current(), limit) {
        (Some(context), None) => {
            context.help(wait);
            true
        }
        (Some(context), Some(_)) => context.help_for(wait, limit),
        (None, _) => sleep(&parker(), wait, limit),
    }
}

impl Context {
    /// Runs tasks until `wait` or the time is over.
    fn help_for(&self, wait: &dyn Wait, limit: Option<Duration>) -> bool {
        let Some(deadline) = limit.and_then(|limit| Instant::now().checked_add(limit)) else {
            self.help(wait);
            return true;
        };
        loop {
            if wait.is_over() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if !self.stack_left() {
                let over = Cell::new(false);
                if self.on_fresh_stack(&|| over.set(self.help_for(wait, Some(left)))) {
                    return over.get();
                }
            }
            self.keep_time();
            if self.shared.wired.load(Relaxed) {
                self.keep_io();
            }
            // Asked here and not in a frame further down, which might see the end that this one does not.
            match self.stack_left_at_all().then(|| self.next()).flatten() {
                Some(task) => self.run_guarded(task),
                None => {
                    self.slow_down();
                    // Short sleeps with a look around in between: a sleep of the idle protocol has no deadline.
                    sleep(&self.me().parker, wait, Some(left.min(Duration::from_millis(1))));
                }
            }
        }
    }
}
