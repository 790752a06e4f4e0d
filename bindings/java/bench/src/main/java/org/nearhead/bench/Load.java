package org.nearhead.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * The clients: a steady stream of writes with a bounded number outstanding, and what each second of it was like.
 *
 * <p>A latency is from the call to the callback; at a given rate from when the write was due, so that a stall counts for all that it
 * delays. A write counts in the second in which it ended; one that never ends counts
 * in the last, with the time it has waited.
 */
final class Load implements AutoCloseable {
    static final int NODE_BYTES = 10_000;
    private static final int WRITE_BYTES = 1024;
    private static final int FANOUT = 1000;

    private final List<ZooKeeper> sessions = new ArrayList<>();

    /** So many sessions, each connected. */
    Load(String connectString, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            CountDownLatch connected = new CountDownLatch(1);
            sessions.add(new ZooKeeper(connectString, 30_000, event -> {
                if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                    connected.countDown();
                }
            }));
            if (!connected.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no connection to " + connectString);
            }
        }
    }

    /** Makes a tree of about {@code bytes}, and the nodes that are written to. */
    void makeTree(long bytes) throws Exception {
        createAll("/hot", 0, FANOUT, new byte[WRITE_BYTES]);
        int nodes = (int) (bytes / NODE_BYTES);
        for (int begin = 0; begin < nodes; begin += FANOUT) {
            createAll("/cold-" + begin, begin, Math.min(nodes, begin + FANOUT), new byte[NODE_BYTES]);
        }
    }

    private void createAll(String parent, int from, int to, byte[] content) throws Exception {
        ZooKeeper session = sessions.get(0);
        session.create(parent, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Semaphore window = new Semaphore(64);
        int[] failed = {0};
        for (int i = from; i < to; i++) {
            new Random(i).nextBytes(content);
            window.acquire();
            session.create(parent + "/" + i, content.clone(), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                (code, path, context, name) -> {
                    failed[0] |= code;
                    window.release();
                }, null);
        }
        window.acquire(64);
        if (failed[0] != 0) {
            throw new IllegalStateException(parent + ": nodes could not be made, code " + failed[0]);
        }
    }

    /**
     * Writes for {@code seconds} with at most {@code outstanding} writes on their way at any time: {@code rate} a second, or
     * with a rate of 0 as many as that is.
     */
    Series run(int seconds, int outstanding, int rate) throws InterruptedException {
        Series series = new Series(seconds);
        long gapNanos = rate == 0 ? 0 : 1_000_000_000L * sessions.size() / rate;
        int each = Math.max(1, outstanding / sessions.size());
        List<Thread> writers = new ArrayList<>();
        for (ZooKeeper session : sessions) {
            int seed = writers.size();
            writers.add(new Thread(() -> write(session, each, gapNanos, series, seed)));
        }
        writers.forEach(Thread::start);
        for (Thread writer : writers) {
            writer.join();
        }
        series.end();
        return series;
    }

    private static void write(ZooKeeper session, int outstanding, long gapNanos, Series series, int seed) {
        Semaphore window = new Semaphore(outstanding);
        Random random = new Random(seed);
        byte[] content = new byte[WRITE_BYTES];
        long due = System.nanoTime();
        while (!series.isOver()) {
            try {
                if (gapNanos > 0) {
                    TimeUnit.NANOSECONDS.sleep(due - System.nanoTime());
                }
                if (!window.tryAcquire(100, TimeUnit.MILLISECONDS)) {
                    continue;
                }
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                return;
            }
            random.nextBytes(content);
            long begin = gapNanos > 0 ? due : System.nanoTime();
            due += gapNanos;
            series.began(begin);
            session.setData("/hot/" + random.nextInt(FANOUT), content.clone(), -1, (code, path, context, stat) -> {
                series.ended(begin, code == KeeperException.Code.OK.intValue());
                window.release();
            }, null);
        }
    }

    @Override
    public void close() throws InterruptedException {
        for (ZooKeeper session : sessions) {
            session.close();
        }
    }
}
