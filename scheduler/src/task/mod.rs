//! Tasks: what stands in a queue, the memory it is made of, and the state of one that somebody joins.

pub mod cell;
pub mod cells;
pub mod join;
pub mod raw;
pub mod state;
pub mod waiting;
