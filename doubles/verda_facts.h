#pragma once

// What Verda rents out, and how its API describes it. Prices change; these are of one day.

#include <span>
#include <string>
#include <string_view>

#include "doubles/request.h"

namespace skyward::doubles {

struct VerdaType {
  std::string_view name{};  // "1H100.80S.30V"
  std::string_view model{};
  std::string_view display{};
  int gpus = 0;
  int gpu_memory_gb = 0;  // of all
  int vcpus = 0;
  int memory_gb = 0;
  double hourly = 0;
  double spot_hourly = 0;
  std::string_view places{};  // where there is some: "FIN-01 FIN-03"
  std::string_view images{};  // that start there

  bool is_at(std::string_view place) const;
  bool starts(std::string_view image) const;
};

std::span<const VerdaType> verda_types();
std::span<const std::string_view> verda_places();
// Null when there is none.
const VerdaType* find_verda_type(const std::string& name);

Json verda_images();
// The type's name for an image that is asked for by its id or its type; empty if there is none.
std::string verda_image(const std::string& id_or_type);
// Prices are text in some answers and numbers in others.
Json verda_type_json(const VerdaType& type, bool as_text);

}  // namespace skyward::doubles
