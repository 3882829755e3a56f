// libFuzzer target: arbitrary bytes as what Amazon's services, a credential service, a program, a
// cache or the user's files for Amazon's tools might say. The first byte chooses what. Nothing is
// thrown, and nothing is read that is not there.
//
//   cmake --preset fuzz && ninja -C build/fuzz replies_fuzz
//   build/fuzz/bin/replies_fuzz -max_len=4096 <folder to grow> skyward/provider/aws/testdata/corpus

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "skyward/base/utc.h"
#include "skyward/provider/aws/api_error.h"
#include "skyward/provider/aws/catalogue.h"
#include "skyward/provider/aws/credentials_sources.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/json_read.h"

namespace skyward::provider::aws {
namespace {

// Says the same a few times, then nothing.
class Repeating final : public io::Http {
 public:
  Repeating(int status, std::string body) : status_(status), body_(std::move(body)) {}
  Result<io::HttpReply> send(const io::HttpRequest&, Time) override {
    if (++asked_ > 4) return fail(ErrorKind::invalid, "no more");
    return io::HttpReply{.status = status_, .headers = {}, .body = body_};
  }

 private:
  const int status_;
  const std::string body_;
  int asked_ = 0;
};

// A computer on which every file that is asked for, and every answer, has these bytes.
struct Computer {
  World world;
  Time now = Time{} + std::chrono::hours(1);
  std::map<std::string, std::string> variables = {{"HOME", "/h"}};

  Computer(int status, const std::string& text) {
    world.variable = [this](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    world.read_file = [text](const std::string&) { return text; };
    world.write_file = [](const std::string&, std::string_view) { return Status(); };
    world.run = [text](const io::SpawnOptions&, Duration) -> Result<io::CommandResult> {
      io::CommandResult result;
      result.out = text;
      return result;
    };
    world.http = std::make_shared<Repeating>(status, text);
    world.now = [this] { return now; };
    world.wall_s = [] { return std::int64_t{1'700'000'000}; };
    world.pause = [this](Duration duration, const std::stop_token&) { now += duration; };
    world.random_hex = [](int digits) {
      return std::string(static_cast<std::size_t>(digits), '8');
    };
    world.random_bits = [] { return 0x8888'8888'8888'8888; };
  }
  Time soon() const { return now + std::chrono::minutes(5); }
  Client client() {
    variables["AWS_ACCESS_KEY_ID"] = variables["AWS_SECRET_ACCESS_KEY"] = "x";
    return {world, Configuration{}, "eu-west-1"};
  }
};

void read_services(int status, const std::string& text) {
  const auto ask = [&](auto verb) {
    Computer computer(status, text);
    Client client = computer.client();
    Ec2Api api(client);
    (void)verb(api, computer.soon());
  };
  ask([](Ec2Api& api, Time time) { return api.describe_instance_types(time); });
  ask([](Ec2Api& api, Time time) { return api.describe_type_zones({"m5.large"}, time); });
  ask([](Ec2Api& api, Time time) { return api.describe_spot_prices({"m5.large"}, time); });
  ask([](Ec2Api& api, Time time) { return api.describe_regions(time); });
  ask([](Ec2Api& api, Time time) { return api.describe_image("ami-1", time); });
  ask([](Ec2Api& api, Time time) { return api.default_vpc(time); });
  ask([](Ec2Api& api, Time time) { return api.describe_subnets({}, time); });
  ask([](Ec2Api& api, Time time) { return api.describe_security_groups({}, time); });
  ask([](Ec2Api& api, Time time) { return api.create_security_group("n", "v", "d", {}, time); });
  ask([](Ec2Api& api, Time time) { return api.run_instances({}, time); });
  ask([](Ec2Api& api, Time time) { return api.describe_instances({}, time); });
  ask([](Ec2Api& api, Time time) { return api.describe_volumes({}, time); });
  ask([](Ec2Api& api, Time time) { return api.get_parameter("/n", time); });
  ask([](Ec2Api& api, Time time) {
    return api.price_page(PriceFamily::virtual_machine, "", time);
  });
  ask([](Ec2Api& api, Time time) { return api.caller(time); });
}

void read_credentials(const std::string& text) {
  (void)read_keys(text, "fuzz");
  (void)parse_moment(text);
  Configuration configuration;
  configuration.files.profiles["default"] = {
      {"sso_session", "s"}, {"sso_account_id", "1"}, {"sso_role_name", "r"}};
  configuration.files.sso_sessions["s"] = {{"sso_region", "eu-west-1"}, {"sso_start_url", "u"}};
  const auto with = [&](auto source) {
    Computer computer(200, text);
    computer.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1/keys";
    const Search search{computer.world, configuration, "eu-west-1", computer.soon()};
    (void)source(search);
  };
  const Section& section = configuration.files.profiles["default"];
  with([](const Search& search) { return from_container(search); });
  with([](const Search& search) { return from_metadata(search, true); });
  with([](const Search& search) { return from_login(search, "s", "p"); });
  with([](const Search& search) { return from_program(search, "p"); });
  with([&](const Search& search) { return from_single_sign_on(search, section); });
  with([](const Search& search) { return from_web_identity(search, "r", "f", "n"); });
}

void read_caches(const std::string& text) {
  (void)types_of_text(text);
  Computer computer(200, text);
  computer.world.read_file = [text](const std::string&) { return "1700000600\n" + text; };
  Client client = computer.client();
  Catalogue catalogue(client);
  (void)catalogue.types(computer.soon());
  Prices prices;
  catalogue.add_list_prices(prices, true, computer.soon());
  (void)catalogue.add_spot_prices({"m5.large"}, prices, computer.soon());
}

}  // namespace
}  // namespace skyward::provider::aws

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace skyward::provider;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 's') aws::read_services(200, text);
  if (data[0] == 'e') {
    aws::read_services(400, text);
    (void)aws::read_error({.status = 503, .headers = {}, .body = text});
  }
  if (data[0] == 'c') aws::read_credentials(text);
  if (data[0] == 't') aws::read_caches(text);
  if (data[0] == 'p') (void)aws::parse_profiles(text, text);
  if (data[0] == 'j') (void)json_line(read_json(text));
  return 0;
}
