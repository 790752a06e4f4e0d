package org.nearhead.zk.snapshots;

/**
 * How much a server may log between two snapshots. Whichever is reached first counts.
 *
 * @param transactions at least 1
 * @param logBytes at least 1; the servers preallocate, so growth shows in steps of {@code preAllocSize}
 */
public record Bounds(long transactions, long logBytes) {
    public Bounds {
        if (transactions < 1 || logBytes < 1) {
            throw new IllegalArgumentException(
                "expected bounds of at least 1, found " + transactions + " transactions and " + logBytes + " bytes");
        }
    }

    /** How much of the bound a server has used; 1 and more: a snapshot is due. */
    double used(ServerView server) {
        return Math.max((double) server.transactionsSince() / transactions, (double) server.logBytesSince() / logBytes);
    }
}
