package org.nearhead.bench;

/**
 * One run of one variant.
 *
 * @param servers how many
 * @param variant what ran
 * @param round which repetition, from 1
 * @param series what the clients saw
 * @param snapshots how many the servers took meanwhile
 * @param fsyncMsMean mean time of a sync of the log, over all servers
 * @param pauseMsMax the longest stop of a server's virtual machine meanwhile
 */
record Result(int servers, Variant variant, int round, Series series, long snapshots, double fsyncMsMean, double pauseMsMax) {
}
