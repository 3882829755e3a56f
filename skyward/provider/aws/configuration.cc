#include "skyward/provider/aws/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "skyward/base/check.h"
#include "skyward/base/text.h"
#include "skyward/provider/aws/partition.h"
#include "skyward/provider/rest/rest_client.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider::aws {

namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_alphanumeric(c) || std::string_view("-_/.%@:+").contains(c);
  });
}

// Cuts a comment that follows a blank: "value # so" but not "value#so".
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '#' || text[i] == ';') && (i == 0 || is_blank(text[i - 1]))) {
      return text.substr(0, i);
    }
  }
  return text;
}

class FileParser {
 public:
  FileParser(std::string_view name, bool is_config, Profiles& out)
      : name_(name), is_config_(is_config), out_(out) {}

  Status parse(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (Status status = parse_line(line); !status) return status;
    }
    return {};
  }

 private:
  Status wrong(std::string_view what) const {
    return fail(ErrorKind::invalid, fmt::format("{}, line {}: {}", name_, line_, what),
                "correct that line; Amazon's own tools refuse it too");
  }

  Status parse_line(std::string_view line) {
    const std::string_view text = trimmed(line);
    if (text.empty()) return {};
    if (is_blank(line.front())) {
      const bool is_comment = text.front() == '#' || text.front() == ';';
      if (is_comment && property_.empty()) return {};
      return parse_continuation(text);
    }
    if (text.front() == '#' || text.front() == ';') return {};
    return text.front() == '[' ? parse_section(text) : parse_property(text);
  }

  // A profile is "[profile name]" in the one file and "[name]" in the other; "default" is both.
  Status parse_section(std::string_view text) {
    property_.clear();
    in_section_ = true;
    section_ = nullptr;
    const std::size_t end = text.find(']');
    const std::size_t comment = text.find_first_of("#;");
    if (end == std::string_view::npos || comment < end) {
      return wrong("Profile definition must end with ']'");
    }
    std::string_view name = trimmed(text.substr(1, end - 1));
    const std::size_t space = name.find_first_of(" \t");
    std::string_view kind;
    if (space != std::string_view::npos) {
      kind = name.substr(0, space);
      name = trimmed(name.substr(space));
    }
    if (!is_name(name)) return {};
    const std::string key(name);
    if (is_config_ && kind == "sso-session") {
      section_ = &out_.sso_sessions[key];
    } else if (is_config_ && kind == "services") {
      section_ = &out_.services[key];
    } else if (is_config_ && kind == "profile") {
      if (key == "default" && !default_is_prefixed_) {
        default_is_prefixed_ = true;
        out_.profiles.erase(key);
      }
      section_ = &out_.profiles[key];
    } else if (kind.empty() && (!is_config_ || key == "default")) {
      if (is_config_ && default_is_prefixed_) return {};
      section_ = &out_.profiles[key];
    }
    return {};
  }

  Status parse_property(std::string_view text) {
    if (!in_section_) return wrong("Expected a profile definition");
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return wrong("Expected an '=' sign defining a property");
    const std::string name = lower(trimmed(text.substr(0, equals)));
    if (name.empty()) return wrong("Property did not have a name");
    property_ = name;
    nested_ = false;
    valid_ = is_name(name);
    const std::string_view value = trimmed(without_comment(text.substr(equals + 1)));
    nested_ = value.empty();
    if (section_ != nullptr && valid_) (*section_)[name] = value;
    return {};
  }

  Status parse_continuation(std::string_view text) {
    if (!in_section_) return wrong("Expected a profile definition");
    if (property_.empty()) return wrong("Expected a property definition, found continuation");
    if (nested_) {
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos) {
        return wrong("Expected an '=' sign defining a sub-property");
      }
      if (trimmed(text.substr(0, equals)).empty()) return wrong("Sub-property did not have a name");
    }
    if (section_ != nullptr && valid_) {
      (*section_)[property_] += "\n";
      (*section_)[property_] += text;
    }
    return {};
  }

  const std::string_view name_;
  const bool is_config_;
  Profiles& out_;
  int line_ = 0;
  bool in_section_ = false;
  bool default_is_prefixed_ = false;
  Section* section_ = nullptr;  // null: one that is not read
  std::string property_;
  bool valid_ = false;
  bool nested_ = false;
};

// A property among the lines of a nested one.
std::string nested_property(const std::string& lines, std::string_view name) {
  std::string_view text = lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && lower(trimmed(line.substr(0, equals))) == name) {
      return std::string(trimmed(line.substr(equals + 1)));
    }
  }
  return {};
}

// How Amazon's settings name a service.
struct EndpointNames {
  std::string_view service;
  const char* variable;
  std::string_view section;
  std::string_view host;
};
constexpr std::array<EndpointNames, 7> kServices = {{
    {"ec2", "AWS_ENDPOINT_URL_EC2", "ec2", "ec2"},
    {"sts", "AWS_ENDPOINT_URL_STS", "sts", "sts"},
    {"ssm", "AWS_ENDPOINT_URL_SSM", "ssm", "ssm"},
    {"pricing", "AWS_ENDPOINT_URL_PRICING", "pricing", "api.pricing"},
    {"sso", "AWS_ENDPOINT_URL_SSO", "sso", "portal.sso"},
    {"oidc", "AWS_ENDPOINT_URL_SSO_OIDC", "sso_oidc", "oidc"},
    {"checkip", "AWS_ENDPOINT_URL_CHECKIP", "checkip", "checkip"},
}};

