//! The twin of a file system: the kernel's ext4 on a loop device and a mounted volume.
//!
//! The oracle is ext4, made by `mkfs.ext4`, on a [`KernelLoop`](crate::kernel_loop::KernelLoop). The
//! subject is a volume that `nearhead mkfs` formatted and `nearhead mount` serves. A script of
//! [`act`]s runs on both; after each act the attributes of every path that the script names are
//! compared ([`compare`]), and at checkpoints whole trees ([`view`]). A kill of the
//! daemon hits the subject alone; [`synced`] holds what must be there after it. Nothing here may
//! repair or hide a difference: a run ends with the first one, unless [`allowed`] lists it.

pub mod act;
pub mod actor;
pub mod allowed;
pub mod call;
pub mod compare;
pub mod generate;
pub mod perform;
pub mod programs;
pub mod run;
pub mod sides;
pub mod synced;
pub mod system_calls;
pub mod view;
