// What the tests of `nearhead run` run on the JVM: records through a FileOutputStream, each forced and then acknowledged.

import java.io.FileOutputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;

class Append {
    public static void main(String[] arguments) throws Exception {
        long count = Long.parseLong(arguments[1]);
        long total = 0;
        try (FileOutputStream stream = new FileOutputStream(arguments[0])) {
            FileChannel channel = stream.getChannel();
            for (long number = 1; number <= count; number++) {
                String line = "record " + number + " " + "0".repeat((int) (number * 37 % 900 + 1)) + "\n";
                byte[] bytes = line.getBytes(StandardCharsets.US_ASCII);
                if (number % 2 == 0) {
                    stream.write(bytes);
                } else {
                    channel.write(ByteBuffer.wrap(bytes));
                }
                channel.force(number % 3 == 0);
                total += bytes.length;
                if (channel.size() != total || channel.position() != total) {
                    throw new AssertionError("expected " + total + " bytes, found " + channel.size());
                }
                System.out.println("acknowledged " + number + " " + total);
            }
        }
        try (RandomAccessFile file = new RandomAccessFile(arguments[0], "r")) {
            if (file.length() != total) {
                throw new AssertionError("expected " + total + " bytes, found " + file.length());
            }
        }
    }
}
