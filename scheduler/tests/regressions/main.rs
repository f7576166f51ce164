//! What once broke: hostile programs against earlier versions, each turned into the promise it broke.
//!
//! Every test runs in a process of its own, which a watchdog ends: a hang, an overflown stack or a wild pointer is the
//! failure of one test.
#![cfg(not(loom))]

mod batch;
mod drops;
mod ends;
mod hooks;
mod memory;
mod panics;
mod stacks;
mod support;
mod wakes;
