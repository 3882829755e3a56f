#include "skyward/pool/providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "skyward/call/error.h"
#include "skyward/engine/loop_choice.h"
#include "skyward/pool/put_setting.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/provider_settings.h"

namespace skyward {

namespace {

std::string json_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) {
    list += list.empty() ? "" : ",";
    append_json_string(list, word);
  }
  return "[" + list + "]";
}

}  // namespace

SSH::operator ProviderSpec() const {
  ProviderSpec spec{.name = "ssh", .settings = {}};
  put(spec, "hosts", joined(hosts, '\n'));
  put(spec, "user", user);
  put(spec, "port", port);
  put(spec, "identity_file", identity_file);
  put(spec, "jump", jump);
  if (known_hosts) put(spec, "host_keys", std::filesystem::absolute(*known_hosts).string());
  put(spec, "config", config);
  put(spec, "preemption", preemption);
  return spec;
}

Command::operator ProviderSpec() const {
  std::vector<std::string> lists;
  for (const std::vector<std::string>& words : commands) lists.push_back(json_list(words));
  ProviderSpec spec{.name = "command", .settings = {}};
  if (!lists.empty()) spec.settings["commands"] = fmt::format("[{}]", fmt::join(lists, ","));
  if (!addresses.empty()) spec.settings["addresses"] = json_list(addresses);
  return spec;
}

ProviderSpec provider_to_take(const std::optional<ProviderSpec>& named) {
  auto name = engine::provider_to_take(named ? named->name : "");
  if (!name) throw_error(name.error());
  if (named && *name == named->name) return *named;
  return {.name = *std::move(name), .settings = {}};
}

std::vector<Offer> available_instances(const ProviderSpec& provider,
                                       const std::function<void()>& poll) {
  if (Status fits = validate_settings(provider.name, provider.settings); !fits) {
    throw_error(fits.error());
  }
  const auto complete = engine::with_settings(provider);
  if (!complete) throw_error(complete.error());
  auto offers = engine::catalogue_of(*complete, poll);
  if (!offers) throw_error(offers.error());
  return *std::move(offers);
}

}  // namespace skyward
