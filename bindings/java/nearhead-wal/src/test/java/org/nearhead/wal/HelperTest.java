package org.nearhead.wal;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Through the real helper process: what was acknowledged is read again, whoever was killed. */
class HelperTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    @TempDir
    Path directory;

    @BeforeAll
    static void findHelper() {
        try {
            HelperProgram.find();
        } catch (HelperException error) {
            System.out.println("skipped: " + error.getMessage());
            assumeTrue(false, error.getMessage());
        }
    }

    @Test
    void bytesOfAnySizeAreInAPlainFileAfterwards() throws IOException {
        Path file = directory.resolve("log");
        ByteArrayOutputStream expected = new ByteArrayOutputStream();
        Random random = new Random(1);
        try (Helper helper = Helper.start(directory, DEADLINE);
            DurableOutputStream out = new DurableOutputStream(helper, file)) {
            for (int i = 0; i < 300; i++) {
                byte[] bytes = new byte[i == 200 ? 3_000_000 : random.nextInt(9000)];
                random.nextBytes(bytes);
                out.write(bytes);
                expected.write(bytes);
                if (i % 7 == 0) {
                    assertEquals(expected.size(), out.sync());
                    assertArrayEquals(expected.toByteArray(), Arrays.copyOf(Files.readAllBytes(file), expected.size()));
                }
            }
        }
        assertArrayEquals(expected.toByteArray(), Files.readAllBytes(file));
    }

    @Test
    void aChannelKeepsThePaddingThatAProgramAskedFor() throws IOException {
        Path file = directory.resolve("log");
        try (Helper helper = Helper.start(directory, DEADLINE);
            FileChannel channel = new DurableOutputStream(helper, file).getChannel()) {
            channel.write(ByteBuffer.wrap("header".getBytes()));
            channel.write(ByteBuffer.allocate(1), 65535);
            assertEquals(65536, channel.size());
            channel.write(ByteBuffer.wrap(" more".getBytes()));
            channel.force(false);
            ByteBuffer back = ByteBuffer.allocate(4);
            assertEquals(4, channel.read(back, 7));
            assertArrayEquals("more".getBytes(), back.array());
            assertThrows(IOException.class, () -> channel.write(ByteBuffer.wrap("x".getBytes()), 2));
            assertThrows(IOException.class, () -> channel.write(ByteBuffer.wrap("x".getBytes()), 100));
        }
        byte[] content = Files.readAllBytes(file);
        assertEquals(65536, content.length);
        assertArrayEquals(Arrays.copyOf("header more".getBytes(), 65536), content);
    }

    @Test
    void aFileThatAnotherWriterHasIsRefusedAndTheHelperGoesOn() throws IOException {
        try (Helper first = Helper.start(directory, DEADLINE); Helper second = Helper.start(directory, DEADLINE)) {
            try (HelperStream held = first.create(directory.resolve("log"))) {
                HelperException refused =
                    assertThrows(HelperException.class, () -> second.append(directory.resolve("log")));
                assertEquals(HelperException.IN_USE, refused.code(), refused.getMessage());
                assertEquals(0, held.position());
            }
            second.append(directory.resolve("log")).close();
        }
    }

    @Test
    void aWriterThatIsKilledHasEverythingThatItWasTold() throws Exception {
        for (int life = 0; life < 3; life++) {
            Path file = directory.resolve("log-" + life);
            Process writer = startWriter(file);
            BufferedReader lines = writer.inputReader();
            ProcessHandle helper = ProcessHandle.of(Long.parseLong(lines.readLine())).orElseThrow();
            int acknowledged = readUntil(lines, 90 + 31 * life);
            // Through the handle: the process itself would close the pipe that has the last lines.
            writer.toHandle().destroyForcibly();
            writer.waitFor();
            acknowledged = Math.max(acknowledged, last(lines));
            helper.onExit().get();
            assertHolds(file, acknowledged);
        }
    }

    @Test
    void aHelperThatIsKilledIsNoticedAndEverythingThatItToldIsThere() throws Exception {
        Path file = directory.resolve("log");
        Process writer = startWriter(file);
        BufferedReader lines = writer.inputReader();
        ProcessHandle helper = ProcessHandle.of(Long.parseLong(lines.readLine())).orElseThrow();
        int acknowledged = readUntil(lines, 120);
        helper.destroyForcibly();
        String line = lines.readLine();
        for (; line != null && !line.startsWith("failed"); line = lines.readLine()) {
            acknowledged = Integer.parseInt(line);
        }
        assertTrue(line != null && line.contains("process " + helper.pid()), "the writer said: " + line);
        assertTrue(!line.contains("no reply within"), "it was told only by its deadline: " + line);
        long durable = Long.parseLong(line.split(" ")[2]);
        assertEquals(0, writer.waitFor());
        assertTrue(durable >= content(acknowledged).length, line + ", acknowledged record " + acknowledged);
        assertHolds(file, acknowledged);
    }

    private static void assertHolds(Path file, int acknowledged) throws IOException {
        byte[] expected = content(acknowledged);
        byte[] found = Files.readAllBytes(file);
        assertTrue(found.length >= expected.length,
            file + ": record " + acknowledged + " was acknowledged, found " + found.length + " bytes");
        assertArrayEquals(expected, Arrays.copyOf(found, expected.length));
    }

    /** All records up to and with {@code last}. */
    private static byte[] content(int last) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        for (int number = 0; number <= last; number++) {
            content.write(KillWriter.record(number));
        }
        return content.toByteArray();
    }

    private static int readUntil(BufferedReader lines, int number) throws IOException {
        int last = -1;
        while (last < number) {
            String line = lines.readLine();
            assertTrue(line != null && line.matches("\\d+"), "expected the number of a durable record, found " + line);
            last = Integer.parseInt(line);
        }
        return last;
    }

    /** The newest whole line that is left in the pipe. */
    private static int last(BufferedReader lines) throws IOException {
        String rest = lines.lines().reduce("", (all, line) -> all + line + "\n");
        return Arrays.stream(rest.split("\n")).filter(line -> line.matches("\\d+")).mapToInt(Integer::parseInt)
            .filter(number -> number % 3 == 0).max().orElse(-1);
    }

    private static Process startWriter(Path file) throws IOException {
        List<String> command = List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx64m",
            "-Dnearhead.helper=" + HelperProgram.find().get(0), "-cp",
            System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
            "org.nearhead.wal.KillWriter", file.toString());
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }
}
