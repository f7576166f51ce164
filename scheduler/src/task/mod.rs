//! Spawned tasks.

pub mod state;
