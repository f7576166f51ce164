//! Panics that a test means to happen.

use std::any::Any;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The payload of an intended panic.
#[derive(Debug)]
pub struct Planned(pub u64);

/// Panics with [`Planned`]; the panic hook says nothing about it.
pub fn panic_planned(number: u64) -> ! {
    panic::panic_any(Planned(number))
}

/// The number of a planned panic's payload.
pub fn number(payload: &(dyn Any + Send)) -> Option<u64> {
    payload.downcast_ref::<Planned>().map(|planned| planned.0)
}

/// Panics when it is dropped, unless something unwinds already: then the process would end, by the language's rules.
#[derive(Debug)]
pub struct Bomb(pub u64);

impl Bomb {
    /// Its number. A closure that called for the field would capture the number and leave the bomb outside.
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_planned(self.0);
        }
    }
}

static UNPLANNED: AtomicU64 = AtomicU64::new(0);

/// Keeps planned panics quiet, counts and prints all others; once per process.
pub fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() && !info.payload().is::<Bomb>() {
                UNPLANNED.fetch_add(1, Relaxed);
                before(info);
            }
        }));
    });
}

/// Panics so far that nobody planned: an assertion that failed inside of a task is one, and no join may swallow it.
pub fn unplanned() -> u64 {
    UNPLANNED.load(Relaxed)
}
