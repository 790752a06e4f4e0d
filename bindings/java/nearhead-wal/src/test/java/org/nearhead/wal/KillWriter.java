package org.nearhead.wal;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/** A program that is made to be killed: writes records, and prints the number of each once it is durable. */
final class KillWriter {
    private KillWriter() {
    }

    /** Record {@code number}: a line of a length that is no divisor of any block. */
    static byte[] record(int number) {
        return (number + " " + "x".repeat(number * 37 % 5000) + "\n").getBytes(StandardCharsets.US_ASCII);
    }

    public static void main(String[] arguments) throws IOException {
        Path file = Path.of(arguments[0]);
        Helper helper = Helper.start(file.getParent(), Duration.ofSeconds(30));
        System.out.println(helper.process().pid());
        try (DurableOutputStream out = new DurableOutputStream(helper, file)) {
            for (int number = 0;; number++) {
                out.write(record(number));
                if (number % 3 == 0) {
                    out.sync();
                    System.out.println(number);
                }
            }
        } catch (HelperException error) {
            System.out.println("failed after " + error.durableBytes() + " durable bytes: " + error.getMessage());
        }
    }
}
