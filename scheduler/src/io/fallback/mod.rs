//! What does the work where no worker has a ring: threads that block for files, and one that waits for sockets. One set
//! for the whole process, begun when it is first needed.

pub(super) mod pool;
pub(super) mod reactor;

/// The threads that this module has begun are gone in the child of a fork.
pub(super) fn forked() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, "I/O in the child of a fork: its threads are the parent's")
}
