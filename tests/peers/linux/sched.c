// Round trips between two threads and between two processes: two switches each.
//
// Yielding is measured under SCHED_FIFO on both systems: the default policy's yield does not promise a switch.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

static void yield(void *context) { (void)context, sched_yield(); }

static atomic_bool over;

static void *keep_yielding(void *context) {
    while (!atomic_load(&over)) sched_yield();
    return context;
}

static void serve_yields(void *context) { keep_yielding(context); }

// Two words that threads wait on: the one was changed by the client, the other by the server.
static atomic_uint asked, answered;

static void change(atomic_uint *word, unsigned value) {
    atomic_store(word, value);
    if (syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0) die("FUTEX_WAKE");
}

static void await(atomic_uint *word, unsigned value) {
    unsigned is;
    while ((is = atomic_load(word)) != value) {
        long failed = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, NULL, NULL, 0);
        if (failed && errno != EAGAIN && errno != EINTR) die("FUTEX_WAIT");
    }
}

static void ask(void *context) {
    (void)context;
    unsigned next = atomic_load(&asked) + 1;
    change(&asked, next);
    await(&answered, next);
}

static void *answer(void *context) {
    for (unsigned next = 1;; next++) {
        await(&asked, next);
        // Read here and not after the answer: every question is answered, the last one, too.
        bool last = atomic_load(&over);
        change(&answered, next);
        if (last) return context;
    }
}

static void with_thread(void *(*body)(void *), struct subject subject, operation *op) {
    pthread_t thread;
    atomic_store(&over, false);
    atomic_store(&asked, 0);
    atomic_store(&answered, 0);
    if ((errno = pthread_create(&thread, NULL, body, NULL))) die("pthread_create");
    measure(subject, op, NULL, ROUNDS, 1);
    atomic_store(&over, true);
    op(NULL);
    if ((errno = pthread_join(thread, NULL))) die("pthread_join");
}

void bench_sched(void) {
    if (!fifo) with_thread(answer, (struct subject){"sched", "futex-ping-pong", "threads", 0}, ask);
    set_fifo(true);
    with_thread(answer, (struct subject){"sched", "futex-ping-pong", "threads-fifo", 0}, ask);
    with_thread(keep_yielding, (struct subject){"sched", "yield", "threads-fifo", 0}, yield);
    atomic_store(&over, false);
    int server = start_server(serve_yields, NULL);
    measure((struct subject){"sched", "yield", "processes-fifo", 0}, yield, NULL, ROUNDS, 1);
    end_server(server);
    set_fifo(fifo);
}
