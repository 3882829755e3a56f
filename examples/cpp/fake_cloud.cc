// A test on a fake cloud: the work survives two preemptions, and costs less than three dollars.

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "skyward/skyward.h"
#include "skyward/testing.h"

int train_there(int epochs) {
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the work
  }
  return sky::instance_info().node;
}
constexpr auto train = sky::compute<train_there>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::testing::FakeCloud cloud({.prices = {{"A100", 4.0}}, .preemptions = 2, .seed = 7});
  std::vector<int> nodes;
  {
    sky::ComputePool pool(
        {.provider = cloud, .nodes = 4, .accelerator = "A100", .display = sky::Display::quiet});
    nodes = sky::broadcast(train(30), pool);
  }
  std::printf("%zu nodes, %d machines, %d preempted, $%.2f\n", nodes.size(), cloud.launched(),
              cloud.preempted(), cloud.bill());
  const bool survived = nodes == std::vector{0, 1, 2, 3};
  return survived && cloud.preempted() == 2 && cloud.bill() < 3 && cloud.running() == 0 ? 0 : 1;
}
