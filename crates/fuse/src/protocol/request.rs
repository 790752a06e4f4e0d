//! Requests of the kernel, decoded from their bytes.
//!
//! A message is decoded completely or not at all: each length that it names is compared with the bytes that are there. A message without a
//! whole header has no number to be answered under, and is none. Any other that is too short or does not fit is a request with an error
//! for its answer. Decoding never panics, and takes no memory in proportion to a number that it has not checked.

use super::wire::{
    BatchForgetIn, CreateIn, FallocateIn, ForgetOne, FsyncIn, GetxattrIn, InHeader, InitIn,
    IoctlIn, LseekIn, MkdirIn, MknodIn, ReadIn, Rename2In, SetattrIn, SetxattrIn, StatxIn, WriteIn,
    opcode,
};
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Length of a header.
const HEADER_BYTES: usize = size_of::<InHeader>();
/// Unit in which a header counts its extensions.
const EXTENSION_BYTES: usize = 8;
/// Length of the first request before the protocol 7.36.
const SHORT_INIT_BYTES: usize = 16;

/// A request of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its number, its node and its caller.
    pub header: InHeader,
    /// The operation, or the error to answer with.
    pub operation: Result<Operation<'a>, Errno>,
}

/// An operation of the kernel. The node is in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of linux/fuse.h")]
pub enum Operation<'a> {
    Init(InitIn),
    Lookup {
        name: &'a [u8],
    },
    /// References that end, by node. It has no answer.
    Forget(Vec<ForgetOne>),
    GetAttributes,
    SetAttributes(SetattrIn),
    Statx(StatxIn),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        of: MknodIn,
        name: &'a [u8],
    },
    MakeDirectory {
        of: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        to: u64,
        flags: u32,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Create {
        of: CreateIn,
        name: &'a [u8],
    },
    /// A file without a name, in the directory of the header.
    MakeNameless {
        of: CreateIn,
    },
    Read(ReadIn),
    Write {
        of: WriteIn,
        data: &'a [u8],
    },
    ReadDirectory(ReadIn),
    Flush,
    Release,
    Sync {
        data_only: bool,
    },
    SyncAll,
    Statistics,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        room: u32,
    },
    ListXattrs {
        room: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Allocate(FallocateIn),
    Ioctl {
        of: IoctlIn,
        bytes: &'a [u8],
    },
    Seek(LseekIn),
    Destroy,
}

/// Decodes a message. None if it has no whole header.
pub fn decode(message: &[u8]) -> Option<Request<'_>> {
    let (header, rest) = InHeader::read_from_prefix(message).ok()?;
    let operation =
        body(&header, rest, message.len()).and_then(|body| operation(&header, Body(body)));
    Some(Request { header, operation })
}

/// The part between the header and its extensions.
fn body<'a>(header: &InHeader, rest: &'a [u8], received: usize) -> Result<&'a [u8], Errno> {
    let extensions = usize::from(header.extension_words) * EXTENSION_BYTES;
    if header.len as usize != received || received < HEADER_BYTES + extensions {
        return Err(Errno::IO);
    }
    Ok(&rest[..rest.len() - extensions])
}

