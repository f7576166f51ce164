//! What the tests share.

use scheduler::Scheduler;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longer than anything takes that is going to happen.
pub(crate) const HOPELESS: std::time::Duration = std::time::Duration::from_secs(60);

/// Two workers.
pub(crate) fn scheduler() -> Scheduler {
    Scheduler::builder().workers(2).build().expect("a scheduler")
}

/// Runs a future on a worker, and again on a thread that is none: both must do.
pub(crate) fn both<F: Future<Output = io::Result<()>> + Send + 'static>(make: impl Fn() -> F) {
    let scheduler = scheduler();
    let there = scheduler.spawn_future(in_time(make())).expect("open");
    there.join().expect("no panic on a worker").expect("on a worker");
    scheduler::block_on(in_time(make())).expect("on a thread that is no worker");
}

/// Whatever happens, it happens.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    scheduler::time::timeout(HOPELESS, future).await.expect("in time")
}

/// Any free port of this host.
pub(crate) fn here() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// A directory of its own, gone with it.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("scheduler-io-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a scratch directory");
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that are not alike.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}
