//! What goes between the driver and its servers, byte by byte: the structures of `linux/ublk_cmd.h`, in the machine's byte order.
//!
//! ```text
//! ublksrv_ctrl_cmd      0 dev_id u32 | 4 queue_id u16 | 6 len u16 | 8 addr u64 | 16 data u64 | 24 .. 32 zeros
//! ublksrv_ctrl_dev_info 0 nr_hw_queues u16 | 2 queue_depth u16 | 4 state u16 | 8 max_io_buf_bytes u32 | 12 dev_id u32
//!                       16 ublksrv_pid i32 | 24 flags u64 | 32 ublksrv_flags u64 | 40 .. 64 owner and zeros
//! ublk_params           0 len u32 | 4 types u32 | 8 attrs u32 | 12 logical, physical, opt, min block size as shifts, u8 each
//!                       16 max_sectors u32 | 24 dev_sectors u64 | 32 virt_boundary_mask u64
//!                       40 discard_alignment u32 | 44 granularity u32 | 48 max_discard_sectors u32
//!                       52 max_write_zeroes_sectors u32 | 56 max_discard_segments u16
//! ublksrv_io_cmd        0 q_id u16 | 2 tag u16 | 4 result i32 | 8 addr u64
//! ublksrv_io_desc       0 op_flags u32 | 4 nr_sectors u32 | 8 start_sector u64 | 16 addr u64
//! ```
//!
//! Nothing here asks anything. A sector is always 512 bytes.

use nearhead_uring::COMMAND_BYTES;

/// Bytes of a sector, whatever the device's block.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// `UBLK_MAX_QUEUE_DEPTH` descriptors have room in front of the next queue's; ours is the first.
pub(crate) const DESCRIPTOR_WORDS: usize = 3;
/// Length of `ublksrv_ctrl_dev_info`.
pub(crate) const INFO_BYTES: usize = 64;
/// Length of `ublk_params` up to what discards need.
const PARAMETERS_BYTES: usize = 60;

/// The driver goes on after its server has ended.
pub(crate) const USER_RECOVERY: u64 = 1 << 3;
/// And asks the next one again for what was not answered.
pub(crate) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// Codes are those of an `ioctl` (Linux 6.3); the plain numbers are older, and may be left out of a newer kernel.
pub(crate) const IOCTL_ENCODE: u64 = 1 << 6;

const READ: u32 = 2 << 30;
const READ_WRITE: u32 = 3 << 30;

/// `_IOR('u', number, size)` and its like (`asm-generic/ioctl.h`).
const fn encoded(direction: u32, bytes: u32, number: u32) -> u32 {
    direction | bytes << 16 | (b'u' as u32) << 8 | number
}

/// What the control device is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    GetInfo,
    Add,
    Delete,
    Start,
    Stop,
    SetParameters,
    StartRecovery,
    EndRecovery,
    UpdateSize,
}

impl Order {
    fn number(self) -> u32 {
        match self {
            Self::GetInfo => 0x02,
            Self::Add => 0x04,
            Self::Delete => 0x05,
            Self::Start => 0x06,
            Self::Stop => 0x07,
            Self::SetParameters => 0x08,
            Self::StartRecovery => 0x10,
            Self::EndRecovery => 0x11,
            Self::UpdateSize => 0x15,
        }
    }

    /// As the kernel knows it.
    pub(crate) fn code(self, is_encoded: bool) -> u32 {
        let direction = if self == Self::GetInfo { READ } else { READ_WRITE };
        if is_encoded { encoded(direction, 32, self.number()) } else { self.number() }
    }
}

/// `ublksrv_ctrl_cmd`; the address is filled in by the ring.
pub(crate) fn control_command(device: u32, memory_bytes: usize, datum: u64) -> [u8; COMMAND_BYTES] {
    let mut command = [0; COMMAND_BYTES];
    put(&mut command, 0, &device.to_ne_bytes());
    // No queue in particular.
    put(&mut command, 4, &u16::MAX.to_ne_bytes());
    put(&mut command, 6, &(memory_bytes as u16).to_ne_bytes());
    put(&mut command, 16, &datum.to_ne_bytes());
    command
}

/// The code with which a server takes the first request of a slot, or answers one and takes the next.
pub(crate) fn io_code(is_answer: bool, is_encoded: bool) -> u32 {
    let number = if is_answer { 0x21 } else { 0x20 };
    if is_encoded { encoded(READ_WRITE, 16, number) } else { number }
}

