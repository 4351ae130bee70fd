// Faults in the calls that change a disk, for files below one folder. Loaded by LD_PRELOAD; armed by `fault_arm`.
//
// Each call of write, pwrite, fwrite, ftruncate, fsync, fdatasync, rename, link, mkdir, unlink and of open for writing
// that concerns the folder is counted. From call `first` on, `times` of them fail with `number`, or the process is
// killed there. SQLite, HDF5 and Python all come through here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long first, times, count;
static int number, armed;
static char last[4400];

void fault_arm(const char *below, long at, long often, int error) {
  strncpy(folder, below, sizeof folder - 1);
  first = at, times = often, number = error, count = 0, last[0] = 0, armed = 1;
}
long fault_count(void) { return count; }
const char *fault_last(void) { return last; }
void fault_disarm(void) { armed = 0; }

static int concerns(const char *path) {
  return armed && path && strncmp(path, folder, strlen(folder)) == 0;
}
static int fails(const char *call, const char *path) {
  long now = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
  if (now < first || now >= first + times) return 0;
  if (now == first) snprintf(last, sizeof last, "%s %s", call, path);
  if (number == 0) kill(getpid(), SIGKILL);
  errno = number;
  return 1;
}
static int fd_fails(const char *call, int fd) {
  char link[64], path[4096];
  if (!armed) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return concerns(path) && fails(call, path);
}
static int path_fails(const char *call, const char *path) {
  char full[8192];
  if (!armed || !path) return 0;
  if (path[0] != '/') {
    if (!getcwd(full, 4096)) return 0;
    strcat(full, "/");
    strncat(full, path, 4000);
    path = full;
  }
  return concerns(path) && fails(call, path);
}
#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t n) {
  REAL(ssize_t, "write", int, const void *, size_t);
  return fd_fails("write", fd) ? -1 : real(fd, data, n);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
  REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
  return fd_fails("pwrite", fd) ? -1 : real(fd, data, n, at);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
  REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  return fd_fails("pwrite", fd) ? -1 : real(fd, data, n, at);
}
size_t fwrite(const void *data, size_t size, size_t n, FILE *stream) {
  REAL(size_t, "fwrite", const void *, size_t, size_t, FILE *);
  return fd_fails("fwrite", fileno(stream)) ? 0 : real(data, size, n, stream);
}
int ftruncate(int fd, off_t n) {
  REAL(int, "ftruncate", int, off_t);
  return fd_fails("ftruncate", fd) ? -1 : real(fd, n);
}
int ftruncate64(int fd, off64_t n) {
  REAL(int, "ftruncate64", int, off64_t);
  return fd_fails("ftruncate", fd) ? -1 : real(fd, n);
}
int fsync(int fd) {
  REAL(int, "fsync", int);
  return fd_fails("fsync", fd) ? -1 : real(fd);
}
int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  return fd_fails("fdatasync", fd) ? -1 : real(fd);
}
int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  return path_fails("rename", to) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
  REAL(int, "link", const char *, const char *);
  return path_fails("link", to) ? -1 : real(from, to);
}
int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  return path_fails("mkdir", path) ? -1 : real(path, mode);
}
int unlink(const char *path) {
  REAL(int, "unlink", const char *);
  return (number == 0 || number == EROFS) && path_fails("unlink", path) ? -1 : real(path);
}
static int opened(const char *call, const char *path, int flags, int (*real)(const char *, int, ...), mode_t mode) {
  if ((flags & (O_CREAT | O_WRONLY | O_RDWR)) && (number != EIO) && path_fails(call, path)) return -1;
  return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
  REAL(int, "open", const char *, int, ...);
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened("open", path, flags, real, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(int, "open64", const char *, int, ...);
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened("open", path, flags, real, mode);
}
