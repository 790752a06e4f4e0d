//! Memory that was asked for and is not there: said at the start, where a cache that fills for hours would end the daemon at night.

use crate::units::ByteSize;
use nearhead_settings::ServeArgs;

/// Refuses a read cache that is as large as all of the machine's memory. Where that is not known nothing is refused.
pub fn refuse_more_than_there_is(args: &ServeArgs) -> Result<(), String> {
    let (Some(ByteSize(wanted)), Some(total)) = (args.read_cache, total_bytes()) else {
        return Ok(());
    };
    if wanted < total {
        return Ok(());
    }
    Err(format!(
        "--read-cache: expected less than the machine's memory of {}, found {}; take what it can spare, or a flash file with \
         --read-cache-device",
        ByteSize(total),
        ByteSize(wanted)
    ))
}

/// All of the machine's memory, as `/proc/meminfo` has it (proc(5)).
fn total_bytes() -> Option<u64> {
    total_of(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn total_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_memory_is_found_where_the_kernel_says_it() {
        assert_eq!(total_of("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        for text in ["", "MemTotal: much kB", "MemTotal: 5", "MemFree: 3 kB"] {
            assert_eq!(total_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_cache_as_large_as_all_of_it_is_refused_and_none_is_not() {
        let asked = |bytes| {
            let args = ServeArgs { read_cache: Some(ByteSize(bytes)), ..ServeArgs::default() };
            refuse_more_than_there_is(&args)
        };
        assert!(asked(0).is_ok());
        let Some(total) = total_bytes() else { return println!("skipped: no /proc/meminfo") };
        assert!(asked(total).unwrap_err().contains("--read-cache-device"));
        assert!(asked(total - 1).is_ok());
    }
}
