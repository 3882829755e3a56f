#include "skyward/spec/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "skyward/base/text.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/pip_index.h"
#include "skyward/spec/plain_text.h"

namespace skyward {

namespace {

// Linux starts no program with a longer entry in its environment (MAX_ARG_STRLEN).
constexpr std::size_t kMaxEntryBytes = (std::size_t{128} << 10) - 1;
// All of them together: a program's arguments and environment share 2 MiB at most, and the message
// that sets a node up holds the environment once for each of its workers.
constexpr std::size_t kMaxEnvironmentBytes = std::size_t{256} << 10;
// Of all package names together; they become a script of that size.
constexpr std::size_t kMaxPackageBytes = std::size_t{1} << 20;

bool is_url_or_path(std::string_view text) {
  if (text.starts_with('/')) return true;
  const std::size_t scheme = text.find("://");
  return scheme != std::string_view::npos && scheme > 0 && is_letter(text.front()) &&
         is_made_of(text.substr(0, scheme), "+.-");
}

// A URL or an absolute path holds no blank, nothing that a URL must escape, and no shell
// substitution.
bool is_clean_location(std::string_view text) {
  return !text.empty() && text.size() < 4096 && is_made_of(text, "-._~:/?#[]@!&'()*+,=%");
}

bool is_index_url(std::string_view text) { return is_url_or_path(text) && is_clean_location(text); }

// What stands between "://" and "@" may be a password.
std::string without_login(std::string text) {
  const std::size_t scheme = text.find("://");
  const std::size_t at = text.rfind('@');
  if (scheme == std::string::npos || at == std::string::npos || at < scheme + 3) return text;
  return text.replace(scheme + 3, at - scheme - 3, "***");
}

Status bad_index_url(std::string_view parameter) {
  return fail(ErrorKind::invalid,
              fmt::format("{} is not a URL: no scheme, or a character that must be escaped "
                          "(the value is not shown: it may contain a password)",
                          parameter),
              "write it as \"https://host/simple\"");
}

// An environment marker starts with one of its variables or a quoted text and compares something.
bool is_marker(std::string_view text) {
  constexpr std::array<std::string_view, 12> kVariables = {
      "python_version",      "python_full_version",    "os_name",
      "sys_platform",        "platform_release",       "platform_system",
      "platform_machine",    "platform_version",       "platform_python_implementation",
      "implementation_name", "implementation_version", "extra"};
  if (!is_made_of(text, " \"'<>=!~._-()+*,")) return false;
  while (!text.empty() && (text.front() == ' ' || text.front() == '(')) text.remove_prefix(1);
  const bool starts_well = text.starts_with('"') || text.starts_with('\'') ||
                           std::ranges::any_of(kVariables, [&](std::string_view name) {
                             return text.starts_with(name);
                           });
  return starts_well &&
         (text.find_first_of("<>=") != std::string_view::npos || text.contains(" in "));
}

// Of files that list packages, and of packages.
constexpr std::array<std::string_view, 4> kLists = {".txt", ".toml", "uv.lock", "poetry.lock"};
constexpr std::array<std::string_view, 3> kPackageFiles = {".whl", ".zip", ".gz"};

template <std::size_t kCount>
bool ends_with_any(std::string_view text, const std::array<std::string_view, kCount>& ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return text.ends_with(end); });
}

std::string_view requirement_hint(std::string_view text) {
  text = trimmed(text, " ");
  if (text.starts_with("-r") || text.starts_with("--requirement") || ends_with_any(text, kLists)) {
    return "files are not read here: give the packages that the file lists, a string for each";
  }
  if (text.starts_with("-e") || text.starts_with("--editable")) {
    return "send a package's source with Image(includes=[…]), or give the absolute path of its "
           "folder if the nodes have it";
  }
  if (text.starts_with('-')) {
    return "options cannot be given as packages; use pip_extra_index_url or pip_indexes for an "
           "index";
  }
  return "write it as \"name\", \"name[extra]==1.2\", \"name @ URL\", a URL, or an absolute path";
}

// A requirement as pip reads it: name[extras] version ; marker, or name @ URL, or a URL, or an
// absolute path.
bool is_requirement(std::string_view text) {
  text = trimmed(text, " ");
  if (is_url_or_path(text) && is_clean_location(text)) return true;
  std::size_t name = 0;
  while (name < text.size() && (is_alphanumeric(text[name]) ||
                                (name > 0 && std::string_view("._-").contains(text[name]))))
    ++name;
  const std::string_view file = text.substr(0, name);
  if (name == 0 || ends_with_any(file, kLists) || ends_with_any(file, kPackageFiles)) return false;
  std::string_view rest = trimmed(text.substr(name), " ");
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos || !is_made_of(rest.substr(1, end - 1), "._-, "))
      return false;
    rest = trimmed(rest.substr(end + 1), " ");
  }
  if (const std::size_t marker = rest.find(';'); marker != std::string_view::npos) {
    if (!is_marker(rest.substr(marker + 1))) return false;
    rest = trimmed(rest.substr(0, marker), " ");
  }
  if (rest.starts_with('@')) return is_clean_location(trimmed(rest.substr(1), " "));
  if (rest.empty()) return true;
  return std::string_view("<>=!~(").contains(rest.front()) && is_made_of(rest, "<>=!~().,*+_- ");
}

