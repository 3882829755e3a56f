#include "skyward/cli/run_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "skyward/cli/run_files.h"

namespace skyward::cli {

namespace {

using run::Piece;
using run::PieceKind;

constexpr std::size_t kToldPaths = 20;
// The user named the directory for this, and what is not stored is lost.
constexpr std::uint64_t kReserveDuringTransfer = std::uint64_t{16} << 20;

// A directory is a repository when it has a file HEAD, beside others.
constexpr std::string_view kHead = "HEAD";

Error almost_full(const std::string& directory, const io::DiskSpace& space,
                  std::string_view decision) {
  const std::string files =
      space.total_files == 0 ? "" : fmt::format(" and {} files", space.free_files);
  return {ErrorKind::exhausted,
          fmt::format("the disk that holds {} is almost full ({}{} free): {}", directory,
                      size_text(space.free), files, decision),
          "free some space, or name a directory on another disk with --output"};
}

bool is_git(std::string_view name) {
  constexpr std::string_view kGit = ".git";
  return std::ranges::equal(name, kGit, [](char one, char git) {
    return one == git || (one >= 'A' && one <= 'Z' && one - 'A' + 'a' == git);
  });
}

}  // namespace

Status check_output_space(const std::string& directory, const RunResults::Space& space) {
  const auto found = space(directory);
  if (!found || io::leaves_reserve(*found, 0, 1)) return {};
  const std::string wanted = fmt::format(
      "at least {} or 1 % of it must be free before the command runs", size_text(io::kDiskReserve));
  return std::unexpected(almost_full(directory, *found, wanted));
}

bool names_git(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (is_git(path.substr(0, end)) || path == kHead) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

RunResults::RunResults(std::string directory, Tell tell, Space space)
    : directory_(std::move(directory)), tell_(std::move(tell)), space_(std::move(space)) {}

Status RunResults::take(const Piece& piece) {
  if (directory_.empty()) {
    return fail(ErrorKind::denied, "the node sent files that this run did not ask for");
  }
  if (piece.kind == PieceKind::data) {
    if (file_.empty()) return {};  // its file was skipped
    const std::string path = file_;
    return settle(path, store(piece));
  }
  if (piece.kind == PieceKind::note && !file_.empty() && piece.path == file_) {
    writer_->drop_file();  // the node could not read the rest of it
    file_.clear();
  }
  if (Status ended = end_file(); !ended) return ended;
  if (piece.kind == PieceKind::note) {
    miss(piece.path, piece.bytes);
    return {};
  }
  if (piece.kind == PieceKind::left_out) {
    tell_(fmt::format("left out: {}: {}", piece.path, piece.bytes));
    return {};
  }
  if (names_git(piece.path)) {
    leave_out_git();
    return {};
  }
  return settle(piece.path, store(piece));
}

// The bytes are another machine's: the writer keeps them below the directory.
Status RunResults::store(const Piece& piece) {
  if (Status fits = check_space(piece); !fits) return fits;
  if (!writer_) {
    auto writer = io::TreeWriter::open(directory_);
    if (!writer) return fail(writer);
    writer_ = *std::move(writer);
  }
  switch (piece.kind) {
    case PieceKind::directory:
      return writer_->make_directory(piece.path, piece.mode);
    case PieceKind::link:
      return writer_->make_link(piece.path, piece.bytes);
    case PieceKind::file: {
      Status begun = writer_->begin_file(piece.path, piece.mode);
      if (begun) file_ = piece.path;
      return begun;
    }
    default:
      return writer_->write(std::as_bytes(std::span(piece.bytes)));
  }
}

Status RunResults::check_space(const Piece& piece) const {
  const auto space = space_(directory_);
  const std::uint64_t new_files = piece.kind == PieceKind::data ? 0 : 1;
  if (!space || io::leaves_reserve(*space, piece.bytes.size(), new_files, kReserveDuringTransfer)) {
    return {};
  }
  return std::unexpected(almost_full(directory_, *space, "not storing more there"));
}

Status RunResults::finish() {
  if (Status ended = end_file(); !ended) return ended;
  return writer_ ? writer_->sync() : Status();
}

Status RunResults::end_file() {
  if (file_.empty()) return {};
  const std::string path = std::exchange(file_, "");
  Status ended = writer_->end_file();
  if (ended) ++files_;
  return settle(path, std::move(ended));
}

Status RunResults::settle(const std::string& path, Status stored) {
  if (stored) return {};
  if (writer_) writer_->drop_file();
  file_.clear();
  if (stored.error().kind == ErrorKind::exhausted) return stored;
  miss(path, stored.error().message);
  return {};
}

void RunResults::miss(const std::string& path, const std::string& why) {
  if (++missing_ > kToldPaths) return;
  tell_(fmt::format("not brought back: {}{}{}", path, path.empty() ? "" : ": ", why));
}

void RunResults::leave_out_git() {
  if (std::exchange(git_left_out_, true)) return;
  tell_("left out: files named .git or HEAD, which could make git here run programs");
}

void RunResults::tell_end(bool failed) const {
  if (directory_.empty()) return;
  if (missing_ > kToldPaths) {
    tell_(fmt::format("not brought back: {} more", missing_ - kToldPaths));
  }
  if (failed) {
    if (files_ > 0) tell_(fmt::format("{} is incomplete", directory_));
  } else if (files_ == 0 && is_complete()) {
    tell_("results: the command wrote no files to the directory of --output");
  } else {
    tell_(fmt::format("{} {} in {}", files_, files_ == 1 ? "file" : "files", directory_));
  }
}

}  // namespace skyward::cli
