package org.nearhead.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.stream.Stream;
import org.nearhead.ensemble.Ensemble;
import org.nearhead.ensemble.EnsembleSettings;
import org.nearhead.ensemble.Server;

/**
 * Ensembles on one disk under a steady stream of writes while servers snapshot: throughput, and the slowest write of each
 * second. After figures 4 and 5 of "Mitigating Write-ahead Log Contention on Shared Storage Devices".
 *
 * <p>All variants run in turn, {@code rounds} times, from the same copied data. The directory should be on the disk in
 * question; a fast one shows little. Every figure is measured here; nothing is fitted.
 */
public final class ZooKeeperBench {
    /** The default of 64 MiB, times five servers, would be most of what a short run writes. */
    private static final int PREALLOCATED_KIB = 16_384;

    private final BenchOptions options;

    private ZooKeeperBench(BenchOptions options) {
        this.options = options;
    }

    /** See {@link BenchOptions#USAGE}. */
    public static void main(String[] arguments) throws Exception {
        BenchOptions options;
        try {
            options = BenchOptions.parse(arguments);
        } catch (IllegalArgumentException error) {
            System.err.println("bench-zookeeper: " + error.getMessage() + "\n" + BenchOptions.USAGE);
            System.exit(2);
            return;
        }
        // The scheduler's own output goes there while it runs.
        Files.createDirectories(options.out());
        List<Result> results = new ZooKeeperBench(options).run();
        Files.writeString(options.out().resolve("bench-zookeeper.json"), Report.json(options, results));
        Files.writeString(options.out().resolve("bench-zookeeper.html"), Report.html(options, results));
        System.out.print(Report.table(results));
        System.out.println("written: " + options.out().resolve("bench-zookeeper.html"));
        System.exit(0);
    }

    private List<Result> run() throws Exception {
        List<Result> results = new ArrayList<>();
        for (int servers : options.servers()) {
            for (boolean hasTree : new boolean[] {false, true}) {
                makeTemplate(servers, hasTree);
            }
            for (int round = 1; round <= options.rounds(); round++) {
                for (Variant variant : options.variants()) {
                    results.add(measure(servers, variant, round));
                }
            }
            delete(template(servers, false));
            delete(template(servers, true));
        }
        return results;
    }

    /** The data that every variant begins with: made once by an ensemble, then copied. */
    private void makeTemplate(int servers, boolean hasTree) throws Exception {
        delete(template(servers, hasTree));
        System.out.println(servers + " servers: making a tree of " + (hasTree ? options.treeMb() : 0) + " MB");
        EnsembleSettings settings = settings(servers, template(servers, hasTree), ZooKeeperBench::neverByThemselves, List.of());
        try (Ensemble ensemble = Ensemble.start(settings); Load load = new Load(ensemble.connectString(), 1)) {
            load.makeTree(hasTree ? options.treeMb() * 1_000_000L : 0);
            for (Server server : ensemble.servers()) {
                snapshot(server);
            }
        }
    }

    private Result measure(int servers, Variant variant, int round) throws Exception {
        Path directory = options.directory().resolve("ensemble");
        delete(directory);
        copy(template(servers, variant.hasTree()), directory);
        // What was copied would be written back in the middle of the measurement, half a minute from now.
        sync(directory);
        Map<String, String> byThemselves = Map.of("snapCount", Integer.toString(options.snapCount()), "snapSizeLimitInKb",
            "-1", "preAllocSize", Integer.toString(PREALLOCATED_KIB));
        IntFunction<Map<String, String>> configuration =
            variant.hasScheduler() ? ZooKeeperBench::neverByThemselves : id -> byThemselves;
        List<String> agent = variant.hasAgent() ? List.of("-javaagent:" + options.agent()) : List.of();
        try (Ensemble ensemble = Ensemble.start(settings(servers, directory, configuration, agent));
            AutoCloseable scheduler = variant.hasScheduler() ? startScheduler(ensemble) : () -> { };
            Load load = new Load(ensemble.connectString(), options.sessions())) {
            load.run(options.warmupSeconds(), options.outstanding(), options.rate());
            Totals before = totals(ensemble);
            long begin = System.currentTimeMillis();
            Series series = load.run(options.seconds(), options.outstanding(), options.rate());
            double pauseMsMax = Pauses.longestMs(directory, begin, System.currentTimeMillis());
            Totals after = totals(ensemble);
            Result result = new Result(servers, variant, round, series, after.snapshots - before.snapshots,
                (after.fsyncMs - before.fsyncMs) / Math.max(1, after.fsyncs - before.fsyncs), pauseMsMax);
            System.out.print(Report.line(result) + "\n");
            return result;
        } finally {
            delete(directory);
        }
    }

