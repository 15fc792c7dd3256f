// Programs that nobody here wrote: Debian's busybox, told the same as in Musubi, on as many processors as there are.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3 };

// apps/bench/src/apps.txt: a line for each case, its name, a tab, and what the shell is told. The first one makes what the others work on.
static const char *list = "/apps.txt";
static const char *busybox = "/bin/busybox";

// Of a machine whose processors take turns every second one is none of ours; the others have not been started yet.
static void start_processors(void) {
    mkdir("/sys", 0755);
    if (mount("sysfs", "/sys", "sysfs", 0, NULL) && errno != EBUSY) die("/sys");
    for (int number = 2;; number += 2) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", number);
        int file = open(path, O_WRONLY);
        if (file < 0) return;
        if (write(file, "1", 1) != 1) die(path);
        close(file);
    }
}

// In the new process: no input, output that is nobody's, and signals as any program has them.
static void execute(char *script) {
    char *words[] = {"busybox", "sh", "-c", script, NULL}, *environment[] = {"PATH=/bin", NULL};
    int null = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3; stream++)
        if (null < 0 || dup2(null, stream) < 0) _exit(126);
    signal(SIGPIPE, SIG_DFL);
    execve(busybox, words, environment);
    _exit(127);
}

static void shell(void *script) {
    int status;
    pid_t process = fork();
    if (process < 0) die("fork");
    if (process == 0) execute(script);
    if (waitpid(process, &status, 0) != process) die("waitpid");
    errno = ECANCELED;
    if (status != 0) die(script);
}

static void read_list(char *text, size_t length) {
    int file = open(list, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, text, length - 1);
    if (got < 0) die(list);
    close(file);
    text[got] = 0;
}

void bench_apps(void) {
    static char text[8192];
    if (getppid() == 1) {
        start_processors();
        if (mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)) && errno != EEXIST) die("/dev/null");
        if (mkdir("/tmp", 0777) && errno != EEXIST) die("/tmp");
    }
    read_list(text, sizeof text);
    bool is_ready = false;
    for (char *rest, *entry = strtok_r(text, "\n", &rest); entry; entry = strtok_r(NULL, "\n", &rest)) {
        char *script = strchr(entry, '\t');
        if (*entry == '#' || !script) continue;
        *script++ = 0;
        if (is_ready) measure_long((struct subject){"apps", entry, "busybox", 0}, shell, script, ROUNDS);
        else shell(script);
        is_ready = true;
    }
}
