#pragma once

// The XML of Amazon's query services: elements and text. Attributes, comments and declarations are
// skipped. External entities are not supported, and nothing is ever fetched.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward::provider::aws {

struct XmlElement {
  std::string name{};
  std::string text{};  // the element's own; trimmed if it has children
  std::vector<XmlElement> children{};

  // The first element at a path below this one, "placement/availabilityZone"; null if there is
  // none.
  const XmlElement* find(std::string_view path) const;
  // Its text; empty if there is none.
  std::string value(std::string_view path) const;
  // The elements of the list at `path`, whatever the service calls them ("item", "member").
  std::vector<const XmlElement*> items(std::string_view path) const;
};

// The root. Fails with `unavailable` on anything else: a proxy's page, half a reply.
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace skyward::provider::aws
