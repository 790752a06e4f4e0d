package org.nearhead.zk.snapshots;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

/**
 * What the scheduler is told on its command line. Nothing else in the program reads the command line.
 *
 * @param zookeeper where the lease and the permits are kept: the ensemble's connect string
 * @param servers admin servers of the voters, by the servers' numbers
 * @param path the znode below which everything is kept; one for each ensemble
 * @param authorization what the admin servers' header {@code Authorization} says
 * @param bounds how much a server may log between two snapshots
 * @param poll how often the servers are looked at
 * @param settle how long a finished snapshot keeps its permit, while the kernel still writes it to the disk
 * @param snapshotLimit after how long a snapshot whose end nobody sees no longer counts
 * @param session after how long without a sign of life the lease goes to another scheduler
 */
record Options(
    String zookeeper,
    Map<Integer, String> servers,
    String path,
    String authorization,
    Bounds bounds,
    Duration poll,
    Duration settle,
    Duration snapshotLimit,
    Duration session) {

    static final String USAGE = """
        --zookeeper HOST:PORT,...     the ensemble; lease and permits are kept there
        --servers ID=HOST:PORT,...    its admin servers (admin.serverPort), all voters; a whole URL of the commands too
        --auth-file FILE              first line: what the header Authorization says, e.g. 'digest super:password'
                                      (default 'ip': enough where everybody may do everything with the root znode)
        --transactions N              snapshot after N transactions (default 100000)
        --log-bytes SIZE              or when the log has grown by SIZE, e.g. 512M, 4G (default 4G)
        --poll-ms N                   look at the servers every N ms (default 1000)
        --settle-ms N                 a finished snapshot counts N ms longer, while it is written back (default 5000)
        --snapshot-limit-s N          after N s a snapshot whose end nobody sees no longer counts (default 1800)
        --session-ms N                another scheduler takes over N ms after this one's death (default 10000)
        --path ZNODE                  where lease and permits are kept (default /nearhead/snapshots)
        """;

    /** Options from words like {@code --name value}. Throws {@link IllegalArgumentException} with a message for people. */
    static Options parse(String[] words, int from) throws IOException {
        Map<String, String> given = new TreeMap<>();
        for (int i = from; i < words.length; i += 2) {
            if (!words[i].startsWith("--") || i + 1 == words.length) {
                throw new IllegalArgumentException("expected --option value, found '" + words[i] + "'");
            }
            given.put(words[i].substring(2), words[i + 1]);
        }
        Options options = new Options(
            required(given, "zookeeper"),
            servers(required(given, "servers")),
            taken(given, "path", "/nearhead/snapshots"),
            authorization(given.remove("auth-file")),
            new Bounds(number(given, "transactions", 100_000), bytes(taken(given, "log-bytes", "4G"))),
            Duration.ofMillis(number(given, "poll-ms", 1000)),
            Duration.ofMillis(number(given, "settle-ms", 5000)),
            Duration.ofSeconds(number(given, "snapshot-limit-s", 1800)),
            Duration.ofMillis(number(given, "session-ms", 10_000)));
        if (!given.isEmpty()) {
            throw new IllegalArgumentException("unknown option --" + given.keySet().iterator().next());
        }
        return options;
    }

    /** {@code 1=host:port,2=host:port} as a map. */
    static Map<Integer, String> servers(String text) {
        Map<Integer, String> servers = new TreeMap<>();
        for (String item : text.split(",")) {
            String[] parts = item.split("=", 2);
            if (parts.length != 2 || !parts[0].matches("\\d{1,3}") || parts[1].isEmpty()) {
                throw new IllegalArgumentException("--servers: expected ID=HOST:PORT, found '" + item + "'");
            }
            if (servers.put(Integer.parseInt(parts[0]), parts[1]) != null) {
                throw new IllegalArgumentException("--servers: server " + parts[0] + " is named twice");
            }
        }
        return servers;
    }

    /** A size with an optional K, M, G or T (powers of 1024). */
    static long bytes(String text) {
        if (!text.matches("\\d{1,12}[KMGT]?")) {
            throw new IllegalArgumentException("expected a size like 512M or 4G, found '" + text + "'");
        }
        int power = "KMGT".indexOf(text.charAt(text.length() - 1)) + 1;
        String digits = power == 0 ? text : text.substring(0, text.length() - 1);
        return Math.multiplyExact(Long.parseLong(digits), 1L << (10 * power));
    }

    private static String authorization(String file) throws IOException {
        if (file == null) {
            return "ip";
        }
        String line = Files.readString(Path.of(file)).lines().findFirst().orElse("").strip();
        if (line.isEmpty()) {
            throw new IllegalArgumentException(file + ": expected a line like 'digest super:password', found none");
        }
        return line;
    }

    private static String taken(Map<String, String> given, String name, String otherwise) {
        String value = given.remove(name);
        return value == null ? otherwise : value;
    }

    private static String required(Map<String, String> given, String name) {
        String value = given.remove(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    private static long number(Map<String, String> given, String name, long otherwise) {
        String value = given.remove(name);
        if (value == null) {
            return otherwise;
        }
        if (!value.matches("\\d{1,12}")) {
            throw new IllegalArgumentException("--" + name + ": expected a number, found '" + value + "'");
        }
        return Long.parseLong(value);
    }
}
