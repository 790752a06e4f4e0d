package org.nearhead.zk.snapshots;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.Executors;
import java.util.concurrent.ExecutorService;

/**
 * Stands between the scheduler and one admin server: passes everything on, tells a listener before and after each request
 * for a snapshot. The listener may block, which makes a snapshot as long as a test needs it.
 */
final class AdminProxy implements AutoCloseable {
    /** What a test wants to know of a request for a snapshot. */
    interface Listener {
        void before(int server) throws Exception;

        void after(int server) throws Exception;
    }

    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpClient client = HttpClient.newHttpClient();

    AdminProxy(int id, String target, Listener listener) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            boolean isSnapshot = exchange.getRequestURI().getPath().endsWith("/snapshot");
            try (exchange) {
                if (isSnapshot) {
                    listener.before(id);
                }
                pass(exchange, target);
                if (isSnapshot) {
                    listener.after(id);
                }
            } catch (IOException error) {
                throw error;
            } catch (Exception error) {
                throw new IOException(error);
            }
        });
        server.start();
    }

    String address() {
        return "127.0.0.1:" + server.getAddress().getPort();
    }

    private void pass(HttpExchange exchange, String target) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://" + target + exchange.getRequestURI()));
        String authorization = exchange.getRequestHeaders().getFirst("Authorization");
        if (authorization != null) {
            request.header("Authorization", authorization);
        }
        HttpResponse<byte[]> response = client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        for (String header : new String[] {"last_zxid", "snapshot_size"}) {
            response.headers().firstValue(header).ifPresent(value -> exchange.getResponseHeaders().add(header, value));
        }
        exchange.sendResponseHeaders(response.statusCode(), response.body().length == 0 ? -1 : response.body().length);
        exchange.getResponseBody().write(response.body());
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
