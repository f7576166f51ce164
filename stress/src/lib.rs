#![doc = include_str!("../README.md")]
#![cfg(not(loom))]

pub mod alloc;
pub mod oracle;
pub mod os;
pub mod planned;
pub mod profile;
pub mod random;
pub mod report;
pub mod round;
pub mod stamp;
pub mod storm;
pub mod tree;
pub mod watchdog;

pub use oracle::{Claims, Fate, Token};
pub use planned::{Bomb, Planned, panic_planned};
pub use profile::{Fault, Profile};
pub use random::Random;
pub use round::{Round, run};
