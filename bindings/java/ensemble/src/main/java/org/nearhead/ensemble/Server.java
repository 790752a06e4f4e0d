package org.nearhead.ensemble;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * One server of an ensemble: a process with unmodified ZooKeeper, its folder, its ports.
 *
 * <p>{@link #kill} is what a crash of the process is: no hook runs, nothing is flushed. The folder stays, so that
 * {@link #start} brings the server back with what it had made durable. A server never starts twice at the same time.
 */
public final class Server {
    private static final HttpClient HTTP = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(2)).build();
    private static final ObjectMapper JSON = new ObjectMapper();

    private final int id;
    private final List<Ensemble.Ports> ports;
    private final EnsembleSettings settings;
    private final Path directory;
    private List<String> javaOptions;
    private Process process;

    Server(int id, List<Ensemble.Ports> ports, EnsembleSettings settings) {
        this.id = id;
        this.ports = ports;
        this.settings = settings;
        this.directory = settings.directory().resolve("server-" + id);
        this.javaOptions = settings.javaOptions();
        Runtime.getRuntime().addShutdownHook(new Thread(this::kill));
    }

    public int id() {
        return id;
    }

    public long pid() {
        return process.pid();
    }

    public String clientAddress() {
        return "127.0.0.1:" + own().client();
    }

    public String adminAddress() {
        return "127.0.0.1:" + own().admin();
    }

    /** Where logs and snapshots lie. */
    public Path dataDirectory() {
        return directory.resolve("data").resolve("version-2");
    }

    /** What the process printed. */
    public Path log() {
        return directory.resolve("server.log");
    }

    /** Options of the virtual machine from the next start on. */
    public void setJavaOptions(List<String> options) {
        javaOptions = options;
    }

    public boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** With what the process ended; it must have. */
    public int exitValue() {
        return process.exitValue();
    }

    public void start() throws IOException {
        if (isRunning()) {
            throw new IllegalStateException("server " + id + " runs already, process " + process.pid());
        }
        writeConfiguration();
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(javaOptions);
        command.addAll(List.of("-cp", directory + File.pathSeparator + serverJars(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", directory.resolve("zoo.cfg").toString()));
        process = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile())).start();
    }

    /** Ends the process at once, as {@code kill -9} does, and waits until it is gone. */
    public void kill() {
        if (process == null) {
            return;
        }
        process.destroyForcibly();
        boolean interrupted = false;
        while (process.isAlive()) {
            try {
                process.waitFor();
            } catch (InterruptedException error) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** {@code leader}, {@code follower}, or what there is instead of an answer. */
    public String state() {
        try {
            return admin("monitor").path("server_state").asText("starting");
        } catch (IOException error) {
            return "no answer";
        }
    }

    /** The answer of the admin server to a command. */
    public JsonNode admin(String command) throws IOException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + adminAddress() + "/commands/" + command))
            .timeout(Duration.ofSeconds(5)).build();
        try {
            return JSON.readTree(HTTP.send(request, HttpResponse.BodyHandlers.ofString()).body());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException(error);
        }
    }

    public String endOfLog() {
        return Ensemble.endOf(log(), 30);
    }

    void throwIfEndedByItself() throws IOException {
        if (process != null && !process.isAlive() && process.exitValue() != 137) {
            throw new IOException("server " + id + " ended with " + process.exitValue() + "\n" + endOfLog());
        }
    }

    private Ensemble.Ports own() {
        return ports.get(id - 1);
    }

    private void writeConfiguration() throws IOException {
        Map<String, String> lines = new LinkedHashMap<>();
        lines.put("tickTime", "500");
        lines.put("initLimit", "20");
        lines.put("syncLimit", "20");
        lines.put("dataDir", directory.resolve("data").toString());
        lines.put("clientPort", Integer.toString(own().client()));
        lines.put("clientPortAddress", "127.0.0.1");
        lines.put("admin.serverAddress", "127.0.0.1");
        lines.put("admin.serverPort", Integer.toString(own().admin()));
        for (int other = 1; other <= ports.size(); other++) {
            Ensemble.Ports of = ports.get(other - 1);
            lines.put("server." + other, "127.0.0.1:" + of.quorum() + ":" + of.election());
        }
        lines.putAll(settings.configuration().apply(id));
        Files.createDirectories(directory.resolve("data"));
        Files.writeString(directory.resolve("data").resolve("myid"), id + "\n");
        Files.write(directory.resolve("zoo.cfg"),
            lines.entrySet().stream().map(line -> line.getKey() + "=" + line.getValue()).toList());
        Files.writeString(directory.resolve("logback.xml"), LOGBACK);
    }

    /** The jars that this virtual machine was given, and none of our own; of two bindings of the logging the servers' own. */
    private static String serverJars() {
        String given = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        return Arrays.stream(given.split(File.pathSeparator)).filter(entry -> {
            String name = Path.of(entry).getFileName().toString();
            return name.endsWith(".jar") && !name.matches("(nearhead|ensemble|bench|slf4j-simple)-.*");
        }).collect(Collectors.joining(File.pathSeparator));
    }

    private static final String LOGBACK = """
        <configuration>
          <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
            <encoder><pattern>%d %-5level [%thread] %logger{0} %msg%n</pattern></encoder>
          </appender>
          <root level="INFO"><appender-ref ref="out"/></root>
        </configuration>
        """;
}
