#include "skyward/provider/aws/xml.h"
#include "skyward/base/text.h"

#include <cstdint>

namespace skyward::provider::aws {

namespace {

constexpr int kMaxDepth = 100;
// More than any page of a list has; a tree takes many times the bytes of its text.
constexpr int kMaxElements = 500'000;

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  } else if (code < 0x110000) {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

// "#x41" or "#65"; 0 when it is none.
std::uint32_t character_number(std::string_view entity) {
  const bool hex = entity.starts_with("#x") || entity.starts_with("#X");
  entity.remove_prefix(hex ? 2 : 1);
  std::uint32_t code = 0;
  if (entity.empty() || entity.size() > 8) return 0;
  for (const char c : entity) {
    std::uint32_t digit = 99;
    if (c >= '0' && c <= '9') digit = static_cast<std::uint32_t>(c - '0');
    if (hex && c >= 'a' && c <= 'f') digit = static_cast<std::uint32_t>(c - 'a' + 10);
    if (hex && c >= 'A' && c <= 'F') digit = static_cast<std::uint32_t>(c - 'A' + 10);
    if (digit >= (hex ? 16U : 10U)) return 0;
    code = code * (hex ? 16 : 10) + digit;
  }
  return code;
}

void append_decoded(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t ampersand = text.find('&');
    out += text.substr(0, ampersand);
    if (ampersand == std::string_view::npos) return;
    text.remove_prefix(ampersand);
    const std::size_t end = text.find(';');
    const std::string_view entity =
        end == std::string_view::npos ? std::string_view() : text.substr(1, end - 1);
    const std::uint32_t code = entity.starts_with('#') ? character_number(entity) : 0;
    if (entity == "amp") {
      out += '&';
    } else if (entity == "lt") {
      out += '<';
    } else if (entity == "gt") {
      out += '>';
    } else if (entity == "quot") {
      out += '"';
    } else if (entity == "apos") {
      out += '\'';
    } else if (code != 0) {
      append_utf8(out, code);
    } else {
      out += '&';  // not an entity: taken as it stands
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(end + 1);
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool read_document(XmlElement& root) {
    skip_between();
    return read_element(root, 0);
  }

 private:
  // What stands between elements and says nothing: blanks, comments, declarations.
  void skip_between() {
    while (!text_.empty()) {
      if (is_blank(text_.front())) {
        text_.remove_prefix(1);
      } else if (text_.starts_with("\xef\xbb\xbf")) {
        text_.remove_prefix(3);
      } else if (!skip_markup()) {
        return;
      }
    }
  }

  bool skip_markup() {
    if (text_.starts_with("<!--")) return skip_past("-->");
    if (text_.starts_with("<?")) return skip_past("?>");
    if (text_.starts_with("<!") && !text_.starts_with("<![CDATA[")) return skip_past(">");
    return false;
  }

  bool skip_past(std::string_view mark) {
    const std::size_t at = text_.find(mark);
    text_.remove_prefix(at == std::string_view::npos ? text_.size() : at + mark.size());
    return at != std::string_view::npos;
  }

  bool read_element(XmlElement& element, int depth) {
    if (depth > kMaxDepth || ++elements_ > kMaxElements || !text_.starts_with('<')) return false;
    text_.remove_prefix(1);
    const std::size_t end = text_.find_first_of(" \t\r\n/>");
    if (end == 0 || end == std::string_view::npos) return false;
    const std::string_view name = text_.substr(0, end);
    element.name = name.substr(name.find(':') == std::string_view::npos ? 0 : name.find(':') + 1);
    text_.remove_prefix(end);
    bool empty = false;
    return skip_attributes(empty) && (empty || read_content(element, name, depth));
  }

  bool skip_attributes(bool& empty) {
    char quote = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '>') {
        empty = i > 0 && text_[i - 1] == '/';
        text_.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }

  bool read_content(XmlElement& element, std::string_view name, int depth) {
    while (!text_.empty()) {
      if (text_.starts_with("</")) {
        text_.remove_prefix(2);
        if (!text_.starts_with(name)) return false;
        text_.remove_prefix(name.size());
        if (!element.children.empty()) element.text = trimmed(element.text);
        return skip_past(">");
      }
      if (text_.starts_with("<![CDATA[")) {
        text_.remove_prefix(9);
        const std::size_t end = text_.find("]]>");
        if (end == std::string_view::npos) return false;
        element.text += text_.substr(0, end);
        text_.remove_prefix(end + 3);
      } else if (text_.starts_with('<')) {
        if (skip_markup()) continue;
        if (!read_element(element.children.emplace_back(), depth + 1)) return false;
      } else {
        const std::size_t end = text_.find('<');
        if (end == std::string_view::npos) return false;
        append_decoded(element.text, text_.substr(0, end));
        text_.remove_prefix(end);
      }
    }
    return false;
  }

  std::string_view text_;
  int elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::find(std::string_view path) const {
  const XmlElement* at = this;
  while (at != nullptr && !path.empty()) {
    const std::size_t end = path.find('/');
    const std::string_view step = path.substr(0, end);
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    const XmlElement* next = nullptr;
    for (const XmlElement& child : at->children) {
      if (child.name == step) {
        next = &child;
        break;
      }
    }
    at = next;
  }
  return at;
}

std::string XmlElement::value(std::string_view path) const {
  const XmlElement* found = find(path);
  return found == nullptr ? std::string() : found->text;
}

std::vector<const XmlElement*> XmlElement::items(std::string_view path) const {
  std::vector<const XmlElement*> out;
  if (const XmlElement* list = find(path)) {
    for (const XmlElement& child : list->children) out.push_back(&child);
  }
  return out;
}

Result<XmlElement> parse_xml(std::string_view text) {
  XmlElement root;
  if (Reader(text).read_document(root)) return root;
  return fail(ErrorKind::unavailable,
              "the reply is not a complete XML document; it starts with: " +
                  std::string(text.substr(0, 120)),
              "a proxy may have answered in the service's place; try again");
}

}  // namespace skyward::provider::aws
