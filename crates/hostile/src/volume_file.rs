//! Volume files in TOML, and the sizes, times and parts of the day that people type.
//!
//! The laws: no text makes reading one panic; what a file says is within the bounds of the flags, completes
//! flags that say nothing without loss, and never wins over one that does; what configures a volume keeps the
//! engine's bounds. A size, time or window that is read is read the same with blanks around it.

use crate::decoders::VOLUME_ID;
use crate::input::Input;
use nearhead_format::{AckMode, Label, Layout, LayoutOptions, Superblock};
use nearhead_models::plain_properties;
use nearhead_settings::ServeArgs;
use nearhead_settings::units::{ByteSize, Span, Window};
use nearhead_volume::NamedPreset;
use std::fmt::Debug;
use std::str::FromStr;

/// Reads the input as a volume file or as one value.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let text = String::from_utf8_lossy(input.rest());
    match choice & 3 {
        0 => {
            value::<ByteSize>(&text);
            value::<Span>(&text);
            if let Some(window) = value::<Window>(&text) {
                let day_s = 24 * 60 * 60;
                assert!(window.start_s < day_s && window.end_s < day_s, "{window:?}");
                assert_ne!(window.start_s, window.end_s, "{window:?}");
            }
        }
        1 => volume_file(&text, "nolog"),
        _ => volume_file(&text, "mlb"),
    }
}

/// Reads a value, and again with blanks around it.
fn value<T: FromStr<Err = String> + Debug + PartialEq>(text: &str) -> Option<T> {
    let read = text.parse::<T>();
    if read.is_ok() {
        assert_eq!(format!(" {text}\t").parse::<T>(), read, "{text:?}");
    }
    read.ok()
}

fn volume_file(text: &str, preset: &str) {
    let Ok(file) = ServeArgs::from_text(text) else { return };
    for percent in [file.watermark, file.swap_above].into_iter().flatten() {
        assert!(percent <= 100, "{file:?}");
    }
    let merged = ServeArgs::default().completed_by(file.clone());
    assert_eq!(format!("{merged:?}"), format!("{file:?}"));
    let flags = ServeArgs {
        target: Some("a flag".to_owned()),
        watermark: Some(7),
        export: vec!["another".to_owned()],
        ..ServeArgs::default()
    };
    let merged = flags.completed_by(file.clone());
    assert_eq!(merged.target(), Ok("a flag"));
    assert_eq!((merged.watermark, &merged.export), (flags.watermark, &flags.export));
    let Some((preset, superblock)) = volume(preset) else { return };
    let mut config = preset.config(&superblock, &plain_properties(1 << 30, 512));
    let before = (config.record_bytes_max, config.logged_write_bytes_max);
    if file.configure(&superblock, preset.name, &mut config).is_err() {
        return;
    }
    assert_eq!(config.record_bytes_max, before.0);
    let logged = config.logged_write_bytes_max;
    assert!(logged == before.1 || (512..=1 << 20).contains(&logged), "{file:?}");
    assert!(config.stage_bytes_max >= 2 * config.record_bytes_max as usize, "{file:?}");
    let cleaning = &config.cleaning;
    for percent in [cleaning.watermark_pct, cleaning.swap_above_pct].into_iter().flatten() {
        assert!((1..=100).contains(&percent), "{file:?}");
    }
    assert!(config.read_only || !file.read_only, "{file:?}");
}

fn volume(preset: &str) -> Option<(NamedPreset, Superblock)> {
    let preset = NamedPreset::by_name(preset).ok()?;
    let superblock = Superblock {
        volume_id: VOLUME_ID,
        generation: 1,
        created_unix_s: 0,
        layout: Layout::plan(1 << 30, &LayoutOptions::new(preset.layout)).ok()?,
        preset: preset.number,
        ack: AckMode::Flush,
        logged_write_bytes_max: 0,
        feature_incompat: 0,
        feature_ro_compat: 0,
        label: Label::default(),
        map_device_id: None,
    };
    Some((preset, superblock))
}

/// Every name a file may have, and each sort of value.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in [1, 2] {
        seeds.push([&[choice], include_str!("volume_files/every_name.toml").as_bytes()].concat());
    }
    for file in
        ["target = \"a.img\"\nwatermark = 100\n", "stage_size = 33554432\nthreshold = \"32k\"\n"]
    {
        seeds.push([&[2], file.as_bytes()].concat());
    }
    for text in ["4096", "64MiB", "10GB", "500ms", "10min", "2h", "22:30-06:00"] {
        seeds.push([&[0], text.as_bytes()].concat());
    }
    seeds
}
