package org.nearhead.zk.snapshots;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The laws of the decision, over many random ensembles; and the order of a round, by example. */
class PlanTest {
    private static final Bounds BOUNDS = new Bounds(1000, 1 << 20);
    private static final int ENSEMBLES = 50_000;

    @Test
    void aQuorumThatNeitherSnapshotsNorIsAwayIsAlwaysLeft() {
        overRandomEnsembles((seed, voters, servers, plan) -> {
            long busy = servers.stream().filter(s -> s.snapshotting() || !s.answers()).count() + voters - servers.size();
            boolean isAnyOverdue = servers.stream().anyMatch(s -> BOUNDS.used(s) >= Plan.OVERDUE);
            if (voters >= 3 && !plan.start().isEmpty() && !isAnyOverdue) {
                long quorum = voters / 2 + 1;
                assertTrue(voters - busy - plan.start().size() >= quorum,
                    () -> "seed " + seed + ": " + plan + " leaves no quorum of " + servers);
            }
        });
    }

    @Test
    void neverMoreSnapshotThanThereArePermitsEvenWhenOverdue() {
        overRandomEnsembles((seed, voters, servers, plan) -> {
            long already = servers.stream().filter(ServerView::snapshotting).count();
            assertTrue(plan.start().isEmpty() || already + plan.start().size() <= Plan.permits(voters),
                () -> "seed " + seed + ": " + plan + " for " + servers);
        });
    }

    @Test
    void oneSnapshotsAtATimeUnlessALogIsLate() {
        overRandomEnsembles((seed, voters, servers, plan) -> {
            long already = servers.stream().filter(ServerView::snapshotting).count();
            boolean isAnyLate = servers.stream().anyMatch(s -> BOUNDS.used(s) >= Plan.LATE);
            assertTrue(isAnyLate || plan.start().isEmpty() || already + plan.start().size() == 1,
                () -> "seed " + seed + ": " + plan + " for " + servers);
        });
        List<ServerView> late = List.of(server(1, false, 1600, 1.0), server(2, false, 1100, 0.5), server(3, false, 1000, 2.0),
            server(4, true, 1000, 3.0), server(5, false, 900, 4.0));
        assertEquals(List.of(2, 1), Plan.decide(5, late, BOUNDS).start(), "as many as a quorum of five can spare");
    }

    @Test
    void theLeaderSnapshotsAloneAndAfterEveryFollowerThatCould() {
        overRandomEnsembles((seed, voters, servers, plan) -> {
            boolean startsLeader = servers.stream().anyMatch(s -> s.leads() && plan.start().contains(s.id()));
            double most = servers.stream().mapToDouble(BOUNDS::used).max().orElse(0);
            boolean followerCould = servers.stream().anyMatch(s -> !s.leads() && s.answers() && !s.excused()
                && !s.snapshotting() && BOUNDS.used(s) >= Math.max(Plan.OVERDUE, most * Plan.READY));
            boolean anybodyAtIt = servers.stream().anyMatch(ServerView::snapshotting);
            assertTrue(!startsLeader || (plan.start().size() == 1 && !followerCould && !anybodyAtIt),
                () -> "seed " + seed + ": " + plan + " for " + servers);
        });
    }

    @Test
    void onlyServersThatAnswerAreAskedAndNoneTwice() {
        overRandomEnsembles((seed, voters, servers, plan) -> {
            Set<Integer> allowed = new HashSet<>();
            servers.stream().filter(s -> s.answers() && !s.snapshotting() && !s.excused())
                .forEach(s -> allowed.add(s.id()));
            assertTrue(allowed.containsAll(plan.start()) && new HashSet<>(plan.start()).size() == plan.start().size(),
                () -> "seed " + seed + ": " + plan + " for " + servers);
        });
    }

    @Test
    void aLogBeyondTwiceItsBoundIsNeverLeftWhileNobodySnapshots() {
        overRandomEnsembles((seed, voters, servers, plan) -> {
            boolean isLed = servers.stream().anyMatch(ServerView::leads);
            boolean anybodyAtIt = servers.stream().anyMatch(ServerView::snapshotting);
            boolean needed = servers.stream().anyMatch(
                s -> s.answers() && !s.excused() && !s.leads() && BOUNDS.used(s) >= Plan.OVERDUE);
            assertTrue(!isLed || anybodyAtIt || !needed || !plan.start().isEmpty(),
                () -> "seed " + seed + ": " + plan + " for " + servers);
        });
    }

    @Test
    void aServerThatIsReadyAgainDoesNotOvertakeOneThatIsNotDoneYet() {
        // The fastest has had its turn and half of its bound already; the leader is due.
        Plan plan = Plan.decide(3, List.of(server(1, false, 600, 0.1), server(2, false, 100, 1.0),
            server(3, true, 1500, 4.0)), BOUNDS);
        assertEquals(List.of(3), plan.start(), plan.reason());
    }

    @Test
    void aRoundGoesFromTheLeastLoadedFollowerToTheLeader() {
        List<Integer> order = new ArrayList<>();
        List<ServerView> servers = new ArrayList<>(List.of(
            server(1, false, 1200, 4.0), server(2, true, 1200, 0.1), server(3, false, 1100, 0.5),
            server(4, false, 900, 2.0), server(5, false, 1000, 3.0)));
        while (true) {
            Plan plan = Plan.decide(5, servers, BOUNDS);
            if (plan.start().isEmpty()) {
                break;
            }
            order.addAll(plan.start());
            servers.replaceAll(s -> plan.start().contains(s.id()) ? server(s.id(), s.leads(), 0, s.fsyncMsMean()) : s);
        }
        assertEquals(List.of(3, 4, 5, 1, 2), order);
    }

    @Test
    void ofThreeOneAtATimeOfFiveTwoOfSevenThree() {
        assertEquals(List.of(1, 1, 1, 1, 2, 2, 3),
            List.of(Plan.permits(1), Plan.permits(2), Plan.permits(3), Plan.permits(4), Plan.permits(5), Plan.permits(6),
                Plan.permits(7)));
    }

    private static ServerView server(int id, boolean leads, long transactions, double fsyncMs) {
        return new ServerView(id, true, leads, false, false, transactions, 0, fsyncMs);
    }

    private interface Law {
        void check(int seed, int voters, List<ServerView> servers, Plan plan);
    }

    private static void overRandomEnsembles(Law law) {
        int started = 0;
        for (int seed = 0; seed < ENSEMBLES; seed++) {
            Random random = new Random(seed);
            int voters = 1 + random.nextInt(7);
            int leader = random.nextInt(voters + 1);
            List<ServerView> servers = new ArrayList<>();
            for (int id = 1; id <= voters - (random.nextInt(8) == 0 ? 1 : 0); id++) {
                boolean answers = random.nextInt(6) != 0;
                servers.add(new ServerView(id, answers, answers && id == leader, random.nextInt(6) == 0,
                    random.nextInt(6) == 0, random.nextInt(2500), random.nextInt(5 << 19), random.nextInt(4)));
            }
            Plan plan = Plan.decide(voters, servers, BOUNDS);
            started += plan.start().size();
            law.check(seed, voters, servers, plan);
        }
        assertTrue(started > ENSEMBLES / 10, "hardly anything was started: " + started + "; the law was not tried");
    }
}
