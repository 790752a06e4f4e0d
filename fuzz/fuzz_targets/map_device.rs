//! libFuzzer over the boundary `map_device` of `nearhead-hostile`, whose laws it tries to break.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (nearhead_hostile::target_named("map_device").run)(data));
