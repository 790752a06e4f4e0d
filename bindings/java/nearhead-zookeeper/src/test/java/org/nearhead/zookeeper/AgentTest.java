package org.nearhead.zookeeper;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nearhead.ensemble.Ensemble;
import org.nearhead.ensemble.EnsembleSettings;
import org.nearhead.ensemble.Server;
import org.nearhead.wal.HelperException;
import org.nearhead.wal.HelperProgram;

/** Unmodified ZooKeeper with the agent: everything acknowledged is there after kills, with the agent and without it. */
class AgentTest {
    private static final Duration LIMIT = Duration.ofSeconds(240);

    @TempDir
    Path directory;

    private static List<String> helper;

    @BeforeAll
    static void findHelper() {
        try {
            helper = HelperProgram.find();
        } catch (HelperException error) {
            System.out.println("skipped: " + error.getMessage());
            assumeTrue(false, error.getMessage());
        }
    }

    @Test
    void everythingAcknowledgedSurvivesKillsOfAllServersWithTheAgentAndWithoutIt() throws Exception {
        EnsembleSettings plain = EnsembleSettings.of(3, directory).withConfiguration(Map.of("snapCount", "400"));
        List<String> withAgent = new ArrayList<>(plain.javaOptions());
        withAgent.addAll(List.of("-javaagent:" + System.getProperty("agent"), "-Dnearhead.helper=" + helper.get(0)));
        try (Ensemble ensemble = Ensemble.start(plain.withJavaOptions(withAgent))) {
            ConcurrentSkipListSet<String> acknowledged = new ConcurrentSkipListSet<>();
            for (int life = 0; life < 2; life++) {
                writeUntilAllAreKilled(ensemble, life, acknowledged);
                for (Server server : ensemble.servers()) {
                    if (life == 1) {
                        server.setJavaOptions(plain.javaOptions());
                    }
                    server.start();
                }
                ensemble.awaitServing(LIMIT);
                assertHolds(ensemble, acknowledged);
            }
            for (Server server : ensemble.servers()) {
                String log = Files.readString(server.log());
                assertTrue(log.contains("nearhead-zookeeper: transaction log through"), server.endOfLog());
                assertTrue(log.contains("slowest sync of the log meanwhile"), "no snapshot was paced; " + server.endOfLog());
                assertTrue(!log.contains("left as it is"), server.endOfLog());
            }
        }
    }

    @Test
    void aServerWhoseHelperIsKilledStopsAndComesBackWithWhatWasAcknowledged() throws Exception {
        EnsembleSettings plain = EnsembleSettings.of(3, directory);
        List<String> withAgent = new ArrayList<>(plain.javaOptions());
        withAgent.addAll(List.of("-javaagent:" + System.getProperty("agent"), "-Dnearhead.helper=" + helper.get(0)));
        try (Ensemble ensemble = Ensemble.start(plain.withJavaOptions(withAgent))) {
            Server victim = ensemble.leader().orElseThrow();
            ConcurrentSkipListSet<String> acknowledged = new ConcurrentSkipListSet<>();
            try (ZooKeeper client = connect(ensemble)) {
                for (int i = 0; i < 50; i++) {
                    create(client, "/a-" + i, acknowledged);
                }
                ProcessHandle process = ProcessHandle.of(victim.pid()).orElseThrow();
                List<ProcessHandle> helpers = process.children().toList();
                assertEquals(1, helpers.size(), "children of the server: " + helpers);
                helpers.get(0).destroyForcibly();
                // The next commit of that server fails; the others go on.
                for (int i = 0; process.isAlive(); i++) {
                    assertTrue(i < 2000, "the server goes on without its helper; " + victim.endOfLog());
                    createIfConnected(client, "/b-" + i, acknowledged);
                }
                assertEquals(74, victim.exitValue(), victim.endOfLog());
            }
            assertTrue(Files.readString(victim.log()).contains("the helper, process"), victim.endOfLog());
            victim.start();
            ensemble.awaitServing(LIMIT);
            assertHolds(ensemble, acknowledged);
        }
    }

    @Test
    void aServerWithoutAHelperStartsWithItsLogAsItWas() throws Exception {
        List<String> options = List.of("-javaagent:" + System.getProperty("agent"), "-Dnearhead.helper=/no/such/program");
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(options);
        command.add("-version");
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
        assertTrue(said.contains("the transaction log is left as it is") && said.contains("/no/such/program"), said);
    }

    private static void writeUntilAllAreKilled(Ensemble ensemble, int life, ConcurrentSkipListSet<String> acknowledged)
        throws Exception {
        int before = acknowledged.size();
        try (ZooKeeper client = connect(ensemble)) {
            Thread writer = new Thread(() -> {
                try {
                    for (int i = 0;; i++) {
                        create(client, "/n-" + life + "-" + i, acknowledged);
                    }
                } catch (KeeperException | InterruptedException ended) {
                    return;
                }
            });
            writer.start();
            long end = System.nanoTime() + LIMIT.toNanos();
            while (acknowledged.size() < before + 500) {
                assertTrue(System.nanoTime() < end && writer.isAlive(), "only " + acknowledged.size() + " writes; "
                    + ensemble.server(1).endOfLog());
                Thread.sleep(10);
            }
            for (Server server : ensemble.servers()) {
                ProcessHandle.of(server.pid()).ifPresent(ProcessHandle::destroyForcibly);
            }
            for (Server server : ensemble.servers()) {
                server.kill();
            }
            writer.interrupt();
            writer.join();
        }
    }

    private static void create(ZooKeeper client, String path, ConcurrentSkipListSet<String> acknowledged)
        throws KeeperException, InterruptedException {
        client.create(path, content(path), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        acknowledged.add(path);
    }

    private static void createIfConnected(ZooKeeper client, String path, ConcurrentSkipListSet<String> acknowledged)
        throws Exception {
        try {
            create(client, path, acknowledged);
        } catch (KeeperException.ConnectionLossException | KeeperException.SessionExpiredException lost) {
            Thread.sleep(50);
        }
    }

    /** Different for each node, and of many sizes. */
    private static byte[] content(String path) {
        return path.repeat(1 + Math.floorMod(path.hashCode(), 300)).getBytes();
    }

    private static void assertHolds(Ensemble ensemble, ConcurrentSkipListSet<String> acknowledged) throws Exception {
        assertTrue(acknowledged.size() >= 50, "hardly anything was acknowledged");
        try (ZooKeeper client = connect(ensemble)) {
            client.sync("/", (code, path, context) -> { }, null);
            for (String path : acknowledged) {
                assertArrayEquals(content(path), client.getData(path, false, null), path);
            }
        }
    }

    private static ZooKeeper connect(Ensemble ensemble) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(ensemble.connectString(), 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        assertTrue(connected.await(LIMIT.toSeconds(), TimeUnit.SECONDS), "no connection to " + ensemble.connectString());
        return client;
    }
}
