#include "groups.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "pickling.h"
#include "skyward/call/group.h"

namespace skyward::python {
namespace {

bool has_pending(const nb::tuple& arguments, nb::handle pending) {
  for (nb::handle argument : arguments) {
    if (argument.type().is(pending)) return true;
  }
  return false;
}

void note(GroupNews& news, std::uint64_t token, std::uint32_t withdrawn) {
  const std::lock_guard lock(news.mutex);
  if (withdrawn > 0) news.withdrawn.emplace_back(token, withdrawn);
  if (token == news.awaited) news.awaited_changed = true;
  if (news.awaited_changed || withdrawn > 0) news.changed.notify_one();
}

Outcome outcome_of(ByteView result) {
  Outcome outcome;
  outcome.status = OutcomeStatus::ok;
  outcome.payload.buffers.push_back(
      wire::small_buffer(SharedBytes(Bytes(result.begin(), result.end()))));
  return outcome;
}

}  // namespace

Group::Group(Handle handle, Call call, std::uint64_t token, const std::shared_ptr<GroupNews>& news)
    : handle_(std::move(handle)), call_(std::move(call)), token_(token), news_(news) {
  handle_.on_item([news, token](const wire::Payload& item) {
    const auto group = group_item_head(item);
    note(*news, token, group ? group->withdrawn : 0);
  });
  handle_.on_done([news, token] { note(*news, token, 0); });
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

void Group::cancel() {
  const GilReleased released;
  handle_.cancel();
}

bool Group::wait(Duration limit) {
  {
    const std::lock_guard lock(news_->mutex);
    news_->awaited = token_;
    news_->awaited_changed = false;
  }
  if (handle_.done() || handle_.has_items()) return true;
  return wait_interruptibly(limit, [&](Duration step) {
    std::unique_lock lock(news_->mutex);
    return news_->changed.wait_for(
        lock, step, [&] { return news_->awaited_changed || !news_->withdrawn.empty(); });
  });
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
  if (done) results.last = handle_.take();
  return results;
}

std::optional<std::pair<Group, std::uint32_t>> Groups::send(
    PoolPacker& packer, const Function& function, const nb::list& inputs, nb::callable dumps,
    nb::callable beside, const nb::list& buffers, nb::handle pending, std::uint64_t token) {
  PlainPickler pickled(std::move(dumps), std::move(beside));
  const nb::dict no_names;
  GroupWriter group;
  for (nb::handle input : inputs) {
    const nb::tuple arguments = nb::borrow<nb::tuple>(input);
    if (const ByteView small = pickled.small(arguments); !small.empty()) {
      if (!group.add(small)) break;
      continue;
    }
    if (has_pending(arguments, pending)) break;
    const nb::object stream = pickled(nb::make_tuple(arguments, no_names));
    const bool is_plain = stream.is_valid() && nb::len(buffers) == 0;
    clear(buffers);
    if (!is_plain) break;
    const nb::bytes bytes = nb::borrow<nb::bytes>(stream);
    const ByteView view(static_cast<const std::byte*>(bytes.data()), bytes.size());
    if (!group.add(view)) break;
  }
  const std::uint32_t calls = group.calls();
  if (calls == 0) return std::nullopt;
  Call call = make_call(function, group.take(), std::nullopt, calls);
  call.options.group = true;
  return std::pair(submit(packer, std::move(call), token), calls);
}

Group Groups::send_again(PoolPacker& packer, const Group& group, std::size_t first,
                         std::uint32_t calls, std::uint64_t token) {
  const auto all = group_arguments(group.call_.arguments);
  GroupWriter some;
  for (std::size_t at = first; all && at < all->size() && some.calls() < calls; ++at) {
    some.add((*all)[at]);
  }
  if (calls == 0 || some.calls() != calls) throw nb::index_error("the group has no such calls");
  Call call = group.call_;
  call.arguments = some.take();
  call.options.stream_window = calls;
  return submit(packer, std::move(call), token);
}

Group Groups::submit(PoolPacker& packer, Call call, std::uint64_t token) {
  Handle handle;
  {
    const GilReleased released;
    handle = packer.pool.submit(call);
  }
  return {std::move(handle), std::move(call), token, news_};
}

std::vector<std::pair<std::uint64_t, std::uint32_t>> Groups::withdrawn() {
  const std::lock_guard lock(news_->mutex);
  return std::exchange(news_->withdrawn, {});
}

void bind_groups(nb::module_& module) {
  nb::class_<Group::Results>(module, "GroupResults", "What has arrived of a group.")
      .def_ro("values", &Group::Results::values,
              nb::for_getter(nb::sig("def values(self) -> list[typing.Any]")),
              "In order; None where `strange` has more to tell.")
      .def_ro("strange", &Group::Results::strange,
              "(position, Outcome) of results that pickle does not load.")
      .def_ro("last", &Group::Results::last, "The Outcome of the call that ran last, at the end.");
  nb::class_<Group>(module, "Group", "Several calls that were sent as one task.")
      .def_prop_ro("task", &Group::task)
      .def_prop_ro("size", &Group::size, "Bytes of arguments.")
      .def("call", &Group::call, nb::arg("position"),
           "One of its calls, with the arguments as they were.")
      .def("cancel", &Group::cancel)
      .def(
          "wait",
          [](Group& self, std::optional<double> timeout) {
            return self.wait(timeout ? limit_from_seconds(*timeout) : kForever);
          },
          nb::arg("timeout").none(), "Until it, or Groups.withdrawn(), has news; False: too late.")
      .def("take", &Group::take, nb::arg("loads"),
           nb::sig("def take(self, loads: collections.abc.Callable[[bytes], typing.Any]) "
                   "-> GroupResults"));
  nb::class_<Groups>(module, "Groups", "The groups of one map().")
      .def(nb::init<>())
      .def("send", &Groups::send, nb::arg("packer"), nb::arg("function"), nb::arg("inputs"),
           nb::arg("dumps"), nb::arg("beside"), nb::arg("buffers"), nb::arg("pending"),
           nb::arg("token"),
           nb::sig("def send(self, packer: Packer, function: Function, "
                   "inputs: list[tuple[typing.Any, ...]], "
                   "dumps: collections.abc.Callable[..., bytes], "
                   "beside: collections.abc.Callable[..., bool], buffers: list[memoryview], "
                   "pending: type, token: int) -> tuple[Group, int] | None"),
           "Sends as many of the inputs as make one group; None if the first is not for a group.")
      .def("send_again", &Groups::send_again, nb::arg("packer"), nb::arg("group"), nb::arg("first"),
           nb::arg("calls"), nb::arg("token"),
           "Sends some of its calls as a group of their own, with the arguments as they were.")
      .def("withdrawn", &Groups::withdrawn,
           "(token, calls) of calls that came back unstarted, from the end of their groups.");
}

}  // namespace skyward::python
