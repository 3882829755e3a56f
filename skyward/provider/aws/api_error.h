#pragma once

// Amazon's errors: what each code means, and how its services report them.

#include <string>
#include <string_view>

#include "skyward/io/http.h"
#include "skyward/provider/rest/api_error.h"

namespace skyward::provider::aws {

// What to do about an error code ("InsufficientInstanceCapacity").
struct CodeMeaning {
  Refusal refusal = Refusal::invalid;
  std::string_view hint{};
};
CodeMeaning meaning_of(std::string_view code, int status);

ApiError make_error(std::string code, std::string message, int status);

// Whether the account lacks the role that spot machines need. On-demand machines need none.
bool lacks_spot_role(const ApiError& error);

// Whether an account on the free plan was refused this type; another type may work.
bool is_free_plan(const ApiError& error);

// Whether a policy denied the machine itself, not what it uses: it may allow another type, or the
// same one on demand. A missing right for all machines looks the same.
bool is_denied_machine(const ApiError& error);

// The error in a reply from EC2, a query service or a JSON service.
ApiError read_error(const io::HttpReply& reply);
// Adds a hint for a service whose address could not be resolved: the region may be misspelt.
void add_region_hint(ApiError& error);

}  // namespace skyward::provider::aws
