#pragma once

// Which C++ types may be arguments and results of a compute function, and in what form they travel.
//
// Any type that cereal can write and read: numbers, strings, the standard containers, structs with
// a `serialize` member. A parameter may also be a view (std::span<const T>, std::string_view): the
// caller then passes a vector or a string, and the function reads the received bytes in place,
// without a copy. Pointers and references to non-const cannot be sent: the function runs in another
// process.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "skyward/call/archive.h"
#include "skyward/call/array.h"
#include "skyward/call/plain_struct.h"
#include "skyward/call/probe.h"

namespace skyward {

// A container, or what holds one value as std::optional does.
template <typename T>
concept HasElements =
    requires { typename T::value_type; } && !std::is_same_v<T, typename T::value_type>;

// True when cereal can write and read a T and all its parts. Explains what is wrong with a type,
// where "cannot be sent" would not help.
template <typename T>
struct CheckedForm {
  static_assert(!std::is_class_v<T> || !probe::inherits_its_form<T>(),
                "this struct adds fields, or may add some, but inherits a `serialize` or `save` "
                "that does not include them: write one for the struct itself that begins with "
                "archive(cereal::base_class<Base>(this))");
};
template <typename T>
struct IsSendable
    : CheckedForm<T>,
      std::bool_constant<!std::is_pointer_v<T> && std::default_initializable<T> &&
                         cereal::traits::is_output_serializable<T, ArchiveWriter>::value &&
                         cereal::traits::is_input_serializable<T, ArchiveReader>::value> {};
template <HasElements T>
struct IsSendable<T>
    : std::bool_constant<IsSendable<std::remove_const_t<typename T::value_type>>::value &&
                         cereal::traits::is_output_serializable<T, ArchiveWriter>::value &&
                         cereal::traits::is_input_serializable<T, ArchiveReader>::value> {};
template <typename A, typename B>
struct IsSendable<std::pair<A, B>>
    : std::bool_constant<IsSendable<std::remove_const_t<A>>::value && IsSendable<B>::value> {};
template <typename... Ts>
struct IsSendable<std::tuple<Ts...>> : std::bool_constant<(IsSendable<Ts>::value && ...)> {};
template <typename... Ts>
struct AllSendable : std::bool_constant<(IsSendable<std::remove_const_t<Ts>>::value && ...)> {
  static_assert(!(std::is_const_v<Ts> || ...),
                "a plain struct cannot be received with a const field: leave the const out, or "
                "write a `serialize` and a constructor for it");
};
template <PlainStruct T>
struct IsSendable<T> : decltype(visit_fields(std::declval<T&>(), [](auto&... field) {
  return AllSendable<std::remove_reference_t<decltype(field)>...>{};
})){};
template <>
struct IsSendable<void> : std::true_type {};

// If a plain struct, or a container of them, cannot be sent, the compiler names the fields that are
// the reason.
template <typename T>
struct NamedFields {};
template <typename T, std::size_t Number, typename F>
struct Field : NamedFields<F> {
  static_assert(IsSendable<F>::value || PlainStruct<F>,
                "this field cannot be sent: Field<its struct, its number, its type>");
};
template <typename T, typename Numbers, typename... Fs>
struct AllFields;
template <typename T, std::size_t... I, typename... Fs>
struct AllFields<T, std::index_sequence<I...>, Fs...> : Field<T, I + 1, Fs>... {};
template <PlainStruct T>
  requires(!IsSendable<T>::value)
struct NamedFields<T> : decltype(visit_fields(std::declval<T&>(), [](auto&... field) {
  return AllFields<T, std::index_sequence_for<decltype(field)...>,
                   std::remove_cvref_t<decltype(field)>...>{};
})){};
template <HasElements T>
struct NamedFields<T> : NamedFields<std::remove_const_t<typename T::value_type>> {};

template <typename T>
struct IsSpan : std::false_type {};
template <typename T, std::size_t N>
struct IsSpan<std::span<T, N>> : std::true_type {};

// How a parameter of type P is kept by the driver (Stored), received by the worker (Received) and
// given to the function.
template <typename P>
struct Parameter {
  static_assert(!std::is_pointer_v<std::remove_cvref_t<P>>,
                "a compute function runs in another process: a pointer means nothing there; take a "
                "std::vector, std::span<const T> or std::string instead");
  static_assert(
      !std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
      "a compute function works on a copy of its argument in another process: take it by value "
      "or by const reference, and return what changed");
  using Stored = std::remove_cvref_t<P>;
  static_assert(!IsSpan<Stored>::value,
                "this span cannot be sent: a span parameter is a std::span<const T> of numbers, "
                "read where they lie; take other elements as const std::vector<T>&, and return "
                "what changed");
  static_assert(std::is_pointer_v<Stored> || IsSpan<Stored>::value || IsSendable<Stored>::value,
                "this parameter type cannot be sent: unless it is a plain struct, it (or "
                "the container's element type) needs a member `template <typename Archive> void "
                "serialize(Archive& archive) { archive(a, b, c); }` and a default constructor; for "
                "a standard type include its <cereal/types/….hpp>, or where cereal has none send "
                "what it is made of, such as the string of a path");
  static_assert(sizeof(NamedFields<Stored>) > 0);

