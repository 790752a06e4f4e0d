package org.nearhead.zk.snapshots;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * The settings with which servers leave the choice of the moment to the scheduler: what to write into {@code zoo.cfg}, and
 * whether a running server has them.
 *
 * <p>Facts about ZooKeeper 3.9.4 that these settings rest on, read in its source: a snapshot is begun by
 * the server itself after a random number of transactions between snapCount/2 and snapCount, or bytes likewise of
 * snapSizeLimitInKb, where anything negative switches the second off and 0 ends the SyncThread; a snapshot by command
 * does not begin a new log file, txnLogSizeLimitInKb does; and that compares the file's preallocated size, which is
 * the header's 16 bytes more than preAllocSize, so that a limit up to preAllocSize begins a new file with every commit.
 * Every server logs the same transactions, so with the same sizes all would begin their next file with the same one, and
 * the whole ensemble would wait for that. Sizes grow in steps of preAllocSize, so it is this that has to differ.
 */
final class ServerSettings {
    private static final long SNAP_COUNT = Integer.MAX_VALUE;
    private static final long PREALLOCATED_KIB = 65_536;
    /** By how much less one server may preallocate than another. */
    private static final int PREALLOCATED_KIB_SPREAD = 8_192;

    private ServerSettings() {
    }

    /**
     * Lines for {@code zoo.cfg}, with why.
     *
     * @param random for the one that is to differ from server to server
     */
    static String snippet(Bounds bounds, RandomGenerator random) {
        long preallocated = PREALLOCATED_KIB - random.nextInt(PREALLOCATED_KIB_SPREAD);
        long logKib = Math.max(2 * PREALLOCATED_KIB, bounds.logBytes() / 1024 / 4);
        return """
            # Snapshots when the scheduler says so, and never by the server's own choice.
            snapCount=%d
            # -1: not by size either. Never 0: that ends the server's SyncThread.
            snapSizeLimitInKb=-1
            # A snapshot by command begins no new log file, and only whole files can be purged. This begins one by
            # size. Not up to preAllocSize: every commit would begin a new file. preAllocSize is another one on each
            # server, so that they do not all begin a file with the same transaction.
            preAllocSize=%d
            txnLogSizeLimitInKb=%d
            # Old snapshots and logs go once an hour, which is as often as ZooKeeper can.
            autopurge.snapRetainCount=3
            autopurge.purgeInterval=1
            # The scheduler asks here. Bind it to an address that only the scheduler reaches.
            admin.enableServer=true
            admin.serverPort=8080
            admin.snapshot.enabled=true
            # At most one snapshot by command in this time. 3.9.4 takes the number for microseconds.
            admin.rateLimiterIntervalInMS=300000
            # For --auth-file with 'digest super:PASSWORD', needed if the root znode is not open to everybody:
            #DigestAuthenticationProvider.superDigest=super:BASE64-OF-SHA1
            """.formatted(SNAP_COUNT, preallocated, logKib);
    }

    /** What a running server has otherwise, one line each, with what to do. */
    static List<String> findings(JsonNode properties) {
        List<String> findings = new ArrayList<>();
        long snapCount = number(properties, "snapCount", 100_000);
        if (snapCount < SNAP_COUNT) {
            findings.add("chooses snapshots itself: expected snapCount=" + SNAP_COUNT + ", found " + snapCount);
        }
        long snapSize = number(properties, "snapSizeLimitInKb", 4_194_304);
        if (snapSize >= 0) {
            findings.add("chooses snapshots itself: expected snapSizeLimitInKb=-1, found " + snapSize
                + (snapSize == 0 ? ", which ends its SyncThread" : ""));
        }
        long logSize = number(properties, "txnLogSizeLimitInKb", -1);
        long preallocated = number(properties, "preAllocSize", PREALLOCATED_KIB);
        if (logSize <= 0) {
            findings.add("never begins a new log file, so that no log can be purged: expected txnLogSizeLimitInKb="
                + 2 * PREALLOCATED_KIB + " or more, found none");
        } else if (logSize <= preallocated) {
            findings.add("begins a new log file with every commit: expected txnLogSizeLimitInKb above preAllocSize="
                + preallocated + ", found " + logSize);
        }
        return findings;
    }

    private static long number(JsonNode properties, String name, long otherwise) {
        String text = properties.path("zookeeper." + name).asText("");
        return text.matches("-?\\d{1,18}") ? Long.parseLong(text) : otherwise;
    }
}
