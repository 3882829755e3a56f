#include "skyward/provider/table.h"

#include <gtest/gtest.h>

#include "skyward/spec/provider_settings.h"

namespace skyward::provider {
namespace {

TEST(Table, EveryRowMakesTheProviderItNames) {
  ASSERT_FALSE(provider_table().empty());
  for (const TableRow& row : provider_table()) {
    if (row.simulated) continue;  // needs its cloud: fake_test.cc
    ProviderSpec spec{.name = std::string(row.name), .settings = {}};
    if (const ProviderSheet* sheet = find_provider_sheet(row.name)) {
      for (const ProviderSetting& one : sheet->settings) {
        if (one.name == "client_id" || one.kind == SettingKind::secret) {
          spec.settings[std::string(one.name)] = "a-key-of-nobody";
        }
      }
    }
    const auto made = make_provider(spec);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->name(), row.name);
  }
}

TEST(Table, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto made = make_provider({.name = "cloud9"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_EQ(made.error().message, "there is no provider named \"cloud9\"");
  EXPECT_TRUE(made.error().hint.contains("\"local\"")) << made.error().hint;
}

TEST(Table, EverySheetHasARow) {
  for (const ProviderSheet& sheet : provider_sheets()) {
    EXPECT_NE(find_row(sheet.name), nullptr) << sheet.name;
  }
}

}  // namespace
}  // namespace skyward::provider
