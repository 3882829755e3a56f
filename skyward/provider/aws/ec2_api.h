#pragma once

// The EC2 API, and the parameters and prices that a pool needs: plain structs in, plain structs
// out, named as Amazon names them. Lists include all pages.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/aws/client.h"
#include "skyward/provider/marks.h"

namespace skyward::provider::aws {

// An EC2 filter: a name and the accepted values.
struct Filter {
  std::string name{};
  std::vector<std::string> values{};
};

struct Device {
  std::string name{};          // "A100", "T4", "Trainium2"
  std::string manufacturer{};  // "NVIDIA"
  double count = 0;            // below 1: a fraction of a device
  double memory_mib = 0;       // of one device
};

struct InstanceType {
  std::string name{};
  int cpus = 0;
  double memory_mib = 0;
  std::vector<std::string> architectures{};
  std::vector<Device> devices{};
  bool spot = false;
  bool on_demand = false;
  bool current_generation = false;
  bool bare_metal = false;
  bool burstable = false;
};

struct TypeZone {
  std::string type{};
  std::string zone{};
};

struct SpotPrice {
  std::string type{};
  std::string zone{};
  double dollars = 0;                     // an hour
  std::optional<std::int64_t> since_s{};  // when it became so, if Amazon says so
};

// The parts of the price list.
enum class PriceFamily : std::uint8_t { virtual_machine, bare_metal };

struct PricePage {
  std::vector<std::pair<std::string, double>> prices{};  // type, dollars an hour
  std::string next{};                                    // empty: the last page
};

struct Disk {
  std::string device{};
  int size_gb = 0;
};

struct MachineImage {
  std::string id{};
  std::string name{};
  std::string platform{};         // "windows", or empty
  std::string billed_as{};        // "Linux/UNIX", "Red Hat Enterprise Linux"
  bool from_marketplace = false;  // its seller may charge for it
  std::string root_device{};
  int size_gb = 0;                 // of the root volume's snapshot
  std::vector<Disk> data_disks{};  // other volumes that machines get from it
};

struct Subnet {
  std::string id{};
  std::string zone{};
  std::string vpc{};
};

struct SecurityGroup {
  std::string id{};
  std::string name{};
  std::string vpc{};
  Tags tags{};
};

// The same tags on everything that a request creates: resources such as "instance".
void add_tags(Parameters& parameters, const std::vector<std::string_view>& resources,
              const Tags& tags);

// Machines of one type in one zone: all of them or an error.
struct LaunchRequest {
  std::string client_token{};
  int count = 1;
  std::string type{};
  std::string image{};
  std::string subnet{};
  std::string security_group{};
  bool own_group = false;  // created for this pool, so EC2 may not see it everywhere yet
  bool public_ip = true;
  std::string user_data{};  // plain
  std::string instance_profile_arn{};
  std::string root_device{};
  int root_gb = 0;
  std::vector<Disk> data_disks{};  // the image's
  bool spot = false;
  std::optional<double> max_spot_price{};  // dollars an hour; empty: the on-demand price
  Tags tags{};
};

// Of RunInstances.
Parameters launch_parameters(const LaunchRequest& request);

struct Ec2Instance {
  std::string id{};
  std::string type{};
  std::string state{};         // "pending", "running", "shutting-down", "terminated", "stopp…"
  std::string state_reason{};  // code: "Server.SpotInstanceTermination"
  std::string state_message{};
  std::string zone{};
  std::string private_ip{};
  std::string public_ip{};
  std::optional<std::int64_t> ended_s{};  // when its termination was requested, if Amazon says so
  bool spot = false;
  Tags tags{};
};

struct EbsVolume {
  std::string id{};
  std::string state{};
  Tags tags{};
};

class Ec2Api {
 public:
  explicit Ec2Api(Client& client) : client_(client) {}

  ApiResult<std::vector<InstanceType>> describe_instance_types(Time deadline);
  ApiResult<std::vector<TypeZone>> describe_type_zones(const std::vector<std::string>& types,
                                                       Time deadline);
  // The current prices of Linux machines, by zone.
  ApiResult<std::vector<SpotPrice>> describe_spot_prices(const std::vector<std::string>& types,
                                                         Time deadline);
  // The regions that the account may use, in this region's partition.
  ApiResult<std::vector<std::string>> describe_regions(Time deadline);
  ApiResult<MachineImage> describe_image(const std::string& id, Time deadline);
  // Empty if the region has no default VPC.
  ApiResult<std::string> default_vpc(Time deadline);
  ApiResult<std::vector<Subnet>> describe_subnets(const std::vector<Filter>& filters,
                                                  Time deadline);

  ApiResult<std::vector<SecurityGroup>> describe_security_groups(const std::vector<Filter>& filters,
                                                                 Time deadline);
  ApiResult<std::string> create_security_group(const std::string& name, const std::string& vpc,
                                               const std::string& description, const Tags& tags,
                                               Time deadline);
  // Admits TCP from `cidr` to `port`. "InvalidPermission.Duplicate" if the rule exists.
  ApiResult<void> admit(const std::string& group, const std::string& cidr, int port, Time deadline);
  // Admits all traffic from the group itself.
  ApiResult<void> admit_group(const std::string& group, Time deadline);
  ApiResult<void> delete_security_group(const std::string& id, Time deadline);

  ApiResult<std::vector<Ec2Instance>> run_instances(const LaunchRequest& request, Time deadline);
  // Would it be allowed? "DryRunOperation" is the code for yes.
  ApiError dry_run(std::string_view action, Parameters parameters, Time deadline);
  ApiResult<std::vector<Ec2Instance>> describe_instances(const std::vector<Filter>& filters,
                                                         Time deadline);
  ApiResult<void> terminate_instances(const std::vector<std::string>& ids, Time deadline);
  ApiResult<std::vector<EbsVolume>> describe_volumes(const std::vector<Filter>& filters,
                                                     Time deadline);
  ApiResult<void> delete_volume(const std::string& id, Time deadline);

  // A parameter of SSM: the id of an image.
  ApiResult<std::string> get_parameter(const std::string& name, Time deadline);
  // On-demand prices of Linux types of the region. `next`: of the page before; empty for the first.
  ApiResult<PricePage> price_page(PriceFamily family, const std::string& next, Time deadline);
  // The ARN of whoever the credentials belong to.
  ApiResult<std::string> caller(Time deadline);

 private:
  // All items of a list, page by page.
  template <typename Item, typename Read>
  ApiResult<std::vector<Item>> list(std::string_view action, Parameters parameters,
                                    std::string_view path, Time deadline, Read read);

  Client& client_;  // outlives this
};

}  // namespace skyward::provider::aws
