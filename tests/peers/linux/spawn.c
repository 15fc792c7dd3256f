// From the request until the end of the new process is known.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 50 };

// A static program that only ends; see hello.S.
static const char *hello = "/hello";

static void await(pid_t process) {
    int status;
    if (process < 0) die("fork");
    if (waitpid(process, &status, 0) != process) die("waitpid");
    errno = ENOEXEC;
    if (status != 0) die(hello);
}

static void execute(void) {
    char *words[] = {"hello", NULL}, *environment[] = {NULL};
    execve(hello, words, environment);
    _exit(1);
}

static void spawn_fork(void *context) {
    (void)context;
    pid_t process = fork();
    if (process == 0) execute();
    await(process);
}

static void spawn_vfork(void *context) {
    (void)context;
    pid_t process = vfork();
    if (process == 0) execute();
    await(process);
}

static void only_fork(void *context) {
    (void)context;
    pid_t process = fork();
    if (process == 0) _exit(0);
    await(process);
}

void bench_spawn(void) {
    measure((struct subject){"spawn", "spawn", "fork+exec", 0}, spawn_fork, NULL, ROUNDS, 1);
    measure((struct subject){"spawn", "spawn", "vfork+exec", 0}, spawn_vfork, NULL, ROUNDS, 1);
    measure((struct subject){"spawn", "fork", "fork", 0}, only_fork, NULL, ROUNDS, 1);
}
