// Client and server by Sun RPC (libtirpc), over UDP as in the paper, and over TCP, which takes more than a datagram.
// By TCP what returns nothing can be sent without waiting, several calls at once: with a limit of no time and no function for a
// result. (By UDP the library then sends nothing.) Arguments and results are counted byte strings in XDR, a picture one with its
// table; what is decoded by the server is allocated and freed as by rpcgen's programs.
#define _GNU_SOURCE
#include "peer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rpc/rpc.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROGRAM = 0x20000001, VERSION = 1, UDP_BUFFER = 10000, UDP_HEADERS = 400 };

struct string {
    u_int length;
    char *bytes;
};

static char argument[LONGEST], result[GREATEST], decoded[GREATEST];
static size_t size;

static bool_t xdr_string_of_bytes(XDR *xdr, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, xdr);
    struct string *string = __builtin_va_arg(arguments, struct string *);
    __builtin_va_end(arguments);
    return xdr_bytes(xdr, &string->bytes, &string->length, LONGEST);
}

static bool_t xdr_nothing(XDR *xdr, ...) {
    (void)xdr;
    return TRUE;
}

// The procedures are the patterns; behind them those that return nothing, without an answer.
static void dispatch(struct svc_req *call, SVCXPRT *transport) {
    struct string in = {0, NULL}, out = {0, result};
    bool oneway = call->rq_proc >= PATTERNS;
    if (call->rq_proc == NULL_PROC) {
        svc_sendreply(transport, xdr_nothing, NULL);
        return;
    }
    if (call->rq_proc == PATTERNS + NULL_PROC) return;
    if (call->rq_proc > PATTERNS + ARG_NO_RTN) {
        svcerr_noproc(transport);
        return;
    }
    if (!svc_getargs(transport, xdr_string_of_bytes, &in)) {
        svcerr_decode(transport);
        return;
    }
    bool is_picture = call->rq_proc == COLOUR_MAP;
    if (is_picture ? in.length < COLOURS : in.length > GREATEST) {
        svcerr_decode(transport);
        svc_freeargs(transport, xdr_string_of_bytes, &in);
        return;
    }
    out.length = answer_bytes(call->rq_proc, in.length);
    if (call->rq_proc == ARG_RTN_COPY) memcpy(result, in.bytes, in.length);
    if (is_picture) map_colours(result, in.bytes, out.length);
    bool returns = !oneway && call->rq_proc >= ARG_RTN_NO_COPY;
    if (!oneway) svc_sendreply(transport, returns ? xdr_string_of_bytes : xdr_nothing, returns ? &out : NULL);
    svc_freeargs(transport, xdr_string_of_bytes, &in);
}

static void serve(void *context) {
    SVCXPRT *transport = context;
    if (!svc_reg(transport, PROGRAM, VERSION, dispatch, NULL)) die("svc_reg");
    svc_run();
}

struct client {
    CLIENT *handle;
    enum pattern pattern;
};

static void call(void *context) {
    struct client *client = context;
    struct string in = {request_bytes(client->pattern, size), argument}, out = {0, decoded};
    bool takes = client->pattern != NULL_PROC, returns = client->pattern >= ARG_RTN_NO_COPY;
    enum clnt_stat status =
        clnt_call(client->handle, client->pattern, takes ? xdr_string_of_bytes : xdr_nothing, takes ? &in : NULL,
                  returns ? xdr_string_of_bytes : xdr_nothing, returns ? &out : NULL, ((struct timeval){25, 0}));
    errno = EPROTO;
    if (status != RPC_SUCCESS) die(clnt_sperrno(status));
    if (returns && out.length != size) die("the length of a result");
}

// Only the last of them is answered.
static void burst(void *context) {
    struct client *client = context;
    struct string in = {size, argument};
    bool takes = client->pattern != NULL_PROC;
    for (int i = 1; i < BURST; i++) {
        enum clnt_stat status = clnt_call(client->handle, PATTERNS + client->pattern, takes ? xdr_string_of_bytes : xdr_nothing,
                                          takes ? &in : NULL, NULL, NULL, ((struct timeval){0, 0}));
        errno = EPROTO;
        if (status != RPC_SUCCESS) die(clnt_sperrno(status));
    }
    call(context);
}

static void measure_client(const char *way, CLIENT *handle, bool has_async, int server, struct messages m) {
    if (!handle) die(clnt_spcreateerror("a client"));
    for (enum pattern pattern = m.first; pattern <= m.last; pattern++) {
        struct client client = {handle, pattern};
        fill_argument(pattern, argument, size);
        measure((struct subject){m.bench, pattern_names[pattern], way, m.bytes}, call, &client, rounds_for(m.bytes), 1);
        check_result(pattern, decoded, m.bytes);
        if (!has_async || !async_names[pattern] || reply_bytes(pattern, 1) > 0) continue;
        measure((struct subject){m.bench, async_names[pattern], way, m.bytes}, burst, &client, rounds_for(m.bytes), BURST);
    }
    clnt_destroy(handle);
    end_server(server);
}

static struct sockaddr_in bound(int sock) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (sock < 0 || bind(sock, (void *)&address, length) || getsockname(sock, (void *)&address, &length)) die("bind");
    return address;
}

static void by_udp(struct messages m) {
    struct timeval patience = {25, 0};
    int sock = socket(AF_INET, SOCK_DGRAM, 0), any = RPC_ANYSOCK;
    struct sockaddr_in address = bound(sock);
    SVCXPRT *transport = svc_dg_create(sock, UDP_BUFFER, UDP_BUFFER);
    if (!transport) die("svc_dg_create");
    int server = start_server(serve, transport);
    CLIENT *client = clntudp_bufcreate(&address, PROGRAM, VERSION, patience, &any, UDP_BUFFER, UDP_BUFFER);
    measure_client("sunrpc-udp", client, false, server, m);
    svc_destroy(transport);
}

static void by_tcp(struct messages m) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = bound(listener);
    if (listen(listener, 1)) die("TCP");
    SVCXPRT *transport = svc_vc_create(listener, 0, 0);
    if (!transport) die("svc_vc_create");
    int server = start_server(serve, transport);
    // Without it a message in two segments waits for a delayed acknowledgement.
    if (setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("TCP");
    if (connect(client, (void *)&address, sizeof address)) die("TCP");
    measure_client("sunrpc-tcp", clnttcp_create(&address, PROGRAM, VERSION, &client, 0, 0), true, server, m);
    close(client);
    svc_destroy(transport);
}

void messages_by_rpc(struct messages m) {
    size = m.bytes;
    fill_result(result, size);
    if (request_bytes(m.last, m.bytes) <= UDP_BUFFER - UDP_HEADERS) {
        by_udp(m);
    } else {
        for (enum pattern pattern = m.first; pattern <= m.last; pattern++) {
            struct subject subject = {m.bench, pattern_names[pattern], "sunrpc-udp", m.bytes};
            skip(subject, "more than a datagram takes");
        }
    }
    by_tcp(m);
}
