/* libnearhead_wal: a write-ahead log for any program, as a stream of bytes or as records.
 *
 * What `sync`, `append` with durable, `truncate` and `close` have returned 0 for survives a power cut. docs/wal.md
 * says what is guaranteed. Compile with: cc program.c $(pkg-config --cflags --libs nearhead_wal)
 *
 * Every function returns 0 or one of enum nearhead_code, which it also puts into *error with a message for people,
 * if error is not NULL. Pointers named as results may be NULL where nobody wants them, but for the handle of `open`
 * and for *read. After NEARHEAD_IO or NEARHEAD_STOPPED nothing is retried: close, open again, and go on from what is there.
 *
 * Threads: any number may use one log, or one stream (they wait for each other). Nobody may use a handle that is being
 * closed. fork: in a child every call on a handle of the parent's fails with NEARHEAD_STOPPED and changes nothing, also
 * closing it; a child opens its own. Nothing here raises signals or ends the program.
 */
#ifndef NEARHEAD_WAL_H
#define NEARHEAD_WAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nearhead_code {
    NEARHEAD_OK = 0,
    NEARHEAD_NOT_FOUND = 1,
    NEARHEAD_ALREADY_EXISTS = 2,
    NEARHEAD_IN_USE = 3,          /* by another writer */
    NEARHEAD_READ_ONLY = 4,
    NEARHEAD_PERMISSION = 5,
    NEARHEAD_NO_SPACE = 6,        /* make room, then go on */
    NEARHEAD_FULL = 7,            /* the log has all its segments in use: truncate its prefix, then go on */
    NEARHEAD_WOULD_BLOCK = 8,
    NEARHEAD_OUT_OF_RANGE = 9,    /* also: a pointer or option that this header forbids */
    NEARHEAD_NOT_A_LOG = 10,
    NEARHEAD_SEGMENT_MISSING = 11,
    NEARHEAD_CORRUPT = 12,
    NEARHEAD_TRUNCATED = 13,
    NEARHEAD_IO = 14,
    NEARHEAD_STOPPED = 15,        /* by an earlier error */
    NEARHEAD_INTERNAL = 100       /* a bug of the library */
};

#define NEARHEAD_MESSAGE_BYTES 512

typedef struct nearhead_error {
    int code;
    char message[NEARHEAD_MESSAGE_BYTES]; /* what, where, expected, found, what to do; "" without an error */
} nearhead_error;

/* Who makes the writes. */
enum nearhead_mode {
    NEARHEAD_MODE_THREAD = 0,     /* a thread of the library, real-time I/O class if permitted: the default */
    NEARHEAD_MODE_REQUEST = 1,    /* whoever waits, each request with a priority of its own */
    NEARHEAD_MODE_CALLER = 2,     /* whoever waits: the least overhead */
    NEARHEAD_MODE_PROCESS = 3     /* a helper process: nearhead-wal-helper, or what NEARHEAD_WAL_HELPER names */
};

/* Frees a line that `choice` gave. */
void nearhead_free_text(char *text);

/* -- A stream: write at the tail, sync, ask for the position -- */

typedef struct nearhead_stream nearhead_stream;

enum nearhead_at {
    NEARHEAD_AT_NEW = 0,          /* in a new file, which must not exist */
    NEARHEAD_AT_END = 1,          /* at the end of one that exists */
    NEARHEAD_AT_POSITION = 2,     /* at `position` of one that exists; the rest is cut off */
    NEARHEAD_AT_EMPTIED = 3,      /* in an empty file, new or cut to nothing */
    NEARHEAD_AT_END_OR_NEW = 4
};

/* Zeros mean the defaults. */
typedef struct nearhead_stream_options {
    uint32_t mode;                /* enum nearhead_mode */
    uint32_t permissions;         /* of a new file; 0666, less the umask */
    uint64_t ahead_bytes;         /* zeros written ahead of the content; 8 MiB */
    uint64_t buffer_bytes;        /* memory for what is not written yet; 1 MiB */
} nearhead_stream_options;

int nearhead_stream_open(const char *path, uint32_t at, uint64_t position, const nearhead_stream_options *options,
                         nearhead_stream **stream, nearhead_error *error);
int nearhead_stream_write(nearhead_stream *stream, const void *bytes, size_t len, nearhead_error *error);
int nearhead_stream_sync(nearhead_stream *stream, uint64_t *durable, nearhead_error *error);
int nearhead_stream_position(nearhead_stream *stream, uint64_t *position, uint64_t *durable, nearhead_error *error);
int nearhead_stream_read(nearhead_stream *stream, uint64_t offset, void *memory, size_t len, size_t *read,
                         nearhead_error *error);
int nearhead_stream_truncate(nearhead_stream *stream, uint64_t len, nearhead_error *error);
int nearhead_stream_choice(nearhead_stream *stream, char **line, nearhead_error *error);
/* Makes everything durable and cuts the zeros behind it off. The stream is gone whatever this returns. */
int nearhead_stream_close(nearhead_stream *stream, uint64_t *len, nearhead_error *error);

/* -- A log: records with numbers, from 1 on, in a directory of its own -- */

typedef struct nearhead_log nearhead_log;

/* Zeros mean the defaults. */
typedef struct nearhead_log_options {
    uint32_t mode;                /* enum nearhead_mode */
    uint32_t must_exist;          /* 1: a log that is not there is not made */
    uint32_t segment_bytes;       /* 16 MiB */
    uint32_t record_bytes_max;    /* 1 MiB; must fit into a segment, also of a log that exists */
    uint32_t segments_max;        /* 256 */
} nearhead_log_options;

/* Gets one record, which is valid during the call. Anything but 0 ends the reading. Must not use the log. */
typedef int (*nearhead_record_function)(uint64_t lsn, const void *record, size_t len, void *context);

int nearhead_log_open(const char *path, const nearhead_log_options *options, nearhead_log **log, nearhead_error *error);
int nearhead_log_append(nearhead_log *log, const void *record, size_t len, int durable, uint64_t *lsn,
                        nearhead_error *error);
int nearhead_log_sync(nearhead_log *log, uint64_t *next, nearhead_error *error);
int nearhead_log_bounds(nearhead_log *log, uint64_t *first, uint64_t *next, uint64_t *durable_next,
                        nearhead_error *error);
int nearhead_log_read(nearhead_log *log, uint64_t from, nearhead_record_function function, void *context,
                      nearhead_error *error);
int nearhead_log_truncate_prefix(nearhead_log *log, uint64_t lsn, nearhead_error *error);
int nearhead_log_choice(nearhead_log *log, char **line, nearhead_error *error);
/* Makes everything durable. The log is gone whatever this returns. */
int nearhead_log_close(nearhead_log *log, nearhead_error *error);

#ifdef __cplusplus
}
#endif

#endif
