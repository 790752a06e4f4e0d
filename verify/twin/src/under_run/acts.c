/* Acts of odd programs on a log file; each prints what it sees. Compared plain and under `nearhead run`.
 *
 *   acts FOLDER ACT
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char p[4096], q[4096];
static int fd;

static void w(int fd, const char *s)
{
    ssize_t n = write(fd, s, strlen(s));
    if (n != (ssize_t)strlen(s))
        printf("write %zd %s\n", n, strerror(errno));
}

static void st(const char *what, const char *path)
{
    struct stat s;
    if (stat(path, &s))
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s size %lld nlink %d\n", what, (long long)s.st_size, (int)s.st_nlink);
}

static void cat(const char *path)
{
    int fd = open(path, O_RDONLY);
    char b[4096];
    ssize_t n;
    long long z = 0, t = 0;
    printf("cat:");
    while (fd >= 0 && (n = read(fd, b, 4096)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (b[i])
                putchar(b[i] == '\n' ? '|' : b[i]);
            else
                z++;
        }
        t += n;
    }
    printf(" (%lld bytes, %lld zeros)\n", t, z);
    if (fd >= 0)
        close(fd);
}

static void sh(const char *format)
{
    char c[9000];
    snprintf(c, sizeof c, format, p, p, p);
    fflush(stdout);
    printf("system -> %d\n", system(c));
}

static int opened(const char *path, int flags)
{
    return open(path, O_CREAT | flags, 0644);
}

static void act_rename_over(void)
{
    fd=opened(p, O_WRONLY|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    int g=opened(q, O_WRONLY|O_APPEND);
    w(g, "two\n");
    fdatasync(g);
    rename(q, p);
    st("p", p);
    w(g, "three\n");
    w(fd, "lost\n");
    fdatasync(g);
    fsync(fd);
    cat(p);
    close(fd);
    close(g);
    cat(p);
}

static void act_rotate(void)
{
    for(int i=0;i<5;i++) {
        fd=opened(p, O_WRONLY|O_APPEND);
        w(fd, "a\n");
        fdatasync(fd);
        rename(p, q);
        w(fd, "b\n");
        fdatasync(fd);
        close(fd);
        cat(q);
    }
}

static void act_truncate_path(void)
{
    fd=opened(p, O_WRONLY|O_APPEND);
    w(fd, "0123456789\n");
    fdatasync(fd);
    printf("t %d\n", truncate(p, 4));
    st("p", p);
    w(fd, "AB\n");
    fdatasync(fd);
    cat(p);
    close(fd);
    cat(p);
}

static void act_unlink(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "x\n");
    fdatasync(fd);
    unlink(p);
    w(fd, "y\n");
    fdatasync(fd);
    struct stat s;
    fstat(fd, &s);
    printf("%lld nlink %d\n", (long long)s.st_size, (int)s.st_nlink);
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "new\n");
    fdatasync(fd);
    cat(p);
}

static void act_prealloc(void)
{
    fd=opened(p, O_RDWR);
    printf("fa %d\n", posix_fallocate(fd, 0, 1<<20));
    w(fd, "hello\n");
    fdatasync(fd);
    st("p", p);
    w(fd, "again\n");
    fdatasync(fd);
    ftruncate(fd, 12);
    close(fd);
    cat(p);
}

static void act_keepsize(void)
{
    fd=opened(p, O_RDWR);
    printf("fa %d\n", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1<<20));
    w(fd, "hello\n");
    fdatasync(fd);
    st("p", p);
    w(fd, "again\n");
    fdatasync(fd);
    st("p", p);
    close(fd);
    cat(p);
}

static void act_mmap(void)
{
    fd=opened(p, O_RDWR);
    w(fd, "hello world\n");
    fdatasync(fd);
    char*m=mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, fd, 0);
    printf("%.5s\n", m);
    memcpy(m, "HELLO", 5);
    msync(m, 4096, MS_SYNC);
    w(fd, "more\n");
    fdatasync(fd);
    printf("%.17s", m);
    close(fd);
    cat(p);
}

static void act_twice(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    int g=open(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    w(g, "two\n");
    w(fd, "three\n");
    fdatasync(g);
    cat(p);
    int h=open(p, O_WRONLY);
    w(h, "ONE");
    fdatasync(h);
    close(h);
    w(fd, "four\n");
    close(fd);
    close(g);
    cat(p);
}

static void act_trunc_open(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "oneoneone\n");
    fdatasync(fd);
    int g=open(p, O_WRONLY|O_TRUNC);
    st("p", p);
    w(fd, "two\n");
    fdatasync(fd);
    close(g);
    cat(p);
    close(fd);
    cat(p);
}

static void act_fork(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "parent\n");
    fdatasync(fd);
    fflush(stdout);
    if(!fork()) {
        w(fd, "child\n");
        fdatasync(fd);
        _exit(0);
    }
    wait(0);
    w(fd, "parent2\n");
    fdatasync(fd);
    cat(p);
    close(fd);
    cat(p);
}

static void act_fork_cloexec(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "parent\n");
    fdatasync(fd);
    fflush(stdout);
    if(!fork()) {
        w(fd, "child\n");
        fdatasync(fd);
        _exit(0);
    }
    wait(0);
    w(fd, "parent2\n");
    fdatasync(fd);
    cat(p);
    close(fd);
    cat(p);
}

static void act_fork_cloexec_read(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "parent unsynced\n");
    fflush(stdout);
    if(!fork()) {
        cat(p);
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    cat(p);
    close(fd);
    cat(p);
}

static void act_external(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "a\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    sh("wc -c < %s; sha1sum < %s >/dev/null");
    w(fd, "b\n");
    fdatasync(fd);
    sh("wc -c < %s");
    close(fd);
    sh("wc -c < %s");
}

static void act_external_append(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "a\n");
    fdatasync(fd);
    sh("echo from-shell >> %s");
    w(fd, "b\n");
    fdatasync(fd);
    close(fd);
    cat(p);
}

static void act_external_trunc(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "aaaaaaaaaaaaaaaaa\n");
    fdatasync(fd);
    sh(": > %s");
    w(fd, "b\n");
    fdatasync(fd);
    close(fd);
    cat(p);
}

static void act_external_mv(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "a\n");
    fdatasync(fd);
    sh("mv %s %s.1");
    w(fd, "b\n");
    fdatasync(fd);
    int g=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(g, "c\n");
    fdatasync(g);
    close(fd);
    close(g);
    strcat(p, ".1");
    cat(p);
    p[strlen(p)-2]=0;
    cat(p);
    strcat(p, ".1");
    unlink(p);
}

static void act_odirect(void)
{
    fd=opened(p, O_RDWR|O_DIRECT|O_DSYNC);
    void*b;
    posix_memalign(&b, 4096, 4096);
    memset(b, 'z', 4096);
    for(int i=0;i<3;i++)printf("%zd\n", write(fd, b, 4096));
    errno=0;
    printf("unaligned %zd %s\n", write(fd, "abc", 3), strerror(errno));
    printf("%zd\n", pwrite(fd, b, 4096, 0));
    st("p", p);
    close(fd);
    st("p", p);
}

static void act_stdio(void)
{
    FILE*f=fopen(p, "a");
    fprintf(f, "one\n");
    fflush(f);
    fdatasync(fileno(f));
    fprintf(f, "two\n");
    fflush(f);
    cat(p);
    fclose(f);
    cat(p);
}

static void act_fdopen(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "raw\n");
    fdatasync(fd);
    FILE*f=fdopen(fd, "a");
    fprintf(f, "buffered\n");
    fflush(f);
    fsync(fd);
    fclose(f);
    cat(p);
}

static void act_dup2(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "raw\n");
    fdatasync(fd);
    int g=dup(fd);
    close(fd);
    w(g, "dup\n");
    dup2(g, 77);
    close(g);
    w(77, "77\n");
    fdatasync(77);
    cat(p);
    close(77);
    cat(p);
}

static void act_execchild(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    char b[200];
    snprintf(b, 200, "echo inherited >&%d", fd);
    fflush(stdout);
    printf("%d\n", system(b));
    w(fd, "after\n");
    fdatasync(fd);
    close(fd);
    cat(p);
}

static void act_exec_execl(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    execl("/bin/cat", "cat", p, NULL);
}

static void act_exec_execv(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    char*a[]={"cat", p, NULL};
    execv("/bin/cat", a);
}

static void act_abort(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    abort();
}

static void act_segv(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    *(volatile int *)0=1;
}

static void act_sigterm(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "unsynced\n");
    raise(SIGTERM);
}

static void act_lseekend(void)
{
    fd=opened(p, O_RDWR);
    w(fd, "one\n");
    fdatasync(fd);
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_END));
    w(fd, "two\n");
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    lseek(fd, 1, SEEK_SET);
    char b[10]={0};
    printf("%zd %s", read(fd, b, 9), b);
    close(fd);
    cat(p);
}

static void act_syncfs(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    printf("syncfs %d\n", syncfs(fd));
    fflush(stdout);
    kill(getpid(), 9);
}

static void act_sync(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    sync();
    fflush(stdout);
    kill(getpid(), 9);
}

static void act_sync_file_range(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    printf("sfr %d\n", sync_file_range(fd, 0, 0, 7));
    fflush(stdout);
    kill(getpid(), 9);
}

static void act_kill_synced(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    fdatasync(fd);
    fflush(stdout);
    kill(getpid(), 9);
}

static void act_opath_proc(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    char b[64];
    snprintf(b, 64, "/proc/self/fd/%d", fd);
    cat(b);
    int g=open(b, O_WRONLY|O_APPEND);
    w(g, "three\n");
    fdatasync(g);
    cat(p);
    close(g);
    close(fd);
    cat(p);
}

static void act_hardlink(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    link(p, q);
    w(fd, "two\n");
    cat(q);
    int g=open(q, O_WRONLY|O_APPEND);
    w(g, "three\n");
    fdatasync(g);
    cat(q);
    close(g);
    close(fd);
    cat(p);
}

static void act_statx(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    struct statx sx;
    statx(AT_FDCWD, p, 0, STATX_SIZE, &sx);
    printf("statx %lld\n", (long long)sx.stx_size);
    statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &sx);
    printf("statx %lld\n", (long long)sx.stx_size);
    struct stat s;
    fstatat(AT_FDCWD, p, &s, 0);
    printf("fstatat %lld\n", (long long)s.st_size);
    close(fd);
}

static void act_readlen(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    int g=open(p, O_RDONLY);
    char b[100];
    printf("%zd\n", read(g, b, 100));
    w(fd, "two\n");
    printf("%zd\n", read(g, b, 100));
    printf("%zd\n", pread(g, b, 100, 6));
    struct iovec i={b, 100};
    printf("%zd\n", preadv(g, &i, 1, 0));
    close(fd);
    printf("%zd\n", pread(g, b, 100, 0));
}

static void act_copyfr(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    int g=opened(q, O_RDWR);
    loff_t o=0;
    printf("cfr %zd\n", copy_file_range(fd, &o, g, NULL, 1<<20, 0));
    cat(q);
    close(fd);
    close(g);
}

static void act_flock(void)
{
    fd=opened(p, O_RDWR|O_APPEND);
    w(fd, "one\n");
    fdatasync(fd);
    struct flock l={.l_type=F_WRLCK};
    printf("setlk %d\n", fcntl(fd, F_SETLK, &l));
    fflush(stdout);
    if(!fork()) {
        int g=open(p, O_RDWR);
        printf("child setlk %d\n", fcntl(g, F_SETLK, &l));
        l.l_type=F_WRLCK;
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    close(fd);
    cat(p);
}

static void act_ofd(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "one\n");
    fdatasync(fd);
    struct flock l={.l_type=F_WRLCK};
    printf("ofd setlk %d\n", fcntl(fd, F_OFD_SETLK, &l));
    int g=open(p, O_RDWR);
    l.l_pid=0;
    l.l_type=F_WRLCK;
    printf("second %d\n", fcntl(g, F_OFD_SETLK, &l));
}

static void act_close_range(void)
{
    fd=opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    w(fd, "one\n");
    fdatasync(fd);
    w(fd, "two\n");
    close_range(fd, ~0u, 0);
    cat(p);
}

static void act_locked(void)
{
    struct flock l = {.l_type = F_WRLCK};
    fd = opened(p, O_RDWR|O_APPEND|O_CLOEXEC);
    printf("lock %d\n", fcntl(fd, F_SETLK, &l));
    for (int i = 0; i < 3; i++) {
        w(fd, "abc\n");
        fdatasync(fd);
        fflush(stdout);
        if (!fork()) {
            int g = open(p, O_RDWR);
            l.l_type = F_WRLCK;
            printf("other %d\n", fcntl(g, F_SETLK, &l));
            fflush(stdout);
            _exit(0);
        }
        wait(0);
    }
}

static void act_copytruncate(void)
{
    fd = opened(p, O_WRONLY|O_APPEND|O_CLOEXEC);
    for (int i = 0; i < 4; i++) {
        w(fd, "line\n");
        fdatasync(fd);
        w(fd, "not synced\n");
        sh("cp %s %s.1 && : > %s");
    }
    w(fd, "end\n");
    close(fd);
    cat(p);
}

/* Overwrites a file that is there already, as databases do with segments. */
static void act_overwrite(void)
{
    char block[8192];
    memset(block, 0, sizeof block);
    fd = opened(p, O_RDWR);
    for (int i = 0; i < 16; i++)
        w(fd, "00000000");
    for (int i = 0; i < 32; i++)
        if (pwrite(fd, block, sizeof block, 8192L * i) != sizeof block)
            printf("short\n");
    fsync(fd);
    for (int i = 0; i < 20; i++) {
        memset(block, 'a' + i, sizeof block);
        printf("%zd", pwrite(fd, block, sizeof block, 8192L * (i % 7)));
        printf(" %d\n", fdatasync(fd));
    }
    st("p", p);
    raise(SIGKILL);
}

