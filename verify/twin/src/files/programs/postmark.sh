# Postmark: many small files made, read, appended to and removed. Counts and bytes of its report are compared; it leaves no file.
set -e
run() {
    mkdir -p mail
    printf 'set location mail\nset number 300\nset transactions 1500\nset size 100 20000\nset seed 42\nset subdirectories 5\nset report terse\nrun\nquit\n' > "$STATE/postmark.in"
    postmark < "$STATE/postmark.in" > "$STATE/postmark.out"
    grep '^[0-9]' "$STATE/postmark.out" | cut -d ' ' -f 12-
}
check() { find mail | LC_ALL=C sort; }
again() { rm -rf mail; run > /dev/null; }
"$1"
