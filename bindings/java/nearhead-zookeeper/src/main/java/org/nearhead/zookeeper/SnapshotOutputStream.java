package org.nearhead.zookeeper;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.concurrent.locks.LockSupport;

/**
 * What a ZooKeeper server writes a snapshot to: a file output stream that never has more than the pace's bound on its way to
 * the disk. The bytes are the same, and they are on the disk when it is closed, which the plain one does not promise.
 */
public final class SnapshotOutputStream extends FileOutputStream {
    private final File file;
    private final long begin = System.nanoTime();
    private long bytes;
    private int waitingBytes;
    private int smallestBound = Integer.MAX_VALUE;
    private int largestBound;
    private boolean isClosed;

    /** As the superclass: the file is made, or made empty. */
    public SnapshotOutputStream(File file) throws IOException {
        super(file);
        this.file = file;
        Pace.SHARED.takeSlowestNanos();
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] from) throws IOException {
        write(from, 0, from.length);
    }

    @Override
    public void write(byte[] from, int offset, int length) throws IOException {
        for (int done = 0; done < length;) {
            int bound = Pace.SHARED.boundBytes();
            int part = Math.min(length - done, Math.max(1, bound - waitingBytes));
            super.write(from, offset + done, part);
            done += part;
            bytes += part;
            waitingBytes += part;
            if (waitingBytes >= bound) {
                smallestBound = Math.min(smallestBound, bound);
                largestBound = Math.max(largestBound, bound);
                finishRound();
            }
        }
    }

    private void finishRound() throws IOException {
        long start = System.nanoTime();
        getChannel().force(false);
        waitingBytes = 0;
        long rest = Pace.SHARED.roundDone(System.nanoTime() - start);
        if (rest > 0) {
            LockSupport.parkNanos(rest);
        }
    }

    @Override
    public void close() throws IOException {
        if (!isClosed) {
            isClosed = true;
            try {
                getChannel().force(true);
                Agent.say(report());
            } finally {
                super.close();
            }
        }
    }

    private String report() {
        long millis = (System.nanoTime() - begin) / 1_000_000;
        String bounds = largestBound == 0 ? "less than one piece"
            : "bound " + (smallestBound >> 10) + " to " + (largestBound >> 10) + " KiB";
        return file.getName() + ": " + bytes + " bytes in " + millis + " ms, " + bounds + ", slowest sync of the log meanwhile "
            + Pace.SHARED.takeSlowestNanos() / 1_000_000 + " ms";
    }
}
