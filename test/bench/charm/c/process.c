// A process of Charm++'s layer netlrts as far as its launcher can know: it reports its port, takes
// the table of all processes, meets the others in a barrier and ends. It forks further processes
// where charmrun wants it, as programs of Charm++ do (++scalable-start). It is not linked with
// Charm++, so that a launch is measured and not the program.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(3);
    }
}

static void put(int fd, const void *data, size_t n) {
    for (const char *p = data; n > 0;) {
        ssize_t done = write(fd, p, n);
        check(done > 0, "write");
        p += done;
        n -= (size_t)done;
    }
}

static void get(int fd, void *data, size_t n) {
    for (char *p = data; n > 0;) {
        ssize_t done = read(fd, p, n);
        check(done > 0, "read");
        p += done;
        n -= (size_t)done;
    }
}

static void frame(int fd, const char *type, const void *data, uint32_t n) {
    char head[16] = {0};
    uint32_t length = htonl(n);
    memcpy(head, &length, sizeof length);
    memcpy(head + 4, type, strlen(type)); // 12 bytes at most
    put(fd, head, sizeof head);
    put(fd, data, n);
}

// join opens a port for data, connects and reports it as process number rank.
static int join(const struct sockaddr_in *server, uint32_t rank) {
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t size = sizeof own;
    int data = socket(AF_INET, SOCK_DGRAM, 0), fd, connected;
    check(bind(data, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    check(getsockname(data, (struct sockaddr *)&own, &size) == 0, "getsockname");
    for (int tries = 0;; tries++) { // as programs of Charm++ do
        fd = socket(AF_INET, SOCK_STREAM, 0);
        connected = connect(fd, (const struct sockaddr *)server, sizeof *server) == 0;
        if (connected || tries == 600) {
            break;
        }
        close(fd);
        usleep(100000);
    }
    check(connected, "connect");
    uint32_t init[10] = {rank, 1, 1, 1, rank, 1, 1, ntohs(own.sin_port), 0, INADDR_LOOPBACK};
    for (int i = 0; i < 10; i++) {
        init[i] = htonl(init[i]);
    }
    frame(fd, "initnode", init, sizeof init);
    return fd;
}

int main(void) {
    unsigned rank, port, pid, last;
    char host[256];
    const char *start = getenv("NETSTART"), *forks = getenv("CmiMyForks");
    check(start && sscanf(start, "%u %255s %u %u %u", &rank, host, &port, &pid, &last) == 5, "NETSTART");
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    check(inet_pton(AF_INET, host, &server.sin_addr) == 1, host);
    for (int i = 1, n = forks ? atoi(forks) : 0; i <= n; i++) {
        if (fork() == 0) {
            rank += (unsigned)i;
            break;
        }
    }
    int fd = join(&server, rank);
    for (int ended = 0;;) {
        char head[16];
        uint32_t length;
        if (ended && read(fd, head, 1) <= 0) {
            return 0; // all have ended
        }
        get(fd, head, sizeof head);
        memcpy(&length, head, sizeof length);
        length = ntohl(length);
        char *data = malloc(length + 1);
        get(fd, data, length);
        if (memcmp(head + 4, "nodefork", 8) == 0) {
            uint32_t how[2]; // many, and the first one's number
            memcpy(how, data, sizeof how);
            for (uint32_t i = 0; i < ntohl(how[0]); i++) {
                if (fork() == 0) {
                    close(fd);
                    fd = join(&server, ntohl(how[1]) + i);
                    break;
                }
            }
        } else if (memcmp(head + 4, "initnodetab", 11) == 0) {
            frame(fd, "barrier", "", 0);
        } else if (memcmp(head + 4, "barrier", 7) == 0) {
            frame(fd, "ending", "0", 2);
            ended = 1;
        } else {
            return 3;
        }
        free(data);
    }
}
