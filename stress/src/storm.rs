//! Signals at random moments to workers and submitters: threads named `w-..` and `sub-..`.

use crate::os;
use crate::profile::Fault;
use crate::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two stalls; with their mean length of 1.5 ms about one thread stands still at any time.
const STALL_EVERY: Duration = Duration::from_micros(1000);
/// Between two interruptions.
const INTERRUPT_EVERY: Duration = Duration::from_micros(20);

static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Runs until it is dropped.
pub struct Storm {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Storm {
    /// Begins; nothing for [`Fault::None`].
    pub fn begin(fault: Fault, mut random: Random) -> Storm {
        let stop = Arc::new(AtomicBool::new(false));
        let (signal, pause) = match fault {
            Fault::None => return Storm { stop, thread: None },
            Fault::Stalls => (libc::SIGUSR1, STALL_EVERY),
            Fault::Interrupts => (libc::SIGUSR2, INTERRUPT_EVERY),
        };
        os::on_signal(libc::SIGUSR1, stall);
        os::on_signal(libc::SIGUSR2, count);
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("storm".into()).spawn(move || {
            while !stopped.load(Relaxed) {
                let is_target = |(_, name): &(i32, String)| name.starts_with("w-") || name.starts_with("sub-");
                let targets: Vec<_> = os::threads().into_iter().filter(is_target).collect();
                for _ in 0..50 {
                    if !targets.is_empty() {
                        os::signal_thread(targets[random.below(targets.len() as u64) as usize].0, signal);
                    }
                    std::thread::sleep(pause);
                }
            }
        });
        Storm { stop, thread: Some(thread.expect("a thread for the storm")) }
    }

    /// Signals handled in this process so far.
    pub fn handled() -> u64 {
        HANDLED.load(Relaxed)
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

extern "C" fn count(_: i32) {
    HANDLED.fetch_add(1, Relaxed);
}

/// Sleeps 0.2 to 3 ms; the interrupted code must not notice, so `errno` is kept.
extern "C" fn stall(_: i32) {
    let handled = HANDLED.fetch_add(1, Relaxed);
    // SAFETY: the thread's own, valid as long as it runs.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    let nanoseconds = 200_000 + (crate::random::mix(handled) % 2_800_000) as i64;
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    // SAFETY: reads the time that it is given; async-signal-safe.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
    // SAFETY: as above.
    unsafe { *errno = saved };
}
