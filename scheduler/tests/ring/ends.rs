//! The end of a ring with operations in flight, and the child of a fork.

use crate::support::{LONG, pipe, ring};
use io_uring::{opcode, types};
use scheduler::internals::driver::{Caps, Ring};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

fn read(ring: &mut Ring, file: &File, buffer: &mut [u8], at: u64, tag: u64) {
    let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32).offset(at);
    // SAFETY: the tests keep the buffer until the ring is gone.
    unsafe { ring.push(read.build(), tag) };
}

/// Also where the kernel does not know how to cancel everything at once: before 5.19.
#[test]
fn draining_ends_what_would_wait_for_ever() {
    for cancel_all in [true, false] {
        let Some(mut ring) = ring(&Caps { entries: 4, cancel_all, ..Caps::ALL }) else { return };
        let pipe = pipe();
        let mut buffer = [0; 64];
        for (tag, buffer) in buffer.chunks_mut(1).enumerate() {
            read(&mut ring, &pipe.read, buffer, u64::MAX, tag as u64);
        }
        ring.look();
        let mut told = Vec::new();
        assert!(ring.drain(LONG, &mut |done| told.push(done.tag)));
        told.sort_unstable();
        assert_eq!(told, (0..64).collect::<Vec<_>>());
        assert_eq!(ring.in_flight(), 0);
    }
}

/// Closing a ring does not stop the kernel: what it reads it would write over whatever the memory is used for next.
#[test]
fn memory_is_left_alone_after_the_end() {
    const PART: usize = 1 << 20;
    const PARTS: usize = 64;
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ring-{}", std::process::id()));
    std::fs::write(&path, vec![1u8; PART * PARTS]).expect("a file");
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    let file = direct.or_else(|_| File::open(&path)).expect("the file");
    std::fs::remove_file(&path).expect("gone");
    for _ in 0..5 {
        let mut memory = vec![0u8; PART * PARTS + 4096];
        let skip = memory.as_ptr().align_offset(4096);
        let memory = &mut memory[skip..][..PART * PARTS];
        for (tag, part) in memory.chunks_mut(PART).enumerate() {
            read(&mut ring, &file, part, (tag * PART) as u64, tag as u64);
        }
        ring.look();
        drop(std::mem::replace(&mut ring, self::ring(&Caps::ALL).expect("another")));
        memory.fill(2);
        std::thread::sleep(Duration::from_millis(30));
        assert!(memory.iter().all(|&byte| byte == 2), "written to after the ring was gone");
    }
}

#[test]
fn a_child_leaves_the_ring_alone() {
    let Some(mut ring) = ring(&Caps::ALL) else { return };
    scheduler::Scheduler::builder().workers(1).build().expect("counts forks from now on");
    let pipe = pipe();
    pipe.poll(&mut ring, 5);
    ring.look();
    // SAFETY: the child calls nothing that takes a lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The ring is not mapped here: any access ends the child.
        let quiet = ring.forked() && !ring.wants_look() && !ring.wait(Some(LONG));
        ring.look();
        drop(ring);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if quiet { 7 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: fills the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:x}");
    pipe.fill();
    assert!(ring.wait(Some(LONG)));
    assert_eq!(ring.pop().map(|done| done.tag), Some(5), "the parent's ring goes on");
}
