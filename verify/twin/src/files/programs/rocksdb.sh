# RocksDB: db_bench with a synced write-ahead log, and ldb as checker.
set -e
bench() { db_bench --db="$PWD/rocks" --seed=7 --threads=1 --value_size=200 --key_size=16 --compression_type=none "$@" > "$STATE/bench.log" 2>&1; }
run() {
    mkdir -p rocks
    bench --benchmarks=fillrandom --num=3000 --write_buffer_size=65536
    bench --benchmarks=overwrite --num=3000 --write_buffer_size=65536 --use_existing_db=1
    bench --benchmarks=overwrite --num=200 --sync=1 --use_existing_db=1
    for number in $(seq 20); do
        ldb --db="$PWD/rocks" put "acked$number" "value$number" > /dev/null
        echo "$number" >> "$STATE/acked"
    done
}
check() {
    ldb --db="$PWD/rocks" checkconsistency
    ldb --db="$PWD/rocks" scan --no_value 2> /dev/null | LC_ALL=C sort | cksum
    ldb --db="$PWD/rocks" get acked7
}
again() {
    [ -s "$STATE/acked" ] || { echo none; exit 0; }
    ldb --db="$PWD/rocks" checkconsistency > /dev/null
}
"$1"
