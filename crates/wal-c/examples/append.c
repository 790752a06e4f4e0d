/* Appends numbered records to a stream or a log and says of each that it is durable, until it is killed.
 *
 *   append stream FILE COUNT MODE     lines in a file
 *   append log DIRECTORY COUNT MODE   records
 *   append read DIRECTORY             the records of a log
 *
 * MODE is a number of enum nearhead_mode. The test of the C binding kills this program and looks for what it said.
 */
#include <nearhead_wal.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int code, const nearhead_error *error)
{
    if (code != 0) {
        fprintf(stderr, "append: error %d: %s\n", code, error->message);
        exit(1);
    }
}

static int line_of(char *line, size_t size, unsigned long number)
{
    return snprintf(line, size, "record %lu %0*d\n", number, (int)(number * 37 % 900 + 1), 0);
}

static void to_stream(const char *path, unsigned long count, unsigned mode)
{
    nearhead_error error;
    nearhead_stream *stream;
    nearhead_stream_options options = {.mode = mode, .ahead_bytes = 1 << 20};
    char *choice, line[1024];

    check(nearhead_stream_open(path, NEARHEAD_AT_EMPTIED, 0, &options, &stream, &error), &error);
    check(nearhead_stream_choice(stream, &choice, &error), &error);
    fprintf(stderr, "append: %s\n", choice);
    nearhead_free_text(choice);
    for (unsigned long number = 1; number <= count; number++) {
        uint64_t durable;
        int len = line_of(line, sizeof line, number);
        check(nearhead_stream_write(stream, line, (size_t)len, &error), &error);
        check(nearhead_stream_sync(stream, &durable, &error), &error);
        printf("acknowledged %lu %llu\n", number, (unsigned long long)durable);
        fflush(stdout);
    }
    check(nearhead_stream_close(stream, NULL, &error), &error);
}

static void to_log(const char *path, unsigned long count, unsigned mode)
{
    nearhead_error error;
    nearhead_log *log;
    nearhead_log_options options = {.mode = mode, .segment_bytes = 1 << 18, .record_bytes_max = 4096};
    char line[1024];
    uint64_t next;

    check(nearhead_log_open(path, &options, &log, &error), &error);
    check(nearhead_log_bounds(log, NULL, &next, NULL, &error), &error);
    for (unsigned long i = 0; i < count; i++) {
        uint64_t lsn;
        int len = line_of(line, sizeof line, next + i);
        check(nearhead_log_append(log, line, (size_t)len, 1, &lsn, &error), &error);
        printf("acknowledged %llu\n", (unsigned long long)lsn);
        fflush(stdout);
    }
    check(nearhead_log_close(log, &error), &error);
}

static int print(uint64_t lsn, const void *record, size_t len, void *context)
{
    (void)lsn;
    (void)context;
    return fwrite(record, 1, len, stdout) != len;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 10;
    unsigned mode = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : NEARHEAD_MODE_THREAD;

    if (argc > 2 && strcmp(argv[1], "stream") == 0) {
        to_stream(argv[2], count, mode);
    } else if (argc > 2 && strcmp(argv[1], "log") == 0) {
        to_log(argv[2], count, mode);
    } else if (argc > 2 && strcmp(argv[1], "read") == 0) {
        nearhead_error error;
        nearhead_log *log;
        nearhead_log_options options = {.must_exist = 1, .record_bytes_max = 4096};
        check(nearhead_log_open(argv[2], &options, &log, &error), &error);
        check(nearhead_log_read(log, 1, print, NULL, &error), &error);
        check(nearhead_log_close(log, &error), &error);
    } else {
        fprintf(stderr, "usage: append stream|log|read PATH [COUNT] [MODE]\n");
        return 2;
    }
    return 0;
}
