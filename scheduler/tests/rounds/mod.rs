//! Two threads that meet again and again at the same point: the shape in which a missing store-load order shows within
//! seconds, where a million sleeps and wakes of a running program do not show it.

#![allow(dead_code, reason = "not every test program uses all of it")]

use scheduler::internals::sync::{Acquire, AtomicU64, Line, Release, pause, yield_now};
use std::time::{Duration, Instant};

const OVER: u64 = u64::MAX;
/// Longest head start of one side, in pauses: some 50 ns to 2 us, as long as either side of a protocol takes.
const HEAD_START: u64 = 48;

/// Plays rounds for `time`, or until `right` returns false. In each, `left` and `right` run at the same time; `right`
/// gets a function that waits until `left` is through with this round. Returns the number of rounds.
pub(crate) fn rounds(
    time: Duration,
    mut left: impl FnMut(u64) + Send,
    mut right: impl FnMut(u64, &dyn Fn()) -> bool,
) -> u64 {
    let begun = Line(AtomicU64::new(0));
    let ended = Line(AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = 0x1357_9bdf_u64;
            for n in 1.. {
                if until(&begun.0, n) == OVER {
                    return;
                }
                dawdle(&mut random);
                left(n);
                ended.0.store(n, Release);
            }
        });
        let began = Instant::now();
        let mut random = 0x2468_ace1_u64;
        let mut n = 0;
        let mut go_on = true;
        while go_on && began.elapsed() < time {
            n += 1;
            begun.0.store(n, Release);
            dawdle(&mut random);
            go_on = right(n, &|| _ = until(&ended.0, n));
            until(&ended.0, n);
        }
        begun.0.store(OVER, Release);
        n
    })
}

fn until(word: &AtomicU64, value: u64) -> u64 {
    for spins in 0_u32.. {
        let now = word.load(Acquire);
        if now >= value {
            return now;
        }
        if spins < 2000 { pause() } else { yield_now() }
    }
    unreachable!("the loop ends by returning");
}

fn dawdle(random: &mut u64) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    for _ in 0..*random % HEAD_START {
        pause();
    }
}

/// Waits for `condition`. If it takes absurdly long the process ends, naming `what`: a panic would wait for the scoped
/// threads, which are what hangs.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}
