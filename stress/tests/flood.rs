//! Every way in, from many threads at once: exactly once, none lost.
#![cfg(not(loom))]

use scheduler::{Handle, JoinHandle, Scheduler, Submitter};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Claims, Random, Round, run};

const LONG: Duration = Duration::from_secs(100);

/// Submits all of `ids` in ways that `random` chooses.
fn pour(handle: &Handle, claims: &'static Claims, mut ids: std::ops::Range<usize>, random: &mut Random) {
    let mut own: Submitter = handle.register_submitter().unwrap();
    let mut joins: Vec<JoinHandle<usize>> = Vec::new();
    while let Some(id) = ids.next() {
        match random.below(12) {
            0..4 => handle.submit(claims.task(id)).unwrap(),
            4 => handle.try_submit(claims.task(id)).unwrap(),
            5 | 6 => own.submit(claims.task(id)).unwrap(),
            7 => {
                let more = (random.below(300) as usize).min(ids.len());
                let batch = id..id + 1 + more;
                ids.start = batch.end;
                let tasks = batch.clone().map(|id| claims.task(id));
                let count = if random.one_in(2) { handle.submit_batch(tasks) } else { own.submit_batch(tasks) };
                assert_eq!(count.unwrap(), batch.len());
            }
            8 => {
                let task = claims.task(id);
                let spawned = move || {
                    task();
                    id
                };
                joins.push(handle.spawn(spawned).unwrap());
            }
            9 => drop(handle.spawn(claims.task(id)).unwrap()),
            10 if random.one_in(16) => handle.scope(|scope| {
                scope.spawn(move |_| claims.token(id).run());
            }),
            11 if random.one_in(16) => {
                let (seven, ()) = handle.join(|| 7, || claims.token(id).run());
                assert_eq!(seven, 7);
            }
            _ => handle.submit(claims.task(id)).unwrap(),
        }
        if random.one_in(400) {
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
        if joins.len() > 20 {
            joins.drain(..).for_each(|join| _ = join.join().unwrap());
        }
    }
    joins.drain(..).for_each(|join| _ = join.join().unwrap());
}

fn flood(round: &Round, scheduler: &Scheduler, random: &mut Random, each: usize) {
    let threads = round.profile.submitters;
    let claims = Claims::new(threads * each);
    let start = Arc::new(Barrier::new(threads));
    let threads: Vec<_> = (0..threads)
        .map(|part| {
            let (handle, start, mut random) = (scheduler.handle(), start.clone(), random.fork());
            submitter(move || {
                start.wait();
                pour(&handle, claims, part * each..(part + 1) * each, &mut random);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(scheduler.wait_idle(LONG));
    claims.assert_all_ran();
}

#[test]
fn every_way_in() {
    run("flood::every_way_in", |round| {
        let mut random = round.random();
        let end = Instant::now() + round.time(1000);
        while Instant::now() < end {
            let scheduler = round.scheduler();
            for _ in 0..3 {
                flood(round, &scheduler, &mut random, 2_000);
            }
            drop(scheduler);
            stress::watchdog::forget();
        }
    });
}

/// A tree of tasks in which every task queues its children, by submit, by batch, or by spawn.
fn grow(claims: &'static Claims, id: usize, seed: u64) {
    claims.token(id).run();
    let here = Handle::current();
    let children = (4 * id + 1..=4 * id + 4).filter(|&child| child < claims.len());
    match stress::random::mix(seed ^ id as u64) % 4 {
        0 => _ = here.submit_batch(children.map(|child| move || grow(claims, child, seed))).unwrap(),
        1 => {
            let joins: Vec<_> = children.map(|child| here.spawn(move || grow(claims, child, seed)).unwrap()).collect();
            joins.into_iter().for_each(|join| join.join().unwrap());
        }
        _ => children.for_each(|child| here.submit(move || grow(claims, child, seed)).unwrap()),
    }
}

#[test]
fn workers_submit_more() {
    run("flood::workers_submit_more", |round| {
        let mut random = round.random();
        let scheduler = round.scheduler();
        let end = Instant::now() + round.time(500);
        while Instant::now() < end {
            let claims = Claims::new(30_000);
            let seed = random.any();
            scheduler.submit(move || grow(claims, 0, seed)).unwrap();
            assert!(scheduler.wait_idle(LONG));
            claims.assert_all_ran();
        }
    });
}

#[test]
fn a_full_ring_spills() {
    run("flood::a_full_ring_spills", |round| {
        let scheduler = round.scheduler();
        let each = 20_000;
        let claims = Claims::new(each * 3);
        for part in 0..3 {
            let burst = move || {
                let here = Handle::current();
                (part * each..(part + 1) * each).for_each(|id| here.submit(claims.task(id)).unwrap());
            };
            scheduler.submit(burst).unwrap();
        }
        assert!(scheduler.wait_idle(LONG));
        claims.assert_all_ran();
    });
}

/// Captured bytes with a check, at an alignment.
#[derive(Clone, Copy)]
#[repr(C)]
struct Load<A: Copy, const SIZE: usize>(A, [u8; SIZE]);

fn load<A: Copy + Default + Send + 'static, const SIZE: usize>(handle: &Handle, sum: &'static AtomicU64, n: u8) {
    let load = Box::new(Load(A::default(), [n; SIZE]));
    let place = *load;
    let task = move || {
        let at = std::hint::black_box(&place);
        assert!(std::ptr::from_ref(at).is_aligned());
        assert!(at.1.iter().all(|&byte| byte == n));
        sum.fetch_add(u64::from(n), Relaxed);
    };
    match n % 3 {
        0 => handle.submit(task).unwrap(),
        1 => drop(handle.spawn(task).unwrap()),
        _ => _ = handle.submit_batch([task]).unwrap(),
    }
}

#[derive(Clone, Copy, Default)]
#[repr(align(128))]
struct Wide;

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line;

#[test]
fn closures_of_all_sizes() {
    run("flood::closures_of_all_sizes", |round| {
        let scheduler = round.scheduler();
        let sum: &'static AtomicU64 = Box::leak(Box::default());
        let mut expected = 0;
        let from_worker = round.random().one_in(2);
        for n in 0..=60_u8 {
            let handle = scheduler.handle();
            let all = move || {
                load::<(), 0>(&handle, sum, n);
                load::<(), 1>(&handle, sum, n);
                load::<u64, 40>(&handle, sum, n);
                load::<(), 55>(&handle, sum, n);
                load::<(), 56>(&handle, sum, n);
                load::<(), 57>(&handle, sum, n);
                load::<(), 300>(&handle, sum, n);
                load::<u128, 5_000>(&handle, sum, n);
                load::<Line, 20>(&handle, sum, n);
                load::<Wide, 20>(&handle, sum, n);
            };
            expected += 10 * u64::from(n);
            if from_worker { scheduler.submit(all).unwrap() } else { all() }
        }
        assert!(scheduler.wait_idle(LONG));
        assert_eq!(sum.load(Relaxed), expected);
    });
}

#[test]
fn a_closure_of_a_megabyte() {
    run("flood::a_closure_of_a_megabyte", |round| {
        let scheduler = round.build(round.builder().stack_size(16 << 20));
        let sum: &'static AtomicU64 = Box::leak(Box::default());
        let handle = scheduler.handle();
        let submit = move || (0..6).for_each(|n| load::<u64, { 1 << 20 }>(&handle, sum, n));
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(submit).unwrap();
        thread.join().unwrap();
        assert!(scheduler.wait_idle(LONG));
        assert_eq!(sum.load(Relaxed), 15);
    });
}
