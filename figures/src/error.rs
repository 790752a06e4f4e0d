//! Why a figure could not be made, told as what, where, expected, found and what to do.

use nearhead_sim::replay::ReplayError;
use nearhead_sim::trace::TraceError;
use nearhead_sim::virtual_time::Stuck;
use std::fmt;
use std::path::PathBuf;

/// Why there is no figure.
#[derive(Debug)]
pub enum FigureError {
    /// No figure has that name.
    Unknown {
        /// What was asked for.
        found: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A disk or a volume cannot be made.
    Setup {
        /// What.
        what: String,
        /// Why not.
        problem: String,
    },
    /// A trace cannot be read.
    Trace(TraceError),
    /// A service did not keep its side of the interface.
    Stuck {
        /// Which run.
        what: String,
        /// What happened.
        problem: Stuck,
    },
    /// A request failed: what failed was not measured.
    RequestFailed {
        /// Which run.
        what: String,
        /// What the first failure said.
        failure: String,
    },
    /// A chart cannot be drawn.
    Chart(String),
    /// A result cannot be written.
    Output {
        /// What was to be done.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        problem: std::io::Error,
    },
}

impl FigureError {
    /// A disk or volume that cannot be made.
    pub(crate) fn setup(what: impl Into<String>, problem: &impl ToString) -> Self {
        Self::Setup { what: what.into(), problem: problem.to_string() }
    }

    /// What ended the replay `what`.
    pub(crate) fn replay(what: &str, problem: ReplayError) -> Self {
        match problem {
            ReplayError::Trace(error) => Self::Trace(error),
            ReplayError::Stuck(problem) => Self::Stuck { what: what.to_owned(), problem },
        }
    }
}

impl fmt::Display for FigureError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { found, known } => {
                write!(out, "expected one of {}, found {found:?}", known.join(", "))
            }
            Self::Setup { what, problem } => write!(out, "cannot make {what}: {problem}"),
            Self::Trace(error) => error.fmt(out),
            Self::Stuck { what, problem } => write!(out, "{what}: {problem}"),
            Self::RequestFailed { what, failure } => {
                write!(out, "{what}: expected every request to succeed, found: {failure}")
            }
            Self::Chart(problem) => out.write_str(problem),
            Self::Output { action, path, problem } => write!(
                out,
                "cannot {action} {}: {problem}; choose another folder with --out",
                path.display()
            ),
        }
    }
}

impl std::error::Error for FigureError {}

impl From<TraceError> for FigureError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}
