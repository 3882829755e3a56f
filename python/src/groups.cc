#include "groups.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "skyward/base/wait_polling.h"

namespace skyward::python {
namespace {

bool has_pending(const nb::tuple& arguments, nb::handle pending) {
  for (nb::handle argument : arguments) {
    if (argument.type().is(pending)) return true;
  }
  return false;
}

Outcome outcome_of(ByteView result) {
  Outcome outcome;
  outcome.status = OutcomeStatus::ok;
  outcome.begun = true;
  outcome.payload.buffers.push_back(
      wire::small_buffer(SharedBytes(Bytes(result.begin(), result.end()))));
  return outcome;
}

Handle submit(PoolPacker& packer, const Call& call) {
  const GilReleased released;
  return packer.pool.submit(call);
}

}  // namespace

Group::Group(PoolPacker& packer, Call call, std::uint32_t calls) : call_(std::move(call)) {
  call_.options.group = true;
  call_.options.stream_window = calls;
  handle_ = submit(packer, call_);
}

Call Group::call(std::size_t position) const {
  const auto all = group_arguments(call_.arguments);
  if (!all || position >= all->size()) throw nb::index_error("the group has no such call");
  Call call = call_;
  call.options.group = false;
  call.options.stream_window = 0;
  const ByteView one = (*all)[position];
  call.arguments.buffers = {wire::small_buffer({call_.arguments.buffers[0].bytes.owner, one})};
  return call;
}

Group Group::send_again(PoolPacker& packer, const std::vector<std::uint32_t>& positions) const {
  const auto all = group_arguments(call_.arguments);
  GroupWriter some;
  for (const std::uint32_t position : positions) {
    if (all && position < all->size()) some.add((*all)[position]);
  }
  const std::uint32_t calls = some.calls();
  if (calls == 0 || calls != positions.size()) {
    throw nb::index_error("the group has no such calls");
  }
  Call call = call_;
  call.arguments = some.take();
  return {packer, std::move(call), calls};
}

void Group::watch(std::function<void(std::uint32_t)> news) {
  handle_.on_item([news, counted = withdrawn_](const wire::Payload& item) {
    const auto group = group_item_head(item);
    const std::uint32_t withdrawn = group ? group->withdrawn : 0;
    *counted += withdrawn;
    news(withdrawn);
  });
  handle_.on_done([news = std::move(news)] { news(0); });
}

Group::Results Group::take(const nb::callable& loads) {
  Results results;
  const bool done = handle_.done();  // before it looks for items
  for (const wire::Payload& item : handle_.take_items()) {
    const auto group = group_item(item);
    if (!group) continue;  // the engine has looked
    for (const ByteView bytes : group->results) {
      nb::object value = unpickled(bytes, loads);
      if (value.is_valid()) {
        results.values.append(std::move(value));
        continue;
      }
      results.strange.emplace_back(nb::len(results.values), outcome_of(bytes));
      results.values.append(nb::none());
    }
  }
  if (!done) return results;
  results.last = handle_.take();
  if (nb::object value = result_of(*results.last, loads); value.is_valid()) {
    results.values.append(std::move(value));
    results.is_last_loaded = true;
  }
  return results;
}

GroupDraft::GroupDraft(nb::callable dumps, nb::callable beside, nb::list buffers,
                       nb::object pending)
    : pickled_(std::move(dumps), std::move(beside)),
      buffers_(std::move(buffers)),
      pending_(std::move(pending)) {}

bool GroupDraft::add(nb::handle arguments) {
  if (!nb::isinstance<nb::tuple>(arguments)) return false;  // of a call that was made by hand
  if (const ByteView small = pickled_.small(arguments); !small.empty()) return writer_.add(small);
  if (has_pending(nb::borrow<nb::tuple>(arguments), pending_)) return false;
  const nb::object stream = pickled_(nb::make_tuple(arguments, no_names_));
  const bool is_plain = stream.is_valid() && nb::len(buffers_) == 0;
  clear(buffers_);
  if (!is_plain) return false;
  const nb::bytes bytes = nb::borrow<nb::bytes>(stream);
  return writer_.add({static_cast<const std::byte*>(bytes.data()), bytes.size()});
}

void GroupDraft::add_all(const nb::list& inputs) {
  for (nb::handle input : inputs) {
    if (!add(input)) return;
  }
}

std::vector<Group> GroupDraft::send(PoolPacker& packer, const Function& function, std::size_t most,
                                    const std::optional<std::vector<std::uint32_t>>& places) {
  const std::uint32_t calls = writer_.calls();
  if (calls == 0) throw nb::index_error("the group has no calls");
  Call whole = make_call(function, writer_.take(), std::nullopt, calls);
  std::vector<Group> groups;
  if (calls <= most && (!places || places->size() == calls)) {
    groups.emplace_back(packer, std::move(whole), calls);
    return groups;
  }
  const auto all = group_arguments(whole.arguments);
  const std::size_t count = places ? places->size() : calls;
  GroupWriter some;
  for (std::size_t at = 0; all && at < count; ++at) {
    some.add(all->at(places ? (*places)[at] : at));
    if (some.calls() < most && at + 1 < count) continue;
    Call part = whole;
    const std::uint32_t its = some.calls();
    part.arguments = some.take();
    groups.emplace_back(packer, std::move(part), its);
  }
  return groups;
}

void GroupNews::watch(Group& group, std::uint64_t token) {
  group.watch([state = state_, token](std::uint32_t withdrawn) {
    const std::lock_guard lock(state->mutex);
    if (withdrawn > 0) state->withdrawn.push_back(token);
    if (token == state->awaited) state->awaited_changed = true;
    if (state->awaited_changed || withdrawn > 0) state->changed.notify_one();
  });
}

bool GroupNews::wait(const Group& group, std::uint64_t token, Duration limit) {
  if (group.has_news()) return true;
  if (limit <= Duration::zero()) {
    const std::lock_guard lock(state_->mutex);
    return !state_->withdrawn.empty();
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->awaited = token;
    state_->awaited_changed = false;
  }
  if (group.has_news()) return true;  // it came meanwhile
  return wait_interruptibly(limit, [&](Duration step) {
    std::unique_lock lock(state_->mutex);
    return wait_within(lock, state_->changed, step,
                       [&] { return state_->awaited_changed || !state_->withdrawn.empty(); });
  });
}

std::vector<std::uint64_t> GroupNews::withdrawn() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->withdrawn, {});
}

