package org.nearhead.wal;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Finds the program that is the helper process: the system property {@code nearhead.helper}, the environment variable
 * NEARHEAD, then PATH. What is named but cannot be run is an error, never passed over in silence.
 */
public final class HelperProgram {
    private static final String SMALL = "nearhead-wal-helper";

    private HelperProgram() {
    }

    /** The command that starts the helper. Fails with where it was looked for. */
    public static List<String> find() throws HelperException {
        return find(System.getProperty("nearhead.helper"), System.getenv("NEARHEAD"), System.getenv("PATH"));
    }

    static List<String> find(String property, String environment, String path) throws HelperException {
        if (property != null && !property.isEmpty()) {
            return runnable(property, "the system property nearhead.helper");
        }
        if (environment != null && !environment.isEmpty()) {
            return runnable(environment, "the environment variable NEARHEAD");
        }
        for (String name : new String[] {SMALL, "nearhead"}) {
            for (String directory : (path == null ? "" : path).split(File.pathSeparator)) {
                if (!directory.isEmpty() && Files.isExecutable(Path.of(directory, name))) {
                    return command(Path.of(directory, name));
                }
            }
        }
        throw new HelperException(HelperException.GONE, 0, "expected the program nearhead or " + SMALL
            + ", found neither in PATH; install it, or name it with -Dnearhead.helper=FILE or NEARHEAD=FILE");
    }

    private static List<String> runnable(String file, String named) throws HelperException {
        Path program = Path.of(file);
        if (!Files.isRegularFile(program) || !Files.isExecutable(program)) {
            throw new HelperException(HelperException.GONE, 0,
                named + " names " + file + ": expected a program, found none that may be run");
        }
        return command(program);
    }

    private static List<String> command(Path program) {
        boolean isSmall = program.getFileName().toString().startsWith(SMALL);
        return isSmall ? List.of(program.toString()) : List.of(program.toString(), "wal", "helper");
    }
}
