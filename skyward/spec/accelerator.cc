#include "skyward/spec/accelerator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "skyward/base/nearest.h"
#include "skyward/base/text.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/memory_size.h"

namespace skyward {

namespace {

constexpr double kMostDevices = 1024;
// Machines tell the memory that is left for programs, in GiB or GB: near enough is the same size.
constexpr double kMemoryTolerance = 0.08;
// Makers' and product lines' names that a request may carry or leave out.
constexpr std::array<std::string_view, 8> kPrefixes = {"NVIDIA", "AMD",   "AWS",   "GOOGLE",
                                                       "HABANA", "INTEL", "TESLA", "GEFORCE"};

bool is_separator(char c) { return c == ' ' || c == '-' || c == '_' || c == '/'; }

// What names are compared by.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (!is_separator(c)) key += to_upper(c);
  }
  return key;
}

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (is_separator(c)) {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += to_upper(c);
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

double parse_number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string memory_text(double gb) { return fmt::format("{:g}GB", gb); }

struct Form {
  std::string_view name;
  double memory_gb = 0;
};

std::vector<Form> forms_of(const AcceleratorModel& model) {
  std::vector<Form> forms;
  for (const std::string_view part : split(model.forms, ',')) {
    if (part.empty()) continue;
    const std::size_t colon = part.find(':');
    forms.push_back({part.substr(0, colon), parse_number(part.substr(colon + 1))});
  }
  return forms;
}

// Every size that one is made with.
std::vector<double> memories_of(const AcceleratorModel& model) {
  std::vector<double> memories = {model.memory_gb};
  for (const std::string& one : items_of(model.memories, ',')) {
    memories.push_back(parse_number(one));
  }
  for (const Form& form : forms_of(model)) {
    if (std::ranges::find(memories, form.memory_gb) == memories.end())
      memories.push_back(form.memory_gb);
  }
  return memories;
}

// Every spelling that is a name, by its key.
using NameTable = std::unordered_map<std::string, AcceleratorName>;
const NameTable& name_table() {
  static const NameTable& kTable = *new const NameTable([] {
    NameTable table;
    for (const AcceleratorModel& model : accelerator_catalogue()) {
      const std::string name(model.name);
      table.try_emplace(key_of(name), AcceleratorName{&model, 0, {}, name});
      for (const Form& form : forms_of(model)) {
        const std::string spelled = fmt::format("{}-{}", name, form.name);
        table.try_emplace(key_of(spelled),
                          AcceleratorName{&model, form.memory_gb, form.name, spelled});
      }
      if (model.memories.empty()) continue;
      for (const double memory : memories_of(model)) {
        for (const std::string_view unit : {"", "GB"}) {
          const std::string spelled = fmt::format("{}-{:g}{}", name, memory, unit);
          table.try_emplace(key_of(spelled), AcceleratorName{&model, memory, {}, spelled});
        }
      }
    }
    return table;
  }());
  return kTable;
}

const AcceleratorName* find_name(const std::string& key) {
  const auto found = name_table().find(key);
  return found == name_table().end() ? nullptr : &found->second;
}

bool same_memory(double a, double b) {
  return std::abs(a - b) <= kMemoryTolerance * std::max(a, b);
}

Status check_count(const Accelerator& wanted) {
  const double count = wanted.count;
  const bool whole = count >= 1 && count <= kMostDevices && count == std::floor(count);
  const bool share = count > 0 && count < 1;
  if (!whole && !share) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: count={:g} is out of range", wanted.name, count),
                "give a whole number from 1 to 1024, or a share of one device such as 0.5");
  }
  if (share && !std::holds_alternative<std::monostate>(wanted.mig)) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: count={:g} with mig: a share of a GPU cannot be split further",
                            wanted.name, count),
                "leave out one of them");
  }
  return {};
}

Status check_memory(const Accelerator& wanted, const AcceleratorName& name) {
  const auto mb = parse_memory_mb(wanted.memory, fmt::format("{}: memory", wanted.name));
  if (!mb) return fail(mb);
  const double gb = static_cast<double>(*mb) / 1024;
  if (!wanted.memory_required) return {};
  const std::vector<double> sizes =
      name.memory_gb > 0 ? std::vector<double>{name.memory_gb} : memories_of(*name.model);
  if (std::ranges::find(sizes, gb) != sizes.end()) return {};
  std::vector<std::string> texts;
  for (const double size : sizes) texts.push_back(memory_text(size));
  return fail(ErrorKind::invalid,
              fmt::format("{}: memory={} does not exist: this model comes with {}", wanted.name,
                          json_string(wanted.memory), fmt::join(texts, " or ")),
              fmt::format("write memory=\"{}\", or leave memory out", texts.front()));
}

}  // namespace

