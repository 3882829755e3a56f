#include "skyward/provider/docs_pages_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "skyward/io/file.h"

namespace skyward::provider {

std::string docs_page(std::string_view name) {
  const auto page = io::read_file(fmt::format("{}/{}", SKYWARD_DOCS, name));
  if (page) return *page;
  ADD_FAILURE() << page.error().message;
  return {};
}

void expect_row_on_page(std::string_view name, std::string_view row) {
  EXPECT_TRUE(docs_page(name).contains(fmt::format("\n{}\n", row)))
      << "docs/" << name << " does not have this row:\n"
      << row;
}

}  // namespace skyward::provider
