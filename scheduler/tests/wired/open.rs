//! Which driver a worker has, and why.

use crate::support::{driver, has_rings, refused, tuning, wired};
use scheduler::internals::worker::with_ring;
use scheduler::{BuildError, Io, IoDriver, NoRing, Scheduler};

fn tries(scheduler: &Scheduler) -> bool {
    scheduler.spawn(|| with_ring(|_| ()).is_some()).unwrap().join().unwrap()
}

#[test]
fn nothing_is_opened_before_it_is_needed() {
    let scheduler = wired(2, tuning());
    (0..1000).for_each(|_| scheduler.spawn(|| ()).unwrap().join().unwrap());
    assert_eq!(driver(&scheduler), IoDriver::Unused);
    assert_eq!(driver(&scheduler).to_string(), "unused");
    assert!(scheduler::internals::shared(&scheduler).workers.iter().all(|worker| worker.parker.bell().is_none()));
    assert!(with_ring(|_| ()).is_none(), "no worker");
}

#[test]
fn by_name() {
    if has_rings() {
        let scheduler = Scheduler::builder().workers(2).io(Io::Uring).build().unwrap();
        for worker in scheduler.metrics().workers {
            assert!(worker.io.to_string().starts_with("uring"), "{}", worker.io);
        }
        assert!(tries(&scheduler));
    }
    let scheduler = Scheduler::builder().workers(1).io(Io::Epoll).build().unwrap();
    assert_eq!(driver(&scheduler).to_string(), "epoll: as configured");
    assert!(!tries(&scheduler));
    assert_eq!(driver(&scheduler).to_string(), "epoll: as configured");
}

#[test]
fn refused_by_the_kernel() {
    let scheduler = wired(1, refused(libc::ENOSYS));
    assert!(!tries(&scheduler));
    assert_eq!(driver(&scheduler).to_string(), "epoll: io_uring_setup ENOSYS");
    let build = || Scheduler::builder().workers(2).tuning(refused(libc::EPERM));
    let error = build().io(Io::Uring).build().map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("io(Uring): worker 0 gets no ring: io_uring_setup EPERM"), "{error}");
    let BuildError::Io { worker: 0, why: NoRing::Refused { call: "io_uring_setup", errno: libc::EPERM } } = error
    else {
        panic!("{error:?}");
    };
    assert!(build().io(Io::Auto).build().is_ok());
}
