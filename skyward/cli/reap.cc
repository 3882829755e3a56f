#include <fmt/format.h>

#include <cerrno>
#include <ostream>
#include <utility>

#include "skyward/cli/commands.h"
#include "skyward/io/daemon.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/file_lock.h"
#include "skyward/io/http.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/provider/table.h"

namespace skyward::cli {

namespace {

// By errno.
Error no_lock(const std::string& path) {
  return {ErrorKind::unavailable, fmt::format("cannot lock {}: {}", path, io::errno_text(errno)),
          "check the permissions and free space there"};
}

}  // namespace

int reap(const Streams& streams, const std::string& text) {
  const provider::World world = provider::world_of_this_process();
  const auto order = provider::read_reaper_order(text);
  if (!order) return complain(streams, order.error());
  const provider::TableRow* row = provider::find_row(order->provider.name);
  if (row == nullptr || row->cloud == nullptr) {
    return complain(streams, {ErrorKind::invalid,
                              fmt::format("machines of \"{}\" need no process that terminates them",
                                          order->provider.name),
                              "a pool starts this by itself where it is needed"});
  }
  const auto cloud = row->cloud(order->provider, world);
  if (!cloud) return complain(streams, cloud.error());
  // The environment that the program runs in may be deleted before they are needed.
  if (Status loaded = io::load_libcurl(); !loaded) return complain(streams, loaded.error());
  (void)provider::open_ledger(world);  // loads SQLite
  const std::string directory = provider::pool_directory(world, order->pool);
  if (Status made = io::ensure_private_path(directory); !made) {
    return complain(streams, made.error());
  }
  const std::string lock_path = provider::reaper_lock(world, order->pool);
  const bool free = io::FileLock::try_lock(lock_path) != nullptr;
  if (!free && errno == EWOULDBLOCK) return 0;  // another one is at work
  if (!free) return complain(streams, no_lock(lock_path));
  // systemd, say, sends SIGTERM to all that a service has started, the moment its program is dead.
  io::ignore_ending_signals();
  const auto split = io::split_daemon(directory, {});
  if (!split) return complain(streams, split.error());
  if (!*split) return 0;
  const auto lock = io::FileLock::try_lock(lock_path);
  if (!lock && errno == EWOULDBLOCK) return 0;  // another one was faster
  if (!lock) return complain(streams, no_lock(lock_path));
  const Status done =
      provider::reap(world, **cloud, *order, provider::reaper_deadline(world, *order));
  return done ? 0 : complain(streams, done.error());
}

}  // namespace skyward::cli
