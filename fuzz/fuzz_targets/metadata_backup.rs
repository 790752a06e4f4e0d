//! libFuzzer over the boundary `metadata_backup` of `nearhead-hostile`, whose laws it tries to break.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (nearhead_hostile::target_named("metadata_backup").run)(data));
