//! A placement, a packing and a cleaner from outside the engine: a file each, to be copied by whoever brings a system.
//!
//! Nothing here is better than what the engine has, and nobody creates volumes with it. What it is for: it compiles against
//! what the engine offers to others alone, and `tests/conformance.rs` is the one call by which a system shows that it
//! breaks no law, whatever is cut, killed, torn or worn out beneath it.

mod few;
mod fullest_first;
mod in_turn;

pub use few::Few;
pub use fullest_first::FullestFirst;
pub use in_turn::InTurn;
