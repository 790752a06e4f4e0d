package org.nearhead.bench;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/** Writes by second: how many, the slowest, how many failed; and how many were slower than the target. Thread-safe. */
final class Series {
    /** The promise of the paper's figure 5: writes stay below it. */
    static final long TARGET_NANOS = 200_000_000;

    private final long begin = System.nanoTime();
    private final long end;
    private final long[] counts;
    private final long[] slowestNanos;
    /** Writes that began and did not end, by when they began. */
    private final TreeMap<Long, Integer> pending = new TreeMap<>();
    private long failed;
    private long overTarget;

    Series(int seconds) {
        end = begin + seconds * 1_000_000_000L;
        counts = new long[seconds];
        slowestNanos = new long[seconds];
    }

    boolean isOver() {
        return System.nanoTime() >= end;
    }

    synchronized void began(long at) {
        pending.merge(at, 1, Integer::sum);
    }

    synchronized void ended(long at, boolean hasSucceeded) {
        pending.computeIfPresent(at, (key, many) -> many == 1 ? null : many - 1);
        long now = System.nanoTime();
        if (!hasSucceeded) {
            failed++;
        } else if (now < end) {
            note(at, now);
            counts[second(now)]++;
        }
    }

    /** Counts what is still on its way with the time it has waited. */
    synchronized void end() {
        for (Map.Entry<Long, Integer> one : pending.entrySet()) {
            note(one.getKey(), Math.min(System.nanoTime(), end));
        }
    }

    private void note(long at, long now) {
        int second = second(now);
        slowestNanos[second] = Math.max(slowestNanos[second], now - at);
        overTarget += now - at > TARGET_NANOS ? 1 : 0;
    }

    private int second(long now) {
        return (int) Math.min(counts.length - 1, (now - begin) / 1_000_000_000L);
    }

    synchronized double perSecond() {
        return (double) Arrays.stream(counts).sum() / counts.length;
    }

    synchronized long[] counts() {
        return counts.clone();
    }

    /** The slowest write of each second. */
    synchronized double[] slowestMs() {
        return Arrays.stream(slowestNanos).mapToDouble(nanos -> nanos / 1e6).toArray();
    }

    synchronized double worstMs() {
        return Arrays.stream(slowestNanos).max().orElse(0) / 1e6;
    }

    synchronized long overTarget() {
        return overTarget;
    }

    synchronized long failed() {
        return failed;
    }
}
