package org.nearhead.wal;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A helper process and the two pipes to it; any threads may use it, each {@link HelperStream} for itself.
 *
 * <p>It keeps true that whoever waits is told: when the helper ends, hangs past the deadline or says what cannot be
 * understood, every request fails, all streams are stopped and nothing is ever sent again. It never tries anything twice:
 * what is durable is known, what else was written is not. Memory is bounded: one frame each way, 128 waiting requests.
 */
public final class Helper implements AutoCloseable {
    private static final int HANDLES = 64;
    /** Half of what the protocol allows before both sides could wait for each other. */
    private static final int OUTSTANDING_MAX = 128;
    private static final byte[] MAGIC = {'N', 'H', 'W', 'P'};
    private static final int VERSION = 1;

    private final Process process;
    private final OutputStream out;
    private final Duration deadline;
    private final Semaphore outstanding = new Semaphore(OUTSTANDING_MAX);
    private final Object sending = new Object();

    /** Guarded by itself: waiting requests by tag, handles in use, streams, and what ended everything. */
    private final Map<Long, CompletableFuture<Frame>> waiting = new HashMap<>();
    private final BitSet handles = new BitSet(HANDLES);
    private final Map<Integer, HelperStream> streams = new HashMap<>();
    private HelperException end;
    private long lastTag;
    private String choice = "";

    private Helper(Process process, Duration deadline) {
        this.process = process;
        this.out = new BufferedOutputStream(process.getOutputStream(), 1 << 16);
        this.deadline = deadline;
    }

    /** Starts the helper that {@link HelperProgram} finds. A request without a reply after {@code deadline} ends it. */
    public static Helper start(Path directory, Duration deadline) throws IOException {
        return start(HelperProgram.find(), directory, deadline);
    }

    static Helper start(List<String> command, Path directory, Duration deadline) throws IOException {
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Helper helper = new Helper(process, deadline);
        Thread reader = new Thread(helper::readReplies, "nearhead-helper-replies");
        reader.setDaemon(true);
        reader.start();
        try {
            helper.greet(directory);
        } catch (IOException | RuntimeException error) {
            helper.close();
            throw error;
        }
        return helper;
    }

    /** One line: who writes, with what priority, and what would be better. */
    public String choice() {
        return choice;
    }

    /** The helper's process, for those who watch it. */
    public ProcessHandle process() {
        return process.toHandle();
    }

    /** Opens a stream in a file that is made empty, as a file output stream does. */
    public HelperStream create(Path file) throws IOException {
        return open(file, HelperStream.AT_EMPTY);
    }

    /** Opens a stream at the end of a file, a new one if there is none. */
    public HelperStream append(Path file) throws IOException {
        return open(file, HelperStream.AT_END);
    }

    private HelperStream open(Path file, int at) throws IOException {
        int handle;
        HelperStream stream;
        synchronized (waiting) {
            handle = handles.nextClearBit(0);
            if (handle >= HANDLES) {
                throw new HelperException(HelperException.GONE, 0, file + ": expected fewer than " + HANDLES
                    + " open streams, found all in use; close one");
            }
            handles.set(handle);
            stream = new HelperStream(this, handle, file);
            streams.put(handle, stream);
        }
        try {
            stream.open(at);
            return stream;
        } catch (IOException error) {
            free(handle);
            throw error;
        }
    }

    /** Sends a request and waits for its reply; an ERROR becomes an exception. */
    Frame request(int kind, int handle, byte[] body, String what) throws IOException {
        outstanding.acquireUninterruptibly();
        CompletableFuture<Frame> reply = new CompletableFuture<>();
        try {
            send(kind, handle, body, 0, body.length, reply);
            Frame frame = reply.get(deadline.toMillis(), TimeUnit.MILLISECONDS);
            if (frame.kind() == Frame.ERROR) {
                throw HelperException.of(frame, what);
            }
            if (frame.kind() != kind + Frame.REPLY) {
                throw fail("expected a reply of kind " + (kind + Frame.REPLY) + ", found " + frame.kind());
            }
            return frame;
        } catch (ExecutionException error) {
            throw ((HelperException) error.getCause()).again(0);
        } catch (TimeoutException error) {
            throw fail(what + ": no reply within " + deadline + "; the helper, process " + process.pid() + ", is ended");
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw fail(what + ": interrupted while it waited for the helper");
        } finally {
            outstanding.release();
        }
    }

