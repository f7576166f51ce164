//! The queues. Generic over what they carry: they know no task and dereference nothing.

pub mod forks;
pub mod lane;
pub mod local;
