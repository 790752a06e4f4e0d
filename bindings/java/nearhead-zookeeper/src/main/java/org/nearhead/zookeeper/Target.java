package org.nearhead.zookeeper;

/**
 * A place in the server where a file output stream is made, and what is made there instead.
 *
 * <p>A class is known by the SHA-256 of its bytes, as Maven Central has them. Another version may do the same or something
 * that only looks alike; nobody has tried, so it is left alone. To add one: read what its file output streams are used
 * for, run the tests with it, add its digest.
 */
enum Target {
    /** The transaction log: {@code FileTxnLog.append} of 3.9.4. */
    LOG("org/apache/zookeeper/server/persistence/FileTxnLog", "append",
        "2515ebfc52240f510d719e1029249b62ba9f1f93380372269e38c13fa3604877", LogOutputStream.class,
        "the transaction log"),
    /** Snapshots: {@code SnapStream.getOutputStream} of 3.9.4. */
    SNAPSHOTS("org/apache/zookeeper/server/persistence/SnapStream", "getOutputStream",
        "f9a7dedb289d277437c6d7866d1b55ccc2f46de73793165f575de18c55552cf9", SnapshotOutputStream.class, "snapshots");

    final String className;
    final String method;
    final String sha256;
    final String replacement;
    final String what;

    Target(String className, String method, String sha256, Class<?> replacement, String what) {
        this.className = className;
        this.method = method;
        this.sha256 = sha256;
        this.replacement = replacement.getName().replace('.', '/');
        this.what = what;
    }
}
