//! What a ring is opened with, and what it does without.

use crate::support::{LONG, all, nop, pipe, ring};
use scheduler::internals::driver::{Caps, Ring};
use scheduler::internals::park::Parker;
use scheduler::internals::sync::Arc;
use scheduler::{IoDriver, NoRing};

/// It completes what is pushed, and its bell is heard.
fn works(mut ring: Ring) {
    (1..=300).for_each(|tag| nop(&mut ring, tag));
    let mut tags: Vec<_> = all(&mut ring).iter().map(|done| done.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (1..=300).collect::<Vec<_>>());
    let pipe = pipe();
    pipe.poll(&mut ring, 7);
    ring.look();
    assert!(ring.pop().is_none());
    pipe.fill();
    assert!(ring.wait(Some(LONG)));
    assert_eq!(ring.pop().map(|done| done.tag), Some(7));
}

#[test]
fn with_everything_the_kernel_has() {
    let Some(ring) = ring(&Caps::ALL) else { return };
    assert!(ring.supports(io_uring::opcode::Read::CODE));
    works(ring);
}

#[test]
fn without_any_one_capability() {
    let less: [fn(&mut Caps); 9] = [
        |caps| caps.no_sqarray = false,
        |caps| caps.defer = false,
        |caps| (caps.defer, caps.coop) = (false, false),
        |caps| caps.submit_all = false,
        |caps| caps.no_iowait = false,
        |caps| caps.cancel_all = false,
        |caps| caps.registered = false,
        |caps| caps.try_wake = false,
        |caps| caps.entries = 2,
    ];
    for less in less {
        let mut caps = Caps::ALL;
        less(&mut caps);
        let Some(ring) = ring(&caps) else { return };
        works(ring);
    }
}

#[test]
fn without_all_of_them() {
    let caps = Caps {
        no_sqarray: false,
        defer: false,
        coop: false,
        submit_all: false,
        no_iowait: false,
        registered: false,
        ..Caps::ALL
    };
    let Some(ring) = ring(&caps) else { return };
    assert_eq!(ring.driver().to_string(), "uring without NO_IOWAIT and DEFER_TASKRUN");
    works(ring);
}

#[test]
fn flags_are_given_up_one_by_one() {
    // Index array; issuer and deferral for cooperation; cooperation; all the rest.
    let expected = [true, true, false, false, false];
    for (refusals, defer) in expected.into_iter().enumerate() {
        let caps = Caps { refuse: (refusals as u32, libc::EINVAL), ..Caps::ALL };
        let Some(ring) = ring(&caps) else { return };
        let IoDriver::Uring { defer_taskrun, entries, .. } = ring.driver() else { panic!("{}", ring.driver()) };
        assert!(!defer_taskrun || defer, "after {refusals} refusals");
        assert_eq!(entries, Caps::ALL.entries);
        works(ring);
    }
    let caps = Caps { refuse: (5, libc::EINVAL), ..Caps::ALL };
    let refused = Ring::open(&caps, &Arc::new(Parker::new())).err();
    assert_eq!(refused, Some(NoRing::Refused { call: "io_uring_setup", errno: libc::EINVAL }));
}

#[test]
fn lack_of_locked_memory_makes_rings_smaller() {
    let tries = scheduler::internals::config::MEMLOCK_TRIES;
    for (refusals, expected) in [(tries, 128), (tries + 1, 64), (tries + 2, 32)] {
        let caps = Caps { refuse: (refusals, libc::ENOMEM), ..Caps::ALL };
        let Some(ring) = ring(&caps) else { return };
        let IoDriver::Uring { entries, .. } = ring.driver() else { panic!("{}", ring.driver()) };
        assert_eq!(entries, expected);
        assert_eq!(ring.driver().to_string().contains("entries"), expected != 128, "{}", ring.driver());
        works(ring);
    }
    let caps = Caps { refuse: (2 * tries + 3, libc::ENOMEM), ..Caps::ALL };
    let refused = Ring::open(&caps, &Arc::new(Parker::new())).err();
    assert_eq!(refused, Some(NoRing::Refused { call: "io_uring_setup", errno: libc::ENOMEM }));
}

#[test]
fn any_other_errno_is_the_end() {
    for (errno, name) in [
        (libc::EPERM, "io_uring_setup EPERM"),
        (libc::ENOSYS, "io_uring_setup ENOSYS"),
        (libc::EOPNOTSUPP, "io_uring_setup EOPNOTSUPP"),
        (libc::EMFILE, "io_uring_setup EMFILE"),
        (libc::EXDEV, "io_uring_setup errno 18"),
    ] {
        let caps = Caps { refuse: (1, errno), ..Caps::ALL };
        let why = Ring::open(&caps, &Arc::new(Parker::new())).err().expect("refused");
        assert!(why.to_string().starts_with(name), "{why}");
        assert!(IoDriver::Epoll(why).to_string().starts_with(&format!("epoll: {name}")));
    }
}

#[test]
fn a_kernel_without_multishot_polls_is_too_old() {
    let caps = Caps { multishot: false, ..Caps::ALL };
    let why = Ring::open(&caps, &Arc::new(Parker::new())).err().expect("refused");
    assert!(matches!(why, NoRing::Lacks(_) | NoRing::Refused { .. }), "{why}");
}
