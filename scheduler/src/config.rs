//! Every constant of the policy, with where its number comes from. The models run with small queues, so that they reach
//! the ends of blocks and rings, and with a thief whose patience is over.

/// Slots of one lane block: a claim never crosses a block, so this is also the largest batch. 64 slots of 64 bytes are
/// one page and a line.
pub const BLOCK: usize = if cfg!(loom) { 2 } else { 64 };
/// Tasks a worker claims at once when it is fast. Two locked instructions per batch come to 0.03 per task.
pub const BATCH: u64 = if cfg!(loom) { 2 } else { 64 };
/// Capacity of a worker's ring: 32 KiB of pointers; more spills into the worker's own lane.
pub const RING: usize = if cfg!(loom) { 4 } else { 4096 };
/// Depth of the latent fork stack; deeper forks run inline.
pub const FORKS: usize = if cfg!(loom) { 2 } else { 1024 };
/// Tasks run in a row from the private part before the oldest one gets its turn.
pub const STREAK: u32 = if cfg!(loom) { 2 } else { 64 };
/// Tasks in a row that must be short before a worker counts as fast.
pub const SHORT_RUN: u32 = if cfg!(loom) { 1 } else { 32 };
/// Mean task time below which a worker may become fast, and above which it stops being so. The gap is hysteresis.
pub const SHORT_NS: u64 = 1_500;
/// See [`SHORT_NS`].
pub const LONG_NS: u64 = 3_000;
/// Backlog, as time, that justifies waking one more worker beside a fast one: several times the 15 us a wake-up costs
/// the waker on a virtual machine.
pub const WAKE_COST_NS: u64 = 100_000;
/// Longest spin before parking unless configured: about what a wake-up costs on a virtual machine.
pub const SPIN_US: u64 = 20;
/// How long a fast worker that caught up lets tasks gather between two looks.
pub const GATHER_NS: u64 = 200;
/// How long a thief waits for an owner to answer before it publishes on the owner's behalf.
pub const PATIENCE_US: u64 = if cfg!(loom) { 0 } else { 50 };
/// The same for a thief that has seen the owner not get on for a whole nap: many times what an owner needs that is not
/// stuck and polls. (Median wait behind a stuck worker 71 to 85 us, with 50 us 123 to 130.)
pub const ASK_US: u64 = if cfg!(loom) { 0 } else { 5 };
/// Periods of the standby: the first, and the longest. Two periods bound how long a stuck owner hides work.
pub const STANDBY_MIN_US: u64 = 50;
/// See [`STANDBY_MIN_US`].
pub const STANDBY_MAX_US: u64 = 150;
/// Most tasks taken from one victim at once.
pub const STEAL_MAX: usize = if cfg!(loom) { 2 } else { 32 };
/// Mean time of the forks stolen from a worker below which they are not worth the theft: a steal with its latch,
/// cold lines and the owner's wait comes to some microseconds on each side. (With 5 us: 69,997 steals in a run of small
/// trees, with 20 us 884.)
pub const FINE_NS: u32 = 20_000;
/// Cores that share one idle word. The kernel's own work queues went from one pool per 72-core cache to shards of 8
/// cores, with five times the throughput.
pub const SHARD: usize = 8;
/// Workers that share one idle word, SMT siblings included: the order in which they went to sleep is sixteen numbers.
pub const SHARD_WORKERS: usize = 16;
/// Keep the order in which workers went to sleep. It is a hint, and any value of it is a valid order: the models leave
/// it out and choose by bit.
pub const RECENCY: bool = !cfg!(loom);
/// Abandoned cells are adopted on their own node only. Models run wherever they happen to, and must not depend on it.
pub const HOMES_BY_NODE: bool = !cfg!(loom);
/// Rounds that must find nothing near before other nodes are asked: see the policy.
pub const REMOTE_AFTER: u32 = if cfg!(loom) { 0 } else { 2 };
/// Rounds after which whatever is there is taken from other nodes; until then only from queues that are worth it.
pub const REMOTE_PATIENCE: u32 = if cfg!(loom) { 0 } else { 8 };
/// Tasks that justify waking a worker of another node while somebody stands by: half of them are taken at once.
pub const REMOTE_BACKLOG: u64 = if cfg!(loom) { 2 } else { 24 };
/// Workers outside of the own cache that a searcher asks before it looks again at what is near: at 100 to 200 ns for a
/// line that is about a task of a microsecond, see the policy.
pub const STEP_ASKS: usize = 8;
/// Streaks between two looks of a busy worker at the lanes of other nodes.
pub const FAR_STREAKS: u32 = if cfg!(loom) { 1 } else { 64 };
/// Sleep of a parker while the barrier cannot be trusted (the kernel refuses `membarrier` in mid-life).
pub const UNSURE_MS: u64 = 5;
/// Stack that must remain for a waiting worker to help with other tasks.
pub const STACK_RESERVE: usize = 128 * 1024;
/// Blocks freed (4 MiB of them) after which a parker asks the allocator to give memory back to the system.
pub const FREED_BLOCKS: u64 = 1_024;
/// How long a worker is idle before that. It takes tens of microseconds (20 to 48 us beside a small backlog) to
/// milliseconds; in a pause between two bursts the next one would wait for it.
pub const GIVE_BACK_MS: u64 = 100;
/// How long a refused spare thread is not asked for again, and how long a worker without stack sleeps in between.
pub const REFUSED_US: u64 = 10_000;
/// Default stack of a worker.
pub const STACK_SIZE: usize = 2 * 1024 * 1024;
/// Stack of a worker beyond what was asked for: its queues, some 40 KiB, are made there and moved to pages of their own
/// before the first task. Untouched later on.
pub const START_STACK: usize = 256 * 1024;
/// Pinning is looked at before every sleep, and the mask of the thread, which takes a system call, at every so many.
pub const MASK_CHECKS: u32 = 64;
/// Smallest stack that the builder accepts.
pub const STACK_MIN: usize = 64 * 1024;
/// Places that the list of submitter lanes begins with.
pub const LANES: usize = if cfg!(loom) { 1 } else { 64 };
/// Most workers of one scheduler.
pub const WORKERS_MAX: usize = 1024;
/// Calls of the heavy side between two looks at their rate.
pub const HEAVIES_PER_LOOK: u64 = 32_768;
/// Calls per second above which `membarrier` is given up for fences: callers are serialised by the kernel, and at 10 us
/// each that many leave nobody any time.
pub const HEAVIES_PER_SECOND: u64 = 100_000;
/// Places that a worker's roll of pending futures begins with, one page of them.
pub const ROLL: usize = if cfg!(loom) { 1 } else { 512 };
/// Times that the futures of this crate may be ready within one poll before they let others run: as often as others do.
pub const BUDGET: u32 = if cfg!(loom) { 2 } else { 128 };
/// Bounds of the threads that block for files where no worker has a ring; between them four per CPU. As many as a disk
/// likes to have requests at once; the kernel's own workers are bounded alike.
pub const BLOCKING_MIN: usize = 4;
/// See [`BLOCKING_MIN`].
pub const BLOCKING_MAX: usize = 64;
/// How long such a thread is idle before it gives up what it has of schedulers that have ended: it has woken their
/// futures, so it has lanes of theirs, and with them their memory and descriptors.
pub const BLOCKING_LOOK_MS: u64 = 500;
/// So many of these, and it ends: after ten seconds.
pub const BLOCKING_LOOKS: u32 = 20;
/// Most bytes of one receive in a ring, which has a buffer of the socket's: as much as a page cache reads at once.
pub const RECEIVE: usize = 16 * 1024;
/// And the least: a caller whose room is just filled must not look as if there was more. (64-byte messages into 64
/// bytes of room: one refused call per message.)
pub const RECEIVE_LEAST: usize = 2 * 1024;
/// Events that the reactor takes at once.
pub const EVENTS: usize = 256;
/// Waits of an `accept` that the system refuses a descriptor, doubled each time: then it says so.
pub const ACCEPT_WAIT_MS: u64 = 10;
/// Longest of these waits.
pub const ACCEPT_WAIT_MAX_MS: u64 = 640;
/// Entries of a ring's submission queue; its completion queue has four times as many, which comes to some 20 KiB of
/// locked memory.
pub const RING_ENTRIES: u32 = 128;
/// The smallest ring worth having, where locked memory is scarce.
pub const RING_ENTRIES_MIN: u32 = 32;
/// How often a ring that is refused for lack of locked memory is asked for again before a smaller one is: memory of
/// rings that are gone comes back some milliseconds late.
pub const MEMLOCK_TRIES: u32 = 3;
/// The time in between.
pub const MEMLOCK_WAIT_MS: u64 = 5;
/// Threads that the kernel may start for the operations of one worker on files. (64 blocking operations made 64 threads
/// without a limit, and 4 with one of 4.)
pub const FILE_THREADS: u32 = 4;
/// The same for everything else.
pub const OTHER_THREADS: u32 = 16;
/// Tasks between two looks at a ring: as many as last for so many microseconds, at least one, and a streak at most.
pub const LOOK_US: u64 = 1_000;
/// A kernel that has as many operations of a ring as it may have gets twice as many if within so many milliseconds less
/// than one of [`EASE_SHARE`] has ended, and others wait.
pub const EASE_MS: u64 = 1;
/// See [`EASE_MS`].
pub const EASE_SHARE: usize = 16;
/// How long a worker sleeps elsewhere when the kernel has no room for what is in its ring.
pub const IO_RETRY_MS: u64 = 1;
/// How long a worker that ends waits for its operations, all of which it has cancelled. Reads of a disk that has begun
/// them cannot be.
pub const IO_END_MS: u64 = 5_000;
/// Calls of one look at a ring at most: the kernel hands out 20 completions per call, so that this is more than a full
/// completion queue.
pub const LOOK_ROUNDS: u32 = 32;
