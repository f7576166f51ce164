//! The calls around one ring of `io_uring(7)`, without policy: set it up, put entries in, enter, take completions out;
//! and `eventfd(2)`, which rings somebody out of his ring.
#![expect(unsafe_code, reason = "raw system calls")]

use io_uring::{EnterFlags, IoUring, Probe, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

const IORING_REGISTER_RING_FDS: libc::c_uint = 20;
const IORING_UNREGISTER_RING_FDS: libc::c_uint = 21;

/// The end of an operation, or one of several results of it ([`Completion::more`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the operation was pushed with.
    pub tag: u64,
    /// What it says: zero or more, or a negative errno.
    pub result: i32,
    /// The kernel's flags, `IORING_CQE_F_*`.
    pub flags: u32,
}

impl Completion {
    /// The operation goes on: the kernel still has what it was given.
    pub fn more(&self) -> bool {
        io_uring::cqueue::more(self.flags)
    }
}

/// A call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub call: &'static str,
    /// The errno.
    pub errno: i32,
}

impl Refused {
    fn by(call: &'static str, error: &io::Error) -> Self {
        Refused { call, errno: error.raw_os_error().unwrap_or(0) }
    }
}

/// What a ring is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Entries of the submission queue.
    pub entries: u32,
    /// Entries of the completion queue.
    pub completions: u32,
    /// One bad entry does not hold up those behind it (5.18).
    pub submit_all: bool,
    /// No interrupts for completions, and a flag that says when there are some (5.19).
    pub coop: bool,
    /// One thread only, and completions when it asks for them, with the same flag (6.1).
    pub defer: bool,
    /// No index array (6.6).
    pub no_sqarray: bool,
}

/// What a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Nothing dropped, stable submissions, polling instead of threads, waits with a time limit: 5.11.
    pub basics: bool,
    /// Polls that fire more than once: 5.13.
    pub multishot: bool,
    /// Waits that do not count as waiting for a disk: 6.15.
    pub no_iowait: bool,
}

/// How long [`Port::enter`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Not at all.
    No,
    /// Until there is a completion.
    Until,
    /// Until there is a completion, or so long.
    AtMost(Duration),
}

/// Why [`Port::enter`] is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// For whatever reason, perhaps none.
    Early,
    /// The time is over.
    Over,
}

#[repr(C)]
struct WaitArg {
    sigmask: u64,
    sigmask_size: u32,
    min_wait_usec: u32,
    timespec: u64,
}

/// A ring; of the thread that made it.
pub struct Port {
    ring: IoUring,
    /// The index under which this thread's table has the ring, which spares the kernel a look-up per call.
    registered: Option<u32>,
    no_iowait: bool,
}

impl Port {
    /// `io_uring_setup` and the mappings, which a child of a fork does not get.
    ///
    /// # Errors
    /// Whatever the kernel says; every errno is for the caller to judge.
    pub fn open(setup: &Setup) -> Result<Port, Refused> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(setup.completions);
        if setup.submit_all {
            builder.setup_submit_all();
        }
        if setup.coop {
            builder.setup_coop_taskrun();
        }
        if setup.defer {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        if setup.coop || setup.defer {
            builder.setup_taskrun_flag();
        }
        if setup.no_sqarray {
            builder.setup_no_sqarray();
        }
        let ring = builder.build(setup.entries).map_err(|error| Refused::by("io_uring_setup", &error))?;
        Ok(Port { ring, registered: None, no_iowait: false })
    }

    /// What the kernel said about itself.
    pub fn features(&self) -> Features {
        let params = self.ring.params();
        Features {
            basics: params.is_feature_nodrop()
                && params.is_feature_submit_stable()
                && params.is_feature_fast_poll()
                && params.is_feature_ext_arg(),
            multishot: params.is_feature_resource_tagging(),
            no_iowait: params.is_feature_no_iowait(),
        }
    }

    /// From now on waits do not count as waiting for a disk.
    pub fn forgo_iowait(&mut self) {
        self.no_iowait = true;
    }

