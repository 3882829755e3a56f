#pragma once

// Groups of calls that map() sends (skyward/call/group.h).

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "batch.h"
#include "bindings.h"
#include "skyward/pool/pool.h"

namespace skyward::python {

// Of all groups of one map(): what its thread waits for.
struct GroupNews {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t awaited = 0;
  bool awaited_changed = false;  // it has another item, or is done
  std::vector<std::pair<std::uint64_t, std::uint32_t>> withdrawn;  // token, calls
};

// One group, sent.
class Group {
 public:
  // What the token names, the caller chooses. `call`: as it was sent.
  Group(Handle handle, Call call, std::uint64_t token, const std::shared_ptr<GroupNews>& news);

  std::uint64_t task() const { return handle_.task(); }
  std::size_t size() const { return call_.arguments.size(); }  // bytes of arguments
  // One of its calls, to be sent alone, with the arguments as they were.
  Call call(std::size_t position) const;
  void cancel();
  // Waits until it has news, or another group's calls were withdrawn, or for the limit: then it
  // returns false.
  bool wait(Duration limit);
  // The results that have arrived since the last call, in order; of one that `loads` does not
  // take, its outcome, with its position in the list. And the outcome of the call that ran last,
  // once, at the end.
  struct Results {
    nb::list values;
    std::vector<std::pair<std::size_t, Outcome>> strange;
    std::optional<Outcome> last;
  };
  Results take(const nb::callable& loads);

 private:
  friend class Groups;

  Handle handle_;
  Call call_;
  std::uint64_t token_;
  std::shared_ptr<GroupNews> news_;
};

// Sends groups, and hears of them.
class Groups {
 public:
  // Sends those of the inputs, tuples of arguments, that make one group: from the first one up to
  // one that is large, or `pending` (the type of a call that was not sent), or that plain pickle
  // cannot take. Returns the group and how many calls it has; none if the first is such a one.
  // `beside` puts large buffers into `buffers`.
  std::optional<std::pair<Group, std::uint32_t>> send(PoolPacker& packer, const Function& function,
                                                      const nb::list& inputs, nb::callable dumps,
                                                      nb::callable beside, const nb::list& buffers,
                                                      nb::handle pending, std::uint64_t token);
  // Sends some calls of a group once more, as a group of their own. Arguments that have changed
  // since are sent as they were.
  Group send_again(PoolPacker& packer, const Group& group, std::size_t first, std::uint32_t calls,
                   std::uint64_t token);
  // (token, calls) of groups, calls of which have come back to be sent again: from the end of each.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> withdrawn();

 private:
  Group submit(PoolPacker& packer, Call call, std::uint64_t token);

  std::shared_ptr<GroupNews> news_ = std::make_shared<GroupNews>();
};

void bind_groups(nb::module_& module);

}  // namespace skyward::python
