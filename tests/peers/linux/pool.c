// Two programs that pass a message of 48 bytes to and fro: the ping-pong of the K1 paper.
#define _GNU_SOURCE
#include "peer.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS = 6, ROUNDS = 1000 };

struct ball {
    uint64_t words[WORDS];
};

struct court {
    int client_in, client_out, server_in, server_out;
    struct ball ball;
};

static void serve(void *context) {
    struct court *court = context;
    struct ball ball;
    while (read(court->server_in, &ball, sizeof ball) == sizeof ball) {
        for (int i = 0; i < WORDS; i++) ball.words[i]++;
        if (write(court->server_out, &ball, sizeof ball) != sizeof ball) die("hitting back");
    }
}

static void hit(void *context) {
    struct court *court = context;
    if (write(court->client_out, &court->ball, sizeof court->ball) != sizeof court->ball) die("hitting");
    if (read(court->client_in, &court->ball, sizeof court->ball) != sizeof court->ball) die("waiting");
}

static void play(const char *way, struct court court) {
    int server = start_server(serve, &court);
    measure((struct subject){"pool", "ping-pong", way, sizeof court.ball}, hit, &court, ROUNDS, 1);
    errno = EBADMSG;
    if (court.ball.words[0] < ROUNDS || court.ball.words[0] != court.ball.words[WORDS - 1]) die("the ball");
    end_server(server);
    int files[] = {court.client_in, court.client_out, court.server_in, court.server_out};
    for (int i = 0; i < 4; i++) close(files[i]);
}

static void by_all_ways(void) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) die("pipe");
    play("pipe", (struct court){back[0], there[1], there[0], back[1], {{0}}});
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, there)) die("AF_UNIX");
    play("unix-dgram", (struct court){there[0], there[0], there[1], there[1], {{0}}});
}

void bench_pool(void) {
    by_all_ways();
    if (!fifo) return;
    set_fifo(false);
    way_suffix = "-other";
    by_all_ways();
    set_fifo(true);
    way_suffix = "";
}
