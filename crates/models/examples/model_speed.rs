//! How many requests per second of processor time the model simulates, without content, on one core.

use nearhead_basics::SplitMix;
use nearhead_disk::{Class, Command, CommandId, Nanos, Payload, Submission, Ticket};
use nearhead_models::{Dataless, Drive, HddOptions, Model, ProfileError};
use rustix::time::{ClockId, clock_gettime};

/// Runs `count` random 4 KiB requests at a constant `depth`; gives the model time they took.
fn run(disk: &mut dyn Model, count: u64, depth: u64, reads_of_ten: u64) -> Nanos {
    let mut random = SplitMix::new(7);
    let blocks = disk.properties().capacity_bytes / 4096;
    let mut now = Nanos::ZERO;
    let mut outstanding = 0;
    for id in 0..count {
        while outstanding >= depth {
            now = disk.wake_at().unwrap_or(now);
            while disk.poll(now).is_some() {
                outstanding -= 1;
            }
        }
        outstanding += 1;
        let offset = random.below(blocks) * 4096;
        let command = if random.below(10) < reads_of_ten {
            Command::Read { offset, len: 4096 }
        } else {
            Command::Write { offset, parts: vec![Payload::Phantom(4096)], durable: false }
        };
        let ticket = Ticket::new(CommandId(id));
        disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
    }
    now
}

/// Time this thread has had a core for, whoever else wanted it.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() -> Result<(), ProfileError> {
    println!(
        "{:22} {:>6} {:>6} {:>14} {:>12}",
        "profile", "depth", "reads", "requests/s", "disk IOPS"
    );
    for name in Drive::known_names() {
        for (depth, reads_of_ten) in [(1, 10), (1, 5), (16, 10), (16, 5)] {
            let drive = Drive::named(name)?;
            let mut disk = drive.build(Box::new(Dataless), HddOptions::default())?;
            let count = 1_000_000;
            let start = cpu_seconds();
            let took = run(&mut *disk, count, depth, reads_of_ten);
            let rate = count as f64 / (cpu_seconds() - start);
            let disk_rate = count as f64 / took.as_secs_f64();
            println!("{name:22} {depth:>6} {reads_of_ten:>5}0% {rate:>14.0} {disk_rate:>12.0}");
        }
    }
    Ok(())
}
