//! `nearhead trace`: what goes to a block device, recorded for `nearhead replay`.
//!
//! The kernel's own events are written down, in an instance of its tracing of our own, so that nothing else on the machine is touched. The file has the form
//! of `blkparse`. It says how many events were lost, and never pretends that none were.

mod devices;
mod event;
mod instance;
mod output;
mod recorder;

use devices::{Subject, Traced};
use instance::{Instance, Makers};
use nearhead_output::{counted, note, quoted, say, say_json, warn};
use nearhead_settings::units::{Span, date_of};
use output::Output;
use recorder::{Plan, Recorded};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What `nearhead trace` is told.
#[derive(clap::Args, Debug)]
pub struct TraceArgs {
    /// A block device (a disk, a partition, a logical volume), or the number of a process.
    ///
    /// Of a process the devices are traced under the files that it has open when the trace begins, with all that anybody asks of them: what a process writes
    /// through the page cache is written back by the kernel's own threads, and a file system's journal has a thread of its own, so nobody can say
    /// for whom they do it. Lines with a star are those that the process, its threads or its children asked for themselves.
    #[arg(value_name = "DEVICE|PID")]
    pub subject: String,
    /// How long, such as 30s, 5m or 1h; Ctrl-C ends it before that, and keeps what is there.
    #[arg(long = "for", default_value = "5m", value_name = "TIME")]
    pub span: Span,
    /// The file that is made; compressed if its name ends in .zst. NAME.trace.zst in the current folder if nothing is said.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where the kernel's tracing is mounted, if neither at /sys/kernel/tracing nor at /sys/kernel/debug/tracing.
    #[arg(long, value_name = "FOLDER")]
    pub tracefs: Option<PathBuf>,
    /// What was recorded as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What was recorded, for programs.
#[derive(Serialize)]
struct Report {
    file: PathBuf,
    file_bytes: u64,
    devices: Vec<String>,
    #[serde(flatten)]
    recorded: Recorded,
}

/// Records a trace; the error is what to tell the user.
pub fn run(args: &TraceArgs) -> Result<(), String> {
    let span = Duration::from_nanos(args.span.0.0);
    if span.is_zero() {
        return Err("trace: expected --for above 0, found 0".to_owned());
    }
    let subject = Subject::parse(&args.subject)?;
    let devices = devices::of(&subject)?;
    let process = match subject {
        Subject::Process(number) => Some(number),
        Subject::Device(_) => None,
    };
    let root = instance::find(args.tracefs.as_deref())?;
    let path = args.out.clone().unwrap_or_else(|| PathBuf::from(file_name(process, &devices)));
    let mut wholes: Vec<_> = devices.iter().map(|traced| traced.whole).collect();
    wholes.sort_unstable();
    wholes.dedup();
    let events = event::EVENTS.iter().map(|(name, _)| *name);
    let instance = Instance::make(&root, Makers::KERNEL, events, &wholes)?;
    let ended = end_of_signals()?;
    let mut output = Output::create(&path)?;
    let names: Vec<&str> = devices.iter().map(|traced| traced.name.as_str()).collect();
    let names = names.join(", ");
    warn_of_own_writes(&path, &wholes);
    let plan = Plan { devices, process, span };
    output.text().push_str(&head(&plan));
    let begun = || {
        let span = args.span.typed();
        note(&format!("recording what goes to {names} for {span} at most; Ctrl-C ends it"));
    };
    let recorded = recorder::record(&instance, &plan, &mut output, &ended, begun);
    drop(instance);
    if let Ok(recorded) = &recorded {
        output.text().push_str(&foot(recorded));
    }
    let written = output.write();
    let recorded = recorded?;
    written?;
    tell(args, &path, output.bytes, &names, recorded)
}

/// Becomes readable when somebody wants an end.
fn end_of_signals() -> Result<UnixStream, String> {
    let failed = |error: std::io::Error| format!("trace: signals cannot be handled: {error}");
    let (ended, end) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let end = end.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, end).map_err(failed)?;
    }
    Ok(ended)
}

fn file_name(process: Option<u32>, devices: &[Traced]) -> String {
    let name = match (process, devices) {
        (Some(number), _) => format!("{}-{number}", devices::name_of(number)),
        (None, [device, ..]) => device.name.clone(),
        (None, []) => "device".to_owned(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("{name}.trace.zst")
}

/// A trace that lies on what it is about has its own writes in it.
fn warn_of_own_writes(path: &Path, wholes: &[(u32, u32)]) {
    let Some(traced) = std::fs::metadata(path).ok().and_then(|it| devices::under(it.dev())) else {
        return;
    };
    if wholes.contains(&traced.whole) {
        warn(&format!(
            "trace: {} lies on {}, which is traced, so its own writes will be in it; --out on another disk or in /dev/shm keeps them out",
            path.display(),
            traced.name
        ));
    }
}

/// What stands above the events.
fn head(plan: &Plan) -> String {
    let mut text = format!(
        "# nearhead trace of version {}, in the form of blkparse\n",
        env!("CARGO_PKG_VERSION")
    );
    for Traced { number: (major, minor), name, facts, first_sector, .. } in &plan.devices {
        // Writing to a string cannot fail.
        let _ = write!(text, "# device {major},{minor} {name}: {facts}");
        if *first_sector > 0 {
            let _ = write!(
                text,
                "; sectors counted from its own beginning, {first_sector} of the whole device"
            );
        }
        text.push('\n');
    }
    if let Some(process) = plan.process {
        let name = devices::name_of(process).replace(char::is_control, "?");
        let _ = writeln!(
            text,
            "# process {process} ({name}): a star behind a line says that it, or one that it started, asked for that itself"
        );
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let _ = writeln!(text, "# begun {}", date_of(now.as_secs()));
    text
}

/// What stands below them.
fn foot(recorded: &Recorded) -> String {
    format!(
        "# ended after {:.1} s; {} lost\n",
        recorded.seconds,
        counted(recorded.lost_events, "event")
    )
}

fn tell(
    args: &TraceArgs,
    path: &Path,
    file_bytes: u64,
    names: &str,
    recorded: Recorded,
) -> Result<(), String> {
    if recorded.lost_events > 0 {
        warn(&format!(
            "trace: {} found no room in the kernel's memory, so requests are missing; the file says so, too",
            counted(recorded.lost_events, "event")
        ));
    }
    if let Some(line) = &recorded.first_strange_line {
        let count = counted(recorded.strange_lines, "line");
        warn(&format!(
            "trace: {count} of the kernel could not be understood and were left out; the first: {line}"
        ));
    }
    if args.json {
        let devices = names.split(", ").map(str::to_owned).collect();
        return say_json(&Report { file: path.to_owned(), file_bytes, devices, recorded });
    }
    let Recorded { requests, durable_requests, marked_requests, seconds, .. } = recorded;
    let file = quoted(&path.display().to_string()).into_owned();
    say(&format!(
        "{names}: {} in {seconds:.1} s, {durable_requests} of them flushes or with FUA; {file} ({file_bytes} bytes)",
        counted(requests, "request")
    ));
    if args.subject.parse::<u32>().is_ok() {
        say(&format!(
            "{marked_requests} of these the process asked for itself; what the kernel wrote back or its file system's journal wrote nobody can tell apart"
        ));
    }
    if requests == 0 {
        say("Nothing was asked of it: is it the device that is meant, and was it used?");
    } else {
        say(&format!(
            "What Nearhead would make of it: nearhead replay {file} --disk PROFILE   (nearhead disk list)"
        ));
    }
    Ok(())
}
