/* SPDX-License-Identifier: MIT */
/* See support_share.h. The requests and answers are those of S-OUT-3. */
#define _GNU_SOURCE
#include "support_share.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char directory[] = "/tmp/rl-share-XXXXXX";
static pid_t directory_owner;

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path);
    return 0;
}
/* Children of the case end with the same list of functions. */
static void remove_directory(void) {
    if (getpid() == directory_owner) nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void share_alone(void) {
    ck_assert_int_eq(directory_owner, 0);
    ck_assert_ptr_nonnull(mkdtemp(directory));
    directory_owner = getpid();
    ck_assert_int_eq(atexit(remove_directory), 0);
    setenv("XDG_RUNTIME_DIR", directory, 1);
}

/* The path of the socket whose lock file has the name. */
static bool find_socket(int number, char *path, size_t size) {
    char folder[64], name[64], content[64];
    snprintf(folder, sizeof folder, "%s/runloop", getenv("XDG_RUNTIME_DIR"));
    snprintf(name, sizeof name, "RunLoop.shared.%d", number);
    DIR *entries = opendir(folder);
    bool is_found = false;
    for (struct dirent *entry; entries && !is_found && (entry = readdir(entries));) {
        if (strlen(entry->d_name) != 37 || strlen(folder) > 60 || strcmp(entry->d_name + 32, ".lock") != 0) continue;
        snprintf(path, size, "%s/%.37s", folder, entry->d_name);
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t length = file < 0 ? 0 : read(file, content, sizeof content - 1);
        if (file >= 0) close(file);
        content[length > 0 ? length : 0] = '\0';
        is_found = strcmp(content, name) == 0;
        memcpy(path + strlen(path) - 4, "port", 4);
    }
    if (entries) closedir(entries);
    return is_found;
}

struct sockaddr_un share_address(int number) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!find_socket(number, address.sun_path, sizeof address.sun_path)) address.sun_path[0] = '\0';
    return address;
}

int share_connect(int number) {
    const struct sockaddr_un address = share_address(number);
    if (address.sun_path[0] == '\0') return -1;
    const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) == 0) return connection;
    if (connection >= 0) close(connection);
    return -1;
}

int share_connect_soon(int number) {
    int connection;
    while ((connection = share_connect(number)) < 0) take_time(0.001);
    return connection;
}

bool share_send(int connection, const char *request) {
    return send(connection, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request);
}

static bool is_readable(int connection) {
    struct pollfd entry = {connection, POLLIN, 0};
    return poll(&entry, 1, 10000) > 0;
}

char *share_receive(int connection) {
    size_t length = 0, room = 65536;
    char *text = malloc(room);
    char last = '+';
    while (last == '+') {
        if (room < length + 40000) text = realloc(text, room *= 2);
        const ssize_t count = is_readable(connection) ? recv(connection, text + length, 40000, 0) : 0;
        if (count <= 0) {
            free(text);
            return NULL;
        }
        last = text[length];
        ck_assert(last == '+' || last == '.');
        memmove(text + length, text + length + 1, (size_t)count - 1);
        length += (size_t)count - 1;
    }
    text[length] = '\0';
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

char *share_ask(int connection, const char *request) { return share_send(connection, request) ? share_receive(connection) : NULL; }

bool share_ends(int connection) {
    char byte;
    return is_readable(connection) && recv(connection, &byte, 1, 0) <= 0;
}

const char *share_value(const char *answer, RLRunLoopRef loop, const char *name) {
    static char value[512];
    char key[64];
    snprintf(key, sizeof key, "\"loop\":\"%p\"", (void *)loop);
    const char *line = strstr(answer, key);
    ck_assert_msg(line != NULL, "%p is not in: %s", (void *)loop, answer);
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(line, key);
    ck_assert_msg(found != NULL, "no \"%s\" in: %s", name, line);
    found += strlen(key);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(found, ",}\n"), found);
    return value;
}

int share_threads(void) {
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        if (fgets(name, sizeof name, file) && strcmp(name, "RunLoop.shared\n") == 0) found++;
        fclose(file);
    }
    closedir(tasks);
    return found;
}
