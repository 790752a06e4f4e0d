package org.nearhead.ensemble;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A real ensemble on loopback: unmodified ZooKeeper, one process for each server, free ports.
 *
 * <p>It keeps true that no server outlives it: each is ended through the handle of the process that was started here, and
 * again when this virtual machine ends. It never looks for processes by name and never touches a port that somebody has.
 */
public final class Ensemble implements AutoCloseable {
    private final List<Server> servers;

    private Ensemble(List<Server> servers) {
        this.servers = servers;
    }

    /**
     * Starts an ensemble and returns once a leader leads and everybody follows.
     *
     * @throws IOException when a server ends or no leader is found within the limit of {@code settings}; the message has
     *     the end of the servers' logs
     */
    public static Ensemble start(EnsembleSettings settings) throws IOException, InterruptedException {
        List<Ports> ports = Ports.reserve(settings.servers());
        List<Server> servers = new ArrayList<>();
        for (int id = 1; id <= settings.servers(); id++) {
            servers.add(new Server(id, ports, settings));
        }
        Ensemble ensemble = new Ensemble(servers);
        try {
            for (Server server : servers) {
                server.start();
            }
            ensemble.awaitServing(settings.startLimit());
        } catch (IOException | InterruptedException | RuntimeException error) {
            ensemble.close();
            throw error;
        }
        return ensemble;
    }

    public List<Server> servers() {
        return servers;
    }

    /** The server with this id, counted from 1. */
    public Server server(int id) {
        return servers.get(id - 1);
    }

    /** Where clients connect: all servers. */
    public String connectString() {
        return servers.stream().map(Server::clientAddress).collect(Collectors.joining(","));
    }

    /** Admin servers in the form that the scheduler takes: {@code 1=host:port,2=host:port}. */
    public String adminServers() {
        return servers.stream().map(s -> s.id() + "=" + s.adminAddress()).collect(Collectors.joining(","));
    }

    /** The server that leads now, if one says so. */
    public Optional<Server> leader() {
        return servers.stream().filter(server -> server.state().equals("leader")).findFirst();
    }

    /** Waits until one server leads and all others that run follow. */
    public void awaitServing(Duration limit) throws IOException, InterruptedException {
        long end = System.nanoTime() + limit.toNanos();
        while (!isServing()) {
            for (Server server : servers) {
                server.throwIfEndedByItself();
            }
            if (System.nanoTime() > end) {
                throw new IOException("no leader with followers after " + limit + "; expected leader and followers, found "
                    + servers.stream().map(Server::state).toList() + "\n" + logs());
            }
            Thread.sleep(50);
        }
    }

    private boolean isServing() {
        List<String> states = servers.stream().filter(Server::isRunning).map(Server::state).toList();
        return states.stream().filter("leader"::equals).count() == 1
            && states.stream().allMatch(state -> state.equals("leader") || state.equals("follower"));
    }

    private String logs() {
        return servers.stream().map(Server::endOfLog).collect(Collectors.joining("\n"));
    }

    /** Ends every server and waits for each. */
    @Override
    public void close() {
        for (Server server : servers) {
            server.kill();
        }
    }

    /** The ports of one server. */
    record Ports(int client, int quorum, int election, int admin) {
        /** Free ports for {@code count} servers. All are held open until all are known, so that none is given twice. */
        static List<Ports> reserve(int count) throws IOException {
            List<ServerSocket> held = new ArrayList<>();
            try {
                for (int i = 0; i < 4 * count; i++) {
                    held.add(new ServerSocket(0, 1, InetAddress.getLoopbackAddress()));
                }
                List<Ports> ports = new ArrayList<>();
                for (int i = 0; i < 4 * count; i += 4) {
                    ports.add(new Ports(held.get(i).getLocalPort(), held.get(i + 1).getLocalPort(),
                        held.get(i + 2).getLocalPort(), held.get(i + 3).getLocalPort()));
                }
                return ports;
            } finally {
                for (ServerSocket socket : held) {
                    socket.close();
                }
            }
        }
    }

    /** The end of a text file, for messages. */
    static String endOf(Path file, int lines) {
        try {
            List<String> all = Files.readAllLines(file);
            return file + ":\n" + String.join("\n", all.subList(Math.max(0, all.size() - lines), all.size()));
        } catch (IOException error) {
            return file + ": " + error;
        }
    }
}
