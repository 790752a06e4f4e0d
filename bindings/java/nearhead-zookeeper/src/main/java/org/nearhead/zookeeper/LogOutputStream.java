package org.nearhead.zookeeper;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.channels.FileChannel;
import org.nearhead.wal.DurableFileChannel;
import org.nearhead.wal.HelperStream;

/**
 * What a ZooKeeper server's log is written to: a file output stream by its type, the helper process by what it does.
 *
 * <p>The stream of the superclass is open on the same file and never writes. Preallocation is ZooKeeper's single zero far
 * behind the tail; {@link DurableFileChannel} keeps it.
 */
public final class LogOutputStream extends FileOutputStream {
    private final HelperStream stream;
    private final Timed channel;

    /** As the superclass: the file is made, or made empty. */
    public LogOutputStream(File file) throws IOException {
        super(file);
        try {
            stream = SharedHelper.of(file.getAbsoluteFile().getParentFile().toPath()).create(file.toPath());
        } catch (IOException error) {
            super.close();
            throw SharedHelper.end(error);
        }
        channel = new Timed(stream);
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] bytes) throws IOException {
        write(bytes, 0, bytes.length);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        try {
            stream.write(bytes, offset, length);
        } catch (IOException error) {
            throw SharedHelper.end(error);
        }
    }

    @Override
    public FileChannel getChannel() {
        return channel;
    }

    @Override
    public void close() throws IOException {
        // The superclass's constructor may close what it could not open.
        if (channel == null) {
            super.close();
            return;
        }
        try {
            channel.close();
        } finally {
            super.close();
        }
    }

    /** The channel, telling the pace of snapshots how long each sync took. */
    private static final class Timed extends DurableFileChannel {
        Timed(HelperStream stream) {
            super(stream);
        }

        @Override
        public void force(boolean metaData) throws IOException {
            long begin = System.nanoTime();
            try {
                super.force(metaData);
            } catch (IOException error) {
                throw SharedHelper.end(error);
            }
            Pace.SHARED.logSynced(System.nanoTime() - begin);
        }
    }
}
