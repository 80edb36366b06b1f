/*
 * Writes, reads, counts with many threads, waits and polls. In the project's folder:
 *
 *     cargo build --release -p hotring-c
 *     cc -I crates/hotring-c/include crates/hotring-c/examples/hotring.c -o hotring-example \
 *         target/release/libhotring_client.a -lpthread -ldl -lm
 *     hotring serve --fabric sockets,127.0.0.1:6400 &
 *     ./hotring-example 127.0.0.1:6400 [USER PASSWORD]
 */
#include "hotring.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layouts that the library has. */
static_assert(sizeof(hotring_options) == 32, "hotring_options");
static_assert(sizeof(hotring_operation) == 48, "hotring_operation");
static_assert(sizeof(hotring_answer) == 32, "hotring_answer");
static_assert(sizeof(hotring_result) == 32, "hotring_result");
static_assert(sizeof(hotring_value) == 24, "hotring_value");

enum { THREADS = 4, STEPS = 1000, BATCHES = 100 };

static hotring_client *client;

/* Ends the program if a call has not ended as it must. */
static void check(const char *what, int status, int expected) {
    if (status != expected) {
        fprintf(stderr, "%s: %s (%s), expected: %s\n", what, hotring_text(status), hotring_error(),
                hotring_text(expected));
        exit(1);
    }
}

static void check_number(const char *what, int64_t number, int64_t expected) {
    if (number != expected) {
        fprintf(stderr, "%s: %" PRId64 ", expected %" PRId64 "\n", what, number, expected);
        exit(1);
    }
}

static void *count(void *unused) {
    for (int step = 0; step < STEPS; step++) {
        check("add", hotring_add(client, "c:count", 7, 1, NULL), HOTRING_OK);
    }
    return unused;
}

static void *change(void *unused) {
    check("set", hotring_set(client, "c:awaited", 9, "now", 3, 0), HOTRING_OK);
    return unused;
}

static void one_operation(void) {
    hotring_value value;
    check("set", hotring_set(client, "c:key", 5, "hello", 5, 60000), HOTRING_OK);
    check("get", hotring_get(client, "c:key", 5, &value), HOTRING_OK);
    printf("c:key is %s, version %" PRIu64 "\n", value.data, value.version);
    check_number("length", (int64_t)value.len, 5);
    check("swap", hotring_compare_and_set(client, "c:key", 5, "bye", 3, value.version), HOTRING_OK);
    check("swap", hotring_compare_and_set(client, "c:key", 5, "x", 1, value.version), HOTRING_CONFLICT);
    hotring_value_free(&value);
    check("update", hotring_update(client, "c:none", 6, "x", 1), HOTRING_ABSENT);
    check("expire", hotring_expire(client, "c:key", 5, 1000), HOTRING_OK);
    check("delete", hotring_delete(client, "c:key", 5), HOTRING_OK);
    check("get", hotring_get(client, "c:key", 5, &value), HOTRING_ABSENT);
    check("get", hotring_get(NULL, "c:key", 5, &value), HOTRING_BAD_ARGUMENT);
    check("get", hotring_get(client, NULL, 5, &value), HOTRING_BAD_ARGUMENT);
    check("set", hotring_set(client, "c:text", 6, "text", 4, 0), HOTRING_OK);
    check("add to a text", hotring_add(client, "c:text", 6, 1, NULL), HOTRING_FAILED);
    printf("adding to a text: %s\n", hotring_error());
    check("delete", hotring_delete(client, "c:text", 6), HOTRING_OK);
}

static void many_threads(void) {
    pthread_t threads[THREADS];
    int64_t sum = 0;
    hotring_delete(client, "c:count", 7);
    for (int at = 0; at < THREADS; at++) {
        check("a thread", pthread_create(&threads[at], NULL, count, NULL), 0);
    }
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
    }
    check("add", hotring_add(client, "c:count", 7, 0, &sum), HOTRING_OK);
    printf("%d threads counted to %" PRId64 "\n", THREADS, sum);
    check_number("sum", sum, (int64_t)THREADS * STEPS);
}