/* Appends; another process compares what it reads. */
static void act_append(void)
{
    char line[64];
    fd = opened(p, O_WRONLY|O_APPEND);
    for (int i = 1; i <= 400; i++) {
        snprintf(line, sizeof line, "line %d of the log\n", i);
        w(fd, line);
        if (i % 3 == 0)
            fdatasync(fd);
    }
}

static const struct {
    const char *name;
    void (*act)(void);
} acts[] = {
    {"rename_over", act_rename_over},
    {"rotate", act_rotate},
    {"truncate_path", act_truncate_path},
    {"unlink", act_unlink},
    {"prealloc", act_prealloc},
    {"keepsize", act_keepsize},
    {"mmap", act_mmap},
    {"twice", act_twice},
    {"trunc_open", act_trunc_open},
    {"fork", act_fork},
    {"fork_cloexec", act_fork_cloexec},
    {"fork_cloexec_read", act_fork_cloexec_read},
    {"external", act_external},
    {"external_append", act_external_append},
    {"external_trunc", act_external_trunc},
    {"external_mv", act_external_mv},
    {"odirect", act_odirect},
    {"stdio", act_stdio},
    {"fdopen", act_fdopen},
    {"dup2", act_dup2},
    {"execchild", act_execchild},
    {"exec_execl", act_exec_execl},
    {"exec_execv", act_exec_execv},
    {"abort", act_abort},
    {"segv", act_segv},
    {"sigterm", act_sigterm},
    {"lseekend", act_lseekend},
    {"syncfs", act_syncfs},
    {"sync", act_sync},
    {"sync_file_range", act_sync_file_range},
    {"kill_synced", act_kill_synced},
    {"opath_proc", act_opath_proc},
    {"hardlink", act_hardlink},
    {"statx", act_statx},
    {"readlen", act_readlen},
    {"copyfr", act_copyfr},
    {"flock", act_flock},
    {"ofd", act_ofd},
    {"close_range", act_close_range},
    {"locked", act_locked},
    {"copytruncate", act_copytruncate},
    {"overwrite", act_overwrite},
    {"append", act_append},
};

int main(int count, char **words)
{
    if (count == 1)
        for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
            puts(acts[i].name);
    if (count != 3)
        return count != 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(p, sizeof p, "%s/x.wal", words[1]);
    snprintf(q, sizeof q, "%s/y.wal", words[1]);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(acts[i].name, words[2])) {
            acts[i].act();
            return 0;
        }
    return 2;
}
