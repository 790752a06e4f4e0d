package org.nearhead.wal;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * One frame of the protocol of the helper process (docs/wal-helper.md): a header of 20 bytes, then a body. Integers are
 * little-endian.
 *
 * <p>A frame that cannot be one is refused before memory is taken for it.
 *
 * @param kind what it is; replies have the request's kind plus {@link #REPLY}
 * @param tag what the reply repeats
 * @param handle which stream
 * @param body at most {@link #BODY_BYTES_MAX} bytes
 */
record Frame(int kind, long tag, int handle, byte[] body) {
    static final int HEADER_BYTES = 20;
    static final int BODY_BYTES_MAX = 1 << 20;

    static final int HELLO = 1;
    static final int OPEN_STREAM = 2;
    static final int WRITE = 3;
    static final int SYNC = 4;
    static final int POSITION = 5;
    static final int TRUNCATE = 6;
    static final int CLOSE = 7;
    static final int READ = 8;
    static final int REPLY = 0x8000;
    static final int ERROR = 0xffff;

    /** A header for a body of this length. */
    static byte[] header(int kind, long tag, int handle, int bodyBytes) {
        if (bodyBytes > BODY_BYTES_MAX) {
            throw new IllegalArgumentException("expected at most " + BODY_BYTES_MAX + " bytes, found " + bodyBytes);
        }
        return littleEndian(HEADER_BYTES).putInt(bodyBytes).putShort((short) kind).putShort((short) 0).putLong(tag)
            .putInt(handle).array();
    }

    /** The next frame, or null at the end of the stream. */
    static Frame read(InputStream in) throws IOException {
        byte[] header = in.readNBytes(HEADER_BYTES);
        if (header.length == 0) {
            return null;
        }
        if (header.length < HEADER_BYTES) {
            throw new EOFException("expected a header of 20 bytes, found " + header.length);
        }
        ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
        int bodyBytes = fields.getInt();
        int kind = Short.toUnsignedInt(fields.getShort());
        int zero = fields.getShort();
        if (bodyBytes < 0 || bodyBytes > BODY_BYTES_MAX || zero != 0) {
            throw new IOException("expected a frame with a body of at most " + BODY_BYTES_MAX + " bytes, found "
                + Integer.toUnsignedString(bodyBytes) + " and " + zero + " in the reserved field");
        }
        long tag = fields.getLong();
        int handle = fields.getInt();
        byte[] body = in.readNBytes(bodyBytes);
        if (body.length < bodyBytes) {
            throw new EOFException("expected a body of " + bodyBytes + " bytes, found " + body.length);
        }
        return new Frame(kind, tag, handle, body);
    }

    /** The body, to be read field by field. */
    ByteBuffer fields(int atLeast) throws IOException {
        if (body.length < atLeast) {
            throw new IOException("expected a body of at least " + atLeast + " bytes in a frame of kind " + kind + ", found "
                + body.length);
        }
        return ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
    }

    static ByteBuffer littleEndian(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
