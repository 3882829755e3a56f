#pragma once

// Exceptions that arrive as the type that was thrown. A compute function that throws anything else
// makes get() throw a RemoteError, which names the type and has its text.
//
//   struct BadRow : std::runtime_error {
//     using std::runtime_error::runtime_error;
//     int row = 0;
//     template <typename Archive>
//     void serialize(Archive& archive) { archive(row); }
//   };
//   inline const sky::ThrownType<BadRow> bad_row;   // in a header or a source file
//
//   try {
//     parse(text) >> pool;
//   } catch (const BadRow& error) { … }
//
// What is caught is also a std::nested_exception, whose nested one is the RemoteError: it knows the
// node, the last lines that the task wrote, and what the exception itself was nested around
// (std::throw_with_nested).

#include <concepts>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "skyward/call/archive.h"
#include "skyward/call/probe.h"
#include "skyward/call/sendable.h"

namespace skyward {

// One type of exceptions. Its constructor registers it; it exists as long as the program.
class RegisteredException {
 public:
  // Writes what the type has beside its text.
  using Write = void (*)(const std::exception& error, ArchiveWriter& archive);
  // Makes the exception again. Call it while the RemoteError is being handled.
  using Make = std::exception_ptr (*)(const std::string& text, ArchiveReader& archive);

  // `nested`: the type that std::throw_with_nested() makes of it.
  RegisteredException(const std::type_info& type, const std::type_info& nested, Write writer,
                      Make maker);
  RegisteredException(const RegisteredException&) = delete;
  RegisteredException& operator=(const RegisteredException&) = delete;

  // What travels. Types of equal name in several files (anonymous namespaces) are numbered, as
  // functions are (registry.h).
  const std::string& symbol() const { return symbol_; }
  void write(const std::exception& error, ArchiveWriter& archive) const { write_(error, archive); }
  std::exception_ptr make(const std::string& text, ArchiveReader& archive) const {
    return make_(text, archive);
  }

 private:
  std::string symbol_;
  const Write write_;
  const Make make_;
};

// By the type itself, not one that it derives from, or by its symbol; null: not registered.
const RegisteredException* find_exception(const std::type_info& type);
const RegisteredException* find_exception(std::string_view symbol);

template <typename E>
class ThrownType {
  static_assert(std::derived_from<E, std::exception>, "only a std::exception has a text to send");
  static_assert(!std::is_final_v<E>, "what arrives derives from the exception: leave out final");
  static_assert(std::constructible_from<E, const std::string&>,
                "the exception is built from its text: give it a constructor that takes a "
                "std::string");
  static_assert(!probe::inherits_its_form<E>(),
                "this exception may add fields, but inherits a `serialize` or `save` that does not "
                "include them: write one for the exception itself that begins with "
                "archive(cereal::base_class<Base>(this))");

 public:
  ThrownType() { (void)registered_; }

 private:
  struct Arrived final : E, std::nested_exception {
    explicit Arrived(E error) : E(std::move(error)) {}
  };

  static constexpr bool kHasFields =
      cereal::traits::is_output_serializable<E, ArchiveWriter>::value &&
      cereal::traits::is_input_serializable<E, ArchiveReader>::value;

  static void write(const std::exception& error, ArchiveWriter& archive) {
    if constexpr (kHasFields) archive(static_cast<const E&>(error));
  }
  static std::exception_ptr make(const std::string& text, ArchiveReader& archive) {
    E error(text);
    if constexpr (kHasFields) archive(error);
    return std::make_exception_ptr(Arrived(std::move(error)));
  }

  static const std::type_info& nested_type() {
#ifdef __GLIBCXX__
    if constexpr (!std::derived_from<E, std::nested_exception>) {
      return typeid(std::_Nested_exception<E>);
    }
#endif
    return typeid(E);
  }

  // Of this program or library alone, as functions are (function.h).
  [[gnu::visibility("hidden")]] static inline const RegisteredException registered_{
      typeid(E), nested_type(), &write, &make};
};

}  // namespace skyward
