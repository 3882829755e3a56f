#include "doubles/containers.h"

#include <algorithm>
#include <utility>

namespace skyward::doubles {

namespace {

CommandReply said(std::string text) {
  CommandReply out;
  out.out = std::move(text);
  return out;
}

// Of "--format=TEXT{{.Name}}|…".
std::string text_before_fields(const ContainerEngine::Words& words) {
  const std::string& format = words.back();
  const std::size_t begin = format.find('=') + 1;
  return format.substr(begin, format.find("{{") - begin);
}

}  // namespace

CommandReply ContainerEngine::run(const Words& words) {
  const int number = ++requests;
  if (on_request) on_request(number, false);
  const bool every_second = number % 2 == 0;
  CommandReply out;
  if (off) {
    out =
        refused(runtime == "docker"
                    ? "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
                      "docker daemon running?"
                    : "unable to connect to Podman socket: connection refused",
                runtime == "docker" ? 1 : 125);
    if (runtime == "docker") out.err.erase(0, out.err.find("Cannot"));
  } else if (forbidden) {
    out = refused(
        "permission denied while trying to connect to the Docker daemon socket at "
        "unix:///var/run/docker.sock",
        1);
  } else if (breaks && every_second) {
    out = broken();
  } else {
    out = answer(words);
    if (lose_reply && every_second) out = broken();
  }
  if (is_docker_27 && (off || forbidden) && words.size() > 1 && words[1] == "info") {
    out.code = 0;
    out.out = text_before_fields(words) + "|0|0|||\n";
  }
  if (on_request) on_request(number, true);
  return out;
}

void ContainerEngine::kill(const std::string& name) {
  std::erase_if(containers, [&](const EngineContainer& one) { return one.name == name; });
}

EngineContainer* ContainerEngine::find(const std::string& name) {
  const auto at = std::ranges::find(containers, name, &EngineContainer::name);
  return at == containers.end() ? nullptr : &*at;
}

CommandReply ContainerEngine::broken() const {
  return refused("error during connect: unexpected EOF", 1);
}

CommandReply ContainerEngine::refused(const std::string& why, int code) const {
  CommandReply out;
  out.code = code;
  out.err = (runtime == "docker" ? "Error response from daemon: " : "Error: ") + why + "\n";
  return out;
}

CommandReply ContainerEngine::violate(const std::string& what) {
  violations.push_back(what);
  return refused(what, 125);
}

CommandReply ContainerEngine::answer(const Words& words) {
  if (words.size() == 3 && words[0] == "sh" && words[2].contains("nvidia-smi")) {
    std::string out;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      out += std::to_string(i) + ", " + gpus[i] + ", 81559\n";
    }
    return said(out);
  }
  if (words.size() < 2 || words[0] != runtime) return violate("no such program: " + words[0]);
  const std::string& verb = words[1];
  if (verb == "info" && words.size() == 3) {
    if (is_alias && words[2].contains("{{.Name}}")) {
      CommandReply out = refused("", 125);
      out.err =
          "Error: template: info:1:2: executing \"info\" at <.Name>: can't evaluate field Name in "
          "type *define.Info\n";
      return out;
    }
    const bool right =
        words[2].contains(runtime == "docker" ? "{{.DockerRootDir}}" : "{{.Store.GraphRoot}}");
    const std::string id = runtime == "docker" ? "|4f0c" : "";
    return right ? said(text_before_fields(words) + "box|8|34359738368|amd64|/var/lib/storage" +
                        id + "\n")
                 : violate("no such format: " + words[2]);
  }
  if (verb == "run") return start(words);
  if (verb == "start" && words.size() == 3) {
    EngineContainer* const one = find(words[2]);
    if (one == nullptr) return refused("no such container: " + words[2], 1);
    one->state = "running";
    return said(words[2] + "\n");
  }
  if (verb == "ps") return list(words);
  if (verb == "container") return inspect(words);
  if (verb == "rm") return remove(words);
  return images_and_networks(words);
}

CommandReply ContainerEngine::images_and_networks(const Words& words) {
  const std::string& last = words.back();
  if (words[1] == "image" && words[2] == "inspect") {
    return images.contains(last) ? said("4ec0ed957547\n")
                                 : refused("inspecting object: " + last + ": image not known", 125);
  }
  if (words[1] == "network" && words[2] == "inspect") {
    return networks.contains(last)
               ? said("bridge\n")
               : refused(runtime == "docker"
                             ? "network " + last + " not found"
                             : "network " + last + ": unable to find network with name or ID " +
                                   last + ": network not found",
                         125);
  }
  if (words == Words{runtime, "pull", "--quiet", last}) {
    if (!no_pull.empty()) return refused(no_pull, 125);
    if (!registry.contains(last)) {
      return refused("reading manifest latest in " + last + ": manifest unknown", 125);
    }
    images.insert(last);
    return said("sha256:4ec0ed957547\n");
  }
  return violate("no such command: " + words[1]);
}

