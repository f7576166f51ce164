//! The scenarios of `io` and what one sample of each says.
use crate::arms::Syscalls;
use crate::os::Usage;
use crate::stats::Latency;
use std::time::Duration;

/// What is done in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Futures that are ready at once, spawned by a thread that is no worker.
    Flood,
    /// One in five is spawned from outside and spawns the other four.
    Nested,
    /// Pairs of tasks that wake each other in turn.
    PingPong { pairs: u64 },
    /// Tasks that do nothing but go to the end of the queue.
    Yield,
    /// Timers that are set, rest for a while, and are dropped.
    TimersPending,
    /// Tasks that sleep once, with deadlines spread over [`FIRING`].
    TimersFire,
    /// Messages that a server sends back, one under way per connection.
    Echo { connections: u64, bytes: usize },
    /// `Hello, World!` through hyper, on 64 connections of `wrk`.
    Http,
    /// Reads of 4 KiB at places of a file that lies in memory, so many at a time.
    Read { depth: u64 },
}

impl What {
    /// Served from a process of its own.
    pub(super) fn is_remote(self) -> bool {
        matches!(self, What::Echo { .. } | What::Http)
    }
}

/// Over how long the deadlines of `timers_fire` are spread, and when the first one is.
pub(super) const FIRING: Duration = Duration::from_millis(1_000);
pub(super) const FIRST: Duration = Duration::from_millis(500);

/// One row group of the report.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) what: What,
    /// What one operation is.
    pub(super) unit: &'static str,
    /// Operations of one sample, full and tiny.
    pub(super) size: [u64; 2],
    /// Most of what Tokio needs in CPU time per operation that ours may need; 0: no bound.
    pub(super) share_of_tokio: f64,
    /// The same of async-executor.
    pub(super) share_of_smol: f64,
}

const PLAIN: Scenario = Scenario {
    name: "",
    what: What::Flood,
    unit: "task",
    size: [1_000_000, 2_000],
    share_of_tokio: 0.0,
    share_of_smol: 0.0,
};

/// All scenarios, in the order of the report.
pub(super) static ALL: [Scenario; 14] = [
    Scenario { name: "spawn_flood", share_of_tokio: 0.2, share_of_smol: 0.2, ..PLAIN },
    Scenario { name: "spawn_nested", what: What::Nested, share_of_tokio: 0.2, share_of_smol: 0.2, ..PLAIN },
    Scenario {
        name: "ping_pong_1",
        what: What::PingPong { pairs: 1 },
        unit: "message",
        size: [400_000, 1_000],
        share_of_tokio: 0.5,
        ..PLAIN
    },
    Scenario {
        name: "ping_pong_64",
        what: What::PingPong { pairs: 64 },
        unit: "message",
        size: [64 * 20_000, 64 * 20],
        share_of_tokio: 0.5,
        ..PLAIN
    },
    Scenario {
        name: "yield_many",
        what: What::Yield,
        unit: "yield",
        size: [200 * 5_000, 200 * 10],
        share_of_tokio: 0.5,
        ..PLAIN
    },
    Scenario { name: "timers_pending", what: What::TimersPending, unit: "timer", size: [1_000_000, 6_400], ..PLAIN },
    Scenario { name: "timers_fire", what: What::TimersFire, unit: "timer", size: [200_000, 1_000], ..PLAIN },
    echo("echo_1_64b", 1, 64, [40_000, 200]),
    echo("echo_1_16k", 1, 16 << 10, [20_000, 200]),
    echo("echo_64_64b", 64, 64, [64 * 4_000, 640]),
    echo("echo_64_16k", 64, 16 << 10, [64 * 1_000, 640]),
    Scenario {
        name: "http_plaintext",
        what: What::Http,
        unit: "request",
        size: [0, 0],
        share_of_tokio: 0.833,
        ..PLAIN
    },
    read("read_4k_1", 1, [200_000, 200]),
    read("read_4k_64", 64, [64 * 5_000, 640]),
];

const fn read(name: &'static str, depth: u64, size: [u64; 2]) -> Scenario {
    Scenario { name, what: What::Read { depth }, unit: "read", size, ..PLAIN }
}

const fn echo(name: &'static str, connections: u64, bytes: usize, size: [u64; 2]) -> Scenario {
    Scenario { name, what: What::Echo { connections, bytes }, unit: "message", size, ..PLAIN }
}

/// What one sample says.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub(super) ops: u64,
    pub(super) wall: Duration,
    /// Of the process in which the runtime is.
    pub(super) usage: Usage,
    pub(super) allocations: Option<u64>,
    /// By the arm's own account.
    pub(super) calls: Option<Syscalls>,
    pub(super) latency: Option<Latency>,
    /// Figures that only this scenario has, by name.
    pub(super) parts: Vec<(&'static str, f64)>,
}
