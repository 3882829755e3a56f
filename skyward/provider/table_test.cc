#include "skyward/provider/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/docs_pages_fixture.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {
namespace {

// Made without credentials that anybody has.
Result<std::unique_ptr<Provider>> make_from(const TableRow& row) {
  ProviderSpec spec{.name = std::string(row.name), .settings = {}};
  if (const ProviderSheet* sheet = find_provider_sheet(row.name)) {
    for (const ProviderSetting& one : sheet->settings) {
      const bool needed = one.kind == SettingKind::secret && one.name != "node_token";
      if (one.name == "client_id" || needed) {
        spec.settings[std::string(one.name)] = "a-key-of-nobody";
      }
    }
  }
  return make_provider(spec);
}

TEST(Table, EveryRowMakesTheProviderItNames) {
  ASSERT_FALSE(provider_table().empty());
  for (const TableRow& row : provider_table()) {
    if (row.simulated) continue;  // needs its cloud: fake_test.cc
    const auto made = make_from(row);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->name(), row.name);
  }
}

// A machine that costs money can be left behind: gc has to find it.
TEST(Table, WhatCostsMoneyIsSweptAndChecked) {
  for (const TableRow& row : provider_table()) {
    if (row.has_prices && !row.simulated) {
      EXPECT_NE(row.sweep, nullptr) << row.name;
      EXPECT_NE(row.diagnose, nullptr) << row.name;
    }
    EXPECT_EQ(row.sweep == nullptr, row.credentials == nullptr) << row.name;
  }
}

TEST(Table, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto made = make_provider({.name = "cloud9"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_EQ(made.error().message, "there is no provider named \"cloud9\"");
  EXPECT_TRUE(made.error().hint.contains("\"local\"")) << made.error().hint;
}

// What `skyward config show` looks up.
TEST(Table, EverySecretIsASettingOfItsProvider) {
  for (const TableRow& row : provider_table()) {
    if (row.secrets == nullptr) continue;
    const ProviderSheet* sheet = find_provider_sheet(row.name);
    ASSERT_NE(sheet, nullptr);
    for (const SecretSheet& secret : row.secrets()) {
      EXPECT_NE(find_setting(*sheet, secret.setting), nullptr) << row.name << secret.setting;
    }
  }
}

TEST(Table, EverySheetHasARow) {
  for (const ProviderSheet& sheet : provider_sheets()) {
    EXPECT_NE(find_row(sheet.name), nullptr) << sheet.name;
  }
}

// The cells of a line of a table.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream parts(line);
  for (std::string cell; std::getline(parts, cell, '|');) {
    const std::size_t begin = cell.find_first_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin));
  }
  return cells;
}

// "[`sky.DigitalOcean`](digitalocean.md)" and "digital_ocean" are the same.
std::string letters_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

TEST(Table, ThePageOfFeaturesSaysWhatEachProviderIsCapableOf) {
  const std::string page = docs_page("guide/features.md");
  std::map<std::string, std::vector<std::string>> rows;  // by their first cell
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const auto cells = cells_of(line);
    if (cells.size() > 2) rows[cells[1].substr(0, cells[1].find_last_not_of(' ') + 1)] = cells;
  }
  const auto cell = [&](const char* feature, std::size_t column) {
    return rows.contains(feature) && column < rows[feature].size() ? rows[feature][column]
                                                                   : "no such row";
  };
  for (const TableRow& row : provider_table()) {
    if (row.simulated) continue;
    const std::string name = letters_of(row.name);
    const auto& heads = rows[""];
    const auto head = std::ranges::find_if(heads, [&](const std::string& text) {
      return letters_of(text.substr(0, text.find(']'))) == "sky" + name;
    });
    ASSERT_NE(head, heads.end()) << row.name << " has no column";
    const auto column = static_cast<std::size_t>(head - heads.begin());
    const auto made = make_from(row);
    ASSERT_TRUE(made) << made.error().message;
    const Capabilities can = (*made)->capabilities();
    EXPECT_EQ(cell("Spot machines", column).starts_with("yes"), can.spot) << row.name;
    EXPECT_EQ(cell("Volumes", column).starts_with("yes"), can.fuse) << row.name;
    EXPECT_EQ(cell("Split GPUs (`mig`)", column).starts_with("yes"), can.splits_gpus) << row.name;
    EXPECT_EQ(cell("Preemption notice", column).starts_with("yes"), !can.preemption.empty())
        << row.name;
    EXPECT_EQ(cell("Cost money", column).starts_with("yes"), row.has_prices) << row.name;
    const std::string travel = cell("Large arguments travel", column);
    EXPECT_EQ(travel.starts_with("through shared memory"), can.descriptors) << row.name;
    // Without conditions.
    EXPECT_EQ(travel == "from node to node " || can.descriptors,
              can.private_network || can.open_network)
        << row.name;
    EXPECT_EQ(cell("Distributed training", column) == "yes ", can.private_network) << row.name;
    const std::string end = cell("End by themselves if your program dies", column);
    if (row.has_prices) {
      EXPECT_EQ(end.contains("the machines"), can.stop_ends_billing) << row.name;
      // Its machines need a reaper.
      EXPECT_TRUE(can.stop_ends_billing || row.cloud != nullptr) << row.name;
    }
  }
}

}  // namespace
}  // namespace skyward::provider
