#pragma once

// The XML that Amazon's query services answer with: elements and text. Attributes, comments and
// declarations are passed over; there are no external entities and nothing is ever fetched.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward::provider::aws {

struct XmlElement {
  std::string name{};
  std::string text{};  // of the element itself, without blanks at its ends when it has children
  std::vector<XmlElement> children{};

  // The first element at a path of names from here, "placement/availabilityZone"; null without one.
  const XmlElement* find(std::string_view path) const;
  // Its text; empty without one.
  std::string value(std::string_view path) const;
  // The elements of a list: what lies below `path`, whatever the service calls it ("item",
  // "member").
  std::vector<const XmlElement*> items(std::string_view path) const;
};

// The root. Fails with `unavailable` on what is no XML: a proxy's page or half a reply.
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace skyward::provider::aws
