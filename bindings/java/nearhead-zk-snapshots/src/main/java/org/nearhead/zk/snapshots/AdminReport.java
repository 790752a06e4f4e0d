package org.nearhead.zk.snapshots;

/**
 * What a server's admin server said at one poll.
 *
 * @param state {@code leader}, {@code follower}, {@code observer}
 * @param lastZxid the newest transaction it has processed
 * @param snapshotZxid the newest one in its newest snapshot, -1 if it has none
 * @param snapshotTimestamp when that was made, in seconds as the server counts them
 * @param logDirectoryBytes size of the directory of logs, preallocated space included; of the snapshots too if they are there
 * @param fsyncCount syncs of the log since the process began
 * @param fsyncMsSum time they took in all
 * @param snapshotCount snapshots since the process began
 */
record AdminReport(
    String state,
    long lastZxid,
    long snapshotZxid,
    long snapshotTimestamp,
    long logDirectoryBytes,
    long fsyncCount,
    double fsyncMsSum,
    long snapshotCount) {

    boolean leads() {
        return state.equals("leader");
    }
}
