#pragma once

// Recorded calls that have not been sent. They are values: keep them, copy them, put them into a
// vector, send them twice.
//
//   f(x) >> pool                      runs one call, gives its result
//   (f(x) & g(y) & h(z)) >> pool      runs several at once, gives a std::tuple of the results
//   gather(calls) >> pool             the same for a std::vector of calls, gives a std::vector
//
// The parentheses matter: >> binds tighter than &, so that f() & g() >> pool would send g() alone.
// It does not compile. The operators with a pool are in compute_pool.h.

#include <cstdint>
#include <exception>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/call.h"
#include "skyward/call/call_limits.h"
#include "skyward/call/registry.h"

namespace skyward {

// A result in a container: void becomes std::monostate.
template <typename R>
using Value = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

// One call whose result is an R.
template <typename R>
class [[nodiscard]] Pending {
 public:
  using Result = R;
  using WriteArguments = std::function<void(ArchiveWriter&)>;

  // For sky::compute, and what else makes functions.
  Pending(const RegisteredFunction& function, WriteArguments write, CallOptions options = {})
      : function_(&function), write_(std::move(write)), options_(options) {}

  // A copy with a limit on its run time: a task that exceeds it is killed and throws TimeoutError.
  // Throws ConfigurationError unless the limit is positive.
  Pending with_timeout(TimeLimit limit) const {
    Pending copy = *this;
    copy.options_.timeout = run_time_limit(limit);
    return copy;
  }
  // A copy that runs again, up to so many times, when its function throws or its worker dies. An
  // Error event reports each retry. A lost machine needs none. Throws ConfigurationError unless
  // the number is from 0 to 1000.
  Pending with_retries(int times) const {
    Pending copy = *this;
    copy.options_.retries = retry_limit(times);
    return copy;
  }
  // A copy that runs on this node only.
  Pending on_node(std::uint32_t node) const {
    Pending copy = *this;
    copy.options_.node = NodeId{node};
    return copy;
  }

  const std::string& name() const { return function_->name(); }
  const RegisteredFunction& function() const { return *function_; }
  // Whether only its arguments tell it from other calls of its function.
  bool is_plain() const { return options_ == CallOptions{}; }

  // The call in the form that travels; `store` takes large arguments.
  Call to_call(BlobStore store) const {
    ArchiveWriter archive(std::move(store));
    write_arguments(archive);
    return {.function = function_->body(), .arguments = archive.finish(), .options = options_};
  }
  void write_arguments(ArchiveWriter& archive) const { write_(archive); }

 private:
  const RegisteredFunction* function_;
  WriteArguments write_;
  CallOptions options_;
};

template <typename T>
struct IsPending : std::false_type {};
template <typename R>
struct IsPending<Pending<R>> : std::true_type {};

// Calls that run together, each with its own type of result. Made by `&`.
template <typename... Rs>
class [[nodiscard]] Batch {
 public:
  explicit Batch(std::tuple<Pending<Rs>...> calls) : calls_(std::move(calls)) {}

  const std::tuple<Pending<Rs>...>& calls() const { return calls_; }

  // A copy in which every call has this limit.
  Batch with_timeout(TimeLimit limit) const {
    return std::apply(
        [limit](const auto&... call) {
          return Batch(std::tuple<Pending<Rs>...>(call.with_timeout(limit)...));
        },
        calls_);
  }

 private:
  std::tuple<Pending<Rs>...> calls_;
};

// A result, or the exception that get() of its call would have thrown.
template <typename R>
using Attempt = std::expected<Value<R>, std::exception_ptr>;

// Calls whose failures stand among the results. Made by return_exceptions().
template <typename R>
class [[nodiscard]] Attempts {
 public:
  explicit Attempts(std::vector<Pending<R>> calls) : calls_(std::move(calls)) {}

  const std::vector<Pending<R>>& calls() const { return calls_; }

 private:
  std::vector<Pending<R>> calls_;
};

// Any number of calls with results of one type. Made by gather().
template <typename R>
class [[nodiscard]] Gathered {
 public:
  explicit Gathered(std::vector<Pending<R>> calls) : calls_(std::move(calls)) {}

  const std::vector<Pending<R>>& calls() const { return calls_; }

  // The same calls; sent to a pool, they give a vector of Attempt<R>, and nothing is thrown for a
  // call that fails.
  Attempts<R> return_exceptions() const { return Attempts<R>(calls_); }

 private:
  std::vector<Pending<R>> calls_;
};

template <typename R>
Gathered<R> gather(std::vector<Pending<R>> calls) {
  return Gathered<R>(std::move(calls));
}

template <typename... Rs>
Batch<Rs...> gather(Pending<Rs>... calls) {
  return Batch<Rs...>(std::tuple<Pending<Rs>...>(std::move(calls)...));
}

template <typename A, typename B>
Batch<A, B> operator&(Pending<A> left, Pending<B> right) {
  return gather(std::move(left), std::move(right));
}
template <typename... As, typename B>
Batch<As..., B> operator&(Batch<As...> left, Pending<B> right) {
  return Batch<As..., B>(std::tuple_cat(left.calls(), std::tuple<Pending<B>>(std::move(right))));
}
template <typename A, typename... Bs>
Batch<A, Bs...> operator&(Pending<A> left, Batch<Bs...> right) {
  return Batch<A, Bs...>(std::tuple_cat(std::tuple<Pending<A>>(std::move(left)), right.calls()));
}
template <typename... As, typename... Bs>
Batch<As..., Bs...> operator&(Batch<As...> left, Batch<Bs...> right) {
  return Batch<As..., Bs...>(std::tuple_cat(left.calls(), right.calls()));
}

template <typename T>
struct IsBatch : std::false_type {};
template <typename... Rs>
struct IsBatch<Batch<Rs...>> : std::true_type {};
template <typename T>
concept IsCall = IsPending<std::remove_cvref_t<T>>::value || IsBatch<std::remove_cvref_t<T>>::value;

template <typename Left, typename R>
  requires IsCall<Left>
void operator&(const Left&, const Gathered<R>&) {
  static_assert(!IsCall<Left>,
                "a call and a gather() of a vector cannot form one batch: put the call into that "
                "vector, or send the two one after the other");
}

// A call & a result: the parentheses are missing that the comment at the top asks for.
template <typename Left, typename Right>
  requires(IsCall<Left> && !IsCall<Right>)
void operator&(const Left&, const Right&) {
  static_assert(IsCall<Right>,
                "parentheses are missing: >> binds tighter than &, so `f() & g() >> pool` means "
                "`f() & (g() >> pool)`; "
                "write `(f() & g()) >> pool`");
}

}  // namespace skyward
