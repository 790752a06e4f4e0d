/* What the tests of `nearhead run` run, with and without it.
 *
 *   program append FILE COUNT FLAGS   lines, each synced and then acknowledged; FLAGS d: O_DSYNC, v: writev, p: pwrite
 *   program random FILE SEED          random operations on FILE, each with its outcome on standard output
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static int line_of(char *line, size_t size, unsigned long number)
{
    return snprintf(line, size, "record %lu %0*d\n", number, (int)(number * 37 % 900 + 1), 0);
}

static void append(const char *path, unsigned long count, const char *flags)
{
    int is_synchronous = strchr(flags, 'd') != NULL;
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | (is_synchronous ? O_DSYNC : 0), 0644);
    off_t at = 0;
    char line[1024], text[64];

    check(fd >= 0, path);
    for (unsigned long number = 1; number <= count; number++) {
        ssize_t len = line_of(line, sizeof line, number), written;
        if (strchr(flags, 'v')) {
            struct iovec parts[2] = {{line, 3}, {line + 3, (size_t)len - 3}};
            written = writev(fd, parts, 2);
        } else if (strchr(flags, 'p')) {
            written = pwrite(fd, line, (size_t)len, at);
        } else {
            written = write(fd, line, (size_t)len);
        }
        check(written == len, "write");
        check(is_synchronous || fdatasync(fd) == 0, "fdatasync");
        at += len;
        len = snprintf(text, sizeof text, "acknowledged %lu %lld\n", number, (long long)at);
        check(write(1, text, (size_t)len) == len, "acknowledge");
    }
    check(close(fd) == 0, "close");
}

static uint64_t state;

static uint64_t below(uint64_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
}

static char memory[70000];

static void tell(const char *what, long long outcome, size_t len)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + (unsigned char)memory[i];
    printf("%s %lld %llu\n", what, outcome, (unsigned long long)sum);
}

static size_t fill(void)
{
    size_t len = below(below(4) == 0 ? sizeof memory : 900);
    int byte = below(5) == 0 ? 0 : (int)below(256);
    memset(memory, byte, len);
    return len;
}

static void operate(int *fds, const char *path, int with_holes)
{
    int fd = fds[below(2)];
    struct stat status;
    size_t len;
    long long outcome;

    switch (below(with_holes ? 17 : 13)) {
    case 0:
    case 1:
    case 2:
        len = fill();
        tell("write", write(fd, memory, len), 0);
        break;
    case 3: {
        struct iovec parts[3] = {{memory, 100}, {memory + 200, 0}, {memory + 300, 77}};
        fill();
        tell("writev", writev(fd, parts, 3), 0);
        break;
    }
    case 4:
        len = fill();
        fstat(fd, &status);
        tell("pwrite at the end", pwrite(fd, memory, len, status.st_size), 0);
        break;
    case 5:
        tell("fsync", below(2) ? fsync(fd) : fdatasync(fd), 0);
        break;
    case 6:
        outcome = pread(fd, memory, below(sizeof memory), (off_t)below(100000));
        tell("pread", outcome, outcome > 0 ? (size_t)outcome : 0);
        break;
    case 7:
        outcome = read(fd, memory, below(5000));
        tell("read", outcome, outcome > 0 ? (size_t)outcome : 0);
        tell("seek to the end", lseek(fd, 0, SEEK_END), 0);
        break;
    case 8:
        tell("fstat", fstat(fd, &status) == 0 ? status.st_size : -1, 0);
        tell("stat", stat(path, &status) == 0 ? status.st_size : -1, 0);
        break;
    case 9: {
        int other = open(path, O_RDONLY);
        outcome = read(other, memory, sizeof memory);
        tell("read by another", outcome, outcome > 0 ? (size_t)outcome : 0);
        close(other);
        break;
    }
    case 10: {
        int other = dup(fd);
        len = fill();
        tell("write to a duplicate", write(other, memory, len), 0);
        close(other);
        break;
    }
    case 11: {
        int other = open(path, O_WRONLY | O_APPEND);
        len = fill();
        tell("append by another", write(other, memory, len), 0);
        close(other);
        tell("seek to the end", lseek(fd, 0, SEEK_END), 0);
        break;
    }
    case 12:
        fstat(fd, &status);
        tell("cut", ftruncate(fd, (off_t)below((uint64_t)status.st_size + 1)), 0);
        tell("seek to the end", lseek(fds[0], 0, SEEK_END), 0);
        tell("seek to the end", lseek(fds[1], 0, SEEK_END), 0);
        break;
    case 13:
        fstat(fd, &status);
        memset(memory, 0, 10);
        tell("pad", pwrite(fd, memory, 1, status.st_size + (off_t)below(100000)), 0);
        break;
    case 14:
        tell("extend", posix_fallocate(fd, 0, (off_t)below(200000) + 1), 0);
        break;
    case 15:
        len = fill();
        fstat(fd, &status);
        tell("leave a hole", pwrite(fd, memory, len, status.st_size + (off_t)below(9000)), 0);
        break;
    default:
        if (below(40) == 0) {
            len = fill();
            tell("overwrite", pwrite(fd, memory, len, (off_t)below(2000)), 0);
        } else if (below(40) == 0) {
            fstat(fd, &status);
            if (status.st_size > 0) {
                char *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
                memory[0] = at[status.st_size / 2];
                tell("map", 0, 1);
                munmap(at, (size_t)status.st_size);
            }
        } else if (below(40) == 0) {
            pid_t child = fork();
            int reply;
            if (child == 0)
                _exit(pread(fd, memory, 1, 0) == 1 ? 7 : 8);
            waitpid(child, &reply, 0);
            tell("fork", WIFEXITED(reply), 0);
        }
    }
}

static void operate_at_random(const char *path, unsigned long seed)
{
    int fds[2];
    state = seed;
    fds[0] = open(path, O_CREAT | O_RDWR, 0644);
    check(fds[0] >= 0, path);
    fds[1] = below(2) ? dup(fds[0]) : open(path, O_RDWR | (below(2) ? O_APPEND : 0));
    for (int round = 0; round < 150; round++)
        operate(fds, path, seed % 2 == 1);
    if (below(3) > 0)
        tell("close", close(fds[0]), 0);
    if (below(3) > 0)
        tell("close", close(fds[1]), 0);
    if (below(4) == 0) {
        fflush(stdout);
        _exit(0);
    }
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "append") == 0) {
        append(argv[2], strtoul(argv[3], NULL, 10), argv[4]);
    } else if (argc == 4 && strcmp(argv[1], "random") == 0) {
        operate_at_random(argv[2], strtoul(argv[3], NULL, 10));
    } else {
        fprintf(stderr, "usage: program append FILE COUNT FLAGS | random FILE SEED\n");
        return 2;
    }
    return 0;
}
