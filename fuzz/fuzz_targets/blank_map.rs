//! libFuzzer over the boundary `blank_map` of `nearhead-hostile`, whose laws it tries to break.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (nearhead_hostile::target_named("blank_map").run)(data));
