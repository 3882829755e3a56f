#include "skyward/provider/table.h"

#include <fmt/format.h>

#include "skyward/provider/local/local.h"

namespace skyward::provider {

const std::vector<TableRow>& provider_table() {
  static const std::vector<TableRow> kTable = {
      {"local", make_local},
  };
  return kTable;
}

Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec) {
  std::string known;
  for (const TableRow& row : provider_table()) {
    if (row.name == spec.name) return row.make(spec);
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", row.name);
  }
  return fail(ErrorKind::invalid, fmt::format("there is no provider named \"{}\"", spec.name),
              "this build of skyward knows " + known);
}

}  // namespace skyward::provider
