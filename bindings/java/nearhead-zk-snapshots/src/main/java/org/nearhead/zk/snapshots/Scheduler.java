package org.nearhead.zk.snapshots;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;

/**
 * The loop: while it holds the lease it looks at the servers, lets {@link Plan} decide, and asks for snapshots.
 *
 * <p>It keeps true that a snapshot is asked for only after its permit is written down in ZooKeeper, and that a permit is given
 * back only when its snapshot is seen to have ended, was refused, or is older than the limit. A request whose answer is
 * lost proves nothing: the server may still be writing. Losing the lease ends all rights at once; what was asked for goes
 * on and is the next holder's to watch.
 */
final class Scheduler implements AutoCloseable {
    /** How long a server that could not snapshot is left alone. */
    private static final Duration EXCUSE = Duration.ofSeconds(30);
    /** The same where it only said that it was asked too soon. */
    private static final Duration EXCUSE_RATE_LIMITED = Duration.ofSeconds(1);

    private final Options options;
    private final LeaderLatch lease;
    private final Permits permits;
    private final Consumer<String> log;
    private final ExecutorService requests = Executors.newCachedThreadPool(Scheduler::daemon);
    /** What requests found, to be taken in by the loop's own thread. */
    private final ConcurrentLinkedQueue<Runnable> answers = new ConcurrentLinkedQueue<>();

    private final Map<Integer, Watched> servers = new TreeMap<>();
    private Map<Integer, long[]> bases = new HashMap<>();
    private boolean isInCharge;
    private String lastReason = "";
    private volatile boolean isClosed;

    Scheduler(Options options, CuratorFramework curator, Consumer<String> log) {
        this.options = options;
        this.log = log;
        this.lease = new LeaderLatch(curator, options.path() + "/lease");
        this.permits = new Permits(curator, options.path());
    }

    /** Runs until {@link #close} or an interrupt. */
    void run() throws Exception {
        lease.start();
        log.accept("waiting for the lease at " + options.path() + "/lease of " + options.zookeeper());
        while (!isClosed) {
            try {
                turn();
            } catch (InterruptedException error) {
                throw error;
            } catch (Exception error) {
                // The ensemble may be electing, or away. What we knew about permits may be stale by then.
                log.accept("no decision possible: " + error.getMessage() + "; trying again");
                isInCharge = false;
            }
            Thread.sleep(options.poll().toMillis());
        }
    }

    private void turn() throws Exception {
        if (!lease.hasLeadership()) {
            if (isInCharge) {
                log.accept("lost the lease; snapshots that were begun go on, another scheduler watches them");
            }
            isInCharge = false;
            return;
        }
        if (!isInCharge) {
            takeCharge();
        }
        int voters = pollServers();
        for (Runnable answer = answers.poll(); answer != null; answer = answers.poll()) {
            answer.run();
        }
        long now = System.nanoTime();
        for (Watched server : servers.values()) {
            if (server.permit() != null) {
                giveBackIfOver(server, now);
            }
        }
        decide(voters, now);
    }

    private void takeCharge() throws Exception {
        Map<Integer, Permits.Permit> taken = permits.begin();
        bases = permits.bases();
        servers.clear();
        options.servers().forEach((id, address) ->
            servers.put(id, new Watched(id, new AdminClient(address, options.authorization()))));
        for (Map.Entry<Integer, Permits.Permit> entry : taken.entrySet()) {
            Watched server = servers.get(entry.getKey());
            if (server == null) {
                log.accept("server " + entry.getKey() + " has a permit but is not among --servers; its permit is ended");
                permits.give(entry.getKey());
            } else {
                log.accept("server " + server.id + ": an earlier scheduler asked for a snapshot; waiting for its end");
                server.permit(entry.getValue(), System.nanoTime());
            }
        }
        isInCharge = true;
        lastReason = "";
        log.accept("in charge of " + servers.size() + " servers, at most " + Plan.permits(servers.size())
            + " snapshotting at once; due after " + options.bounds().transactions() + " transactions or "
            + options.bounds().logBytes() + " bytes of log");
    }

    /** Looks at all servers at once. Returns how many voters the ensemble has. */
    private int pollServers() throws InterruptedException {
        List<Callable<Look>> looks = new ArrayList<>();
        for (Watched server : servers.values()) {
            looks.add(() -> look(server));
        }
        int voters = 0;
        for (Future<Look> future : requests.invokeAll(looks)) {
            Look look = get(future);
            if (look.report == null) {
                if (look.server.answers()) {
                    log.accept("server " + look.server.id + " is away: " + look.error);
                }
                look.server.lost();
                continue;
            }
            if (!look.server.answers()) {
                greet(look);
            }
            look.server.observe(look.report, bases.get(look.server.id));
            voters = Math.max(voters, look.voters);
        }
        return Math.max(voters, 1);
    }