// name, name:architecture, name=version or name/release, as apt-get reads it.
bool is_apt_package(std::string_view text) {
  return !text.empty() && (is_lower(text.front()) || is_digit(text.front())) &&
         is_made_of(text, "+-.:~=/_") && text.back() != '-' && text.back() != '=';
}

// "3.13" or "3.13.1".
bool is_python_version(std::string_view text) {
  if (!text.starts_with("3.")) return false;
  text.remove_prefix(2);
  const std::size_t dot = text.find('.');
  const auto number = [](std::string_view part) {
    return !part.empty() && part.size() <= 3 && std::ranges::all_of(part, is_digit);
  };
  if (dot == std::string_view::npos) return number(text);
  return number(text.substr(0, dot)) && number(text.substr(dot + 1));
}

}  // namespace

Status validate_environment(const std::map<std::string, std::string>& env, std::string_view where) {
  constexpr const char* kPassAsArgument =
      "pass large values as arguments of the calls, or put them into a file";
  std::size_t total = 0;
  for (const auto& [name, value] : env) {
    if (name.empty() || is_digit(name.front()) || !is_made_of(name, "_")) {
      return fail(
          ErrorKind::invalid,
          fmt::format("{}: {} is not a valid environment variable name", where, json_string(name)),
          "use letters, digits and underscores, not starting with a digit");
    }
    if (value.contains('\0')) {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: the value of {} contains a NUL character", where, name),
                  "an environment variable cannot hold one; encode the value, for example as hex");
    }
    const std::size_t bytes = name.size() + 1 + value.size();
    total += bytes;
    if (bytes > kMaxEntryBytes) {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: {} takes {} bytes; Linux allows {} per variable", where,
                              json_string(name.substr(0, 64)), bytes, kMaxEntryBytes),
                  kPassAsArgument);
    }
  }
  if (total > kMaxEnvironmentBytes) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: the variables take {} bytes in total; the limit is {}", where,
                            total, kMaxEnvironmentBytes),
                kPassAsArgument);
  }
  return {};
}

Status validate(const Image& image) {
  if (!image.python.empty() && image.python != "auto" && !is_python_version(image.python)) {
    return fail(ErrorKind::invalid,
                fmt::format("Image(python={}) is not a Python version", json_string(image.python)),
                "write it as \"3.12\" or \"3.12.4\", or \"auto\" for the version of this program");
  }
  for (const std::string& package : image.pip) {
    if (is_requirement(package)) continue;
    return fail(ErrorKind::invalid,
                fmt::format("Image(pip=[{}]) is not a package requirement",
                            json_string(without_login(package))),
                std::string(requirement_hint(package)));
  }
  for (const std::string& package : image.apt) {
    if (is_apt_package(package)) continue;
    return fail(
        ErrorKind::invalid,
        fmt::format("Image(apt=[{}]) is not a valid system package name", json_string(package)),
        "write it as \"git\" or \"git=1:2.39\"; lower-case letters, digits, + - . only");
  }
  if (image.pip_extra_index_url && !is_index_url(*image.pip_extra_index_url)) {
    return bad_index_url("Image(pip_extra_index_url=…)");
  }
  for (const PipIndex& index : image.pip_indexes) {
    if (!is_index_url(index.url)) return bad_index_url("PipIndex(url=…)");
  }
  if (Status status = validate_pip_indexes(image); !status) return status;
  std::size_t bytes = 0;
  for (const std::string& package : image.pip) bytes += package.size();
  for (const std::string& package : image.apt) bytes += package.size();
  if (bytes > kMaxPackageBytes) {
    return fail(
        ErrorKind::invalid,
        fmt::format(
            "Image(pip=…, apt=…): the package names take {} bytes in total; the limit is {}", bytes,
            kMaxPackageBytes),
        "put the packages into a wheel or a package index and name that");
  }
  return validate_environment(image.env, "Image(env=…)");
}

std::string shell_quote(std::string_view text) {
  if (!text.empty() && is_made_of(text, "@%+=:,./-_")) return std::string(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  out += '\'';
  return out;
}

}  // namespace skyward
