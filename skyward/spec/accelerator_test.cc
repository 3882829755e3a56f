#include "skyward/spec/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace skyward {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Accelerator made(std::string_view name, const AcceleratorOptions& options = {}) {
  const auto result = catalogue_accelerator(name, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or(Accelerator{});
}

std::string refusal(const Result<Accelerator>& result) {
  if (result) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  return result.error().message + " | " + result.error().hint;
}

std::string refusal(std::string name, std::string memory, double count = 1, Mig mig = {}) {
  Accelerator wanted{.name = std::move(name), .memory = std::move(memory), .count = count};
  wanted.mig = std::move(mig);
  wanted.memory_required = !wanted.memory.empty();
  return refusal(checked(std::move(wanted)));
}

TEST(Catalogue, EveryModelIsFoundByItsNameAndHasSaneFacts) {
  std::set<std::string_view> names;
  for (const AcceleratorModel& model : accelerator_catalogue()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    const auto found = parse_accelerator_name(model.name);
    ASSERT_TRUE(found) << model.name;
    EXPECT_EQ(found->model, &model) << model.name;
    EXPECT_EQ(found->spelled, model.name);
    EXPECT_GT(model.memory_gb, 0) << model.name;
    EXPECT_EQ(model.cuda_min.empty(), model.vendor != Vendor::nvidia) << model.name;
    EXPECT_EQ(is_nvidia(model.name), model.vendor == Vendor::nvidia) << model.name;
    EXPECT_EQ(made(model.name).count, model.devices);
  }
  EXPECT_EQ(names.size(), 137U);
}

TEST(Catalogue, FactsOfSomeModels) {
  struct Row {
    const char* name;
    double memory;
    const char* cuda_min;
    const char* cuda_max;
    const char* architecture;
    int devices;
  };
  for (const Row& row :
       {Row{"K80", 12, "5.5", "10.2", "Kepler", 1}, Row{"T4G", 16, "10.0", "13.1", "Turing", 1},
        Row{"A100", 80, "11.0", "13.1", "Ampere", 1}, Row{"H200", 141, "11.8", "13.1", "Hopper", 1},
        Row{"GB200", 384, "12.8", "13.1", "Blackwell", 1},
        Row{"RTX PRO 6000 MaxQ", 96, "12.8", "13.1", "Blackwell", 1},
        Row{"MI300X", 192, "", "", "CDNA3", 1}, Row{"MI325X", 256, "", "", "CDNA3", 1},
        Row{"MI355X", 288, "", "", "CDNA4", 1}, Row{"Gaudi3", 128, "", "", "Gaudi", 1},
        Row{"TPUv5p-8", 760, "", "", "TPU", 8}}) {
    const auto found = parse_accelerator_name(row.name);
    ASSERT_TRUE(found) << row.name;
    EXPECT_EQ(found->model->memory_gb, row.memory) << row.name;
    EXPECT_EQ(found->model->cuda_min, row.cuda_min) << row.name;
    EXPECT_EQ(found->model->cuda_max, row.cuda_max) << row.name;
    EXPECT_EQ(found->model->architecture, row.architecture) << row.name;
    EXPECT_EQ(found->model->devices, row.devices) << row.name;
  }
}

TEST(AcceleratorNames, SpellingDoesNotMatter) {
  for (const char* name : {"RTX 4090", "RTX4090", "rtx_4090", "RTX-4090", "GeForce RTX 4090"})
    EXPECT_EQ(parse_accelerator_name(name).value().spelled, "RTX 4090") << name;
  EXPECT_EQ(parse_accelerator_name("A6000").value().spelled, "RTX A6000");
  EXPECT_EQ(parse_accelerator_name("Radeon Pro V520").value().spelled, "RadeonPro-V520");
  EXPECT_EQ(parse_accelerator_name("h100-nvl").value().form, "NVL");
  EXPECT_EQ(parse_accelerator_name("A100-40GB").value().memory_gb, 40);
  EXPECT_EQ(parse_accelerator_name("A100-40").value().spelled, "A100-40");
  EXPECT_FALSE(parse_accelerator_name("A100-41GB"));
  EXPECT_FALSE(parse_accelerator_name(""));
}

