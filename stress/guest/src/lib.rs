#![doc = include_str!("../README.md")]
#![cfg(not(loom))]

pub mod host;
pub mod inside;
pub mod line;
pub mod machine;