    /** Sends bytes of a stream. Nothing answers, but the first failure stops the stream. */
    void write(int handle, byte[] bytes, int offset, int length) throws IOException {
        send(Frame.WRITE, handle, bytes, offset, length, null);
    }

    private void send(int kind, int handle, byte[] bytes, int offset, int length, CompletableFuture<Frame> reply)
        throws IOException {
        synchronized (sending) {
            long tag;
            synchronized (waiting) {
                if (end != null) {
                    throw end.again(0);
                }
                tag = ++lastTag;
                if (reply != null) {
                    waiting.put(tag, reply);
                }
            }
            try {
                out.write(Frame.header(kind, tag, handle, length));
                out.write(bytes, offset, length);
                if (reply != null) {
                    out.flush();
                }
            } catch (IOException error) {
                throw fail("the helper, process " + process.pid() + ", takes nothing any more: " + error.getMessage());
            }
        }
    }

    private void greet(Path directory) throws IOException {
        byte[] path = directory.toString().getBytes(StandardCharsets.UTF_8);
        ByteBuffer hello = Frame.littleEndian(8 + path.length).put(MAGIC).putShort((short) VERSION).putShort((short) 0);
        Frame reply = request(Frame.HELLO, 0, hello.put(path).array(), "HELLO");
        ByteBuffer fields = reply.fields(16);
        byte[] magic = new byte[4];
        fields.get(magic);
        int version = fields.getShort();
        if (!java.util.Arrays.equals(magic, MAGIC) || version != VERSION) {
            throw fail("expected a helper of version " + VERSION + ", found version " + version);
        }
        choice = new String(reply.body(), 16, reply.body().length - 16, StandardCharsets.UTF_8);
    }

    private void readReplies() {
        try (InputStream in = new BufferedInputStream(process.getInputStream())) {
            for (Frame frame = Frame.read(in); frame != null; frame = Frame.read(in)) {
                take(frame);
            }
            fail("the helper, process " + process.pid() + ", ended" + status());
        } catch (IOException error) {
            fail("the helper's replies cannot be read: " + error.getMessage());
        }
    }

    private void take(Frame frame) throws IOException {
        CompletableFuture<Frame> reply;
        HelperStream stream;
        synchronized (waiting) {
            reply = waiting.remove(frame.tag());
            stream = streams.get(frame.handle());
        }
        if (reply != null) {
            reply.complete(frame);
        } else if (frame.kind() == Frame.ERROR && stream != null && frame.tag() != 0) {
            stream.stop(HelperException.of(frame, stream.toString()));
        } else if (frame.kind() == Frame.ERROR) {
            throw HelperException.of(frame, "helper");
        } else {
            throw new IOException("expected the reply to a request, found tag " + frame.tag());
        }
    }

    private String status() {
        try {
            return process.waitFor(1, TimeUnit.SECONDS) ? " with status " + process.exitValue() : "";
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return "";
        }
    }

    /** The end of everything: tells all who wait and ends the process. The first reason stays. */
    private HelperException fail(String text) {
        HelperException error = new HelperException(HelperException.GONE, 0, text);
        List<CompletableFuture<Frame>> told;
        synchronized (waiting) {
            if (end != null) {
                error = end;
            }
            end = error;
            told = List.copyOf(waiting.values());
            waiting.clear();
        }
        process.destroyForcibly();
        for (CompletableFuture<Frame> one : told) {
            one.completeExceptionally(error);
        }
        return error;
    }

    void free(int handle) {
        synchronized (waiting) {
            handles.clear(handle);
            streams.remove(handle);
        }
    }

    /**
     * Ends the helper in order: it finishes what it was sent, makes nothing durable that nobody asked for, and is waited for
     * until the deadline.
     */
    @Override
    public void close() throws IOException {
        try {
            synchronized (sending) {
                out.close();
            }
            process.waitFor(deadline.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } finally {
            fail("the helper was closed");
        }
    }
}
