package org.nearhead.zookeeper;

import java.lang.instrument.ClassFileTransformer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.ProtectionDomain;
import java.util.HexFormat;
import java.util.Set;
import java.util.function.Consumer;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Changes two classes of the server as they are loaded: where they make a file output stream, they make one of ours, which is
 * a subclass of it. Nothing else of them changes.
 *
 * <p>It keeps true that a class it does not know by its digest is left alone and that this is said.
 */
final class ServerClasses implements ClassFileTransformer {
    private static final String PLAIN = "java/io/FileOutputStream";

    private final Set<Target> targets;
    private final Consumer<String> say;

    ServerClasses(Set<Target> targets, Consumer<String> say) {
        this.targets = targets;
        this.say = say;
    }

    @Override
    public byte[] transform(
        ClassLoader loader, String className, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
        for (Target target : targets) {
            if (target.className.equals(className) && redefined == null) {
                return replace(target, bytes);
            }
        }
        return null;
    }

    private byte[] replace(Target target, byte[] bytes) {
        String found = sha256(bytes);
        if (!found.equals(target.sha256)) {
            say.accept(target.what + " left as it is: " + target.className.replace('/', '.')
                + " is not the one of ZooKeeper 3.9.4; expected SHA-256 " + target.sha256 + ", found " + found);
            return null;
        }
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, 0);
        int[] replaced = {0};
        reader.accept(new Streams(writer, target, replaced), 0);
        if (replaced[0] != 2) {
            say.accept(target.what + " left as it is: expected one new FileOutputStream in " + target.method + ", found "
                + replaced[0] + " instructions instead of 2");
            return null;
        }
        return writer.toByteArray();
    }

    private static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every Java platform has SHA-256", error);
        }
    }

    /** Puts the replacement for a plain file output stream into one method, and the wait into the log's constructor. */
    private static final class Streams extends ClassVisitor {
        private final Target target;
        private final int[] replaced;

        Streams(ClassVisitor next, Target target, int[] replaced) {
            super(Opcodes.ASM9, next);
            this.target = target;
            this.replaced = replaced;
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
            MethodVisitor next = super.visitMethod(access, name, descriptor, signature, thrown);
            if (name.equals(target.method)) {
                return new Replacing(next, target, replaced);
            }
            boolean isLogsConstructor = target == Target.LOG && name.equals("<init>");
            return isLogsConstructor ? new Waiting(next) : next;
        }
    }

    private static final class Replacing extends MethodVisitor {
        private final Target target;
        private final int[] replaced;

        Replacing(MethodVisitor next, Target target, int[] replaced) {
            super(Opcodes.ASM9, next);
            this.target = target;
            this.replaced = replaced;
        }

        @Override
        public void visitTypeInsn(int opcode, String type) {
            boolean isOurs = opcode == Opcodes.NEW && type.equals(PLAIN);
            super.visitTypeInsn(opcode, isOurs ? count() : type);
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
            boolean isOurs = owner.equals(PLAIN) && name.equals("<init>") && descriptor.equals("(Ljava/io/File;)V");
            super.visitMethodInsn(opcode, isOurs ? count() : owner, name, descriptor, isInterface);
        }

        private String count() {
            replaced[0]++;
            return target.replacement;
        }
    }

    /** {@code FileTxnLog(File logDir)}: before anybody reads the logs of a server that was killed. */
    private static final class Waiting extends MethodVisitor {
        Waiting(MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitInsn(int opcode) {
            if (opcode == Opcodes.RETURN) {
                visitVarInsn(Opcodes.ALOAD, 1);
                visitMethodInsn(Opcodes.INVOKESTATIC, "org/nearhead/zookeeper/SharedHelper", "awaitQuiet",
                    "(Ljava/io/File;)V", false);
            }
            super.visitInsn(opcode);
        }
    }
}