    /** Sums over the servers' counters. */
    private record Totals(long snapshots, long fsyncs, double fsyncMs) {
    }

    private static Totals totals(Ensemble ensemble) throws IOException {
        long snapshots = 0;
        long fsyncs = 0;
        double millis = 0;
        for (Server server : ensemble.servers()) {
            JsonNode monitor = server.admin("monitor");
            snapshots += monitor.path("cnt_snapshottime").asLong();
            fsyncs += monitor.path("cnt_fsynctime").asLong();
            millis += monitor.path("sum_fsynctime").asDouble();
        }
        return new Totals(snapshots, fsyncs, millis);
    }

    private EnsembleSettings settings(
        int servers, Path directory, IntFunction<Map<String, String>> configuration, List<String> more) {
        List<String> java = new ArrayList<>(
            List.of("-Xmx" + options.heapMb() + "m", "-XX:+UseSerialGC", Pauses.option(directory)));
        java.addAll(more);
        return EnsembleSettings.of(servers, directory).withConfiguration(configuration).withJavaOptions(java);
    }

    /** As {@code nearhead-zk-snapshots config} has it, with smaller logs; sizes differ from server to server as there. */
    private static Map<String, String> neverByThemselves(int id) {
        return Map.of("snapCount", "2147483647", "snapSizeLimitInKb", "-1", "txnLogSizeLimitInKb", "65536", "preAllocSize",
            Integer.toString(PREALLOCATED_KIB - id * PREALLOCATED_KIB / 40));
    }

    /** The real scheduler as a process. It asks as often as stock servers would by themselves, in the mean. */
    private AutoCloseable startScheduler(Ensemble ensemble) throws IOException {
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx64m",
            "-XX:+UseSerialGC", "-jar", options.scheduler().toString(), "run", "--zookeeper", ensemble.connectString(),
            "--servers", ensemble.adminServers(), "--transactions", Integer.toString(options.snapCount() * 3 / 4), "--settle-ms",
            "1000")
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(options.out().resolve("scheduler.log").toFile())).start();
        return () -> process.destroyForcibly().waitFor();
    }

    private static void snapshot(Server server) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(
            URI.create("http://" + server.adminAddress() + "/commands/snapshot?streaming=false"))
            .header("Authorization", "ip").build();
        HttpResponse<String> response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException("server " + server.id() + ": no snapshot, HTTP " + response.statusCode());
        }
    }

    /** Makes everything durable that is on the file system of {@code directory}. */
    private static void sync(Path directory) throws Exception {
        int status = new ProcessBuilder("sync", "--file-system", directory.toString()).inheritIO().start().waitFor();
        if (status != 0) {
            throw new IOException("sync --file-system " + directory + ": status " + status);
        }
    }

    private Path template(int servers, boolean hasTree) {
        return options.directory().resolve("template-" + servers + (hasTree ? "-tree" : ""));
    }

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path path : (Iterable<Path>) all::iterator) {
                String name = path.getFileName().toString();
                if (!name.endsWith(".log") && !name.startsWith("log.")) {
                    Files.copy(path, to.resolve(from.relativize(path)));
                }
            }
        }
        // Logs hold zeros up to their preallocated size; what a snapshot does not have is not needed.
    }

    private static void delete(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return;
        }
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : (Iterable<Path>) all.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }
}
