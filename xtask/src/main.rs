//! Checks on the source tree.
fn main() {}