bool Accelerator::operator==(const Accelerator& other) const {
  return name == other.name && memory == other.memory && count == other.count && mig == other.mig &&
         custom == other.custom && cuda_min == other.cuda_min && cuda_max == other.cuda_max;
}

std::optional<AcceleratorName> parse_accelerator_name(std::string_view name) {
  const std::string key = key_of(name);
  if (const AcceleratorName* found = find_name(key)) return *found;
  for (const std::string_view prefix : kPrefixes) {
    if (key.starts_with(prefix)) {
      if (const AcceleratorName* found = find_name(key.substr(prefix.size()))) return *found;
    }
  }
  // AWS and Verda leave the product line out: "A6000".
  if (const AcceleratorName* found = find_name("RTX" + key); found && !is_digit(key.front()))
    return *found;
  return std::nullopt;
}

std::vector<std::string> close_accelerators(std::string_view name, std::size_t most) {
  const std::string key = key_of(name);
  const std::size_t far = std::max<std::size_t>(2, key.size() / 3);
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> found;
  for (const auto& [other, value] : name_table()) {
    if (other.ends_with("GB") == false && value.spelled.find('-') != std::string::npos &&
        value.form.empty() && value.memory_gb > 0)
      continue;  // "A100-40" beside "A100-40GB"
    const bool starts_alike = key.size() >= 2 && (other.starts_with(key) || key.starts_with(other));
    const std::size_t away = starts_alike ? 1 : edit_distance(key, other);
    if (away <= far && away < std::max(key.size(), other.size()))
      found.emplace_back(away, edit_distance(key, other), value.spelled);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [away, letters, spelled] : found) {
    if (names.size() == most) break;
    if (std::ranges::find(names, spelled) == names.end()) names.push_back(spelled);
  }
  return names;
}

Result<Accelerator> checked(Accelerator wanted) {
  if (wanted.custom) {
    if (wanted.name.empty()) {
      return fail(ErrorKind::invalid, "the accelerator has no name", "give the provider's name");
    }
    if (const Status status = check_count(wanted); !status) return fail(status);
    if (!wanted.memory.empty()) {
      const auto mb = parse_memory_mb(wanted.memory, fmt::format("{}: memory", wanted.name));
      if (!mb) return fail(mb);
    }
    if (std::holds_alternative<std::monostate>(wanted.mig)) return wanted;
    return fail(ErrorKind::invalid,
                fmt::format("{}: mig: its partitions are not known", wanted.name),
                "name a model of the catalogue to split its GPUs");
  }
  const auto name = parse_accelerator_name(wanted.name);
  if (!name) {
    const std::vector<std::string> close = close_accelerators(wanted.name);
    return fail(ErrorKind::invalid,
                fmt::format("there is no accelerator named {}", json_string(wanted.name)),
                close.empty()
                    ? std::string("the catalogue is in skyward.accelerators; for a model that it "
                                  "does not have: accelerators.Custom(name)")
                    : fmt::format("did you mean {}? For a model that the catalogue does not have: "
                                  "accelerators.Custom(name)",
                                  fmt::join(close, ", ")));
  }
  wanted.name = name->spelled;
  if (const Status status = check_count(wanted); !status) return fail(status);
  if (!std::holds_alternative<std::monostate>(wanted.mig)) {
    if (wanted.memory.empty()) wanted.memory = memory_text(device_memory_gb(wanted));
    wanted.memory_required = true;  // another size has other profiles
  }
  if (!wanted.memory.empty()) {
    if (const Status status = check_memory(wanted, *name); !status) return fail(status);
    wanted.memory = memory_text(static_cast<double>(*parse_memory_mb(wanted.memory)) / 1024);
  }
  if (const Status status = validate_mig(wanted); !status) return fail(status);
  return wanted;
}

Result<Accelerator> catalogue_accelerator(std::string_view name,
                                          const AcceleratorOptions& options) {
  Accelerator wanted;
  wanted.name = std::string(name);
  const auto found = parse_accelerator_name(name);
  if (!found) return checked(std::move(wanted));  // says what is near
  const AcceleratorModel& model = *found->model;
  wanted.name = found->spelled;
  double memory_gb = found->memory_gb > 0 ? found->memory_gb : model.memory_gb;
  if (!options.form_factor.empty()) {
    const std::vector<Form> forms = forms_of(model);
    const auto form = std::ranges::find_if(
        forms, [&](const Form& one) { return key_of(one.name) == key_of(options.form_factor); });
    // An H200 without a word is the SXM one.
    const bool plain = key_of(options.form_factor) == "SXM" && !forms.empty();
    if (form == forms.end() && !plain) {
      std::vector<std::string_view> names;
      for (const Form& one : forms) names.push_back(one.name);
      return fail(ErrorKind::invalid,
                  fmt::format("{}: form_factor={} does not exist", wanted.name,
                              json_string(options.form_factor)),
                  names.empty() ? "leave form_factor out: the model has one form only"
                                : fmt::format("choose one of {}", fmt::join(names, ", ")));
    }
    if (form != forms.end()) {
      wanted.name = fmt::format("{}-{}", model.name, form->name);
      memory_gb = form->memory_gb;
    }
  }
  wanted.memory = options.memory.empty() ? memory_text(memory_gb) : options.memory;
  wanted.memory_required = !options.memory.empty();
  wanted.count = options.count.value_or(model.devices);
  wanted.mig = options.mig;
  return checked(std::move(wanted));
}

