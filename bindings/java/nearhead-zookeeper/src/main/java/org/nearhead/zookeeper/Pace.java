package org.nearhead.zookeeper;

/**
 * How many bytes of a snapshot may be on their way to the disk at once: what a sync of the log may have to wait for.
 *
 * <p>One piece more after each round in which no sync of the log took longer than the target, half after one in which a
 * sync did; between one piece and {@link #PIECES_MAX}. At one piece, when that is still too much, the snapshot rests as
 * long as its piece took, but never longer than {@link #REST_NANOS_MAX}: it always gets on. Additive increase and
 * multiplicative decrease is what lets several snapshots and other disks' load find a share without knowing of each other.
 */
final class Pace {
    static final int PIECE_BYTES = 128 << 10;
    static final int PIECES_MAX = 32;
    static final long REST_NANOS_MAX = 100_000_000;

    /** The one of this server: its logs and its snapshots. */
    static final Pace SHARED = new Pace(Long.getLong("nearhead.snapshot.targetMs", 20) * 1_000_000);

    private final long targetNanos;
    private int pieces = 1;
    private long slowestNanos;
    private long slowestOfAllNanos;

    Pace(long targetNanos) {
        this.targetNanos = targetNanos;
    }

    /** A sync of the log took this long. */
    synchronized void logSynced(long nanos) {
        slowestNanos = Math.max(slowestNanos, nanos);
        slowestOfAllNanos = Math.max(slowestOfAllNanos, nanos);
    }

    /** How many bytes may be written before they must be on the disk. */
    synchronized int boundBytes() {
        return pieces * PIECE_BYTES;
    }

    /** The bytes are on the disk after {@code nanos}; returns how long to rest before the next. */
    synchronized long roundDone(long nanos) {
        boolean isTooSlow = slowestNanos > targetNanos;
        slowestNanos = 0;
        long rest = isTooSlow && pieces == 1 ? Math.min(nanos, REST_NANOS_MAX) : 0;
        pieces = isTooSlow ? Math.max(1, pieces / 2) : Math.min(PIECES_MAX, pieces + 1);
        return rest;
    }

    /** The slowest sync of the log since this was last asked. */
    synchronized long takeSlowestNanos() {
        long slowest = slowestOfAllNanos;
        slowestOfAllNanos = 0;
        return slowest;
    }
}
