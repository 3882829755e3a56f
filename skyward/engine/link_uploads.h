#pragma once

// The files that nodes get before their agent starts, as they are sent. What a node has taken is
// kept for the next one, and forgotten when newer files have taken its place: a program may open
// pool after pool, each with other files.

#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/engine/link_entry.h"

namespace skyward::engine {

// The whole file, by its descriptor if there is one. Blocks. Fails with `invalid`, also for an
// empty one.
Result<std::string> read_whole(const std::string& path, const io::FileDescriptor* file);

// The file as it is sent, packed or plain. Blocks; any thread. Fails with `invalid`.
Result<SharedBytes> load_upload(const EntryFile& file, bool packed);

// Bytes by key. Keeps the latest, up to a limit; others only while somebody else keeps them. Any
// thread. A caller waits for bytes that another thread is making, and shares its failure.
class UploadCache {
 public:
  explicit UploadCache(std::size_t max_bytes = std::size_t{64} << 20) : max_bytes_(max_bytes) {}

  Result<SharedBytes> get(const std::string& key, const std::function<Result<SharedBytes>()>& make);

 private:
  struct Known {
    std::weak_ptr<const void> owner;
    ByteView view;
  };
  std::optional<SharedBytes> find(const std::string& key);
  void keep(const SharedBytes& bytes);

  const std::size_t max_bytes_;
  std::mutex mutex_;  // never held while bytes are made
  std::map<std::string, std::shared_future<Result<SharedBytes>>> in_the_making_;
  std::map<std::string, Known> known_;
  std::vector<SharedBytes> latest_;  // the last is the newest
};

}  // namespace skyward::engine
