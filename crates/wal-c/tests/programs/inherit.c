/*
 * Opens a stream or a log, forks a child that does one thing with what it inherited, and goes on.
 *
 *   inherit stream|log PATH MODE exit|close|use|exec|_exit
 *
 * The child must end with status 0. The parent appends before, during and after.
 */
#define _GNU_SOURCE
#include <nearhead_wal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) do { \
    if ((call) != 0) { fprintf(stderr, "%s: %s\n", #call, error.message); return 1; } \
} while (0)
/* In the child: anything but the refusal that a child gets. */
#define REFUSED(call) do { \
    int code = (call); \
    if (code != NEARHEAD_STOPPED || !strstr(error.message, "parent")) { \
        fprintf(stderr, "%s: code %d, %s\n", #call, code, error.message); _exit(3); } \
} while (0)

static nearhead_error error;
static nearhead_stream *stream;
static nearhead_log *nlog;

/* As the finalizers of a language do when the program ends. */
static void close_at_exit(void)
{
    if (stream)
        nearhead_stream_close(stream, NULL, &error);
    if (nlog)
        nearhead_log_close(nlog, &error);
}

static void child(const char *act)
{
    uint64_t number;
    char *words[] = {"true", NULL};

    if (!strcmp(act, "use") && stream) {
        REFUSED(nearhead_stream_write(stream, "child", 5, &error));
        REFUSED(nearhead_stream_sync(stream, NULL, &error));
        REFUSED(nearhead_stream_truncate(stream, 0, &error));
    } else if (!strcmp(act, "use")) {
        REFUSED(nearhead_log_append(nlog, "child", 5, 0, &number, &error));
        REFUSED(nearhead_log_append(nlog, "child", 5, 1, &number, &error));
        REFUSED(nearhead_log_sync(nlog, NULL, &error));
        REFUSED(nearhead_log_bounds(nlog, &number, NULL, NULL, &error));
        REFUSED(nearhead_log_truncate_prefix(nlog, 1, &error));
    } else if (!strcmp(act, "close")) {
        if (stream)
            REFUSED(nearhead_stream_close(stream, NULL, &error));
        else
            REFUSED(nearhead_log_close(nlog, &error));
        stream = NULL;
        nlog = NULL;
    } else if (!strcmp(act, "exec")) {
        execvp("true", words);
        _exit(4);
    } else if (!strcmp(act, "_exit")) {
        _exit(0);
    }
    exit(0);
}

static int append(void)
{
    if (stream) {
        CHECK(nearhead_stream_write(stream, "parent\n", 7, &error));
        CHECK(nearhead_stream_sync(stream, NULL, &error));
    } else {
        CHECK(nearhead_log_append(nlog, "parent\n", 7, 1, NULL, &error));
    }
    return 0;
}

int main(int argc, char **argv)
{
    nearhead_stream_options of_stream = {0};
    nearhead_log_options of_log = {0};
    int status, number;
    pid_t pid;

    if (argc != 5)
        return 2;
    of_stream.mode = of_log.mode = (uint32_t)atoi(argv[3]);
    of_log.segment_bytes = 1 << 20;
    of_log.record_bytes_max = 1 << 16;
    if (!strcmp(argv[1], "stream"))
        CHECK(nearhead_stream_open(argv[2], 3, 0, &of_stream, &stream, &error));
    else
        CHECK(nearhead_log_open(argv[2], &of_log, &nlog, &error));
    atexit(close_at_exit);
    if (append())
        return 1;
    pid = fork();
    if (pid == 0) {
        alarm(60);
        child(argv[4]);
    }
    for (number = 0; number < 20; number++)
        if (append())
            return 1;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "the child ended with %x\n", status);
        return 1;
    }
    return append();
}
