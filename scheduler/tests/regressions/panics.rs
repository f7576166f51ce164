//! A panic stays with the task that it belongs to.

use super::support::{Bomb, Count, in_a_process, quiet_workers, scheduler};
use scheduler::Scheduler;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

#[test]
fn a_payload_whose_destructor_panics_does_not_hold_up_its_scope() {
    in_a_process("panics::a_payload_whose_destructor_panics_does_not_hold_up_its_scope", || {
        quiet_workers();
        let scheduler = scheduler(1);
        let scope = || {
            scheduler.scope(|s| {
                // One worker: the bomb is neither the first nor the last to be thrown.
                s.spawn(|_| panic_any("plain"));
                s.spawn(|_| panic_any(Bomb));
                s.spawn(|_| panic_any("plain"));
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(scope)).expect_err("the first payload comes out of the scope");
        assert_eq!(payload.downcast_ref(), Some(&"plain"));
        assert_eq!(scheduler.spawn(|| 1).unwrap().join().unwrap(), 1, "the worker is still there");
    });
}

/// Runs `f` where less stack is left than a worker wants for running another task on top.
fn low_on_stack(top: usize, used: usize, f: &mut dyn FnMut()) {
    let pad = std::hint::black_box([0_u8; 2048]);
    if top.saturating_sub(pad.as_ptr().addr()) < used {
        low_on_stack(top, used, f);
    } else {
        f();
    }
    std::hint::black_box(&pad);
}

/// A full scheduler runs a submitted task inside of `submit`, if need be: it is still another task.
#[test]
fn a_task_that_runs_inside_of_submit_does_not_unwind_into_its_submitter() {
    in_a_process("panics::a_task_that_runs_inside_of_submit_does_not_unwind_into_its_submitter", || {
        quiet_workers();
        // The worker's ring takes 4096 of them before there is no other place than here.
        const TASKS: u64 = 4096 + 100;
        const STACK: usize = 512 * 1024;
        let (handled, returned) = (Count::default(), Count::default());
        let (handler, count) = (handled.clone(), returned.clone());
        let builder = Scheduler::builder().workers(1).capacity(1).stack_size(STACK);
        let scheduler = builder.panic_handler(move |_| handler.add()).build().unwrap();
        let handle = scheduler.handle();
        let submitter = scheduler.spawn(move || {
            let here = 0_u8;
            low_on_stack((&raw const here).addr(), STACK - 100 * 1024, &mut || {
                for _ in 0..TASKS {
                    handle.submit(|| panic_any("another task's")).unwrap();
                    count.add();
                }
            });
            handle.metrics().panics
        });
        let inside = submitter.unwrap().join().expect("the submitting task is not hit");
        assert!(inside != 0, "no task ran inside of submit: too few for this test");
        assert_eq!(returned.get(), TASKS);
        let handle = scheduler.handle();
        drop(scheduler);
        assert_eq!((handled.get(), handle.metrics().panics), (TASKS, TASKS), "each was counted and handed over");
    });
}
