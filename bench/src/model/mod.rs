//! The model executor: the policy that the workers run, stepped in virtual time on one thread.
//!
//! Workers, queues and clocks are simulated; whom to ask, how much to take, when to look far away and whom to wake are
//! the library's own functions. The same seed gives the same counts on every machine. What it cannot say is how long
//! anything takes: no cache misses, no throughput.

mod engine;
mod hosts;
mod rules;
mod tally;

pub use engine::run;
pub use hosts::{HOSTS, Host, Latency};
pub use rules::Rules;
pub use tally::Tally;

/// Where the tasks come from. All loads are 80 % of what the workers can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Every worker's neighbourhood gets its share.
    Balanced,
    /// Everything comes to the first node that has workers.
    Hot,
}

impl Load {
    /// Its name in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Load::Balanced => "balanced",
            Load::Hot => "hot node",
        }
    }
}