    private static Look get(Future<Look> future) throws InterruptedException {
        try {
            return future.get();
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause());
        }
    }

    /** What one look at a server brought: a report and how many voters it knows, or an error. */
    private record Look(Watched server, AdminReport report, int voters, List<String> findings, String error) {
    }

    private static Look look(Watched server) {
        try {
            AdminReport report = server.client.report();
            List<String> findings =
                server.answers() ? List.of() : ServerSettings.findings(server.client.systemProperties());
            return new Look(server, report, server.client.voters(), findings, "");
        } catch (IOException error) {
            String text = error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
            return new Look(server, null, 0, List.of(), text);
        }
    }

    private void greet(Look look) {
        log.accept("server " + look.server.id + " answers: " + look.report.state());
        if (look.voters > options.servers().size()) {
            log.accept("server " + look.server.id + " knows " + look.voters + " voters, --servers names "
                + options.servers().size() + "; those not named count as away");
        }
        for (String finding : look.findings) {
            log.accept("server " + look.server.id + " " + finding + "; see: nearhead-zk-snapshots config");
        }
    }

    private void giveBackIfOver(Watched server, long now) throws Exception {
        if (server.isSettled(options.settle(), now)) {
            permits.release(server.id, server.report().snapshotZxid(), server.report().logDirectoryBytes());
            server.permitGone();
            log.accept("server " + server.id + ": permit given back");
        } else if (server.isPermitOlderThan(options.snapshotLimit(), now)) {
            permits.give(server.id);
            server.permitGone();
            server.excuse(EXCUSE, now);
            log.accept("server " + server.id + ": the end of its snapshot was not seen within "
                + options.snapshotLimit().toSeconds() + " s; it no longer counts (--snapshot-limit-s)");
        }
    }

    private void decide(int voters, long now) throws Exception {
        List<ServerView> views = servers.values().stream().map(server -> server.view(now)).toList();
        Plan plan = Plan.decide(voters, views, options.bounds());
        if (!plan.reason().equals(lastReason)) {
            log.accept(plan.reason());
            lastReason = plan.reason();
        }
        for (int id : plan.start()) {
            start(servers.get(id));
        }
    }

    private void start(Watched server) throws Exception {
        AdminReport before = server.report();
        Permits.Permit permit = new Permits.Permit(before.snapshotCount(), before.fsyncCount());
        if (!permits.take(server.id, permit)) {
            log.accept("server " + server.id + ": no permit, somebody else holds the lease by now");
            isInCharge = false;
            return;
        }
        server.permit(permit, System.nanoTime());
        log.accept("server " + server.id + " (" + before.state() + "): snapshot asked for, "
            + server.progress().transactions() + " transactions and " + server.progress().logBytes()
            + " bytes of log since the last");
        requests.submit(() -> ask(server, permit));
    }

    /** Asks and waits, on a thread of its own; the loop takes in what came of it. */
    private void ask(Watched server, Permits.Permit permit) {
        long begin = System.nanoTime();
        try {
            AdminClient.SnapshotAnswer answer = server.client.snapshot(options.snapshotLimit());
            long took = Duration.ofNanos(System.nanoTime() - begin).toMillis();
            answers.add(() -> takeIn(server, permit, answer, took));
        } catch (IOException error) {
            answers.add(() -> log.accept("server " + server.id + ": no answer to the request for a snapshot ("
                + error.getMessage() + "); it counts until its end is seen"));
        }
    }

    private void takeIn(Watched server, Permits.Permit permit, AdminClient.SnapshotAnswer answer, long tookMs) {
        if (answer.succeeded()) {
            log.accept("server " + server.id + ": snapshot " + answer.zxid() + " of " + answer.bytes() + " bytes in "
                + tookMs + " ms");
            return;
        }
        log.accept("server " + server.id + ": no snapshot: " + answer.explanation());
        server.excuse(answer.isRateLimited() ? EXCUSE_RATE_LIMITED : EXCUSE, System.nanoTime());
        if (server.permit() != permit) {
            return;
        }
        try {
            permits.give(server.id);
            server.permitGone();
        } catch (Exception error) {
            // It stays until the limit, or until the next holder of the lease sees it.
            log.accept("server " + server.id + ": its permit could not be given back: " + error.getMessage());
        }
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "snapshot-request");
        thread.setDaemon(true);
        return thread;
    }

    @Override
    public void close() throws IOException {
        isClosed = true;
        requests.shutdownNow();
        lease.close();
    }
}
