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

        void after(int server, boolean hasSucceeded);

        /** The scheduler looked at the server. */
        void looked();
    }

    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpClient client = HttpClient.newHttpClient();

    AdminProxy(int id, String target, Listener listener) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            try (exchange) {
                if (exchange.getRequestURI().getPath().endsWith("/snapshot")) {
                    passSnapshot(exchange, id, target, listener);
                } else {
                    if (exchange.getRequestURI().getPath().endsWith("/monitor")) {
                        listener.looked();
                    }
                    answer(exchange, pass(exchange, target));
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

    private void passSnapshot(HttpExchange exchange, int id, String target, Listener listener) throws Exception {
        listener.before(id);
        HttpResponse<byte[]> response = null;
        try {
            response = pass(exchange, target);
        } finally {
            listener.after(id, response != null && response.statusCode() == 200);
        }
        answer(exchange, response);
    }

    private HttpResponse<byte[]> pass(HttpExchange exchange, String target) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://" + target + exchange.getRequestURI()));
        String authorization = exchange.getRequestHeaders().getFirst("Authorization");
        if (authorization != null) {
            request.header("Authorization", authorization);
        }
        return client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
    }

    private static void answer(HttpExchange exchange, HttpResponse<byte[]> response) throws IOException {
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
