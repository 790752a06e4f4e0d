package org.nearhead.wal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * A durable byte stream in a plain file, written by the helper process: bytes at the tail, then {@link #sync}.
 *
 * <p>It keeps true that {@link #sync} returns only when everything written before it survives a power cut, and that after the
 * first failure nothing is taken in any more. While it is open zeros follow the content in the file. One thread at a time.
 */
public final class HelperStream implements AutoCloseable {
    static final int AT_EMPTY = 3;
    static final int AT_END = 4;
    private static final int BUFFER_BYTES = 1 << 20;
    private static final long AHEAD_BYTES = 8L << 20;
    /** Permissions of a new file before the helper's umask, as a file output stream asks for. */
    private static final int MODE = 0666;
    private static final byte[] NOTHING = new byte[0];

    private final Helper helper;
    private final int handle;
    private final Path file;
    private long position;
    private long durable;
    private boolean isClosed;
    private volatile HelperException stopped;

    HelperStream(Helper helper, int handle, Path file) {
        this.helper = helper;
        this.handle = handle;
        this.file = file;
    }

    void open(int at) throws IOException {
        byte[] path = file.toAbsolutePath().toString().getBytes(StandardCharsets.UTF_8);
        byte[] body = openBody(at, BUFFER_BYTES, AHEAD_BYTES, path);
        note(helper.request(Frame.OPEN_STREAM, handle, body, file.toString()));
    }

    static byte[] openBody(int at, int bufferBytes, long aheadBytes, byte[] path) {
        return Frame.littleEndian(32 + path.length).put((byte) at).put((byte) 1).putShort((short) 0).putInt(MODE)
            .putInt(bufferBytes).putInt(0).putLong(aheadBytes).putLong(0).put(path).array();
    }

    /** Writes at the tail; durable only after {@link #sync}. */
    public void write(byte[] bytes, int offset, int length) throws IOException {
        for (int done = 0; done < length;) {
            throwIfStopped();
            int piece = Math.min(length - done, Frame.BODY_BYTES_MAX);
            helper.write(handle, bytes, offset + done, piece);
            done += piece;
            position += piece;
        }
    }

    /** Makes everything written so far durable; returns how many bytes from the start are. */
    public long sync() throws IOException {
        request(Frame.SYNC, NOTHING);
        return durable;
    }

    /** Cuts the stream off at {@code length}, durably. */
    public void truncate(long length) throws IOException {
        request(Frame.TRUNCATE, Frame.littleEndian(8).putLong(length).array());
    }

    /** Up to {@code length} bytes from {@code offset}, durable or not; fewer at the end. */
    public byte[] read(long offset, int length) throws IOException {
        throwIfStopped();
        byte[] body = Frame.littleEndian(16).putLong(offset).putInt(Math.min(length, Frame.BODY_BYTES_MAX)).putInt(0).array();
        return helper.request(Frame.READ, handle, body, file.toString()).body();
    }

    /** Where the next byte goes. */
    public long position() {
        return position;
    }

    /** How many bytes from the start survive a power cut, as far as we were told. */
    public long durable() {
        return durable;
    }

    public Path file() {
        return file;
    }

    /** Makes everything durable, cuts the zeros off, and lets others open the file. Repeated, it does nothing. */
    @Override
    public void close() throws IOException {
        if (isClosed) {
            return;
        }
        isClosed = true;
        try {
            request(Frame.CLOSE, NOTHING);
        } finally {
            helper.free(handle);
        }
    }

    /** From now on everything fails for this reason. */
    void stop(HelperException reason) {
        if (stopped == null) {
            stopped = reason;
        }
    }

    private void request(int kind, byte[] body) throws IOException {
        try {
            if (kind != Frame.CLOSE) {
                throwIfStopped();
            }
            note(helper.request(kind, handle, body, file.toString()));
        } catch (HelperException error) {
            // What failed first is the reason; the helper's later answers only repeat that it stopped.
            stop(error);
            throw stopped.again(durable);
        }
    }

    private void throwIfStopped() throws HelperException {
        if (stopped != null) {
            throw stopped.again(durable);
        }
    }

    private void note(Frame reply) throws IOException {
        ByteBuffer fields = reply.fields(16);
        position = fields.getLong();
        durable = fields.getLong();
    }

    @Override
    public String toString() {
        return file.toString();
    }
}
