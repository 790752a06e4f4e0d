package org.nearhead.zk.snapshots;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nearhead.ensemble.Ensemble;
import org.nearhead.ensemble.EnsembleSettings;
import org.nearhead.ensemble.Server;

/**
 * Rounds over a real ensemble of three: unmodified ZooKeeper in processes of its own. A proxy before each admin server tells
 * when snapshots are asked for and makes them as long as a test needs.
 */
class RoundTest {
    private static final int WRITES = 240;
    private static final Duration LIMIT = Duration.ofSeconds(240);

    @TempDir
    static Path directory;

    private static Ensemble ensemble;
    private static CuratorFramework client;

    private final Recorder recorder = new Recorder();
    private final List<AutoCloseable> opened = new ArrayList<>();
    private String admins;
    private String path;

    @BeforeAll
    static void startEnsemble() throws Exception {
        ensemble = Ensemble.start(EnsembleSettings.of(3, directory).withConfiguration(Map.of(
            "snapCount", "2147483647", "snapSizeLimitInKb", "-1", "txnLogSizeLimitInKb", "65536")));
        client = CuratorFrameworkFactory.newClient(ensemble.connectString(), new RetryOneTime(500));
        client.start();
        client.create().orSetData().forPath("/data", new byte[0]);
    }

    @AfterAll
    static void endEnsemble() {
        client.close();
        ensemble.close();
    }

    @BeforeEach
    void putProxiesBeforeAdminServers() throws Exception {
        List<String> addresses = new ArrayList<>();
        for (Server server : ensemble.servers()) {
            AdminProxy proxy = new AdminProxy(server.id(), server.adminAddress(), recorder);
            opened.add(proxy);
            addresses.add(server.id() + "=" + proxy.address());
        }
        admins = String.join(",", addresses);
        path = "/test-" + System.nanoTime();
    }

    @AfterEach
    void endWhatWasOpened() throws Exception {
        recorder.letGo();
        for (AutoCloseable one : opened) {
            one.close();
        }
    }

    @Test
    void everyServerSnapshotsOnceNeverTwoAtOnceAndTheLeaderLast() throws Exception {
        int leader = ensemble.leader().orElseThrow().id();
        write(WRITES);
        startScheduler();
        await("a round of three", () -> recorder.ended().size() >= 3);
        assertEquals(Set.of(1, 2, 3), new HashSet<>(recorder.ended().subList(0, 3)), "each once");
        assertEquals(leader, recorder.ended().get(2), "the leader last, in " + recorder.ended());
        assertEquals(1, recorder.most(), "most at once");
        await("permits given back", () -> children(path + "/snapshotting").isEmpty());
        for (Server server : ensemble.servers()) {
            long snapshot = Long.parseUnsignedLong(server.admin("last_snapshot").path("zxid").asText(), 16);
            assertTrue((snapshot & 0xffff_ffffL) >= WRITES / 2, "server " + server.id() + " has an old one: " + snapshot);
        }
    }

    @Test
    void aSchedulerThatIsKilledInTheMiddleIsFollowedByOneThatKnowsWhatWasBegun() throws Exception {
        write(WRITES);
        recorder.holdNext();
        Process first = startSchedulerProcess();
        await("the first request", () -> recorder.begun().size() == 1);
        first.destroyForcibly();
        first.waitFor();

        List<String> lines = startScheduler();
        await("another in charge", () -> lines.toString().contains("an earlier scheduler asked for a snapshot"));
        awaitManyDecisions();
        assertEquals(1, recorder.begun().size(), "nobody is asked while the first goes on: " + recorder.begun());

        recorder.letGo();
        await("the rest of the round", () -> new HashSet<>(recorder.ended()).size() == 3);
        assertEquals(1, recorder.most(), "most at once");
        assertEquals(3, recorder.begun().size(), "nobody is asked twice: " + recorder.begun());
    }

    @Test
    void aServerThatIsKilledInTheMiddleHoldsTheRoundUpUntilItIsBack() throws Exception {
        write(WRITES);
        recorder.holdNext();
        List<String> lines = startScheduler();
        await("the first request", () -> recorder.begun().size() == 1);
        Server victim = ensemble.server(recorder.begun().get(0));
        victim.kill();
        recorder.letGo();
        await("its answer missed", () -> lines.toString().contains("no answer to the request"));
        await("seen away", () -> lines.toString().contains("server " + victim.id() + " is away"));
        awaitManyDecisions();
        assertEquals(1, recorder.begun().size(), "two of three are a quorum that must not be slowed: " + recorder.begun());

        victim.start();
        ensemble.awaitServing(LIMIT);
        await("the round to end", () -> recorder.ended().containsAll(List.of(1, 2, 3)));
        assertEquals(1, recorder.most(), "most at once");
    }

