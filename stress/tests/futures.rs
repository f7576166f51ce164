//! Futures: every one has one end, every wake a poll, whatever handles, wakers and the end of the scheduler do.
#![cfg(not(loom))]

use scheduler::{Handle, JoinError, JoinHandle, ShutdownMode, yield_now};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use stress::round::submitter;
use stress::{Claims, Fate, Random, Token, run};

const LONG: Duration = Duration::from_secs(100);

/// Waits for so many wakes after its first poll, each of which must lead to a poll that sees it.
struct Counted {
    board: Arc<Board>,
    slot: usize,
    token: Option<Token>,
}

/// Where futures leave their wakers, and others count the wakes.
struct Board {
    slots: Vec<(AtomicU64, Mutex<Option<Waker>>)>,
    wanted: u64,
    over: AtomicBool,
}

impl Board {
    fn new(slots: usize, wanted: u64) -> Arc<Board> {
        let slots = (0..slots).map(|_| (AtomicU64::new(0), Mutex::new(None))).collect();
        Arc::new(Board { slots, wanted, over: AtomicBool::new(false) })
    }

    fn future(self: &Arc<Self>, slot: usize, token: Token) -> Counted {
        Counted { board: self.clone(), slot, token: Some(token) }
    }

    /// Tells one, and wakes it: by value, by reference, through a clone; or takes its waker away.
    fn wake(&self, random: &mut Random) {
        let (count, place) = &self.slots[random.below(self.slots.len() as u64) as usize];
        let mut held = place.lock().unwrap();
        let Some(waker) = held.take() else { return };
        count.fetch_add(1, Relaxed);
        match random.below(3) {
            0 => {
                drop(held);
                waker.wake();
            }
            1 => {
                let another = waker.clone();
                *held = Some(waker);
                drop(held);
                another.wake();
            }
            _ => {
                waker.wake_by_ref();
                *held = Some(waker);
            }
        }
    }
}

impl Future for Counted {
    /// The token, to be settled by whoever gets it.
    type Output = Token;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Token> {
        let board = self.board.clone();
        let (count, place) = &board.slots[self.slot];
        *place.lock().unwrap() = Some(context.waker().clone());
        if count.load(Relaxed) < board.wanted {
            return Poll::Pending;
        }
        *place.lock().unwrap() = None;
        Poll::Ready(self.token.take().expect("polled after it was ready"))
    }
}

/// Keeps waking until told that it is over.
fn storm(board: &Arc<Board>, threads: usize, random: &mut Random) -> Vec<std::thread::JoinHandle<()>> {
    let one = |mut random: Random| {
        let board = board.clone();
        submitter(move || {
            while !board.over.load(Relaxed) {
                (0..64).for_each(|_| board.wake(&mut random));
                std::thread::yield_now();
            }
        })
    };
    (0..threads).map(|_| one(random.fork())).collect()
}

