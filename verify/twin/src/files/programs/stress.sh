# stress-ng: each of its file-system stressors alone, with its own verification. Prints those that fail.
set -e
stressors='access acl aiol chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dup eventfd fallocate fcntl
    fiemap file-ioctl filename filerace flock fpunch fsize fstat getdent hdd inode-flags inotify iomix io-uring lease link
    locka lockf lockofd metamix mknod mmap msync open open-hog readahead rename revio seek sendfile splice
    symlink sync-file sync touch unlink utime verity xattr'
run() {
    for stressor in ${STRESSORS:-$stressors}; do
        code=0
        timeout 60 stress-ng --"$stressor" 1 --timeout 2s --temp-path "$PWD" --verify > "$STATE/stress.log" 2>&1 || code=$?
        grep -q 'unrecognized option\|Unknown option' "$STATE/stress.log" && continue
        echo "$stressor: $code"
        [ $code = 0 ] || sed -n 's/^.*fail: *\[[0-9]*\] */    /p' "$STATE/stress.log" | LC_ALL=C sort -u | head -n 3
    done
}
check() { find . ! -name lost+found | LC_ALL=C sort; }
again() { :; }
"$1"
