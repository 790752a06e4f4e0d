package org.nearhead.zk.snapshots;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import javax.net.ssl.SSLSocketFactory;

/**
 * One HTTP GET over one connection, sent once.
 *
 * <p>Both clients of the JDK send a GET again when the connection ends before the answer; here a request begins work in a
 * server, and whether it arrived is for the scheduler to find out. HTTP/1.0, so that the body ends with the connection. Head
 * and body are bounded.
 */
final class OneRequest {
    private static final int CONNECT_MS_MAX = 2000;
    private static final int LINE_BYTES_MAX = 8192;
    private static final int HEADERS_MAX = 100;
    private static final int BODY_BYTES_MAX = 4 << 20;

    private OneRequest() {
    }

    /** An answer; names of headers in lower case. */
    record Answer(int status, Map<String, String> headers, String body) {
    }

    /**
     * Sends it and reads the answer.
     *
     * @param silenceMax how long the server may say nothing
     */
    static Answer get(URI address, String authorization, Duration silenceMax) throws IOException {
        boolean isSecure = "https".equals(address.getScheme());
        if (address.getHost() == null || !(isSecure || "http".equals(address.getScheme()))) {
            throw new IOException("expected http://HOST:PORT or https://HOST:PORT, found " + address);
        }
        int port = address.getPort() != -1 ? address.getPort() : isSecure ? 443 : 80;
        try (Socket plain = new Socket()) {
            plain.connect(new InetSocketAddress(address.getHost(), port), CONNECT_MS_MAX);
            plain.setSoTimeout((int) Math.min(Integer.MAX_VALUE, silenceMax.toMillis()));
            if (!isSecure) {
                return exchange(plain, address, authorization);
            }
            SSLSocketFactory secure = (SSLSocketFactory) SSLSocketFactory.getDefault();
            try (Socket socket = secure.createSocket(plain, address.getHost(), port, true)) {
                return exchange(socket, address, authorization);
            }
        } catch (IOException error) {
            throw new IOException(address + ": " + (error.getMessage() == null ? error : error.getMessage()), error);
        }
    }

    private static Answer exchange(Socket socket, URI address, String authorization) throws IOException {
        String query = address.getRawQuery() == null ? "" : "?" + address.getRawQuery();
        String head = "GET " + address.getRawPath() + query + " HTTP/1.0\r\nHost: " + address.getRawAuthority()
            + "\r\nAuthorization: " + authorization + "\r\nConnection: close\r\n\r\n";
        socket.getOutputStream().write(head.getBytes(StandardCharsets.ISO_8859_1));
        InputStream in = new BufferedInputStream(socket.getInputStream());
        String[] status = line(in).split(" ");
        if (status.length < 2 || !status[0].startsWith("HTTP/1.") || !status[1].matches("\\d{3}")) {
            throw new IOException("expected HTTP, found '" + String.join(" ", status) + "'");
        }
        Map<String, String> headers = new HashMap<>();
        for (String line = line(in); !line.isEmpty(); line = line(in)) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                headers.put(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
            }
            if (headers.size() > HEADERS_MAX) {
                throw new IOException("expected at most " + HEADERS_MAX + " headers, found more");
            }
        }
        byte[] body = in.readNBytes(BODY_BYTES_MAX);
        return new Answer(Integer.parseInt(status[1]), headers, new String(body, StandardCharsets.UTF_8));
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c == -1) {
                throw new IOException("the connection ended before an answer");
            }
            if (line.length() == LINE_BYTES_MAX) {
                throw new IOException("expected a line of at most " + LINE_BYTES_MAX + " bytes, found more");
            }
            if (c != '\r') {
                line.append((char) c);
            }
        }
        return line.toString();
    }
}
