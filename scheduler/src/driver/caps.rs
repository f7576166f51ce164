//! What may be used of a kernel, and what became of it.

use crate::error::NoRing;
use std::fmt;

/// What a ring may use: each can be taken away, so that a new kernel passes for an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// No index array (6.6).
    pub no_sqarray: bool,
    /// One issuer, and completions when it asks (6.1).
    pub defer: bool,
    /// No interrupts for completions (5.19).
    pub coop: bool,
    /// A bad entry holds up nobody (5.18).
    pub submit_all: bool,
    /// Waits that do not count as waiting for a disk (6.15).
    pub no_iowait: bool,
    /// Polls that fire more than once (5.13); without them there is no ring.
    pub multishot: bool,
    /// Cancelling everything at once (5.19).
    pub cancel_all: bool,
    /// Entering by index instead of by descriptor (5.18).
    pub registered: bool,
    /// The bell is rung once before the ring is used.
    pub try_wake: bool,
    /// Entries of the submission queue; the completion queue has four times as many.
    pub entries: u32,
    /// The kernel refuses the first so many calls of `io_uring_setup`, with this errno.
    pub refuse: (u32, i32),
}

impl Caps {
    /// Everything that the kernel has.
    pub const ALL: Caps = Caps {
        no_sqarray: true,
        defer: true,
        coop: true,
        submit_all: true,
        no_iowait: true,
        multishot: true,
        cancel_all: true,
        registered: true,
        try_wake: true,
        entries: crate::config::RING_ENTRIES,
        refuse: (0, 0),
    };
}

impl Default for Caps {
    fn default() -> Self {
        Caps::ALL
    }
}

/// What does the I/O of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoDriver {
    /// Nothing yet: a ring is made when the worker first needs one.
    Unused,
    /// A ring of its own.
    #[non_exhaustive]
    Uring {
        /// Its waits do not count as waiting for a disk.
        no_iowait: bool,
        /// Completions come when it asks for them, without interrupts.
        defer_taskrun: bool,
        /// Entries of its submission queue: fewer than usual where locked memory is scarce.
        entries: u32,
    },
    /// The thread that polls for all, and the threads for files.
    Epoll(NoRing),
}

impl fmt::Display for IoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoDriver::Unused => f.write_str("unused"),
            IoDriver::Uring { no_iowait, defer_taskrun, entries } => {
                f.write_str("uring")?;
                let mut without = [(*no_iowait, "NO_IOWAIT"), (*defer_taskrun, "DEFER_TASKRUN")]
                    .into_iter()
                    .filter_map(|(has, name)| (!has).then_some(name));
                if let Some(first) = without.next() {
                    write!(f, " without {first}")?;
                }
                without.try_for_each(|name| write!(f, " and {name}"))?;
                if *entries < crate::config::RING_ENTRIES {
                    write!(f, ", {entries} entries")?;
                }
                Ok(())
            }
            IoDriver::Epoll(why) => write!(f, "epoll: {why}"),
        }
    }
}
