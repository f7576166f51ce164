//! Rings, pipes, and a filter for system calls.

use io_uring::{opcode, types};
use scheduler::internals::driver::{Caps, Completion, Ring};
use scheduler::internals::park::Parker;
use scheduler::internals::sync::Arc;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

/// Longer than anything takes that is going to happen.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A ring with `caps`, or `None` and a word about it.
pub(crate) fn ring(caps: &Caps) -> Option<Ring> {
    match Ring::open(caps, &Arc::new(Parker::new())) {
        Ok(ring) => Some(ring),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Both ends of a pipe.
pub(crate) struct Pipe {
    pub(crate) read: File,
    pub(crate) write: File,
}

pub(crate) fn pipe() -> Pipe {
    let mut ends = [0; 2];
    // SAFETY: fills two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: fresh.
    let read = unsafe { File::from_raw_fd(ends[0]) };
    // SAFETY: fresh.
    let write = unsafe { File::from_raw_fd(ends[1]) };
    Pipe { read, write }
}

impl Pipe {
    /// An operation that ends when something was written.
    pub(crate) fn poll(&self, ring: &mut Ring, tag: u64) {
        let poll = opcode::PollAdd::new(types::Fd(self.read.as_raw_fd()), libc::POLLIN as u32);
        // SAFETY: it points at nothing.
        unsafe { ring.push(poll.build(), tag) };
    }

    pub(crate) fn fill(&self) {
        (&self.write).write_all(b"x").expect("room in a pipe");
    }
}

/// An operation that ends at once.
pub(crate) fn nop(ring: &mut Ring, tag: u64) {
    // SAFETY: it points at nothing.
    unsafe { ring.push(opcode::Nop::new().build(), tag) };
}

/// What completes until nothing is in flight.
pub(crate) fn all(ring: &mut Ring) -> Vec<Completion> {
    let mut all = Vec::new();
    while ring.in_flight() != 0 {
        assert!(ring.wait(Some(LONG)), "the kernel has room");
        let before = all.len();
        all.extend(std::iter::from_fn(|| ring.pop()));
        assert!(all.len() != before || ring.counts().rung != 0, "slept for nothing");
    }
    all
}

/// The calling thread gets `errno` for the system call `number` if `condition` holds: `(argument, bits)`, the bits are
/// not all set; with `least`, only if the third argument is not zero.
pub(crate) fn deny(number: libc::c_long, errno: i32, condition: Option<(u32, u32)>, waiting: bool) {
    let load = |at: u32| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: at };
    let equal = |value: u32, yes, no| libc::sock_filter { code: 0x15, jt: yes, jf: no, k: value };
    let and = |bits| libc::sock_filter { code: 0x54, jt: 0, jf: 0, k: bits };
    let answer = |what| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: what };
    let argument = |index: u32| 16 + 8 * index;
    let (allow, refuse) = (answer(0x7fff_0000), answer(0x0005_0000 | errno as u32));
    let mut filter = vec![load(0), equal(number as u32, 1, 0), allow];
    if waiting {
        filter.extend([load(argument(2)), equal(0, 0, 1), allow]);
    }
    if let Some((index, bits)) = condition {
        filter.extend([load(argument(index)), and(bits), equal(bits, 0, 1), allow]);
    }
    filter.push(refuse);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the kernel copies the program.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "filters of system calls");
}

/// Runs `body` on a thread of its own, which may be filtered.
pub(crate) fn apart<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::spawn(body).join().expect("no panic")
}
