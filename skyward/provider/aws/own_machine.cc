#include "skyward/provider/aws/own_machine.h"
#include "skyward/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace skyward::provider::aws {

namespace {

// "127.0.0.1", with four decimal parts and no other way to write them.
bool is_loopback(std::string_view host) {
  int parts = 0;
  for (std::string_view rest = host;; ++parts) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool whole = error == std::errc() && end == part.data() + part.size();
    if (!whole || value < 0 || value > 255 || (part.size() > 1 && part[0] == '0')) return false;
    if (parts == 0 && value != 127) return false;
    if (part.size() == rest.size()) return parts == 3;
    rest.remove_prefix(part.size() + 1);
  }
}

// Host and port of an address; empty when anything about them is unusual.
std::string_view host_of(std::string_view authority) {
  const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return {};
  const std::size_t colon = authority.find(':', bracket);
  const std::string_view port =
      colon == std::string_view::npos ? std::string_view() : authority.substr(colon + 1);
  if (colon != std::string_view::npos && port.empty()) return {};
  if (port.size() > 5 || !std::ranges::all_of(port, is_digit)) return {};
  const std::string_view host = authority.substr(0, colon);
  const bool plain = std::ranges::all_of(
      host, [](char c) { return is_alphanumeric(c) || std::string_view("-._:[]").contains(c); });
  return plain ? host : std::string_view();
}

}  // namespace

bool is_trusted_service(std::string_view url) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kSafe = "https://";
  const bool safe = url.starts_with(kSafe);
  if (!safe && !url.starts_with(kPlain)) return false;
  url.remove_prefix(safe ? kSafe.size() : kPlain.size());
  const std::string_view host = host_of(url.substr(0, url.find_first_of("/?#")));
  if (safe) return !host.empty();
  constexpr std::array<std::string_view, 5> kOwn = {"localhost", "[::1]", "169.254.170.2",
                                                    "169.254.170.23", "[fd00:ec2::23]"};
  return is_loopback(host) || std::ranges::find(kOwn, host) != kOwn.end();
}

bool is_ec2_machine(const World& world) {
  const auto says = [&](const char* path, std::string_view beginning) {
    const auto text = world.read_file(path);
    return text && text->starts_with(beginning);
  };
  // Machines on Nitro, then those on Xen, whose number begins so.
  return says("/sys/class/dmi/id/sys_vendor", "Amazon EC2") ||
         says("/sys/class/dmi/id/board_vendor", "Amazon EC2") ||
         says("/sys/hypervisor/uuid", "ec2") || says("/sys/class/dmi/id/product_uuid", "ec2") ||
         says("/sys/class/dmi/id/product_uuid", "EC2");
}

}  // namespace skyward::provider::aws
