# git: commits, branches, a merge, packing and a clone; fsck finds nothing.
set -e
export GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
run() {
    rm -rf work clone.git
    git init -q -b main work
    cd work
    git config core.fsync all
    git config core.fsyncMethod fsync
    cp -r "$SOURCE/." .
    git add -A && git commit -q -m one
    git checkout -q -b side && echo side > side && git add side && git commit -q -m side
    git checkout -q main && cp -r "$SOURCE.changed/." . && git add -A && git commit -q -m two
    git merge -q -m merge side
    git gc -q --prune=now
    git log --format='%H %s'
    git status --porcelain
    cd .. && git clone -q --bare work clone.git
}
check() {
    git -C work fsck --full --strict 2>&1
    git -C clone.git fsck --full --strict 2>&1
    git -C work status --porcelain
    git -C work rev-parse HEAD 'HEAD^{tree}'
}
again() { run > /dev/null; }
"$1"
