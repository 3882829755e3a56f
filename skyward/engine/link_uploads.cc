#include "skyward/engine/link_uploads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/io/file.h"
#include "skyward/io/forks.h"
#include "skyward/io/process.h"

namespace skyward::engine {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{2} << 30;
// How long gzip may take on a busy computer: this, and a second for each kSlowestPackBytes.
constexpr Duration kPackTimeout = std::chrono::seconds(60);
constexpr std::size_t kSlowestPackBytes = std::size_t{2} << 20;

Result<SharedBytes> pack(const std::string& path, std::string_view bytes) {
  io::SpawnOptions gzip;
  gzip.command = {"gzip", "-6", "-c"};
  // What cannot be compressed grows by a few bytes for each 32 KiB.
  gzip.max_output = bytes.size() + bytes.size() / 1024 + (std::size_t{64} << 10);
  const Duration timeout = kPackTimeout + std::chrono::seconds(bytes.size() / kSlowestPackBytes);
  auto packed = io::run_command(gzip, timeout, bytes);
  if (!packed) return fail(packed);
  if (packed->status.code == 0 && packed->status.signal == 0 && !packed->out.empty()) {
    return SharedBytes(std::move(packed->out));
  }
  return fail(ErrorKind::invalid, fmt::format("{} cannot be packed: {}", path, packed->err));
}

}  // namespace

Result<std::string> read_whole(const std::string& path, const io::FileDescriptor* file) {
  auto bytes = file != nullptr ? io::read_file(*file, path, kMaxFileBytes)
                               : io::read_file(path, kMaxFileBytes);
  if (bytes && !bytes->empty()) return bytes;
  return fail(ErrorKind::invalid,
              bytes ? fmt::format("the file {} is empty", path) : bytes.error().message,
              "install skyward again, or give the path of a skyward-agent that you built");
}

Result<SharedBytes> load_upload(const EntryFile& file, bool packed) {
  auto& cache = io::of_this_process<UploadCache>();
  return cache.get(file.hash + (packed ? " packed" : " plain"), [&]() -> Result<SharedBytes> {
    auto bytes = read_whole(file.path, file.file.get());
    if (!bytes) return fail(bytes);
    if (packed) return pack(file.path, *bytes);
    return SharedBytes(*std::move(bytes));
  });
}

Result<SharedBytes> UploadCache::get(const std::string& key,
                                     const std::function<Result<SharedBytes>()>& make) {
  std::packaged_task<Result<SharedBytes>()> task(make);
  std::shared_future<Result<SharedBytes>> answer;
  bool is_first = false;
  {
    const std::scoped_lock lock(mutex_);
    if (auto bytes = find(key)) return *std::move(bytes);
    const auto [place, added] = in_the_making_.try_emplace(key);
    if (added) place->second = task.get_future().share();
    is_first = added;
    answer = place->second;
  }
  if (is_first) {
    task();
    const std::scoped_lock lock(mutex_);
    in_the_making_.erase(key);
    if (const auto& bytes = answer.get()) {
      keep(*bytes);
      std::erase_if(known_, [](const auto& entry) { return entry.second.owner.expired(); });
      known_.insert_or_assign(key, Known{bytes->owner, bytes->view});
    }
  }
  return answer.get();
}

std::optional<SharedBytes> UploadCache::find(const std::string& key) {
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  auto owner = found->second.owner.lock();
  if (!owner) return std::nullopt;
  SharedBytes bytes(std::move(owner), found->second.view);
  keep(bytes);
  return bytes;
}

void UploadCache::keep(const SharedBytes& bytes) {
  std::erase_if(latest_, [&](const SharedBytes& one) { return one.owner == bytes.owner; });
  latest_.push_back(bytes);
  std::size_t kept = 0;
  const auto too_old = std::find_if(latest_.rbegin(), latest_.rend(), [&](const SharedBytes& one) {
    return (kept += one.size()) > max_bytes_;
  });
  latest_.erase(latest_.begin(), too_old.base());
}

}  // namespace skyward::engine
