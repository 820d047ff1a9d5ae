/* Notes what a process writes below one folder, and what of it has reached the disk.
 *
 * Preloaded: each call goes on to the C library, and a line of it goes to a journal. Paths are absolute, content is
 * hexadecimal. Only what this project and SQLite call is here; what is not is seen when the replay
 * does not end with the folder as it is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static ssize_t raw(int fd, const void *data, size_t size) { return syscall(SYS_write, fd, data, size); }

/* The path of a descriptor below the folder, or NULL. */
static const char *inside(int fd, char *path) {
    const char *folder = getenv("RECORDED_FOLDER");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = folder ? readlink(link, path, PATH_MAX - 1) : -1;
    if (size < 0) return NULL;
    path[size] = 0;
    return strncmp(path, folder, strlen(folder)) ? NULL : path;
}

static int whole(int at, const char *path, char *out) {
    const char *folder = getenv("RECORDED_FOLDER");
    char base[PATH_MAX] = "";
    if (!folder) return 0;
    if (path[0] != '/') {
        if (at == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
        else if (!inside(at, base)) return 0;
        snprintf(out, PATH_MAX, "%.2000s/%.2000s", base, path);
    } else snprintf(out, PATH_MAX, "%s", path);
    return !strncmp(out, folder, strlen(folder));
}

static void note(const char *word, const char *one, const char *two, long long number, const void *data, size_t size) {
    if (journal < 0) {
        const char *name = getenv("RECORDED_JOURNAL");
        if (!name) return;
        journal = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    char *line = malloc(2 * PATH_MAX + 100 + 2 * size);
    int at = sprintf(line, "%s\t%s\t%s\t%lld\t", word, one, two, number);
    for (size_t k = 0; k < size; k++) at += sprintf(line + at, "%02x", ((const unsigned char *) data)[k]);
    line[at++] = '\n';
    for (int done = 0; done < at;) {
        ssize_t step = raw(journal, line + done, at - done);
        if (step <= 0) abort();
        done += step;
    }
    free(line);
}

#define LOCKED(body) do { pthread_mutex_lock(&lock); body; pthread_mutex_unlock(&lock); } while (0)

static int opened(int fd, int was, int flags, const char *full) {
    if (fd >= 0 && (flags & O_CREAT) && was) LOCKED(note("create", full, "", 0, "", 0));
    if (fd >= 0 && (flags & O_TRUNC)) LOCKED(note("truncate", full, "", 0, "", 0));
    return fd;
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    int ours = whole(at, path, full), missing = ours && access(full, F_OK) != 0;
    int fd = syscall(SYS_openat, at, path, flags, mode);
    if (fd < 0) return -1;
    return ours ? opened(fd, missing, flags, full) : fd;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int open64(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return open_at(at, path, flags | O_LARGEFILE, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return open_at(at, path, flags | O_LARGEFILE, mode); }

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    struct stat is;
    off_t at = inside(fd, path) ? lseek(fd, 0, SEEK_CUR) : -1;
    if (at >= 0 && (fcntl(fd, F_GETFL) & O_APPEND) && !fstat(fd, &is)) at = is.st_size;
    ssize_t done = raw(fd, data, size);
    if (at >= 0 && done > 0) LOCKED(note("write", path, "", at, data, done));
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    char path[PATH_MAX];
    ssize_t done = syscall(SYS_pwrite64, fd, data, size, at);
    if (done > 0 && inside(fd, path)) LOCKED(note("write", path, "", at, data, done));
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

int ftruncate64(int fd, off_t size) {
    char path[PATH_MAX];
    int failed = syscall(SYS_ftruncate, fd, size);
    if (!failed && inside(fd, path)) LOCKED(note("truncate", path, "", size, "", 0));
    return failed;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int synced(int fd, int failed) {
    char path[PATH_MAX];
    if (!failed && inside(fd, path)) LOCKED(note("sync", path, "", 0, "", 0));
    return failed;
}
int fsync(int fd) { return synced(fd, syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return synced(fd, syscall(SYS_fdatasync, fd)); }

static int moved(const char *word, int failed, const char *one, const char *two) {
    char from[PATH_MAX], to[PATH_MAX] = "";
    if (!failed && whole(AT_FDCWD, one, from) && (!two[0] || whole(AT_FDCWD, two, to)))
        LOCKED(note(word, from, to, 0, "", 0));
    return failed;
}
int rename(const char *one, const char *two) { return moved("rename", REAL(rename)(one, two), one, two); }
int link(const char *one, const char *two) { return moved("link", REAL(link)(one, two), one, two); }
int linkat(int at, const char *one, int to, const char *two, int flags) {
    return moved("link", syscall(SYS_linkat, at, one, to, two, flags), one, two);
}
int unlink(const char *path) { return moved("unlink", REAL(unlink)(path), path, ""); }
int mkdir(const char *path, mode_t mode) { return moved("mkdir", REAL(mkdir)(path, mode), path, ""); }
int rmdir(const char *path) { return moved("rmdir", REAL(rmdir)(path), path, ""); }
int unlinkat(int at, const char *path, int flags) {
    char full[PATH_MAX];
    int ours = whole(at, path, full), failed = syscall(SYS_unlinkat, at, path, flags);
    if (!failed && ours) LOCKED(note(flags & AT_REMOVEDIR ? "rmdir" : "unlink", full, "", 0, "", 0));
    return failed;
}
