# tar, with and without incremental dumps (-g), which find changes by times and inode numbers.
set -e
run() {
    rm -rf tree restored snapshot first.tar second.tar plain.tar
    cp -a "$SOURCE" tree
    tar --create --file plain.tar --xattrs --acls --sparse tree
    tar --create --file first.tar --listed-incremental snapshot tree 2> /dev/null
    cp -a "$SOURCE.changed/." tree/
    rm -f tree/file-3
    mv tree/folder-1/file-2 tree/folder-2/moved
    tar --create --file second.tar --listed-incremental snapshot tree 2> /dev/null
    tar --list --file second.tar | LC_ALL=C sort
    mkdir restored
    tar --extract --file first.tar --listed-incremental /dev/null --directory restored
    tar --extract --file second.tar --listed-incremental /dev/null --directory restored
}
check() {
    tar --compare --file second.tar
    diff -r --exclude=pipe --no-dereference tree restored/tree
    tar --list --verbose --file plain.tar | cksum
}
again() { run > /dev/null; }
"$1"
