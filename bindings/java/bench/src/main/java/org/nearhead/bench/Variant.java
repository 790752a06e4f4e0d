package org.nearhead.bench;

/**
 * What is compared. All do the same writes on the same disk.
 *
 * @param name as reports name it
 * @param hasTree whether the data tree has its full size: the reference has next to nothing to snapshot
 * @param hasAgent whether servers run with {@code nearhead-zookeeper.jar}
 * @param hasScheduler whether {@code nearhead-zk-snapshots} says when
 */
record Variant(String name, boolean hasTree, boolean hasAgent, boolean hasScheduler) {
    static final Variant REFERENCE = new Variant("small tree", false, false, false);

    static final java.util.List<Variant> ALL = java.util.List.of(
        REFERENCE,
        new Variant("stock", true, false, false),
        new Variant("scheduler", true, false, true),
        new Variant("agent", true, true, false),
        new Variant("agent + scheduler", true, true, true));
}
