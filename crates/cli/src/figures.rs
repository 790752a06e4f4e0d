//! `nearhead figures`: the papers' figures and tables, reproduced on disk models in virtual time.
//!
//! The crate `nearhead-figures` computes; this file takes the flags, shows how far it is, prints
//! the tables and writes the folder. An output folder that cannot be written is found out before
//! anything is computed.

use nearhead_figures::{Effort, FIGURES, Fit, Lab, Progress, Report, Traces};
use nearhead_output::{note, say};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Characters of a full bar.
const BAR: usize = 24;

/// What `nearhead figures` is told.
#[derive(clap::Args, Debug)]
pub struct FiguresArgs {
    /// Which figures and tables [default: all of them]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Shorter runs and fewer points: within a minute
    #[arg(long)]
    pub quick: bool,
    /// The least that shows every figure; its numbers mean little
    #[arg(long, conflicts_with = "quick", hide = true)]
    pub tiny: bool,
    /// Folder for report.html, CSV and SVG files
    #[arg(long, default_value = "target/figures")]
    pub out: PathBuf,
    /// Folder of the real traces [default: `$NEARHEAD_SHARED/traces` or ../shared/traces, if there]
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Requests of real traces past the end of the disk: an error, wrapped around, or the whole
    /// trace scaled
    #[arg(long, value_enum, default_value_t = crate::replay::Fit::Error)]
    pub fit: crate::replay::Fit,
    /// List the names and stop
    #[arg(long)]
    pub list: bool,
}

/// Shows how far it is: a bar on a terminal, lines otherwise.
struct Bar {
    begun: Instant,
    experiment: String,
    steps: usize,
    done: usize,
    on_terminal: bool,
}

impl Bar {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            experiment: String::new(),
            steps: 0,
            done: 0,
            on_terminal: std::io::stderr().is_terminal(),
        }
    }

    fn show(&self, what: &str) {
        let full = BAR * self.done / self.steps.max(1);
        let bar = "#".repeat(full) + &".".repeat(BAR - full);
        let (done, steps, passed_s) = (self.done, self.steps, self.begun.elapsed().as_secs_f64());
        let line = format!("{} [{bar}] {done}/{steps}, {passed_s:.0} s: {what}", self.experiment);
        // Nobody to tell: nothing to be done about it.
        let _ = if self.on_terminal {
            write!(std::io::stderr(), "\r\x1b[2K{line}")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
    }
}

impl Progress for Bar {
    fn begin(&mut self, experiment: &str, steps: usize) {
        (self.experiment, self.steps, self.done) = (experiment.to_owned(), steps, 0);
    }

    fn step(&mut self, what: &str) {
        self.show(what);
        self.done += 1;
    }

    fn end(&mut self) {
        if self.on_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

/// Makes the figures; the error is what to tell the user.
pub fn run(args: &FiguresArgs) -> Result<(), String> {
    if args.list {
        for figure in FIGURES {
            say(&format!("{:<8} {}", figure.name, figure.summary));
        }
        return Ok(());
    }
    let told = |error: nearhead_figures::FigureError| format!("figures: {error}");
    let chosen = nearhead_figures::choose(&args.names).map_err(told)?;
    nearhead_figures::prepare(&args.out).map_err(told)?;
    let traces = traces(args)?;
    if !traces.any_at_hand() {
        note("figures: no real traces at hand; all server traces are synthetic");
    }
    let mut bar = Bar::new();
    let mut reports: Vec<Report> = Vec::new();
    let mut lab = Lab::new(effort(args), traces, &mut bar);
    let mut failure = None;
    for figure in chosen {
        match (figure.run)(&mut lab) {
            Ok(report) => {
                say(&nearhead_figures::table(&report));
                reports.push(report);
            }
            Err(error) => {
                // What is done is worth keeping; what would follow may fail for the same reason.
                failure = Some(format!("figures: {}: {error}", figure.name));
                break;
            }
        }
    }
    let page = nearhead_figures::write(&reports, &command(args), &args.out).map_err(told)?;
    say(&format!("The report: {}", page.display()));
    failure.map_or(Ok(()), Err)
}

fn effort(args: &FiguresArgs) -> Effort {
    match (args.quick, args.tiny) {
        (_, true) => Effort::Tiny,
        (true, _) => Effort::Quick,
        _ => Effort::Full,
    }
}

fn traces(args: &FiguresArgs) -> Result<Traces, String> {
    let mut traces = Traces::beside_the_project();
    if let Some(folder) = &args.traces {
        if !folder.is_dir() {
            let found = folder.display();
            return Err(format!("figures: expected --traces with a folder, found {found}"));
        }
        traces.folder = Some(folder.clone());
    }
    traces.fit = match args.fit {
        crate::replay::Fit::Error => Fit::Error,
        crate::replay::Fit::Wrap => Fit::Wrap,
        crate::replay::Fit::Scale => Fit::Scale,
    };
    Ok(traces)
}

/// What made the page, without what differs between machines.
fn command(args: &FiguresArgs) -> String {
    let mut words = vec!["nearhead figures".to_owned()];
    words.extend(args.names.iter().cloned());
    words.extend(args.quick.then(|| "--quick".to_owned()));
    words.extend(args.tiny.then(|| "--tiny".to_owned()));
    words.join(" ")
}
