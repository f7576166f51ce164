//! Rings in their workers: opened when needed, slept in, looked at while tasks run, closed at the end.
#![cfg(not(loom))]

mod ends;
mod fair;
mod left;
mod open;
mod sleeps;
mod stand_in;
mod support;
