package org.nearhead.zookeeper;

import java.lang.instrument.Instrumentation;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;
import org.nearhead.wal.HelperException;
import org.nearhead.wal.HelperProgram;

/**
 * {@code -javaagent:nearhead-zookeeper.jar}: gives an unmodified ZooKeeper server another way to its disk. Its transaction log is
 * written by the helper process, its snapshots in pieces.
 *
 * <p>It never stops a server from starting. A version it does not know, or a helper that is not there, is said in one line on
 * standard error, and what it concerns stays as it was. {@code =log} or {@code =snapshots} after the jar's name asks for one
 * of the two only.
 */
public final class Agent {
    private Agent() {
    }

    /** Called by the virtual machine before the server's own {@code main}. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        Set<Target> targets = targets(arguments);
        if (targets.contains(Target.LOG)) {
            try {
                say("transaction log through " + String.join(" ", HelperProgram.find()));
            } catch (HelperException error) {
                say("the transaction log is left as it is: " + error.getMessage());
                targets.remove(Target.LOG);
            }
        }
        instrumentation.addTransformer(new ServerClasses(targets, Agent::say));
    }

    private static Set<Target> targets(String arguments) {
        if (arguments == null || arguments.isBlank()) {
            return EnumSet.allOf(Target.class);
        }
        try {
            return EnumSet.of(Target.valueOf(arguments.strip().toUpperCase(Locale.ROOT)));
        } catch (IllegalArgumentException error) {
            say("expected =log, =snapshots or nothing after the jar's name, found '" + arguments + "'; doing both");
            return EnumSet.allOf(Target.class);
        }
    }

    /** One line for people. The server's own logging is not ours to configure. */
    static void say(String line) {
        System.err.println("nearhead-zookeeper: " + line);
    }
}
