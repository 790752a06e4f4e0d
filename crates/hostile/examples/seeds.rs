//! Writes the seeds of every target into `fuzz/corpus`: run after a change of a format.

use nearhead_hostile::TARGETS;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let folder = root.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, bytes) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:02}")), bytes)?;
        }
    }
    Ok(())
}
