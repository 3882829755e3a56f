#include "skyward/io/appended_file.h"

#include <fcntl.h>

#include "skyward/base/bytes.h"

namespace skyward::io {
namespace {

constexpr std::size_t kPartBytes = std::size_t{8} << 10;

}  // namespace

void AppendedFile::open(const std::string& path) {
  file_ = FileDescriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  text_.clear();
  good_ = is_open();
}

void AppendedFile::write(std::string_view text) {
  text_ += text;
  if (text_.size() >= kPartBytes) flush();
}

bool AppendedFile::flush() {
  ByteView left = as_bytes(text_);
  while (good_ && !left.empty()) {
    const auto taken = write_part(file_.get(), left);
    good_ = taken && *taken > 0;
    if (good_) left = left.subspan(*taken);
  }
  text_.clear();
  return good_;
}

}  // namespace skyward::io
