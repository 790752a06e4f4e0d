//! References to inodes: of open files and of the kernel. What nobody refers to any more and has no name is let go.

use crate::Ext4;
use crate::types::Ino;

impl Ext4 {
    /// One more reference: an inode that loses its last name lives on in memory while there is one.
    pub fn hold(&mut self, ino: Ino) {
        *self.holds.entry(ino.0).or_default() += 1;
    }

    /// One reference less. What an inode without a name occupied is freed with the running transaction; one that is
    /// large is left to [`Ext4::work_off`].
    pub fn release(&mut self, ino: Ino) {
        let Some(count) = self.holds.get_mut(&ino.0) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.holds.remove(&ino.0);
        self.nameless.remove(&ino);
        let Some(orphan) = self.orphans.remove(&ino) else { return };
        if let Some(noted) = &mut self.noted_orphans {
            noted.insert(ino);
        }
        for extent in orphan.extents.values() {
            let range = extent.physical..extent.physical + u64::from(extent.len);
            self.reserved.remove(&range);
            self.freed.insert(range);
        }
    }

    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.holds.contains_key(&ino.0)
    }
}
