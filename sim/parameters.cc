#include "sim/parameters.h"

#include <algorithm>

namespace skyward::sim {
namespace {

// Mostly 0, otherwise up to `most`.
double rarely(Random& random, double probability, double most) {
  return random.chance(probability) ? random.unit() * most : 0;
}

UserDials draw_user(Random& random) {
  UserDials user;
  user.quick = random.chance(0.3) ? 1.0 : random.unit();
  user.slow = random.unit() * 0.1;
  user.raises = rarely(random, 0.5, 0.2);
  user.dies = rarely(random, 0.4, 0.1);
  user.hangs = rarely(random, 0.4, 0.1);
  user.streams = rarely(random, 0.4, 0.3);
  user.cancels = rarely(random, 0.5, 0.3);
  user.timeouts = rarely(random, 0.4, 0.3);
  user.pinned = rarely(random, 0.4, 0.3);
  user.broadcasts = rarely(random, 0.4, 0.1);
  user.blobs = rarely(random, 0.5, 0.5);
  user.pause = random.chance(0.5) ? random.between(Duration{}, Duration{10ms})
                                  : random.between(Duration{}, Duration{2s});
  user.burst = random.chance(0.3) ? 1 : random.between(1, 100);
  if (random.chance(0.3)) {
    user.close_after = random.chance(0.3) ? random.between(Duration{}, Duration{10s})
                                          : random.between(Duration{}, Duration{60s});
  }
  if (random.chance(0.1)) user.lifetime = random.between(Duration{100ms}, Duration{60s});
  return user;
}

// Nodes that are never idle: whatever dies takes tasks along.
void make_busy(Random& random, UserDials& user) {
  user.quick = 0;
  user.slow = random.between(1, 10) * 0.1;
  user.burst = random.between(20, 100);
  user.pause = random.between(Duration{}, Duration{50ms});
  user.close_after.reset();
  user.lifetime = {};
}

NetworkDials draw_network(Random& random) {
  NetworkDials network;
  if (random.chance(0.5)) network.delay_max = random.between(Duration{20us}, Duration{300ms});
  if (random.chance(0.5)) network.break_mean = random.between(Duration{500ms}, Duration{60s});
  network.duplicate = rarely(random, 0.5, 0.1);
  network.reorder = rarely(random, 0.4, 0.05);
  network.outage = rarely(random, 0.5, 0.5);
  network.outage_max = random.between(Duration{1s}, Duration{60s});
  return network;
}

CloudDials draw_cloud(Random& random) {
  CloudDials cloud;
  cloud.refuse = rarely(random, 0.2, 0.2);
  cloud.sold_out = rarely(random, 0.3, 0.7);
  cloud.stick = rarely(random, 0.3, 0.5);
  cloud.in_vain = rarely(random, 0.5, 1);
  cloud.never_greet = rarely(random, 0.3, 0.3);
  cloud.unreachable = rarely(random, 0.3, 0.3);
  if (random.chance(0.5)) cloud.death_mean = random.between(Duration{2s}, Duration{300s});
  if (random.chance(0.3)) cloud.agent_death_mean = random.between(Duration{2s}, Duration{120s});
  if (random.chance(0.3)) {
    cloud.recall_mean = random.between(Duration{1s}, Duration{30s});
    cloud.notice_max = random.between(Duration{}, Duration{120s});
  }
  return cloud;
}

void draw_node_faults(Random& random, NodeDials& node) {
  node.bootstrap_fail = rarely(random, 0.3, 0.2);
  node.bootstrap_hang = rarely(random, 0.2, 0.1);
  node.start_fail = rarely(random, 0.4, 0.4);
  node.start_hang = rarely(random, 0.2, 0.1);
  node.sudden_death = rarely(random, 0.4, 0.1);
  node.idle_death = rarely(random, 0.4, 0.05);
}

MoneyDials draw_money(Random& random, int nodes) {
  MoneyDials money;
  if (random.chance(0.2)) return money;
  money.on_demand = 0.05 + random.unit() * random.unit() * 40;
  money.spot = random.chance(0.6);
  if (random.chance(0.3)) money.billing = {.quantum = 60s, .minimum = 60s};
  if (random.chance(0.2)) money.billing = {.quantum = 600s, .minimum = 600s};
  if (random.chance(0.1)) money.billing = {.quantum = 1s, .minimum = Duration{}};
  if (random.chance(0.5)) {
    money.billing.free_when_taken_back = random.between(Duration{60s}, Duration{3600s});
  }
  if (random.chance(0.7)) {
    money.charges_interval = random.between(Duration{5s}, Duration{120s});
    money.charges_fail = rarely(random, 0.3, 0.5);
    if (random.chance(0.7)) money.step_mean = random.between(Duration{5s}, Duration{600s});
    money.dead_machines_cost = random.chance(0.5);
  }
  if (random.chance(0.5)) {
    const double minutes = 0.5 + random.unit() * (random.chance(0.3) ? 60 : 8);
    money.budget = money.on_demand * nodes * minutes / 60;
  }
  // Room for all machines, and sometimes for some more beside them.
  if (random.chance(0.4)) {
    money.max_hourly = money.on_demand * (nodes + (random.chance(0.5) ? 0 : random.between(1, 2)));
  }
  return money;
}

Dials draw_weather(Random& random, int nodes, int tasks) {
  Dials dials;
  dials.nodes = nodes > 0 ? nodes : random.between(1, random.chance(0.2) ? 12 : 4);
  dials.workers_per_node = random.chance(0.3) ? random.between(2, 3) : 1;
  dials.concurrency = random.chance(0.5) ? random.between(2, 4) : 1;
  dials.tasks = tasks > 0 ? tasks : random.between(1, random.chance(0.2) ? 600 : 120);
  dials.user = draw_user(random);
  if (random.chance(0.3)) {
    make_busy(random, dials.user);
    dials.max_tasks_given = static_cast<std::uint32_t>(random.between(1, 16));
    dials.max_kept_function_bytes = random.below(10'000);  // hardly any
  }
  dials.network.codec = random.chance(0.3);
  dials.network.far = random.chance(0.6);
  if (random.chance(0.5)) dials.network.blob_bytes = random.below(2'000'000);
  dials.network.peers = dials.network.far && random.chance(0.5);
  dials.node.bootstrap = random.chance(0.5);
  dials.node.keep_mapped = rarely(random, 0.3, 0.5);
  if (random.chance(0.2)) return dials;
  if (random.chance(0.6)) {
    const NetworkDials calm = dials.network;
    dials.network = draw_network(random);
    dials.network.codec = calm.codec;
    dials.network.far = calm.far;
    dials.network.blob_bytes = calm.blob_bytes;
    dials.network.peers = calm.peers;
    if (calm.peers) dials.network.fetch_fail = rarely(random, 0.5, 0.1);
    dials.calm = false;
  }
  if (random.chance(0.6)) {
    dials.cloud = draw_cloud(random);
    dials.calm = false;
  }
  if (random.chance(0.6)) {
    draw_node_faults(random, dials.node);
    dials.calm = false;
  }
  return dials;
}

void draw_stalls(Random& crowds, LoopDials& loop) {
  loop.stall_mean = crowds.between(20ms, 1s);
  loop.stall_max = crowds.between(1ms, 200ms);
}

// Nothing but the tasks themselves can fail.
void make_calm(Dials& dials) {
  dials.network = {.codec = dials.network.codec,
                   .far = dials.network.far,
                   .blob_bytes = dials.network.blob_bytes,
                   .peers = dials.network.peers};
  dials.cloud = {};
  dials.node = {.bootstrap = dials.node.bootstrap,
                .keep_mapped = dials.node.keep_mapped,
                .loop = dials.node.loop};
  dials.returns = {};
  dials.calm = true;
}

}  // namespace

void draw_crowds(Random& crowds, Dials& dials, int tasks) {
  LoopDials& loop = dials.node.loop;
  if (crowds.chance(0.5)) loop.start_cost = crowds.between(1ms, 30ms);
  if (crowds.chance(0.4)) draw_stalls(crowds, loop);
  const bool wide = crowds.chance(0.02);
  dials.user.tiny = !wide && crowds.chance(0.12);
  if (!wide && !dials.user.tiny) return;
  if (crowds.chance(0.7)) make_calm(dials);
  dials.user.close_after.reset();
  dials.user.lifetime = {};
  dials.money = {};
  dials.max_tasks_given = kMaxTasksGiven;
  if (wide) {  // one node, and a task for each of its slots at once
    loop.start_cost = crowds.between(15ms, 60ms);
    dials.nodes = 1;
    dials.workers_per_node = 1;
    dials.concurrency = crowds.between(200, 800);
    dials.user.quick = 0;
    if (tasks == 0) dials.tasks = crowds.between(dials.concurrency, 2 * dials.concurrency);
  } else {
    draw_stalls(crowds, loop);
    dials.nodes = std::min(dials.nodes, 2);
    dials.workers_per_node = 1;
    dials.concurrency = crowds.between(2, 30);
    if (tasks == 0) dials.tasks = crowds.between(500, 2500);
  }
  dials.user.burst = dials.tasks;
}

void draw_returns(Random& returns, Dials& dials) {
  if (dials.calm || returns.chance(0.4)) return;
  ReturnDials& drawn = dials.returns;
  drawn.reboot = rarely(returns, 0.5, 1);
  drawn.off_max = returns.between(Duration{1s}, Duration{90s});
  if (dials.network.far) drawn.late_start = rarely(returns, 0.5, 0.5);
  drawn.sweep = rarely(returns, 0.5, 1);
  drawn.ends_itself = dials.network.far && returns.chance(0.5);
  if (dials.network.far && returns.chance(0.5)) {
    drawn.spare_hosts = returns.between(0, 2);
    drawn.ends_itself = false;
    dials.money = {};
  }
  const bool agents_die = dials.cloud.agent_death_mean > Duration{};
  if (!agents_die && returns.chance(0.5)) {
    dials.cloud.agent_death_mean = returns.between(Duration{1s}, Duration{60s});
  }
  if (returns.chance(0.15)) {
    drawn.driver_death_mean = returns.between(Duration{1s}, Duration{120s});
  }
}

Dials draw_dials(Random& random, int nodes, int tasks) {
  Dials dials = draw_weather(random, nodes, tasks);
  dials.money = draw_money(random, dials.nodes);
  // Long enough to spend it.
  if (dials.money.budget && random.chance(0.7)) {
    dials.user.pause = random.between(Duration{5s}, Duration{60s});
    dials.user.burst = random.between(1, 10);
    dials.user.close_after.reset();
    dials.user.lifetime = {};
  }
  return dials;
}

}  // namespace skyward::sim
