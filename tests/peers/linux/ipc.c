// Client and server that pass messages: pipes, sockets.
//
// A message is a header and its data, written and read at once where the way allows it. The server's prepared result
// lies in the buffer that it writes from.
#define _GNU_SOURCE
#include "peer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const pattern_names[PATTERNS] = {"NullProc", "ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy", "ColourMap"};
const char *const async_names[PATTERNS] = {"NullProc-async", "ArgNoRtn-async", "ArgRtn_NoCopy-async", "ArgRtn_Copy-async"};

enum { PREPARED = 0x5a };

static char at(size_t n) { return n ^ n >> 8 ^ n >> 16; }

// The table's entry for a colour.
static char colour(char pixel) { return pixel + 1; }

void fill_argument(enum pattern pattern, char *data, size_t bytes) {
    if (pattern == COLOUR_MAP)
        for (int n = 0; n < COLOURS; n++) *data++ = colour(n);
    for (size_t n = 0; n < bytes; n++) data[n] = at(n);
}

void map_colours(char *result, const char *data, size_t bytes) {
    const char *pixels = data + COLOURS;
    for (size_t n = 0; n < bytes; n++) result[n] = data[(unsigned char)pixels[n]];
}

void fill_result(char *data, size_t bytes) { memset(data, PREPARED, bytes); }

void check_result(enum pattern pattern, const char *result, size_t bytes) {
    errno = EBADMSG;
    for (size_t n = 0; n < reply_bytes(pattern, bytes); n++) {
        char right = pattern == ARG_RTN_COPY ? at(n) : pattern == COLOUR_MAP ? colour(at(n)) : PREPARED;
        if (result[n] != right) die("a result");
    }
}

static void by_all_ways(struct messages messages) {
    messages_by_channels(messages);
    messages_by_shared_memory(messages);
    messages_by_rpc(messages);
    if (!fifo) return;
    // The default policy lets who is woken run before who woke it, and saves switches by that: at times it is the better.
    set_fifo(false);
    way_suffix = "-other";
    messages_by_channels(messages);
    messages_by_shared_memory(messages);
    messages_by_rpc(messages);
    set_fifo(true);
    way_suffix = "";
}

void null_messages(const char *bench) { by_all_ways((struct messages){bench, NULL_PROC, NULL_PROC, 0}); }

static const size_t sizes[] = {64, 2048, 4096, 8192, GREATEST};

void bench_sizes(void) {
    null_messages("sizes");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        by_all_ways((struct messages){"sizes", ARG_NO_RTN, ARG_RTN_COPY, sizes[i]});
}

void bench_colours(void) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        by_all_ways((struct messages){"colours", COLOUR_MAP, COLOUR_MAP, sizes[i]});
}

struct header {
    // An enum pattern.
    uint16_t pattern;
    // Nobody waits for an answer.
    uint16_t oneway;
    // Of the data behind it.
    uint32_t bytes;
};

// What is sent: a header, and data behind it.
struct message {
    struct header header;
    char data[LONGEST];
};

static struct message request, reply;

// What has come and was not looked at yet: bytes from `begin` to `end`.
struct inbox {
    size_t begin, end;
    char bytes[2 * sizeof(struct message)];
};

// Client and server each have their own, for they are two processes.
static struct inbox inbox;

// A way, as its two ends see it.
struct channel {
    int client_in, client_out, server_in, server_out;
    enum pattern pattern;
    size_t bytes;
    // What the last call returned, and how many of a burst are answered.
    const struct message *answer;
    unsigned answered;
};

static void send_message(int file, const struct message *message) {
    const char *from = (const char *)message;
    size_t left = sizeof(struct header) + message->header.bytes;
    while (left > 0) {
        ssize_t wrote = write(file, from, left);
        if (wrote < 0 && errno != EINTR) die("sending");
        if (wrote > 0) from += wrote, left -= wrote;
    }
}

// How much the next message takes of the inbox, as far as that is known.
static size_t wanted(void) {
    const struct message *message = (void *)(inbox.bytes + inbox.begin);
    size_t have = inbox.end - inbox.begin;
    return sizeof(struct header) + (have >= sizeof(struct header) ? message->header.bytes : 0);
}

// The next message of those that have come, or NULL.
static const struct message *next(void) {
    size_t at = inbox.begin, bytes = wanted();
    if (inbox.end - at < bytes) return NULL;
    inbox.begin += bytes;
    return (void *)(inbox.bytes + at);
}

// Reads all that is there: a stream may give several messages at once. False when the other end is gone.
static bool more(int file) {
    if (inbox.begin == inbox.end) inbox.begin = inbox.end = 0;
    if (inbox.begin + wanted() > sizeof inbox.bytes) {
        inbox.end -= inbox.begin;
        memmove(inbox.bytes, inbox.bytes + inbox.begin, inbox.end);
        inbox.begin = 0;
    }
    ssize_t got = read(file, inbox.bytes + inbox.end, sizeof inbox.bytes - inbox.end);
    if (got < 0 && errno != EINTR) die("receiving");
    if (got > 0) inbox.end += got;
    return got != 0;
}

// The next message, or NULL when the other end is gone.
static const struct message *receive(int file) {
    const struct message *message;
    while (!(message = next()))
        if (!more(file)) return NULL;
    return message;
}

static void serve(void *context) {
    struct channel *channel = context;
    const struct message *message;
    while ((message = receive(channel->server_in))) {
        struct header header = message->header;
        if (header.oneway) continue;
        reply.header = header;
        reply.header.bytes = answer_bytes(header.pattern, header.bytes);
        if (header.pattern == ARG_RTN_COPY) memcpy(reply.data, message->data, header.bytes);
        if (header.pattern == COLOUR_MAP) map_colours(reply.data, message->data, reply.header.bytes);
        send_message(channel->server_out, &reply);
    }
}

