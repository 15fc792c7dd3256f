// The first process of the guest: sets up what the benchmarks need, runs them in a child, tells how they ended.
//
//     init SYSTEM instructions|nanoseconds BENCH...
//
// As any other process (on a host, to try it) it prints to standard output and sets nothing up.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

const char *system_name = "linux-default";
bool instructions = true, fifo;

enum { PRIORITY = 10 };

void set_fifo(bool on) {
    struct sched_param parameters = {.sched_priority = on ? PRIORITY : 0};
    if (sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &parameters)) die("sched_setscheduler");
}

// QEMU's debug consoles, see docs/book/exec.md. By /dev/port they need no driver that could wake up in a measurement. What
// is printed goes as parts, all of them on the console: none is long.
enum port { OUTPUT = 0xe0, STATUS = 0xe2 };
enum stream { OUT = 1, ERR = 2 };
static int ports = -1;

static void put(enum port port, const void *bytes, size_t length) {
    // A write of several bytes would go to several ports.
    for (size_t i = 0; i < length; i++)
        if (pwrite(ports, (const char *)bytes + i, 1, port) != 1) _exit(1);
}

static void print(enum stream stream, const char *text) {
    size_t length = strlen(text);
    if (ports < 0) {
        if (write(stream, text, length) < 0) _exit(1);
        return;
    }
    put(OUTPUT, (unsigned char[]){stream, length & 0xff, length >> 8}, 3);
    put(OUTPUT, text, length);
}

void line(const char *format, ...) {
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof text - 1) die("a line is too long");
    strcat(text, "\n");
    print(OUT, text);
}

void die(const char *what) {
    char text[512];
    snprintf(text, sizeof text, "peer: %s: %s\n", what, strerror(errno));
    print(ERR, text);
    _exit(1);
}

int start_server(void (*serve)(void *), void *context) {
    int process = fork();
    if (process < 0) die("fork");
    if (process == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL)) die("prctl");
        serve(context);
        _exit(0);
    }
    return process;
}

void end_server(int process) {
    int status;
    kill(process, SIGKILL);
    if (waitpid(process, &status, 0) != process) die("waiting for the server");
}

static void write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0) die(path);
    close(file);
}

static void first_line(const char *path, char *text, size_t length) {
    int file = open(path, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, text, length - 1);
    if (got < 0) die(path);
    close(file);
    text[got] = 0;
    text[strcspn(text, "\n")] = 0;
}

static void set_up(void) {
    mkdir("/proc", 0755), mkdir("/dev", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL)) die("/proc");
    if (mknod("/dev/port", S_IFCHR | 0600, makedev(1, 4)) && errno != EEXIST) die("/dev/port");
    ports = open("/dev/port", O_WRONLY | O_CLOEXEC);
    if (ports < 0) die("/dev/port");
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &loopback)) die("the loopback interface");
    close(sock);
}

// What is measured: printed before any figure.
static void about(void) {
    struct utsname name;
    char words[4096];
    if (uname(&name)) die("uname");
    first_line("/proc/cmdline", words, sizeof words);
    if (strpbrk(words, "\"\\")) die("the command line cannot be quoted");
    line("{\"system\":\"%s\",\"release\":\"%s\",\"version\":\"%s\",\"command_line\":\"%s\"}", system_name, name.release,
         name.version, words);
}

// The kernel's thread for network packets runs at once when it is woken, as everything else here. With the default policy
// it would run only when nothing else can, and packets would wait for it from then on.
static void hasten_packets(void) {
    struct sched_param parameters = {.sched_priority = PRIORITY + 1};
    for (int process = 2; process < 200; process++) {
        char path[32], name[32];
        snprintf(path, sizeof path, "/proc/%d/comm", process);
        if (access(path, R_OK)) continue;
        first_line(path, name, sizeof name);
        if (strncmp(name, "ksoftirqd/", 10)) continue;
        if (sched_setscheduler(process, SCHED_FIFO, &parameters)) die(name);
        return;
    }
    errno = ESRCH;
    die("ksoftirqd");
}

static void run_fifo(void) {
    // A thread that never sleeps is otherwise held for 50 ms of each second.
    write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
    set_fifo(true);
    hasten_packets();
}

// Runs a benchmark in a process of its own, which has touched no more memory than any other. Returns how it ended.
static int run(const char *name) {
    static const struct {
        const char *name;
        void (*run)(void);
    } benches[] = {
        {"calls", bench_calls}, {"sizes", bench_sizes}, {"colours", bench_colours}, {"spawn", bench_spawn},
        {"sched", bench_sched}, {"pool", bench_pool},   {"entry", bench_entry},     {"memory", bench_memory},
        {"pager", bench_pager}, {"apps", bench_apps},
    };
    int process = fork(), status;
    if (process < 0) die("fork");
    if (process) {
        while (waitpid(process, &status, 0) != process) {
        }
        return status;
    }
    for (size_t at = 0; at < sizeof benches / sizeof *benches; at++)
        if (!strcmp(benches[at].name, name)) {
            benches[at].run();
            _exit(0);
        }
    errno = EINVAL;
    die(name);
}

int main(int count, char **words) {
    bool first = getpid() == 1;
    int status = 0;
    if (first) set_up();
    errno = EINVAL;
    if (count < 4) die("init SYSTEM instructions|nanoseconds BENCH...");
    system_name = words[1];
    fifo = !strcmp(system_name, "linux-best");
    instructions = !strcmp(words[2], "instructions");
    signal(SIGPIPE, SIG_IGN);
    if (fifo) run_fifo();
    about();
    for (int i = 3; i < count && status == 0; i++) status = run(words[i]);
    if (status != 0) {
        char text[64];
        snprintf(text, sizeof text, "peer: the benchmark ended with status %#x\n", (unsigned)status);
        print(ERR, text);
    }
    if (!first) return status != 0;
    put(STATUS, status == 0 ? "exit 0\n" : "exit 1\n", 7);
    reboot(RB_POWER_OFF);
    for (;;) pause();
}
