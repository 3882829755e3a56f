#include "skyward/io/machine.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>

#include "skyward/base/check.h"
#include "skyward/io/control_group.h"
#include "skyward/io/file.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::vector<std::string> environment_names(std::string_view beginning) {
  std::vector<std::string> names;
  for (char** one = ::environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text = *one;
    if (text.starts_with(beginning)) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

int cpu_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);  // more CPUs than a cpu_set_t holds
  return online > 0 ? static_cast<int>(online) : 1;
}

int current_core() { return ::sched_getcpu(); }

int usable_cpus() {
  const int allowed = cpu_count();
  return std::max(1, static_cast<int>(std::min<double>(allowed, cpu_quota().value_or(allowed))));
}

std::uint64_t memory_bytes() {
  const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(bytes, memory_limit().value_or(bytes));
}

std::optional<std::uint64_t> available_memory() {
  const auto facts = read_file("/proc/meminfo");  // "MemAvailable:   23456 kB"
  const auto bytes_of = [&facts](std::string_view name) -> std::uint64_t {
    const std::size_t at = facts->find(name);
    if (at == std::string::npos) return 0;
    return std::uint64_t{std::strtoull(facts->c_str() + at + name.size(), nullptr, 10)} << 10;
  };
  if (!facts || !facts->contains("\nMemAvailable:")) return std::nullopt;
  const std::uint64_t available = bytes_of("\nMemAvailable:") + bytes_of("\nSwapFree:");
  return std::min(available, memory_room().value_or(available));
}

double memory_gib() { return static_cast<double>(memory_bytes()) / (1024.0 * 1024 * 1024); }

namespace {

constexpr std::uint16_t kFirstPort = 20000;
constexpr std::uint16_t kPorts = 12000;
constexpr int kPortTries = 64;

// The port that it was bound to; `wanted` 0: any. Empty, with errno, when that port cannot be
// bound.
std::optional<int> bind_once(std::uint16_t wanted) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(wanted);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    return std::nullopt;
  }
  return ntohs(address.sin_port);
}

}  // namespace

Result<int> free_tcp_port() {
  for (int i = 0; i < kPortTries; ++i) {
    std::uint16_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) break;
    const auto wanted = static_cast<std::uint16_t>(kFirstPort + random % kPorts);
    if (const auto port = bind_once(wanted)) return *port;
  }
  if (const auto port = bind_once(0)) return *port;
  return fail(ErrorKind::exhausted, "no free TCP port on 127.0.0.1: " + errno_text(errno),
              "close programs that hold many connections or descriptors, then try again");
}

std::optional<std::string> best_address(const std::vector<std::string>& found) {
  const auto first = [&](bool ipv4) {
    return std::ranges::find_if(found, [&](const std::string& address) {
      const bool is_loopback = address.starts_with("127.") || address == "::1";
      return !is_loopback && address.contains(':') != ipv4;
    });
  };
  for (const bool ipv4 : {true, false}) {
    if (const auto address = first(ipv4); address != found.end()) return *address;
  }
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<std::string> address_of_name(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return std::nullopt;
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text);
    }
  }
  ::freeaddrinfo(found);
  return best_address(addresses);
}

void pause_thread(Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, duration, [] { return false; });
}

Time time_with_sleep() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

std::string random_hex(int digits) {
  std::string out;
  while (static_cast<int>(out.size()) < digits) {
    std::uint8_t byte = 0;
    const ssize_t got = ::getrandom(&byte, 1, 0);
    SKYWARD_CHECK(got == 1 || errno == EINTR, "getrandom: {}", errno_text(errno));
    if (got == 1) out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

bool is_program(const std::string& path) {
  std::error_code error;
  return ::access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, error);
}

std::vector<std::string> program_paths(const std::string& name,
                                       const std::optional<std::string>& variable) {
  if (name.contains('/')) return {name};
  const std::string path = variable.value_or("/usr/local/bin:/usr/bin:/bin");
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string directory = path.substr(begin, end - begin);
    paths.push_back((directory.empty() ? "." : directory) + "/" + name);
    begin = end + 1;
  }
  return paths;
}

std::optional<std::string> find_program(const std::string& name,
                                        const std::optional<std::string>& path) {
  for (std::string& one : program_paths(name, path)) {
    if (is_program(one)) return std::move(one);
  }
  return std::nullopt;
}

unsigned user_id() { return ::geteuid(); }

}  // namespace skyward::io