static void take_answer(struct channel *channel, const struct message *answer) {
    errno = EPROTO;
    if (!answer || answer->header.bytes != reply_bytes(channel->pattern, channel->bytes)) die("an answer");
    channel->answer = answer;
    channel->answered++;
}

static void call(void *context) {
    struct channel *channel = context;
    request.header = (struct header){channel->pattern, 0, request_bytes(channel->pattern, channel->bytes)};
    send_message(channel->client_out, &request);
    take_answer(channel, receive(channel->client_in));
}

// Where nothing is returned only the last message is answered.
static void burst_oneway(void *context) {
    struct channel *channel = context;
    request.header = (struct header){channel->pattern, 1, request_bytes(channel->pattern, channel->bytes)};
    for (int i = 1; i < BURST; i++) send_message(channel->client_out, &request);
    call(context);
}

static bool is_socket(const struct channel *channel) { return channel->client_in == channel->client_out; }

// Takes answers where there is no room for what is sent: otherwise both sides could wait for room.
static void send_taking_answers(struct channel *channel, const struct message *message) {
    const char *from = (const char *)message;
    size_t left = sizeof(struct header) + message->header.bytes;
    while (left > 0) {
        ssize_t wrote = is_socket(channel) ? send(channel->client_out, from, left, MSG_DONTWAIT)
                                           : write(channel->client_out, from, left);
        if (wrote > 0) from += wrote, left -= wrote;
        if (wrote >= 0) continue;
        if (errno != EAGAIN && errno != EINTR) die("sending");
        struct pollfd files[] = {{.fd = channel->client_out, .events = POLLOUT}, {.fd = channel->client_in, .events = POLLIN}};
        if (poll(files, 2, -1) < 0 && errno != EINTR) die("poll");
        if (!(files[1].revents & POLLIN)) continue;
        const struct message *answer;
        if (!more(channel->client_in)) die("the server is gone");
        while ((answer = next())) take_answer(channel, answer);
    }
}

static void burst_answered(void *context) {
    struct channel *channel = context;
    request.header = (struct header){channel->pattern, 0, request_bytes(channel->pattern, channel->bytes)};
    channel->answered = 0;
    for (int i = 0; i < BURST; i++) send_taking_answers(channel, &request);
    while (channel->answered < BURST) take_answer(channel, receive(channel->client_in));
}

static void measure_bursts(struct subject subject, struct channel *channel) {
    bool answered = reply_bytes(channel->pattern, 1) > 0;
    // Of a socket it is said with each message.
    bool must_not_wait = answered && !is_socket(channel);
    if (must_not_wait && fcntl(channel->client_out, F_SETFL, O_NONBLOCK)) die("fcntl");
    subject.kase = async_names[channel->pattern];
    measure(subject, answered ? burst_answered : burst_oneway, channel, rounds_for(subject.bytes), BURST);
    check_result(channel->pattern, channel->answer->data, subject.bytes);
    if (must_not_wait && fcntl(channel->client_out, F_SETFL, 0)) die("fcntl");
}

static void measure_channel(const char *way, struct channel channel, struct messages m) {
    channel.bytes = m.bytes;
    fill_result(reply.data, m.bytes);
    int server = start_server(serve, &channel);
    for (enum pattern pattern = m.first; pattern <= m.last; pattern++) {
        channel.pattern = pattern;
        fill_argument(pattern, request.data, m.bytes);
        struct subject subject = {m.bench, pattern_names[pattern], way, m.bytes};
        measure(subject, call, &channel, rounds_for(m.bytes), 1);
        check_result(pattern, channel.answer->data, m.bytes);
        if (async_names[pattern]) measure_bursts(subject, &channel);
    }
    end_server(server);
    int files[] = {channel.client_in, channel.client_out, channel.server_in, channel.server_out};
    for (int i = 0; i < 4; i++) close(files[i]);
}

static struct channel two_way(int client_in, int client_out, int server_in, int server_out) {
    return (struct channel){
        .client_in = client_in, .client_out = client_out, .server_in = server_in, .server_out = server_out};
}

static struct sockaddr_in bound(int sock) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (sock < 0 || bind(sock, (void *)&address, length) || getsockname(sock, (void *)&address, &length)) die("bind");
    return address;
}

static struct channel udp(void) {
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at_a = bound(a), at_b = bound(b);
    if (connect(a, (void *)&at_b, sizeof at_b) || connect(b, (void *)&at_a, sizeof at_a)) die("UDP");
    return two_way(a, a, b, b);
}

static struct channel tcp(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), a = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = bound(listener);
    if (listen(listener, 1) || connect(a, (void *)&address, sizeof address)) die("TCP");
    int b = accept(listener, NULL, NULL);
    close(listener);
    // Without it a message in two segments waits for a delayed acknowledgement.
    if (setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("TCP");
    if (setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("TCP");
    return two_way(a, a, b, b);
}

void messages_by_channels(struct messages m) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) die("pipe");
    measure_channel("pipe", two_way(back[0], there[1], there[0], back[1]), m);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, there)) die("AF_UNIX");
    measure_channel("unix", two_way(there[0], there[0], there[1], there[1]), m);
    measure_channel("tcp", tcp(), m);
    if (sizeof(struct header) + request_bytes(m.last, m.bytes) <= DATAGRAM) {
        measure_channel("udp", udp(), m);
        return;
    }
    for (enum pattern pattern = m.first; pattern <= m.last; pattern++) {
        const char *why = "more than a datagram takes";
        skip((struct subject){m.bench, pattern_names[pattern], "udp", m.bytes}, why);
        if (async_names[pattern]) skip((struct subject){m.bench, async_names[pattern], "udp", m.bytes}, why);
    }
}
