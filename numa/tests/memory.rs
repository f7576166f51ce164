//! Memory of one's own, and where its pages are. What needs more than one node to be seen runs in the guest.
#![cfg(not(loom))]

use numa::{CpuSet, Local, MemoryError, NodeId, Topology, page_nodes};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

/// `None` where the question itself is refused; says so.
fn told<T>(answer: Result<T, MemoryError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(MemoryError::NotPermitted | MemoryError::NotSupported) => {
            println!("skipped: this kernel does not tell where pages are");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_value_in_pages_of_its_own() {
    let mut local = Local::new([7_u64; 1000]).unwrap();
    let address = (&raw const *local).addr();
    assert_eq!(address % 4096, 0);
    local[999] = 8;
    assert_eq!(local.iter().sum::<u64>(), 999 * 7 + 8);
    let other = Local::new(1_u8).unwrap();
    assert_eq!((&raw const *other).addr() % 4096, 0);
    // A box can be sent; so can this.
    assert_eq!(thread::spawn(move || local[999]).join().unwrap(), 8);
}

#[test]
fn values_are_dropped_once_and_pages_with_them() {
    let counted = Arc::new(());
    drop(Local::new(counted.clone()).unwrap());
    drop(Local::from_fn(5000, |_| counted.clone()).unwrap());
    assert_eq!(Arc::strong_count(&counted), 1);
    // Half made: what is there is dropped, the rest was never there.
    let made = catch_unwind(AssertUnwindSafe(|| {
        Local::from_fn(100, |index| {
            assert!(index < 50);
            counted.clone()
        })
    }));
    assert!(made.is_err());
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn mappings_are_given_back() {
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let before = mappings();
    (0..2000).for_each(|index| drop(Local::new(index).unwrap()));
    // Other tests run beside this one.
    assert!(mappings() < before + 500, "{} mappings, {before} before", mappings());
}

#[test]
fn what_cannot_be_had() {
    let error = Local::from_fn(usize::MAX / 2, |_| 0_u64).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
    let error = Local::from_fn(1 << 50, |_| 0_u8).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    assert_eq!(Local::from_fn(0, |_| 0_u8).unwrap().len(), 0);
    assert_eq!(Local::from_fn(1000, drop).unwrap().len(), 1000); // values without a size need one page
}

#[test]
fn pages_lie_on_the_node_of_the_thread_that_made_them() {
    let host = Topology::discover();
    for node in 0..host.nodes().len() {
        let cpus = host.nodes()[node].residents().intersection(host.allowed());
        let Some(cpu) = cpus.first() else { continue };
        let expected = host.nodes()[host.nearest_memory(node)].id;
        thread::spawn(move || {
            numa::bind_current_thread(&CpuSet::single(cpu)).unwrap();
            let local = Local::from_fn(64 * 4096, |index| index as u8).unwrap();
            let Some(pages) = told(local.pages()) else { return };
            assert!(pages.all_on(expected) && pages.total() == 64, "CPU {cpu}: {pages}");
        })
        .join()
        .unwrap();
    }
}

#[test]
fn pages_without_content_are_allocated_too() {
    // Values that write nothing: an empty ring. Its pages must be there before a thief comes.
    let ring = Local::from_fn(1 << 20, |_| MaybeUninit::<u8>::uninit()).unwrap();
    let Some(pages) = told(ring.pages()) else { return };
    assert_eq!((pages.total(), pages.untouched, pages.on.values().sum::<usize>()), (256, 0, 256));
}

#[test]
fn what_is_not_mapped_is_nowhere() {
    let Some(nothing) = told(page_nodes(std::ptr::null(), 0)) else { return };
    assert_eq!(nothing.total(), 0);
    let Some(absent) = told(page_nodes(std::ptr::without_provenance(4096), 10_000)) else { return };
    assert_eq!((absent.total(), absent.untouched), (3, 3));
    let Some(top) = told(page_nodes(std::ptr::without_provenance(usize::MAX - 10), 10)) else { return };
    assert_eq!(top.total(), 1);
    assert_eq!(page_nodes(std::ptr::without_provenance(10), usize::MAX), Err(MemoryError::Failed(libc::EFAULT)));
}

#[test]
fn wishing_for_a_node_is_help_or_a_typed_refusal() {
    let sandboxed = |error: &MemoryError| matches!(error, MemoryError::NotPermitted | MemoryError::NotSupported);
    let host = Topology::discover();
    let home = host.nodes()[host.nearest_memory(0)].id;
    let local = Local::from_fn_on(home, 64 << 12, |_| 1_u8).unwrap();
    match local.refusal() {
        None => assert!(told(local.pages()).unwrap().all_on(home)),
        Some(error) => assert!(sandboxed(error), "{error}"),
    }
    // A node that is not there is refused, and the memory is as good as without the wish.
    for absent in [1023, 1024, NodeId::LIMIT - 1].map(NodeId::new) {
        let local = Local::new_on(absent, 5_u8).unwrap();
        let error = local.refusal().unwrap();
        assert!(*error == MemoryError::NodeUnusable(absent) || sandboxed(error), "{error}");
        assert_eq!(*local, 5);
    }
}
