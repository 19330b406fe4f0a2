/* SPDX-License-Identifier: MIT */
/*
 * A Redis server as a peer: 100,000 commands are sent over one RLSocket without waiting for answers, and
 * every answer comes back, in order (S-SOCK-23, S-SOCK-29, S-SOCK-43). The client works like the adapters
 * that drive a Redis client by CFSocket: a Connect, a Read and a Write type on a non-blocking descriptor,
 * Write enabled while there is something to send.
 *
 * The server is started here, on a socket in a folder of its own. Without one the program ends with 77.
 */
#define _GNU_SOURCE
#include <runloop/runloop.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/runloop-redis-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static pid_t server;

static void clean_up(void) {
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    unlink(address.sun_path);
    rmdir(folder);
}

static void fail(const char *text) {
    printf("%s: %s\n", text, strerror(errno));
    exit(1);
}

/* What is to be sent, and how far that is; what is to come, and how far that is. */
static char *commands, *answers;
static size_t commands_length, answers_length, sent, received;
static int connects, reads, writes;

static void made_progress(void) {
    if (received == answers_length) RLStop(RLGetCurrent());
}

static void callback(RLSocketRef s, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)peer;
    (void)info;
    int fd = RLSocketGetNative(s);
    if (type == kRLSocketConnectCallBack) {
        connects++;
        if (data != NULL) fail("connect");
    } else if (type == kRLSocketWriteCallBack) {
        writes++;
        ssize_t count = send(fd, commands + sent, commands_length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN) fail("send");
        if (count > 0) sent += (size_t)count;
        if (sent < commands_length) RLSocketEnableCallBacks(s, kRLSocketWriteCallBack);
    } else {
        char text[16384];
        reads++;
        ssize_t count = recv(fd, text, sizeof text, MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EAGAIN)) fail("recv");
        if (count <= 0) return;
        if (received + (size_t)count > answers_length || memcmp(text, answers + received, (size_t)count) != 0) {
            printf("the answers from byte %zu on are not those expected\n", received);
            exit(1);
        }
        received += (size_t)count;
        made_progress();
    }
}

static void start_server(void) {
    if (mkdtemp(folder) == NULL) fail("mkdtemp");
    atexit(clean_up);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) fail("pipe2");
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", address.sun_path, "--save", "",
               "--appendonly", "no", "--dir", folder, (char *)NULL);
        _exit(write(failure[1], "x", 1) == 1 ? 1 : 2);
    }
    close(failure[1]);
    char byte;
    if (read(failure[0], &byte, 1) != 0) {
        waitpid(child, NULL, 0);
        printf("skipped: there is no redis-server\n");
        exit(77);
    }
    server = child;
    /* Until it listens; there is no event to wait for. */
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(probe, (struct sockaddr *)&address, sizeof address) != 0) {
        if (waitpid(child, NULL, WNOHANG) == child) fail("redis-server");
        usleep(1000);
    }
    close(probe);
}

static void add(char **text, size_t *length, const char *words) {
    size_t count = strlen(words);
    memcpy(*text + *length, words, count + 1);
    *length += count;
}

int main(void) {
    const char *scale = getenv("RL_STRESS_SCALE");
    int divisor = scale != NULL && atoi(scale) > 0 ? atoi(scale) : 1, total = 100000 / divisor;
    start_server();
    commands = malloc((size_t)total * 64);
    answers = malloc((size_t)total * 32);
    for (int i = 1; i <= total; i++) {
        char line[64];
        add(&commands, &commands_length, "*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n");
        snprintf(line, sizeof line, ":%d\r\n", i);
        add(&answers, &answers_length, line);
    }
    RLSocketRef s = RLSocketCreate(PF_UNIX, SOCK_STREAM, 0,
                                   kRLSocketConnectCallBack | kRLSocketReadCallBack | kRLSocketWriteCallBack,
                                   callback, NULL);
    if (s == NULL) fail("RLSocketCreate");
    RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    if (RLSocketConnectToAddress(s, &address, sizeof address, -1) != kRLSocketSuccess) fail("RLSocketConnectToAddress");
    RLRun();
    RLSocketInvalidate(s);
    RLRelease(s);
    printf("%d commands, %zu of %zu bytes of answers; %d connect, %d writes, %d reads\n", total, received,
           answers_length, connects, writes, reads);
    free(commands);
    free(answers);
    return received == answers_length && connects == 1 && writes >= 1 ? 0 : 1;
}
