//! What a round is like: how many workers, on how many CPUs, and what goes wrong meanwhile.

use scheduler::Barrier;

/// What is done to the threads while a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Signals whose handler sleeps for some milliseconds: a thread is stalled at a random instruction.
    Stalls,
    /// Signals without `SA_RESTART`: every system call of a thread may end with EINTR.
    Interrupts,
}

/// One kind of round.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// A word for the report.
    pub name: &'static str,
    /// Workers of a scheduler, unless a test needs another number.
    pub workers: usize,
    /// The barrier.
    pub barrier: Barrier,
    /// As if the kernel had no membarrier: owners fence, too.
    pub bare: bool,
    /// What goes wrong.
    pub fault: Fault,
    /// Everything on one CPU.
    pub one_cpu: bool,
    /// The class that gets several times its usual time, by the name of its file; empty for none.
    pub emphasis: &'static str,
    /// Submitter threads where a test has several.
    pub submitters: usize,
}

/// Rounds in the gate.
pub const ROUNDS: u32 = 20;

const PLAIN: Profile = Profile {
    name: "plain",
    workers: 2,
    barrier: Barrier::Auto,
    bare: false,
    fault: Fault::None,
    one_cpu: false,
    emphasis: "",
    submitters: 4,
};

/// The profile of round 1 to 20; higher numbers begin again.
pub fn of_round(round: u32) -> Profile {
    let plain = |workers| Profile { workers, ..PLAIN };
    let fence = |workers| Profile { name: "fence", barrier: Barrier::Fence, workers, ..PLAIN };
    let stalls = |workers| Profile { name: "stalls", fault: Fault::Stalls, workers, ..PLAIN };
    let interrupts = |workers| Profile { name: "interrupts", fault: Fault::Interrupts, workers, ..PLAIN };
    let one_cpu = |workers| Profile { name: "one cpu", one_cpu: true, workers, ..PLAIN };
    let emphasis = |name, workers| Profile { name, emphasis: name, workers, ..PLAIN };
    match (round.max(1) - 1) % ROUNDS + 1 {
        1 => plain(1),
        2 => plain(2),
        3 => plain(3),
        4 => plain(4),
        5 => plain(8),
        6 => plain(32),
        7 => fence(2),
        8 => Profile { bare: true, ..fence(4) },
        9 => stalls(2),
        10 => stalls(3),
        11 => stalls(4),
        12 => Profile { barrier: Barrier::Fence, ..stalls(8) },
        13 => interrupts(2),
        14 => Profile { barrier: Barrier::Fence, bare: true, ..interrupts(4) },
        15 => one_cpu(1),
        16 => one_cpu(4),
        17 => emphasis("lifecycle", 2),
        18 => emphasis("wrap", 3),
        19 => Profile { name: "oversubscribed", submitters: 32, ..plain(32) },
        _ => emphasis("pingpong", 2),
    }
}
