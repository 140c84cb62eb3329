/* A disk that takes nothing while the file $SLOW_DISK exists: a write of an upload waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    char link[64], path[4096];
    const char *slow = getenv("SLOW_DISK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0 && slow) {
        path[length] = 0;
        if (strstr(path, "/incoming/"))
            while (!access(slow, F_OK)) {
                char waiting[4200];
                snprintf(waiting, sizeof waiting, "%s.waiting", slow);
                int made = open(waiting, O_WRONLY | O_CREAT, 0600);
                if (made >= 0) close(made);
                usleep(1000);
            }
    }
    return real(fd, bytes, count);
}
