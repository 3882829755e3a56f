#include "skyward/provider/docs_pages_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "skyward/io/file.h"

namespace skyward::provider {

std::string docs_page(std::string_view name) {
  const auto page = io::read_file(fmt::format("{}/{}", SKYWARD_DOCS, name));
  if (page) return *page;
  ADD_FAILURE() << page.error().message;
  return {};
}

void expect_row_on_page(std::string_view name, std::string_view heading, std::string_view row) {
  const std::string page = docs_page(name);
  std::string_view rows = page;
  for (const std::string& start : {fmt::format("\n{}\n", heading), std::string("\n|")}) {
    rows.remove_prefix(std::min(rows.find(start), rows.size()));
  }
  rows = rows.substr(0, rows.find("\n\n") + 1);  // what ends a table
  EXPECT_TRUE(rows.contains(fmt::format("\n{}\n", row)))
      << "docs/" << name << ": the table below \"" << heading << "\" does not have this row:\n"
      << row;
}

}  // namespace skyward::provider
