# cp -a of a tree and of its copy, compared by diff and by times.
set -e
run() {
    rm -rf copy second
    cp -a "$SOURCE" copy
    cp -a --sparse=always copy second
    cp -a --reflink=auto second/. second-again
}
check() {
    for folder in copy second second-again; do
        diff -r --exclude=pipe --no-dereference "$SOURCE" "$folder"
        (cd "$folder" && find . ! -type l -printf '%p %m %U %G %T@ %n\n' | LC_ALL=C sort | cksum)
    done
}
again() { run; }
"$1"