    /// `io_uring_register(PROBE)`: a bit per operation that the kernel has.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn operations(&self) -> Result<[u64; 4], Refused> {
        let mut probe = Probe::new();
        let told = self.ring.submitter().register_probe(&mut probe);
        told.map_err(|error| Refused::by("io_uring_register", &error))?;
        let mut bits = [0u64; 4];
        for code in (0..=u8::MAX).filter(|&code| probe.is_supported(code)) {
            bits[usize::from(code >> 6)] |= 1 << (code & 63);
        }
        Ok(bits)
    }

    /// `io_uring_register(IOWQ_MAX_WORKERS)`: most threads that the kernel starts for this thread's operations, for
    /// files and for everything else. Before 5.15 there is no such limit (EINVAL is ignored).
    pub fn limit_threads(&self, files: u32, others: u32) {
        let _ = self.ring.submitter().register_iowq_max_workers(&mut [files, others]);
    }

    /// `io_uring_register(RING_FDS)`: from now on the calling thread enters by index. Before 5.18, and when the
    /// thread's table is full, it goes on by descriptor (all errnos are ignored). True: registered.
    pub fn register(&mut self) -> bool {
        let mut update = [u64::from(u32::MAX), self.ring.as_raw_fd() as u64];
        if self.registered.is_none() && self.call_register(IORING_REGISTER_RING_FDS, &mut update) == 1 {
            self.registered = Some(update[0] as u32);
        }
        self.registered.is_some()
    }

    /// `update` is a `struct io_uring_rsrc_update`: an offset with four bytes of padding, and a value.
    fn call_register(&self, what: libc::c_uint, update: &mut [u64; 2]) -> libc::c_long {
        let fd = self.ring.as_raw_fd();
        // SAFETY: the kernel reads and writes one update, which outlives the call.
        unsafe { libc::syscall(libc::SYS_io_uring_register, fd, what, update.as_mut_ptr(), 1) }
    }

    /// The completion queue's length.
    pub fn completions(&self) -> usize {
        self.ring.params().cq_entries() as usize
    }

    /// Entries that the submission queue has room for.
    pub fn room(&mut self) -> usize {
        let queue = self.ring.submission();
        queue.capacity() - queue.len()
    }

    /// Entries that the kernel has not taken yet.
    pub fn unsent(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Puts an entry into the submission queue. False: there is no room.
    ///
    /// # Safety
    /// 1. What the entry points at lives until its last completion.
    pub unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: 1.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Puts in a poll of `bell` that fires whenever it is rung. False: there is no room.
    pub fn push_poll(&mut self, bell: &Bell, tag: u64) -> bool {
        let poll = opcode::PollAdd::new(types::Fd(bell.0.as_raw_fd()), libc::POLLIN as u32).multi(true);
        // SAFETY: it points at nothing.
        unsafe { self.push(&poll.build().user_data(tag)) }
    }

    /// Puts in a request to cancel what has the tag `target`. False: there is no room.
    pub fn push_cancel(&mut self, target: u64, tag: u64) -> bool {
        // SAFETY: it points at nothing.
        unsafe { self.push(&opcode::AsyncCancel::new(target).build().user_data(tag)) }
    }

    /// Puts in a request to cancel everything (5.19; EINVAL before). False: there is no room.
    pub fn push_cancel_all(&mut self, tag: u64) -> bool {
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any().all());
        // SAFETY: it points at nothing.
        unsafe { self.push(&cancel.build().user_data(tag)) }
    }

    /// `io_uring_enter`: hands over what is in the submission queue, lets the kernel deliver completions, and waits.
    /// What it returns says nothing about whether there are completions: look.
    ///
    /// # Errors
    /// EINTR (a signal) is none. EAGAIN, EBUSY, ENOMEM: the kernel has no room now, and
    /// has taken some of the entries or none. EBADR: it has lost completions. All others: the ring is of no use.
    pub fn enter(&mut self, stay: Stay) -> Result<Woken, i32> {
        let count = self.unsent();
        let mut flags = EnterFlags::GETEVENTS;
        let fd = match self.registered {
            Some(index) => {
                flags |= EnterFlags::REGISTERED_RING;
                index as i32
            }
            None => self.ring.as_raw_fd(),
        };
        if stay != Stay::No && self.no_iowait {
            flags |= EnterFlags::NO_IOWAIT;
        }
        let mut timespec = [0i64; 2];
        let mut arg = WaitArg { sigmask: 0, sigmask_size: 0, min_wait_usec: 0, timespec: 0 };
        let (mut place, mut size) = (std::ptr::null(), 0);
        if let Stay::AtMost(limit) = stay {
            timespec = [limit.as_secs().min(i64::MAX as u64) as i64, i64::from(limit.subsec_nanos())];
            arg.timespec = timespec.as_ptr().expose_provenance() as u64;
            flags |= EnterFlags::EXT_ARG;
            (place, size) = (&raw const arg, size_of::<WaitArg>());
        }
        let least = libc::c_long::from(stay != Stay::No);
        let (call, flags) = (libc::SYS_io_uring_enter, flags.bits());
        // SAFETY: what the arguments point at outlives the call; the entries are their pushers' promise.
        let rc = unsafe { libc::syscall(call, fd, count as libc::c_long, least, flags, place, size) };
        std::hint::black_box(&timespec);
        if rc >= 0 {
            return Ok(Woken::Early);
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ETIME) => Ok(Woken::Over),
            Some(libc::EINTR) | None => Ok(Woken::Early),
            Some(errno) => Err(errno),
        }
    }

    /// Takes out the oldest completion.
    pub fn pop(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        Some(Completion { tag: entry.user_data(), result: entry.result(), flags: entry.flags() })
    }

    /// There are completions, or the kernel has some that it hands out only when it is entered.
    pub fn has_news(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.withholds()
    }

    /// The kernel has completions that it hands out only when it is entered: because the queue was full, or because it
    /// was asked to.
    pub fn withholds(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.cq_overflow() || queue.taskrun()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(index) = self.registered {
            // Otherwise the thread's table keeps the ring.
            self.call_register(IORING_UNREGISTER_RING_FDS, &mut [u64::from(index), 0]);
        }
    }
}

/// An `eventfd`: rung by anybody, polled by a ring.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// `eventfd(CLOEXEC | NONBLOCK)`.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM, or whatever else the kernel says.
    pub fn new() -> Result<Bell, Refused> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Refused::by("eventfd", &io::Error::last_os_error()));
        }
        // SAFETY: fresh, and nobody else's.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// `write`: EAGAIN (it was rung 2^64 times and nobody has looked) is as good as a ring.
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads the eight bytes of `one`.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// `read`: forgets that it was rung. False: it was not (EAGAIN).
    pub fn hush(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the kernel writes the eight bytes of `count`.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        read == size_of::<u64>() as isize
    }
}

/// `getrlimit` and `setrlimit(RLIMIT_MEMLOCK)`: raises the soft limit to the hard one, which memory of rings counts
/// against unless the process is privileged. False: it is there already, or the call was refused.
pub fn raise_memlock() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills `limit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 || limit.rlim_cur == limit.rlim_max {
        return false;
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads `limit`.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) == 0 }
}

/// The switch of the system administrator, `/proc/sys/kernel/io_uring_disabled`: 0, 1 or 2.
pub fn administrators_switch() -> Option<u8> {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}
