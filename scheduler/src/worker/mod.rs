#![doc = include_str!("README.md")]

mod context;
mod find;
mod help;
mod remote;
mod rests;
mod run;
mod search;
mod shared;

pub use context::{Context, current};
pub use help::{Wait, block};
pub use remote::{Counters, Remote};
pub use rests::Rests;
pub use run::{drop_quietly, without_unwinding};
pub use shared::{Hooks, PanicHook, Shared, Tuning};
