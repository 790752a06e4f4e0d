package org.nearhead.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Locale;

/** The results as a table, as JSON, and as one HTML page with a chart for each size of ensemble. Computes nothing but shares. */
final class Report {
    private static final int WIDTH = 900;
    private static final int HEIGHT = 260;
    private static final int MARGIN = 50;
    /** The vertical axis is logarithmic, from 1 ms to 100 s. */
    private static final double DECADES = 5;
    private static final String[] COLOURS = {"#777777", "#d62728", "#ff9900", "#1f77b4", "#2ca02c"};

    private Report() {
    }

    static String line(Result result) {
        Series series = result.series();
        return String.format(Locale.ROOT,
            "%d servers  %-18s round %d  %8.0f writes/s  slowest %8.1f ms  %6d over 200 ms  %4d failed  %3d snapshots"
                + "  mean sync %6.2f ms  longest stop of a JVM %6.1f ms",
            result.servers(), result.variant().name(), result.round(), series.perSecond(), series.worstMs(),
            series.overTarget(), series.failed(), result.snapshots(), result.fsyncMsMean(), result.pauseMsMax());
    }

    static String table(List<Result> results) {
        StringBuilder text = new StringBuilder();
        for (Result result : results) {
            text.append(line(result)).append(share(result, results)).append('\n');
        }
        return text.append(overRounds(results)).toString();
    }

    /** Of several rounds the median throughput and its share of the small tree's median, and the slowest write of all. */
    private static String overRounds(List<Result> results) {
        StringBuilder text = new StringBuilder();
        for (Result first : results) {
            List<Result> rounds = roundsOf(first.servers(), first.variant(), results);
            if (first.round() != 1 || rounds.size() == 1) {
                continue;
            }
            double median = median(rounds);
            List<Result> reference = roundsOf(first.servers(), Variant.REFERENCE, results);
            text.append(String.format(Locale.ROOT, "%d servers  %-18s median  %8.0f writes/s%s  slowest %8.1f ms  %6d over 200 ms%n",
                first.servers(), first.variant().name(), median,
                reference.isEmpty() ? "" : String.format(Locale.ROOT, ", %3.0f %%", 100 * median / median(reference)),
                rounds.stream().mapToDouble(r -> r.series().worstMs()).max().orElse(0),
                rounds.stream().mapToLong(r -> r.series().overTarget()).sum()));
        }
        return text.toString();
    }

    private static List<Result> roundsOf(int servers, Variant variant, List<Result> results) {
        return results.stream().filter(r -> r.servers() == servers && r.variant().equals(variant)).toList();
    }

    private static double median(List<Result> rounds) {
        double[] sorted = rounds.stream().mapToDouble(r -> r.series().perSecond()).sorted().toArray();
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    /** Throughput as a share of the small tree's in the same round. */
    private static String share(Result result, List<Result> results) {
        return results.stream()
            .filter(r -> r.servers() == result.servers() && r.round() == result.round()
                && r.variant().equals(Variant.REFERENCE))
            .findFirst()
            .map(r -> String.format(Locale.ROOT, "  %3.0f %% of the small tree's throughput",
                100 * result.series().perSecond() / r.series().perSecond()))
            .orElse("");
    }

    static String json(BenchOptions options, List<Result> results) throws java.io.IOException {
        ObjectMapper mapper = new ObjectMapper();
        ObjectNode root = mapper.createObjectNode();
        root.put("tree_mb", options.treeMb()).put("seconds", options.seconds()).put("sessions", options.sessions())
            .put("outstanding", options.outstanding()).put("rate", options.rate()).put("snap_count", options.snapCount());
        ArrayNode runs = root.putArray("runs");
        for (Result result : results) {
            ObjectNode run = runs.addObject().put("servers", result.servers()).put("variant", result.variant().name())
                .put("round", result.round()).put("writes_per_second", result.series().perSecond())
                .put("slowest_ms", result.series().worstMs()).put("writes_over_200_ms", result.series().overTarget())
                .put("writes_failed", result.series().failed()).put("snapshots", result.snapshots())
                .put("sync_ms_mean", result.fsyncMsMean()).put("jvm_pause_ms_max", result.pauseMsMax());
            ArrayNode counts = run.putArray("writes_by_second");
            ArrayNode slowest = run.putArray("slowest_ms_by_second");
            for (long count : result.series().counts()) {
                counts.add(count);
            }
            for (double millis : result.series().slowestMs()) {
                slowest.add(millis);
            }
        }
        return mapper.writerWithDefaultPrettyPrinter().writeValueAsString(root) + "\n";
    }

    static String html(BenchOptions options, List<Result> results) {
        StringBuilder page = new StringBuilder("<!DOCTYPE html><meta charset=\"utf-8\"><title>ZooKeeper on one disk</title>"
            + "<style>body{font:15px sans-serif;margin:2em;max-width:70em}pre{overflow-x:auto}</style>"
            + "<h1>ZooKeeper on one disk</h1><p>The slowest write of each second, milliseconds, logarithmic. The dashed line is "
            + "200 ms. A tree of " + options.treeMb() + " MB; a server snapshots after " + options.snapCount() / 2 + " to "
            + options.snapCount() + " transactions. Clients write " + (options.rate() == 0 ? "as much as they can"
                : options.rate() + " times a second") + ".</p>");
        for (int servers : options.servers()) {
            page.append("<h2>").append(servers).append(" servers</h2>").append(chart(servers, results));
        }
        return page.append("<pre>").append(table(results)).append("</pre>\n").toString();
    }

    private static String chart(int servers, List<Result> results) {
        StringBuilder svg = new StringBuilder("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + WIDTH + "\" height=\""
            + (HEIGHT + 30) + "\" font-size=\"12\">");
        for (int decade = 0; decade <= DECADES; decade++) {
            double y = y(Math.pow(10, decade));
            svg.append(String.format(Locale.ROOT,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"4\" y=\"%.1f\">%.0f</text>",
                MARGIN, WIDTH, y, y, y + 4, Math.pow(10, decade)));
        }
        svg.append(String.format(Locale.ROOT,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#000\" stroke-dasharray=\"5 5\"/>", MARGIN, WIDTH,
            y(200), y(200)));
        for (Variant variant : Variant.ALL) {
            String colour = COLOURS[Variant.ALL.indexOf(variant)];
            results.stream().filter(r -> r.servers() == servers && r.variant().equals(variant)).forEach(result ->
                svg.append("<polyline fill=\"none\" stroke=\"").append(colour).append("\" points=\"")
                    .append(points(result.series().slowestMs())).append("\"/>"));
            svg.append(String.format(Locale.ROOT, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>",
                MARGIN + 170 * Variant.ALL.indexOf(variant), HEIGHT + 22, colour, variant.name()));
        }
        return svg.append("</svg>").toString();
    }

    private static String points(double[] slowestMs) {
        StringBuilder points = new StringBuilder();
        for (int second = 0; second < slowestMs.length; second++) {
            double x = MARGIN + (WIDTH - MARGIN) * (second + 0.5) / slowestMs.length;
            points.append(String.format(Locale.ROOT, "%.1f,%.1f ", x, y(slowestMs[second])));
        }
        return points.toString();
    }

    private static double y(double millis) {
        return HEIGHT * (1 - Math.log10(Math.max(1, millis)) / DECADES);
    }
}
