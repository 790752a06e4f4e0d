//! What a life has by its seed alone, each by a generator of its own: so nothing else in a life depends on it, and the seeds from before there was
//! the choice keep the lives that they were.

use super::{MIB, pick};
use nearhead_basics::SplitMix;
use nearhead_disk::{TrackZone, Tracks, Turn};
use nearhead_volume::NamedPreset;

/// Two mirrors in three, of the seeds since there is the choice.
pub(super) fn goes_away(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_571_000_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x676f_6573_5f61_7761).below(3) > 0
}

/// One life in three, of the seeds since there is the choice: older ones are the lives that they were.
pub(super) fn lone_writes_go_home(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_549_500_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x616c_6f6e_655f_7772).below(3) == 0
}

/// One life in three, of the seeds since there is the choice.
pub(super) fn wanders(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_551_700_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x7761_6e64_6572_6572).below(3) == 0
}

/// One life in four, of the seeds since there is the choice.
pub(super) fn is_restless(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_551_930_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x7265_7374_6c65_7373).below(4) == 0
}

/// One life in four, of the seeds since there is the choice.
pub(super) fn is_patient(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_554_557_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x7061_7469_656e_7421).below(4) == 0
}

/// One life in four, of the seeds since there is the choice.
pub(super) fn is_fickle(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_559_000_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x6669_636b_6c65_2121).below(4) == 0
}

/// One life in three that has homes and logs, of the seeds since there is the choice.
pub(super) fn has_fragments(seed: u64, preset: &NamedPreset) -> bool {
    const CHOSEN_FROM: u64 = 79_572_410_000_000;
    let layout = preset.layout;
    let may_have = layout.has_logs() && !layout.is_chain();
    may_have && seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x6672_6167_6d65_6e74).below(3) == 0
}

/// One life in two, of the seeds since there is the choice.
pub(super) fn is_anywhere(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_562_000_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x616e_7977_6865_7265).coin()
}

/// One life in three, of the seeds since there is the choice.
pub(super) fn has_log_device(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_563_000_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x6c6f_6720_6465_7669).below(3) == 0
}

/// One life in three, of the seeds since there is the choice.
pub(super) fn is_chained(seed: u64) -> bool {
    const CHOSEN_FROM: u64 = 79_564_000_000_000;
    seed >= CHOSEN_FROM && SplitMix::new(seed ^ 0x6368_6169_6e65_6421).below(3) == 0
}

/// One to three devices, the first with room for the snapshots beside some data: as much data as there are to be logs.
pub(super) fn data_bytes(seed: u64, preset: &NamedPreset) -> Vec<u64> {
    if !preset.layout.is_for_data_devices() {
        return Vec::new();
    }
    let mut random = SplitMix::new(seed ^ 0x6461_7461_2064_6576);
    let first = (8 + pick(&mut random, &[2, 10, 30])) * MIB + random.below(MIB);
    let others = random.below(3);
    let others = (0..others).map(|_| (2 + random.below(9)) * MIB);
    std::iter::once(first).chain(others).collect()
}

/// None to two further log devices, of the seeds since there is the choice.
pub(super) fn log_device_bytes(seed: u64, preset: &NamedPreset) -> Vec<u64> {
    const CHOSEN_FROM: u64 = 79_571_000_000_000;
    if seed < CHOSEN_FROM || !preset.layout.is_for_data_devices() {
        return Vec::new();
    }
    let mut random = SplitMix::new(seed ^ 0x6c6f_6720_6469_736b);
    (0..random.below(3)).map(|_| a_log_device(&mut random)).collect()
}

/// With room for four logs and more, whatever their size.
pub(super) fn a_log_device(random: &mut SplitMix) -> u64 {
    (10 + random.below(12)) * MIB + random.below(MIB)
}

/// None to two devices behind the first of a chain, each with a few logs of any size.
pub(super) fn chain_bytes(seed: u64) -> Vec<u64> {
    let mut random = SplitMix::new(seed ^ 0x6765_636b_6f20_6465);
    let others = random.below(3);
    (0..others).map(|_| (26 + random.below(20)) * MIB + random.below(MIB)).collect()
}

/// Tracks that have nothing to do with the disk: whoever follows them must find out, and lose nothing meanwhile.
pub(super) fn tracks(seed: u64) -> Tracks {
    let mut random = SplitMix::new(seed ^ 0x7472_6163_6b73_2121);
    let zones = (0..=random.below(2)).map(|zone| TrackZone {
        first_byte: zone * 40 * MIB,
        track_bytes: 512 * (1 + random.below(2048)),
        skew: Turn(random.next_u64() as u32),
        group_tracks: random.below(9) as u32,
        group_skew: Turn(random.next_u64() as u32),
        group_bytes: 0,
    });
    let zones = zones.collect();
    let period_ns = 1e6 + random.below(9_000_000) as f64;
    Tracks::new(period_ns, zones).expect("zones in their order, of whole sectors")
}

/// Nothing, a little, or more than is ever logged, of the seeds since there is the choice.
pub(super) fn memory_bytes(seed: u64) -> u64 {
    const CHOSEN_FROM: u64 = 79_559_000_000_000;
    let choices = [0, 0, 100 << 10, 1 << 40];
    if seed < CHOSEN_FROM {
        return 0;
    }
    pick(&mut SplitMix::new(seed ^ 0x7265_6d65_6d62_6572), &choices)
}

/// The same of the read cache of a chain.
pub(super) fn read_cache_bytes(seed: u64) -> u64 {
    const CHOSEN_FROM: u64 = 79_565_000_000_000;
    if seed < CHOSEN_FROM {
        return 0;
    }
    pick(&mut SplitMix::new(seed ^ 0x7265_6164_2063_6163), &[0, 60 << 10, 1 << 20, 1 << 40])
}
