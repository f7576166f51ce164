//! This host: discovery, and binding threads of our own.
#![cfg(not(loom))]

mod common;

use common::hosts::holds_together;
use common::set;
use numa::{CpuId, CpuSet, Source, Topology};
use std::thread;

/// On a thread of its own, so that no test finds itself bound by another.
fn on_a_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(body).join().unwrap()
}

#[test]
fn this_host_holds_together() {
    let host = Topology::discover();
    holds_together(&host);
    assert!(host.is_live());
    assert_eq!(host.allowed(), &numa::current_affinity().unwrap().intersection(host.online()));
    if host.source() == Source::Sysfs {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        assert!(set(online.trim()).is_subset(host.online()));
    }
}

#[test]
fn this_host_by_another_name_is_still_this_host() {
    assert!(Topology::from_root("/../".as_ref()).unwrap().is_live());
    assert!(!Topology::uniform(2).is_live());
}

#[test]
fn looking_moves_nobody() {
    on_a_thread(|| {
        let before = numa::current_affinity().unwrap();
        let one = CpuSet::single(before.last().unwrap());
        numa::bind_current_thread(&one).unwrap();
        let host = Topology::discover();
        assert_eq!(numa::current_affinity().unwrap(), one);
        assert_eq!((host.allowed(), host.default_workers()), (&one, 1));
    });
}

#[test]
fn binding_moves_this_thread_and_no_other() {
    let before = numa::current_affinity().unwrap();
    on_a_thread({
        let all = before.clone();
        move || {
            for cpu in all.iter() {
                numa::bind_current_thread(&CpuSet::single(cpu)).unwrap();
                assert_eq!(numa::current_affinity().unwrap(), CpuSet::single(cpu));
                assert_eq!(numa::current_cpu().unwrap(), cpu);
                let host = Topology::discover();
                let node = host.nodes()[host.home(cpu).unwrap()].id;
                assert_eq!(numa::current_node().unwrap(), node);
            }
            numa::bind_current_thread(&all).unwrap();
            assert_eq!(numa::current_affinity().unwrap(), all);
        }
    });
    assert_eq!(numa::current_affinity().unwrap(), before);
}

#[test]
fn refusals_keep_their_errno_and_change_nothing() {
    on_a_thread(|| {
        let before = numa::current_affinity().unwrap();
        // Absent CPUs: one core_affinity can express, one that would abort the process there, a set, and none.
        for cpus in [CpuSet::single(absent(1000)), CpuSet::single(absent(10_000)), set("10000-10001"), CpuSet::new()] {
            let error = numa::bind_current_thread(&cpus).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{cpus}");
        }
        assert_eq!(numa::current_affinity().unwrap(), before);
    });
}

/// A CPU this host does not have, from `id` on.
fn absent(id: u32) -> CpuId {
    let host = Topology::discover();
    let exists = host.online().union(host.offline());
    (id..CpuId::LIMIT).map(CpuId::new).find(|&cpu| !exists.contains(cpu)).unwrap()
}

#[test]
fn a_mask_wider_than_the_kernel_is_cut_to_what_exists() {
    on_a_thread(|| {
        let before = numa::current_affinity().unwrap();
        numa::bind_current_thread(&CpuSet::first_n(CpuId::LIMIT as usize)).unwrap();
        assert!(before.is_subset(&numa::current_affinity().unwrap()));
    });
}