CommandReply ContainerEngine::start(const Words& words) {
  EngineContainer one;
  std::size_t at = 2;
  for (; at < words.size() && words[at].starts_with("--"); ++at) {
    const std::size_t equal = words[at].find('=');
    const std::string name = words[at].substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : words[at].substr(equal + 1);
    if (name == "--label") {
      one.labels[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
      continue;
    }
    static const std::set<std::string> kBoth{
        "--detach",  "--rm",   "--pull",   "--stop-timeout", "--security-opt", "--name",
        "--network", "--cpus", "--memory", "--memory-swap",  "--shm-size",     "--entrypoint"};
    const std::string gpus_option = runtime == "docker" ? "--gpus" : "--device";
    if (!kBoth.contains(name) && name != gpus_option) return violate("unknown flag: " + name);
    const auto [option, is_new] = one.options.emplace(name, value);
    if (is_new) continue;
    if (name != "--device") return violate("given twice: " + name);
    option->second += " " + value;
  }
  if (words.size() != at + 3 || words[at + 1] != "-c")
    return violate("run takes image, -c, script");
  one.image = words[at];
  one.script = words[at + 2];
  one.name = one.options["--name"];
  for (const char* needed : {"--detach", "--rm", "--pull", "--name", "--entrypoint"}) {
    if (!one.options.contains(needed)) return violate(std::string("run without ") + needed);
  }
  if (!one.labels.contains("skyward:pool") || !one.labels.contains("skyward:expires")) {
    return violate("a container without marks");
  }
  if (!refusal.empty()) return refused(std::exchange(refusal, ""), 125);
  if (!images.contains(one.image)) return refused(one.image + ": image not known", 125);
  if (find(one.name) != nullptr) {
    return refused("creating container storage: the container name \"" + one.name +
                       "\" is already in use by 82b725d12dd6",
                   125);
  }
  if (one.options.contains("--device") && !has_cdi) {
    return refused("setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", 126);
  }
  containers.push_back(one);
  return said("82b725d12dd6\n");
}

CommandReply ContainerEngine::list(const Words& words) {
  constexpr std::string_view kFilter = "--filter=label=";
  if (words.size() != 6 || words[2] != "--all" || !words[4].starts_with(kFilter) ||
      words[5] != "--format={{.Names}}") {
    return violate("no such list");
  }
  const std::string label = words[4].substr(kFilter.size());
  const std::string key = label.substr(0, label.find('='));
  const std::string value = label.substr(label.find('=') + 1);
  std::string out;
  for (const EngineContainer& one : containers) {
    const auto found = one.labels.find(key);
    if (found != one.labels.end() && found->second == value) out += one.name + "\n";
  }
  return said(out);
}

CommandReply ContainerEngine::inspect(const Words& words) {
  if (words.size() < 5 || words[2] != "inspect" || !words[3].starts_with("--format={{.Name}}|")) {
    return violate("no such inspection");
  }
  CommandReply out;
  for (std::size_t at = 4; at < words.size(); ++at) {
    const EngineContainer* const one = find(words[at]);
    if (one == nullptr) {
      out.code = runtime == "docker" ? 1 : 125;
      out.err += (runtime == "docker" ? "Error response from daemon: No such container: "
                                      : "Error: inspecting object: no such container ") +
                 words[at] + "\n";
      continue;
    }
    const auto network = one->options.find("--network");
    const std::string mode = network == one->options.end() ? "bridge" : network->second;
    out.out += (runtime == "docker" ? "/" : "") + one->name + "|" + one->state + "|0|false|" +
               mode + "|" + (mode == "host" || mode == "none" ? "" : "10.88.0.5") + " \n";
  }
  return out;
}

// Those that are not there are no error of podman's.
CommandReply ContainerEngine::remove(const Words& words) {
  if (words.size() < 5 || words[2] != "--force" || words[3] != "--volumes") {
    return violate("rm leaves volumes");
  }
  CommandReply out;
  for (std::size_t at = 4; at < words.size(); ++at) {
    const EngineContainer* const one = find(words[at]);
    if (one != nullptr && rm_is_late) {
      kill(words[at]);
      out.code = 1;
      out.err += "Error response from daemon: removal of container " + words[at] +
                 " is already in progress\n";
    } else if (one != nullptr) {
      kill(words[at]);
      out.out += words[at] + "\n";
    } else if (runtime == "docker") {
      out.code = 1;
      out.err += "Error response from daemon: No such container: " + words[at] + "\n";
    }
  }
  return out;
}

}  // namespace skyward::doubles
