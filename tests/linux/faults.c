/* A program for Linux that has faults and handlers for them. It prints the same on every Linux, and on Musubi.
 * Each argument is the name of something to be done. */

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096

static sigjmp_buf back;
static char *volatile page;
static volatile int calls;
static volatile greg_t skip;

/* What a handler was told. The address, from the page or the instruction on. */
static void told(int number, siginfo_t *info, ucontext_t *context) {
    greg_t *r = context->uc_mcontext.gregs;
    char *at = info->si_addr;
    char where[64];
    if (page && at >= page && at < page + PAGE)
        snprintf(where, sizeof where, "page+%d", (int)(at - page));
    else if ((greg_t)at == r[REG_RIP])
        snprintf(where, sizeof where, "rip");
    else
        snprintf(where, sizeof where, "%p", (void *)at);
    printf("signal %d code %d at %s trap %d error %d cr2 %s\n", number, info->si_code, where, (int)r[REG_TRAPNO], (int)r[REG_ERR],
           r[REG_TRAPNO] != 14 ? "-" : r[REG_CR2] == (greg_t)at ? "same" : "other");
}

static void handle(int number, int flags, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, 0);
    calls = 0;
}

static void protect(int protection) {
    if (!page) {
        page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        /* So that there is memory, which the error code tells. */
        page[0] = 0;
    }
    mprotect(page, PAGE, protection);
}

