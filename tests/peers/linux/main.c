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

// QEMU's debug consoles, see docs/book/exec.md. By /dev/port they need no driver that could wake up in a measurement.
enum port { OUT = 0xe0, ERR = 0xe1, STATUS = 0xe2 };
static int ports = -1;

static void put(enum port port, const char *text) {
    size_t length = strlen(text);
    if (ports < 0) {
        if (port != STATUS && write(port == OUT ? 1 : 2, text, length) < 0) _exit(1);
        return;
    }
    // A write of several bytes would go to several ports.
    for (size_t i = 0; i < length; i++)
        if (pwrite(ports, text + i, 1, port) != 1) _exit(1);
}

void line(const char *format, ...) {
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof text - 1) die("a line is too long");
    strcat(text, "\n");
    put(OUT, text);
}

void die(const char *what) {
    char text[512];
    snprintf(text, sizeof text, "peer: %s: %s\n", what, strerror(errno));
    put(ERR, text);
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

static void run(int count, char **names) {
    static const struct {
        const char *name;
        void (*run)(void);
    } benches[] = {{"ipc", bench_ipc}, {"calls", bench_calls}, {"spawn", bench_spawn}, {"sched", bench_sched}};
    if (fifo) {
        // A thread that never sleeps is otherwise held for 50 ms of each second.
        write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
        struct sched_param priority = {.sched_priority = 10};
        if (sched_setscheduler(0, SCHED_FIFO, &priority)) die("SCHED_FIFO");
    }
    about();
    for (int i = 0; i < count; i++) {
        size_t at = 0, all = sizeof benches / sizeof *benches;
        while (at < all && strcmp(benches[at].name, names[i])) at++;
        errno = EINVAL;
        if (at == all) die(names[i]);
        benches[at].run();
    }
}

int main(int count, char **words) {
    bool first = getpid() == 1;
    if (first) set_up();
    errno = EINVAL;
    if (count < 4) die("init SYSTEM instructions|nanoseconds BENCH...");
    system_name = words[1];
    fifo = !strcmp(system_name, "linux-best");
    instructions = !strcmp(words[2], "instructions");
    signal(SIGPIPE, SIG_IGN);
    if (!first) {
        run(count - 3, words + 3);
        return 0;
    }
    int status = -1, child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        run(count - 3, words + 3);
        _exit(0);
    }
    while (waitpid(child, &status, 0) != child) {
    }
    if (status != 0) {
        char text[64];
        snprintf(text, sizeof text, "peer: the benchmarks ended with status %#x\n", (unsigned)status);
        put(ERR, text);
    }
    put(STATUS, status == 0 ? "exit 0\n" : "exit 1\n");
    reboot(RB_POWER_OFF);
    for (;;) pause();
}
