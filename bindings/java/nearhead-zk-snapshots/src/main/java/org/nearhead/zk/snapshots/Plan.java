package org.nearhead.zk.snapshots;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * Which servers begin a snapshot now: pure, from what is known to what is done, without clock, network or memory.
 *
 * <p>After "Mitigating Write-ahead Log Contention on Shared Storage Devices", section 3: a write waits for the log of a
 * quorum, so snapshots slow nobody as long as a quorum of servers takes none. It keeps true that
 * <ul>
 * <li>at most {@link #permits} servers snapshot at once, whatever else is the case, and one as long as that keeps up;
 * <li>a server that does not answer counts as one that is busy, because the quorum has to do without it;
 * <li>the leader goes last and alone: every write passes its log;
 * <li>nobody is overtaken for ever: a server whose log is less than half as long as another's is not in the round;
 * <li>nobody waits for ever: at twice its bound a server's snapshot no longer waits for servers that are down.
 * </ul>
 *
 * @param start servers that begin now, in this order
 * @param reason one line for the log: why these, or why none
 */
public record Plan(List<Integer> start, String reason) {
    /** From this part of its bound on a server joins a round that another one's need began. */
    static final double READY = 0.5;

    /** Until here one server at a time keeps up; from here on as many snapshot as a quorum can spare. */
    static final double LATE = 1.5;

    /** From here on the snapshot of a server comes before the convenience of a quorum that is one short already. */
    static final double OVERDUE = 2.0;

    /**
     * How many of {@code voters} may snapshot at once: what a quorum can spare. An ensemble of one or two spares nobody; there
     * it is one at a time.
     */
    public static int permits(int voters) {
        return Math.max(1, (voters - 1) / 2);
    }

    /** The decision for an ensemble of {@code voters}, of which {@code servers} are all that we know of. */
    public static Plan decide(int voters, List<ServerView> servers, Bounds bounds) {
        int snapshotting = (int) servers.stream().filter(ServerView::snapshotting).count();
        // Voters that nobody told us about may be doing anything.
        int unknown = Math.max(0, voters - servers.size());
        int away = unknown + (int) servers.stream().filter(s -> !s.answers() && !s.snapshotting()).count();
        int permits = permits(voters);
        if (servers.stream().noneMatch(s -> bounds.used(s) >= 1 && canStart(s))) {
            return none("nothing is due");
        }
        if (servers.stream().noneMatch(ServerView::leads)) {
            return none("no server leads: without a leader no log grows");
        }
        if (snapshotting >= permits) {
            return none(snapshotting + " of " + permits + " permits in use");
        }
        // Who has just had its turn waits for those who have not, however soon it would be ready again.
        double most = servers.stream().filter(Plan::canStart).mapToDouble(bounds::used).max().orElse(0);
        List<ServerView> candidates = servers.stream()
            .filter(s -> canStart(s) && bounds.used(s) >= READY * Math.max(1, most))
            .sorted(Comparator.comparing(ServerView::leads).thenComparing(ServerView::fsyncMsMean)
                .thenComparing(ServerView::id))
            .toList();
        int spare = permits - snapshotting - away;
        if (spare > 0) {
            // Each further one leaves the quorum with less to choose from: then its slowest log is what writes wait for.
            boolean isAnyLate = candidates.stream().anyMatch(s -> bounds.used(s) >= LATE);
            if (snapshotting > 0 && !isAnyLate) {
                return none("due, one at a time until a log is at " + LATE + " times its bound");
            }
            return first(candidates, isAnyLate ? spare : 1, snapshotting,
                "due, " + spare + " of " + permits + " permits free");
        }
        List<ServerView> overdue = candidates.stream().filter(s -> bounds.used(s) >= OVERDUE).toList();
        if (overdue.isEmpty()) {
            return none("due, but " + away + " of " + voters + " voters are away");
        }
        return first(overdue, snapshotting == 0 ? 1 : 0, snapshotting,
            "log beyond twice its bound, although " + away + " of " + voters + " voters are away");
    }

    private static boolean canStart(ServerView server) {
        return server.answers() && !server.snapshotting() && !server.excused();
    }

    /** The first {@code count} followers; the leader only when no follower is left and none is at it. */
    private static Plan first(List<ServerView> candidates, int count, int snapshotting, String reason) {
        List<Integer> start = new ArrayList<>();
        for (ServerView candidate : candidates) {
            boolean isItsTurn = !candidate.leads() || (start.isEmpty() && snapshotting == 0);
            if (start.size() < count && isItsTurn) {
                start.add(candidate.id());
            }
        }
        return start.isEmpty() ? none("the leader waits for the followers") : new Plan(List.copyOf(start), reason);
    }

    private static Plan none(String reason) {
        return new Plan(List.of(), reason);
    }
}