/* Makes the page usable, and has the access made once more. The vector registers are its own. */
static void mends(int number, siginfo_t *info, void *context) {
    told(number, info, context);
    __asm__ volatile("pcmpeqd %%xmm7, %%xmm7; pcmpeqd %%xmm0, %%xmm0" ::: "xmm0", "xmm7");
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void mend(void) {
    uint64_t low, high, kept = 0x1122334455667788, other = 0x99aabbccddeeff00;
    uint64_t general[4] = {1, 2, 3, 4};
    handle(SIGSEGV, 0, mends);
    protect(PROT_READ);
    __asm__ volatile("movq %5, %%xmm0; movq %6, %%xmm7; mov $11, %%ecx; mov $12, %%r11d; mov $13, %%r8d; mov $14, %%edx; std\n"
                     "movb $42, 8(%4)\n"
                     "cld; mov %%rcx, (%7); mov %%r11, 8(%7); mov %%r8, 16(%7); mov %%rdx, 24(%7); movq %%xmm0, %0; movq %%xmm7, %1"
                     : "=&r"(low), "=&r"(high), "+m"(*(char(*)[PAGE])page), "+m"(general)
                     : "r"(page), "r"(kept), "r"(other), "r"(general)
                     : "xmm0", "xmm7", "rcx", "r11", "r8", "rdx", "memory");
    printf("stored %d, registers %d %d: %d %d %d %d\n", page[8], low == kept, high == other, (int)general[0], (int)general[1],
           (int)general[2], (int)general[3]);
}

/* Goes on behind the instruction. */
static void steps_over(int number, siginfo_t *info, void *context) {
    told(number, info, context);
    ucontext_t *c = context;
    c->uc_mcontext.gregs[REG_RIP] += skip;
    c->uc_mcontext.gregs[REG_RAX] = 77;
}

static void step_over(void) {
    uint64_t value = 1;
    handle(SIGSEGV, 0, steps_over);
    protect(PROT_NONE);
    munmap(page, PAGE);
    skip = 3;
    /* mov rax, [rcx] */
    __asm__ volatile(".byte 0x48, 0x8b, 0x01" : "=a"(value) : "c"(page + 16) : "memory");
    printf("value %d\n", (int)value);
    /* An address that no address space has. */
    __asm__ volatile(".byte 0x48, 0x8b, 0x01" : "=a"(value) : "c"(0x8000000000000000) : "memory");
    printf("value %d\n", (int)value);
    handle(SIGILL, 0, steps_over);
    skip = 2;
    __asm__ volatile("ud2" : "=a"(value) : "a"(1ul) : "memory");
    printf("value %d\n", (int)value);
    handle(SIGSEGV, 0, steps_over);
    skip = 1;
    __asm__ volatile("hlt" : "=a"(value) : "a"(1ul) : "memory");
    printf("value %d\n", (int)value);
    page = 0;
}

/* Leaves for good. */
static void leaves(int number, siginfo_t *info, void *context) {
    told(number, info, context);
    siglongjmp(back, ++calls);
}

static void divide(void) {
    handle(SIGFPE, 0, leaves);
    int times = sigsetjmp(back, 1);
    if (times == 0)
        __asm__ volatile("xor %%ecx, %%ecx; xor %%edx, %%edx; mov $1, %%eax; div %%ecx" ::: "rax", "rcx", "rdx", "cc");
    if (times == 1) {
        /* Division by zero is not masked. */
        unsigned short control = 0x037f & ~4;
        __asm__ volatile("fldcw %0; fld1; fldz; fdivrp; fwait" ::"m"(control));
    }
    printf("left %d times\n", times);
}

/* The same with vectors, which emulators may not have. */
static void divide_vectors(void) {
    unsigned control = 0x1f80 & ~0x200;
    double zero = 0, value = 1;
    handle(SIGFPE, 0, leaves);
    if (!sigsetjmp(back, 1))
        __asm__ volatile("ldmxcsr %1; divsd %2, %0" : "+x"(value) : "m"(control), "x"(zero));
    printf("left %d times\n", calls);
}

static void jump(void) {
    handle(SIGSEGV, 0, leaves);
    if (!sigsetjmp(back, 1))
        ((void (*)(void))16)();
    printf("left %d\n", calls);
}

static void counts(int number, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    if (calls++ == 0)
        told(number, info, context);
    if (calls == 4)
        c->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

static void trap(void) {
    handle(SIGTRAP, 0, counts);
    __asm__ volatile("int3");
    printf("behind a breakpoint\n");
    handle(SIGTRAP, 0, counts);
    __asm__ volatile("sub $128, %%rsp; pushf; orl $0x100, (%%rsp); popf; nop; nop; nop; nop; nop; nop; nop; nop; add $128, %%rsp" ::: "memory", "cc");
    printf("%d steps\n", calls);
}

static volatile uintptr_t deepest;

/* (Whether it ends is not to be known.) */
static volatile int ends;

__attribute__((noinline)) static int deeper(int n) {
    volatile char room[PAGE];
    room[0] = n;
    deepest = (uintptr_t)room;
    return ends ? 0 : deeper(n + 1) + room[0];
}

static char other_stack[64 << 10];

static void overflows(int number, siginfo_t *info, void *context) {
    char here;
    (void)context;
    stack_t stack;
    sigaltstack(0, &stack);
    uintptr_t at = (uintptr_t)info->si_addr;
    printf("signal %d %s, on the other stack %d %d\n", number, at > deepest - 64 * PAGE && at < deepest + PAGE ? "below" : "elsewhere",
           &here >= other_stack && &here < other_stack + sizeof other_stack, stack.ss_flags);
    siglongjmp(back, 1);
}

static void overflow(void) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, 0);
    handle(SIGSEGV, SA_ONSTACK, overflows);
    for (volatile int n = 0; n < 2; n++)
        if (!sigsetjmp(back, 1))
            deeper(0);
    sigaltstack(0, &stack);
    printf("back on its own: %d\n", stack.ss_flags);
}

static void no_stack(void) {
    handle(SIGSEGV, 0, leaves);
    if (!sigsetjmp(back, 1))
        deeper(0);
    printf("never\n");
}

static void blocked(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    handle(SIGSEGV, 0, mends);
    sigprocmask(SIG_BLOCK, &set, 0);
    protect(PROT_READ);
    fflush(stdout);
    page[0] = 1;
    printf("never\n");
}

static void ignored(void) {
    signal(SIGSEGV, SIG_IGN);
    protect(PROT_READ);
    page[0] = 1;
    printf("never\n");
}

