package org.nearhead.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * When the servers' virtual machines stood still, collecting garbage for the most part: what no disk, agent or scheduler has
 * to answer for, and what a slow write must be told from.
 *
 * <p>Each virtual machine writes its stops into a file of the ensemble's folder, as {@link #option} asks it to.
 */
final class Pauses {
    /** A line of {@code -Xlog:safepoint} of JDK 17 and later, behind the time of the clock in milliseconds. */
    private static final Pattern STOP = Pattern.compile("\\[(\\d+)ms\\] Safepoint .* Total: +(\\d+) ns");

    private Pauses() {
    }

    /** The option with which a virtual machine notes its stops in {@code directory}. */
    static String option(Path directory) {
        return "-Xlog:safepoint:file=" + directory.resolve("stops.%p.log") + ":timemillis";
    }

    /** The longest stop of any server that ended between two times of the clock, in milliseconds; 0 if there was none. */
    static double longestMs(Path directory, long fromMillis, long toMillis) throws IOException {
        double longest = 0;
        try (Stream<Path> all = Files.list(directory)) {
            List<Path> files = all.filter(path -> path.getFileName().toString().startsWith("stops.")).toList();
            if (files.isEmpty()) {
                throw new IOException(directory + ": expected a file stops.*.log of each server, found none");
            }
            for (Path file : files) {
                for (String line : Files.readAllLines(file)) {
                    Matcher stop = STOP.matcher(line);
                    if (stop.find() && isWithin(Long.parseLong(stop.group(1)), fromMillis, toMillis)) {
                        longest = Math.max(longest, Long.parseLong(stop.group(2)) / 1e6);
                    }
                }
            }
        }
        return longest;
    }

    private static boolean isWithin(long at, long from, long to) {
        return from <= at && at <= to;
    }
}
