//! A batch calls the user's iterator while it holds a lane.

use super::support::{Count, in_a_process, occupy, scheduler};
use scheduler::{ShutdownMode, SubmitError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The task that the iterator submits by itself has another type than the batch's, and the lane closes behind it: what
/// is taken back must be the batch's own.
#[test]
fn a_panicking_batch_iterator_that_submits_keeps_types_apart() {
    in_a_process("batch::a_panicking_batch_iterator_that_submits_keeps_types_apart", || {
        let scheduler = scheduler(1);
        let handle = scheduler.handle();
        let gate = occupy(&scheduler);
        let (own, inner) = (Count::default(), Count::default());
        let mut calls = 0;
        let tasks = std::iter::from_fn(|| {
            calls += 1;
            if calls == 2 {
                // As the batch's type these words would be a length, a pointer and a capacity.
                let (words, inner) = ([24_usize, 0x4141_4141_4141, 24], inner.clone());
                handle.submit(move || (words[1] == 0x4141_4141_4141).then(|| inner.add()).unwrap()).unwrap();
                scheduler.shutdown(ShutdownMode::Drain, Duration::ZERO);
                panic!("the iterator's own");
            }
            let (text, own) = (String::from("of the batch"), own.clone());
            Some(move || (text == "of the batch").then(|| own.add()).unwrap())
        });
        let result = catch_unwind(AssertUnwindSafe(|| handle.submit_batch(tasks)));
        assert!(result.is_err(), "the iterator's panic came through");
        gate.open();
        drop(scheduler);
        assert_eq!((own.get(), inner.get()), (1, 1), "both were accepted while the scheduler was open");
    });
}

#[test]
fn a_batch_outlives_the_scheduler_that_its_iterator_drops() {
    in_a_process("batch::a_batch_outlives_the_scheduler_that_its_iterator_drops", || {
        let scheduler = scheduler(1);
        let handle = scheduler.handle();
        let (mut scheduler, mut yielded) = (Some(scheduler), 0);
        let (ran, alive, mut churn) = (Count::default(), Arc::new(()), Vec::new());
        let tasks = std::iter::from_fn(|| {
            if yielded == 3 {
                drop(scheduler.take());
                // Each look lets go of what was retired before; whatever is freed then is overwritten.
                (0..64).for_each(|_| drop(handle.metrics()));
                churn.extend((1..64).map(|i| vec![0x41_u8; i * 64]));
            }
            yielded += 1;
            let (ran, alive) = (ran.clone(), alive.clone());
            (yielded <= 300).then_some(move || {
                drop(alive);
                ran.add();
            })
        });
        let error = handle.submit_batch(tasks).expect_err("the scheduler is gone");
        assert!(matches!(error.reason, SubmitError::Closed(())), "{:?}", error.reason);
        assert_eq!(error.accepted as u64, ran.get(), "accepted is run");
        let returned = error.returned.len();
        assert!(returned != 0, "the task yielded after the end cannot run");
        assert_eq!(Arc::strong_count(&alive), returned + 1, "this one's, and each returned task's");
        drop(error);
        assert_eq!(Arc::strong_count(&alive), 1, "nothing is lost");
        assert_eq!(yielded, ran.get() as usize + returned, "each is run or returned");
    });
}
