#pragma once

// Amazon's refusals: what each of its codes means, and how its services write them.

#include <string>
#include <string_view>

#include "skyward/io/http.h"
#include "skyward/provider/rest/api_error.h"

namespace skyward::provider::aws {

// What to do about one of Amazon's codes ("InsufficientInstanceCapacity").
struct CodeMeaning {
  Refusal refusal = Refusal::invalid;
  std::string_view hint{};
};
CodeMeaning meaning_of(std::string_view code, int status);

ApiError make_error(std::string code, std::string message, int status);

// True of what an account of the free plan may not have: another type may do.
bool is_free_plan(const ApiError& error);

// The refusal in a reply of EC2's, the query services' or the JSON services' form.
ApiError read_error(const io::HttpReply& reply);
// What may be wrong when a service was not reached at all.
void add_region_hint(ApiError& error);

}  // namespace skyward::provider::aws
