#pragma once

// What the parts of the Kubernetes double know alike.

#include <map>
#include <string>
#include <vector>

#include "doubles/request.h"

namespace skyward::doubles {

using Resources = std::map<std::string, double>;

// What a pod takes of its node, itself included as one of "pods".
Resources requests_of(const Json& pod);

// What the form of a pod's manifest breaks: fields that nobody knows, missing ones, wrong types.
std::vector<std::string> wrong_form(const Json& pod);
// What the API server refuses in a well-formed one, as "spec.containers[0].image: Required value".
std::vector<std::string> broken_rules(const Json& pod);
// What the Pod Security Standard of this name forbids in it.
std::vector<std::string> insecure_parts(const Json& pod, const std::string& standard);

}  // namespace skyward::doubles
