#pragma once

// A user's account in one region. It finds the credentials when they are first needed, renews them
// before they expire, and speaks both of Amazon's protocols: query with XML, and JSON.

#include <optional>
#include <string>
#include <string_view>

#include "skyward/provider/aws/api_error.h"
#include "skyward/provider/aws/call.h"
#include "skyward/provider/aws/configuration.h"
#include "skyward/provider/aws/credentials.h"
#include "skyward/provider/aws/xml.h"
#include "skyward/provider/world.h"

namespace skyward::provider::aws {

class Client {
 public:
  Client(World world, Configuration configuration, std::string region,
         Duration request_timeout = std::chrono::seconds(30))
      : world_(std::move(world)),
        configuration_(std::move(configuration)),
        region_(std::move(region)),
        request_timeout_(request_timeout) {}

  const World& world() const { return world_; }
  const Configuration& configuration() const { return configuration_; }
  const std::string& region() const { return region_; }
  // The same account in another region.
  Client in_region(const std::string& region) const;

  // "ec2" or "sts"; the version of the service's interface is added.
  ApiResult<XmlElement> query(std::string_view service, std::string_view action,
                              Parameters parameters, Time deadline);
  // "ssm" or "pricing": the reply's JSON text.
  ApiResult<std::string> json(std::string_view service, std::string_view action, std::string body,
                              Time deadline);

  Result<Credentials> credentials(Time deadline);
  // When those of the last request end for good, in seconds since 1970, if that is known.
  std::optional<std::int64_t> last_end_s() const {
    return credentials_ ? credentials_->ends_s : std::nullopt;
  }

  // From now on, refuses credentials of another account: there, resources that still exist would
  // look as if they were gone.
  void pin_account(std::string account);

  // Seconds by which Amazon's clock is ahead of this computer's, by the last reply; 0 before the
  // first.
  std::int64_t clock_difference_s() const;
  // The same, but 0 if that is too little to matter.
  std::int64_t clock_ahead_s() const;
  // Seconds since 1970, by Amazon's clock where this computer's is wrong.
  std::int64_t wall_s() const;

 private:
  Status check_account(const Credentials& found, Time deadline);
  Result<Credentials> renew(Time deadline);
  ApiResult<io::HttpReply> send(ApiCall call, std::string_view service, Time deadline);

  World world_;
  Configuration configuration_;
  std::string region_;
  Duration request_timeout_;  // of one try
  std::optional<Credentials> credentials_;
  Time renew_from_{};  // not before then
  ClockOffset clock_;
  std::string account_;      // the pinned one; empty: any
  std::string checked_key_;  // an access key known to belong to it
};

}  // namespace skyward::provider::aws
