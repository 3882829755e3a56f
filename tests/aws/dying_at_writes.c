/* Preloaded into a driver: it is killed, -9, at one write of its ledger. A write is a transaction of SQLite's: what it
 * appends to the file ending in "ledger.db-wal", up to the sync that makes it last.
 *
 * $DIE_AT_WRITE is "before 3", "within 3" (the third write is begun, not complete) or "after 3". For each write that is
 * done a byte is appended to the file $WRITES_DONE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_HEADER_BYTES = 32 }; /* at the beginning of the file; no part of a transaction */

static int done;  /* writes */
static int begun; /* something of the next one is in the file */
static int parts; /* so many pieces of it */

static int is_ledger(int file) {
  static const char ending[] = "/ledger.db-wal";
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path);
  const ssize_t rest = length - (ssize_t)(sizeof ending - 1);
  return rest > 0 && memcmp(path + rest, ending, sizeof ending - 1) == 0;
}

static void reach(const char* moment) {
  char wanted[32];
  const char* at = getenv("DIE_AT_WRITE");
  snprintf(wanted, sizeof wanted, "%s %d", moment, done + 1);
  if (at && strcmp(at, wanted) == 0) kill(getpid(), SIGKILL);
}

ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t offset) {
  static ssize_t (*real)(int, const void*, size_t, off64_t);
  if (!real) real = (ssize_t(*)(int, const void*, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  if (is_ledger(file)) {
    if (!begun) reach("before");
    begun = 1;
    if (offset >= LOG_HEADER_BYTES && ++parts == 2) reach("within");
  }
  return real(file, bytes, count, offset);
}

int fdatasync(int file) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const int result = real(file);
  if (parts > 0 && is_ledger(file)) {
    const char* told = getenv("WRITES_DONE");
    int count = told ? open(told, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (count >= 0 && write(count, ".", 1) != 1) abort();
    if (count >= 0) close(count);
    reach("after");
    ++done;
    begun = parts = 0;
  }
  return result;
}
