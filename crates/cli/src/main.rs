//! The nearhead program.
fn main() {}
