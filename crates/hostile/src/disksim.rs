//! Parameter packages of DiskSim: a few text files that name each other.
//!
//! An input is the files one after the other, each after a line `== name`. The laws: importing one
//! comes to an end without a panic and reads no file outside of its folder; what is imported is a
//! profile that is accepted again from its own text, and means the same disk.

use nearhead_models::Profile;
use nearhead_profiles::import::{import, to_toml};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Files of a package, at most.
const FILES_MAX: usize = 6;
/// Blocks whose place is compared.
const SAMPLES: u64 = 64;

/// A folder that goes away with the input.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Imports the input as a package.
pub(crate) fn run(data: &[u8]) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let text = String::from_utf8_lossy(data);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("nearhead-hostile-{}-{number}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let made = std::fs::create_dir_all(&folder.0);
    assert!(made.is_ok(), "the folder for temporary files: {made:?}");
    for part in text.split("== ").skip(1).take(FILES_MAX) {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        if is_plain(name) {
            // A name that no file can have is no file.
            let _ = std::fs::write(folder.0.join(name), text);
        }
    }
    let Ok(imported) = import(&folder.0.join("p")) else { return };
    check(&imported.profile, &to_toml(&imported.profile, &imported.sources));
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    (1..=16).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

fn check(profile: &Profile, text: &str) {
    let again = Profile::parse("again", text);
    let again = again.unwrap_or_else(|error| panic!("imported, but refused: {error}\n{text}"));
    let (Ok(geometry), Ok(same)) = (profile.geometry(), again.geometry()) else {
        panic!("imported, but no disk:\n{text}")
    };
    assert_eq!(geometry.blocks(), same.blocks());
    let stride = (geometry.blocks() / SAMPLES).max(1);
    for lbn in (0..geometry.blocks()).step_by(stride as usize) {
        assert_eq!(geometry.locate(lbn), same.locate(lbn), "block {lbn}\n{text}");
    }
}

/// Small packages of every form.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        include_str!("packages/tiny.txt"),
        include_str!("packages/tree.txt"),
        include_str!("packages/listed.txt"),
        include_str!("packages/parv.txt"),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