/// `ublksrv_io_cmd` for the slot `tag` of the first queue; the address is filled in by the ring.
pub(crate) fn io_command(tag: u16, result: i32) -> [u8; COMMAND_BYTES] {
    let mut command = [0; COMMAND_BYTES];
    put(&mut command, 2, &tag.to_ne_bytes());
    put(&mut command, 4, &result.to_ne_bytes());
    command
}

/// `ublksrv_ctrl_dev_info`, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) depth: u16,
    pub(crate) state: u16,
    pub(crate) request_bytes_max: u32,
    pub(crate) device: u32,
    pub(crate) flags: u64,
    /// The server's own; the driver keeps it.
    pub(crate) mark: u64,
}

impl Info {
    pub(crate) fn to_bytes(self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        put(&mut bytes, 0, &1_u16.to_ne_bytes());
        put(&mut bytes, 2, &self.depth.to_ne_bytes());
        put(&mut bytes, 4, &self.state.to_ne_bytes());
        put(&mut bytes, 8, &self.request_bytes_max.to_ne_bytes());
        put(&mut bytes, 12, &self.device.to_ne_bytes());
        put(&mut bytes, 24, &self.flags.to_ne_bytes());
        put(&mut bytes, 32, &self.mark.to_ne_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            depth: u16::from_ne_bytes(take(bytes, 2)?),
            state: u16::from_ne_bytes(take(bytes, 4)?),
            request_bytes_max: u32::from_ne_bytes(take(bytes, 8)?),
            device: u32::from_ne_bytes(take(bytes, 12)?),
            flags: u64::from_ne_bytes(take(bytes, 24)?),
            mark: u64::from_ne_bytes(take(bytes, 32)?),
        })
    }
}

/// What a block device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) read_only: bool,
    pub(crate) rotational: bool,
    pub(crate) block_bytes: u32,
    pub(crate) block_bytes_preferred: u32,
    pub(crate) request_bytes_max: u32,
    pub(crate) size_bytes: u64,
    /// Longest discard, in bytes.
    pub(crate) discard_bytes_max: u64,
    /// Longest range made zeros by a command of its own, in bytes; 0 where zeros are written.
    pub(crate) zeroes_bytes_max: u64,
}

impl Parameters {
    pub(crate) fn to_bytes(self) -> [u8; PARAMETERS_BYTES] {
        // Basic ones and those of discards.
        const TYPES: u32 = 1 | 2;
        const READ_ONLY: u32 = 1;
        const ROTATIONAL: u32 = 2;
        const VOLATILE_CACHE: u32 = 4;
        const FUA: u32 = 8;
        let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let attributes = VOLATILE_CACHE
            | FUA
            | flag(self.read_only, READ_ONLY)
            | flag(self.rotational, ROTATIONAL);
        let preferred = self.block_bytes_preferred.trailing_zeros() as u8;
        let block = self.block_bytes.trailing_zeros() as u8;
        let sectors = |bytes: u64| (bytes / SECTOR_BYTES) as u32;
        let mut bytes = [0; PARAMETERS_BYTES];
        put(&mut bytes, 0, &(PARAMETERS_BYTES as u32).to_ne_bytes());
        put(&mut bytes, 4, &TYPES.to_ne_bytes());
        put(&mut bytes, 8, &attributes.to_ne_bytes());
        put(
            &mut bytes,
            12,
            &[block, preferred.max(block), preferred.max(block), preferred.max(block)],
        );
        put(&mut bytes, 16, &sectors(u64::from(self.request_bytes_max)).to_ne_bytes());
        put(&mut bytes, 24, &(self.size_bytes / SECTOR_BYTES).to_ne_bytes());
        put(&mut bytes, 44, &self.block_bytes_preferred.to_ne_bytes());
        put(&mut bytes, 48, &sectors(self.discard_bytes_max).to_ne_bytes());
        put(&mut bytes, 52, &sectors(self.zeroes_bytes_max).to_ne_bytes());
        // The driver knows no more than one at a time.
        put(&mut bytes, 56, &1_u16.to_ne_bytes());
        bytes
    }
}

/// What the kernel wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read,
    Write { is_durable: bool },
    Flush,
    Discard,
    Zeroes { is_durable: bool, may_unmap: bool },
}

