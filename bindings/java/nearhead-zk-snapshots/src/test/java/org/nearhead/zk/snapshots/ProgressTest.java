package org.nearhead.zk.snapshots;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** What is counted between two snapshots, and what is refused on the command line and found in a server's settings. */
class ProgressTest {
    private static AdminReport report(long lastZxid, long snapshotZxid, long logBytes) {
        return new AdminReport("follower", lastZxid, snapshotZxid, snapshotZxid, logBytes, 0, 0, 0);
    }

    @Test
    void transactionsAreCountedAcrossAChangeOfLeader() {
        Progress progress = new Progress(report(0x1_0000_0064L, 0x1_0000_0000L, 0), -1);
        progress.observe(report(0x2_0000_0005L, 0x1_0000_0000L, 0));
        assertEquals(105, progress.transactions());
    }

    @Test
    void aLogThatIsPurgedStillCountsWhatItGrewBy() {
        Progress progress = new Progress(report(10, 1, 500), 200);
        progress.observe(report(11, 1, 100));
        progress.observe(report(12, 1, 400));
        assertEquals(600, progress.logBytes());
    }

    @Test
    void aSnapshotBeginsTheCountAnew() {
        Progress progress = new Progress(report(0x1_0000_0010L, 0x1_0000_0001L, 500), -1);
        assertTrue(progress.observe(report(0x1_0000_0020L, 0x1_0000_001eL, 900)));
        assertEquals(2, progress.transactions());
        assertEquals(0, progress.logBytes());
    }

    @Test
    void aServerThatChoosesForItselfIsFound() throws Exception {
        String stock = "{}";
        assertEquals(3, ServerSettings.findings(new ObjectMapper().readTree(stock)).size());
        String snippet = ServerSettings.snippet(new Bounds(1, 4L << 30), new Random(1));
        StringBuilder set = new StringBuilder("{\"x\":\"y\"");
        snippet.lines().filter(line -> !line.startsWith("#")).map(line -> line.split("="))
            .forEach(pair -> set.append(",\"zookeeper.").append(pair[0]).append("\":\"").append(pair[1]).append('"'));
        assertEquals(0, ServerSettings.findings(new ObjectMapper().readTree(set + "}")).size());
    }

    @Test
    void serversDoNotAllBeginTheirNextLogFileWithTheSameTransaction() {
        Random random = new Random(1);
        Set<String> sizes = new HashSet<>();
        for (int server = 1; server <= 5; server++) {
            ServerSettings.snippet(new Bounds(1, 4L << 30), random).lines()
                .filter(line -> line.startsWith("preAllocSize=")).forEach(sizes::add);
        }
        assertEquals(5, sizes.size(), "servers log the same, so the sizes of their files must differ: " + sizes);
    }

    @Test
    void aLimitThatBeginsALogFileWithEveryCommitIsFound() throws Exception {
        for (String kib : new String[] {"65536", "1024", "-1"}) {
            String set = "{\"zookeeper.snapCount\":\"2147483647\",\"zookeeper.snapSizeLimitInKb\":\"-1\","
                + "\"zookeeper.txnLogSizeLimitInKb\":\"" + kib + "\"}";
            assertEquals(1, ServerSettings.findings(new ObjectMapper().readTree(set)).size(), set);
        }
    }

    @Test
    void whatCannotBeMeantIsRefusedWithWhatWasFound() {
        for (String wrong : new String[] {"1", "a=b:1", "1=x:1,1=y:1", "1="}) {
            assertThrows(IllegalArgumentException.class, () -> Options.servers(wrong), wrong);
        }
        assertThrows(IllegalArgumentException.class, () -> Options.bytes("4X"));
        assertEquals(4L << 30, Options.bytes("4G"));
    }
}
