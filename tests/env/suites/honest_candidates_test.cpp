// The honest candidates of lane cuda fit their tasks: each has the prototype of its task, and
// those in device-only form have a launch plan at every size of it.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "base/file.hpp"
#include "env/lanes/cuda/launch/launch_plan.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "nlohmann/json.hpp"
#include "support/test.hpp"

using namespace quern;
namespace fs = std::filesystem;

namespace {

fs::path folder() {
  return test::source_dir() / "tests/honest/cuda";
}

const nlohmann::json& candidates() {
  static const nlohmann::json all =
      nlohmann::json::parse(base::read_file(folder() / "manifest.json").value());
  return all["candidates"];
}

env::task task_of(const nlohmann::json& entry) {
  return env::load_task(test::source_dir() / "env/suites" / std::string(entry["suite"]) /
                        (std::string(entry["task"]) + ".task.yaml"))
      .value();
}

}  // namespace

TEST_CASE("the manifest of honest candidates lists the files that are there") {
  std::set<std::string> listed;
  std::map<std::string, std::map<std::string, int>> quick;  // of each task, by form
  int device_only = 0;
  for (const auto& entry : candidates()) {
    const std::string file = entry["file"];
    CAPTURE(file);
    CHECK(listed.insert(file).second);
    CHECK(file.starts_with(std::string(entry["task"]) + "." + std::string(entry["style"])));
    CHECK(entry["expected"] == "ok");
    CHECK(base::read_file(folder() / file).value().starts_with("// "));
    device_only += entry["form"] == "device_only" ? 1 : 0;
    if (entry["suite"] == "cuda_quick") ++quick[entry["task"]][entry["form"]];
  }
  std::set<std::string> there;
  for (const auto& item : fs::directory_iterator(folder()))
    if (item.path().extension() == ".cu") there.insert(item.path().filename().string());
  CHECK(listed == there);
  CHECK(listed.size() >= 100);
  CHECK(device_only >= 80);
  CHECK(quick.size() == 12);
  for (auto& [task, forms] : quick) {
    CAPTURE(task);
    CHECK(forms["device_only"] >= 2);
    CHECK(forms["host_entry"] >= 1);
  }
}

TEST_CASE("candidates in device-only form have a launch plan at every size of their task") {
  for (const auto& entry : candidates()) {
    const std::string file = entry["file"];
    const env::task subject = task_of(entry);
    const auto plan = env::parse_launch_plan(base::read_file(folder() / file).value(),
                                             env::signature_of(subject));
    INFO(file << ": " << (plan ? "" : env::to_string(plan.error())));
    // Host code that calls nothing but launches reads as a plan, too, whatever its kernels include.
    CHECK((plan.has_value() || entry["form"] == "host_entry"));
    if (!plan) continue;
    auto all_sizes = env::tensors_of(subject).hidden_sizes;
    all_sizes.push_back(env::tensors_of(subject).sizes);
    for (const auto& sizes : all_sizes) {
      const auto bytes = plan->workspace(sizes);
      INFO(file << ": " << (bytes ? "" : bytes.error().message));
      REQUIRE(bytes.has_value());
      const auto steps =
          plan->steps(env::call_of(env::instantiate(subject, sizes).value(), *bytes));
      INFO(file << ": " << (steps ? "" : steps.error().message));
      CHECK(steps.has_value());
    }
  }
}
