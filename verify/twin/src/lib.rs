//! The twin: the same acts on the kernel's own block device and on ours, compared.
//!
//! The oracle is a loop device over a plain file. The subject is an attached volume over another
//! file or over an emulated disk that can lose its power. A [`script`] of [`act`]s is carried out on
//! both ([`carry_out`]); faults hit the subject alone ([`faults`]); an observer reads both
//! ([`observer`]). What differs is a [`Difference`], unless [`allowed`] names it. The twin drives the
//! program `nearhead` from outside, as a user does. It must never repair what it found: a run ends
//! with its first difference and leaves nothing attached.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod act;
pub mod allowed;
pub mod attached;
pub mod carry_out;
pub mod content;
pub mod faults;
pub mod file_systems;
pub mod files;
pub mod history;
pub mod kernel_loop;
pub mod kinds;
pub mod medium;
pub mod observer;
pub mod power;
pub mod programs;
pub mod run;
pub mod script;
pub mod shrink;
pub mod side;
pub mod tools;
pub mod under_run;
pub mod watchdog;

use std::fmt;

/// A difference between subject and oracle, or a law that the subject broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the act that showed it, from 0.
    pub act: usize,
    /// The law, in a few fixed words: equal laws are the same kind of fault.
    pub law: &'static str,
    /// Place, expected and found.
    pub detail: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act {}: {}: {}", self.act, self.law, self.detail)
    }
}

/// A failed step of a run.
#[derive(Clone, Debug)]
pub enum Failed {
    /// Subject and oracle differ.
    Differs(&'static str, String),
    /// The machine lacks a tool, a privilege or a resource; says nothing about the subject.
    Cannot(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Cannot(why)
    }
}

/// Result of a step of a run.
pub type Step<T = ()> = Result<T, Failed>;

/// The failure of `law`, with its place, expected and found.
pub fn differs<T>(law: &'static str, detail: impl Into<String>) -> Step<T> {
    Err(Failed::Differs(law, detail.into()))
}
