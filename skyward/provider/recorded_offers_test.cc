// What clouds call their devices, as recorded, and what the catalogue of accelerators makes of it.
// Sources: RunPod's table of GPU types, lists of Vast.ai's offers, Verda's and DigitalOcean's
// types, all of 2026 or before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "skyward/provider/choosing.h"
#include "skyward/provider/vast/contracts.h"
#include "skyward/spec/accelerator.h"

namespace skyward::provider {
namespace {

struct Recorded {
  const char* said;      // the cloud's words
  double memory_gb = 0;  // of one device
  const char* device;    // the catalogue's name, or what stands for one that it does not have
};

const std::vector<Recorded>& runpod() {
  static const std::vector<Recorded> kAll = {
      {"MI300X", 192, "MI300X"},
      {"A100 PCIe", 80, "A100"},
      {"A100 SXM", 80, "A100"},
      {"A30", 24, "A30"},
      {"A40", 48, "A40"},
      {"B200", 180, "B200"},
      {"B300", 288, "B300"},
      {"RTX 3070", 8, "RTX 3070"},
      {"RTX 3080", 10, "RTX 3080"},
      {"RTX 3080 Ti", 12, "RTX 3080 Ti"},
      {"RTX 3090", 24, "RTX 3090"},
      {"RTX 3090 Ti", 24, "RTX 3090 Ti"},
      {"RTX 4070 Ti", 12, "RTX 4070 Ti"},
      {"RTX 4080", 16, "RTX 4080"},
      {"RTX 4080 SUPER", 16, "RTX 4080 Super"},
      {"RTX 4090", 24, "RTX 4090"},
      {"RTX 5080", 16, "RTX 5080"},
      {"RTX 5090", 32, "RTX 5090"},
      {"H100 SXM", 80, "H100"},
      {"H100 NVL", 94, "H100"},
      {"H100 PCIe", 80, "H100"},
      {"H200 SXM", 141, "H200"},
      {"NVIDIA H200 NVL", 143, "H200"},
      {"L4", 24, "L4"},
      {"L40", 48, "L40"},
      {"L40S", 48, "L40S"},
      {"RTX 2000 Ada", 16, "RTX 2000 Ada"},
      {"RTX 4000 Ada", 20, "RTX 4000 Ada"},
      {"RTX 4000 Ada SFF", 20, "RTX 4000 Ada"},
      {"RTX 5000 Ada", 32, "RTX 5000 Ada"},
      {"RTX 6000 Ada", 48, "RTX 6000 Ada"},
      {"RTX A2000", 6, "RTX A2000"},
      {"RTX A4000", 16, "RTX A4000"},
      {"RTX A4500", 20, "RTX A4500"},
      {"RTX A5000", 24, "RTX A5000"},
      {"RTX A6000", 48, "RTX A6000"},
      {"RTX PRO 4500", 32, "RTX PRO 4500"},
      {"RTX PRO 6000 MaxQ", 96, "RTX PRO 6000 MaxQ"},
      {"PRO 6000 MIG 24GB", 24, "PRO 6000 MIG 24GB"},  // a part of one
      {"PRO 6000 MIG 48GB", 48, "PRO 6000 MIG 48GB"},
      {"RTX PRO 6000", 96, "RTX PRO 6000"},
      {"RTX PRO 6000 WK", 96, "RTX PRO 6000 WK"},
      {"Tesla V100", 16, "V100"},
      {"V100 SXM2", 16, "V100"},
      {"V100 SXM2 32GB", 32, "V100"},
  };
  return kAll;
}

const std::vector<Recorded>& vast() {
  static const std::vector<Recorded> kAll = {
      {"A10", 22.5, "A10"},
      {"A100 PCIE", 40, "A100"},
      {"A100 SXM4", 80, "A100"},
      {"A100X", 80, "A100X"},
      {"A40", 45, "A40"},
      {"A800 PCIE", 80, "A800"},
      {"B200", 179, "B200"},
      {"CMP 50HX", 10, "CMP 50HX"},
      {"GH200 SXM", 95, "GH200"},
      {"GTX 1050 Ti", 4, "GTX 1050 Ti"},
      {"GTX 1080 Ti", 11, "GTX 1080 Ti"},
      {"GTX 1660 S", 6, "GTX 1660 Super"},
      {"GTX 1660 Ti", 6, "GTX 1660 Ti"},
      {"H100 NVL", 93.6, "H100"},
      {"H100 PCIE", 79.6, "H100"},
      {"H100 SXM", 79.6, "H100"},
      {"H200", 140, "H200"},
      {"H200 NVL", 140, "H200"},
      {"L4", 22.5, "L4"},
      {"L40", 45, "L40"},
      {"L40S", 45, "L40S"},
      {"Q RTX 6000", 22.5, "Quadro RTX 6000"},
      {"Q RTX 8000", 45, "Quadro RTX 8000"},
      {"RTX 2070S", 8, "RTX 2070 Super"},
      {"RTX 2080 Ti", 11, "RTX 2080 Ti"},
      {"RTX 3060 laptop", 6, "RTX 3060 Laptop"},
      {"RTX 3090", 24, "RTX 3090"},
      {"RTX 3090 Ti", 24, "RTX 3090 Ti"},
      {"RTX 4000Ada", 20, "RTX 4000 Ada"},
      {"RTX 4070S", 12, "RTX 4070 Super"},
      {"RTX 4070S Ti", 16, "RTX 4070 Ti Super"},
      {"RTX 4070 Ti", 12, "RTX 4070 Ti"},
      {"RTX 4080S", 16, "RTX 4080 Super"},
      {"RTX 4090", 24, "RTX 4090"},
      {"RTX 4090D", 24, "RTX 4090D"},
      {"RTX 5000Ada", 32, "RTX 5000 Ada"},
      {"RTX 5070 Ti", 16, "RTX 5070 Ti"},
      {"RTX 5090", 32, "RTX 5090"},
      {"RTX 6000Ada", 48, "RTX 6000 Ada"},
      {"RTX A6000", 48, "RTX A6000"},
      {"RTX PRO 4000", 24, "RTX PRO 4000"},
      {"RTX PRO 6000 S", 96, "RTX PRO 6000 S"},
      {"RTX PRO 6000 WS", 96, "RTX PRO 6000 WS"},
      {"Tesla P4", 8, "P4"},
      {"Tesla P100", 16, "P100"},
      {"Tesla T4", 15, "T4"},
      {"Tesla V100", 16, "V100"},
      {"Titan RTX", 24, "Titan RTX"},
      {"Titan V", 12, "Titan V"},
      {"Titan Xp", 12, "Titan Xp"},
  };
  return kAll;
}

const std::vector<Recorded>& verda() {
  static const std::vector<Recorded> kAll = {
      {"1x H100 SXM5 80GB", 80, "H100"},      {"8x H200 SXM5 141GB", 141, "H200"},
      {"1x B200 SXM6 180GB", 180, "B200"},    {"4x B300 SXM6 262GB", 262, "B300"},
      {"1x A100 SXM4 80GB", 80, "A100"},      {"1x A100 SXM4 40GB", 40, "A100"},
      {"1x L40S 48GB", 48, "L40S"},           {"2x RTX 6000 Ada 48GB", 48, "RTX 6000 Ada"},
      {"1x RTX A6000 48GB", 48, "RTX A6000"}, {"1x RTX PRO 6000 96GB", 96, "RTX PRO 6000"},
      {"1x Tesla V100 16GB", 16, "V100"},
  };
  return kAll;
}

const std::vector<Recorded>& digital_ocean() {
  static const std::vector<Recorded> kAll = {
      {"nvidia_h100", 80, "H100"},
      {"nvidia_h200", 141, "H200"},
      {"nvidia_l40s", 48, "L40S"},
      {"nvidia_rtx4000_ada", 20, "RTX 4000 Ada"},
      {"nvidia_rtx6000_ada", 48, "RTX 6000 Ada"},
      {"amd_mi300x", 192, "MI300X"},
  };
  return kAll;
}

struct Cloud {
  const char* name;
  const std::vector<Recorded>& (*recorded)();
};

void PrintTo(const Cloud& cloud, std::ostream* out) { *out << cloud.name; }

class RecordedOffers : public ::testing::TestWithParam<Cloud> {
 protected:
  std::string device_of(const Recorded& one) const {
    if (GetParam().recorded == vast) return accelerator_in(vast::usual_name(one.said));
    return accelerator_in(one.said);
  }
  std::vector<Offer> offers() const {
    std::vector<Offer> out;
    for (const Recorded& one : GetParam().recorded()) {
      out.push_back({.instance_type = one.said,
                     .cpus = 8,
                     .memory_gb = 64,
                     .accelerator = device_of(one),
                     .accelerator_form = form_factor_in(one.said),
                     .accelerator_count = 1,
                     .accelerator_memory_gb = one.memory_gb,
                     .architecture = "x86_64",
                     .price_on_demand = 1});
    }
    return out;
  }
};

TEST_P(RecordedOffers, AreTheDevicesThatTheyAre) {
  for (const Recorded& one : GetParam().recorded()) {
    EXPECT_EQ(device_of(one), one.device) << one.said;
  }
}

// Each model of the catalogue, and each of its forms and sizes: what fits is that model, and what
// is not sold is refused.
TEST_P(RecordedOffers, EachAcceleratorGetsItselfOrNothing) {
  const std::vector<Offer> all = offers();
  std::set<std::string> reached;
  for (const AcceleratorModel& model : accelerator_catalogue()) {
    PoolSpec spec;
    auto wanted = catalogue_accelerator(model.name);
    ASSERT_TRUE(wanted) << model.name;
    spec.accelerator = *wanted;
    spec.accelerator->count = 1;
    const auto found = fitting_offers(all, spec);
    const bool sold = std::ranges::any_of(
        GetParam().recorded(), [&](const Recorded& one) { return one.device == model.name; });
    EXPECT_EQ(found.has_value(), sold) << model.name;
    if (!found) continue;
    for (const Offer& one : *found) {
      EXPECT_EQ(one.accelerator, model.name) << one.instance_type;
      reached.insert(one.instance_type);
    }
  }
  for (const Recorded& one : GetParam().recorded()) {
    const bool whole = parse_accelerator_name(one.device).has_value();
    EXPECT_EQ(reached.contains(one.said), whole) << one.said;
  }
}

// The cloud may not tell the form. Where it does, it is the one that was asked for.
TEST_P(RecordedOffers, EachFormGetsItselfOrWhatTellsNone) {
  const std::vector<Offer> all = offers();
  for (const char* form : {"SXM", "PCIe", "NVL"}) {
    PoolSpec spec;
    spec.accelerator = catalogue_accelerator("H100", {.form_factor = form}).value();
    const auto found = fitting_offers(all, spec);
    if (!found) continue;
    for (const Offer& one : *found) {
      const std::string& said = one.instance_type;
      const bool tells = said.contains("SXM") || said.contains("PCI") || said.contains("NVL");
      EXPECT_TRUE(!tells || said.contains(std::string(form).substr(0, 3))) << form << ": " << said;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Clouds, RecordedOffers,
                         ::testing::Values(Cloud{"RunPod", runpod}, Cloud{"Vast", vast},
                                           Cloud{"Verda", verda},
                                           Cloud{"DigitalOcean", digital_ocean}),
                         [](const auto& cloud) { return std::string(cloud.param.name); });

}  // namespace
}  // namespace skyward::provider