/// `ublksrv_io_desc`: a request. None if it is of a kind that was not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) asked: Asked,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Descriptor {
    pub(crate) fn from_words(words: [u64; DESCRIPTOR_WORDS]) -> Option<Self> {
        let front = words[0].to_ne_bytes();
        let kind = u32::from_ne_bytes(take(&front, 0)?);
        let sectors = u32::from_ne_bytes(take(&front, 4)?);
        let is_durable = kind & 1 << 13 != 0;
        let asked = match kind & 0xff {
            0 => Asked::Read,
            1 => Asked::Write { is_durable },
            2 => Asked::Flush,
            3 => Asked::Discard,
            // `UBLK_IO_F_NOUNMAP`: the range is to stay allocated.
            5 => Asked::Zeroes { is_durable, may_unmap: kind & 1 << 15 == 0 },
            _ => return None,
        };
        if asked == Asked::Flush {
            // It is of everything; the kernel says -1 as where.
            return Some(Self { asked, offset: 0, len: 0 });
        }
        let offset = words[1].checked_mul(SECTOR_BYTES)?;
        Some(Self { asked, offset, len: u64::from(sectors) * SECTOR_BYTES })
    }
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

fn take<const LEN: usize>(bytes: &[u8], at: usize) -> Option<[u8; LEN]> {
    bytes.get(at..at + LEN)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_IOWR('u', 0x04, struct ublksrv_ctrl_cmd)` and its like, as `cpp` gives them for the header.
    #[test]
    fn codes_are_the_kernels() {
        assert_eq!(Order::Add.code(true), 0xc020_7504);
        assert_eq!(Order::GetInfo.code(true), 0x8020_7502);
        assert_eq!((io_code(false, true), io_code(true, true)), (0xc010_7520, 0xc010_7521));
        assert_eq!((Order::EndRecovery.code(false), io_code(true, false)), (0x11, 0x21));
    }

    #[test]
    fn what_is_told_of_a_device_is_read_back() {
        let info = Info {
            depth: 128,
            state: 2,
            request_bytes_max: 1 << 19,
            device: 7,
            flags: USER_RECOVERY | IOCTL_ENCODE,
            mark: 0x0123_4567_89ab_cdef,
        };
        assert_eq!(Info::from_bytes(&info.to_bytes()), Some(info));
        assert_eq!(Info::from_bytes(&info.to_bytes()[..39]), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn parameters_are_where_the_kernel_looks_for_them() {
        let parameters = Parameters {
            read_only: true,
            rotational: true,
            block_bytes: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: 1 << 19,
            size_bytes: 10 << 30,
            discard_bytes_max: 1 << 30,
            zeroes_bytes_max: 0,
        };
        let bytes = parameters.to_bytes();
        let golden: [u8; PARAMETERS_BYTES] = [
            60, 0, 0, 0, 3, 0, 0, 0, // len, types
            15, 0, 0, 0, 9, 12, 12, 12, // attributes, block sizes
            0, 4, 0, 0, 0, 0, 0, 0, // max_sectors, chunk_sectors
            0, 0, 64, 1, 0, 0, 0, 0, // dev_sectors
            0, 0, 0, 0, 0, 0, 0, 0, // virt_boundary_mask
            0, 0, 0, 0, 0, 16, 0, 0, // discard_alignment, granularity
            0, 0, 32, 0, 0, 0, 0, 0, // max_discard_sectors, max_write_zeroes_sectors
            1, 0, 0, 0,
        ];
        assert_eq!(bytes, golden);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_request_is_what_its_words_say_and_one_that_was_not_offered_is_none() {
        let durable = Descriptor::from_words([1 | 1 << 13 | 8 << 32, 16, 0]);
        let expected =
            Descriptor { asked: Asked::Write { is_durable: true }, offset: 8192, len: 4096 };
        assert_eq!(durable, Some(expected));
        for (flags, may_unmap) in [(0, true), (1 << 15, false)] {
            let zeroes = Descriptor::from_words([5 | flags | 8 << 32, 16, 0]);
            let asked = Asked::Zeroes { is_durable: false, may_unmap };
            assert_eq!(zeroes, Some(Descriptor { asked, offset: 8192, len: 4096 }));
        }
        let flush = Descriptor::from_words([2, u64::MAX, 0]);
        assert_eq!(flush, Some(Descriptor { asked: Asked::Flush, offset: 0, len: 0 }));
        for kind in [4, 13, 255] {
            assert_eq!(Descriptor::from_words([kind | 8 << 32, 0, 0]), None, "{kind}");
        }
        assert_eq!(
            Descriptor::from_words([0, u64::MAX, 0]),
            None,
            "past what a byte offset can say"
        );
    }
}
