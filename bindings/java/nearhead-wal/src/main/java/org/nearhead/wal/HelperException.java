package org.nearhead.wal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * What the helper process could not do, or that it is gone. {@link #durableBytes} is what survives a power cut all the same.
 */
public final class HelperException extends IOException {
    private static final long serialVersionUID = 1;

    /** The code of errors that are not the helper's own: it ended, hung, or was never there. */
    public static final int GONE = 0;

    /** Another writer has the file. */
    public static final int IN_USE = 3;

    /** The disk is full. */
    public static final int NO_SPACE = 6;

    private final int code;
    private final long durableBytes;

    HelperException(int code, long durableBytes, String text) {
        super(text);
        this.code = code;
        this.durableBytes = durableBytes;
    }

    /** From the body of a frame of kind ERROR. */
    static HelperException of(Frame frame, String what) throws IOException {
        ByteBuffer fields = frame.fields(24);
        int code = Short.toUnsignedInt(fields.getShort(0));
        String text = new String(frame.body(), 24, frame.body().length - 24, StandardCharsets.UTF_8);
        return new HelperException(code, fields.getLong(16), what + ": " + text);
    }

    /** Code of docs/wal-helper.md, or {@link #GONE}. */
    public int code() {
        return code;
    }

    /** How many bytes from the start of the stream survive a power cut. */
    public long durableBytes() {
        return durableBytes;
    }

    /** The same for another caller, whose stack is its own. */
    HelperException again(long durable) {
        HelperException copy = new HelperException(code, Math.max(durable, durableBytes), getMessage());
        copy.initCause(this);
        return copy;
    }
}
