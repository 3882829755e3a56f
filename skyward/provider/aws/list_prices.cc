#include "skyward/provider/aws/list_prices.h"

#include <algorithm>
#include <charconv>

namespace skyward::provider::aws {

namespace {

// Dollars an hour, by family and size. Linux, on demand, us-east-1; read on 2026-07-20 from the
// public price list of EC2 by way of Karpenter's generated table (zz_generated.pricing_aws.go).
constexpr std::string_view kPrices = R"(
c5 12xlarge:2.04 18xlarge:3.06 24xlarge:4.08 2xlarge:0.34 4xlarge:0.68 9xlarge:1.53 large:0.085
c5 xlarge:0.17
c6a 12xlarge:1.836 16xlarge:2.448 24xlarge:3.672 2xlarge:0.306 32xlarge:4.896 48xlarge:7.344
c6a 4xlarge:0.612 8xlarge:1.224 large:0.0765 xlarge:0.153
c6g 12xlarge:1.632 16xlarge:2.176 2xlarge:0.272 4xlarge:0.544 8xlarge:1.088 large:0.068
c6g medium:0.034 xlarge:0.136
c6i 12xlarge:2.04 16xlarge:2.72 24xlarge:4.08 2xlarge:0.34 32xlarge:5.44 4xlarge:0.68
c6i 8xlarge:1.36 large:0.085 xlarge:0.17
c7a 12xlarge:2.46336 16xlarge:3.28448 24xlarge:4.92672 2xlarge:0.41056 32xlarge:6.56896
c7a 48xlarge:9.85344 4xlarge:0.82112 8xlarge:1.64224 large:0.10264 medium:0.05132 xlarge:0.20528
c7g 12xlarge:1.74 16xlarge:2.32 2xlarge:0.29 4xlarge:0.58 8xlarge:1.16 large:0.0725
c7g medium:0.0363 xlarge:0.145
c7i 12xlarge:2.142 16xlarge:2.856 24xlarge:4.284 2xlarge:0.357 48xlarge:8.568 4xlarge:0.714
c7i 8xlarge:1.428 large:0.08925 xlarge:0.1785
c8g 12xlarge:1.91424 16xlarge:2.55232 24xlarge:3.82848 2xlarge:0.31904 48xlarge:7.65696
c8g 4xlarge:0.63808 8xlarge:1.27616 large:0.07976 medium:0.03988 xlarge:0.15952
c8i 12xlarge:2.24904 16xlarge:2.99872 24xlarge:4.49808 2xlarge:0.37484 32xlarge:5.99744
c8i 48xlarge:8.99616 4xlarge:0.74968 8xlarge:1.49936 96xlarge:17.99232 large:0.09371
c8i xlarge:0.18742
g4ad 16xlarge:3.468 2xlarge:0.54117 4xlarge:0.867 8xlarge:1.734 xlarge:0.37853
g4dn 12xlarge:3.912 16xlarge:4.352 2xlarge:0.752 4xlarge:1.204 8xlarge:2.176 metal:7.824
g4dn xlarge:0.526
g5 12xlarge:5.672 16xlarge:4.096 24xlarge:8.144 2xlarge:1.212 48xlarge:16.288 4xlarge:1.624
g5 8xlarge:2.448 xlarge:1.006
g5g 16xlarge:2.744 2xlarge:0.556 4xlarge:0.828 8xlarge:1.372 metal:2.744 xlarge:0.42
g6 12xlarge:4.6016 16xlarge:3.3968 24xlarge:6.6752 2xlarge:0.9776 48xlarge:13.3504
g6 4xlarge:1.3232 8xlarge:2.0144 xlarge:0.8048
g6e 12xlarge:10.49264 16xlarge:7.57719 24xlarge:15.06559 2xlarge:2.24208 48xlarge:30.13118
g6e 4xlarge:3.00424 8xlarge:4.52856 xlarge:1.861
g6f 2xlarge:0.475 4xlarge:0.95 large:0.202 xlarge:0.2375
g7 12xlarge:7.12832 24xlarge:14.25664 2xlarge:2.52 48xlarge:28.51328 4xlarge:3.04208
g7 8xlarge:4.08624
g7e 12xlarge:8.28608 24xlarge:16.57216 2xlarge:3.36312 48xlarge:33.14432 4xlarge:3.99816
g7e 8xlarge:5.26824
gr6 4xlarge:1.5392 8xlarge:2.4464
gr6f 4xlarge:1.066
inf1 24xlarge:4.721 2xlarge:0.362 6xlarge:1.18 xlarge:0.228
inf2 24xlarge:6.49063 48xlarge:12.98127 8xlarge:1.96786 xlarge:0.7582
m5 12xlarge:2.304 16xlarge:3.072 24xlarge:4.608 2xlarge:0.384 4xlarge:0.768 8xlarge:1.536
m5 large:0.096 xlarge:0.192
m6a 12xlarge:2.0736 16xlarge:2.7648 24xlarge:4.1472 2xlarge:0.3456 32xlarge:5.5296
m6a 48xlarge:8.2944 4xlarge:0.6912 8xlarge:1.3824 large:0.0864 xlarge:0.1728
m6g 12xlarge:1.848 16xlarge:2.464 2xlarge:0.308 4xlarge:0.616 8xlarge:1.232 large:0.077
m6g medium:0.0385 xlarge:0.154
m6i 12xlarge:2.304 16xlarge:3.072 24xlarge:4.608 2xlarge:0.384 32xlarge:6.144 4xlarge:0.768
m6i 8xlarge:1.536 large:0.096 xlarge:0.192
m7a 12xlarge:2.78208 16xlarge:3.70944 24xlarge:5.56416 2xlarge:0.46368 32xlarge:7.41888
m7a 48xlarge:11.12832 4xlarge:0.92736 8xlarge:1.85472 large:0.11592 medium:0.05796
m7a xlarge:0.23184
m7g 12xlarge:1.9584 16xlarge:2.6112 2xlarge:0.3264 4xlarge:0.6528 8xlarge:1.3056 large:0.0816
m7g medium:0.0408 xlarge:0.1632
m7i 12xlarge:2.4192 16xlarge:3.2256 24xlarge:4.8384 2xlarge:0.4032 48xlarge:9.6768
m7i 4xlarge:0.8064 8xlarge:1.6128 large:0.1008 xlarge:0.2016
m8g 12xlarge:2.15424 16xlarge:2.87232 24xlarge:4.30848 2xlarge:0.35904 48xlarge:8.61696
m8g 4xlarge:0.71808 8xlarge:1.43616 large:0.08976 medium:0.04488 xlarge:0.17952
m8i 12xlarge:2.54016 16xlarge:3.38688 24xlarge:5.08032 2xlarge:0.42336 32xlarge:6.77376
m8i 48xlarge:10.16064 4xlarge:0.84672 8xlarge:1.69344 96xlarge:20.32128 large:0.10584
m8i xlarge:0.21168
p3dn 24xlarge:31.212
p4d 24xlarge:21.957642
p4de 24xlarge:27.44705
p5 48xlarge:55.04 4xlarge:6.88
p5en 48xlarge:63.296
p6-b200 48xlarge:113.9328
p6-b300 48xlarge:142.416
r5 12xlarge:3.024 16xlarge:4.032 24xlarge:6.048 2xlarge:0.504 4xlarge:1.008 8xlarge:2.016
r5 large:0.126 xlarge:0.252
r6a 12xlarge:2.7216 16xlarge:3.6288 24xlarge:5.4432 2xlarge:0.4536 32xlarge:7.2576
r6a 48xlarge:10.8864 4xlarge:0.9072 8xlarge:1.8144 large:0.1134 xlarge:0.2268
r6g 12xlarge:2.4192 16xlarge:3.2256 2xlarge:0.4032 4xlarge:0.8064 8xlarge:1.6128 large:0.1008
r6g medium:0.0504 xlarge:0.2016
r6i 12xlarge:3.024 16xlarge:4.032 24xlarge:6.048 2xlarge:0.504 32xlarge:8.064 4xlarge:1.008
r6i 8xlarge:2.016 large:0.126 xlarge:0.252
r7a 12xlarge:3.6516 16xlarge:4.8688 24xlarge:7.3032 2xlarge:0.6086 32xlarge:9.7376
r7a 48xlarge:14.6064 4xlarge:1.2172 8xlarge:2.4344 large:0.15215 medium:0.07608 xlarge:0.3043
r7g 12xlarge:2.5704 16xlarge:3.4272 2xlarge:0.4284 4xlarge:0.8568 8xlarge:1.7136 large:0.1071
r7g medium:0.0536 xlarge:0.2142
r7i 12xlarge:3.1752 16xlarge:4.2336 24xlarge:6.3504 2xlarge:0.5292 48xlarge:12.7008
r7i 4xlarge:1.0584 8xlarge:2.1168 large:0.1323 xlarge:0.2646
r8g 12xlarge:2.82768 16xlarge:3.77024 24xlarge:5.65536 2xlarge:0.47128 48xlarge:11.31072
r8g 4xlarge:0.94256 8xlarge:1.88512 large:0.11782 medium:0.05891 xlarge:0.23564
t3 2xlarge:0.3328 large:0.0832 medium:0.0416 micro:0.0104 nano:0.0052 small:0.0208 xlarge:0.1664
t3a 2xlarge:0.3008 large:0.0752 medium:0.0376 micro:0.0094 nano:0.0047 small:0.0188
t3a xlarge:0.1504
t4g 2xlarge:0.2688 large:0.0672 medium:0.0336 micro:0.0084 nano:0.0042 small:0.0168
t4g xlarge:0.1344
trn1 2xlarge:1.34375 32xlarge:21.5
trn1n 32xlarge:24.78
)";

// The text up to `end`, which is taken off with it.
std::string_view take(std::string_view& text, char end) {
  const std::size_t size = std::min(text.find(end), text.size());
  const std::string_view found = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return found;
}

std::map<std::string, double> read_prices() {
  std::map<std::string, double> out;
  for (std::string_view rest = kPrices.substr(1); !rest.empty();) {
    std::string_view line = take(rest, '\n');
    const std::string family(take(line, ' '));
    while (!line.empty()) {
      std::string_view price = take(line, ' ');
      const std::string size(take(price, ':'));
      double dollars = 0;
      std::from_chars(price.data(), price.data() + price.size(), dollars);
      out.emplace(family + "." + size, dollars);
    }
  }
  return out;
}

}  // namespace

const std::map<std::string, double>& list_prices() {
  static const auto& kTable = *new const std::map(read_prices());
  return kTable;
}

}  // namespace skyward::provider::aws
