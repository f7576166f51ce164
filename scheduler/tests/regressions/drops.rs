//! Schedulers that end at an awkward place.

use super::support::{Gate, eventually, in_a_process, quiet_workers, scheduler};
use scheduler::{Handle, Scheduler, ShutdownMode};
use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A place from which a scheduler is taken and dropped.
type Kept = Arc<Mutex<Option<Scheduler>>>;

fn drop_kept(kept: &Mutex<Option<Scheduler>>) {
    let scheduler = kept.lock().unwrap().take();
    drop(scheduler);
}

fn all_gone(handle: &Handle) {
    eventually("every worker has ended", || handle.metrics().alive == 0);
    assert!(handle.submit(|| ()).is_err());
}

#[test]
fn a_scheduler_may_be_dropped_by_a_task_of_its_own_scope() {
    in_a_process("drops::a_scheduler_may_be_dropped_by_a_task_of_its_own_scope", || {
        let scheduler = scheduler(2);
        let handle = scheduler.handle();
        let kept = Mutex::new(Some(scheduler));
        handle.scope(|s| {
            s.spawn(|_| drop_kept(&kept));
            s.spawn(|_| ());
        });
        all_gone(&handle);
    });
}

#[test]
fn a_scheduler_may_be_dropped_by_its_panic_handler() {
    in_a_process("drops::a_scheduler_may_be_dropped_by_its_panic_handler", || {
        quiet_workers();
        let kept = Kept::default();
        let taken = kept.clone();
        let handler = move |_: &(dyn Any + Send)| drop_kept(&taken);
        let scheduler = Scheduler::builder().workers(1).panic_handler(handler).build().unwrap();
        let handle = scheduler.handle();
        *kept.lock().unwrap() = Some(scheduler);
        handle.submit(|| panic!("for the handler")).unwrap();
        all_gone(&handle);
    });
}

#[test]
fn a_scheduler_may_be_dropped_by_its_stop_hook() {
    in_a_process("drops::a_scheduler_may_be_dropped_by_its_stop_hook", || {
        let kept = Kept::default();
        let taken = kept.clone();
        let scheduler = Scheduler::builder().workers(2).on_worker_stop(move |_, _| drop_kept(&taken)).build().unwrap();
        let handle = scheduler.handle();
        *kept.lock().unwrap() = Some(scheduler);
        kept.lock().unwrap().as_ref().unwrap().shutdown(ShutdownMode::Drain, Duration::ZERO);
        all_gone(&handle);
    });
}

thread_local! {
    static SCHEDULER: RefCell<Option<Scheduler>> = const { RefCell::new(None) };
    static AT_THE_END: RefCell<Option<UsesAll>> = const { RefCell::new(None) };
}

/// Begun before the thread's first submission, and after it: destructors of thread-locals run in an order of their own.
#[test]
fn a_scheduler_may_be_dropped_by_a_destructor_of_a_thread_that_used_it() {
    in_a_process("drops::a_scheduler_may_be_dropped_by_a_destructor_of_a_thread_that_used_it", || {
        for first in [true, false] {
            let thread = std::thread::spawn(move || {
                if first {
                    SCHEDULER.set(None);
                }
                let scheduler = scheduler(1);
                scheduler.submit(|| ()).unwrap();
                let handle = scheduler.handle();
                SCHEDULER.set(Some(scheduler));
                handle
            });
            all_gone(&thread.join().unwrap());
        }
    });
}

/// Uses a scheduler in every way when it is dropped.
struct UsesAll(Handle, Gate);

impl Drop for UsesAll {
    fn drop(&mut self) {
        let handle = &self.0;
        handle.submit(|| ()).unwrap();
        assert_eq!(handle.spawn(|| 1).unwrap().join().unwrap(), 1);
        handle.scope(|s| s.spawn(|_| ()));
        assert_eq!(handle.join(|| 1, || 2), (1, 2));
        assert_eq!(handle.submit_batch((0..100).map(|_| || ())).unwrap(), 100);
        self.1.open();
    }
}

#[test]
fn a_destructor_of_an_ending_worker_may_use_another_scheduler() {
    in_a_process("drops::a_destructor_of_an_ending_worker_may_use_another_scheduler", || {
        let (ending, other, used) = (scheduler(1), scheduler(1), Gate::default());
        let uses = UsesAll(other.handle(), used.clone());
        ending.submit(move || AT_THE_END.set(Some(uses))).unwrap();
        drop(ending);
        assert!(used.is_open(), "the worker's thread is gone, and so are its locals");
    });
}

#[test]
fn a_destructor_of_an_ending_thread_may_use_a_scheduler() {
    in_a_process("drops::a_destructor_of_an_ending_thread_may_use_a_scheduler", || {
        let scheduler = Scheduler::builder().workers(1).capacity(8).build().unwrap();
        for first in [true, false] {
            let (handle, used) = (scheduler.handle(), Gate::default());
            let uses = UsesAll(handle.clone(), used.clone());
            let thread = std::thread::spawn(move || {
                if first {
                    handle.submit(|| ()).unwrap();
                }
                AT_THE_END.set(Some(uses));
                handle.submit(|| ()).unwrap();
            });
            thread.join().unwrap();
            assert!(used.is_open());
        }
    });
}

#[test]
fn submitters_that_wait_for_room_are_refused_when_the_scheduler_is_dropped() {
    in_a_process("drops::submitters_that_wait_for_room_are_refused_when_the_scheduler_is_dropped", || {
        let scheduler = Scheduler::builder().workers(1).capacity(2).build().unwrap();
        let submitter = |handle: Handle| {
            std::thread::spawn(move || while handle.submit(|| std::thread::sleep(Duration::from_millis(1))).is_ok() {})
        };
        let threads: Vec<_> = (0..4).map(|_| submitter(scheduler.handle())).collect();
        eventually("somebody waits", || scheduler.metrics().blocked != 0);
        drop(scheduler);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Tasks of the scope wait for tasks that are dropped unrun.
#[test]
fn an_abort_ends_scopes_with_waits_in_them() {
    in_a_process("drops::an_abort_ends_scopes_with_waits_in_them", || {
        let scheduler = scheduler(2);
        let begun = Gate::default();
        std::thread::scope(|s| {
            for _ in 0..3 {
                let (handle, begun) = (scheduler.handle(), begun.clone());
                s.spawn(move || {
                    handle.scope(|scope| {
                        for _ in 0..1000 {
                            scope.spawn(|_| {
                                begun.open();
                                let inner = Handle::try_current().map(|handle| handle.spawn(|| 1));
                                let _ = inner.and_then(Result::ok).map(|task| task.join());
                            });
                        }
                    });
                    assert_eq!(handle.join(|| 1, || 2), (1, 2));
                });
            }
            begun.wait();
            assert!(scheduler.shutdown(ShutdownMode::Abort, Duration::from_secs(30)).completed);
        });
    });
}
