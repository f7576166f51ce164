//! Filters of system calls, as containers have them, and the limit of locked memory.

use crate::support::{LONG, all, apart, deny, nop, pipe};
use scheduler::NoRing;
use scheduler::internals::driver::{Caps, Ring};
use scheduler::internals::park::Parker;
use scheduler::internals::sync::Arc;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

fn open() -> Result<Ring, NoRing> {
    Ring::open(&Caps::ALL, &Arc::new(Parker::new()))
}

/// There is a ring to be had here without filters.
fn allowed() -> bool {
    let allowed = open().is_ok();
    if !allowed {
        println!("skipped: no ring to deny");
    }
    allowed
}

#[test]
fn a_filter_that_denies_the_set_up() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let why = apart(move || {
            deny(libc::SYS_io_uring_setup, errno, None, false);
            open().err()
        });
        assert_eq!(why, Some(NoRing::Refused { call: "io_uring_setup", errno }));
    }
}

#[test]
fn a_filter_that_allows_the_set_up_only() {
    if !allowed() {
        return;
    }
    for (number, call) in
        [(libc::SYS_io_uring_enter, "io_uring_enter"), (libc::SYS_io_uring_register, "io_uring_register")]
    {
        let why = apart(move || {
            deny(number, libc::EPERM, None, false);
            open().err()
        });
        assert_eq!(why, Some(NoRing::Refused { call, errno: libc::EPERM }));
    }
}

/// `IoUring::submit` and its kin forget that the descriptor was registered: whoever enters by descriptor is refused.
#[test]
fn the_registered_descriptor_is_used() {
    const REGISTERED_RING: u32 = 16;
    if !allowed() {
        return;
    }
    apart(|| {
        deny(libc::SYS_io_uring_enter, libc::EPERM, Some((3, REGISTERED_RING)), false);
        let mut ring = open().expect("entered by index");
        nop(&mut ring, 3);
        assert_eq!(all(&mut ring).len(), 1);
        let without = Ring::open(&Caps { registered: false, ..Caps::ALL }, &Arc::new(Parker::new()));
        assert!(without.is_err(), "the filter sees who enters by descriptor");
    });
}

/// A sleep in the ring must not pass for a sleep on a disk.
#[test]
fn sleeps_are_no_iowait() {
    const NO_IOWAIT: u32 = 128;
    if !open().is_ok_and(|ring| ring.driver().to_string() == "uring") {
        return println!("skipped: no ring, or a kernel without the flag");
    }
    apart(|| {
        deny(libc::SYS_io_uring_enter, libc::EPERM, Some((3, NO_IOWAIT)), true);
        let mut ring = open().expect("sleeps with the flag");
        let pipe = pipe();
        pipe.poll(&mut ring, 3);
        pipe.fill();
        assert!(ring.wait(Some(LONG)));
        let without = Ring::open(&Caps { no_iowait: false, ..Caps::ALL }, &Arc::new(Parker::new()));
        assert!(without.is_err(), "the filter sees who sleeps without the flag");
    });
}

/// The test binary, once more, as nobody and with 64 KiB that may be locked.
#[test]
fn rings_of_a_user_with_little_locked_memory() {
    const INSIDE: &str = "RING_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return little_locked_memory();
    }
    if !allowed() {
        return;
    }
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can become somebody else");
    }
    let name = "denied::rings_of_a_user_with_little_locked_memory";
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", name, "--nocapture"]).env(INSIDE, "1").uid(65534).gid(65534);
    let limit = || {
        let limit = libc::rlimit { rlim_cur: 32 << 10, rlim_max: 64 << 10 };
        // SAFETY: the kernel reads the limit.
        match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call.
    unsafe { command.pre_exec(limit) };
    match command.output() {
        Err(refused) => println!("skipped: nobody may not run this: {refused}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
            println!("{text}");
        }
    }
}

fn little_locked_memory() {
    let mut rings = Vec::new();
    let why = loop {
        match open() {
            Ok(ring) => rings.push(ring),
            Err(why) => break why,
        }
        if rings.len() == 1000 {
            return println!("skipped: this kernel does not count rings as locked memory");
        }
    };
    println!("{} rings at once, then {why}", rings.len());
    assert!(!rings.is_empty(), "no ring at all");
    assert_eq!(why, NoRing::Refused { call: "io_uring_setup", errno: libc::ENOMEM });
    // The others still work.
    for ring in &mut rings {
        nop(ring, 1);
        assert_eq!(all(ring).len(), 1);
    }
    drop(rings);
    // Memory comes back late: whoever waits gets his ring.
    let mut refused = 0;
    for _ in 0..200 {
        let began = Instant::now();
        while let Err(why) = open() {
            assert_eq!(why, NoRing::Refused { call: "io_uring_setup", errno: libc::ENOMEM });
            assert!(began.elapsed() < LONG, "never again");
            refused += 1;
        }
    }
    println!("{refused} refusals in 200 rings, one after the other");
}
