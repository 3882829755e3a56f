#include "completions.h"

#include <nanobind/stl/vector.h>

#include <utility>

#include "skyward/base/wait_polling.h"

namespace skyward::python {

void Completions::watch(Handle& handle, std::uint64_t token) {
  handle.on_done([state = state_, token] {
    const std::lock_guard lock(state->mutex);
    state->tokens.push_back(token);
    state->changed.notify_one();
  });
}

void Completions::watch_all(const std::vector<Handle*>& handles, std::uint64_t first) {
  for (Handle* handle : handles) watch(*handle, first++);
}

void Completions::watch_group(Group& group, std::uint64_t token) {
  group.watch([state = state_, token](std::uint32_t) {
    const std::lock_guard lock(state->mutex);
    if (!state->tokens.empty() && state->tokens.back() == token) return;
    state->tokens.push_back(token);
    state->changed.notify_one();
  });
}

void Completions::close() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
}

std::vector<std::uint64_t> Completions::next() {
  const GilReleased released;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->closed || !state_->tokens.empty(); });
  return {std::exchange(state_->tokens, {})};
}

std::vector<std::uint64_t> Completions::wait() {
  std::vector<std::uint64_t> tokens;
  wait_interruptibly(kForever, [&](Duration step) {
    std::unique_lock lock(state_->mutex);
    wait_within(lock, state_->changed, step, [&] { return !state_->tokens.empty(); });
    tokens = std::exchange(state_->tokens, {});
    return !tokens.empty();
  });
  return tokens;
}

void bind_completions(nb::module_& module) {
  nb::class_<Completions>(module, "Completions", "Tasks with news, by number.")
      .def(nb::init<>())
      .def("watch", &Completions::watch, nb::arg("handle"), nb::arg("token"))
      .def("watch_all", &Completions::watch_all, nb::arg("handles"), nb::arg("first"))
      .def(
          "watch_group", &Completions::watch_group, nb::arg("group"), nb::arg("token"),
          "Its number comes whenever results of it, or withdrawn calls, have come, and at its end.")
      .def("next", &Completions::next, "Waits; empty when closed.")
      .def("wait", &Completions::wait, "Waits for some; Ctrl-C may interrupt it.")
      .def("close", &Completions::close);
}

}  // namespace skyward::python