static void waits(void) {
    pthread_t thread;
    hotring_delete(client, "c:awaited", 9);
    check("wait", hotring_wait(client, "c:awaited", 9, 10), HOTRING_TIMED_OUT);
    check("a thread", pthread_create(&thread, NULL, change, NULL), 0);
    check("wait for", hotring_wait_for(client, "c:awaited", 9, "now", 3, 30000), HOTRING_OK);
    pthread_join(thread, NULL);
    check("delete", hotring_delete(client, "c:awaited", 9), HOTRING_OK);
}

static void batches(void) {
    hotring_operation operations[] = {
        {HOTRING_SET, "c:a", 3, "1", 1, 0},
        {HOTRING_ADD, "c:a", 3, NULL, 0, 41},
        {HOTRING_GET, "c:a", 3, NULL, 0, 0},
        {HOTRING_GET, "c:none", 6, NULL, 0, 0},
        {HOTRING_DELETE, "c:a", 3, NULL, 0, 0},
    };
    hotring_result *result;
    check("batch", hotring_batch(client, operations, 5, &result), HOTRING_OK);
    check_number("answers", (int64_t)result->count, 5);
    check("get", (int)result->answers[2].status, HOTRING_OK);
    check_number("value", atoll(result->answers[2].data), 42);
    check("get", (int)result->answers[3].status, HOTRING_ABSENT);
    hotring_result_free(result);
    check("batch", hotring_batch(client, operations, 0, &result), HOTRING_MISUSED);
    operations[0].code = 99;
    check("batch", hotring_batch(client, operations, 1, &result), HOTRING_BAD_ARGUMENT);
}

static void polls(void) {
    hotring_queue *queue = hotring_queue_new();
    hotring_result *results[8];
    hotring_operation add = {HOTRING_ADD, "c:polled", 8, NULL, 0, 1};
    char tags[BATCHES] = {0};
    size_t taken = 0;
    for (int at = 0; at < BATCHES; at++) {
        check("submit", hotring_submit(client, queue, &add, 1, &tags[at]), HOTRING_OK);
    }
    while (taken < BATCHES) {
        size_t count = hotring_poll(queue, results, 8, -1);
        for (size_t at = 0; at < count; at++) {
            check("a result", (int)results[at]->status, HOTRING_OK);
            *(char *)results[at]->tag += 1;
            hotring_result_free(results[at]);
        }
        taken += count;
    }
    for (int at = 0; at < BATCHES; at++) {
        check_number("outcomes of a call", tags[at], 1);
    }
    check_number("outcomes left", (int64_t)hotring_poll(queue, results, 8, 0), 0);
    int64_t sum;
    check("add", hotring_add(client, "c:polled", 8, 0, &sum), HOTRING_OK);
    check_number("sum", sum, BATCHES);
    check("delete", hotring_delete(client, "c:polled", 8), HOTRING_OK);
    hotring_queue_free(queue);
}

int main(int argc, char **argv) {
    hotring_options options = {.limit_ms = 30000, .datagram_us = 20000};
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: %s ADDRESS [USER PASSWORD]\n", argv[0]);
        return 2;
    }
    int status = hotring_connect(argv[1], argc == 4 ? argv[2] : NULL, argc == 4 ? argv[3] : NULL, &options, &client);
    if (status != HOTRING_OK) {
        fprintf(stderr, "%s (%s)\n", hotring_text(status), hotring_error());
        return 1;
    }
    one_operation();
    puts("ok: one operation");
    many_threads();
    puts("ok: many threads");
    waits();
    puts("ok: waits");
    batches();
    puts("ok: batches");
    polls();
    puts("ok: polls");
    check("delete", hotring_delete(client, "c:count", 7), HOTRING_OK);
    hotring_close(client);
    return 0;
}
