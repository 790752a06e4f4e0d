# rsync -a of a tree, of a changed tree over it, and with deletions. Its own dry run finds nothing left to do.
set -e
run() {
    rsync -aHAX "$SOURCE/" copy/
    rsync -aHAX "$SOURCE.changed/" copy/
    rsync -aHAX --delete --inplace "$SOURCE.changed/" in-place/
}
check() {
    rsync -aHAX --dry-run --itemize-changes --checksum --delete "$SOURCE.changed/" in-place/
    for folder in copy in-place; do
        rsync -aHAX --dry-run --itemize-changes --checksum "$SOURCE.changed/" "$folder/"
    done
}
again() { run; }
"$1"
