// Takes samples and prints what they come to.
#define _GNU_SOURCE
#include "peer.h"
#include <sched.h>
#include <stdlib.h>
#include <time.h>

const char *way_suffix = "";

static uint64_t now(void) {
    if (instructions) {
        // Under QEMU's -icount the counter counts instructions.
        uint32_t low, high;
        __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
        return (uint64_t)high << 32 | low;
    }
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum { MOST = 1000 };
static uint64_t samples[MOST];

// Marks for who counts instructions from outside (host/tally): nops with a number in them.
#define MARK(number) __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00," #number ",0x00,0x5a,0xa5" ::: "memory")
#define CASE_BEGINS MARK(0x10)
#define ROUND_BEGINS MARK(0x11)
#define ROUND_ENDS MARK(0x12)
#define CASE_ENDS MARK(0x13)

static void nothing(void *context) { (void)context; }

// Samples of `batch` operations each, sorted. Where there is a `first`, a sample is one operation if that is to be left out.
static void take(operation *first, operation *op, void *context, unsigned count, unsigned batch) {
    for (unsigned i = 0; i < count; i++) {
        if (first && batch == 1) first(context);
        uint64_t began = now();
        ROUND_BEGINS;
        for (unsigned j = 0; j < batch; j++) {
            if (first && batch > 1) first(context);
            op(context);
        }
        ROUND_ENDS;
        samples[i] = now() - began;
    }
    qsort(samples, count, sizeof *samples, compare);
}

static int processors(void) {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all)) die("sched_getaffinity");
    return CPU_COUNT(&all);
}

// How often to warm up, how many samples, and of how many operations each.
struct plan {
    unsigned warm, count, batch;
};

static void measure_by(struct plan plan, struct subject s, operation *first, operation *op, void *context, unsigned messages) {
    unsigned count = plan.count, batch = plan.batch;
    for (unsigned i = 0; i < plan.warm; i++) {
        if (first) first(context);
        op(context);
    }
    take(NULL, nothing, NULL, count, batch);
    // The least, not the median: what the measuring takes at any rate.
    uint64_t own = samples[0];
    CASE_BEGINS;
    take(first, op, context, count, batch);
    CASE_ENDS;
    uint64_t all[3] = {samples[count / 2], samples[0], samples[count - 1]}, parts = (uint64_t)batch * messages;
    for (int i = 0; i < 3; i++) all[i] = (all[i] > own ? all[i] - own + parts / 2 : 0) / parts;
    line("{\"bench\":\"%s\",\"case\":\"%s\",\"bytes\":%zu,\"system\":\"%s\",\"way\":\"%s%s\",\"cpus\":%d,\"unit\":\"%s\","
         "\"value\":%llu,\"min\":%llu,\"max\":%llu,\"n\":%u,\"source\":\"measured\"}",
         s.bench, s.kase, s.bytes, system_name, s.way, way_suffix, processors(), instructions ? "instructions" : "nanoseconds",
         (unsigned long long)all[0], (unsigned long long)all[1], (unsigned long long)all[2], count);
}

static void measure_both(struct subject s, operation *first, operation *op, void *context, unsigned rounds, unsigned messages) {
    // Instructions are exact: each operation is a sample. Reading the time of day costs as much as a small operation:
    // a sample is a batch.
    struct plan plan = {rounds / 4 + 2 * BURST, rounds < MOST ? rounds : MOST, 1};
    if (!instructions) plan.count = 20, plan.batch = rounds / 10 ? rounds / 10 : 1;
    measure_by(plan, s, first, op, context, messages);
}

void measure(struct subject s, operation *op, void *context, unsigned rounds, unsigned messages) {
    measure_both(s, NULL, op, context, rounds, messages);
}

void measure_after(struct subject s, operation *first, operation *op, void *context, unsigned rounds) {
    measure_both(s, first, op, context, rounds, 1);
}

void skip(struct subject s, const char *why) {
    line("{\"bench\":\"%s\",\"case\":\"%s\",\"bytes\":%zu,\"system\":\"%s\",\"way\":\"%s%s\",\"skipped\":\"%s\"}", s.bench,
         s.kase, s.bytes, system_name, s.way, way_suffix, why);
}

void measure_long(struct subject s, operation *op, void *context, unsigned rounds) {
    measure_by((struct plan){1, rounds, 1}, s, NULL, op, context, 1);
}