TEST(AcceleratorNames, Predicates) {
  for (const char* name : {"H100", "h100", "A100-80GB", "A100-40", "H100-PCIe", "M60", "RTX4090"})
    EXPECT_TRUE(is_nvidia(name) && is_gpu(name)) << name;
  EXPECT_FALSE(is_nvidia("MI300X"));
  EXPECT_TRUE(is_gpu("MI300X"));
  EXPECT_TRUE(is_trainium("Trainium2"));
  EXPECT_FALSE(is_trainium("H100") || is_trainium("Inferentia2") || is_gpu("Trainium2"));
  EXPECT_FALSE(is_nvidia("") || is_nvidia("nonsense"));
}

TEST(AcceleratorNames, WhatDevicesReport) {
  const std::pair<const char*, const char*> kReports[] = {
      {"Tesla T4", "T4"},
      {"Tesla V100-SXM2-16GB", "V100"},
      {"Tesla K80", "K80"},
      {"NVIDIA A10G", "A10G"},
      {"NVIDIA A100-SXM4-40GB", "A100-40"},
      {"NVIDIA A100-PCIE-40GB", "A100-40"},
      {"NVIDIA A100-SXM4-80GB", "A100-80"},
      {"NVIDIA A100 80GB PCIe", "A100-80"},
      {"NVIDIA A100X", "A100X"},
      {"NVIDIA H100 80GB HBM3", "H100-80GB"},
      {"NVIDIA H100 PCIe", "H100-PCIe"},
      {"NVIDIA H100 NVL", "H100-NVL"},
      {"NVIDIA H200", "H200"},
      {"NVIDIA GH200 480GB", "GH200"},
      {"NVIDIA L40S", "L40S"},
      {"NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti Super"},
      {"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"},
      {"NVIDIA RTX A6000", "RTX A6000"},
      {"Quadro RTX 6000", "Quadro RTX 6000"},
      {"NVIDIA Unheard Of 9", "Unheard Of 9"},
      {"", ""},
  };
  for (const auto& [reported, name] : kReports)
    EXPECT_EQ(device_model_name(reported), name) << reported;
}

TEST(AcceleratorNames, FormsAreWordsOfDescriptions) {
  EXPECT_EQ(form_factor_in("8x H100 SXM5 80GB"), "SXM");
  EXPECT_EQ(form_factor_in("H100 SXM"), "SXM");
  EXPECT_EQ(form_factor_in("A100 PCIE"), "PCIe");
  EXPECT_EQ(form_factor_in("nvidia_h100_pcie"), "PCIe");
  EXPECT_EQ(form_factor_in("NVIDIA-H100-NVL"), "NVL");
  EXPECT_EQ(form_factor_in("NVIDIA H100 80GB HBM3"), "");
  EXPECT_EQ(form_factor_in(""), "");
}

TEST(Accelerator, FactoriesFillInTheMemory) {
  EXPECT_EQ(made("H100"), (Accelerator{.name = "H100", .memory = "80GB"}));
  EXPECT_EQ(made("H100", {.count = 4}).count, 4);
  EXPECT_EQ(made("A100", {.memory = "40GB"}).memory, "40GB");
  EXPECT_TRUE(made("A100", {.memory = "40GB"}).memory_required);
  EXPECT_FALSE(made("A100").memory_required);
  const Accelerator split = checked({.name = "A100", .mig = "3g.40gb"}).value();
  EXPECT_EQ(split, made("A100", {.mig = "3g.40gb"}));
  EXPECT_EQ(split.memory, "80GB");
  EXPECT_TRUE(split.memory_required);
  const Accelerator nvl = made("H100", {.form_factor = "NVL"});
  EXPECT_EQ(nvl.name, "H100-NVL");
  EXPECT_EQ(nvl.memory, "94GB");
  EXPECT_EQ(made("H200", {.form_factor = "SXM"}).name, "H200");
  EXPECT_EQ(made("TPUv4-64"), (Accelerator{.name = "TPUv4-64", .memory = "2048GB", .count = 64}));
  EXPECT_EQ(to_string(made("H100", {.count = 4})), "4xH100");
  EXPECT_EQ(to_string(made("H100", {.count = 0.5})), "0.5xH100");
  EXPECT_EQ(cuda_range(made("T4")), (std::pair<std::string, std::string>("10.0", "13.1")));
}