std::string configured_endpoint(const World& world, const Configuration& configuration,
                                const EndpointNames& names) {
  if (lower(setting(world, configuration, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                    "ignore_configured_endpoint_urls")) == "true") {
    return {};
  }
  if (const auto own = world.variable(names.variable)) return *own;
  if (const auto any = world.variable("AWS_ENDPOINT_URL")) return *any;
  const auto services = configuration.files.services.find(configuration.property("services"));
  if (services != configuration.files.services.end()) {
    const std::string lines = value_at(services->second, std::string(names.section));
    if (std::string own = nested_property(lines, "endpoint_url"); !own.empty()) return own;
  }
  return configuration.property("endpoint_url");
}

}  // namespace

Result<Profiles> parse_profiles(std::string_view config, std::string_view credentials) {
  Profiles out;
  if (Status status = FileParser("the AWS config file", true, out).parse(config); !status) {
    return fail(status);
  }
  if (Status status = FileParser("the AWS credentials file", false, out).parse(credentials);
      !status) {
    return fail(status);
  }
  return out;
}

std::string Configuration::property(const std::string& name) const {
  const auto found = files.profiles.find(profile);
  return found == files.profiles.end() ? std::string() : value_at(found->second, name);
}

FileLocations file_locations(const World& world) {
  const std::string home = home_directory(world);
  const auto place = [&](const char* variable, const char* name) {
    std::string path = world.variable(variable).value_or(home + "/.aws/" + name);
    if (path.starts_with("~/")) path = home + path.substr(1);
    return path;
  };
  return {.config = place("AWS_CONFIG_FILE", "config"),
          .credentials = place("AWS_SHARED_CREDENTIALS_FILE", "credentials")};
}

std::optional<std::string> profile_variable(const World& world) {
  auto name = world.variable("AWS_PROFILE");
  return name ? name : world.variable("AWS_DEFAULT_PROFILE");
}

Result<Configuration> load_configuration(const World& world, const std::string& profile) {
  const FileLocations locations = file_locations(world);
  const auto read = [&](const std::string& path) { return world.read_file(path).value_or(""); };
  Result<Profiles> files = parse_profiles(read(locations.config), read(locations.credentials));
  if (!files) return fail(files);
  Configuration configuration;
  configuration.files = *std::move(files);
  const auto variable = profile_variable(world);
  if (!profile.empty() || variable) {
    configuration.profile = profile.empty() ? *variable : profile;
    configuration.profile_was_asked_for = true;
  }
  if (configuration.profile_was_asked_for &&
      !configuration.files.profiles.contains(configuration.profile)) {
    std::string known;
    for (const auto& [name, section] : configuration.files.profiles) {
      known += (known.empty() ? "" : ", ") + name;
    }
    return fail(ErrorKind::invalid,
                fmt::format("there is no AWS profile \"{}\" in {} or {}", configuration.profile,
                            locations.config, locations.credentials),
                known.empty() ? "run 'aws configure', or leave the profile out"
                              : "the profiles there: " + known);
  }
  return configuration;
}

std::string setting(const World& world, const Configuration& configuration, const char* variable,
                    const std::string& property) {
  if (const auto value = world.variable(variable)) return *value;
  return configuration.property(property);
}

std::string ca_bundle(const World& world, const Configuration& configuration) {
  return setting(world, configuration, "AWS_CA_BUNDLE", "ca_bundle");
}

std::string find_region(const World& world, const Configuration& configuration,
                        const std::string& given) {
  if (!given.empty()) return given;
  if (const auto region = world.variable("AWS_REGION")) return *region;
  if (const auto region = world.variable("AWS_DEFAULT_REGION")) return *region;
  return configuration.property("region");
}

std::string_view pricing_region(std::string_view region) {
  const std::string_view partition = partition_of(region).id;
  if (partition == "aws-cn") return "cn-northwest-1";
  if (partition != "aws" && partition != "aws-us-gov") return region;
  if (region.starts_with("ap-")) return "ap-south-1";
  return region.starts_with("eu-") ? "eu-central-1" : "us-east-1";
}

Result<std::string> find_endpoint(const World& world, const Configuration& configuration,
                                  std::string_view service, std::string_view region) {
  const auto* names = std::ranges::find(kServices, service, &EndpointNames::service);
  SKYWARD_CHECK(names != kServices.end(), "there is no service {}", service);
  if (!is_region(region)) {
    return fail(ErrorKind::invalid, fmt::format("\"{}\" is not the name of an AWS region", region),
                "region=, AWS_REGION and the profile take names like eu-west-1");
  }
  if (std::string url = configured_endpoint(world, configuration, *names); !url.empty()) {
    while (url.ends_with('/')) url.pop_back();
    // These are sent tokens; what others are sent is signed.
    if (service == "sso" || service == "oidc") {
      if (Status safe = check_base_url(url, names->variable); !safe) return fail(safe);
    }
    return url;
  }
  const auto enabled = [&](const char* variable, const char* property) {
    return lower(setting(world, configuration, variable, property)) == "true";
  };
  const bool fips = enabled("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
  const bool dual = enabled("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
  if (service == "checkip") return "https://checkip.amazonaws.com";
  const AwsPartition& partition = partition_of(region);
  // In GovCloud, the plain hosts comply.
  const bool plain = !fips || (partition.id == "aws-us-gov" && !dual);
  if (service == "pricing") region = pricing_region(region);
  return fmt::format("https://{}{}.{}.{}", names->host, plain ? "" : "-fips", region,
                     dual ? partition.dual_domain : partition.domain);
}

}  // namespace skyward::provider::aws
