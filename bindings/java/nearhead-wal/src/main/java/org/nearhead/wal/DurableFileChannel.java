package org.nearhead.wal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.StandardOpenOption;

/**
 * A file channel over a stream of the helper process. It writes at the tail only; {@code force} makes durable.
 *
 * <p>Padding: programs preallocate a log by one zero far behind its tail. Such a write is remembered and not sent, because
 * the helper writes zeros ahead of the tail anyhow, and more of them than the program needs would be bulk I/O. The file has
 * the padded size again when the channel is closed. What a tail-only stream cannot do fails and says so; nothing is done
 * by halves.
 */
public class DurableFileChannel extends FileChannel {
    private static final int PIECE_BYTES = 1 << 16;

    private final HelperStream stream;
    private long paddedBytes;

    public DurableFileChannel(HelperStream stream) {
        this.stream = stream;
    }

    @Override
    public synchronized int write(ByteBuffer source) throws IOException {
        int length = source.remaining();
        byte[] piece = new byte[Math.min(length, PIECE_BYTES)];
        while (source.hasRemaining()) {
            int part = Math.min(source.remaining(), piece.length);
            source.get(piece, 0, part);
            stream.write(piece, 0, part);
        }
        return length;
    }

    @Override
    public synchronized long write(ByteBuffer[] sources, int offset, int length) throws IOException {
        long written = 0;
        for (int i = offset; i < offset + length; i++) {
            written += write(sources[i]);
        }
        return written;
    }

    @Override
    public synchronized int write(ByteBuffer source, long position) throws IOException {
        if (position == stream.position()) {
            return write(source);
        }
        if (position < stream.position() || !isZero(source)) {
            throw new IOException(stream.file() + ": expected a write at the tail, byte " + stream.position()
                + ", or zeros behind it, found one at " + position);
        }
        int length = source.remaining();
        source.position(source.limit());
        paddedBytes = Math.max(paddedBytes, position + length);
        return length;
    }

    @Override
    public void force(boolean metaData) throws IOException {
        stream.sync();
    }

    @Override
    public long position() {
        return stream.position();
    }

    @Override
    public FileChannel position(long position) throws IOException {
        if (position != stream.position()) {
            throw new IOException(stream.file() + ": expected the tail, byte " + stream.position() + ", found " + position);
        }
        return this;
    }

    @Override
    public long size() {
        return Math.max(paddedBytes, stream.position());
    }

    @Override
    public synchronized FileChannel truncate(long size) throws IOException {
        paddedBytes = Math.min(paddedBytes, size);
        if (size < stream.position()) {
            stream.truncate(size);
        }
        return this;
    }

    @Override
    public int read(ByteBuffer target) {
        // The channel's position is the tail, where nothing is to be read yet.
        return target.hasRemaining() ? -1 : 0;
    }

    @Override
    public long read(ByteBuffer[] targets, int offset, int length) {
        return -1;
    }

    @Override
    public int read(ByteBuffer target, long position) throws IOException {
        byte[] bytes = stream.read(position, target.remaining());
        target.put(bytes);
        return bytes.length == 0 && target.hasRemaining() ? -1 : bytes.length;
    }

    @Override
    public long transferTo(long position, long count, WritableByteChannel target) throws IOException {
        byte[] bytes = stream.read(position, (int) Math.min(count, PIECE_BYTES));
        return target.write(ByteBuffer.wrap(bytes));
    }

    @Override
    public long transferFrom(ReadableByteChannel source, long position, long count) throws IOException {
        ByteBuffer piece = ByteBuffer.allocate((int) Math.min(count, PIECE_BYTES));
        source.read(piece);
        return write(piece.flip(), position);
    }

    @Override
    public MappedByteBuffer map(MapMode mode, long position, long size) {
        throw new UnsupportedOperationException(stream.file() + ": the helper's files cannot be mapped");
    }

    @Override
    public FileLock lock(long position, long size, boolean shared) {
        throw new UnsupportedOperationException(stream.file() + ": the helper locks the file already");
    }

    @Override
    public FileLock tryLock(long position, long size, boolean shared) {
        throw new UnsupportedOperationException(stream.file() + ": the helper locks the file already");
    }

    @Override
    protected void implCloseChannel() throws IOException {
        long content = stream.position();
        stream.close();
        if (paddedBytes > content) {
            try (FileChannel plain = FileChannel.open(stream.file(), StandardOpenOption.WRITE)) {
                plain.write(ByteBuffer.allocate(1), paddedBytes - 1);
            }
        }
    }

    private static boolean isZero(ByteBuffer source) {
        for (int i = source.position(); i < source.limit(); i++) {
            if (source.get(i) != 0) {
                return false;
            }
        }
        return true;
    }
}
