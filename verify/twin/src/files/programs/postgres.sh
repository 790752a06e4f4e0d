# PostgreSQL: single commits, each noted in $STATE/acked once it was answered, and pgbench.
set -e
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH
export PGHOST="$STATE/sockets"
data=$PWD/data
as_user() { runuser -u postgres -- env PATH="$PATH" PGHOST="$PGHOST" sh -c "cd / && $1"; }
ask() { as_user "psql -qAtX -d postgres -c \"$1\""; }
start() {
    mkdir -p "$PGHOST" && chown postgres "$PGHOST"
    # A process that a kill of the daemon left behind holds the sockets.
    [ ! -s "$STATE/server.pid" ] || kill -QUIT "$(cat "$STATE/server.pid")" 2> /dev/null || true
    as_user "pg_ctl -D $data -l $PGHOST/log -t 60 -w -o '-c listen_addresses= -c unix_socket_directories=$PGHOST' start > /dev/null"
    head -n 1 "$data/postmaster.pid" > "$STATE/server.pid"
}
stop() { as_user "pg_ctl -D $data -w -m fast stop > /dev/null"; : > "$STATE/server.pid"; }
run() {
    mkdir -p data && chown postgres data && chmod 700 data
    as_user "initdb -D $data -A trust --no-instructions > /dev/null"
    start
    ask 'create table acked (number int primary key, text text)'
    for number in $(seq 40); do
        ask "insert into acked values ($number, repeat('x', $number * 50))"
        echo "$number" >> "$STATE/acked"
    done
    as_user 'pgbench -i -q -s 1 postgres 2> /dev/null'
    as_user 'pgbench -n -c 2 -t 50 postgres > /dev/null 2>&1'
    stop
}
check() {
    start
    ask 'select count(*), sum(number), sum(length(text)) from acked'
    ask 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'
    as_user 'pg_amcheck --all --install-missing > /dev/null 2>&1' && echo 'amcheck: nothing'
    stop
}
again() {
    # A kill before the cluster was made leaves nothing that was promised.
    [ -s "$STATE/acked" ] || { echo none; exit 0; }
    rm -f "$data/postmaster.pid"
    start
    last=$(tail -n 1 "$STATE/acked")
    found=$(ask "select count(*) from acked where number <= $last")
    [ "$found" = "$last" ] || { echo "expected $last rows, found $found"; exit 1; }
    stop
}
"$1"
