/* Notes each file that is synced, with its size at that moment: what a power cut would leave of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(int fd) {
    char link[64], path[4096], line[4200];
    struct stat found;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    const char *log = getenv("SYNCED_LOG");
    if (length < 0 || !log || fstat(fd, &found)) return;
    path[length] = 0;
    snprintf(line, sizeof line, "%lld %s\n", (long long)found.st_size, path);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0) return;
    if (write(out, line, strlen(line)) < 0) abort();
    close(out);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int code = real(fd);
    note(fd);
    return code;
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int code = real(fd);
    note(fd);
    return code;
}
