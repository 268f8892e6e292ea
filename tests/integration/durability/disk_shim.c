/* Preloaded into a server: what its disk does is what a file says (one byte, read anew at every call, DISK_SHIM_FILE):
 * 's': every flush takes a second longer; 'r': read-only, as ext4 makes itself after an error: writes and flushes of what lies
 * in DISK_SHIM_FOLDER fail with EROFS, reads go on. Else nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const volatile char* state;

__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("DISK_SHIM_FILE");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) state = mapped;
  close(file);
}

static int lies_there(int file) {
  char link[64], path[PATH_MAX];
  const char* folder = getenv("DISK_SHIM_FOLDER");
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  return folder != NULL && size > 0 && strncmp(path, folder, strlen(folder)) == 0;
}

static int refused(int file) {
  if (state == NULL || *state != 'r' || !lies_there(file)) return 0;
  errno = EROFS;
  return 1;
}

static void be_slow(int file) {
  if (state != NULL && *state == 's' && lies_there(file)) usleep(1000000);
}

ssize_t pwrite(int file, const void* bytes, size_t size, off_t at) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  return refused(file) ? -1 : real(file, bytes, size, at);
}

ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t at) {
  static ssize_t (*real)(int, const void*, size_t, off64_t);
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  return refused(file) ? -1 : real(file, bytes, size, at);
}

int fdatasync(int file) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  be_slow(file);
  return refused(file) ? -1 : real(file);
}

int fsync(int file) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  be_slow(file);
  return refused(file) ? -1 : real(file);
}
