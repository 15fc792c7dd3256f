// Client and server that share memory and wake each other by futex.
//
// Arguments and results lie in the shared memory from the beginning: nothing is copied to pass them. Who takes data
// touches a word of each page of it.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct shared {
    // How many calls were made and how many are done; who waits for a change of them.
    atomic_uint called, done, server_waits, client_waits;
    // The calls of a burst.
    struct {
        enum pattern pattern;
        size_t bytes;
    } calls[BURST];
    char results[BURST][GREATEST] __attribute__((aligned(PAGE)));
    char arguments[BURST][LONGEST] __attribute__((aligned(PAGE)));
};

static struct shared *shared;
static volatile char sink;

static void wait_while(atomic_uint *word, unsigned value, atomic_uint *waits) {
    while (atomic_load(word) == value) {
        atomic_store(waits, 1);
        long failed = syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
        if (failed && errno != EAGAIN && errno != EINTR) die("FUTEX_WAIT");
    }
}

static void wake(atomic_uint *word, atomic_uint *waits) {
    if (atomic_exchange(waits, 0) == 0) return;
    if (syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) < 0) die("FUTEX_WAKE");
}

static void touch(const char *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE) sink = *(const volatile char *)(data + at);
}

static void serve(void *context) {
    (void)context;
    for (unsigned done = 0;; done++) {
        wait_while(&shared->called, done, &shared->server_waits);
        unsigned slot = done % BURST;
        size_t bytes = shared->calls[slot].bytes;
        switch (shared->calls[slot].pattern) {
        case ARG_NO_RTN:
        case ARG_RTN_NO_COPY: touch(shared->arguments[slot], bytes); break;
        case ARG_RTN_COPY: memcpy(shared->results[slot], shared->arguments[slot], bytes); break;
        case COLOUR_MAP: map_colours(shared->results[slot], shared->arguments[slot], bytes - COLOURS); break;
        default: break;
        }
        atomic_store(&shared->done, done + 1);
        // Who waits, waits for all calls that were made.
        if (atomic_load(&shared->called) == done + 1) wake(&shared->done, &shared->client_waits);
    }
}

struct way {
    enum pattern pattern;
    size_t bytes;
};

static unsigned post(const struct way *way) {
    unsigned number = atomic_load(&shared->called), slot = number % BURST;
    shared->calls[slot].pattern = way->pattern;
    shared->calls[slot].bytes = request_bytes(way->pattern, way->bytes);
    atomic_store(&shared->called, number + 1);
    wake(&shared->called, &shared->server_waits);
    return number + 1;
}

static void await(unsigned number) {
    unsigned done;
    while ((done = atomic_load(&shared->done)) != number) wait_while(&shared->done, done, &shared->client_waits);
}

static void call(void *context) {
    const struct way *way = context;
    unsigned number = post(way);
    await(number);
    touch(shared->results[(number - 1) % BURST], reply_bytes(way->pattern, way->bytes));
}

static void burst(void *context) {
    const struct way *way = context;
    for (int i = 1; i < BURST; i++) post(way);
    await(post(way));
    for (int slot = 0; slot < BURST; slot++) touch(shared->results[slot], reply_bytes(way->pattern, way->bytes));
}

static void check_results(const struct way *way) {
    for (int slot = 0; slot < BURST; slot++) check_result(way->pattern, shared->results[slot], way->bytes);
}

void messages_by_shared_memory(struct messages m) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die("mmap");
    for (int slot = 0; slot < BURST; slot++) fill_result(shared->results[slot], m.bytes);
    int server = start_server(serve, NULL);
    for (enum pattern pattern = m.first; pattern <= m.last; pattern++) {
        struct way way = {pattern, m.bytes};
        for (int slot = 0; slot < BURST; slot++) fill_argument(pattern, shared->arguments[slot], m.bytes);
        struct subject subject = {m.bench, pattern_names[pattern], "shm-futex", m.bytes};
        measure(subject, call, &way, rounds_for(m.bytes), 1);
        check_results(&way);
        if (!async_names[pattern]) continue;
        subject.kase = async_names[pattern];
        measure(subject, burst, &way, rounds_for(m.bytes), BURST);
        check_results(&way);
    }
    end_server(server);
    munmap(shared, sizeof *shared);
}
