package org.nearhead.zk.snapshots;

import java.io.IOException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.Random;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * The program: {@code run}, {@code status} and {@code config}. Log lines go to standard error, answers to standard output. It
 * ends with status 2 for a wrong command line, 1 for a failure.
 */
public final class Main {
    private static final String USAGE = """
        usage: nearhead-zk-snapshots COMMAND [--option value ...]

          run      coordinate the snapshots of one ensemble; start it on several hosts, one is in charge at a time
          status   what the servers say about themselves, and settings that should be otherwise
          config   the lines that zoo.cfg needs

        """ + Options.USAGE;

    private Main() {
    }

    /** See the usage. */
    public static void main(String[] arguments) {
        // The libraries tell much about every lost connection; our own lines say what matters.
        if (System.getProperty("org.slf4j.simpleLogger.defaultLogLevel") == null) {
            System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
        }
        System.exit(run(arguments));
    }

    private static int run(String[] arguments) {
        String command = arguments.length == 0 ? "--help" : arguments[0];
        try {
            switch (command) {
                case "run" -> schedule(Options.parse(arguments, 1));
                case "status" -> status(Options.parse(arguments, 1));
                case "config" -> System.out.print(ServerSettings.snippet(boundsOnly(arguments), new Random()));
                case "help", "--help", "-h" -> System.out.print(USAGE);
                default -> throw new IllegalArgumentException("expected run, status or config, found '" + command + "'");
            }
            return 0;
        } catch (IllegalArgumentException error) {
            System.err.println("nearhead-zk-snapshots: " + error.getMessage() + "\n\n" + USAGE);
            return 2;
        } catch (Exception error) {
            System.err.println("nearhead-zk-snapshots: " + error);
            return 1;
        }
    }

    private static void schedule(Options options) throws Exception {
        try (CuratorFramework curator = connect(options); Scheduler scheduler = new Scheduler(options, curator, Main::log)) {
            scheduler.run();
        }
    }

    /** A client of the ensemble, started. */
    static CuratorFramework connect(Options options) {
        CuratorFramework curator = CuratorFrameworkFactory.builder().connectString(options.zookeeper())
            .sessionTimeoutMs((int) options.session().toMillis()).connectionTimeoutMs(5000)
            .retryPolicy(new ExponentialBackoffRetry(100, 3)).build();
        curator.start();
        return curator;
    }

    private static void status(Options options) {
        for (Map.Entry<Integer, String> server : options.servers().entrySet()) {
            AdminClient client = new AdminClient(server.getValue(), options.authorization());
            try {
                AdminReport report = client.report();
                System.out.printf("server %d  %s  newest snapshot %x  transactions since %d  log %d bytes  snapshots %d%n",
                    server.getKey(), report.state(), report.snapshotZxid(),
                    Progress.between(report.snapshotZxid(), report.lastZxid()), report.logDirectoryBytes(),
                    report.snapshotCount());
                for (String finding : ServerSettings.findings(client.systemProperties())) {
                    System.out.println("  " + finding);
                }
            } catch (IOException error) {
                System.out.println("server " + server.getKey() + "  away: " + error.getMessage());
            }
        }
    }

    /** {@code config} needs no ensemble. */
    private static Bounds boundsOnly(String[] arguments) throws IOException {
        String[] all = new String[arguments.length + 4];
        System.arraycopy(arguments, 0, all, 0, arguments.length);
        String[] none = {"--zookeeper", "none:1", "--servers", "1=none:1"};
        System.arraycopy(none, 0, all, arguments.length, none.length);
        return Options.parse(all, 1).bounds();
    }

    private static void log(String line) {
        System.err.println(Instant.now().truncatedTo(ChronoUnit.MILLIS) + " nearhead-zk-snapshots: " + line);
    }
}
