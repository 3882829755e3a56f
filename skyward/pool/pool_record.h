#pragma once

// The log files of a pool, which remain when its machines are gone:
//
//   <root>/<date>-<time>-<job id>/pool.log     what happened, as the log display shows it
//                                 node-0.log   what tasks printed: time, task, stream, line
//                                 metrics.csv  how busy the nodes were
//                                 providers    where machines were asked for, a line each
//                                 lock         held by the program while the pool is open
//
// Only this user can read it. Each file is rotated at 10 MiB: one older part stays as node-0.log.1.
// Kept are the newest 100 local pools and the newest 100 others, 5 GB in all, and whatever of the
// others was written to within a day.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "skyward/display/display.h"
#include "skyward/io/appended_file.h"
#include "skyward/io/file_lock.h"
#include "skyward/spec/event.h"

namespace skyward {

class PoolRecord {
 public:
  // Creates nothing yet. `root` is an absolute path, created with the first event.
  PoolRecord(std::string root, std::string job_id);

  // Writes new events; `wall_us`: now, in microseconds since 1970. Blocks for as long as the disk
  // does. If the files cannot be written, as on a full disk, returns why the first time, and empty
  // otherwise. What comes in the next ten seconds is dropped, then it tries again; pool.log says
  // how much is missing.
  std::optional<std::string> keep(std::span<const Event> events, std::int64_t wall_us);
  // The pool has closed: it is not shown as open any more.
  void close() { lock_.reset(); }

  static constexpr std::uintmax_t kFileBytes = std::uintmax_t{10} << 20;
  static constexpr std::size_t kPools = 100;  // local ones; as many others
  static constexpr std::uintmax_t kBytesOfAll = 5'000'000'000;

 private:
  struct File {
    io::AppendedFile text;
    std::uintmax_t size = 0;
  };

  bool flush();
  std::optional<std::string> failed(std::string why, std::size_t events, std::int64_t wall_us);
  bool make_directory(std::int64_t wall_us);
  void forget_old_pools(std::int64_t wall_us) const;
  void write(const std::string& name, std::string_view text);
  void keep_line(const LogLine& line);
  void keep_one(const Event& event, std::int64_t wall_us);

  const std::string root_;
  const std::string job_id_;
  std::string directory_;
  std::unique_ptr<io::FileLock> lock_;
  std::map<std::string, File> files_;
  LogDisplay display_;
  std::int64_t read_us_ = -1;  // when the last line was read
  std::string read_text_;      // the same as text
  std::int64_t retry_us_ = 0;  // after a failed write: when to try again
  std::size_t missing_ = 0;    // events that were not written since the last good write
  bool told_ = false;
};

}  // namespace skyward
