#pragma once

// A file that grows: what is written is appended to what is there. No other program inherits it,
// unlike a std::ofstream.

#include <string>
#include <string_view>

#include "skyward/io/file_descriptor.h"

namespace skyward::io {

class AppendedFile {
 public:
  // Creates the file if it is missing. Otherwise is_open() stays false, and flush() fails.
  void open(const std::string& path);
  bool is_open() const { return static_cast<bool>(file_); }
  // Keeps small texts until there are enough of them. What was not flushed at the end is lost.
  void write(std::string_view text);
  // Writes what was kept. False when anything since open() could not be written.
  bool flush();

 private:
  FileDescriptor file_;
  std::string text_;  // not written yet
  bool good_ = true;
};

}  // namespace skyward::io
