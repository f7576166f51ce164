//! A scheduler whose threads are known, and tasks that say where they run.

use numa::{CpuId, CpuSet};
use scheduler::{Builder, Handle, Scheduler};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// For what takes milliseconds on an idle guest.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A scheduler and its threads.
pub(crate) struct Crew {
    pub(crate) scheduler: Scheduler,
    /// Thread of each worker.
    pub(crate) threads: Vec<i32>,
}

impl Crew {
    pub(crate) fn start(builder: Builder) -> Result<Crew, String> {
        Self::start_with(builder, |_| ())
    }

    /// Every worker calls `hook` with its index before its first task.
    pub(crate) fn start_with(builder: Builder, hook: impl Fn(usize) + Send + Sync + 'static) -> Result<Crew, String> {
        let threads = Arc::new(Mutex::new(BTreeMap::new()));
        let noted = threads.clone();
        let note = move |index, _| {
            hook(index);
            noted.lock().unwrap_or_else(|e| e.into_inner()).insert(index, stress::os::thread_id());
        };
        let scheduler = builder.on_worker_start(note).build().map_err(|error| format!("no scheduler: {error}"))?;
        let crew = Crew { scheduler, threads: Vec::new() };
        // All of them run when `build` returns, but the hook may not have been called yet.
        crew.on_each(|| ())?;
        let threads = threads.lock().unwrap_or_else(|e| e.into_inner()).values().copied().collect();
        Ok(Crew { threads, ..crew })
    }

    pub(crate) fn len(&self) -> usize {
        self.scheduler.metrics().workers.len()
    }

    /// Runs `look` once on every worker, all at the same time: every worker wakes, runs one task, and sleeps again.
    pub(crate) fn on_each<T: Send + 'static>(&self, look: fn() -> T) -> Result<Vec<T>, String> {
        let workers = self.len();
        let (arrived, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(BTreeMap::new())));
        for _ in 0..workers {
            let (arrived, seen) = (arrived.clone(), seen.clone());
            let task = move || {
                let index = Handle::worker_index().unwrap_or(usize::MAX);
                seen.lock().unwrap_or_else(|e| e.into_inner()).insert(index, look());
                arrived.fetch_add(1, Relaxed);
                let end = Instant::now() + SOON;
                while arrived.load(Relaxed) < workers && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            self.scheduler.submit(task).map_err(|error| error.to_string())?;
        }
        if !self.scheduler.wait_idle(2 * SOON) {
            return Err("the workers do not come to rest".into());
        }
        let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(|e| e.into_inner()));
        if seen.len() != workers {
            return Err(format!("only {} of {workers} workers came", seen.len()));
        }
        Ok(seen.into_values().collect())
    }

    /// Every worker wakes, runs `look`, and sleeps again. Idle is said before the sleep, and what is checked before the
    /// sleep is checked in between, so this waits for the sleep.
    pub(crate) fn park_cycle<T: Send + 'static>(&self, look: fn() -> T) -> Result<Vec<T>, String> {
        let parks = || self.scheduler.metrics().workers.iter().map(|worker| worker.parks).collect::<Vec<_>>();
        let before = parks();
        let seen = self.on_each(look)?;
        let end = Instant::now() + SOON;
        while parks().iter().zip(&before).any(|(now, before)| now <= before) {
            if Instant::now() > end {
                return Err("not every worker went to sleep".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(seen)
    }

    /// For each worker the node it is on and its home, as numbers of the system.
    pub(crate) fn whereabouts(&self) -> Result<Vec<(u32, u32)>, String> {
        let nodes = self.park_cycle(numa::current_node)?;
        let metrics = self.scheduler.metrics();
        let home = |index: usize| self.scheduler.topology().nodes()[metrics.workers[index].node].id.get();
        let pair = |(index, node): (usize, std::io::Result<numa::NodeId>)| match node {
            Ok(node) => Ok((node.get(), home(index))),
            Err(error) => Err(format!("getcpu: {error}")),
        };
        nodes.into_iter().enumerate().map(pair).collect()
    }

    /// Every worker runs on its home node.
    pub(crate) fn all_at_home(&self) -> Result<String, String> {
        let pairs = self.whereabouts()?;
        let at_home = pairs.iter().filter(|(node, home)| node == home).count();
        let list: Vec<_> = pairs.iter().map(|(node, home)| format!("{node}/{home}")).collect();
        let text = format!("{at_home} of {} workers run at home (node/home: {})", pairs.len(), list.join(" "));
        if at_home == pairs.len() { Ok(text) } else { Err(text) }
    }

    /// The masks of the threads as the kernel has them.
    pub(crate) fn masks(&self) -> Result<Vec<CpuSet>, String> {
        self.threads.iter().map(|&thread| super::look::mask_of(thread)).collect()
    }
}

/// `0-1 2-3 4-5`.
pub(crate) fn list(sets: &[CpuSet]) -> String {
    sets.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" ")
}

/// A thread that submits until told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    run: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<u64>,
}

/// Tasks in one gulp of the load.
const GULP: usize = 16;

impl Load {
    pub(crate) fn begin(handle: Handle) -> Load {
        let (stop, run) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), run.clone());
        let thread = std::thread::spawn(move || {
            let mut accepted = 0;
            while !stopped.load(Relaxed) {
                let task = || {
                    let counted = counted.clone();
                    move || {
                        counted.fetch_add(1, Relaxed);
                    }
                };
                accepted += handle.submit_batch((0..GULP).map(|_| task())).unwrap_or_else(|e| e.accepted) as u64;
                std::thread::sleep(Duration::from_millis(1));
            }
            accepted
        });
        Load { stop, run, thread }
    }

    /// Ends the load; how many tasks were accepted, and how many have run after `settle`.
    pub(crate) fn end(self, settle: impl FnOnce()) -> (u64, u64) {
        self.stop.store(true, Relaxed);
        let accepted = self.thread.join().unwrap_or(u64::MAX);
        settle();
        (accepted, self.run.load(Relaxed))
    }
}

/// Binds another thread of this process, as an administrator would.
pub(crate) fn bind_thread(thread: i32, cpu: CpuId) -> Result<(), String> {
    let mut words = [0_u64; 16];
    words[cpu.get() as usize / 64] |= 1 << (cpu.get() % 64);
    let bytes = size_of_val(&words);
    // SAFETY: the kernel reads as many bytes as the array has.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, thread, bytes, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(format!("sched_setaffinity: {}", std::io::Error::last_os_error())) }
}
