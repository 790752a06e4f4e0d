//! libFuzzer over the boundary `fuse_request` of `nearhead-hostile`, whose laws it tries to break.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (nearhead_hostile::target_named("fuse_request").run)(data));
