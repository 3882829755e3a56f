#include "skyward/provider/pip_settings.h"

#include <algorithm>
#include <chrono>

#include "skyward/base/text.h"
#include "skyward/io/process.h"
#include "skyward/provider/local/environment.h"
#include "skyward/spec/pip_index.h"

namespace skyward::provider {

namespace {

constexpr Duration kPipConfigTimeout = std::chrono::seconds(10);
constexpr Duration kFetchTimeout = std::chrono::seconds(150);

// What a module of Python prints; empty if it fails.
Result<std::string> output_of(const std::string& python, const std::vector<std::string>& module,
                              Duration timeout) {
  if (!python.starts_with('/')) return std::string();
  io::SpawnOptions query;
  query.command = {python, "-m"};
  query.command.insert(query.command.end(), module.begin(), module.end());
  query.directory = "/";  // `-m` imports from there first: not a pip.py beside the user's program
  const Result<io::CommandResult> answer = io::run_command(query, timeout);
  // It may have succeeded: settings must not be ignored.
  if (!answer && answer.error().kind == ErrorKind::unsupported) return fail(answer);
  if (!answer || answer->status.code != 0 || answer->status.signal != 0) return std::string();
  return answer->out;
}

}  // namespace

Result<std::map<std::string, std::string>> pip_config(const std::string& python) {
  const auto printed = output_of(python, {"pip", "--disable-pip-version-check", "config", "list"},
                                 kPipConfigTimeout);
  if (!printed) return fail(printed);
  return parse_pip_config(*printed);
}

Result<std::string> fetch_uv(const std::string& python, const std::string& architecture) {
  const auto printed = output_of(python, {"skyward.base.uv_for", architecture}, kFetchTimeout);
  if (!printed) return fail(printed);
  return printed->substr(0, printed->find('\n'));
}

bool is_own_proxy(std::string_view address) {
  if (const std::size_t scheme = address.find("://"); scheme != std::string_view::npos) {
    address.remove_prefix(scheme + 3);
  }
  address = address.substr(0, address.find_first_of("/?#"));
  address.remove_prefix(address.rfind('@') + 1);  // 0 without one
  if (address.starts_with('[')) return address.starts_with("[::1]");
  const std::string_view host = address.substr(0, address.find(':'));
  return lower(host) == "localhost" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

std::map<std::string, std::string> variables_of(const PoolSpec& spec,
                                                bool (*is_wanted)(std::string_view name)) {
  std::map<std::string, std::string> found;
  for (const auto* variables : {&spec.image.env, &spec.env}) {
    for (const auto& [name, value] : *variables) {
      if (is_wanted(name)) found[name] = value;
    }
  }
  return found;
}

std::map<std::string, std::string> steering_variables(const PoolSpec& spec) {
  return variables_of(spec, [](std::string_view name) {
    return name.starts_with("UV_") || name.starts_with("PIP_");
  });
}

void add_image_variables(std::vector<std::pair<std::string, std::string>>& environment,
                         const Image& image) {
  if (image.pip.empty()) return;
  std::vector<std::pair<std::string, std::string>> added;
  for (const auto& [name, value] : image.env) {
    const auto same = [&](const auto& pair) { return pair.first == name; };
    if (std::ranges::any_of(environment, same)) continue;
    added.emplace_back(std::string(kImageVariable) + name, value);
  }
  environment.insert(environment.end(), added.begin(), added.end());
}

}  // namespace skyward::provider
