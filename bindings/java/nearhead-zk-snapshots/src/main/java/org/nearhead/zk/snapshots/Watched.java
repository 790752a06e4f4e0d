package org.nearhead.zk.snapshots;

import java.time.Duration;

/**
 * One server as the scheduler in charge remembers it: its newest report, its progress, its permit. Only the scheduler's own
 * thread touches it.
 */
final class Watched {
    final int id;
    final AdminClient client;

    private AdminReport report;
    private Progress progress;
    private boolean answers;
    private double fsyncMsMean;
    private long excusedUntilNanos;
    private boolean isExcused;

    /** The permit it has, or null. */
    private Permits.Permit permit;
    private long permitSinceNanos;
    /** When the end of its snapshot was seen, or null. */
    private Long endedNanos;

    Watched(int id, AdminClient client) {
        this.id = id;
        this.client = client;
    }

    /** Takes a report in; {@code base} is zxid and directory size written down after a snapshot, or null. */
    void observe(AdminReport next, long[] base) {
        if (progress == null) {
            boolean isKnown = base != null && base[0] == next.snapshotZxid();
            progress = new Progress(next, isKnown ? base[1] : -1);
        } else {
            progress.observe(next);
            long syncs = next.fsyncCount() - report.fsyncCount();
            if (syncs > 0) {
                fsyncMsMean = (next.fsyncMsSum() - report.fsyncMsSum()) / syncs;
            }
        }
        report = next;
        answers = true;
    }

    void lost() {
        answers = false;
    }

    boolean answers() {
        return answers;
    }

    AdminReport report() {
        return report;
    }

    Progress progress() {
        return progress;
    }

    Permits.Permit permit() {
        return permit;
    }

    void permit(Permits.Permit taken, long nowNanos) {
        permit = taken;
        permitSinceNanos = nowNanos;
        endedNanos = null;
    }

    /** Whether the snapshot has been over for {@code settle}, as far as the newest report tells. */
    boolean isSettled(Duration settle, long nowNanos) {
        if (endedNanos == null && answers && permit.isOver(report)) {
            endedNanos = nowNanos;
        }
        return endedNanos != null && nowNanos - endedNanos >= settle.toNanos();
    }

    boolean isPermitOlderThan(Duration limit, long nowNanos) {
        return nowNanos - permitSinceNanos > limit.toNanos();
    }

    void permitGone() {
        permit = null;
    }

    void excuse(Duration time, long nowNanos) {
        isExcused = true;
        excusedUntilNanos = nowNanos + time.toNanos();
    }

    ServerView view(long nowNanos) {
        isExcused = isExcused && nowNanos - excusedUntilNanos < 0;
        return new ServerView(id, answers, answers && report.leads(), permit != null, isExcused,
            progress == null ? 0 : progress.transactions(), progress == null ? 0 : progress.logBytes(), fsyncMsMean);
    }
}
