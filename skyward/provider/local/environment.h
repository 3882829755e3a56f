#pragma once

// The Python environment of an image on this machine: made once with uv, kept in the user's cache
// under a key of all that goes into it, and used by every later pool that asks for the same, until
// none has asked for a month. Pure: text in, text out.
//
// To resolve packages again, remove the environment's directory.

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skyward::provider {

// Variables of uv and pip that say where packages come from, and with it which of several variants.
inline constexpr std::array kIndexVariables = {
    "UV_DEFAULT_INDEX",    "UV_INDEX_URL",      "UV_INDEX",         "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",       "UV_INDEX_STRATEGY", "UV_TORCH_BACKEND", "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",    "PIP_NO_INDEX"};

struct EnvironmentRequest {
  std::string root;                // directory of all environments
  std::string python;              // path of an interpreter, or a version for uv to find
  std::string version{};           // "3.12", "3.12.4": what `python` is; empty: not known
  std::string machine{};           // its architecture; empty: not a part of the key
  std::vector<std::string> pip{};  // requirements
  // What the requirements on this disk look like: when they change, they are installed again.
  std::vector<std::string> contents{};
  std::optional<std::string> extra_index{};
  std::string index_project{};  // which packages have an index of their own (spec/pip_index.h)
  std::string uv = "uv";        // the program
  std::map<std::string, std::string> variables{};  // of the pool that steer uv: UV_…, PIP_…
  std::map<std::string, std::string> indexes{};    // this computer's: by kIndexVariables
  bool sees_image = false;  // the packages of the machine's Python are visible
  // Of the image: with others, packages may be built in another way.
  std::map<std::string, std::string> image_variables{};
};

// Where the requirement lies on a disk: "name @ file:///x.whl ; marker" → "/x.whl". Empty: on none.
std::string disk_path_of(std::string_view requirement);

// "3.11" of "3.11.7".
std::string minor_version(std::string_view version);

// A function for bash: the version of an interpreter, "3.12"; empty if it does not start.
inline constexpr std::string_view kVersionOf = R"bash(
version_of() {
  "$1" -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null || true
}
)bash";

// A line of bash after `options`, the array of uv's options: uv is to look again at requirements on
// a disk. Empty where there are none.
std::string_view refresh_line(const EnvironmentRequest& request);

// 16 hex digits. The order of packages does not matter, nor do logins: tokens of an index change
// from hour to hour.
std::string environment_key(const EnvironmentRequest& request);

std::string environment_directory(const EnvironmentRequest& request);
std::string environment_python(const EnvironmentRequest& request);

// The file that says, by being there, that an environment is whole. A build that was killed never
// writes it.
std::string environment_marker(const EnvironmentRequest& request);

// The bash script that makes the environment, or finds it made. Steps are written to descriptor 3
// as they finish: uv, apt, deps, skyward. `no_index`: only packages of --find-links.
std::string environment_script(const EnvironmentRequest& request, bool no_index);

// What `pip config list` printed, as option → value: "extra-index-url" → "https://a https://b".
// Variables of the environment win over [install], which wins over [global], as in pip.
std::map<std::string, std::string> parse_pip_config(std::string_view text);

// How to make uv look where pip looks.
struct UvSettings {
  std::vector<std::pair<std::string, std::string>> environment;
  bool no_index = false;
};
// `pip`: from parse_pip_config. `variable` tells what is set already; uv's own variables are never
// overruled, except that the image's extra index is added to those there are.
UvSettings uv_settings(const std::map<std::string, std::string>& pip,
                       const std::optional<std::string>& image_extra_index,
                       const std::function<std::optional<std::string>(const char*)>& variable);

}  // namespace skyward::provider
