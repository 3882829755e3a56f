#pragma once

// The compute functions of this program, by name.
//
// sky::compute<f> registers f before main() begins. A call travels as the function's name; the
// worker is another process of the same executable, so its registry has the same names. (That is
// why only functions named in the program's text can be called: a closure's captures do not
// travel.)

#include <memory>
#include <string>
#include <string_view>

#include "skyward/call/archive.h"
#include "skyward/call/call.h"

namespace skyward {

// One function. Its constructor registers it; it exists as long as the program.
class RegisteredFunction {
 public:
  // Reads the arguments, calls the function, writes its result. Exceptions pass through.
  using Invoke = void (*)(ArchiveReader& arguments, ArchiveWriter& result);

  // `symbol`: unique text (a mangled name); `pretty`: `[with auto F = f]` as the compiler prints
  // it.
  RegisteredFunction(std::string_view symbol, std::string_view pretty, Invoke function);
  RegisteredFunction(const RegisteredFunction&) = delete;
  RegisteredFunction& operator=(const RegisteredFunction&) = delete;

  // For people: "train".
  const std::string& name() const { return name_; }
  // What travels. Functions of equal symbol in several files (anonymous namespaces) are numbered.
  const std::string& symbol() const { return symbol_; }
  void invoke(ArchiveReader& arguments, ArchiveWriter& result) const { invoke_(arguments, result); }
  // The form that is sent; created on first use. Any thread.
  std::shared_ptr<const FunctionBody> body() const;

 private:
  std::string symbol_;
  std::string name_;
  Invoke invoke_;
};

// The function with this symbol; null when the program has none.
const RegisteredFunction* find_function(std::string_view symbol);

}  // namespace skyward
