//! How a worker comes by its ring: what to ask for, and what to do without.

use super::caps::{Caps, IoDriver};
use crate::config::{FILE_THREADS, MEMLOCK_TRIES, MEMLOCK_WAIT_MS, OTHER_THREADS, RING_ENTRIES_MIN};
use crate::error::NoRing;
use crate::sync::{Bell, Port, Refused, Setup, Stay};
use crate::sys::uring::raise_memlock;
use io_uring::opcode;
use std::time::Duration;

/// How long the first wake-up may take.
const FIRST_WAKE: Duration = Duration::from_millis(100);

/// A port that works, what it has, and the operations it knows.
pub(super) struct Opened {
    pub(super) port: Port,
    pub(super) driver: IoDriver,
    pub(super) operations: [u64; 4],
    /// Everything can be cancelled at once.
    pub(super) cancel_all: bool,
}

/// Opens a ring with whatever of `caps` the kernel has.
pub(super) fn open(caps: &Caps, bell: &Bell) -> Result<Opened, NoRing> {
    let mut calls = 0;
    let (mut port, setup) = set_up(caps, &mut |setup| {
        calls += 1;
        if calls <= caps.refuse.0 {
            return Err(Refused { call: "io_uring_setup", errno: caps.refuse.1 });
        }
        Port::open(setup)
    })?;
    let features = port.features();
    if !features.basics {
        return Err(NoRing::Lacks("wait with a time limit in io_uring (5.11)"));
    }
    if !features.multishot || !caps.multishot {
        return Err(NoRing::Lacks("multishot poll in io_uring (5.13)"));
    }
    let operations = port.operations()?;
    for (code, name) in [(opcode::PollAdd::CODE, "poll"), (opcode::AsyncCancel::CODE, "cancellation")] {
        if !has(&operations, code) {
            return Err(NoRing::Lacks(name));
        }
    }
    port.limit_threads(FILE_THREADS, OTHER_THREADS);
    if caps.registered {
        port.register();
    }
    let no_iowait = features.no_iowait && caps.no_iowait;
    if no_iowait {
        port.forgo_iowait();
    }
    let cancel_all = if caps.try_wake { try_out(&mut port, bell, caps.cancel_all)? } else { caps.cancel_all };
    let driver = IoDriver::Uring { no_iowait, defer_taskrun: setup.defer, entries: setup.entries };
    Ok(Opened { port, driver, operations, cancel_all })
}

/// The operation is among `operations`.
pub(super) fn has(operations: &[u64; 4], code: u8) -> bool {
    operations[usize::from(code >> 6)] & 1 << (code & 63) != 0
}

type Call<'a> = dyn FnMut(&Setup) -> Result<Port, Refused> + 'a;

/// EINVAL: the kernel does not know one of the flags, the newest first. ENOMEM: what may be locked is used up, perhaps
/// by rings that are gone and not yet forgotten. Anything else: there is no ring to be had.
fn set_up(caps: &Caps, call: &mut Call<'_>) -> Result<(Port, Setup), Refused> {
    let entries = caps.entries;
    let mut setup = Setup {
        entries,
        completions: 4 * entries,
        submit_all: caps.submit_all,
        coop: caps.coop && !caps.defer,
        defer: caps.defer,
        no_sqarray: caps.no_sqarray,
    };
    let mut tries = 0;
    loop {
        let refused = match call(&setup) {
            Ok(port) => return Ok((port, setup)),
            Err(refused) => refused,
        };
        match refused.errno {
            libc::EINVAL if strip(&mut setup, caps) => {}
            libc::ENOMEM if tries < MEMLOCK_TRIES => {
                tries += 1;
                if tries > 1 || !raise_memlock() {
                    std::thread::sleep(Duration::from_millis(MEMLOCK_WAIT_MS));
                }
            }
            libc::ENOMEM if setup.entries > RING_ENTRIES_MIN => {
                setup.entries /= 2;
                setup.completions /= 2;
            }
            libc::ENOMEM if tries < 2 * MEMLOCK_TRIES => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(MEMLOCK_WAIT_MS));
            }
            _ => return Err(refused),
        }
    }
}

/// Asks for less. False: it is the least already.
fn strip(setup: &mut Setup, caps: &Caps) -> bool {
    if setup.no_sqarray {
        setup.no_sqarray = false;
    } else if setup.defer {
        setup.defer = false;
        setup.coop = caps.coop;
    } else if setup.coop {
        setup.coop = false;
    } else if setup.submit_all {
        setup.submit_all = false;
    } else {
        return false;
    }
    true
}

/// A filter of system calls may allow the set-up and nothing else: rings the bell once and listens, then cancels the
/// poll, for a ring whose operations cannot be ended is none. The poll and its completions are gone afterwards. True:
/// everything can be cancelled at once.
fn try_out(port: &mut Port, bell: &Bell, mut all: bool) -> Result<bool, NoRing> {
    const HEARD: u64 = 1;
    const ENDED: u64 = 2;
    let refused = |errno| NoRing::Refused { call: "io_uring_enter", errno };
    port.push_poll(bell, HEARD);
    port.enter(Stay::No).map_err(refused)?;
    bell.ring();
    let (mut heard, mut ended, mut over) = (false, false, false);
    // The wake; then the cancellation, in one way or the other, and the end of the poll.
    for _ in 0..6 {
        port.enter(Stay::AtMost(FIRST_WAKE)).map_err(refused)?;
        while let Some(completion) = port.pop() {
            let first = completion.tag == HEARD && completion.more() && completion.result > 0 && !heard;
            let unknown = completion.tag == ENDED && completion.result == -libc::EINVAL && all;
            heard |= first;
            all &= !unknown;
            ended |= completion.tag == ENDED && !unknown;
            if all && first {
                port.push_cancel_all(ENDED);
            } else if first || unknown {
                port.push_cancel(HEARD, ENDED);
            }
            over |= completion.tag == HEARD && !completion.more();
        }
        if heard && ended && over {
            bell.hush();
            return Ok(all);
        }
    }
    Err(NoRing::Mute)
}
