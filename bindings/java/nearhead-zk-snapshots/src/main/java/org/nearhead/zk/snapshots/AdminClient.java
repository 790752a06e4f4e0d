package org.nearhead.zk.snapshots;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;

/**
 * Speaks with the admin server of one ZooKeeper server: reads its state, asks it for a snapshot.
 *
 * <p>What comes back is not trusted: a field that is missing or of another kind is an error that names the address, the
 * command and the field. It never repeats a request by itself.
 */
final class AdminClient {
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(5);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String commands;
    private final String authorization;

    /**
     * A client of the admin server at {@code address}: {@code host:port}, or the whole URL of its commands.
     *
     * @param authorization what the header {@code Authorization} says: a scheme and, for some, credentials
     */
    AdminClient(String address, String authorization) {
        this.commands = address.contains("://") ? address.replaceAll("/+$", "") : "http://" + address + "/commands";
        this.authorization = authorization;
    }

    /** State and counters. Fails if the server does not serve. */
    AdminReport report() throws IOException {
        JsonNode monitor = get("monitor");
        JsonNode snapshot = get("last_snapshot");
        JsonNode stats = get("server_stats").path("server_stats");
        return new AdminReport(
            stats.path("server_state").asText("unknown"),
            number(stats, "server_stats", "last_processed_zxid").longValue(),
            zxid(snapshot),
            number(snapshot, "last_snapshot", "timestamp").longValue(),
            number(stats, "server_stats", "log_dir_size").longValue(),
            number(monitor, "monitor", "cnt_fsynctime").longValue(),
            number(monitor, "monitor", "sum_fsynctime").doubleValue(),
            number(monitor, "monitor", "cnt_snapshottime").longValue());
    }

    /** How many voters the ensemble has, as this server knows it. */
    int voters() throws IOException {
        return get("voting_view").path("current_config").size();
    }

    /** A system property of the server, empty if it is not set. */
    JsonNode systemProperties() throws IOException {
        return get("system_properties");
    }

    /**
     * Asks for a snapshot and returns when it is written, or when {@code limit} is over (an {@link IOException}; the server
     * goes on then).
     */
    SnapshotAnswer snapshot(Duration limit) throws IOException {
        OneRequest.Answer answer =
            OneRequest.get(URI.create(commands + "/snapshot?streaming=false"), authorization, limit);
        String error = answer.status() == 200 ? errorOf(answer.body()) : answer.body().strip();
        return new SnapshotAnswer(answer.status(), error, answer.headers().getOrDefault("last_zxid", "unknown"),
            answer.headers().getOrDefault("snapshot_size", "unknown"));
    }

    /** The server's answer to a request for a snapshot: HTTP status, error text if any, zxid and size if there is one. */
    record SnapshotAnswer(int status, String error, String zxid, String bytes) {
        boolean succeeded() {
            return status == 200 && error.isEmpty();
        }

        /** It was asked too soon after another request. */
        boolean isRateLimited() {
            return status == 429;
        }

        /** What went wrong and what to do about it. */
        String explanation() {
            return switch (status) {
                case 401, 403 -> "the admin server refused our credentials (HTTP " + status + ", " + error + "); give those of"
                    + " somebody who may do everything with the root znode: --auth-file with a line like"
                    + " 'digest super:password'";
                case 429 -> "the admin server was asked too often; it is asked again later"
                    + " (admin.rateLimiterIntervalInMS in zoo.cfg)";
                case 503 -> "snapshots by command are switched off; set admin.snapshot.enabled=true in zoo.cfg";
                case 500 -> "the server could not snapshot; its log says why (disk full, or"
                    + " serializeLastProcessedZxidEnabled=false in zoo.cfg?)";
                case 404 -> "no such command; expected ZooKeeper 3.9 or newer";
                default -> "expected a snapshot, found HTTP " + status + ": " + error;
            };
        }
    }

    private JsonNode get(String command) throws IOException {
        String address = commands + "/" + command;
        OneRequest.Answer answer = OneRequest.get(URI.create(address), authorization, ANSWER_LIMIT);
        if (answer.status() != 200) {
            throw new IOException(address + ": expected HTTP 200, found " + answer.status());
        }
        String error = errorOf(answer.body());
        if (!error.isEmpty()) {
            throw new IOException(address + ": " + error);
        }
        return JSON.readTree(answer.body());
    }

    /** The field {@code error} of an answer, empty if there is none. */
    private static String errorOf(String body) {
        if (body.isBlank()) {
            return "";
        }
        try {
            JsonNode error = JSON.readTree(body).path("error");
            return error.isNull() || error.isMissingNode() ? "" : error.asText();
        } catch (IOException notJson) {
            return "expected JSON, found " + body.substring(0, Math.min(80, body.length()));
        }
    }

    private Number number(JsonNode answer, String command, String field) throws IOException {
        JsonNode value = answer.path(field);
        if (!value.isNumber()) {
            throw new IOException(commands + "/" + command + ": expected the number " + field + ", found "
                + (value.isMissingNode() ? "none" : value.toString()) + "; is this ZooKeeper 3.9 or newer?");
        }
        return value.numberValue();
    }

    private long zxid(JsonNode snapshot) throws IOException {
        String text = snapshot.path("zxid").asText("");
        try {
            return Long.parseUnsignedLong(text, 16);
        } catch (NumberFormatException error) {
            throw new IOException(commands + "/last_snapshot: expected a zxid in hexadecimal, found '" + text + "'");
        }
    }
}
