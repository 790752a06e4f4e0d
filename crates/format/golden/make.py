#!/usr/bin/env python3
"""A second, independent writer of the on-disk format, following docs/format.md.

It makes the .hex files beside it, which the tests of the crate compare byte for byte with what the
Rust codecs write. Rerun it only when the format itself changes (and its version with it).
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
VOLUME = bytes(range(0xA0, 0xB0))

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def save(name, data):
    """Hex, 32 bytes a line; runs of zero lines are kept, so that a diff shows where bytes moved."""
    lines = [data[i:i + 32].hex() for i in range(0, len(data), 32)]
    (HERE / f"{name}.hex").write_text("\n".join(lines) + "\n")


def sealed(front):
    body = front.ljust(4092, b"\0")
    return body + struct.pack("<I", crc32c(body))


def entry(home, length, place, crc=0):
    if place in ("zero", "poisoned", "home"):
        word1 = 2**64 - 1 - ("zero", "poisoned", "home").index(place)
        return struct.pack("<QQI", home | (length - 1) << 48, word1, 0)
    chunk_sector, chunk_len, offset = place
    word0 = home | (length - 1) << 48 | offset << 51 | (chunk_len - 1) << 54
    return struct.pack("<QQI", word0, chunk_sector, crc)


def superblock(far=False):
    """Both slots in front of the groups; or, with `far`, the second one right before the last superblock."""
    mib = 1 << 20
    front = b"NEARHEAD" + struct.pack("<II", 1, 2) + VOLUME
    front += struct.pack("<QQ", 7, 1_700_000_000)
    device = 1000 * mib + 512 * 3
    # Nine groups fit; slots hold 9 logs of 2560 blocks of 20 bytes, 16 bytes a log, 1 MiB spare.
    slot = -(-(9 * (2560 * 20 + 16) + mib) // mib) * mib
    last = device // 4096 * 4096 - 4096
    second, groups = (last - slot, mib + slot) if far else (mib + slot, mib + 2 * slot)
    front += struct.pack("<QII", device, 512, 4096)
    front += struct.pack("<QQQQ", mib, second, slot, groups)
    front += struct.pack("<QQIHBB", 100 * mib, 10 * mib, 9, 2, 1, 0)
    front += struct.pack("<II", 256 * 1024, 0)
    front += struct.pack("<QQQ", 256 if far else 0, 256 if far else 0, 9 * 90 * mib)
    front += "größter Log".encode().ljust(64, b"\0")
    front += bytes(range(16, 32))
    assert len(front) == 232
    return sealed(front + struct.pack("<Q", 0))


def superblock_shingled():
    """Of 1000 MiB, the first 64 are not shingled; logs of 1 MiB."""
    mib = 1 << 20
    front = b"NEARHEAD" + struct.pack("<II", 1, 2) + VOLUME
    front += struct.pack("<QQ", 7, 1_700_000_000)
    device, data_offset, log = 1000 * mib, 64 * mib, mib
    # Slots hold 64 logs of 256 blocks of 20 bytes, 16 bytes a log, 1 MiB spare.
    slot = -(-(64 * (256 * 20 + 16) + mib) // mib) * mib
    groups = mib + 2 * slot
    count = (data_offset - groups) // log
    data = (device - 4096 - data_offset) // count // 4096 * 4096
    front += struct.pack("<QII", device, 512, 4096)
    front += struct.pack("<QQQQ", mib, mib + slot, slot, groups)
    front += struct.pack("<QQIHBB", data + log, log, count, 4, 1, 0)
    front += struct.pack("<II", 256 * 1024, 0)
    front += struct.pack("<QQQ", 0, 0, count * data)
    front += "größter Log".encode().ljust(64, b"\0")
    front += bytes(16) + struct.pack("<Q", data_offset)
    return sealed(front)


def superblock_data_devices():
    """A log device of 100 MiB in front of 200 and 30 MiB of data."""
    mib = 1 << 20
    front = b"NEARHEAD" + struct.pack("<II", 1, 2) + VOLUME
    front += struct.pack("<QQ", 7, 1_700_000_000)
    device, parts = 100 * mib, [200 * mib, 30 * mib]
    # A 2048th of the device, in whole 64 KiB, at least 512 KiB; as many as fit behind the first MiB and before the last superblock.
    log = max(device // 2048 // 65536 * 65536, 512 * 1024)
    count = (device - 4096 - mib) // log
    # Room for all of them, 1 MiB spare, and for their states once more in whole MiB.
    slot = -(-(count * (log // 4096 * 20 + 16) + mib) // mib) * mib + mib
    first = device + mib
    data_offset = first + 2 * slot
    data = (sum(parts) - 2 * slot) // count // 4096 * 4096
    front += struct.pack("<QII", device, 512, 4096)
    front += struct.pack("<QQQQ", first, first + slot, slot, mib)
    front += struct.pack("<QQIHBB", data + log, log, count, 6, 1, 0)
    front += struct.pack("<II", 256 * 1024, 0)
    front += struct.pack("<QQQ", 512 | 1024, 0, count * data)
    front += "größter Log".encode().ljust(64, b"\0")
    front += bytes(16) + struct.pack("<Q", data_offset)
    return sealed(front + struct.pack("<II", len(parts), 0) + struct.pack("<QQ", *parts))


def superblock_log_devices():
    """The same, and one more device of 80 MiB with logs."""
    mib = 1 << 20
    front = b"NEARHEAD" + struct.pack("<II", 1, 2) + VOLUME
    front += struct.pack("<QQ", 7, 1_700_000_000)
    device, data_parts, log_parts = 100 * mib, [200 * mib, 30 * mib], [80 * mib]
    rooms = [device - 4096 - mib] + log_parts
    log = max(device // 2048 // 65536 * 65536, 512 * 1024)
    count = min(sum(room // log for room in rooms), sum(data_parts) // mib)
    slot = -(-(count * (log // 4096 * 20 + 16) + mib) // mib) * mib + mib
    first = device + mib
    data_offset = first + 2 * slot
    # No more logs than there are MiB of data.
    count = min(count, (sum(data_parts) - 2 * slot) // mib)
    data = (sum(data_parts) - 2 * slot) // count // 4096 * 4096
    front += struct.pack("<QII", device, 512, 4096)
    front += struct.pack("<QQQQ", first, first + slot, slot, mib)
    front += struct.pack("<QQIHBB", data + log, log, count, 6, 1, 0)
    front += struct.pack("<II", 256 * 1024, 0)
    front += struct.pack("<QQQ", 512 | 1024 | 4096, 0, count * data)
    front += "größter Log".encode().ljust(64, b"\0")
    front += bytes(16) + struct.pack("<Q", data_offset)
    parts = data_parts + log_parts
    front += struct.pack("<II", len(parts), len(log_parts))
    return sealed(front + struct.pack("<QQQ", *parts))


def data_device():
    return sealed(b"NHDATDEV" + struct.pack("<II", 1, 1) + VOLUME + struct.pack("<IIQ", 1, 3, 5 << 30))


def record():
    items = [
        (0x123456789AB0 | 7 << 48, 0xDEADBEEF),            # chunk of 8 sectors
        (17 | 1 << 51, 1_000_000),                         # run of zeros
        (3 | 1 << 48, 7),                                  # chunk of 2 sectors
        (64, 128),                                         # invalidation
        (5 | 6 << 32, 0),                                  # claim: log 5, position 6
        (2**48 - 1, 1),                                    # echo
    ]
    fixed = b"NHRC" + struct.pack("<HH", 1, 2) + VOLUME
    fixed += struct.pack("<QIIIII", 0x0102030405060708, 0x11121314, 0, 0x31323334,
                         0xFFFFFFFF, 0x41424344)
    fixed += struct.pack("<IIHHHH", 512, 10, 3, 1, 1, 1)
    tail = bytes(24) + b"".join(struct.pack("<QI", *item) for item in items)
    header = (fixed + bytes(4) + tail).ljust(512, b"\0")
    return header[:68] + struct.pack("<I", crc32c(header)) + header[72:]


def record_moves():
    items = [(64, 128), (2**48 - 1, 1)]                    # invalidation, echo
    moves = [(0x1000, 0x616263646568), (0x2008, 0x71)]     # home sector, sector of the chunk
    fixed = b"NHRC" + struct.pack("<HH", 1, 2) + VOLUME
    fixed += struct.pack("<QIIIII", 0x0102030405060708, 0x11121314, 0, 0x31323334,
                         0xFFFFFFFF, 0x41424344)
    fixed += struct.pack("<IIHHHH", 512, 0, 0, 1, 0, 1)
    tail = struct.pack("<H", len(moves)) + bytes(22)
    tail += b"".join(struct.pack("<QI", *item) for item in items)
    for home, chunk in moves:
        tail += struct.pack("<QQII", home | 7 << 48 | 7 << 54, chunk, 0x51525354, 0)
    header = (fixed + bytes(4) + tail).ljust(512, b"\0")
    return header[:68] + struct.pack("<I", crc32c(header)) + header[72:]


def record_fragments():
    items = [
        (0x123456789AB0 | 7 << 48, 0xDEADBEEF),            # as in record()
        (17 | 1 << 51, 1_000_000),
        (3 | 1 << 48, 7),
        (64, 128),
        (5 | 6 << 32, 0),
        (2**48 - 1, 1),
    ]
    fragments = [                                          # home sector, offset in it, bytes
        (0x1000, 0, b"from the start"),
        (17, 509, b"across"),
        (2**48 - 1, 511, b"!"),
        (0x1000, 5, b"THE"),
    ]
    items += [(home | offset << 48, len(content)) for home, offset, content in fragments]
    contents = b"".join(content for _, _, content in fragments)
    fixed = b"NHRC" + struct.pack("<HH", 1, 2) + VOLUME
    fixed += struct.pack("<QIIIII", 0x0102030405060708, 0x11121314, 0, 0x31323334,
                         0xFFFFFFFF, 0x41424344)
    fixed += struct.pack("<IIHHHH", 512, 10, 3, 1, 1, 1)
    tail = struct.pack("<HHI", 0, len(fragments), len(contents)) + bytes(16)
    tail += b"".join(struct.pack("<QI", *item) for item in items) + contents
    header = (fixed + bytes(4) + tail).ljust(512, b"\0")
    return header[:68] + struct.pack("<I", crc32c(header)) + header[72:]


def snapshot_body():
    body = entry(8, 8, (1 << 40, 8, 0), 0x01020304)
    body += entry(17, 2, (4096, 5, 1), 0xCAFEBABE)
    body += entry(24, 3, "zero")
    body += entry(2**48 - 1, 1, "poisoned")
    body += struct.pack("<III", 3, 40, 0) + struct.pack("<III", 9, 0, 0)
    body += struct.pack("<I", 9)
    body += struct.pack("<QQ", 1 << 20, 1 << 33)
    return body.ljust(4096, b"\0")


def snapshot_header():
    body = snapshot_body()
    front = b"NHSNAPSH" + struct.pack("<II", 1, 1) + VOLUME
    front += struct.pack("<QQQQ", 13, 0x1122334455667788, 4, len(body))
    front += struct.pack("<IIIII", 2, 1, 1, 1, crc32c(body))
    assert len(front) == 84
    return sealed(front)


def cell(home_byte, record_sector, content):
    return struct.pack("<QQB7x", home_byte, record_sector, len(content)) + content.ljust(40, b"\0")


def snapshot_fragments_body():
    """As above, with cells over a logged block and over one at home."""
    body = entry(8, 8, (1 << 40, 8, 0), 0x01020304)
    body += entry(16, 8, "home")
    body += struct.pack("<III", 3, 40, 0)
    body += struct.pack("<QQ", 1 << 20, 1 << 33)
    body += cell(8 * 512 + 100, 1 << 40, b"over a chunk")
    body += cell(16 * 512, 4096, b"a")
    body += cell(16 * 512 + 4056, 4104, bytes(range(40)))
    return body.ljust(4096, b"\0")


def snapshot_fragments_header():
    body = snapshot_fragments_body()
    front = b"NHSNAPSH" + struct.pack("<II", 1, 1) + VOLUME
    front += struct.pack("<QQQQ", 13, 0x1122334455667788, 2, len(body))
    front += struct.pack("<IIIIII", 1, 0, 1, 0, crc32c(body), 3)
    assert len(front) == 88
    return sealed(front)


def superblock_fragments():
    """One slot at either end, each with room for what is left of fragments."""
    mib = 1 << 20
    front = b"NEARHEAD" + struct.pack("<II", 1, 2) + VOLUME
    front += struct.pack("<QQ", 7, 1_700_000_000)
    device = 1000 * mib + 512 * 3
    # Room for a sixteenth of the 9 logs, 5.6 MiB, is 4 MiB at most.
    room = min(max(9 * 10 * mib // 16, 64 << 10), 4 * mib)
    slot = -(-(9 * (2560 * 20 + 16) + mib) // mib) * mib + room
    last = device // 4096 * 4096 - 4096
    count = (last - slot - (mib + slot)) // (100 * mib)
    front += struct.pack("<QII", device, 512, 4096)
    front += struct.pack("<QQQQ", mib, last - slot, slot, mib + slot)
    front += struct.pack("<QQIHBB", 100 * mib, 10 * mib, count, 2, 1, 0)
    front += struct.pack("<II", 256 * 1024, 0)
    front += struct.pack("<QQQ", 256 | 8192, 256, count * 90 * mib)
    front += "größter Log".encode().ljust(64, b"\0")
    front += bytes(range(16, 32))
    return sealed(front + struct.pack("<Q", 0))


def blank_map_header():
    return sealed(b"NHBLANKS" + struct.pack("<II", 1, 0) + VOLUME + struct.pack("<Q", 1 << 21))


def blank_map_unit():
    words = [0x8000000000000005] + [0] * 58 + [0x0102030405060708]
    unit = b"NHBU" + struct.pack("<I", 7) + VOLUME + struct.pack("<60Q", *words) + bytes(4)
    assert len(unit) == 508
    return unit + struct.pack("<I", crc32c(unit))


def track_table():
    zone = struct.pack("<QIIII", 614400, 0x24468ACE, 65, 0x30000001, 0)
    other = struct.pack("<QIIII", 614400, 0x24468ACE, 0, 0x30000001, 0)
    front = b"NHTRACKS" + struct.pack("<II", 1, 3) + VOLUME
    front += struct.pack("<QQ", 1 << 37, 3995340 << 16)
    shorter = struct.pack("<QIIII", 614400, 0x24468ACE, 65, 0x30000001, 0x0605)
    zones = [(0, zone), (19142246400, other), (1 << 35, shorter)]
    return sealed(front + b"".join(struct.pack("<Q", first) + rest for first, rest in zones))


def generation():
    belonging = [(0, 0)] * 17
    belonging[0], belonging[2], belonging[16] = (0x1234, 0x1234), (0x1232, 0x1233), (7, 7)
    front = VOLUME + struct.pack("<QQII", 0x55, 0x1234, 0, 3) + bytes(8)
    front += b"".join(struct.pack("<QQ", first, last) for first, last in belonging)
    rest = (struct.pack("<I", 1) + front).ljust(500, b"\0")
    crc = struct.pack("<I", crc32c(b"NHGENRTN" + rest))
    return (b"NHGENRTN" + crc + rest).ljust(4096, b"\0")


def backup_head():
    front = b"NHMETABK" + struct.pack("<II", 1, 0) + VOLUME
    return sealed(front + struct.pack("<QQQQ", 1_700_000_000, 13, 4096, 4 * 4096))


if __name__ == "__main__":
    assert crc32c(b"123456789") == 0xE3069283
    save("superblock", superblock())
    save("superblock_far_slot", superblock(far=True))
    save("superblock_shingled", superblock_shingled())
    save("superblock_data_devices", superblock_data_devices())
    save("superblock_log_devices", superblock_log_devices())
    save("data_device", data_device())
    save("record", record())
    save("record_moves", record_moves())
    save("record_fragments", record_fragments())
    save("snapshot_fragments_header", snapshot_fragments_header())
    save("snapshot_fragments_body", snapshot_fragments_body())
    save("superblock_fragments", superblock_fragments())
    save("snapshot_header", snapshot_header())
    save("snapshot_body", snapshot_body())
    save("blank_map_header", blank_map_header())
    save("blank_map_unit", blank_map_unit())
    save("backup_head", backup_head())
    save("track_table", track_table())
    save("generation", generation())
