/* Files that are needed after a crash only: logs, which are soon removed.
 *
 * A program that is compiled with this opens them with O_DUR:
 *
 *     int fd = open("a.wal", O_CREAT | O_WRONLY | O_DUR, 0600);
 *
 * and is run with the library in front of its C library (`nearhead run --o-dur -- PROGRAM`, or LD_PRELOAD=libnearhead_preload.so).
 * The library takes the flag away before the kernel sees it, and on a file system of Nearhead's marks the file. On any other
 * nothing happens; without the library the kernel ignores the flag, as it does every one that it does not know (open(2)).
 *
 * The bit: Linux's own flags end at bit 25 on every architecture (sparc's O_TMPFILE), bit 26 is used inside the kernel beside
 * them (FMODE_NONOTIFY, asm-generic/fcntl.h), new ones are given from below, and bit 31 is the sign.
 */
#ifndef NEARHEAD_DURABILITY_H
#define NEARHEAD_DURABILITY_H

#include <stdint.h>
#include <sys/ioctl.h>

#ifndef O_DUR
#define O_DUR 0x40000000
#endif

/* The same of an open file, by its owner: no library is needed. ENOTTY where the file system is not Nearhead's. */
struct nearhead_durability {
    uint32_t is_durability_only; /* 0 or 1 */
    uint32_t zero;
};
#define NEARHEAD_SET_DURABILITY _IOW('N', 0xd0, struct nearhead_durability)
#define NEARHEAD_GET_DURABILITY _IOR('N', 0xd1, struct nearhead_durability)

#endif
