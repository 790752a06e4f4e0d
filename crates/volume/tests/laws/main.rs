//! The laws of SAFETY.md, each tried against a volume over a disk that loses, tears, reorders and
//! fails. One program, so that all of it shares one oracle and one harness.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

mod after_recovery;
mod alone_home;
mod bad_sectors;
mod bad_slot;
mod blank_map;
mod company;
mod counts;
mod crash_random;
mod determinism;
mod exhaustive_crash;
mod failed_volume;
mod failing_data_device;
mod failing_homes;
mod from_memory;
mod full_logs;
mod given_up_swap;
mod held_record;
mod journal_wrap;
mod laps;
mod lone_header;
mod lost_record;
mod no_space;
mod offline_commands;
mod older_slot;
mod only_log;
mod outrun_read;
mod rebuild;
mod recovery_table;
mod rot;
mod slow_disk;
mod stale_superblock;
mod state_machine;
mod support;
mod torn_removal;
mod torn_twin;
mod unreadable;
