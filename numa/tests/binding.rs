//! Bindings: taken, lost, noticed, made again. The losses here are those anybody can cause (the mask is changed
//! behind the binding's back); those of the kernel, by cpusets and switched off CPUs, happen in the guest.
#![cfg(not(loom))]

use numa::{Binding, CpuSet, Pin, PinCheck, Placement, Seat, Topology, plan};
use std::thread;

fn on_a_thread(body: impl FnOnce() + Send + 'static) {
    thread::spawn(body).join().unwrap();
}

/// This host and the seat of a worker on its first allowed CPU; `None` with less than two CPUs.
fn two_cpus() -> Option<(Topology, Seat, CpuSet)> {
    let host = Topology::discover();
    let first = CpuSet::single(host.allowed().first().unwrap());
    let others = host.allowed().difference(&first);
    if others.is_empty() {
        println!("skipped: one CPU only");
        return None;
    }
    let seat = plan(&host, &Placement::Cpus(first), Pin::Cpu, 1).unwrap().remove(0);
    Some((host, seat, others))
}

#[test]
fn a_binding_that_holds() {
    on_a_thread(|| {
        let host = Topology::discover();
        let before = numa::current_affinity().unwrap();
        for seat in plan(&host, &Placement::Spread, Pin::Cpu, host.default_workers()).unwrap() {
            let mut binding = Binding::take(&host, &seat);
            assert!(binding.error().is_none());
            assert_eq!(numa::current_affinity().unwrap(), seat.bind.unwrap());
            assert_eq!((binding.check(), binding.check_mask()), (PinCheck::Held, PinCheck::Held));
            assert_eq!((binding.losses(), binding.repairs()), (0, 0));
        }
        numa::bind_current_thread(&before).unwrap();
    });
}

#[test]
fn a_thread_that_was_moved_is_found_and_brought_back() {
    let Some((host, seat, others)) = two_cpus() else { return };
    on_a_thread(move || {
        let mut binding = Binding::take(&host, &seat);
        numa::bind_current_thread(&others).unwrap();
        assert_eq!(binding.check(), PinCheck::Repaired);
        assert_eq!(numa::current_affinity().ok(), seat.bind);
        assert_eq!(binding.check(), PinCheck::Held);
        assert_eq!((binding.losses(), binding.repairs()), (1, 1));
    });
}

#[test]
fn a_mask_that_grew_is_found_by_the_mask_and_not_by_the_place() {
    let Some((host, seat, others)) = two_cpus() else { return };
    on_a_thread(move || {
        let mut binding = Binding::take(&host, &seat);
        let wide = others.union(seat.bind.as_ref().unwrap());
        numa::bind_current_thread(&wide).unwrap();
        assert_eq!(binding.check_mask(), PinCheck::Repaired);
        assert_eq!(numa::current_affinity().ok(), seat.bind);
        // A mask that shrank is no loss.
        assert_eq!(binding.check_mask(), PinCheck::Held);
        assert_eq!((binding.losses(), binding.repairs()), (1, 1));
    });
}

#[test]
fn a_seat_that_cannot_be_had_is_reported_and_tried_again() {
    let Some((host, mut seat, _)) = two_cpus() else { return };
    on_a_thread(move || {
        // No such CPU: what the kernel answers when a cpuset has lost the CPU.
        seat.bind = Some("10000".parse().unwrap());
        let before = numa::current_affinity().unwrap();
        let mut binding = Binding::take(&host, &seat);
        assert_eq!(binding.error().and_then(|error| error.raw_os_error()), Some(libc::EINVAL));
        assert_eq!((binding.check(), binding.check_mask()), (PinCheck::StillLost, PinCheck::StillLost));
        assert_eq!((binding.losses(), binding.repairs()), (0, 0));
        assert_eq!(numa::current_affinity().unwrap(), before);
    });
}

#[test]
fn nothing_is_bound_on_a_host_that_is_not_this_one() {
    on_a_thread(|| {
        let before = numa::current_affinity().unwrap();
        let elsewhere = Topology::uniform(1);
        let seat = plan(&elsewhere, &Placement::Spread, Pin::Cpu, 1).unwrap().remove(0);
        let mut binding = Binding::take(&elsewhere, &seat);
        assert_eq!((binding.check(), binding.check_mask()), (PinCheck::Unbound, PinCheck::Unbound));
        assert!(binding.error().is_none());
        assert_eq!(numa::current_affinity().unwrap(), before);
        let here = Topology::discover();
        let seat = plan(&here, &Placement::Unpinned, Pin::Auto, 1).unwrap().remove(0);
        assert_eq!(Binding::take(&here, &seat).check(), PinCheck::Unbound);
    });
}
