//! Ends a process that hangs, with everything that is known about it, and says why it cannot be mere slowness.
//!
//! Three findings, counted in looks and not in seconds, so that a stopped or starved process is not blamed: tasks
//! are queued while every worker sleeps and none was run for 5 s of looks; no thread but the watchdog used the CPU
//! for 20 s of looks; a test has had 180 s of looks.

use crate::os;
use crate::report::say;
use scheduler::Handle;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(100);
const STRANDED_LOOKS: u32 = 50;
const ASLEEP_LOOKS: u32 = 200;
const TEST_LOOKS: u32 = 1800;

/// What is under watch: the name of the test with how to repeat it, and its schedulers.
static SUBJECT: Mutex<(String, Vec<Handle>)> = Mutex::new((String::new(), Vec::new()));

/// Watches until it is dropped.
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to watch the test of this name.
    pub fn begin(name: &str) -> Watchdog {
        *SUBJECT.lock().unwrap_or_else(|e| e.into_inner()) = (name.to_owned(), Vec::new());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(move || watch(&stopped));
        Watchdog { stop, thread: Some(thread.expect("a thread for the watchdog")) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        forget();
    }
}

/// Adds a scheduler to what is watched and dumped. Its memory then lives until the test ends, or until [`forget`].
pub fn add(handle: Handle) {
    SUBJECT.lock().unwrap_or_else(|e| e.into_inner()).1.push(handle);
}

/// Lets go of all schedulers.
pub fn forget() {
    let handles = std::mem::take(&mut SUBJECT.lock().unwrap_or_else(|e| e.into_inner()).1);
    drop(handles);
}

fn watch(stop: &AtomicBool) {
    let mut stranded = Streak::default();
    let mut asleep = Streak::default();
    for look in 0_u32.. {
        std::thread::park_timeout(LOOK);
        if stop.load(Relaxed) {
            return;
        }
        if look < 10 {
            continue;
        }
        let threads = states();
        if stranded.same(queued_with_all_asleep(&threads)) >= STRANDED_LOOKS {
            violation("tasks are queued, every worker sleeps, and nothing runs");
        }
        if asleep.same(all_asleep(&threads)) >= ASLEEP_LOOKS {
            violation("no thread has done anything for a long time");
        }
        if look >= TEST_LOOKS {
            violation("the test takes too long");
        }
    }
}

/// How often in a row the same thing was seen.
#[derive(Default)]
struct Streak {
    last: Option<u64>,
    length: u32,
}

impl Streak {
    fn same(&mut self, now: Option<u64>) -> u32 {
        self.length = if now.is_some() && now == self.last { self.length + 1 } else { 0 };
        self.last = now;
        self.length
    }
}

/// Per thread: its name, state and CPU time.
fn states() -> HashMap<i32, (String, char, u64)> {
    let known = |(id, name): (i32, String)| os::thread_state(id).map(|(state, ticks)| (id, (name, state, ticks)));
    os::threads().into_iter().filter_map(known).collect()
}

/// Tasks run so far, if some watched scheduler has tasks queued while all of the process's workers sleep.
fn queued_with_all_asleep(threads: &HashMap<i32, (String, char, u64)>) -> Option<u64> {
    let mut workers = threads.values().filter(|(name, ..)| name.starts_with("w-")).peekable();
    workers.peek()?;
    if workers.any(|(_, state, _)| *state != 'S') {
        return None;
    }
    let subject = SUBJECT.try_lock().ok()?;
    let metrics: Vec<_> = subject.1.iter().map(Handle::metrics).collect();
    let stranded = metrics.iter().any(|m| m.queued > 0 && m.alive > 0);
    stranded.then(|| metrics.iter().map(|m| m.tasks).sum())
}

/// The sum of all CPU times, if every thread sleeps that has not to do with watching.
fn all_asleep(threads: &HashMap<i32, (String, char, u64)>) -> Option<u64> {
    let mut sum = 0;
    for (_, state, ticks) in threads.values().filter(|(name, ..)| name != "watchdog" && name != "storm") {
        if *state != 'S' {
            return None;
        }
        sum += ticks;
    }
    Some(sum)
}

/// Prints `what` and everything that is known, and ends the process.
pub fn violation(what: &str) -> ! {
    say(&format!("VIOLATION: {what}"));
    dump();
    std::process::abort();
}

/// Prints the state of the watched schedulers and of all threads.
pub fn dump() {
    match SUBJECT.try_lock() {
        Ok(subject) => print_subject(&subject),
        Err(TryLockError::Poisoned(subject)) => print_subject(&subject.into_inner()),
        Err(TryLockError::WouldBlock) => say("what is watched is just being changed"),
    }
    for (id, name) in os::threads() {
        let state = os::thread_state(id);
        let (wchan, call) = (os::read_thread(id, "wchan"), os::read_thread(id, "syscall"));
        say(&format!("thread {id} {name}: {state:?} {wchan} syscall {}", call.trim()));
    }
}

fn print_subject((name, handles): &(String, Vec<Handle>)) {
    say(&format!("test {name}"));
    for handle in handles {
        say(&format!("{handle:?} {:#?}", handle.metrics()));
    }
}
