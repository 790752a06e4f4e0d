//! libFuzzer over the boundary `disksim` of `nearhead-hostile`, whose laws it tries to break.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (nearhead_hostile::target_named("disksim").run)(data));
