package org.nearhead.zk.snapshots;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Snapshots under way, written down in ZooKeeper, so that whoever schedules next knows them.
 *
 * <p>A permit is a persistent znode, not an ephemeral one: a snapshot goes on in its server when the scheduler that asked
 * for it dies, and must go on counting. Who may give permits is the lease's matter (a {@code LeaderLatch}, ephemeral); that a
 * scheduler which lost the lease without noticing gives none is kept true here: each holder of the lease raises the version
 * of {@code epoch}, and a permit is made in one transaction with a check of that version.
 *
 * <pre>
 * PATH/lease            the latch
 * PATH/epoch            its version counts holders of the lease
 * PATH/snapshotting/ID  a permit: see {@link Permit}
 * PATH/servers/ID       "ZXID BYTES": size of the log's directory right after the snapshot ZXID
 * </pre>
 */
final class Permits {
    private final CuratorFramework curator;
    private final String path;
    private int epoch = -1;

    Permits(CuratorFramework curator, String path) {
        this.curator = curator;
        this.path = path;
    }

    /**
     * What a server had counted when its snapshot was asked for: a later report with more snapshots shows that it ended, one
     * with less of anything that the process is another one.
     */
    record Permit(long snapshotCount, long fsyncCount) {
        boolean isOver(AdminReport report) {
            return report.snapshotCount() != snapshotCount || report.fsyncCount() < fsyncCount;
        }

        private byte[] encode() {
            return (snapshotCount + " " + fsyncCount).getBytes(StandardCharsets.UTF_8);
        }

        private static Permit decode(byte[] bytes) {
            long[] numbers = numbers(bytes);
            return new Permit(numbers[0], numbers[1]);
        }
    }

    /** The lease is ours: from now on no earlier holder's permit can be made. Returns the permits that there are. */
    Map<Integer, Permit> begin() throws Exception {
        ensure(path + "/epoch");
        ensure(path + "/snapshotting");
        ensure(path + "/servers");
        Stat stat = curator.setData().forPath(path + "/epoch", new byte[0]);
        epoch = stat.getVersion();
        Map<Integer, Permit> permits = new TreeMap<>();
        for (String child : curator.getChildren().forPath(path + "/snapshotting")) {
            permits.put(Integer.parseInt(child),
                Permit.decode(curator.getData().forPath(path + "/snapshotting/" + child)));
        }
        return permits;
    }

    /** Makes a permit; false if somebody else holds the lease by now, or the server has a permit. */
    boolean take(int server, Permit permit) throws Exception {
        CuratorOp isOurs = curator.transactionOp().check().withVersion(epoch).forPath(path + "/epoch");
        CuratorOp create = curator.transactionOp().create().forPath(path + "/snapshotting/" + server, permit.encode());
        try {
            curator.transaction().forOperations(List.of(isOurs, create));
            return true;
        } catch (KeeperException.BadVersionException | KeeperException.NodeExistsException error) {
            return false;
        }
    }

    /** Gives a permit back, and writes down how large the log is now, so that growth is known after a change of scheduler. */
    void release(int server, long snapshotZxid, long logDirectoryBytes) throws Exception {
        ensure(path + "/servers/" + server);
        byte[] base = (snapshotZxid + " " + logDirectoryBytes).getBytes(StandardCharsets.UTF_8);
        curator.setData().forPath(path + "/servers/" + server, base);
        give(server);
    }

    /** Gives a permit back for a snapshot that never began. */
    void give(int server) throws Exception {
        try {
            curator.delete().forPath(path + "/snapshotting/" + server);
        } catch (KeeperException.NoNodeException gone) {
            // Given back already, by a request whose answer was lost.
            return;
        }
    }

    /** Sizes of logs right after the snapshots with these zxids, by server. */
    Map<Integer, long[]> bases() throws Exception {
        Map<Integer, long[]> bases = new HashMap<>();
        for (String child : curator.getChildren().forPath(path + "/servers")) {
            bases.put(Integer.parseInt(child), numbers(curator.getData().forPath(path + "/servers/" + child)));
        }
        return bases;
    }

    private void ensure(String node) throws Exception {
        try {
            curator.create().creatingParentsIfNeeded().forPath(node, "0 0".getBytes(StandardCharsets.UTF_8));
        } catch (KeeperException.NodeExistsException exists) {
            return;
        }
    }

    /** Two numbers; -1 where something else stands, which never equals what a server tells. */
    private static long[] numbers(byte[] bytes) {
        String[] words = new String(bytes, StandardCharsets.UTF_8).split(" ");
        long[] numbers = {-1, -1};
        for (int i = 0; i < Math.min(2, words.length); i++) {
            if (words[i].matches("-?\\d{1,18}")) {
                numbers[i] = Long.parseLong(words[i]);
            }
        }
        return numbers;
    }
}
