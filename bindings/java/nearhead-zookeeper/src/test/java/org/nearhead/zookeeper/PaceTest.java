package org.nearhead.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How the bound moves, and which classes are changed. */
class PaceTest {
    @Test
    void theBoundGrowsWhileTheLogIsFastAndIsHalvedWhenItIsNot() {
        Pace pace = new Pace(1000);
        for (int round = 0; round < 100; round++) {
            assertEquals(Math.min(round + 1, Pace.PIECES_MAX) * Pace.PIECE_BYTES, pace.boundBytes());
            pace.logSynced(1000);
            assertEquals(0, pace.roundDone(5));
        }
        for (int pieces = Pace.PIECES_MAX; pieces > 1; pieces /= 2) {
            assertEquals(pieces * Pace.PIECE_BYTES, pace.boundBytes());
            pace.logSynced(1001);
            pace.logSynced(3);
            assertEquals(0, pace.roundDone(5));
        }
        pace.logSynced(5000);
        assertEquals(7, pace.roundDone(7), "at one piece it rests as long as the piece took");
        pace.logSynced(5000);
        assertEquals(Pace.REST_NANOS_MAX, pace.roundDone(Long.MAX_VALUE), "and always gets on");
        assertEquals(Pace.PIECE_BYTES, pace.boundBytes());
    }

    @Test
    void theClassesOfTheKnownVersionAreChangedInOnePlaceEach() throws IOException {
        List<String> said = new ArrayList<>();
        for (Target target : Target.values()) {
            byte[] original = bytesOf(target);
            byte[] changed = new ServerClasses(EnumSet.of(target), said::add)
                .transform(null, target.className, null, null, original);
            assertTrue(new String(changed, java.nio.charset.StandardCharsets.ISO_8859_1).contains(target.replacement));
        }
        assertEquals(List.of(), said);
    }

    @Test
    void aVersionThatIsNotKnownIsLeftAloneAndThisIsSaid() throws IOException {
        for (Target target : Target.values()) {
            List<String> said = new ArrayList<>();
            byte[] other = bytesOf(target);
            other[other.length - 1] ^= 1;
            ServerClasses classes = new ServerClasses(EnumSet.allOf(Target.class), said::add);
            assertNull(classes.transform(null, target.className, null, null, other));
            assertEquals(1, said.size());
            assertTrue(said.get(0).contains("left as it is") && said.get(0).contains(target.sha256), said.get(0));
            assertNull(classes.transform(null, "java/lang/Object", null, null, other));
        }
    }

    private static byte[] bytesOf(Target target) throws IOException {
        try (InputStream in = ClassLoader.getSystemResourceAsStream(target.className + ".class")) {
            return in.readAllBytes();
        }
    }
}
