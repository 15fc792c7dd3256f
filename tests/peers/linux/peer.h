// The peer: what the parts of the program share.
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What one line of figures is about.
struct subject {
    const char *bench, *kase, *way;
    size_t bytes;
};

typedef void operation(void *context);

// Measures an operation that does `messages` messages at a time, and prints a line: what one message costs. `rounds` is
// how often; before that it is warmed up.
void measure(struct subject subject, operation *op, void *context, unsigned rounds, unsigned messages);
// The same of an operation before each of which another one has to be done, which is not part of the figure. By the clock both are.
void measure_after(struct subject subject, operation *first, operation *op, void *context, unsigned rounds);
// The same of what takes so long that it is done once to warm up, and each time is a sample by either clock.
void measure_long(struct subject subject, operation *op, void *context, unsigned rounds);
// Says that something does not apply, and why.
void skip(struct subject subject, const char *why);
// Prints a line among the figures.
void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Says what went wrong, with errno, and ends the program.
_Noreturn void die(const char *what);

extern const char *system_name;
// Whether the clock counts instructions; otherwise nanoseconds.
extern bool instructions;
// Whether everything runs under SCHED_FIFO, if nothing else is said.
extern bool fifo;
// Changes the policy of the calling thread, and of what it starts.
void set_fifo(bool on);
// Put behind the name of each way.
extern const char *way_suffix;

// Starts `serve` in an address space of its own; it ends with us. Returns its process.
int start_server(void (*serve)(void *), void *context);
void end_server(int process);

// The patterns of client and server; and the paper's server, which replaces each pixel of a picture by its entry in a table of colours.
enum pattern { NULL_PROC, ARG_NO_RTN, ARG_RTN_NO_COPY, ARG_RTN_COPY, COLOUR_MAP, PATTERNS };
extern const char *const pattern_names[PATTERNS];
// The names when several messages are sent before an answer is taken; none where that is not measured.
extern const char *const async_names[PATTERNS];
// Colours of a table, which goes before the picture.
enum { COLOURS = 256 };
static inline size_t request_bytes(enum pattern pattern, size_t bytes) {
    return pattern == NULL_PROC ? 0 : pattern == COLOUR_MAP ? COLOURS + bytes : bytes;
}
static inline size_t reply_bytes(enum pattern pattern, size_t bytes) { return pattern >= ARG_RTN_NO_COPY ? bytes : 0; }
// What is returned for a request of so many bytes.
static inline size_t answer_bytes(enum pattern pattern, size_t request) {
    return reply_bytes(pattern, pattern == COLOUR_MAP ? request - COLOURS : request);
}

// Data to pass (`bytes` of them; before a picture its table besides), and results prepared in advance.
void fill_argument(enum pattern pattern, char *data, size_t bytes);
void fill_result(char *data, size_t bytes);
// The picture, by the table before it.
void map_colours(char *result, const char *data, size_t bytes);
// Ends the program if a result is not what the pattern makes of the data passed.
void check_result(enum pattern pattern, const char *result, size_t bytes);

// Messages that are sent before an answer is waited for. More of 8 KiB would not fit a socket's buffer.
enum { BURST = 8 };
// Of data, and of a request.
enum { GREATEST = 1 << 20, LONGEST = COLOURS + GREATEST };
// What a datagram takes.
enum { DATAGRAM = 65507 };
static inline unsigned rounds_for(size_t bytes) { return bytes > 65536 ? 20 : 200; }

void bench_apps(void);
void bench_calls(void);
void bench_entry(void);
void bench_memory(void);
void bench_sizes(void);
void bench_colours(void);
void bench_spawn(void);
void bench_sched(void);
void bench_pool(void);
void bench_pager(void);

// Messages by each way, for the patterns from `first` to `last`.
struct messages {
    const char *bench;
    enum pattern first, last;
    size_t bytes;
};
void null_messages(const char *bench);
void messages_by_channels(struct messages messages);
void messages_by_shared_memory(struct messages messages);
void messages_by_rpc(struct messages messages);

#endif