double device_memory_gb(const Accelerator& accelerator) {
  if (!accelerator.memory.empty()) {
    if (const auto mb = parse_memory_mb(accelerator.memory)) return static_cast<double>(*mb) / 1024;
  }
  if (accelerator.custom) return 0;
  const auto name = parse_accelerator_name(accelerator.name);
  if (!name) return 0;
  return name->memory_gb > 0 ? name->memory_gb : name->model->memory_gb;
}

std::pair<std::string, std::string> cuda_range(const Accelerator& accelerator) {
  if (accelerator.custom) return {accelerator.cuda_min, accelerator.cuda_max};
  const auto name = parse_accelerator_name(accelerator.name);
  if (!name) return {};
  return {std::string(name->model->cuda_min), std::string(name->model->cuda_max)};
}

std::string to_string(const Accelerator& accelerator) {
  if (accelerator.count == 1) return accelerator.name;
  return fmt::format("{:g}x{}", accelerator.count, accelerator.name);
}

bool matches(const Accelerator& wanted, std::string_view offered, double memory_gb,
             std::string_view form) {
  if (wanted.custom) return key_of(wanted.name) == key_of(offered);
  const auto want = parse_accelerator_name(wanted.name);
  const auto have = parse_accelerator_name(offered);
  if (!want) return false;
  if (!have) return key_of(wanted.name) == key_of(offered);
  if (want->model != have->model) return false;
  if (!have->form.empty()) form = have->form;
  if (!want->form.empty() && !form.empty() && want->form != form) return false;
  const double wanted_gb = wanted.memory_required ? device_memory_gb(wanted) : want->memory_gb;
  if (wanted_gb == 0) return true;
  const double offered_gb = memory_gb > 0 ? memory_gb : have->memory_gb;
  return same_memory(wanted_gb, offered_gb > 0 ? offered_gb : have->model->memory_gb);
}

std::string form_factor_in(std::string_view description) {
  for (const std::string& word : words_of(description)) {
    if (word.starts_with("SXM")) return "SXM";
    if (word == "PCIE") return "PCIe";
    if (word == "NVL") return "NVL";
  }
  return {};
}

std::string device_model_name(std::string_view reported) {
  std::vector<std::string> words = words_of(reported);
  const auto has = [&](std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  // The longest run of whole words that is a model's name: "A100X" is no A10.
  const AcceleratorName* best = nullptr;
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < words.size(); ++begin) {
    std::string key;
    for (std::size_t end = begin; end < words.size(); ++end) {
      key += words[end];
      const AcceleratorName* found = find_name(key);
      if (found == nullptr || key.size() <= longest || found->memory_gb > 0) continue;
      best = found;
      longest = key.size();
    }
  }
  if (best == nullptr) {
    std::string_view rest = reported;
    for (const std::string_view maker : {"NVIDIA ", "AMD ", "Intel "}) {
      if (rest.starts_with(maker)) rest.remove_prefix(maker.size());
    }
    return std::string(rest);
  }
  const std::string model(best->model->name);
  for (const Form& form : forms_of(*best->model)) {
    if (form.name != "SXM" && has(key_of(form.name))) return fmt::format("{}-{}", model, form.name);
  }
  if (model == "A100" || model == "H100") {  // the two whose usual names tell their memory
    for (const double size : memories_of(*best->model)) {
      if (has(fmt::format("{:g}GB", size)))
        return model == "A100" ? fmt::format("A100-{:g}", size) : fmt::format("H100-{:g}GB", size);
    }
    if (has("SXM") || has("SXM5")) return model + "-SXM";
  }
  return best->spelled;
}

bool is_nvidia(std::string_view name) {
  const auto found = parse_accelerator_name(name);
  return found && found->model->vendor == Vendor::nvidia;
}

bool is_trainium(std::string_view name) {
  const auto found = parse_accelerator_name(name);
  return found && found->model->architecture == "Trainium";
}

bool is_gpu(std::string_view name) {
  const auto found = parse_accelerator_name(name);
  return found && (found->model->vendor == Vendor::nvidia || found->model->vendor == Vendor::amd);
}

}  // namespace skyward
