#pragma once

// GraphQL as clients of RunPod write it: one operation with fields, arguments and variables.
// Fragments, directives and subscriptions are refused.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "doubles/request.h"

namespace skyward::doubles {

// A field that is asked for.
struct Selection {
  std::string name{};
  std::string key{};  // under which the reply has it: its alias, else its name
  Json arguments = Json::object();
  std::vector<Selection> fields{};  // none: a value that has no parts
};

struct Operation {
  std::string kind{};  // "query", "mutation"
  std::vector<Selection> fields{};
};

// The operation of a document, with the values of its variables. An error says what is wrong.
std::expected<Operation, std::string> read_operation(std::string_view document,
                                                     const Json& variables);

// What is asked for of an object, or of each of a list. What is wrong with it goes to `wrong`.
Json select(const Json& value, const std::vector<Selection>& fields,
            std::vector<std::string>& wrong);

}  // namespace skyward::doubles
