package org.nearhead.zk.snapshots;

/**
 * What is known of one voting server when a decision is made.
 *
 * @param id its number in the ensemble
 * @param answers whether its admin server answers and it serves
 * @param leads whether it is the leader
 * @param snapshotting whether a snapshot was begun there whose end nobody has seen
 * @param excused whether it failed to snapshot a moment ago and is not to be asked yet
 * @param transactionsSince transactions since its newest snapshot
 * @param logBytesSince how much its log has grown since then
 * @param fsyncMsMean mean time of its log's syncs of late; what tells a busy disk from an idle one
 */
public record ServerView(
    int id,
    boolean answers,
    boolean leads,
    boolean snapshotting,
    boolean excused,
    long transactionsSince,
    long logBytesSince,
    double fsyncMsMean) {
}
