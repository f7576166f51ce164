//! Futures: polled until ready, by whoever wakes them, dropped once, whatever happens.
#![cfg(not(loom))]

mod await_handles;
mod ends;
mod support;
mod wakes;
