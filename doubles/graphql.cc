#include "doubles/graphql.h"

#include <cctype>
#include <utility>

namespace skyward::doubles {
namespace {

// Leaves the parser from any depth; read_operation() catches it.
struct Misread {
  std::string what{};
};

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Parser {
 public:
  Parser(std::string_view text, const Json& variables) : text_(text), given_(variables) {}

  Operation operation() {
    Operation out{.kind = "query"};
    skip();
    if (peek() != '{') {
      out.kind = name();
      if (out.kind != "query" && out.kind != "mutation") fail("an operation " + out.kind);
      if (is_name(peek())) name();
      if (peek() == '(') define_variables();
    }
    out.fields = selections();
    if (at_ < text_.size()) fail("more than one operation");
    for (const auto& [name, value] : given_.items()) {
      if (!variables_.contains(name)) fail("a variable $" + name + " that nobody defined");
    }
    return out;
  }

 private:
  static constexpr int kDeepest = 20;

  [[noreturn]] void fail(const std::string& what) const {
    throw Misread{"Syntax Error: " + what + " at " + std::to_string(at_)};
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (at_ < text_.size() &&
           (std::isspace(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == ',')) {
      ++at_;
    }
  }
  void take(char c) {
    if (peek() != c) fail(std::string("no ") + c);
    ++at_;
    skip();
  }
  bool takes(char c) {
    if (peek() != c) return false;
    take(c);
    return true;
  }
  std::string name() {
    const std::size_t begin = at_;
    while (is_name(peek())) ++at_;
    if (begin == at_) fail("no name");
    std::string out(text_.substr(begin, at_ - begin));
    skip();
    return out;
  }

  void define_variables() {
    take('(');
    while (!takes(')')) {
      take('$');
      const std::string variable = name();
      take(':');
      type();
      Json value = takes('=') ? this->value(0) : Json();
      variables_[variable] = given_.value(variable, value);
    }
  }
  void type() {
    if (takes('[')) {
      type();
      take(']');
    } else {
      name();
    }
    takes('!');
  }

  std::vector<Selection> selections(int depth = 0) {
    if (depth > kDeepest) fail("fields that are too deep");
    std::vector<Selection> out;
    take('{');
    while (!takes('}')) {
      if (peek() == '.') fail("a fragment");
      Selection& one = out.emplace_back();
      one.name = one.key = name();
      if (takes(':')) one.name = name();
      if (takes('(')) {
        while (!takes(')')) {
          const std::string argument = name();
          take(':');
          one.arguments[argument] = value(0);
        }
      }
      if (peek() == '@') fail("a directive");
      if (peek() == '{') one.fields = selections(depth + 1);
    }
    if (out.empty()) fail("no field");
    return out;
  }

  Json value(int depth) {
    if (depth > kDeepest) fail("a value that is too deep");
    if (peek() == '"') return text();
    if (takes('$')) {
      const std::string variable = name();
      if (!variables_.contains(variable)) fail("no variable $" + variable);
      return variables_[variable];
    }
    if (takes('[')) {
      Json out = Json::array();
      while (!takes(']')) out.push_back(value(depth + 1));
      return out;
    }
    if (takes('{')) {
      Json out = Json::object();
      while (!takes('}')) {
        const std::string field = name();
        take(':');
        out[field] = value(depth + 1);
      }
      return out;
    }
    return word();
  }
  // A number, true, false, null, or one of an enumeration.
  Json word() {
    const std::size_t begin = at_;
    while (is_name(peek()) || peek() == '-' || peek() == '+' || peek() == '.') ++at_;
    const std::string said(text_.substr(begin, at_ - begin));
    skip();
    if (said.empty()) fail("no value");
    Json read = Json::parse(said, nullptr, false);
    return read.is_discarded() ? Json(said) : read;
  }
  // Escapes are those of JSON. A line break ends no text.
  Json text() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && peek() != '"' && peek() != '\n') at_ += peek() == '\\' ? 2 : 1;
    if (peek() != '"') fail("a text without an end");
    ++at_;
    Json read = Json::parse(text_.substr(begin, at_ - begin), nullptr, false);
    if (read.is_discarded()) fail("a text that cannot be read");
    skip();
    return read;
  }

  const std::string_view text_;
  const Json& given_;
  Json variables_ = Json::object();
  std::size_t at_ = 0;
};

}  // namespace

std::expected<Operation, std::string> read_operation(std::string_view document,
                                                     const Json& variables) {
  try {
    return Parser(document, variables).operation();
  } catch (const Misread& misread) {
    return std::unexpected(misread.what);
  }
}

Json select(const Json& value, const std::vector<Selection>& fields,
            std::vector<std::string>& wrong) {
  if (value.is_null()) return value;
  if (value.is_array() && (value.empty() || value.front().is_structured())) {
    Json out = Json::array();
    for (const Json& one : value) out.push_back(select(one, fields, wrong));
    return out;
  }
  if (!value.is_object()) {
    if (!fields.empty()) wrong.push_back("a value has no field " + fields.front().name);
    return value;
  }
  if (fields.empty()) wrong.emplace_back("an object without a selection of its fields");
  Json out = Json::object();
  for (const Selection& field : fields) {
    if (!value.contains(field.name)) {
      wrong.push_back("Cannot query field \"" + field.name + "\"");
      continue;
    }
    out[field.key] = select(value[field.name], field.fields, wrong);
  }
  return out;
}

}  // namespace skyward::doubles
