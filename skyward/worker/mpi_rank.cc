#include "skyward/worker/mpi_rank.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/stderr_line.h"
#include "skyward/base/time.h"
#include "skyward/call/archive.h"
#include "skyward/call/error.h"
#include "skyward/call/map_blob.h"
#include "skyward/call/registry.h"
#include "skyward/call/remote_error.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/passed_descriptors.h"
#include "skyward/io/unix_socket.h"
#include "skyward/worker/packed.h"
#include "skyward/worker/user_code.h"

namespace skyward {
namespace {

constexpr const char* kSocketVariable = "SKYWARD_MPI_SOCKET";
// The beginnings of the names of variables that MPI sets for a rank.
constexpr const char* kOwnVariable = "SKYWARD_MPI_OWN";

// Many ranks connect at the same time.
constexpr Duration kConnectTimeout = std::chrono::seconds(60);

[[noreturn]] void give_up(const char* what) {
  write_stderr_line(std::string("skyward: a rank of MPI ") + what);
  _exit(EXIT_FAILURE);
}

void read_exactly(int socket, void* to, std::size_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t count = read(socket, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) give_up("lost its worker");
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}

void write_exactly(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) give_up("lost its worker");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

constexpr std::size_t kStreams = 2;

// The length of what follows. The worker's output and error streams come with it.
std::uint64_t receive_head(int socket) {
  std::uint64_t length = 0;
  iovec piece{.iov_base = &length, .iov_len = sizeof length};
  alignas(cmsghdr) char control[CMSG_SPACE(kStreams * sizeof(int))];
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count = -1;
  do {
    count = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  std::vector<io::FileDescriptor> streams;
  if (count > 0) io::claim_descriptors(header, streams);
  if (streams.size() != kStreams) give_up("was told nothing");
  dup2(streams[0].get(), STDOUT_FILENO);
  dup2(streams[1].get(), STDERR_FILENO);
  const auto there = static_cast<std::size_t>(count);
  read_exactly(socket, reinterpret_cast<char*>(&length) + there, sizeof length - there);
  return length;
}

bool begins_with_one(std::string_view name, const std::vector<std::string>& beginnings) {
  for (const std::string& beginning : beginnings) {
    if (name.starts_with(beginning)) return true;
  }
  return false;
}

// Takes on the worker's variables; what MPI has set for this process stays.
void adopt(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> own;
  const char* const told = std::getenv(kOwnVariable);
  std::istringstream words(told == nullptr ? "" : told);
  for (std::string word; words >> word;) own.push_back(word);
  std::vector<std::string> names;
  for (char** one = environ; *one != nullptr; ++one) {
    names.emplace_back(*one, std::strcspn(*one, "="));
  }
  for (const std::string& name : names) {
    if (!begins_with_one(name, own) && !environment.contains(name)) unsetenv(name.c_str());
  }
  for (const auto& [name, value] : environment) {
    if (!begins_with_one(name, own)) setenv(name.c_str(), value.c_str(), 1);
  }
  unsetenv(kSocketVariable);  // programs that the function starts are no ranks
}

std::uint32_t own_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* text = std::getenv(name)) return static_cast<std::uint32_t>(std::atol(text));
  }
  return 0;
}

wire::Payload call(const RankOrder& order) {
  const RegisteredFunction* const function = find_function(order.symbol);
  if (function == nullptr) {
    throw ConfigurationError("the program has no compute function '" + order.symbol + "'");
  }
  const wire::Payload payload = unpacked(SharedBytes(order.arguments));
  ArchiveReader arguments(payload, &map_blob);
  ArchiveWriter result(memory_store());
  function->invoke(arguments, result);
  return result.finish();
}

[[noreturn]] void run(int socket) {
  Bytes told(receive_head(socket));
  read_exactly(socket, told.data(), told.size());
  RankOrder order;
  wire::Payload answer;
  std::uint32_t raised = 0;
  try {
    const wire::Payload payload = unpacked(SharedBytes(std::move(told)));
    ArchiveReader reader(payload, &map_blob);
    reader(order);
    adopt(order.environment);
    if (chdir(order.folder.c_str()) != 0) throw SkywardError("cannot enter " + order.folder);
    answer = call(order);
  } catch (const std::exception& error) {
    raised = 1;
    answer = write_exception(thrown_name(), error.what(), &error, memory_store());
  } catch (...) {
    raised = 1;
    answer = write_exception(thrown_name(), "(not a std::exception, so it has no text)");
  }
  flush_output();
  const std::string body = packed(answer);
  const std::uint64_t length = body.size();
  const std::array<std::uint32_t, 2> head{raised, own_rank()};
  std::string message(reinterpret_cast<const char*>(&length), sizeof length);
  message.append(reinterpret_cast<const char*>(head.data()), sizeof head);
  write_exactly(socket, message);
  write_exactly(socket, body);
  // That ends the other ranks. MPICH may wait for ever for a process that just exits without
  // MPI_Finalize.
  if (raised != 0) kill(getpid(), SIGKILL);
  _exit(EXIT_SUCCESS);
}

}  // namespace

void run_if_rank() {
  const char* const path = std::getenv(kSocketVariable);
  if (path == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // with MPI's daemon, however that ends
  const auto socket = io::connect_to(path, kConnectTimeout);
  if (!socket || !io::set_non_blocking(socket->get(), false)) give_up("cannot reach its worker");
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  run(socket->get());
}

}  // namespace skyward
