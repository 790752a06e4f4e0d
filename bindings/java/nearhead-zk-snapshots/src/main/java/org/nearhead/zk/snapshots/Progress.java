package org.nearhead.zk.snapshots;

/**
 * How much one server has logged since its newest snapshot, from what its admin server tells at each poll.
 *
 * <p>Sums of increases, because the plain numbers jump: the log shrinks when old files are purged, and the counter in a
 * zxid begins anew with each leader. It never counts less than what it saw; what passed unseen before the first poll is
 * estimated from zxids.
 */
final class Progress {
    private static final long COUNTER_MASK = 0xffff_ffffL;

    private long snapshotZxid;
    private long snapshotTimestamp;
    private long lastZxid;
    private long directoryBytes;
    private long transactions;
    private long logBytes;

    /**
     * Begins with the first report.
     *
     * @param baseDirectoryBytes how large the log was right after the snapshot, or -1 if nobody knows: then all of it counts
     */
    Progress(AdminReport first, long baseDirectoryBytes) {
        restart(first);
        logBytes = Math.max(0, first.logDirectoryBytes() - Math.max(0, baseDirectoryBytes));
    }

    /** Takes the next report in; true if a snapshot was taken since the one before. */
    boolean observe(AdminReport report) {
        boolean isNewSnapshot =
            report.snapshotZxid() != snapshotZxid || report.snapshotTimestamp() != snapshotTimestamp;
        if (isNewSnapshot) {
            restart(report);
            return true;
        }
        transactions += between(lastZxid, report.lastZxid());
        logBytes += Math.max(0, report.logDirectoryBytes() - directoryBytes);
        lastZxid = report.lastZxid();
        directoryBytes = report.logDirectoryBytes();
        return false;
    }

    long transactions() {
        return transactions;
    }

    long logBytes() {
        return logBytes;
    }

    private void restart(AdminReport report) {
        snapshotZxid = report.snapshotZxid();
        snapshotTimestamp = report.snapshotTimestamp();
        lastZxid = report.lastZxid();
        directoryBytes = report.logDirectoryBytes();
        transactions = between(snapshotZxid, lastZxid);
        logBytes = 0;
    }

    /**
     * Transactions after {@code from} up to {@code to}. A zxid is the leader's epoch and, in its lower half, a counter; across
     * epochs only those of the newest are known.
     */
    static long between(long from, long to) {
        if (to <= from) {
            return 0;
        }
        return from >>> 32 == to >>> 32 && from >= 0 ? to - from : to & COUNTER_MASK;
    }
}
