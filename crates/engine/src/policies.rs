//! Policies that are no preset's: how whoever brings some has them in every engine that starts.
//!
//! A preset is known when the program is built; an experiment, or the suite of the laws, may be told of others while it runs. Nothing here
//! decides anything: an engine that starts is handed what was brought, as if its preset had named it.

use crate::config::Config;
use std::fmt::Debug;

/// Policies that take the place of a preset's.
pub trait Policies: Debug + Send + Sync {
    /// Puts them into the configuration of an engine that is about to start, each as it is before it was asked anything: what one of them
    /// remembers ends with its engine.
    fn configure(&self, config: &mut Config);

    /// Whether what they are tried with goes on. A policy that failed has nothing more to say, and nobody needs to hear it to the end.
    fn go_on(&self) -> bool {
        true
    }
}
