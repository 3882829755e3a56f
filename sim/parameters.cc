#include "sim/parameters.h"

#include <algorithm>

namespace skyward::sim {
namespace {

// Mostly 0, otherwise up to `most`.
double rarely(Random& random, double probability, double most) {
  return random.chance(probability) ? random.unit() * most : 0;
}

UserParameters draw_user(Random& random) {
  UserParameters user;
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
void make_busy(Random& random, UserParameters& user) {
  user.quick = 0;
  user.slow = random.between(1, 10) * 0.1;
  user.burst = random.between(20, 100);
  user.pause = random.between(Duration{}, Duration{50ms});
  user.close_after.reset();
  user.lifetime = {};
}

NetworkParameters draw_network(Random& random) {
  NetworkParameters network;
  if (random.chance(0.5)) network.delay_max = random.between(Duration{20us}, Duration{300ms});
  if (random.chance(0.5)) network.break_mean = random.between(Duration{500ms}, Duration{60s});
  network.duplicate = rarely(random, 0.5, 0.1);
  network.reorder = rarely(random, 0.4, 0.05);
  network.outage = rarely(random, 0.5, 0.5);
  network.outage_max = random.between(Duration{1s}, Duration{60s});
  return network;
}

CloudParameters draw_cloud(Random& random) {
  CloudParameters cloud;
  cloud.refuse = rarely(random, 0.2, 0.2);
  cloud.sold_out = rarely(random, 0.3, 0.7);
  cloud.stick = rarely(random, 0.3, 0.5);
  cloud.wasted = rarely(random, 0.5, 1);
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

void draw_node_faults(Random& random, NodeParameters& node) {
  node.bootstrap_fail = rarely(random, 0.3, 0.2);
  node.bootstrap_hang = rarely(random, 0.2, 0.1);
  node.start_fail = rarely(random, 0.4, 0.4);
  node.start_hang = rarely(random, 0.2, 0.1);
  node.sudden_death = rarely(random, 0.4, 0.1);
  node.idle_death = rarely(random, 0.4, 0.05);
}

MoneyParameters draw_money(Random& random, int nodes) {
  MoneyParameters money;
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
    if (random.chance(0.7)) {
      money.step_mean = random.between(Duration{5s}, Duration{600s});
      money.billing.prices_change = true;
    }
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

StormParameters draw_weather(Random& random, int nodes, int tasks) {
  StormParameters parameters;
  parameters.nodes = nodes > 0 ? nodes : random.between(1, random.chance(0.2) ? 12 : 4);
  parameters.workers_per_node = random.chance(0.3) ? random.between(2, 3) : 1;
  parameters.concurrency = random.chance(0.5) ? random.between(2, 4) : 1;
  parameters.tasks = tasks > 0 ? tasks : random.between(1, random.chance(0.2) ? 600 : 120);
  parameters.user = draw_user(random);
  if (random.chance(0.3)) {
    make_busy(random, parameters.user);
    parameters.max_tasks_given = static_cast<std::uint32_t>(random.between(1, 16));
    parameters.max_kept_function_bytes = random.below(10'000);  // hardly any
  }
  parameters.network.codec = random.chance(0.3);
  parameters.network.far = random.chance(0.6);
  if (random.chance(0.5)) parameters.network.blob_bytes = random.below(2'000'000);
  parameters.network.peers = parameters.network.far && random.chance(0.5);
  parameters.node.bootstrap = random.chance(0.5);
  parameters.node.keep_mapped = rarely(random, 0.3, 0.5);
  if (random.chance(0.2)) return parameters;
  if (random.chance(0.6)) {
    const NetworkParameters calm = parameters.network;
    parameters.network = draw_network(random);
    parameters.network.codec = calm.codec;
    parameters.network.far = calm.far;
    parameters.network.blob_bytes = calm.blob_bytes;
    parameters.network.peers = calm.peers;
    if (calm.peers) parameters.network.fetch_fail = rarely(random, 0.5, 0.1);
    parameters.calm = false;
  }
  if (random.chance(0.6)) {
    parameters.cloud = draw_cloud(random);
    parameters.calm = false;
  }
  if (random.chance(0.6)) {
    draw_node_faults(random, parameters.node);
    parameters.calm = false;
  }
  return parameters;
}

void draw_stalls(Random& crowds, LoopParameters& loop) {
  loop.stall_mean = crowds.between(20ms, 1s);
  loop.stall_max = crowds.between(1ms, 200ms);
}

// Nothing but the tasks themselves can fail.
void make_calm(StormParameters& parameters) {
  parameters.network = {.codec = parameters.network.codec,
                        .far = parameters.network.far,
                        .blob_bytes = parameters.network.blob_bytes,
                        .peers = parameters.network.peers};
  parameters.cloud = {};
  parameters.node = {.bootstrap = parameters.node.bootstrap,
                     .keep_mapped = parameters.node.keep_mapped,
                     .loop = parameters.node.loop};
  parameters.returns = {};
  parameters.calm = true;
}

}  // namespace

void draw_together(Random& together, StormParameters& parameters) {
  UserParameters& user = parameters.user;
  user.together = rarely(together, 0.6, 1);
  if (user.together > 0) user.broadcasts = std::max(user.broadcasts, rarely(together, 0.6, 0.3));
}

void draw_groups(Random& groups, StormParameters& parameters) {
  parameters.user.groups = rarely(groups, 0.4, 0.8);
}

void draw_memory(Random& memory, StormParameters& parameters) {
  parameters.network.unstored = rarely(memory, 0.3, 0.1);
}

void draw_defects(Random& defects, StormParameters& parameters) {
  if (parameters.calm) return;
  parameters.node.defective = defects.chance(0.1) ? 1 : rarely(defects, 0.3, 0.5);
}

void draw_jobs(Random& jobs, StormParameters& parameters, bool always) {
  const bool drawn = jobs.chance(0.15) && !parameters.calm;
  if (!drawn && !always) return;
  parameters.calm = false;
  parameters.jobs = {.used = true,
                     .queues = rarely(jobs, 0.6, 1),
                     .queue_max = jobs.between(1s, 20min),
                     .grace_max = jobs.between(Duration{}, 60s),
                     .ends_with_first = rarely(jobs, 0.5, 1),
                     .stays = rarely(jobs, 0.5, 1)};
  if (jobs.chance(0.7)) parameters.jobs.preempt_mean = jobs.between(2s, 120s);
  // The nodes belong to a site: nobody pays for them, hears of a preemption, or turns them off.
  parameters.network.far = parameters.network.gateway = true;
  parameters.network.outage_max = jobs.between(1s, 4min);
  parameters.money = {};
  parameters.cloud.recall_mean = {};
  parameters.returns.reboot = 0;
  parameters.returns.ends_itself = false;
  parameters.returns.spare_hosts.reset();
}

void draw_crowds(Random& crowds, StormParameters& parameters, int tasks) {
  LoopParameters& loop = parameters.node.loop;
  if (crowds.chance(0.5)) loop.start_cost = crowds.between(1ms, 30ms);
  if (crowds.chance(0.4)) draw_stalls(crowds, loop);
  const bool wide = crowds.chance(0.02);
  parameters.user.tiny = !wide && crowds.chance(0.12);
  if (!wide && !parameters.user.tiny) return;
  if (crowds.chance(0.7)) make_calm(parameters);
  parameters.user.close_after.reset();
  parameters.user.lifetime = {};
  parameters.money = {};
  parameters.max_tasks_given = kMaxTasksGiven;
  if (wide) {  // one node, and a task for each of its slots at once
    loop.start_cost = crowds.between(15ms, 60ms);
    parameters.nodes = 1;
    parameters.workers_per_node = 1;
    parameters.concurrency = crowds.between(200, 800);
    parameters.user.quick = 0;
    if (tasks == 0)
      parameters.tasks = crowds.between(parameters.concurrency, 2 * parameters.concurrency);
  } else {
    draw_stalls(crowds, loop);
    parameters.nodes = std::min(parameters.nodes, 2);
    parameters.workers_per_node = 1;
    parameters.concurrency = crowds.between(2, 30);
    if (tasks == 0) parameters.tasks = crowds.between(500, 2500);
  }
  parameters.user.burst = parameters.tasks;
}

void draw_returns(Random& returns, StormParameters& parameters) {
  if (parameters.calm || returns.chance(0.4)) return;
  ReturnParameters& drawn = parameters.returns;
  drawn.reboot = rarely(returns, 0.5, 1);
  drawn.off_max = returns.between(Duration{1s}, Duration{90s});
  if (parameters.network.far) drawn.late_start = rarely(returns, 0.5, 0.5);
  drawn.sweep = rarely(returns, 0.5, 1);
  drawn.ends_itself = parameters.network.far && returns.chance(0.5);
  if (parameters.network.far && returns.chance(0.5)) {
    drawn.spare_hosts = returns.between(0, 2);
    drawn.ends_itself = false;
    parameters.money = {};
  }
  const bool agents_die = parameters.cloud.agent_death_mean > Duration{};
  if (!agents_die && returns.chance(0.5)) {
    parameters.cloud.agent_death_mean = returns.between(Duration{1s}, Duration{60s});
  }
  if (returns.chance(0.15)) {
    drawn.driver_death_mean = returns.between(Duration{1s}, Duration{120s});
  }
}

StormParameters draw_parameters(Random& random, int nodes, int tasks) {
  StormParameters parameters = draw_weather(random, nodes, tasks);
  parameters.money = draw_money(random, parameters.nodes);
  // Long enough to spend it.
  if (parameters.money.budget && random.chance(0.7)) {
    parameters.user.pause = random.between(Duration{5s}, Duration{60s});
    parameters.user.burst = random.between(1, 10);
    parameters.user.close_after.reset();
    parameters.user.lifetime = {};
  }
  return parameters;
}

}  // namespace skyward::sim
