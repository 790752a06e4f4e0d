//! The one call by which a system from outside shows that it breaks no law.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_example_policies::{FullestFirst, InTurn};
use nearhead_swarm::{Policies, System};

#[test]
fn a_placement_and_a_cleaner_from_outside_break_no_law() {
    let policies =
        Policies { placement: Box::new(InTurn::default()), cleaner: Box::new(FullestFirst) };
    let system = System { name: "in_turn", layout: "mlb", policies };
    let tally = system.conforms(0..40).unwrap();
    // What never ran proves nothing.
    assert!(
        tally.records > 500 && tally.swaps > 5 && tally.cuts > 50 && tally.kills > 20,
        "{tally}"
    );
    assert!(tally.checkpointed_bytes > 1 << 20 && tally.cuts_in_recovery > 20, "{tally}");
}
