#pragma once

// What one node of a run sends back of its output directory, stored in a directory here.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/file_tree.h"
#include "skyward/run/order.h"

namespace skyward::cli {

class RunResults {
 public:
  using Tell = std::function<void(const std::string& line)>;
  using Space = std::function<std::optional<io::DiskSpace>(const std::string& path)>;

  // `directory`: an existing one, or empty when nothing should come back. `tell`: lines for people.
  RunResults(std::string directory, Tell tell, Space space = &io::disk_space);

  // A directory, a link, a file, its bytes, or a note. What cannot be stored is told and skipped;
  // fails only when nothing more can be stored, because the disk is full.
  Status take(const run::Piece& piece);
  // Nothing more comes, and nothing is missing. Afterwards it is on the disk: the nodes, which have
  // it, too, may be terminated.
  Status finish();
  // Says what came of it. `failed`: something did, and more should have come.
  void tell_end(bool failed) const;
  // Nothing that the command wrote is missing, except what is left out by rule.
  bool is_complete() const { return missing_ == 0; }

 private:
  Status store(const run::Piece& piece);
  Status check_space(const run::Piece& piece) const;
  Status end_file();
  // Passes on a full disk; of any other failure it says that this path, which is not file_ itself,
  // is missing.
  Status settle(const std::string& path, Status stored);
  void miss(const std::string& path, const std::string& why);
  void leave_out_git();

  const std::string directory_;
  const Tell tell_;
  const Space space_;
  std::optional<io::TreeWriter> writer_;
  std::string file_;  // the path of the one that is being stored
  std::size_t files_ = 0;
  std::size_t missing_ = 0;
  bool git_left_out_ = false;
};

// Fails with `exhausted` if the disk that holds an existing directory should not be filled further.
Status check_output_space(const std::string& directory, const RunResults::Space& space);

// Pure: whether one of the path's names is ".git", in any case, or its last one is "HEAD", which
// makes its directory a repository. What a repository holds can make git run programs.
bool names_git(std::string_view path);

}  // namespace skyward::cli
