package org.nearhead.ensemble;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;

/**
 * What an ensemble is started with. Everything that is not said here is ZooKeeper's default.
 *
 * @param servers how many, all of them voters
 * @param directory where each server gets a folder of its own
 * @param configuration further lines of {@code zoo.cfg} of the server with this id
 * @param javaOptions options of each server's virtual machine, an agent for example
 * @param startLimit how long until the ensemble must serve
 */
public record EnsembleSettings(
    int servers, Path directory, IntFunction<Map<String, String>> configuration, List<String> javaOptions, Duration startLimit) {

    /** Three servers or any other number, with small heaps. */
    public static EnsembleSettings of(int servers, Path directory) {
        return new EnsembleSettings(servers, directory, id -> Map.of(),
            List.of("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"), Duration.ofSeconds(240));
    }

    public EnsembleSettings withConfiguration(Map<String, String> lines) {
        return withConfiguration(id -> lines);
    }

    /** Lines that are not the same for every server. */
    public EnsembleSettings withConfiguration(IntFunction<Map<String, String>> lines) {
        return new EnsembleSettings(servers, directory, lines, javaOptions, startLimit);
    }

    public EnsembleSettings withJavaOptions(List<String> options) {
        return new EnsembleSettings(servers, directory, configuration, options, startLimit);
    }
}
