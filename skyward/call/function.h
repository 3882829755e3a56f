#pragma once

// Turns a function into one that can run on a pool:
//
//   double train_impl(const std::vector<double>& data, int epochs);
//   inline constexpr auto train = sky::compute<train_impl>;
//
//   double loss = train(data, 10) >> pool;   // on some worker
//   double same = train.local(data, 10);     // here
//
// Calling a compute function runs nothing: it records the call (Pending). No macro and no
// registration by hand; a captureless lambda works as well:
//
//   inline constexpr auto square = sky::compute<[](int x) { return x * x; }>;

#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "skyward/call/pending.h"
#include "skyward/call/registry.h"
#include "skyward/call/sendable.h"
#include "skyward/call/sink.h"

namespace skyward {

// The signature of a function pointer or of a captureless closure, as R(P...).
template <typename F>
struct SignatureOf {
  static_assert(
      requires { &F::operator(); },
      "sky::compute takes a plain function or a captureless lambda without auto parameters; for an "
      "overloaded function, say which one: sky::compute<static_cast<int (*)(int)>(f)>");
  using Type = typename SignatureOf<decltype(&F::operator())>::Type;
};
template <typename R, typename... P>
struct SignatureOf<R (*)(P...)> {
  using Type = R(P...);
};
template <typename R, typename... P>
struct SignatureOf<R (*)(P...) noexcept> {
  using Type = R(P...);
};
template <typename C, typename R, typename... P>
struct SignatureOf<R (C::*)(P...) const> {
  using Type = R(P...);
};
template <typename C, typename R, typename... P>
struct SignatureOf<R (C::*)(P...) const noexcept> {
  using Type = R(P...);
};

template <auto F, typename Signature>
class ComputeFunctionOf;

template <auto F, typename R, typename... P>
class ComputeFunctionOf<F, R(P...)> {
 public:
  using Result = std::remove_cv_t<R>;

  // The recorded call. Arguments are taken by value: move large ones in.
  Pending<Result> operator()(typename Parameter<P>::Stored... arguments) const {
    check_result_type<R>();
    auto kept = std::make_shared<const std::tuple<typename Parameter<P>::Stored...>>(
        std::move(arguments)...);
    return Pending<Result>(registered_, [kept = std::move(kept)](ArchiveWriter& archive) {
      std::apply([&archive](const auto&... argument) { (archive(argument), ...); }, *kept);
    });
  }

  // The plain call, here and now.
  R local(P... arguments) const { return F(std::forward<P>(arguments)...); }

  // For calls that run it in another way (distributed::mpi).
  static const RegisteredFunction& registered() { return registered_; }

 private:
  static void invoke(ArchiveReader& arguments, ArchiveWriter& result) {
    std::tuple<typename Parameter<P>::Received...> received;
    std::apply([&arguments](auto&... one) { (one.read(arguments), ...); }, received);
    arguments.expect_end();
    if constexpr (std::is_void_v<R>) {
      std::apply([](auto&... one) { F(one.give()...); }, received);
    } else {
      const auto value = std::apply([](auto&... one) { return F(one.give()...); }, received);
      result(value);
    }
  }

  // Prints F the way people read it.
  static constexpr const char* pretty() { return __PRETTY_FUNCTION__; }

  // The mangled name of this very type holds F's with all its parameters. Of this program or
  // library alone: workers do not know what a library has registered.
  [[gnu::visibility("hidden")]] static inline const RegisteredFunction registered_{
      typeid(ComputeFunctionOf).name(), pretty(), &invoke};
};

// A function that yields.
template <auto F, typename T, typename... P>
class ComputeFunctionOf<F, void(Sink<T>&, P...)> {
 public:
  PendingStream<T> operator()(typename Parameter<P>::Stored... arguments) const {
    auto kept = std::make_shared<const std::tuple<typename Parameter<P>::Stored...>>(
        std::move(arguments)...);
    return PendingStream<T>(
        Pending<void>(registered_, [kept = std::move(kept)](ArchiveWriter& archive) {
          std::apply([&archive](const auto&... argument) { (archive(argument), ...); }, *kept);
        }));
  }

  // The plain call, here and now: `sink` gets the items.
  void local(Sink<T>& sink, P... arguments) const { F(sink, std::forward<P>(arguments)...); }

 private:
  static void invoke(ArchiveReader& arguments, ArchiveWriter&) {
    std::tuple<typename Parameter<P>::Received...> received;
    std::apply([&arguments](auto&... one) { (one.read(arguments), ...); }, received);
    arguments.expect_end();
    Sink<T> sink = sink_of<T>(require_item_channel());
    std::apply([&sink](auto&... one) { F(sink, one.give()...); }, received);
  }

  static constexpr const char* pretty() { return __PRETTY_FUNCTION__; }

  // Of this program or library alone, as above.
  [[gnu::visibility("hidden")]] static inline const RegisteredFunction registered_{
      typeid(ComputeFunctionOf).name(), pretty(), &invoke};
};

// The compute function made from F.
template <auto F>
using ComputeFunction =
    ComputeFunctionOf<F, typename SignatureOf<std::remove_cv_t<decltype(F)>>::Type>;

template <auto F>
inline constexpr ComputeFunction<F> compute{};

}  // namespace skyward
