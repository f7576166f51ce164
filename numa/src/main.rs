//! The `numa` command.
fn main() {}
