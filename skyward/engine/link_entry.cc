#include "skyward/engine/link_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "skyward/base/hash.h"
#include "skyward/base/text.h"
#include "skyward/engine/link_uploads.h"
#include "skyward/io/file.h"
#include "skyward/io/forks.h"
#include "skyward/provider/shell_line.h"

namespace skyward::engine {
namespace {

constexpr std::string_view kMark = "skyward-agent: ";
// A long message of the day and some more.
constexpr std::size_t kMaxNoiseBytes = std::size_t{256} << 10;
constexpr std::size_t kNoiseTailBytes = 2048;

// Bytes 18 and 19 of an ELF file name the processor.
struct Processor {
  unsigned number;
  std::string_view name;
};
constexpr std::array<Processor, 5> kProcessors = {
    {{62, "x86_64"}, {183, "aarch64"}, {243, "riscv64"}, {21, "ppc64le"}, {22, "s390x"}}};

std::string machine_of(ByteView program) {
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  if (program.size() < 20 || !as_text(program).starts_with(kElf)) return {};
  const unsigned low = std::to_integer<unsigned>(program[18]);
  const unsigned number = low | std::to_integer<unsigned>(program[19]) << 8;
  const auto* found = std::ranges::find(kProcessors, number, &Processor::number);
  return found == kProcessors.end() ? fmt::format("machine {}", number) : std::string(found->name);
}

// The agents as this process first saw them, which are of its own version. An upgrade while a pool
// runs must not reach the pool's later nodes: this engine may not speak with such an agent.
class KnownAgents {
 public:
  template <typename Inspect>
  Result<EntryFile> get(const std::string& path, Inspect inspect) {
    const std::scoped_lock lock(mutex_);  // the others mostly want the same
    if (const auto found = known_.find(path); found != known_.end()) return found->second;
    Result<EntryFile> agent = inspect();
    if (agent) known_.emplace(path, *agent);
    return agent;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, EntryFile> known_;  // by path
};

// Some ways to a node (containers, setpriv) set no HOME: then the system is asked, and all that is
// started here is told. Without one there is no place that only this user can write to.
constexpr std::string_view kCache =
    "[ \"$HOME\" ] || { HOME=$(getent passwd \"$(id -u)\" 2>/dev/null | cut -d: -f6); "
    "export HOME; }; "
    "c=; [ \"$XDG_CACHE_HOME$HOME\" ] && c=\"${XDG_CACHE_HOME:-$HOME/.cache}/skyward\"";

std::string options(const EntryPlace& place) {
  return fmt::format(" --pool {} --node {} --life {}", place.pool, place.node.value, place.life);
}

// Sets $a, the place of the agent for the machine, and its hash and size, $h and $s.
std::string choose_agent(std::span<const EntryFile> agents) {
  std::string choice = "case $(uname -m) in ";
  for (const EntryFile& agent : agents.subspan(1)) {
    choice +=
        fmt::format("{}) a={} h={} s={};; ", agent.machine, agent.place, agent.hash, agent.size);
  }
  const EntryFile& first = agents.front();
  return choice + fmt::format("*) a={} h={} s={};; esac; ", first.place, first.hash, first.size);
}

}  // namespace

Result<EntryFile> inspect_agent(const std::string& path) {
  return io::of_this_process<KnownAgents>().get(path, [&]() -> Result<EntryFile> {
    auto file = io::open_file(path);
    if (!file) return fail(file);
    const auto kept = std::make_shared<const io::FileDescriptor>(*std::move(file));
    const auto bytes = read_whole(path, kept.get());
    if (!bytes) return fail(bytes);
    const std::string hash = to_hex(sha256(as_bytes(*bytes)));
    EntryFile agent{.path = path,
                    .hash = hash,
                    .place = fmt::format("agents/{}/skyward-agent", hash),
                    .machine = machine_of(as_bytes(*bytes)),
                    .size = bytes->size(),
                    .file = kept};
    if (!agent.machine.empty()) return agent;
    return fail(ErrorKind::invalid, fmt::format("the agent {} is not a Linux program", path),
                "install skyward again, or give the path of a skyward-agent that you built");
  });
}

std::string entry_line(std::span<const EntryFile> agents, std::span<const EntryFile> files,
                       const EntryPlace& place, bool resume, const std::string& former) {
  std::string script = fmt::format(
      "set -f; m=$(umask); umask 077; "
      "{2}; "
      "echo \"skyward-agent: machine $(uname -sm)\"; "
      "[ \"$c\" ] || {{ echo \"skyward-agent: error user $(id -u) has no home directory there: "
      "set HOME or XDG_CACHE_HOME for it\"; exit 1; }}; "
      "w=packed; z=\"gzip -dc\"; "
      "command -v gzip >/dev/null 2>&1 || {{ w=plain; z=cat; }}; "
      "x=\"set XDG_CACHE_HOME for this user on the node to a directory\"; "
      "f() {{ rm -f \"$t\"; echo skyward-agent: error \"$c/$1\" $2; exit 1; }}; "
      // Its time says that it is in use: nodes remove files that no pool asks for.
      "g() {{ if [ -x \"$c/$1\" ]; then "
      "[ $(wc -c <\"$c/$1\") -eq $3 ] && {{ touch -c \"$c/$1\" 2>/dev/null; return; }}; "
      "rm -f \"$c/$1\"; fi; "
      "echo \"skyward-agent: need $2 $w\"; read n || exit 1; "
      "d=\"$c/${{1%/*}}\"; t=\"$d/new.{0}-{1}.$$\"; "
      "e=$({{ mkdir -p \"$d\" && head -c $n | $z >\"$t\" && chmod 700 \"$t\"; }} 2>&1) "
      "|| f \"$1\" \"cannot be stored: $e; $x that it can write to\"; "
      "if command -v sha256sum >/dev/null 2>&1; then "
      "case $(sha256sum <\"$t\") in \"$2\"*) ;; "
      "*) f \"$1\" \"arrived damaged or cut off\";; esac; fi; "
      "[ -x \"$t\" ] || f \"$1\" \"cannot be executed: its file system may be mounted noexec; "
      "$x on another file system\"; "
      // Where several machines share the directory (NFS), one that is there already may be running.
      "ln \"$t\" \"$c/$1\" 2>/dev/null || [ -x \"$c/$1\" ] || "
      "e=$(mv -f \"$t\" \"$c/$1\" 2>&1) || f \"$1\" \"cannot be stored: $e; $x that it can write "
      "to\"; rm -f \"$t\"; }}; ",
      place.pool, place.node.value, kCache);
  script += choose_agent(agents) + "g $a $h $s; ";
  for (const EntryFile& file : files) {
    if (!file.unless.empty()) {
      if (resume) continue;  // the entry before has asked, and a slow node has no time for it now
      // Our answers are on this shell's input: not for the command to read.
      script += fmt::format("{} </dev/null >/dev/null 2>&1 || ", file.unless);
    }
    script += fmt::format("g {} {} {}; ", file.place, file.hash, file.size);
  }
  // What users make there has the rights that they have when they log in.
  script += fmt::format("umask $m; SKYWARD_ROOT=$c; export SKYWARD_ROOT; exec \"$c/$a\" connect{}",
                        options(place));
  if (resume) {
    script += " --resume";
  } else if (!former.empty()) {
    script += " --former " + former;
  }
  return provider::shell_line(script);
}

std::string sweep_line(std::span<const EntryFile> agents, const EntryPlace& place) {
  const std::string script =
      fmt::format("{}; {}[ \"$c\" ] && [ -x \"$c/$a\" ] || exit 0; exec \"$c/$a\" end{}", kCache,
                  choose_agent(agents), options(place));
  return provider::shell_line(script);
}

Result<std::optional<EntryReader::Word>> EntryReader::next() {
  while (true) {
    const std::size_t end = pending_.find('\n');
    if (end == std::string::npos) {
      if (pending_.size() + passed_over_ <= kMaxNoiseBytes) return std::nullopt;
      return fail(ErrorKind::invalid,
                  "the command prints too much before the agent's greeting: " + to_utf8(noise_),
                  "make the node's login shell print nothing, or check what the command does");
    }
    std::string line = to_utf8(std::string_view(pending_).substr(0, end));
    pending_.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::size_t mark = line.find(kMark);
    const std::string_view said = mark == std::string::npos
                                      ? std::string_view()
                                      : std::string_view(line).substr(mark + kMark.size());
    const auto starts = [&](std::string_view word) {
      return said == word || said.starts_with(fmt::format("{} ", word));
    };
    const auto rest = [&](std::string_view word) {
      return std::string(said.substr(std::min(said.size(), word.size() + 1)));
    };
    using Kind = Word::Kind;
    if (starts("machine")) {  // "Linux x86_64"
      const std::string text = rest("machine");
      return Word{.kind = Kind::machine, .text = text.substr(text.find(' ') + 1)};
    }
    if (starts("need")) {
      const std::string text = rest("need");
      return Word{.kind = Kind::need,
                  .text = text.substr(0, text.find(' ')),
                  .packed = text.ends_with(" packed")};
    }
    if (said == "connected") return Word{.kind = Kind::connected};
    if (said == "gone") return Word{.kind = Kind::gone};
    if (starts("busy")) return Word{.kind = Kind::busy, .text = rest("busy")};
    if (starts("error")) return Word{.kind = Kind::error, .text = rest("error")};
    passed_over_ += line.size() + 1;
    noise_ += line + "\n";
    if (noise_.size() > kNoiseTailBytes) noise_.erase(0, noise_.size() - kNoiseTailBytes);
  }
}

}  // namespace skyward::engine
