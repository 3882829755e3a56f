#pragma once

// A function for each model of the catalogue: `sky::accelerators::H100({.count = 4})`.
// Made by tools/catalogue.py from skyward/spec/accelerators.tsv; a test compares them.

#include <string>
#include <string_view>

#include "skyward/spec/accelerator.h"

// clang-format off
// Models are called as their makers call them. NOLINTBEGIN(readability-identifier-naming)
namespace skyward::accelerators {

// A model by its name; throws ConfigurationError, naming what is near.
Accelerator from_catalogue(std::string_view name, const AcceleratorOptions& options = {});
// One that the catalogue does not have. `memory` is of one device, for example "80GB".
Accelerator Custom(std::string name, std::string memory = {}, double count = 1,
                   std::string cuda_min = {}, std::string cuda_max = {});

inline Accelerator K80(double count = 1) { return from_catalogue("K80", {.count = count}); }
inline Accelerator M60(double count = 1) { return from_catalogue("M60", {.count = count}); }
inline Accelerator P4(double count = 1) { return from_catalogue("P4", {.count = count}); }
inline Accelerator P40(double count = 1) { return from_catalogue("P40", {.count = count}); }
inline Accelerator P100(double count = 1) { return from_catalogue("P100", {.count = count}); }
inline Accelerator V100(const AcceleratorOptions& options = {}) {
  return from_catalogue("V100", options);
}
inline Accelerator T4(double count = 1) { return from_catalogue("T4", {.count = count}); }
inline Accelerator T4G(double count = 1) { return from_catalogue("T4G", {.count = count}); }
inline Accelerator A2(double count = 1) { return from_catalogue("A2", {.count = count}); }
inline Accelerator A10(double count = 1) { return from_catalogue("A10", {.count = count}); }
inline Accelerator A10G(double count = 1) { return from_catalogue("A10G", {.count = count}); }
inline Accelerator A16(double count = 1) { return from_catalogue("A16", {.count = count}); }
inline Accelerator A30(double count = 1) { return from_catalogue("A30", {.count = count}); }
inline Accelerator A40(double count = 1) { return from_catalogue("A40", {.count = count}); }
inline Accelerator A100(const AcceleratorOptions& options = {}) {
  return from_catalogue("A100", options);
}
inline Accelerator A100X(double count = 1) { return from_catalogue("A100X", {.count = count}); }
inline Accelerator A800(double count = 1) { return from_catalogue("A800", {.count = count}); }
inline Accelerator L4(double count = 1) { return from_catalogue("L4", {.count = count}); }
inline Accelerator L40(double count = 1) { return from_catalogue("L40", {.count = count}); }
inline Accelerator L40S(double count = 1) { return from_catalogue("L40S", {.count = count}); }
inline Accelerator H100(const AcceleratorOptions& options = {}) {
  return from_catalogue("H100", options);
}
inline Accelerator H200(const AcceleratorOptions& options = {}) {
  return from_catalogue("H200", options);
}
inline Accelerator GH200(double count = 1) { return from_catalogue("GH200", {.count = count}); }
inline Accelerator B100(double count = 1) { return from_catalogue("B100", {.count = count}); }
inline Accelerator B200(double count = 1) { return from_catalogue("B200", {.count = count}); }
inline Accelerator B300(double count = 1) { return from_catalogue("B300", {.count = count}); }
inline Accelerator GB200(double count = 1) { return from_catalogue("GB200", {.count = count}); }
inline Accelerator GB300(double count = 1) { return from_catalogue("GB300", {.count = count}); }
inline Accelerator GTX_1050(double count = 1) { return from_catalogue("GTX 1050", {.count = count}); }
inline Accelerator GTX_1050_Ti(double count = 1) { return from_catalogue("GTX 1050 Ti", {.count = count}); }
inline Accelerator GTX_1060(double count = 1) { return from_catalogue("GTX 1060", {.count = count}); }
inline Accelerator GTX_1070(double count = 1) { return from_catalogue("GTX 1070", {.count = count}); }
inline Accelerator GTX_1070_Ti(double count = 1) { return from_catalogue("GTX 1070 Ti", {.count = count}); }
inline Accelerator GTX_1080(double count = 1) { return from_catalogue("GTX 1080", {.count = count}); }
inline Accelerator GTX_1080_Ti(double count = 1) { return from_catalogue("GTX 1080 Ti", {.count = count}); }
inline Accelerator Titan_Xp(double count = 1) { return from_catalogue("Titan Xp", {.count = count}); }
inline Accelerator Quadro_P2000(double count = 1) { return from_catalogue("Quadro P2000", {.count = count}); }
inline Accelerator Quadro_P4000(double count = 1) { return from_catalogue("Quadro P4000", {.count = count}); }
inline Accelerator Titan_V(double count = 1) { return from_catalogue("Titan V", {.count = count}); }
inline Accelerator GTX_1650(double count = 1) { return from_catalogue("GTX 1650", {.count = count}); }
inline Accelerator GTX_1660(double count = 1) { return from_catalogue("GTX 1660", {.count = count}); }
inline Accelerator GTX_1660_Super(double count = 1) { return from_catalogue("GTX 1660 Super", {.count = count}); }
inline Accelerator GTX_1660_Ti(double count = 1) { return from_catalogue("GTX 1660 Ti", {.count = count}); }
inline Accelerator RTX_2060(double count = 1) { return from_catalogue("RTX 2060", {.count = count}); }
inline Accelerator RTX_2060_Super(double count = 1) { return from_catalogue("RTX 2060 Super", {.count = count}); }
inline Accelerator RTX_2070(double count = 1) { return from_catalogue("RTX 2070", {.count = count}); }
inline Accelerator RTX_2070_Super(double count = 1) { return from_catalogue("RTX 2070 Super", {.count = count}); }
inline Accelerator RTX_2080(double count = 1) { return from_catalogue("RTX 2080", {.count = count}); }
inline Accelerator RTX_2080_Super(double count = 1) { return from_catalogue("RTX 2080 Super", {.count = count}); }
inline Accelerator RTX_2080_Ti(double count = 1) { return from_catalogue("RTX 2080 Ti", {.count = count}); }
inline Accelerator Titan_RTX(double count = 1) { return from_catalogue("Titan RTX", {.count = count}); }
inline Accelerator Quadro_RTX_4000(double count = 1) { return from_catalogue("Quadro RTX 4000", {.count = count}); }
inline Accelerator Quadro_RTX_5000(double count = 1) { return from_catalogue("Quadro RTX 5000", {.count = count}); }
inline Accelerator Quadro_RTX_6000(double count = 1) { return from_catalogue("Quadro RTX 6000", {.count = count}); }
inline Accelerator Quadro_RTX_8000(double count = 1) { return from_catalogue("Quadro RTX 8000", {.count = count}); }
inline Accelerator CMP_50HX(double count = 1) { return from_catalogue("CMP 50HX", {.count = count}); }
inline Accelerator RTX_3050(double count = 1) { return from_catalogue("RTX 3050", {.count = count}); }
inline Accelerator RTX_3060(double count = 1) { return from_catalogue("RTX 3060", {.count = count}); }
inline Accelerator RTX_3060_Ti(double count = 1) { return from_catalogue("RTX 3060 Ti", {.count = count}); }
inline Accelerator RTX_3060_Laptop(double count = 1) { return from_catalogue("RTX 3060 Laptop", {.count = count}); }
inline Accelerator RTX_3070(double count = 1) { return from_catalogue("RTX 3070", {.count = count}); }
inline Accelerator RTX_3070_Ti(double count = 1) { return from_catalogue("RTX 3070 Ti", {.count = count}); }
inline Accelerator RTX_3080(double count = 1) { return from_catalogue("RTX 3080", {.count = count}); }
inline Accelerator RTX_3080_Ti(double count = 1) { return from_catalogue("RTX 3080 Ti", {.count = count}); }
inline Accelerator RTX_3090(double count = 1) { return from_catalogue("RTX 3090", {.count = count}); }
inline Accelerator RTX_3090_Ti(double count = 1) { return from_catalogue("RTX 3090 Ti", {.count = count}); }
inline Accelerator RTX_A2000(double count = 1) { return from_catalogue("RTX A2000", {.count = count}); }
inline Accelerator RTX_A4000(double count = 1) { return from_catalogue("RTX A4000", {.count = count}); }
inline Accelerator RTX_A4500(double count = 1) { return from_catalogue("RTX A4500", {.count = count}); }
inline Accelerator RTX_A5000(double count = 1) { return from_catalogue("RTX A5000", {.count = count}); }
inline Accelerator RTX_A5000_Pro(double count = 1) { return from_catalogue("RTX A5000 Pro", {.count = count}); }
inline Accelerator RTX_A6000(double count = 1) { return from_catalogue("RTX A6000", {.count = count}); }
inline Accelerator RTX_4060(double count = 1) { return from_catalogue("RTX 4060", {.count = count}); }
inline Accelerator RTX_4060_Ti(double count = 1) { return from_catalogue("RTX 4060 Ti", {.count = count}); }
inline Accelerator RTX_4070(double count = 1) { return from_catalogue("RTX 4070", {.count = count}); }
inline Accelerator RTX_4070_Super(double count = 1) { return from_catalogue("RTX 4070 Super", {.count = count}); }
inline Accelerator RTX_4070_Ti(double count = 1) { return from_catalogue("RTX 4070 Ti", {.count = count}); }
inline Accelerator RTX_4070_Ti_Super(double count = 1) { return from_catalogue("RTX 4070 Ti Super", {.count = count}); }
inline Accelerator RTX_4080(double count = 1) { return from_catalogue("RTX 4080", {.count = count}); }
inline Accelerator RTX_4080_Super(double count = 1) { return from_catalogue("RTX 4080 Super", {.count = count}); }
inline Accelerator RTX_4090(double count = 1) { return from_catalogue("RTX 4090", {.count = count}); }
inline Accelerator RTX_4090D(double count = 1) { return from_catalogue("RTX 4090D", {.count = count}); }
inline Accelerator RTX_2000_Ada(double count = 1) { return from_catalogue("RTX 2000 Ada", {.count = count}); }
inline Accelerator RTX_4000_Ada(double count = 1) { return from_catalogue("RTX 4000 Ada", {.count = count}); }
inline Accelerator RTX_4500_Ada(double count = 1) { return from_catalogue("RTX 4500 Ada", {.count = count}); }
inline Accelerator RTX_5000_Ada(double count = 1) { return from_catalogue("RTX 5000 Ada", {.count = count}); }
inline Accelerator RTX_5880_Ada(double count = 1) { return from_catalogue("RTX 5880 Ada", {.count = count}); }
inline Accelerator RTX_6000_Ada(double count = 1) { return from_catalogue("RTX 6000 Ada", {.count = count}); }
inline Accelerator RTX_5060(double count = 1) { return from_catalogue("RTX 5060", {.count = count}); }
inline Accelerator RTX_5060_Ti(double count = 1) { return from_catalogue("RTX 5060 Ti", {.count = count}); }
inline Accelerator RTX_5070(double count = 1) { return from_catalogue("RTX 5070", {.count = count}); }
inline Accelerator RTX_5070_Ti(double count = 1) { return from_catalogue("RTX 5070 Ti", {.count = count}); }
inline Accelerator RTX_5080(double count = 1) { return from_catalogue("RTX 5080", {.count = count}); }
inline Accelerator RTX_5090(double count = 1) { return from_catalogue("RTX 5090", {.count = count}); }
inline Accelerator RTX_PRO_4000(double count = 1) { return from_catalogue("RTX PRO 4000", {.count = count}); }
inline Accelerator RTX_PRO_4500(double count = 1) { return from_catalogue("RTX PRO 4500", {.count = count}); }
inline Accelerator RTX_PRO_5000(double count = 1) { return from_catalogue("RTX PRO 5000", {.count = count}); }
inline Accelerator RTX_PRO_6000(double count = 1) { return from_catalogue("RTX PRO 6000", {.count = count}); }
inline Accelerator RTX_PRO_6000_MaxQ(double count = 1) { return from_catalogue("RTX PRO 6000 MaxQ", {.count = count}); }
inline Accelerator RTX_PRO_6000_S(double count = 1) { return from_catalogue("RTX PRO 6000 S", {.count = count}); }
inline Accelerator RTX_PRO_6000_WK(double count = 1) { return from_catalogue("RTX PRO 6000 WK", {.count = count}); }
inline Accelerator RTX_PRO_6000_WS(double count = 1) { return from_catalogue("RTX PRO 6000 WS", {.count = count}); }
inline Accelerator RTX_PRO_Server_6000(double count = 1) { return from_catalogue("RTX PRO Server 6000", {.count = count}); }
inline Accelerator MI50(double count = 1) { return from_catalogue("MI50", {.count = count}); }
inline Accelerator MI100(double count = 1) { return from_catalogue("MI100", {.count = count}); }
inline Accelerator MI210(double count = 1) { return from_catalogue("MI210", {.count = count}); }
inline Accelerator MI250(double count = 1) { return from_catalogue("MI250", {.count = count}); }
inline Accelerator MI250X(double count = 1) { return from_catalogue("MI250X", {.count = count}); }
inline Accelerator MI300A(double count = 1) { return from_catalogue("MI300A", {.count = count}); }
inline Accelerator MI300B(double count = 1) { return from_catalogue("MI300B", {.count = count}); }
inline Accelerator MI300X(double count = 1) { return from_catalogue("MI300X", {.count = count}); }
inline Accelerator MI325X(double count = 1) { return from_catalogue("MI325X", {.count = count}); }
inline Accelerator MI350X(double count = 1) { return from_catalogue("MI350X", {.count = count}); }
inline Accelerator MI355X(double count = 1) { return from_catalogue("MI355X", {.count = count}); }
inline Accelerator RadeonPro_V520(double count = 1) { return from_catalogue("RadeonPro-V520", {.count = count}); }
inline Accelerator RadeonPro_V710(double count = 1) { return from_catalogue("RadeonPro-V710", {.count = count}); }
inline Accelerator Instinct_MI25(double count = 1) { return from_catalogue("Instinct-MI25", {.count = count}); }
inline Accelerator Gaudi(double count = 1) { return from_catalogue("Gaudi", {.count = count}); }
inline Accelerator Gaudi2(double count = 1) { return from_catalogue("Gaudi2", {.count = count}); }
inline Accelerator Gaudi3(double count = 1) { return from_catalogue("Gaudi3", {.count = count}); }
inline Accelerator Trainium1(double count = 1) { return from_catalogue("Trainium1", {.count = count}); }
inline Accelerator Trainium2(double count = 1) { return from_catalogue("Trainium2", {.count = count}); }
inline Accelerator Trainium3(double count = 1) { return from_catalogue("Trainium3", {.count = count}); }
inline Accelerator Inferentia1(double count = 1) { return from_catalogue("Inferentia1", {.count = count}); }
inline Accelerator Inferentia2(double count = 1) { return from_catalogue("Inferentia2", {.count = count}); }
inline Accelerator TPUv2(double count = 1) { return from_catalogue("TPUv2", {.count = count}); }
inline Accelerator TPUv3(double count = 1) { return from_catalogue("TPUv3", {.count = count}); }
inline Accelerator TPUv4(double count = 1) { return from_catalogue("TPUv4", {.count = count}); }
inline Accelerator TPUv5e(double count = 1) { return from_catalogue("TPUv5e", {.count = count}); }
inline Accelerator TPUv5p(double count = 1) { return from_catalogue("TPUv5p", {.count = count}); }
inline Accelerator TPUv6(double count = 1) { return from_catalogue("TPUv6", {.count = count}); }
inline Accelerator TPUv2_8(double count = 8) { return from_catalogue("TPUv2-8", {.count = count}); }
inline Accelerator TPUv3_8(double count = 8) { return from_catalogue("TPUv3-8", {.count = count}); }
inline Accelerator TPUv3_32(double count = 32) { return from_catalogue("TPUv3-32", {.count = count}); }
inline Accelerator TPUv4_64(double count = 64) { return from_catalogue("TPUv4-64", {.count = count}); }
inline Accelerator TPUv5e_4(double count = 4) { return from_catalogue("TPUv5e-4", {.count = count}); }
inline Accelerator TPUv5p_8(double count = 8) { return from_catalogue("TPUv5p-8", {.count = count}); }

}  // namespace skyward::accelerators
// NOLINTEND(readability-identifier-naming)
// clang-format on