namespace {

void bind_group(nb::module_& module) {
  nb::class_<Group::Results>(module, "GroupResults", "What has arrived of a group.")
      .def_ro("values", &Group::Results::values,
              nb::for_getter(nb::sig("def values(self) -> list[typing.Any]")),
              "In order; None where `strange` has more to tell.")
      .def_ro("strange", &Group::Results::strange,
              "(position, Outcome) of results that pickle does not load.")
      .def_ro("last", &Group::Results::last, "The Outcome of the call that ran last, at the end.")
      .def_ro("is_last_loaded", &Group::Results::is_last_loaded,
              "Its result is the last one of the values.");
  nb::class_<Group>(module, "Group", "Several calls that were sent as one task.")
      .def_prop_ro("task", &Group::task)
      .def_prop_ro("size", &Group::size, "Bytes of arguments.")
      .def_prop_ro("calls", &Group::calls, "How many were sent.")
      .def_prop_ro("result_bytes", &Group::result_bytes,
                   "Of the call that ran last; 0 until its result is there.")
      .def_prop_ro("has_news", &Group::has_news, "Whether results have arrived, or its end.")
      .def("call", &Group::call, nb::arg("position"),
           "One of its calls, with the arguments as they were.")
      .def("send_again", &Group::send_again, nb::arg("packer"), nb::arg("positions"),
           "Sends those of its calls as a group of their own, with the arguments as they were.")
      .def("cancel", &Group::cancel, nb::call_guard<GilReleased>())
      .def("take_withdrawn", &Group::take_withdrawn,
           "How many calls came back unstarted, from its end, since it was asked last.")
      .def("take", &Group::take, nb::arg("loads"),
           nb::sig("def take(self, loads: collections.abc.Callable[[bytes], typing.Any]) "
                   "-> GroupResults"));
}

}  // namespace

void bind_groups(nb::module_& module) {
  bind_group(module);
  nb::class_<GroupDraft>(module, "GroupDraft", "A group before it is sent.")
      .def(nb::init<nb::callable, nb::callable, nb::list, nb::object>(), nb::arg("dumps"),
           nb::arg("beside"), nb::arg("buffers"), nb::arg("pending"),
           nb::sig("def __init__(self, dumps: collections.abc.Callable[..., bytes], "
                   "beside: collections.abc.Callable[..., bool], buffers: list[memoryview], "
                   "pending: type) -> None"))
      .def_prop_ro("calls", &GroupDraft::calls)
      .def("add", &GroupDraft::add, nb::arg("arguments"),
           nb::sig("def add(self, arguments: tuple[typing.Any, ...]) -> bool"),
           "False if it is full, or the arguments are not for a group.")
      .def("add_all", &GroupDraft::add_all, nb::arg("inputs"),
           nb::sig("def add_all(self, inputs: list[tuple[typing.Any, ...]]) -> None"),
           "Adds those up to the first one that add() refuses.")
      .def(
          "send",
          [](GroupDraft& self, PoolPacker& packer, const Function& function, std::size_t most,
             const std::optional<std::vector<std::uint32_t>>& places) {
            return cancelled_if_interrupted(self.send(packer, function, most, places));
          },
          nb::arg("packer"), nb::arg("function"), nb::arg("most"),
          nb::arg("places").none() = nb::none(),
          "Sends the calls at those places, or all, in groups of at most so many; an empty draft "
          "again.");
  nb::class_<GroupNews>(module, "GroupNews", "For a thread that waits for one of several groups.")
      .def(nb::init<>())
      .def("watch", &GroupNews::watch, nb::arg("group"), nb::arg("token"))
      .def(
          "wait",
          [](GroupNews& self, const Group& group, std::uint64_t token,
             std::optional<double> timeout) {
            return self.wait(group, token, timeout ? limit_from_seconds(*timeout) : kForever);
          },
          nb::arg("group"), nb::arg("token"), nb::arg("timeout").none(),
          "Until it has news, or calls of another one came back; False: too late.")
      .def("withdrawn", &GroupNews::withdrawn, "The numbers of groups, calls of which came back.");
}

}  // namespace skyward::python
