#include "skyward/io/file_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "skyward/base/time.h"
#include "skyward/io/daemon.h"

namespace skyward::io {

namespace {

// Whoever asks for the holder (noted_holder) holds the lock itself for a moment, shared with others
// who ask: mostly microseconds, longer if its thread has to wait for a processor.
constexpr Duration kAskPatience = std::chrono::seconds(10);
constexpr Duration kProbeTime = std::chrono::milliseconds(1);
// What an asker may need to release it when none is seen.
constexpr int kProbes = 20;

// Whether those who have locked the file are only asking.
bool is_only_asked(int file) {
  if (::flock(file, LOCK_SH | LOCK_NB) != 0) return false;
  ::flock(file, LOCK_UN);
  return true;
}

// Another user may have put a pipe there, which would wait for its other end.
FileDescriptor open_to_look(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// Of an open file.
std::optional<int> holder_of_file(int file) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return 0;
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return noted_holder(file);
}

// A fork copies descriptors, and with them the locks. So the child puts something else in their
// places; the mutex is held meanwhile, so that it finds this list whole.
struct Held {
  std::mutex mutex;
  std::set<int> descriptors;

  Held() {
    ::pthread_atfork([] { held().mutex.lock(); }, [] { held().mutex.unlock(); }, let_go);
  }

  static Held& held() {
    static Held& all = *new Held;  // locks may be destroyed after all else
    return all;
  }

  static void let_go() {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int descriptor : held().descriptors) {
      if (nothing >= 0) {
        ::dup3(nothing, descriptor, O_CLOEXEC);
      } else {
        ::close(descriptor);
      }
    }
    if (nothing >= 0) ::close(nothing);
    held().descriptors.clear();
    held().mutex.unlock();
  }
};

}  // namespace

std::unique_ptr<FileLock> FileLock::try_lock(const std::string& path) {
  auto made =
      lock(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)),
           kProbes);
  if (made) note_holder(made->file_.get());
  return made;
}

std::unique_ptr<FileLock> FileLock::try_lock_directory(const std::string& path) {
  return lock(FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)),
              0);
}

std::unique_ptr<FileLock> FileLock::lock(FileDescriptor file, int probes) {
  if (!file) return nullptr;
  const int descriptor = file.get();
  const auto until = std::chrono::steady_clock::now() + kAskPatience;
  std::unique_lock guard(Held::held().mutex);
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || probes == 0) return nullptr;
    if (std::chrono::steady_clock::now() > until || !is_only_asked(descriptor)) --probes;
    guard.unlock();  // others may fork meanwhile, or release theirs
    std::this_thread::sleep_for(kProbeTime);
    guard.lock();
  }
  Held::held().descriptors.insert(descriptor);
  return std::unique_ptr<FileLock>(new FileLock(std::move(file)));
}

std::optional<int> FileLock::holder(const std::string& path) {
  const FileDescriptor file = open_to_look(path);
  if (file) return holder_of_file(file.get());
  const bool is_none = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO;
  return is_none ? std::nullopt : std::optional(0);
}

LockWatch::LockWatch(std::string path) : path_(std::move(path)), file_(open_to_look(path_)) {}

std::optional<int> LockWatch::holder() const {
  return file_ ? holder_of_file(file_.get()) : FileLock::holder(path_);
}

FileLock::~FileLock() {
  const std::scoped_lock lock(Held::held().mutex);
  Held::held().descriptors.erase(file_.get());
  file_.reset();
}

}  // namespace skyward::io