TEST(Accelerator, RefusalsNameWhatIsNear) {
  EXPECT_THAT(refusal("H10", ""), HasSubstr("no accelerator named \"H10\" | did you mean"));
  EXPECT_THAT(refusal("RTX 4091", ""), HasSubstr("RTX 4090"));
  EXPECT_THAT(refusal("A100-41GB", ""), HasSubstr("A100-40GB"));
  EXPECT_THAT(refusal("qwertyuiop", ""), HasSubstr("accelerators.Custom"));
  EXPECT_EQ(refusal("A100", "64GB"),
            "A100: memory=\"64GB\" does not exist: this model comes with 80GB or 40GB | "
            "write memory=\"80GB\", or leave memory out");
  EXPECT_THAT(refusal("A100-40GB", "80GB"), HasSubstr("comes with 40GB"));
  EXPECT_THAT(refusal("T4", "lots"), HasSubstr("\"lots\" is not an amount of memory"));
  for (const double count : {0.0, -1.0, 1.5, 1e9, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT(refusal("T4", "", count), HasSubstr("is out of range")) << count;
  EXPECT_THAT(refusal(catalogue_accelerator("H100", {.form_factor = "OAM"})),
              HasSubstr("choose one of SXM, PCIe, NVL"));
  EXPECT_THAT(refusal(catalogue_accelerator("T4", {.form_factor = "SXM"})),
              HasSubstr("leave form_factor out"));
}

TEST(Accelerator, CustomOnesAreTakenAsTheyAre) {
  const Accelerator own{.name = "Own 9", .memory = "5GB", .count = 2, .custom = true};
  EXPECT_EQ(checked(own).value(), own);
  EXPECT_TRUE(matches(own, "own-9", 0));
  EXPECT_FALSE(matches(own, "T4", 0));
  EXPECT_NE(refusal(checked({.name = "Own", .count = 0, .custom = true})), "accepted");
  EXPECT_NE(refusal(checked({.name = "", .custom = true})), "accepted");
}

TEST(Mig, PartitionsAndWorkers) {
  EXPECT_EQ(workers_per_node(made("H100")), 1);
  EXPECT_EQ(workers_per_node(made("H100", {.count = 4})), 1);
  const std::pair<const char*, int> kLarge[] = {{"1g.10gb", 7}, {"1g.20gb", 4}, {"2g.20gb", 3},
                                                {"3g.40gb", 2}, {"4g.40gb", 1}, {"7g.80gb", 1}};
  for (const auto& [profile, workers] : kLarge) {
    for (const char* model : {"H100", "A100", "A100-80GB", "H100-SXM", "H100-NVL"})
      EXPECT_EQ(workers_per_node(made(model, {.mig = profile})), workers) << model << profile;
  }
  const std::pair<const char*, int> kSmall[] = {
      {"1g.5gb", 7}, {"2g.10gb", 3}, {"3g.20gb", 2}, {"4g.20gb", 1}, {"7g.40gb", 1}};
  for (const auto& [profile, workers] : kSmall) {
    EXPECT_EQ(workers_per_node(made("A100", {.memory = "40GB", .mig = profile})), workers);
    EXPECT_EQ(workers_per_node(made("A100-40", {.mig = profile})), workers);
  }
  const std::vector<std::string> several = {"3g.40gb", "2g.20gb", "1g.10gb"};
  const Accelerator split = made("H100", {.count = 2, .mig = several});
  EXPECT_EQ(workers_per_node(split), 6);
  EXPECT_THAT(mig_partitions(split), ElementsAre("3g.40gb", "2g.20gb", "1g.10gb"));
  EXPECT_THAT(mig_partitions(made("H100", {.mig = "3g.40gb"})), ElementsAre("3g.40gb", "3g.40gb"));
}

TEST(Mig, RefusalsSayWhichProfilesThereAre) {
  EXPECT_EQ(refusal("H100", "", 1, "3g.71gb"),
            "H100: mig=\"3g.71gb\" is not a profile of the model with 80GB | choose one of "
            "1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb");
  EXPECT_THAT(refusal("A100", "", 1, "3g.20gb"),
              HasSubstr("7g.80gb; or write memory=\"40GB\", which has 3g.20gb"));
  EXPECT_THAT(refusal("A100", "40GB", 1, "3g.40gb"),
              HasSubstr("7g.40gb; or write memory=\"80GB\", which has 3g.40gb"));
  EXPECT_THAT(refusal("T4", "", 1, "1g.5gb"), HasSubstr("cannot be split"));
  EXPECT_THAT(refusal("H100", "", 1, std::vector<std::string>{"4g.40gb", "4g.40gb"}),
              HasSubstr("needs 8 slices, but a GPU has 7"));
  EXPECT_THAT(refusal("H100", "", 1, std::vector<std::string>{}), HasSubstr("names no profile"));
  EXPECT_THAT(refusal("H100", "", 0.5, "3g.40gb"), HasSubstr("cannot be split further"));
}

// What the GPU holds of each alone is what fits together.
TEST(Mig, PartitionsMustFitTogether) {
  using Several = std::vector<std::string>;
  for (const MigProfile& profile : mig_profiles()) {
    const std::string model = profile.gpu_gb == 141 ? "H200" : "A100";
    const std::string memory = model == "H200" ? "" : profile.gpu_gb == 80 ? "80GB" : "40GB";
    const auto most = static_cast<std::size_t>(profile.most);
    const Several fits(most, std::string(profile.name));
    EXPECT_EQ(mig_partitions(made(model, {.memory = memory, .mig = fits})), fits);
    EXPECT_THAT(refusal(model, memory, 1, Several(most + 1, std::string(profile.name))),
                HasSubstr(", but "))
        << profile.name;
  }
  EXPECT_EQ(refusal("H100", "", 1, Several{"3g.40gb", "3g.40gb", "1g.10gb"}),
            "H100: mig=[3g.40gb, 3g.40gb, 1g.10gb] needs 90GB of memory, but the partitions of a "
            "GPU share 80GB | ask for fewer or smaller partitions");
  EXPECT_THAT(refusal("H100", "", 1, Several(7, "1g.20gb")), HasSubstr("needs 140GB"));
  EXPECT_THAT(refusal("A100", "40GB", 1, Several{"3g.20gb", "3g.20gb", "1g.5gb"}),
              HasSubstr("needs 45GB of memory, but the partitions of a GPU share 40GB"));
  EXPECT_THAT(refusal("H200", "", 1, Several{"3g.71gb", "3g.71gb", "1g.18gb"}),
              HasSubstr("needs 160GB of memory, but the partitions of a GPU share 141GB"));
  const Several whole = {"4g.71gb", "3g.71gb"};  // 142, as rounded
  EXPECT_EQ(mig_partitions(made("H200", {.mig = whole})), whole);
  for (const Several& fits :
       {Several{"4g.40gb", "3g.40gb"}, Several{"4g.40gb", "2g.20gb", "1g.20gb"},
        Several{"1g.20gb", "1g.20gb", "1g.20gb", "1g.10gb", "1g.10gb"}}) {
    EXPECT_EQ(mig_partitions(made("H100", {.mig = fits})), fits);
  }
}

TEST(Matching, ModelAndOnlyWhatWasAskedForBesides) {
  const Accelerator plain = made("A100");
  EXPECT_TRUE(matches(plain, "A100", 40) && matches(plain, "A100-40", 0));
  EXPECT_TRUE(matches(plain, "A100-80GB", 80));
  EXPECT_FALSE(matches(plain, "A100X", 80) || matches(plain, "A10", 24) || matches(plain, "", 0));
  const Accelerator small = made("A100", {.memory = "40GB"});
  EXPECT_TRUE(matches(small, "A100", 39.6) && matches(small, "A100-40", 0));
  EXPECT_FALSE(matches(small, "A100", 80) || matches(small, "A100", 0));
  EXPECT_TRUE(matches(checked({.name = "A100-40GB"}).value(), "A100", 40));
  EXPECT_FALSE(matches(checked({.name = "A100-40GB"}).value(), "A100", 79.6));
  const Accelerator nvl = made("H100", {.form_factor = "NVL"});
  EXPECT_FALSE(matches(nvl, "H100-PCIe", 80) || matches(nvl, "H100", 80));
  EXPECT_TRUE(matches(nvl, "H100 NVL", 94));
  EXPECT_TRUE(matches(made("H100", {.form_factor = "SXM"}), "H100", 80));
  EXPECT_TRUE(matches(made("RTX 4090"), "RTX4090", 0));
  const Accelerator sxm = made("H100", {.form_factor = "SXM"});
  EXPECT_TRUE(matches(sxm, "H100", 80, "SXM") && matches(sxm, "H100", 80, ""));
  EXPECT_FALSE(matches(sxm, "H100", 80, "PCIe"));
  EXPECT_TRUE(matches(made("H100"), "H100", 80, "PCIe") &&
              matches(made("H100"), "H100", 94, "NVL"));
  const Accelerator split = made("H100", {.mig = "3g.40gb"});
  EXPECT_TRUE(matches(split, "H100", 79.6) && matches(split, "H100-PCIe", 80));
  EXPECT_FALSE(matches(split, "H100-NVL", 93.6)) << "its profiles are others";
  EXPECT_TRUE(matches(made("H100-NVL", {.mig = "3g.40gb"}), "H100-NVL", 93.6));
}

}  // namespace
}  // namespace skyward
