# Redis with an append-only file that every write syncs, and a rewrite of it.
set -e
socket=$STATE/redis.sock
ask() { redis-cli -s "$socket" "$@"; }
start() {
    [ ! -s "$STATE/redis.pid" ] || kill -KILL "$(cat "$STATE/redis.pid")" 2> /dev/null || true
    rm -f "$socket" "$STATE/redis.pid"
    redis-server --port 0 --unixsocket "$socket" --dir "$PWD/redis" --appendonly yes --appendfsync always \
        --aof-use-rdb-preamble no --save '' --daemonize yes --pidfile "$STATE/redis.pid" --logfile "$STATE/redis.log" > /dev/null
    for _ in $(seq 300); do
        [ "$(ask ping 2> /dev/null)" = PONG ] && return
        sleep 0.1
    done
    tail -n 5 "$STATE/redis.log"
    exit 1
}
stop() {
    ask shutdown > /dev/null 2>&1 || true
    while [ -e "$STATE/redis.pid" ]; do sleep 0.05; done
}
run() {
    mkdir -p redis
    start
    for number in $(seq 40); do
        ask set "key$number" "value$number" > /dev/null
        ask lpush list "$number" > /dev/null
        echo "$number" >> "$STATE/acked"
    done
    ask bgrewriteaof > /dev/null
    while [ "$(ask info persistence | grep -c 'aof_rewrite_in_progress:1\|aof_rewrite_scheduled:1')" != 0 ]; do sleep 0.05; done
    ask set after rewrite > /dev/null
    stop
}
check() {
    start
    ask dbsize
    ask llen list
    ask lrange list 0 -1 | cksum
    ask get key7
    stop
    for file in redis/appendonlydir/*.aof; do redis-check-aof "$file" | tail -n 1; done
}
again() {
    [ -s "$STATE/acked" ] || { echo none; exit 0; }
    start
    last=$(tail -n 1 "$STATE/acked")
    found=$(ask llen list)
    [ "$found" -ge "$last" ] || { echo "expected $last entries, found $found"; exit 1; }
    stop
}
"$1"
