//! Harness of the loom models: one wrapper that counts, and one that plants weakened orderings.
//!
//! The models themselves are in `tests/`, one file per protocol, each running the scheduler's own code.
#![cfg(loom)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Explores `body` and asserts that at least `floor` interleavings were tried: a model that runs once proves nothing.
///
/// `bound` is the preemption bound; `None` takes `LOOM_MAX_PREEMPTIONS`.
///
/// # Panics
/// When any interleaving fails, or when fewer than `floor` were explored.
pub fn model(name: &str, bound: Option<usize>, floor: u64, body: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicU64::new(0));
    let seen = runs.clone();
    let began = Instant::now();
    let mut builder = loom::model::Builder::new();
    if bound.is_some() && std::env::var_os("LOOM_DEEP").is_none() {
        builder.preemption_bound = bound;
    }
    builder.check(move || {
        seen.fetch_add(1, Relaxed);
        body();
    });
    let runs = runs.load(Relaxed);
    eprintln!("MODEL {name} interleavings={runs} wall={:?} bound={:?}", began.elapsed(), builder.preemption_bound);
    assert!(runs >= floor, "{name}: only {runs} interleavings, expected at least {floor}");
}

/// Runs the test `model` of the current binary with the ordering or barrier `id` weakened; true when the model failed,
/// as it must.
///
/// # Panics
/// When the test binary cannot be started.
pub fn killed(model: &str, id: &str) -> bool {
    let exe = std::env::current_exe().expect("path of the test binary");
    let run = Command::new(exe)
        .args(["--exact", model, "--nocapture", "--test-threads=1"])
        .env("WEAKEN", id)
        .output()
        .expect("start the test binary");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(!text.contains("running 0 tests"), "no model named {model}");
    !run.status.success()
}

/// Asserts that every `(model, id)` pair bites: the model passes as it is (checked by its own test) and fails weakened.
///
/// # Panics
/// Listing the pairs that survived.
pub fn teeth(pairs: &[(&str, &str)]) {
    let alive: Vec<_> = pairs.iter().filter(|(model, id)| !killed(model, id)).collect();
    assert!(alive.is_empty(), "weakened orderings that no model noticed (model, id): {alive:?}");
}