fn operation<'a>(header: &InHeader, mut body: Body<'a>) -> Result<Operation<'a>, Errno> {
    use Operation as Op;
    Ok(match header.opcode {
        opcode::INIT => Op::Init(body.init()?),
        opcode::LOOKUP => Op::Lookup { name: body.name()? },
        opcode::FORGET => {
            let nlookup = body.structure::<u64>()?;
            Op::Forget(vec![ForgetOne { nodeid: header.nodeid, nlookup }])
        }
        opcode::BATCH_FORGET => Op::Forget(body.forgets()?),
        opcode::GETATTR => Op::GetAttributes,
        opcode::SETATTR => Op::SetAttributes(body.structure()?),
        opcode::STATX => Op::Statx(body.structure()?),
        opcode::READLINK => Op::ReadLink,
        opcode::SYMLINK => Op::Symlink { name: body.name()?, target: body.name()? },
        opcode::MKNOD => Op::MakeNode { of: body.structure()?, name: body.name()? },
        opcode::MKDIR => Op::MakeDirectory { of: body.structure()?, name: body.name()? },
        opcode::UNLINK => Op::Unlink { name: body.name()? },
        opcode::RMDIR => Op::RemoveDirectory { name: body.name()? },
        opcode::RENAME => {
            let to = body.structure()?;
            Op::Rename { to, flags: 0, name: body.name()?, new_name: body.name()? }
        }
        opcode::RENAME2 => {
            let Rename2In { newdir: to, flags, .. } = body.structure()?;
            Op::Rename { to, flags, name: body.name()?, new_name: body.name()? }
        }
        opcode::LINK => Op::Link { node: body.structure()?, name: body.name()? },
        opcode::CREATE => Op::Create { of: body.structure()?, name: body.name()? },
        opcode::TMPFILE => Op::MakeNameless { of: body.structure()? },
        opcode::READ => Op::Read(body.structure()?),
        opcode::WRITE => {
            let of: WriteIn = body.structure()?;
            Op::Write { of, data: body.exactly(of.size)? }
        }
        opcode::READDIR => Op::ReadDirectory(body.structure()?),
        opcode::FLUSH => Op::Flush,
        opcode::RELEASE | opcode::RELEASEDIR => Op::Release,
        opcode::FSYNC | opcode::FSYNCDIR => {
            let of: FsyncIn = body.structure()?;
            Op::Sync { data_only: of.fsync_flags & super::wire::FSYNC_DATA_ONLY != 0 }
        }
        opcode::SYNCFS => Op::SyncAll,
        opcode::STATFS => Op::Statistics,
        opcode::SETXATTR => {
            let of: SetxattrIn = body.structure()?;
            Op::SetXattr { name: body.name()?, value: body.exactly(of.size)?, flags: of.flags }
        }
        opcode::GETXATTR => {
            let GetxattrIn { size: room, .. } = body.structure()?;
            Op::GetXattr { name: body.name()?, room }
        }
        opcode::LISTXATTR => Op::ListXattrs { room: body.structure::<GetxattrIn>()?.size },
        opcode::REMOVEXATTR => Op::RemoveXattr { name: body.name()? },
        opcode::FALLOCATE => Op::Allocate(body.structure()?),
        opcode::IOCTL => {
            let of: IoctlIn = body.structure()?;
            Op::Ioctl { of, bytes: body.exactly(of.in_size)? }
        }
        opcode::LSEEK => Op::Seek(body.structure()?),
        opcode::DESTROY => Op::Destroy,
        // OPEN and OPENDIR among them: the kernel asks once, and then no more.
        _ => return Err(Errno::NOSYS),
    })
}

/// The part of a message behind its header that is not decoded yet.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn structure<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Errno> {
        let (structure, rest) = T::read_from_prefix(self.0).map_err(|_| Errno::INVAL)?;
        self.0 = rest;
        Ok(structure)
    }

    /// Bytes up to the next NUL, which is there.
    fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(name)
    }

    /// All that is left, if that is as long as the request says.
    fn exactly(&mut self, len: u32) -> Result<&'a [u8], Errno> {
        if self.0.len() == len as usize {
            Ok(std::mem::take(&mut self.0))
        } else {
            Err(Errno::INVAL)
        }
    }

    fn forgets(&mut self) -> Result<Vec<ForgetOne>, Errno> {
        let BatchForgetIn { count, .. } = self.structure()?;
        let parts = self.0.chunks_exact(size_of::<ForgetOne>());
        if parts.len() < count as usize {
            return Err(Errno::INVAL);
        }
        let read = parts.take(count as usize).map(ForgetOne::read_from_bytes);
        read.map(|one| one.map_err(|_| Errno::INVAL)).collect()
    }

    fn init(&mut self) -> Result<InitIn, Errno> {
        if self.0.len() >= size_of::<InitIn>() {
            return self.structure();
        }
        let [major, minor, max_readahead, flags] = self.structure()?;
        debug_assert_eq!(size_of::<[u32; 4]>(), SHORT_INIT_BYTES);
        Ok(InitIn { major, minor, max_readahead, flags, ..InitIn::default() })
    }
}
