//! A store that keeps nothing, for simulations by sizes and addresses alone.

use super::Store;
use nearhead_disk::DiskError;

/// Keeps nothing; reads give phantoms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dataless;

impl Store for Dataless {
    fn keeps_content(&self) -> bool {
        false
    }

    fn read(&self, _offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        target.fill(0);
        Ok(())
    }

    fn write(&mut self, _offset: u64, _bytes: &[u8]) -> Result<(), DiskError> {
        Ok(())
    }

    fn zero(&mut self, _offset: u64, _len: u64) -> Result<(), DiskError> {
        Ok(())
    }
}
