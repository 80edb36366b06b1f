/*
 * A client of hotring's messages.
 *
 * A server that was started with `--fabric sockets,127.0.0.1:6400` listens for it, or over shared memory one with
 * `--fabric shm,unix:/run/messages`, where libfabric is installed. Each call is a request of 1 to 64
 * operations, which run in order, and ends within the client's limit. A write is done once, or its fate is told to be
 * unknown; it is never sent again after that.
 *
 * Any number of threads may call the functions at once. What is freed or closed must not be in use by another thread.
 *
 * Link with `-lhotring_client`, statically also with `-lpthread -ldl -lm`.
 */
#ifndef HOTRING_H
#define HOTRING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an operation or a call has ended. `hotring_text` explains each. */
typedef enum hotring_status {
    HOTRING_OK = 0,             /* it was done */
    HOTRING_ABSENT = 1,         /* the key is not there; nothing was done */
    HOTRING_CONFLICT = 2,       /* the key has another version; nothing was done */
    HOTRING_TIMED_OUT = 3,      /* the wait is over without the change */
    HOTRING_FAILED = 4,         /* the server refused it: see hotring_error; nothing was done */
    HOTRING_UNKNOWN = 5,        /* a write was done once, or will be, or never: read the key to know */
    HOTRING_DAMAGED = 6,        /* it was done, but its answer has a wrong checksum */
    HOTRING_LATE = 7,           /* the limit came first; nothing was done */
    HOTRING_DENIED = 8,         /* user or password are wrong; nothing was done */
    HOTRING_TOO_LONG = 9,       /* it does not fit into a message; nothing was done */
    HOTRING_MISUSED = 10,       /* no operation, too many, or a wait beside others; nothing was done */
    HOTRING_FULL = 11,          /* as many calls as the client may have are under way; nothing was done */
    HOTRING_NO_CONNECTION = 12, /* hotring_connect failed: see hotring_error */
    HOTRING_BAD_ARGUMENT = 13   /* a pointer is NULL, a text is not UTF-8, a code is none; nothing was done */
} hotring_status;

/* What a status means, for people. Never NULL, never freed. */
const char *hotring_text(int status);

/* Why the thread's last call failed, for people; empty if it did not. Valid until the thread's next call. */
const char *hotring_error(void);

/* ---- Clients ---------------------------------------------------------------------------------------------------- */

typedef struct hotring_client hotring_client;

/* 0 stands for each default. */
typedef struct hotring_options {
    uint64_t limit_ms;        /* how long a call may take, besides its own wait: 5,000 */
    uint64_t spin_us;         /* how long the client looks for answers before it sleeps: 0. A processor is busy then */
    uint32_t in_flight_max;   /* requests that are sent and not answered: 32 */
    uint32_t calls_max;       /* calls that have not ended: 65,536 */
    uint32_t message_len_max; /* bytes of the longest message, at most the server's `fabric-max-message`: 65,536 */
    uint32_t datagram_us;     /* over TCP, short answers may be datagrams, asked for again after so long: 0 for never */
} hotring_options;

/*
 * Connects to `HOST:PORT` or `unix:PATH`, or with a provider of libfabric as in `shm,unix:PATH`: write what the server's
 * `--fabric` has, without `sockets,`. `user` and `password` may be NULL: the default user, without a password.
 * `options` may be NULL: the defaults. The client connects again by itself when its connection breaks.
 */
int hotring_connect(const char *address, const char *user, const char *password, const hotring_options *options,
                    hotring_client **client);

/* Ends the client and the calls under way, and frees it. NULL is ignored. */
void hotring_close(hotring_client *client);

/* ---- One operation, which waits for its answer ------------------------------------------------------------------ */

/* A value. `data` has a zero byte behind it, which `len` does not count. */
typedef struct hotring_value {
    char *data;
    size_t len;
    uint64_t version; /* another value of the key has a greater one */
} hotring_value;

/* Frees what a call has put there, and makes it empty. */
void hotring_value_free(hotring_value *value);

/* Gets value and version. `value` is empty unless the status is HOTRING_OK. */
int hotring_get(hotring_client *client, const void *key, size_t key_len, hotring_value *value);

