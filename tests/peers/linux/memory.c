// The ways into the kernel and memory, as the SSS-CORE paper's tables have them: its calls' nearest equivalents.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 1000, PAGE = 4096 };

static void ask_parent(void *context) {
    long result;
    (void)context;
    __asm__ volatile("syscall" : "=a"(result) : "a"((long)SYS_getppid) : "rcx", "r11", "memory");
}

static void yield(void *context) { (void)context, sched_yield(); }

static atomic_bool over;

static void *keep_yielding(void *context) {
    while (!atomic_load(&over)) sched_yield();
    return context;
}

// Under SCHED_FIFO on both systems: the default policy's yield does not promise a switch.
void bench_entry(void) {
    measure((struct subject){"entry", "get_taskid", "getppid", 0}, ask_parent, NULL, ROUNDS, 1);
    set_fifo(true);
    measure((struct subject){"entry", "sleep0", "sched_yield", 0}, yield, NULL, ROUNDS, 1);
    pthread_t thread;
    atomic_store(&over, false);
    if ((errno = pthread_create(&thread, NULL, keep_yielding, NULL))) die("pthread_create");
    measure((struct subject){"entry", "sleep0-x2", "sched_yield", 0}, yield, NULL, ROUNDS, 1);
    atomic_store(&over, true);
    yield(NULL);
    if ((errno = pthread_join(thread, NULL))) die("pthread_join");
    set_fifo(fifo);
}

struct range {
    volatile char *at;
    size_t bytes;
};

static void touch(struct range range) {
    for (size_t at = 0; at < range.bytes; at += PAGE) range.at[at] = 1;
}

static void map_and_unmap(void *context) {
    struct range range = {NULL, *(size_t *)context};
    void *at = mmap(NULL, range.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    range.at = at;
    touch(range);
    if (munmap(at, range.bytes)) die("munmap");
}

static void protect(struct range *range, int protection) {
    if (mprotect((void *)range->at, range->bytes, protection)) die("mprotect");
}

static void make_invalid(void *context) { protect(context, PROT_NONE); }

static void make_valid(void *context) {
    protect(context, PROT_READ | PROT_WRITE);
    touch(*(struct range *)context);
}

static void make_valid_only(void *context) { protect(context, PROT_READ | PROT_WRITE); }

static void touch_and_make_invalid(void *context) {
    touch(*(struct range *)context);
    make_invalid(context);
}

void bench_memory(void) {
    static const size_t had[] = {4096, 16384, 65536, 262144, 1048576}, made[] = {4096, 65536, 2097152};
    // A page beside it stays, so that the page tables do: ours stay with the section. It lies high in its table: mappings go downwards.
    struct range beside = {NULL, 4 << 20};
    void *place = mmap(NULL, beside.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) die("mmap");
    size_t high = ((uintptr_t)place + (4 << 20)) / (2 << 20) * (2 << 20) - PAGE - (uintptr_t)place;
    if (munmap(place, high)) die("munmap");
    beside = (struct range){(char *)place + high, PAGE};
    touch(beside);
    for (size_t i = 0; i < sizeof had / sizeof *had; i++) {
        size_t bytes = had[i];
        measure((struct subject){"memory", "alloc+free", "mmap", bytes}, map_and_unmap, &bytes, bytes > 65536 ? 100 : 300, 1);
    }
    // Whole mappings, with nothing beside them: of a part of one Linux makes mappings of their own, which costs several times as much.
    if (munmap((void *)beside.at, (4 << 20) - high)) die("munmap");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        struct range range = {NULL, made[i]};
        void *at = mmap(NULL, range.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) die("mmap");
        range.at = at;
        touch(range);
        measure_after((struct subject){"memory", "page_invalidate", "mprotect", range.bytes}, make_valid, make_invalid, &range, 300);
        make_valid(&range);
        measure_after((struct subject){"memory", "page_validate", "mprotect", range.bytes}, touch_and_make_invalid, make_valid_only, &range, 300);
        if (munmap(at, range.bytes)) die("munmap");
    }
}
