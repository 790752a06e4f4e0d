package org.nearhead.zookeeper;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Optional;
import org.nearhead.wal.Helper;
import org.nearhead.wal.HelperException;

/**
 * The one helper process of this server, started when the first log is.
 *
 * <p>A log that cannot be written ends the server's process, with status {@link #STATUS}, whatever the reason: helper gone, disk
 * full, I/O error. Left alone, ZooKeeper 3.9.4 keeps the broken log, joins and leaves the ensemble for ever and never serves
 * again. A restart recovers what was acknowledged. The helper is never replaced behind the server's back, because what it
 * had not acknowledged is unknown.
 */
public final class SharedHelper {
    private static final Duration DEADLINE = Duration.ofMillis(Long.getLong("nearhead.helper.deadlineMs", 60_000));
    /** How often a helper of an earlier life is waited for, three seconds each time. */
    private static final int WAITS_MAX = 20;

    /** EX_IOERR of sysexits.h. */
    private static final int STATUS = 74;

    private static Helper helper;
    private static boolean isQuiet;

    private SharedHelper() {
    }

    static synchronized Helper of(Path directory) throws IOException {
        if (helper == null) {
            helper = Helper.start(directory, DEADLINE);
            Agent.say(directory + ": " + helper.choice());
        }
        return helper;
    }

    /** Ends the server's process at once; no hook may write to a log that failed. Never returns. */
    static IOException end(IOException error) {
        Agent.say("the transaction log cannot be written, the server ends with status " + STATUS
            + " (restart it; everything acknowledged is there): " + error.getMessage());
        Runtime.getRuntime().halt(STATUS);
        return error;
    }

    /**
     * Called when a log directory is about to be used for the first time. A helper whose server was killed finishes its last
     * writes; what it adds after the log was read would be a transaction that nobody knows of. So the newest log is opened
     * once, which waits for its lock.
     */
    public static synchronized void awaitQuiet(File directory) {
        if (isQuiet) {
            return;
        }
        isQuiet = true;
        Optional<File> newest = newestLog(directory);
        for (int wait = 1; newest.isPresent(); wait++) {
            try {
                of(directory.toPath()).append(newest.get().toPath()).close();
                return;
            } catch (HelperException error) {
                boolean isHeld = error.code() == HelperException.IN_USE;
                Agent.say((isHeld ? "waiting for the helper of an earlier server: " : "") + error.getMessage());
                if (!isHeld || wait == WAITS_MAX) {
                    return;
                }
            } catch (IOException error) {
                Agent.say("the newest log could not be looked at: " + error.getMessage());
                return;
            }
        }
    }

    private static Optional<File> newestLog(File directory) {
        File[] logs = directory.listFiles((in, name) -> name.matches("log\\.[0-9a-f]{1,16}"));
        return Arrays.stream(logs == null ? new File[0] : logs)
            .max(Comparator.comparing(log -> Long.parseUnsignedLong(log.getName().substring(4), 16), Long::compareUnsigned));
    }
}
