# MariaDB with a binary log that every commit syncs; rows and binary log must agree.
set -e
socket=$STATE/mariadb.sock
base="--no-defaults --datadir=$PWD/data --socket=$socket --pid-file=$STATE/mariadb.pid --skip-networking --user=root
    --log-bin=$PWD/data/binlog --sync-binlog=1 --server-id=1 --innodb-flush-log-at-trx-commit=1
    --innodb-buffer-pool-size=16M --innodb-log-file-size=8M --log-error=$STATE/mariadb.log"
ask() { mariadb --no-defaults --socket="$socket" --user=root --batch --skip-column-names -e "$1" twin; }
start() {
    [ ! -s "$STATE/mariadb.pid" ] || kill -KILL "$(cat "$STATE/mariadb.pid")" 2> /dev/null || true
    rm -f "$STATE/mariadb.pid" "$socket"
    # shellcheck disable=SC2086
    setsid mariadbd $base > /dev/null 2>&1 &
    for _ in $(seq 600); do
        mariadb-admin --no-defaults --socket="$socket" --user=root --silent ping 2> /dev/null && return
        sleep 0.1
    done
    tail -n 5 "$STATE/mariadb.log"
    exit 1
}
stop() {
    mariadb-admin --no-defaults --socket="$socket" --user=root shutdown
    while [ -e "$STATE/mariadb.pid" ]; do sleep 0.05; done
}
run() {
    mariadb-install-db --no-defaults --datadir="$PWD/data" --user=root --auth-root-authentication-method=normal \
        --skip-test-db --innodb-log-file-size=8M --innodb-buffer-pool-size=16M > "$STATE/install.log" 2>&1
    start
    mariadb --no-defaults --socket="$socket" --user=root -e 'create database twin'
    ask 'create table acked (number int primary key, text mediumtext)'
    for number in $(seq 40); do
        ask "insert into acked values ($number, repeat('x', $number * 500))"
        echo "$number" >> "$STATE/acked"
    done
    stop
}
check() {
    start
    ask 'select count(*), sum(number), sum(length(text)) from acked'
    ask 'check table acked extended'
    mariadb-binlog --no-defaults data/binlog.0* | grep -c '^insert into acked'
    stop
}
again() {
    [ -s "$STATE/acked" ] || { echo none; exit 0; }
    start
    last=$(tail -n 1 "$STATE/acked")
    found=$(ask "select count(*) from acked where number <= $last")
    [ "$found" = "$last" ] || { echo "expected $last rows, found $found"; exit 1; }
    stop
}
"$1"