static void again(int number, siginfo_t *info, void *context) {
    told(number, info, context);
    fflush(stdout);
    if (++calls < 3)
        page[calls] = 1;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void nested(void) {
    handle(SIGSEGV, SA_NODEFER, again);
    protect(PROT_READ);
    page[0] = 1;
    printf("%d calls: %d %d %d\n", calls, page[0], page[1], page[2]);
}

static void in_handler(void) {
    handle(SIGSEGV, 0, again);
    protect(PROT_READ);
    page[0] = 1;
    printf("never\n");
}

static void once(void) {
    handle(SIGSEGV, SA_RESETHAND, mends);
    protect(PROT_READ);
    page[0] = 1;
    printf("once\n");
    fflush(stdout);
    protect(PROT_READ);
    page[0] = 1;
    printf("never\n");
}

/* On its own stack, when the program has none. */
static void rescues(int number, siginfo_t *info, void *context) {
    (void)context;
    printf("signal %d code %d at %p, call %d\n", number, info->si_code, info->si_addr, ++calls);
    siglongjmp(back, 1);
}

/* A handler that there is no stack for is a fault. */
static void lost_stack(void) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    long pid = getpid();
    sigaltstack(&stack, 0);
    handle(SIGUSR1, 0, leaves);
    handle(SIGFPE, 0, leaves);
    handle(SIGSEGV, SA_ONSTACK, rescues);
    if (!sigsetjmp(back, 1))
        __asm__ volatile("mov $4096, %%esp; syscall; hlt" ::"a"(62l), "D"(pid), "S"((long)SIGUSR1) : "rcx", "r11", "memory");
    if (!sigsetjmp(back, 1))
        __asm__ volatile("mov $4096, %%esp; xor %%ecx, %%ecx; xor %%edx, %%edx; div %%ecx" ::"a"(1) : "rcx", "rdx", "cc", "memory");
    printf("rescued %d times\n", calls);
    fflush(stdout);
    handle(SIGSEGV, 0, leaves);
    if (!sigsetjmp(back, 1))
        __asm__ volatile("mov $4096, %%esp; syscall; hlt" ::"a"(62l), "D"(pid), "S"((long)SIGUSR1) : "rcx", "r11", "memory");
    printf("never\n");
}

static void spoils(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = (void *)16;
}

/* A record that cannot be read back is a fault. */
static void bad_return(void) {
    handle(SIGUSR1, 0, spoils);
    handle(SIGSEGV, 0, rescues);
    if (!sigsetjmp(back, 1))
        raise(SIGUSR1);
    printf("%d calls\n", calls);
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGUSR1);
    printf("never\n");
}

static void control(void) {
    unsigned vectors;
    unsigned short x87;
    uint64_t low;
    __asm__ volatile("stmxcsr %0; fnstcw %1; movq %%xmm15, %2" : "=m"(vectors), "=m"(x87), "=r"(low));
    printf("control words %x %x, register %d\n", vectors, x87, (int)low);
}

static char *self;

/* Another program begins with registers of its own. */
static void exec(void) {
    unsigned vectors = 0x7f80 & ~0x200;
    unsigned short x87 = 0x0c7f;
    char *arguments[] = {self, "control", 0};
    __asm__ volatile("ldmxcsr %0; fldcw %1; movq %2, %%xmm15" ::"m"(vectors), "m"(x87), "r"(5ul) : "xmm15");
    control();
    fflush(stdout);
    execv(self, arguments);
}

static const struct {
    const char *name;
    void (*act)(void);
} ACTS[] = {{"mend", mend}, {"step-over", step_over}, {"divide", divide}, {"divide-vectors", divide_vectors}, {"jump", jump}, {"trap", trap}, {"overflow", overflow},
            {"nested", nested}, {"no-stack", no_stack}, {"blocked", blocked}, {"ignored", ignored}, {"in-handler", in_handler}, {"once", once},
            {"lost-stack", lost_stack}, {"bad-return", bad_return}, {"control", control}, {"exec", exec}};

int main(int count, char **names) {
    self = names[0];
    for (int n = 1; n < count; n++)
        for (unsigned i = 0; i < sizeof ACTS / sizeof *ACTS; i++)
            if (!strcmp(names[n], ACTS[i].name)) {
                printf("%s:\n", names[n]);
                fflush(stdout);
                ACTS[i].act();
                fflush(stdout);
            }
    return 0;
}
