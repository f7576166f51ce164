//! What the scheduler calls of the user's: hooks, their destructors, the name of a thread.

use super::support::{Count, eventually, in_a_process, scheduler};
use scheduler::{Handle, Scheduler};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Counts its end.
struct Ends(Count);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.add();
    }
}

#[test]
fn a_task_submitted_by_the_stop_hook_is_refused_or_run() {
    in_a_process("hooks::a_task_submitted_by_the_stop_hook_is_refused_or_run", || {
        let (accepted, ran, ended, hooks) = (Count::default(), Count::default(), Count::default(), Count::default());
        let known: Arc<Mutex<Option<Handle>>> = Arc::default();
        let (yes, run, end, hook, handle) =
            (accepted.clone(), ran.clone(), ended.clone(), hooks.clone(), known.clone());
        let builder = Scheduler::builder().workers(2).on_worker_stop(move |_, _| {
            let handle = handle.lock().unwrap().clone().expect("set before the end");
            let (ends, run) = (Ends(end.clone()), run.clone());
            let task = move || {
                let _ends = ends;
                run.add();
            };
            if handle.submit(task).is_ok() {
                yes.add();
            }
            hook.add();
        });
        let scheduler = builder.build().unwrap();
        *known.lock().unwrap() = Some(scheduler.handle());
        scheduler.submit(|| ()).unwrap();
        drop(scheduler);
        known.lock().unwrap().take();
        assert_eq!(hooks.get(), 2);
        assert_eq!(ran.get(), accepted.get(), "accepted is run");
        assert_eq!(ended.get(), 2, "nothing is lost");
    });
}

/// Submits when it is dropped.
struct Submits(Handle, Count);

impl Drop for Submits {
    fn drop(&mut self) {
        let ran = self.1.clone();
        self.0.submit(move || ran.add()).unwrap();
    }
}

/// The last that knows a dead scheduler is a thread's list of lanes, which is cleared in the middle of a submission.
#[test]
fn hooks_that_submit_when_they_are_dropped_may_be_dropped_by_a_submission() {
    in_a_process("hooks::hooks_that_submit_when_they_are_dropped_may_be_dropped_by_a_submission", || {
        let (other, third, ran) = (scheduler(1), scheduler(1), Count::default());
        let submits = Submits(other.handle(), ran.clone());
        let keep = move |_: &(dyn std::any::Any + Send)| {
            let _ = &submits;
        };
        let scheduler = Scheduler::builder().workers(1).panic_handler(keep).build().unwrap();
        let handle = scheduler.handle();
        handle.submit(|| ()).unwrap();
        std::thread::spawn(move || drop(scheduler)).join().unwrap();
        drop(handle);
        third.submit(|| ()).unwrap();
        eventually("the hook's capture was dropped, and its task ran", || ran.get() == 1);
    });
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// No worker stays behind, whether there was a scheduler or none. Returns whether there was one.
fn leaves_no_thread(name: impl Fn(usize) -> String + 'static) -> bool {
    let builder = Scheduler::builder().workers(3).thread_name(name);
    let before = threads();
    let built = catch_unwind(AssertUnwindSafe(|| builder.build().map(drop).is_ok()));
    eventually("the threads are gone", || threads() <= before);
    built.unwrap_or(false)
}

#[test]
fn a_thread_name_that_panics_leaves_no_thread_behind() {
    in_a_process("hooks::a_thread_name_that_panics_leaves_no_thread_behind", || {
        let named = |index| if index == 2 { panic!("no name for the third") } else { "named".into() };
        assert!(!leaves_no_thread(named), "the panic comes through");
    });
}

/// The kernel knows no such name: the worker has another, or the build fails.
#[test]
fn a_thread_name_with_a_nul_does_not_panic_and_leaves_no_thread_behind() {
    in_a_process("hooks::a_thread_name_with_a_nul_does_not_panic_and_leaves_no_thread_behind", || {
        let named = |index| if index == 2 { "na\0me".into() } else { "named".into() };
        let panics = Count::default();
        let count = panics.clone();
        std::panic::set_hook(Box::new(move |_| count.add()));
        leaves_no_thread(named);
        let _ = std::panic::take_hook();
        assert_eq!(panics.get(), 0);
    });
}
