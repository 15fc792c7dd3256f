// Calls without data: messages to another process; system calls that do next to nothing; an exception that the program
// handles itself.
#define _GNU_SOURCE
#include "peer.h"
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { ROUNDS = 1000, NO_SUCH_CALL = 1000, STORE_LENGTH = 3 };

// Without libc's wrapper and errno.
static long enter(long number) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
}

static void ask_time(void *context) {
    struct timespec time;
    (void)context;
    // The wrapper does not enter the kernel if the clock can be read without.
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
}

static void read_time(void *context) {
    struct timespec time;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &time);
}

static void ask_parent(void *context) { (void)context, enter(SYS_getppid); }
static void ask_nothing(void *context) { (void)context, enter(NO_SUCH_CALL); }

// mov %al,(%r11) with r11 = 0: three bytes that nobody may execute to the end.
static void fault(void *context) {
    (void)context;
    __asm__ volatile("xor %%r11d,%%r11d; .byte 0x41,0x88,0x03" ::: "r11", "memory");
}

static void skip_store(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += STORE_LENGTH;
}

void bench_calls(void) {
    null_messages("calls");
    measure((struct subject){"calls", "no-such-call", "system-call", 0}, ask_nothing, NULL, ROUNDS, 1);
    measure((struct subject){"calls", "getppid", "system-call", 0}, ask_parent, NULL, ROUNDS, 1);
    measure((struct subject){"calls", "clock", "system-call", 0}, ask_time, NULL, ROUNDS, 1);
    measure((struct subject){"calls", "clock", "vdso", 0}, read_time, NULL, ROUNDS, 1);
    struct sigaction action = {.sa_sigaction = skip_store, .sa_flags = SA_SIGINFO}, before;
    if (sigaction(SIGSEGV, &action, &before)) die("sigaction");
    measure((struct subject){"calls", "exception", "sigsegv", 0}, fault, NULL, ROUNDS, 1);
    sigaction(SIGSEGV, &before, NULL);
}
