# etcd: puts, each of which its log syncs; a snapshot and the defragmented database.
set -e
export ETCDCTL_API=3
# Sockets in the folder where it runs.
client=unix://client:1
peer=unix://peer:1
data=$PWD
ask() { (cd "$STATE" && etcdctl --endpoints="$client" "$@"); }
start() {
    [ ! -s "$STATE/etcd.pid" ] || kill -KILL "$(cat "$STATE/etcd.pid")" 2> /dev/null || true
    rm -f "$STATE/client:1" "$STATE/peer:1"
    cd "$STATE"
    setsid etcd --data-dir "$data/etcd" --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
        --initial-cluster "default=$peer" > "$STATE/etcd.log" 2>&1 &
    echo $! > "$STATE/etcd.pid"
    cd "$data"
    for _ in $(seq 300); do
        ask endpoint health > /dev/null 2>&1 && return
        sleep 0.1
    done
    tail -n 5 "$STATE/etcd.log"
    exit 1
}
stop() {
    pid=$(cat "$STATE/etcd.pid")
    kill "$pid"
    while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done
    : > "$STATE/etcd.pid"
}
run() {
    start
    for number in $(seq 40); do
        ask put "key$number" "value$number" > /dev/null
        echo "$number" >> "$STATE/acked"
    done
    ask snapshot save "$data/snapshot.db" > /dev/null 2>&1
    stop
}
check() {
    start
    ask get --prefix key | cksum
    stop
    etcdctl snapshot status snapshot.db > /dev/null && echo whole
}
again() {
    [ -s "$STATE/acked" ] || { echo none; exit 0; }
    start
    last=$(tail -n 1 "$STATE/acked")
    found=$(ask get --prefix key --keys-only | grep -c '^key')
    [ "$found" -ge "$last" ] || { echo "expected $last keys, found $found"; exit 1; }
    stop
}
"$1"