/* Writes a value, which expires after `expiry_ms`; 0 for never. */
int hotring_set(hotring_client *client, const void *key, size_t key_len, const void *value, size_t value_len,
                uint64_t expiry_ms);

/* Writes a value if the key is there, and keeps its expiry. */
int hotring_update(hotring_client *client, const void *key, size_t key_len, const void *value, size_t value_len);

/* Writes a value if the key has this version. */
int hotring_compare_and_set(hotring_client *client, const void *key, size_t key_len, const void *value,
                            size_t value_len, uint64_t version);

/* Removes a key. */
int hotring_delete(hotring_client *client, const void *key, size_t key_len);

/* Adds to a decimal number, 0 if the key is not there. `sum` may be NULL. */
int hotring_add(hotring_client *client, const void *key, size_t key_len, int64_t by, int64_t *sum);

/* Lets a key expire after `after_ms`. */
int hotring_expire(hotring_client *client, const void *key, size_t key_len, uint64_t after_ms);

/* Waits until the key is changed, at most for `wait_ms`: HOTRING_OK or HOTRING_TIMED_OUT. */
int hotring_wait(hotring_client *client, const void *key, size_t key_len, uint64_t wait_ms);

/* Waits until the key has this value, at most for `wait_ms`: HOTRING_OK or HOTRING_TIMED_OUT. */
int hotring_wait_for(hotring_client *client, const void *key, size_t key_len, const void *value, size_t value_len,
                     uint64_t wait_ms);

/* ---- Batches ---------------------------------------------------------------------------------------------------- */

enum {
    HOTRING_GET = 1,
    HOTRING_SET = 2,             /* value; number: milliseconds until it expires, 0 for never */
    HOTRING_UPDATE = 3,          /* value */
    HOTRING_DELETE = 4,
    HOTRING_ADD = 5,             /* number: what is added, a signed number */
    HOTRING_COMPARE_AND_SET = 6, /* value; number: the version */
    HOTRING_EXPIRE = 7,          /* number: milliseconds */
    HOTRING_WAIT = 8,            /* number: milliseconds; alone in its batch */
    HOTRING_WAIT_FOR = 9,        /* value; number: milliseconds; alone in its batch */
    HOTRING_HISTORY = 10,        /* number: how many earlier values at most */
    HOTRING_ROLLBACK = 11        /* number: the version of the earlier value */
};

typedef struct hotring_operation {
    uint64_t code;
    const void *key;
    size_t key_len;
    const void *value; /* NULL if the code has none */
    size_t value_len;
    uint64_t number;   /* 0 if the code has none */
} hotring_operation;

typedef struct hotring_answer {
    int64_t status;
    uint64_t version;
    const char *data; /* the value, the sum as a text, or why it failed; a zero byte follows */
    size_t len;
} hotring_answer;

/* The outcome of a batch. If `status` is HOTRING_OK, each operation has an answer, which has its own status. */
typedef struct hotring_result {
    int64_t status;
    void *tag;
    size_t count;
    const hotring_answer *answers;
} hotring_result;

/* Runs a batch and waits for its outcome. Returns its status; `result` is NULL if it could not be begun. */
int hotring_batch(hotring_client *client, const hotring_operation *operations, size_t count,
                  hotring_result **result);

/* Frees a result with its answers. NULL is ignored. */
void hotring_result_free(hotring_result *result);

/* ---- Calls that do not wait ------------------------------------------------------------------------------------- */

/* Outcomes that were not taken yet, of any number of clients. */
typedef struct hotring_queue hotring_queue;

hotring_queue *hotring_queue_new(void);

/* Frees a queue and what is in it. Outcomes that come later are dropped. NULL is ignored. */
void hotring_queue_free(hotring_queue *queue);

/* Begins a batch, whose outcome comes to the queue with this tag. Keys and values are copied. */
int hotring_submit(hotring_client *client, hotring_queue *queue, const hotring_operation *operations, size_t count,
                   void *tag);

/*
 * Takes at most `max` outcomes, the oldest first, and returns how many. Waits for the first at most for `wait_ms`: 0
 * to look only, -1 for as long as it takes. Each must be freed.
 */
size_t hotring_poll(hotring_queue *queue, hotring_result **results, size_t max, int64_t wait_ms);

#ifdef __cplusplus
}
#endif

#endif