    @Test
    void credentialsThatAreRefusedAreSaidToBeAndNothingStaysTaken() throws Exception {
        Path authorization = Files.writeString(directory.resolve("authorization"), "nonsense x\n");
        List<String> lines = startScheduler("--auth-file", authorization.toString());
        write(WRITES);
        await("a refusal", () -> lines.toString().contains("refused our credentials (HTTP 401"));
        await("all tried", () -> recorder.begun().size() >= 3);
        await("permits given back", () -> children(path + "/snapshotting").isEmpty());
    }

    /** Runs a scheduler on a thread until the test ends; returns the lines it logs. */
    private List<String> startScheduler(String... more) throws Exception {
        List<String> words = new ArrayList<>(arguments());
        words.addAll(List.of(more));
        Options options = Options.parse(words.toArray(String[]::new), 0);
        CuratorFramework curator = Main.connect(options);
        List<String> lines = java.util.Collections.synchronizedList(new ArrayList<>());
        Scheduler scheduler = new Scheduler(options, curator, lines::add);
        Thread thread = new Thread(() -> {
            try {
                scheduler.run();
            } catch (InterruptedException ended) {
                return;
            } catch (Exception error) {
                lines.add("ended: " + error);
            }
        });
        thread.start();
        opened.add(() -> {
            thread.interrupt();
            thread.join();
            scheduler.close();
            curator.close();
        });
        return lines;
    }

    private Process startSchedulerProcess() throws Exception {
        List<String> command = new ArrayList<>(List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp",
            System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
            "org.nearhead.zk.snapshots.Main", "run"));
        command.addAll(arguments());
        Process process = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(directory.resolve("scheduler.log").toFile()).start();
        opened.add(process::destroyForcibly);
        return process;
    }

    private List<String> arguments() {
        return Arrays.asList("--zookeeper", ensemble.connectString(), "--servers", admins, "--path", path, "--transactions",
            "100", "--poll-ms", "50", "--settle-ms", "200", "--session-ms", "1500");
    }

    private static void write(int count) throws Exception {
        for (int i = 0; i < count; i++) {
            client.setData().forPath("/data", Integer.toString(i).getBytes());
        }
    }

    private static List<String> children(String of) {
        try {
            return client.getChildren().forPath(of);
        } catch (Exception error) {
            return List.of("unknown: " + error);
        }
    }

    /** Many more than a permit is kept after its snapshot ended. */
    private void awaitManyDecisions() throws Exception {
        int before = recorder.looks();
        await("many decisions", () -> recorder.looks() > before + 60);
    }

    private void await(String what, BooleanSupplier condition) throws Exception {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, () -> "waited " + LIMIT + " for " + what + "; " + recorder);
            Thread.sleep(20);
        }
    }

    /** Who was asked, whose snapshot ended, and how many there were at once. */
    private static final class Recorder implements AdminProxy.Listener {
        private final List<Integer> begun = new ArrayList<>();
        private final List<Integer> ended = new ArrayList<>();
        private int looks;
        private int now;
        private int most;
        private CountDownLatch gate = new CountDownLatch(0);

        @Override
        public void before(int server) throws Exception {
            CountDownLatch closed;
            synchronized (this) {
                begun.add(server);
                now++;
                most = Math.max(most, now);
                closed = gate;
            }
            assertTrue(closed.await(240, TimeUnit.SECONDS), "the test let nobody go");
        }

        @Override
        public synchronized void after(int server, boolean hasSucceeded) {
            now--;
            if (hasSucceeded) {
                ended.add(server);
            }
        }

        @Override
        public synchronized void looked() {
            looks++;
        }

        synchronized int looks() {
            return looks;
        }

        synchronized void holdNext() {
            gate = new CountDownLatch(1);
        }

        synchronized void letGo() {
            gate.countDown();
        }

        synchronized List<Integer> begun() {
            return List.copyOf(begun);
        }

        synchronized List<Integer> ended() {
            return List.copyOf(ended);
        }

        synchronized int most() {
            return most;
        }

        @Override
        public synchronized String toString() {
            return "asked " + begun + ", ended " + ended + ", at most " + most + " at once";
        }
    }
}
