//! What the sentence rests on, a line each: the trace, the disk, and how the one was played on the other.

use super::verdict::points_word;
use super::{Answer, verdict};
use nearhead_sim::replay::{Durability, PAUSE_MAX, SMALL_BYTES_MAX, STREAM_BYTES_MIN};
use std::fmt::Write;

/// A shorter trace ends before logs are full.
const SHORT_S: f64 = 60.0;

pub(super) fn lines(answer: &Answer) -> Vec<String> {
    let mut lines = vec![trace(answer)];
    lines.extend(answer.makeup.notes.iter().map(|note| format!("the trace says: {note}")));
    lines.push(durability(answer));
    lines.push(disk(answer));
    lines.extend(demerit(answer));
    lines.push(how(answer));
    lines.extend(short(answer));
    lines
}

fn trace(answer: &Answer) -> String {
    let makeup = &answer.makeup;
    let mut line = format!(
        "trace {} ({}): {} requests in {:.1} s",
        answer.trace,
        makeup.format,
        makeup.requests,
        makeup.duration.as_secs_f64()
    );
    // Writing to a string cannot fail.
    if makeup.devices > 1 {
        let devices = makeup.devices;
        let _ = write!(
            line,
            ", to {devices} devices that lie over each other here (--device takes one of them)"
        );
    }
    if makeup.counts.skipped > 0 {
        let skipped = makeup.counts.skipped;
        let _ = write!(line, "; {skipped} lines do not parse and were left out");
    }
    line
}

fn durability(answer: &Answer) -> String {
    let makeup = &answer.makeup;
    let bulk = format!(
        "bulk are requests of more than {} KiB that go on where one like them ended, from {} MiB of such a stream on: {} of {:.1} GB in all",
        SMALL_BYTES_MAX >> 10,
        STREAM_BYTES_MIN >> 20,
        makeup.bulk_requests,
        makeup.bulk_bytes as f64 / 1e9
    );
    match makeup.durability {
        Durability::Asked => format!(
            "{} are the {} flushes and FUA writes in it, each with the small writes that its process waited for before; {bulk}",
            points_word(answer),
            makeup.points
        ),
        Durability::EveryWrite => format!(
            "it has no flush and no FUA, so each of the {} small writes that somebody waits for counts as one that is to be durable; {bulk}",
            makeup.points
        ),
    }
}

fn disk(answer: &Answer) -> String {
    let disk = &answer.disk;
    let fitted = if disk.is_built_in {
        "a drive that comes along, not fitted to yours (`nearhead disk list` has others, `nearhead disk import` makes one of a drive that was measured)"
    } else {
        "by your own file, so as near as that is (`nearhead disk validate` says how near)"
    };
    let cache = if disk.write_cache { "on" } else { "off" };
    format!("disk {}: {}, write cache {cache}; {fitted}", disk.asked, disk.description)
}

fn demerit(answer: &Answer) -> Option<String> {
    let demerit = answer.disk.demerit_pct?;
    Some(format!(
        "the model beside the drive that was traced: response times of all requests are {demerit:.0} % of their mean apart (demerit; what the drive \
         answered from its cache or made faster itself counts in it)"
    ))
}

fn how(answer: &Answer) -> String {
    let makeup = &answer.makeup;
    let bulk = match &makeup.recorded {
        Some(recorded) => format!(
            "bulk goes as fast as it gets through, {} at once as in the trace, with its pauses of more than {:.0} s; everything else",
            recorded.bulk_outstanding,
            PAUSE_MAX.as_secs_f64()
        ),
        None => "everything".to_owned(),
    };
    let times = if makeup.recorded.is_some() && makeup.has_processes {
        "comes at its recorded times, or as long as in the trace after what its process waited for before, if that is later (who would go on sooner does not)"
    } else {
        "comes at its recorded times, whatever its sender waited for (open loop: the trace does not say who waited how long)"
    };
    format!(
        "{bulk} {times}; times are means, in virtual time, without processor, kernel and network"
    )
}

fn short(answer: &Answer) -> Option<String> {
    let trace_s = answer.makeup.duration.as_secs_f64();
    let ours = verdict::chosen(answer)?;
    (trace_s < SHORT_S).then(|| {
        format!(
            "{trace_s:.0} s are short: {} brings home what is logged when logs fill or the disk is idle, and has hardly begun",
            ours.name
        )
    })
}
