#include "skyward/pool/program_start.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "skyward/base/stderr_line.h"
#include "skyward/call/error.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward {
namespace {

constexpr int kMissingInitStatus = 86;

std::atomic<bool> init_called{false};

}  // namespace

void note_init() { init_called = true; }

void require_init() {
  if (init_called) return;
  constexpr const char* kWhy =
      "a pool was opened before sky::init(argc, argv) was called: the pool's workers, which run "
      "this same executable, would each open a pool\n"
      "hint: make sky::init(argc, argv) the first line of main, and open pools inside main, not at "
      "namespace scope";
  if (std::getenv(wire::kWorkerVariable) == nullptr) throw ConfigurationError(kWhy);
  // Somebody might catch it, and here nobody must go on.
  write_stderr_line(std::string("skyward: ") + kWhy);
  std::fflush(nullptr);
  std::_Exit(kMissingInitStatus);
}

}  // namespace skyward
