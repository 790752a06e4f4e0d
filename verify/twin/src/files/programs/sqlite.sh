# SQLite in every journal mode: transactions, a rollback, a vacuum; integrity_check and sums of rows.
set -e
modes='delete truncate persist memory wal off'
run() {
    for mode in $modes; do
        rm -f "$mode.db" "$mode.db-wal" "$mode.db-shm" "$mode.db-journal"
        {
            echo "PRAGMA journal_mode=$mode; PRAGMA synchronous=FULL;"
            echo 'CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT); CREATE INDEX i ON t(text);'
            for number in $(seq 20); do
                echo "BEGIN; WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x<50)
                    INSERT INTO t(text) SELECT hex(x * $number * 7919) || printf('%.*c', x * 7, 'x') FROM n; COMMIT;"
            done
            echo "UPDATE t SET text = text || 'y' WHERE id % 7 = 0; DELETE FROM t WHERE id % 11 = 0;"
            [ $mode = off ] || echo 'BEGIN; DELETE FROM t; ROLLBACK;'
            echo 'VACUUM;'
        } | sqlite3 "$mode.db"
    done
}
check() {
    for mode in $modes; do
        sqlite3 "$mode.db" 'PRAGMA integrity_check; SELECT count(*), sum(length(text)), sum(id) FROM t;'
    done
}
again() {
    # What a kill left must be readable where the mode survives a crash.
    for mode in delete truncate persist wal; do
        [ ! -e "$mode.db" ] || [ "$(sqlite3 "$mode.db" 'PRAGMA integrity_check')" = ok ]
    done
    run > /dev/null
}
"$1"
