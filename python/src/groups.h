#pragma once

// Groups of calls (skyward/call/group.h): what map() sends, and what futures are answered from.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "batch.h"
#include "bindings.h"
#include "pickling.h"
#include "skyward/call/group.h"
#include "skyward/pool/pool.h"

namespace skyward::python {

// One group, sent.
class Group {
 public:
  // Sends it. `call`: with the arguments of so many calls.
  Group(PoolPacker& packer, Call call, std::uint32_t calls);

  std::uint64_t task() const { return handle_.task(); }
  std::size_t size() const { return call_.arguments.size(); }  // bytes of arguments
  std::uint32_t calls() const { return call_.options.stream_window; }
  // One of its calls, to be sent alone, with the arguments as they were.
  Call call(std::size_t position) const;
  // Sends those of its calls once more, as a group of their own. Arguments that have changed since
  // are sent as they were.
  Group send_again(PoolPacker& packer, const std::vector<std::uint32_t>& positions) const;
  void cancel() { handle_.cancel(); }
  // Calls `news` on the engine's thread when something of it has come, with how many calls have
  // come back to be sent again, and at its end.
  void watch(std::function<void(std::uint32_t withdrawn)> news);
  // How many calls, from its end, have come back since the last call.
  std::uint32_t take_withdrawn() { return withdrawn_->exchange(0); }
  // Of the call that ran last; the results of the others are small.
  std::uint64_t result_bytes() const { return handle_.result_bytes(); }
  bool has_news() const { return handle_.done() || handle_.has_items(); }

  // The results that have arrived since the last call, in order; of one that `loads` does not
  // take, its outcome, with its position in the list. And the outcome of the call that ran last,
  // once, at the end: a small result is among the others, too.
  struct Results {
    nb::list values;
    std::vector<std::pair<std::size_t, Outcome>> strange;
    std::optional<Outcome> last;
    bool is_last_loaded = false;
  };
  Results take(const nb::callable& loads);

 private:
  Handle handle_;
  Call call_;
  std::shared_ptr<std::atomic<std::uint32_t>> withdrawn_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
};

// A group before it is sent.
class GroupDraft {
 public:
  // `beside` puts large buffers into `buffers`. `pending`: the type of a call that was not sent.
  GroupDraft(nb::callable dumps, nb::callable beside, nb::list buffers, nb::object pending);

  // Pickles the arguments. False if the group is full, or they are not for one: no tuple, large,
  // with a call that was not sent among them, or such as plain pickle does not take.
  bool add(nb::handle arguments);
  // Adds those of the inputs up to the first one that add() refuses.
  void add_all(const nb::list& inputs);
  std::uint32_t calls() const { return writer_.calls(); }
  // Sends the calls at those places, or all, in groups of at most so many; an empty draft again.
  std::vector<Group> send(PoolPacker& packer, const Function& function, std::size_t most,
                          const std::optional<std::vector<std::uint32_t>>& places);

 private:
  PlainPickler pickled_;
  nb::list buffers_;
  nb::object pending_;
  nb::dict no_names_;
  GroupWriter writer_;
};

// News of several groups, for the one thread that waits for one of them. Other threads ask the
// groups: a second one that waits here would take the first one's news.
class GroupNews {
 public:
  void watch(Group& group, std::uint64_t token);
  // Waits until the group has news, or calls of another one were withdrawn, or for the limit: then
  // it returns false.
  bool wait(const Group& group, std::uint64_t token, Duration limit);
  // The numbers of groups, calls of which have come back.
  std::vector<std::uint64_t> withdrawn();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t awaited = 0;
    bool awaited_changed = false;  // it has another item, or is done
    std::vector<std::uint64_t> withdrawn;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

void bind_groups(nb::module_& module);

}  // namespace skyward::python