  struct Received {
    Stored value;
    void read(ArchiveReader& archive) { archive(value); }
    P give() { return static_cast<P>(std::forward<P>(value)); }
  };
};

// Received bytes as elements: in place if the alignment allows it, otherwise copied.
template <typename T>
class ReceivedRun {
 public:
  void read(ArchiveReader& archive) {
    cereal::size_type count = 0;
    archive(cereal::make_size_tag(count));
    count_ = static_cast<std::size_t>(count);
    bytes_ = archive.take_run(count_ * sizeof(T));
    if (reinterpret_cast<std::uintptr_t>(bytes_.view.data()) % alignof(T) == 0) return;
    copy_.resize(count_);
    std::memcpy(copy_.data(), bytes_.view.data(), bytes_.size());
  }
  const T* data() const {
    return copy_.empty() ? reinterpret_cast<const T*>(bytes_.view.data()) : copy_.data();
  }
  std::size_t size() const { return count_; }

 private:
  SharedBytes bytes_;
  std::vector<T> copy_;
  std::size_t count_ = 0;
};

template <typename T>
  requires std::is_arithmetic_v<T> && (!std::is_same_v<T, bool>)
struct Parameter<std::span<const T>> {
  using Stored = Array<T>;
  static constexpr bool kIsView = true;
  struct Received : ReceivedRun<T> {
    std::span<const T> give() { return {this->data(), this->size()}; }
  };
};

template <>
struct Parameter<std::string_view> {
  using Stored = std::string;
  static constexpr bool kIsView = true;
  struct Received : ReceivedRun<char> {
    std::string_view give() { return {data(), size()}; }
  };
};

// A view by const reference is the view.
template <typename P>
  requires(std::is_reference_v<P> &&
           (!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>) &&
           requires { Parameter<std::remove_cvref_t<P>>::kIsView; })
struct Parameter<P> : Parameter<std::remove_cvref_t<P>> {};

template <typename R>
constexpr void check_result_type() {
  static_assert(!std::is_reference_v<R> && !std::is_pointer_v<R>,
                "a compute function must return a value: a reference or pointer into the worker's "
                "memory means "
                "nothing to the caller");
  static_assert(
      IsSendable<std::remove_cv_t<R>>::value,
      "this result type cannot be sent: unless it is a plain struct, it (or the container's "
      "element type) needs a member `template <typename Archive> void serialize(Archive& archive) "
      "{ archive(a, b, c); }` "
      "and a default constructor; for a standard type include its <cereal/types/….hpp>");
  static_assert(sizeof(NamedFields<std::remove_cv_t<R>>) > 0);
}

}  // namespace skyward
