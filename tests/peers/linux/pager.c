// A fault on a page that the program itself makes good, and the access once more: by a signal and mprotect, and by a thread that reads
// userfaultfd and supplies the page.
#define _GNU_SOURCE
#include "peer.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 500, PAGE = 4096 };
static char *page, *source;

static void store(void *context) { (void)context, *(volatile char *)page = 1; }

static void hide(void *context) {
    (void)context;
    if (mprotect(page, PAGE, PROT_NONE)) die("mprotect");
}

static void show(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE)) die("mprotect");
}

static void drop(void *context) {
    (void)context;
    if (madvise(page, PAGE, MADV_DONTNEED)) die("madvise");
}

static void *supply(void *context) {
    int faults = *(int *)context;
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        struct uffdio_copy copy = {.dst = (uintptr_t)page, .src = (uintptr_t)source, .len = PAGE};
        if (message.event != UFFD_EVENT_PAGEFAULT || ioctl(faults, UFFDIO_COPY, &copy)) die("UFFDIO_COPY");
    }
    return NULL;
}

static char *map(void) {
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    return at;
}

void bench_pager(void) {
    page = map(), source = map();
    memset(source, 7, PAGE);
    *page = 1;
    struct sigaction action = {.sa_sigaction = show, .sa_flags = SA_SIGINFO}, before;
    if (sigaction(SIGSEGV, &action, &before)) die("sigaction");
    measure_after((struct subject){"pager", "round-trip", "sigsegv+mprotect", 0}, hide, store, NULL, ROUNDS);
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) || sigaction(SIGSEGV, &before, NULL)) die("sigaction");
    static int faults;
    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0) die("userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register all = {.range = {(uintptr_t)page, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &all)) die("UFFDIO_REGISTER");
    pthread_t thread;
    if (pthread_create(&thread, NULL, supply, &faults)) die("pthread_create");
    measure_after((struct subject){"pager", "round-trip", "userfaultfd", 0}, drop, store, NULL, ROUNDS);
    if (pthread_cancel(thread) || pthread_join(thread, NULL) || close(faults)) die("pthread_join");
    munmap(page, PAGE), munmap(source, PAGE);
}
