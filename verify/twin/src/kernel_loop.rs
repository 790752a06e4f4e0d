//! The oracle: a loop device of the kernel over a plain sparse file.
//!
//! It has exactly the size and the sector size of the subject, and no fault ever hits it.

use crate::side::Side;
use crate::tools;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A loop device and its file; detached when dropped.
#[derive(Debug)]
pub struct KernelLoop {
    file: PathBuf,
    device: PathBuf,
    block_bytes: u32,
}

impl KernelLoop {
    /// Makes one of `size_bytes` over a new file.
    pub fn new(file: &Path, size_bytes: u64, block_bytes: u32) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", file.display());
        File::create_new(file).and_then(|made| made.set_len(size_bytes)).map_err(failed)?;
        Self::over(file, block_bytes)
    }

    /// Makes one over a file that is there.
    pub fn over(file: &Path, block_bytes: u32) -> Result<Self, String> {
        let device = attach(file, block_bytes)?;
        Ok(Self { file: file.to_owned(), device, block_bytes })
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.device
    }

    /// Gives it another size.
    pub fn resize(&self, size_bytes: u64) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.file.display());
        let file = File::options().write(true).open(&self.file).map_err(failed)?;
        file.set_len(size_bytes).map_err(failed)?;
        tools::ok("losetup", &["--set-capacity".as_ref(), self.device.as_os_str()]).map(drop)
    }
}

impl Side for KernelLoop {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn device(&self) -> PathBuf {
        self.device.clone()
    }

    fn below(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }

    fn reattach(&mut self) -> Result<(), String> {
        tools::ok("losetup", &["--detach".as_ref(), self.device.as_os_str()])?;
        self.device = attach(&self.file, self.block_bytes)?;
        Ok(())
    }
}

impl Drop for KernelLoop {
    fn drop(&mut self) {
        let _ = tools::run("losetup", &["--detach".as_ref(), self.device.as_os_str()]);
    }
}

fn attach(file: &Path, block_bytes: u32) -> Result<PathBuf, String> {
    let size = block_bytes.to_string();
    let args = ["--find", "--show", "--sector-size", &size];
    let args = args.iter().map(std::ffi::OsStr::new).chain([file.as_os_str()]);
    tools::ok("losetup", &args.collect::<Vec<_>>()).map(PathBuf::from)
}
