#pragma once

// The pages of docs/ whose tables are held to what tests count.

#include <string>
#include <string_view>

namespace skyward::provider {

// Fails the test when there is no such page. `name` is relative to docs/.
std::string docs_page(std::string_view name);

// `row` is a whole line of the first table below the line `heading`; both without their ends.
void expect_row_on_page(std::string_view name, std::string_view heading, std::string_view row);

}  // namespace skyward::provider
