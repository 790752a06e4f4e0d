//! What figures share: how much work to do, who is told about it, and experiments done once.
//!
//! Several figures show the same experiment from different sides (figure 6, table II and the swap
//! counts are one set of replays). It runs when the first of them needs it. Everything is computed
//! in the order asked for; nothing here depends on the machine.

use crate::contention::Span;
use crate::error::FigureError;
use crate::fig2::ContentionRuns;
use crate::fig6::MixRuns;
use crate::hours::HourRun;
use crate::smr::SmrRuns;
use crate::traces::Traces;
use nearhead_disk::Nanos;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How much work a figure does. Less work means shorter runs and fewer points, never another model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// For a report.
    Full,
    /// Within a minute.
    Quick,
    /// For tests: shows that everything runs and keeps the laws.
    Tiny,
}

impl Effort {
    /// One of three.
    pub fn pick<T>(self, full: T, quick: T, tiny: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Tiny => tiny,
        }
    }
}

/// Who is told how far a figure is.
pub trait Progress {
    /// An experiment of that many steps begins.
    fn begin(&mut self, experiment: &str, steps: usize);
    /// The next step begins.
    fn step(&mut self, what: &str);
    /// The experiment is over.
    fn end(&mut self);
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &str, _: usize) {}
    fn step(&mut self, _: &str) {}
    fn end(&mut self) {}
}

/// Where experiments are done.
pub struct Lab<'a> {
    /// How much work to do.
    pub effort: Effort,
    /// Where the real traces are.
    pub traces: Traces,
    /// Who is told.
    pub progress: &'a mut dyn Progress,
    /// Figures 2 and 3, by name.
    pub(crate) contention: BTreeMap<&'static str, Rc<ContentionRuns>>,
    /// The same over the real file system.
    pub(crate) files: BTreeMap<&'static str, Rc<ContentionRuns>>,
    /// Figure 6 and what goes with it.
    pub(crate) mixes: Option<Rc<MixRuns>>,
    /// Figure 7 and what goes with it.
    pub(crate) hours: Option<Rc<Vec<HourRun>>>,
    /// Figure 6c and what goes with it.
    pub(crate) shingled: Option<Rc<SmrRuns>>,
}

impl<'a> Lab<'a> {
    /// A lab in which nothing has been done yet.
    pub fn new(effort: Effort, traces: Traces, progress: &'a mut dyn Progress) -> Self {
        Self {
            effort,
            traces,
            progress,
            contention: BTreeMap::new(),
            files: BTreeMap::new(),
            mixes: None,
            hours: None,
            shingled: None,
        }
    }

    /// How long a point of figures 2 and 3 takes.
    pub(crate) fn contention_span(&self) -> Span {
        let measured = self.effort.pick(60, 20, 3);
        Span { warm_up: Nanos::from_secs(2), measured: Nanos::from_secs(measured) }
    }

    /// How long a mix of tenants is (Manylogs V-B: five minutes).
    pub(crate) fn mix_length(&self) -> Nanos {
        Nanos::from_secs(self.effort.pick(300, 300, 10))
    }

    /// How long an hour is; a stand-in in tests.
    pub(crate) fn hour_length(&self) -> Nanos {
        Nanos::from_secs(self.effort.pick(3600, 3600, 20))
    }

    /// Runs `steps` one after the other, telling of each; stops at the first that fails.
    pub(crate) fn each<S, T>(
        &mut self,
        experiment: &str,
        steps: Vec<(String, S)>,
        mut run: impl FnMut(&Self, S) -> Result<T, FigureError>,
    ) -> Result<Vec<T>, FigureError> {
        self.progress.begin(experiment, steps.len());
        let mut results = Vec::with_capacity(steps.len());
        for (what, step) in steps {
            self.progress.step(&what);
            results.push(run(self, step)?);
        }
        self.progress.end();
        Ok(results)
    }
}
