//! From a seat to a worker: the thread binds itself, makes and touches its own memory, and then gets the scheduler that
//! is built around it.

use super::Pool;
use crate::config::START_STACK;
use crate::driver::{Caps, Ring};
use crate::error::BuildError;
use crate::future::retire_all;
use crate::policy::{Layout, Spot};
use crate::submit::{enter_worker, forget_last};
use crate::sync::{Arc, Mutex, Relaxed};
use crate::sys;
use crate::task::cells;
use crate::worker::{Context, Remote, Shared, without_unwinding};
use numa::{Binding, Local, Seat, Topology};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Some pages, and less than what the allocator maps by itself.
const ROOM: usize = 64 * 1024;

/// Threads that have a seat and no scheduler yet. Dropped, they leave again.
pub(super) struct Recruits {
    threads: Vec<JoinHandle<()>>,
    /// One per thread, in order.
    memory: Vec<Receiver<Result<Local<Remote>, BuildError>>>,
    orders: Vec<Sender<Arc<Shared>>>,
    ready: Receiver<()>,
}

/// What a thread is given at its start.
struct Papers {
    topology: std::sync::Arc<Topology>,
    seat: Seat,
    spot: Spot,
    memory: Sender<Result<Local<Remote>, BuildError>>,
    orders: Receiver<Arc<Shared>>,
    ready: Sender<()>,
    /// It shall have a ring from the start, which may use so much.
    ring: Option<Caps>,
}

impl Recruits {
    /// Starts a thread per seat.
    pub(super) fn spawn(
        topology: &std::sync::Arc<Topology>,
        seats: Vec<Seat>,
        stack_size: usize,
        name: &dyn Fn(usize) -> String,
        ring: Option<Caps>,
    ) -> Result<Self, BuildError> {
        let wanted = seats.len();
        // Before the first thread: the function is the user's and may panic. A NUL cannot be part of a name.
        let names: Vec<String> = (0..wanted).map(|index| name(index).replace('\0', "")).collect();
        let spots = Layout::new(topology, &seats).spots;
        let (is_ready, ready) = channel();
        let mut recruits = Recruits { threads: Vec::new(), memory: Vec::new(), orders: Vec::new(), ready };
        for ((seat, spot), name) in seats.into_iter().zip(spots).zip(names) {
            let ((memory, has_memory), (order, orders)) = (channel(), channel());
            let papers =
                Papers { topology: topology.clone(), seat, spot, memory, orders, ready: is_ready.clone(), ring };
            let thread = std::thread::Builder::new().name(name).stack_size(stack_size + START_STACK);
            // On an error those that run find their orders gone, and leave.
            let refused = |source| BuildError::Spawn { started: recruits.threads.len(), wanted, source };
            recruits.threads.push(thread.spawn(move || work(papers)).map_err(refused)?);
            recruits.memory.push(has_memory);
            recruits.orders.push(order);
        }
        Ok(recruits)
    }

    /// What each of them has made, in order.
    pub(super) fn remotes(&self) -> Result<Box<[Local<Remote>]>, BuildError> {
        let gone = || io::Error::other("a worker ended before it had its memory");
        let one = |memory: &Receiver<_>| memory.recv().unwrap_or_else(|_| Err(BuildError::Memory(gone())));
        self.memory.iter().map(one).collect()
    }

    /// They become the workers of `shared`; returns when all of them run.
    pub(super) fn employ(mut self, shared: Arc<Shared>) -> Pool {
        for order in &self.orders {
            // Nobody leaves before he has got this.
            let _ = order.send(shared.clone());
        }
        for _ in &self.orders {
            // Whoever could not even begin has sent nothing; its sender is gone, and so is the channel in the end.
            let _ = self.ready.recv();
        }
        Pool { shared, threads: Mutex::new(std::mem::take(&mut self.threads)) }
    }
}

impl Drop for Recruits {
    fn drop(&mut self) {
        self.orders.clear();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

/// The main function of a worker's thread.
fn work(papers: Papers) {
    let Papers { topology, seat, spot, memory, orders, ready, ring } = papers;
    let index = seat.index;
    let binding = Binding::take(&topology, &seat);
    let mut opened = None;
    let own = own_memory(&topology, seat, spot, &binding).map_err(BuildError::Memory);
    let own = own.and_then(|remote| {
        if let Some(caps) = ring {
            let ring = Ring::open(&caps, &remote.parker).map_err(|why| BuildError::Io { worker: index, why })?;
            let _ = remote.io.set(ring.driver());
            opened = Some(ring);
        }
        Ok(remote)
    });
    let _ = memory.send(own);
    let Ok(shared) = orders.recv() else { return };
    // From here on the scheduler counts on this thread.
    drop((memory, orders, topology));
    cells::enter(|cells| {
        let context = Context::new(&shared, index, cells, sys::stack_floor());
        let context = context.bound_by(binding).wired_by(opened);
        context.enter(|| {
            enter_worker(&context);
            // What is made once per process or thread is there before anybody can fork.
            cells.reserve(1);
            let _ = ready.send(());
            drop(ready);
            call(shared.hooks.started.as_deref(), &context);
            without_unwinding(|| context.main());
            forget_last();
            // What the ends of futures submit is refused; what they wake ends as well.
            without_unwinding(|| retire_all(&context));
            // What waits elsewhere for a time looks for another worker.
            context.timers().end();
            // What is in flight is told that it was cancelled, whoever waits for it.
            without_unwinding(|| context.end_io());
        });
        // No worker any more: what the hook submits is refused.
        call(shared.hooks.stopped.as_deref(), &context);
    });
    shared.left();
}

/// Pages of this worker's node: touched first by this thread, which is bound; on a real host the kernel is asked as
/// well, should the thread have been moved just now.
fn own_memory(topology: &Topology, seat: Seat, spot: Spot, binding: &Binding) -> io::Result<Local<Remote>> {
    let home = topology.nodes()[topology.nearest_memory(seat.node)].id;
    // The parker is shared, so it comes from the allocator. What this thread has allocated before it was bound may lie
    // on another node: leave some room, so that the parker lies on pages that nobody has touched yet.
    let room = std::hint::black_box(Vec::<u8>::with_capacity(ROOM));
    let remote = Remote::new(spot.shard, spot.bit, seat);
    drop(room);
    remote.unbound.store(u32::from(binding.error().is_some()), Relaxed);
    if topology.is_live() { Local::new_on(home, remote) } else { Local::new(remote) }
}

type Hook = dyn Fn(usize, usize) + Send + Sync;

fn call(hook: Option<&Hook>, context: &Context) {
    let Some(hook) = hook else { return };
    let node = context.shared.workers[context.index].node;
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(context.index, node))) {
        context.panicked(payload);
    }
}
