/* SPDX-License-Identifier: MIT */
/* What message ports need from the kernel and libbsd and Swift cannot import: ancillary data, sealed memory files, peer
 * credentials and lock files. Nothing here is a cancellation point, returns EINTR or raises SIGXFSZ. */
#ifndef CLINUX_MESSAGES_H
#define CLINUX_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>

/* What one recvmsg took. */
typedef struct rl_datagram {
    /* Bytes received; 0 at the end of the connection, -1 with errno if there is no datagram. */
    ssize_t length;
    /* Descriptors received, close-on-exec. */
    int descriptors;
    /* The datagram was longer than the buffer. */
    bool is_cut;
    /* Descriptors were sent that could not be received. */
    bool lost_descriptors;
    /* The sender's credentials came too, as the socket was asked to pass them. */
    bool has_credentials;
    pid_t process;
    uid_t user;
    gid_t group;
} rl_datagram;

/* The most descriptors that travel with one datagram, the kernel's SCM_MAX_FD. */
enum { RL_MAX_DESCRIPTORS = 253 };

/* A socket for datagrams in order over a connection, close-on-exec and never blocking. */
int rl_message_socket(void) __attribute__((visibility("hidden")));

/* Sends head and body as one datagram, with descriptors. Never blocks, raises no SIGPIPE. 0, or an
 * errno. */
int rl_message_send(int socket, const void *head, size_t head_length, const void *body,
                    size_t body_length, const int *descriptors, int count) __attribute__((visibility("hidden")));

/* The same; how many bytes were taken, which may be fewer of a stream, or a negative errno. */
ssize_t rl_send_with_descriptors(int socket, const void *head, size_t head_length, const void *body,
                                 size_t body_length, const int *descriptors, int count)
    __attribute__((visibility("hidden")));

/* Takes one datagram. `descriptors` has room for RL_MAX_DESCRIPTORS. */
rl_datagram rl_message_receive(int socket, void *bytes, size_t capacity, int *descriptors)
    __attribute__((visibility("hidden")));

/* The same for a connection, where the end of a peer that left something unread is no error: what it had sent comes, then the end. */
rl_datagram rl_message_take_here(int socket, void *bytes, size_t capacity, int *descriptors) __attribute__((visibility("hidden")));

/* The same for a connection that one thread at a time reads, of a peer that is not trusted. If the process may have too few numbers left for what
 * the datagram brings, none of it comes, and the caller does not wait as in close(2) for what lingers in it. */
rl_datagram rl_message_take(int socket, void *bytes, size_t capacity, int *descriptors) __attribute__((visibility("hidden")));

/* The same, but such a datagram stays in the queue, and only its credentials and that its descriptors are lost are told. */
rl_datagram rl_message_take_whole(int socket, void *bytes, size_t capacity, int *descriptors) __attribute__((visibility("hidden")));

/* As rl_message_receive; the sender's address, unless it is NULL, is a struct sockaddr_storage. */
rl_datagram rl_message_receive_from(int socket, void *bytes, size_t capacity, int *descriptors, struct sockaddr_storage *address,
                                    socklen_t *address_length) __attribute__((visibility("hidden")));

/* Closes a descriptor that a peer sent. The last close of a socket with SO_LINGER waits, for as long as the option says, until its
 * peer has taken what was sent, even if the socket is non-blocking: see socket(7). It waits for the socket's lock too, which the peer may hold, and
 * closes the sockets queued in a local one. So a thread of the library makes the last close of each socket, and of files without a kind, by ending: a
 * thread that ends does not wait for what lingers, and nobody waits for its files. For a moment it has all files of the process. The second function
 * skips negative numbers. */
void rl_drop(int descriptor) __attribute__((visibility("hidden")));
void rl_drop_all(const int *descriptors, int count) __attribute__((visibility("hidden")));
/* Closes one of the program's: in that way if it is a socket that lingers. */
void rl_close_without_wait(int descriptor) __attribute__((visibility("hidden")));

/* In the child of fork, which has no such threads. */
void rl_forget_droppers(void) __attribute__((visibility("hidden")));

/* Gives the calling thread a descriptor table of its own, with all files of the process. False where the kernel refuses that. */
bool rl_own_table(void) __attribute__((visibility("hidden")));

/* What is done with a descriptor where there are numbers for what comes through it: so many, or 0 where the table is the process's. It returns
 * whether more is to be done, with other numbers. */
typedef bool rl_elsewhere_body(int descriptor, int room);

/* If the process has no number left, the kernel closes what a datagram brings in the thread that takes it, which then waits as in close(2). A thread
 * with a table of its own has room. The other files of the table therefore stay open a moment longer. Without such a thread it is done here. */
bool rl_do_elsewhere(rl_elsewhere_body *body, int descriptor) __attribute__((visibility("hidden")));

/* Closes the caller's end of a connection, for all processes that have it, with what is queued in it: see rl_drop. The second one
 * closes a listening socket with the connections that have not been accepted. The first returns whether descriptors were queued, which
 * cost the caller much more than the rest does. */
