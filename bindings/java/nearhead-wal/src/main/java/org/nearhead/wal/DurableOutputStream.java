package org.nearhead.wal;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/**
 * An output stream whose bytes another process writes, past the page cache and ahead of bulk writes. {@link #sync} makes
 * them durable; {@link #flush} does not, as with a file output stream.
 */
public final class DurableOutputStream extends OutputStream {
    private final HelperStream stream;
    private final DurableFileChannel channel;

    /** Makes the file empty and writes from its start. */
    public DurableOutputStream(Helper helper, Path file) throws IOException {
        this(helper.create(file));
    }

    public DurableOutputStream(HelperStream stream) {
        this.stream = stream;
        this.channel = new DurableFileChannel(stream);
    }

    /** Returns when everything written survives a power cut: how many bytes that is. */
    public long sync() throws IOException {
        return stream.sync();
    }

    /** The same stream as a channel; {@code force} is {@link #sync}. */
    public FileChannel getChannel() {
        return channel;
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        java.util.Objects.checkFromIndexSize(offset, length, bytes.length);
        stream.write(bytes, offset, length);
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