/// Many threads wake; every future gets all its wakes, its output arrives once.
#[test]
fn wake_storms() {
    run("futures::wake_storms", |round| {
        let mut random = round.random();
        let scheduler = round.scheduler();
        let end = Instant::now() + round.time(400);
        while Instant::now() < end {
            let board = Board::new(200, 1 + random.below(20));
            let claims = Claims::new(200);
            let spawn = |slot| scheduler.spawn_future(board.future(slot, claims.token(slot))).unwrap();
            let handles: Vec<_> = (0..200).map(spawn).collect();
            let threads = storm(&board, round.profile.submitters.min(8), &mut random);
            handles.into_iter().for_each(|handle| handle.join().unwrap().run());
            board.over.store(true, Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            claims.assert_all_ran();
        }
    });
}

/// What may happen to a handle.
fn use_handle(handle: JoinHandle<Token>, random: &mut Random, awaiter: &Handle) {
    match random.below(6) {
        0 => drop(handle),
        1 => _ = handle.abort(),
        2 => {
            handle.abort();
            settle(handle.join());
        }
        3 => {
            let awaited = awaiter.spawn_future(async move { settle(handle.await) });
            drop(awaited);
        }
        4 => match handle.join_timeout(Duration::from_micros(random.below(300))) {
            Ok(result) => settle(result),
            Err(handle) => drop(handle),
        },
        _ => {
            let mut handle = handle;
            let _ = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

fn settle(result: Result<Token, JoinError>) {
    if let Ok(token) = result {
        token.run();
    }
}

/// Handles are dropped, aborted, awaited and timed out while futures are polled and woken; then the scheduler ends,
/// while threads still wake. Every token has one fate, and none is left.
#[test]
fn every_end_meets_every_other() {
    run("futures::every_end_meets_every_other", |round| {
        let mut random = round.random();
        let end = Instant::now() + round.time(600);
        while Instant::now() < end {
            let scheduler = round.scheduler();
            let board = Board::new(300, random.below(4));
            let claims = Claims::new(300);
            let threads = storm(&board, round.profile.submitters.min(4), &mut random);
            let halves = [0..150, 150..300].map(|slots| {
                let (handle, board, mut random) = (scheduler.handle(), board.clone(), random.fork());
                submitter(move || {
                    for slot in slots {
                        match handle.spawn_future(board.future(slot, claims.token(slot))) {
                            Ok(joiner) => use_handle(joiner, &mut random, &handle),
                            Err(refused) => drop(refused.into_inner()),
                        }
                    }
                })
            });
            if random.one_in(2) {
                std::thread::sleep(Duration::from_micros(random.below(2_000)));
            }
            let mode = if random.one_in(2) { ShutdownMode::Drain } else { ShutdownMode::Abort };
            assert!(scheduler.shutdown(mode, LONG).completed);
            halves.into_iter().for_each(|half| half.join().unwrap());
            drop(scheduler);
            board.over.store(true, Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(claims.count(Fate::Pending), 0, "a future without an end");
            stress::watchdog::forget();
        }
    });
}

/// Chains of futures that await each other, in every order of ends.
#[test]
fn chains() {
    run("futures::chains", |round| {
        let scheduler = round.scheduler();
        let mut random = round.random();
        let end = Instant::now() + round.time(300);
        while Instant::now() < end {
            let length = 1 + random.below(50);
            let yields = random.below(3);
            let mut last = scheduler.spawn_future(async { 0u64 }).unwrap();
            for _ in 0..length {
                let before = last;
                last = scheduler
                    .spawn_future(async move {
                        for _ in 0..yields {
                            yield_now().await;
                        }
                        before.await.unwrap() + 1
                    })
                    .unwrap();
            }
            let sum = if random.one_in(2) { last.join().unwrap() } else { scheduler::block_on(last).unwrap() };
            assert_eq!(sum, length);
        }
    });
}

/// Futures that yield all the time leave room for everything else.
#[test]
fn yielding_is_fair() {
    run("futures::yielding_is_fair", |round| {
        let scheduler = round.scheduler();
        let stop = Arc::new(AtomicBool::new(false));
        let polls: Arc<Vec<AtomicUsize>> = Arc::new((0..20).map(|_| AtomicUsize::new(0)).collect());
        let busy: Vec<_> = (0..20)
            .map(|n| {
                let (stop, polls) = (stop.clone(), polls.clone());
                scheduler.spawn_future(async move {
                    while !stop.load(Relaxed) {
                        polls[n].fetch_add(1, Relaxed);
                        yield_now().await;
                    }
                })
            })
            .collect();
        for n in 0..round.times(200) {
            let handle = scheduler.spawn_future(async move { n }).unwrap();
            assert_eq!(handle.join().unwrap(), n);
        }
        let before: Vec<_> = polls.iter().map(|polls| polls.load(Relaxed)).collect();
        let all_went_on = || polls.iter().zip(&before).all(|(now, before)| now.load(Relaxed) > *before);
        while !all_went_on() {
            std::thread::sleep(Duration::from_micros(100));
        }
        stop.store(true, Relaxed);
        busy.into_iter().for_each(|handle| handle.unwrap().join().unwrap());
    });
}
