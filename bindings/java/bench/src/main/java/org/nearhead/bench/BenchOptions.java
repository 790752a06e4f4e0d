package org.nearhead.bench;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What the benchmark is told; each default is a run of a few minutes. A rate of 0 is as many writes as end. */
record BenchOptions(
    Path directory,
    Path out,
    Path agent,
    Path scheduler,
    List<Integer> servers,
    List<Variant> variants,
    int treeMb,
    int seconds,
    int warmupSeconds,
    int rounds,
    int sessions,
    int outstanding,
    int rate,
    int snapCount,
    int heapMb) {

    static final String USAGE = """
        --directory DIR      where the ensembles live: on the disk in question (default: the system's temporary directory)
        --out DIR            where bench-zookeeper.json and .html go (default target/bench-zookeeper)
        --agent JAR --scheduler JAR
        --servers N,...      sizes of ensembles (default 3,5)
        --variants TEXT,...  those whose name is among these (default all)
        --tree-mb N          size of the data tree (default 100)
        --seconds N          how long each variant is measured (default 30), after --warmup-seconds N (default 5)
        --rounds N           how often all variants are gone through (default 1)
        --sessions N         clients (default 4), with --outstanding N writes on their way in all (default 64)
        --rate N             writes a second that are begun, each counted from when it was due (default: as many as end)
        --snap-count N       a server snapshots after N/2 to N transactions (default 20000)
        --heap-mb N          of each server (default 640)
        """;

    static BenchOptions parse(String[] words) {
        Map<String, String> given = new TreeMap<>();
        for (int i = 0; i < words.length; i += 2) {
            if (!words[i].startsWith("--") || i + 1 == words.length) {
                throw new IllegalArgumentException("expected --option value, found '" + words[i] + "'");
            }
            given.put(words[i].substring(2), words[i + 1]);
        }
        String variants = given.remove("variants");
        BenchOptions options = new BenchOptions(
            Path.of(text(given, "directory", System.getProperty("java.io.tmpdir"))).resolve("nearhead-bench-zookeeper"),
            Path.of(text(given, "out", "target/bench-zookeeper")),
            Path.of(text(given, "agent", "nearhead-zookeeper.jar")),
            Path.of(text(given, "scheduler", "nearhead-zk-snapshots.jar")),
            Arrays.stream(text(given, "servers", "3,5").split(",")).map(Integer::parseInt).toList(),
            Variant.ALL.stream().filter(v -> variants == null || List.of(variants.split(",")).contains(v.name())).toList(),
            number(given, "tree-mb", 100),
            number(given, "seconds", 30),
            number(given, "warmup-seconds", 5),
            number(given, "rounds", 1),
            number(given, "sessions", 4),
            number(given, "outstanding", 64),
            given.containsKey("rate") ? number(given, "rate", 1) : 0,
            number(given, "snap-count", 20_000),
            number(given, "heap-mb", 640));
        if (!given.isEmpty()) {
            throw new IllegalArgumentException("unknown option --" + given.keySet().iterator().next());
        }
        if (options.variants.isEmpty()) {
            throw new IllegalArgumentException("no variant is named '" + variants + "'");
        }
        return options;
    }

    private static String text(Map<String, String> given, String name, String otherwise) {
        String value = given.remove(name);
        return value == null ? otherwise : value;
    }

    private static int number(Map<String, String> given, String name, int otherwise) {
        String value = text(given, name, Integer.toString(otherwise));
        if (!value.matches("\\d{1,7}") || value.matches("0+")) {
            throw new IllegalArgumentException("--" + name + ": expected a number of at least 1, found '" + value + "'");
        }
        return Integer.parseInt(value);
    }
}
