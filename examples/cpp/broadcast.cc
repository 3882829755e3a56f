// Once on every worker: results in rank order, and what a worker knows about its place.

#include <cstdio>
#include <string>
#include <vector>

#include "skyward/skyward.h"

std::string describe_place() {
  const sky::InstanceInfo& info = sky::instance_info();
  return "rank " + std::to_string(info.global_worker_index()) + " of " +
         std::to_string(info.total_workers()) + (info.is_head() ? ", the head" : "") + ", job " +
         info.job_id;
}
constexpr auto place = sky::compute<describe_place>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 4});
  const std::vector<std::string> places = sky::broadcast(place(), pool);
  for (const std::string& text : places) std::printf("%s\n", text.c_str());
  std::printf("without a pool: %s\n", place.local().c_str());
}
