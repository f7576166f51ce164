#![doc = include_str!("README.md")]

mod context;
mod find;
mod help;
mod io;
#[cfg(feature = "measure")]
mod record;
mod remote;
mod rests;
mod run;
mod search;
mod shared;
mod stack;
mod timers;

pub use crate::task::waiting::drop_quietly;
pub use context::{Context, current};
pub use help::{Wait, block, parker};
pub use io::with_ring;
#[cfg(feature = "measure")]
pub use record::{Record, Recorded};
pub use remote::{Count, Counters, Remote};
pub use rests::Rests;
pub use run::without_unwinding;
pub use shared::{Hooks, PanicHook, Shared, Tuning};
