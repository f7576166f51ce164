//! The ring of a worker on the real kernel. Where the kernel or its administrator gives none, the tests that need one
//! say so and pass.
#![cfg(not(loom))]

mod denied;
mod ends;
mod flow;
mod open;
mod support;
mod wakes;
