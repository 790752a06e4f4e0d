package org.nearhead.wal;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** The golden bytes of docs/wal-helper.md, and what is refused. */
class FrameTest {
    private static byte[] hex(String text) {
        return HexFormat.of().parseHex(text.replace(" ", ""));
    }

    @Test
    void framesAreTheBytesThatTheDocumentSays() {
        byte[] header = Frame.header(Frame.OPEN_STREAM, 2, 5, 34);
        byte[] body = HelperStream.openBody(HelperStream.AT_EMPTY, 1 << 20, 8 << 20, "/f".getBytes());
        assertArrayEquals(hex("22000000 0200 0000 0200000000000000 05000000"), header);
        assertArrayEquals(hex("03 01 0000 b6010000 00001000 00000000 0000800000000000 0000000000000000 2f66"), body);
        assertArrayEquals(hex("00000000 0400 0000 0400000000000000 05000000"), Frame.header(Frame.SYNC, 4, 5, 0));
    }

    @Test
    void anErrorTellsWhatIsDurableInSpiteOfIt() throws IOException {
        Frame frame = Frame.read(new ByteArrayInputStream(hex("19000000 ffff 0000 0300000000000000 05000000"
            + "0600 0300 00000000 0300000000000000 0200000000000000 78")));
        HelperException error = HelperException.of(frame, "/f");
        assertEquals(HelperException.NO_SPACE, error.code());
        assertEquals(2, error.durableBytes());
        assertEquals("/f: x", error.getMessage());
    }

    @Test
    void whatCannotBeAFrameIsRefusedBeforeMemoryIsTaken() throws IOException {
        assertNull(Frame.read(new ByteArrayInputStream(new byte[0])));
        for (String wrong : new String[] {
            "ffffff7f 0480 0000 0400000000000000 05000000", "ffffffff 0480 0000 0400000000000000 05000000",
            "00000000 0480 0100 0400000000000000 05000000", "01000000 0480 0000 0400000000000000 05000000", "00"}) {
            assertThrows(IOException.class, () -> Frame.read(new ByteArrayInputStream(hex(wrong))), wrong);
        }
    }

    @Test
    void aHelperThatIsNotThereIsSaidToBe() {
        HelperException none = assertThrows(HelperException.class, () -> HelperProgram.find(null, null, "/nowhere"));
        assertTrue(none.getMessage().contains("-Dnearhead.helper="), none.getMessage());
        HelperException named = assertThrows(HelperException.class, () -> HelperProgram.find("/no/such", null, "/bin"));
        assertTrue(named.getMessage().contains("/no/such"), named.getMessage());
    }
}
