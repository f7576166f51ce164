#![doc = include_str!("README.md")]

mod caps;
mod inbox;
mod open;
mod queue;
mod ring;

pub use crate::sync::Completion;
pub use caps::{Caps, IoDriver};
pub use inbox::{Inbox, Item, Items, Left, Serve};
pub use ring::{Ring, RingCounts};