bool rl_close_connection(int connection) __attribute__((visibility("hidden")));
void rl_close_listener(int listener) __attribute__((visibility("hidden")));

/* A connection from the queue of a listening socket, close-on-exec and never blocking; or -1. */
int rl_message_accept(int listener) __attribute__((visibility("hidden")));

/* Whether a process of this user made the other end of a connection, and which process of which user did, if the kernel says so. */
bool rl_is_own_peer(int socket, uid_t *user, pid_t *process) __attribute__((visibility("hidden")));

/* Whether the other end of a connection was closed. Where poll is refused, as with a limit of no descriptors, a send tells. */
bool rl_has_ended(int socket) __attribute__((visibility("hidden")));

/* Whether something can be received, or the end. Where poll is refused, a look at the first byte tells. */
bool rl_is_readable(int socket) __attribute__((visibility("hidden")));
/* What of the events of poll(2) there is, after such a wait. Where poll is refused, as with a limit of no descriptors, all of them,
 * at most a hundredth of a second later: who asks makes calls that do not wait. */
short rl_wait_ready(int socket, short events, int milliseconds) __attribute__((visibility("hidden")));
/* The room, as the kernel counts it, of what the other end has not taken. */
int rl_queued_room(int socket) __attribute__((visibility("hidden")));
/* How many connections a port takes: half of the numbers that the process may have. */
long rl_most_connections(void) __attribute__((visibility("hidden")));

/* One write to standard error, whose reader may be gone: it raises no SIGPIPE either. False if not all was taken, as where there is no room and the
 * line may not wait for it: a terminal or a stream may have taken a part. */
bool rl_write_line(const void *bytes, size_t length, bool may_wait) __attribute__((visibility("hidden")));
/* Replaces the file's contents by the bytes. */
bool rl_write_file(int file, const char *bytes, size_t length) __attribute__((visibility("hidden")));
/* Its two steps: the length, and the bytes at the beginning. */
bool rl_set_length(int file, size_t length) __attribute__((visibility("hidden")));
bool rl_write_contents(int file, const char *bytes, size_t length) __attribute__((visibility("hidden")));

/* A file without a name in memory, close-on-exec, that holds the bytes, which no process can change; or -1. */
int rl_sealed_memory(const void *bytes, size_t length) __attribute__((visibility("hidden")));
/* One of a length that no process can change, without memory yet; or -1. */
int rl_kept_memory(size_t length) __attribute__((visibility("hidden")));
/* Takes memory for a range of it; without that a store to the range could end the process by SIGBUS. */
bool rl_take_room(int file, size_t offset, size_t length) __attribute__((visibility("hidden")));
/* The same from the beginning of any file, which may be longer than RLIMIT_FSIZE allows: no signal is raised then. */
bool rl_take_file_room(int file, size_t length) __attribute__((visibility("hidden")));
/* One pwrite(2) to any file, which raises no signal either. */
ssize_t rl_write_at(int file, const void *bytes, size_t length, off_t offset) __attribute__((visibility("hidden")));
void rl_write_word(int file, uint32_t word, size_t offset) __attribute__((visibility("hidden")));

/* Whether it is a memory file with so many bytes and, except for 32768 bytes, with memory for them; a sealed one has exactly
 * these bytes, and they cannot change. */
bool rl_holds(int file, size_t length, bool is_sealed) __attribute__((visibility("hidden")));
/* Whether it is a memory file, which can be read without waiting. */
bool rl_is_memory(int file) __attribute__((visibility("hidden")));

/* Maps a file's first bytes for reading; NULL without room for them. */
void *rl_map_file(int file, size_t length) __attribute__((visibility("hidden")));
/* The same for reading and writing. */
void *rl_map_kept(int file, size_t length) __attribute__((visibility("hidden")));

/* Memory for so many bytes, zeroed, that is taken as they are touched, in large pages where possible: new, with NULL, or what there is with its
 * contents, perhaps at other addresses. NULL without room; what there is stays as it is then. */
void *rl_grow_mapping(void *pages, size_t length, size_t grown) __attribute__((visibility("hidden")));

/* Opens, makes and locks a lock file; flopen(3bsd). -1 with EWOULDBLOCK if it is held already. */
int rl_lock_file(const char *path) __attribute__((visibility("hidden")));

/* Whether the path names the file. */
bool rl_is_path_of(int file, const char *path) __attribute__((visibility("hidden")));

/* Opens a file that is not a link for reading, close-on-exec; or -1. */
int rl_open_read(const char *path) __attribute__((visibility("hidden")));

/* Whether the path is a directory of this user's and of nobody else's, not a link, with none of these permissions. */
bool rl_is_own_folder(const char *path, mode_t closed) __attribute__((visibility("hidden")));

/* Binds the socket to a path, or connects it. 0, or an errno. */
int rl_unix_bind(int socket, const char *path) __attribute__((visibility("hidden")));
int rl_unix_connect(int socket, const char *path) __attribute__((visibility("hidden")));

#endif
