"""A second, independent writer of what the codecs beside it write; prints the golden bytes of their tests."""
import struct

TABLE = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


LOG = b"0123456789abcdef"


def with_crc(block):
    block = block.ljust(4096, b"\0")
    return block[:8] + struct.pack("<I", crc32c(block)) + block[12:]


payload = b"near the head"
fields = struct.pack("<IIIQIBBBB", 0xA1B2C3D4, crc32c(payload), len(payload), 0x010203040506, 8192, 1, 0, 0, 0)
place = LOG + struct.pack("<QI", 7, 12288)
print("record ", (struct.pack("<I", crc32c(place + fields)) + fields).hex())

segment = struct.pack("<4sHHII16sQIB3x", b"NHWS", 1, 0, 0, 65536, LOG, 0x0A0B, 512, 1)
print("segment", with_crc(segment)[:48].hex())

control = struct.pack("<4sHHII16sQIBBH", b"NHWC", 1, 0, 0, 65536, LOG, 9, 4096, 0, 1, 0)
control += struct.pack("<QQQQQII", 3, 5, 100, 4, 170, 8200, 0x12345678)
print("control", with_crc(control)[:96].hex())
