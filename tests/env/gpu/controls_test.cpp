// Controls of tests/hostile/cuda: each file whose catch rests on a layer gets through without that
// layer, or its catch proves nothing. Where several layers are taken away, one of them convicts it
// without the others. On a device; tests/env/gpu/layer_switches.cpp turns layers off.
// QUERN_CONTROLS=stops_after,floor tries only the files whose names hold one of these texts, and
// those for which a layer of such a name is taken away, or left alone.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/task/task_codec.hpp"
#include "layer_switches.hpp"
#include "support/gpu.hpp"

using namespace quern;
using env::check_layer;

namespace {

constexpr int most_tries = 3;
const std::filesystem::path hostile_files = test::source_dir() / "tests/hostile/cuda";

bool is_of_runner(std::size_t layer) {
  return layer >= static_cast<std::size_t>(check_layer::files);
}

std::string words_of(const env::verdict& v) {
  return std::string(env::name_of(v.kind)) + (v.reason.empty() ? "" : ":" + v.reason);
}

/// An evaluator without some layers; they are on again when it is gone.
class weakened {
 public:
  explicit weakened(const std::set<std::string>& without) {
    std::string of_runner;
    for (std::size_t i = 0; i < test::layer_count; ++i) {
      const std::string name = env::check_layer_names[i];
      if (!without.contains(name)) continue;
      if (is_of_runner(i))
        of_runner += "-" + name;
      else
        test::turn(static_cast<check_layer>(i), false);
    }
    env::evaluator_options options;
    options.gpu = test::the_gpu();
    options.static_screen = false;
    options.confirm_at_once = true;
    options.remeasure_probability = 0;
    if (!of_runner.empty()) {
      // Its name says what it lacks.
      options.runner_program = folder_.path() / ("quern-runner-without" + of_runner);
      std::filesystem::copy_file(base::program_folder() / "quern_switchable_runner",
                                 options.runner_program);
    }
    auto opened = env::cuda_evaluator::open(options);
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    evaluator_ = std::move(*opened);
  }
  ~weakened() {
    evaluator_.reset();
    for (std::size_t i = 0; i < test::layer_count; ++i)
      test::turn(static_cast<check_layer>(i), true);
  }
  weakened(const weakened&) = delete;
  weakened& operator=(const weakened&) = delete;

  /// With `verified` it is checked, and not timed. `wanted`: a verdict that is not tried again,
  /// whatever it is.
  env::verdict judge(const std::string& file, const std::string& task, bool as_host,
                     bool verified = false, const std::string& wanted = {}) {
    env::evaluation_request request;
    request.subject =
        std::make_shared<const env::task>(env::load_task(hostile_files / task).value());
    request.source = base::read_file(hostile_files / file).value();
    request.recheck_above = 3;
    request.as_host_entry = as_host;
    request.verify_only = verified;
    env::verdict v;
    for (int i = 0; i < most_tries; ++i) {
      // None of those that are tried again is kept, so that nothing has to ask for a new one: that
      // would measure a process that was not checked.
      v = evaluator_->evaluate(request);
      if (words_of(v) == wanted ||
          (v.kind != env::verdict_kind::noisy && v.kind != env::verdict_kind::unconfirmed &&
           v.kind != env::verdict_kind::infra_error))
        break;
    }
    return v;
  }

 private:
  base::temp_folder folder_ = base::temp_folder::make("quern-controls").value();
  std::unique_ptr<env::cuda_evaluator> evaluator_;
};

/// What a failed control is told with: where the times come from, and every check that did not
/// pass.
std::string account_of(const env::verdict& v) {
  std::string text = words_of(v) + ": " + v.detail.substr(0, 300);
  if (v.time && !v.time->ref_ns.empty())
    text += fmt::format("\n     baseline {:.1f} us, candidate {:.1f} us",
                        static_cast<double>(v.time->ref_ns[3]) / 1000,
                        static_cast<double>(v.time->cand_ns[3]) / 1000);
  for (const auto& check : v.checks)
    if (!check.pass || check.name == "clocks")
      text += fmt::format("\n     {}{}: {}", check.name, check.pass ? "" : " (failed)",
                          check.detail.substr(0, 200));
  return text;
}

/// Whether QUERN_CONTROLS asks for it, or for everything. `layers`: those that it is about.
bool is_asked_for(const std::string& file, const std::set<std::string>& layers) {
  const char* wanted = std::getenv("QUERN_CONTROLS");
  if (wanted == nullptr || *wanted == 0) return true;
  const auto parts = base::split(wanted, ',');
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return file.find(part) != std::string::npos || layers.contains(std::string(part));
  });
}

/// The form in which a candidate's control is judged, as its twin is: true: as host code.
bool as_host_code(const base::json& candidate) {
  return candidate.at("form") == "host_entry" || candidate.at("control").value("as_host", false);
}

/// Claims of honest kernels under the same layers: what is missing makes those faster, too.
class twin_claims {
 public:
  explicit twin_claims(weakened& with) : judge_(&with) {}
  /// 0 where the candidate has no twin.
  std::int64_t of(const base::json& candidate) {
    const auto twin = candidate.value("twin", "");
    if (twin.empty()) return 0;
    auto& claim = claims_[{twin, as_host_code(candidate)}];
    if (claim != 0) return claim;
    const auto v =
        judge_->judge(twin, candidate.at("task").get<std::string>(), as_host_code(candidate));
    CHECK_MESSAGE((v.kind == env::verdict_kind::ok && v.speedup_e2), twin, ": ", account_of(v));
    return claim = v.speedup_e2.value_or(100);
  }

 private:
  weakened* judge_;
  std::map<std::pair<std::string, bool>, std::int64_t> claims_;
};

/// Whether it ended as it should. "pays": accepted, and faster than its twin may be; "unpaid":
/// accepted, and not.
bool gets(const env::verdict& v, const std::string& wanted, std::int64_t twin_e2,
          std::int64_t pays_at_most_e2) {
  if (wanted != "pays" && wanted != "unpaid") return words_of(v) == wanted;
  if (v.kind != env::verdict_kind::ok || !v.speedup_e2) return false;
  return (100 * *v.speedup_e2 > pays_at_most_e2 * twin_e2) == (wanted == "pays");
}

/// One candidate without some layers, and how it has to end.
struct judgement_case {
  base::json candidate;
  std::string wanted;
};

/// By what they lack: one evaluator for all that lack the same layers.
using case_groups = std::map<std::set<std::string>, std::vector<judgement_case>>;

std::set<std::string> layers_taken_away(const base::json& candidate) {
  const auto names = candidate.at("control").at("without").get<std::vector<std::string>>();
  return {names.begin(), names.end()};
}

/// The candidates of the manifest that have a control, and can be judged here.
std::vector<base::json> controlled_candidates() {
  const auto manifest =
      base::parse_json(base::read_file(hostile_files / "manifest.json").value()).value();
  std::vector<base::json> candidates;
  for (const auto& c : manifest.at("candidates")) {
    if (!c.contains("control") || c.contains("touches_device_settings")) continue;
#if !defined(__x86_64__)
    if (c.value("only", "") == "x86_64") continue;
#endif
    candidates.push_back(c);
  }
  return candidates;
}

case_groups without_all_layers() {
  case_groups groups;
  for (const auto& c : controlled_candidates()) {
    const auto without = layers_taken_away(c);
    if (is_asked_for(c.at("file").get<std::string>(), without))
      groups[without].push_back({c, c.at("control").at("gets").get<std::string>()});
  }
  return groups;
}

case_groups with_one_layer() {
  case_groups groups;
  for (const auto& c : controlled_candidates()) {
    const auto alone = c.at("control").value("alone", base::json::object());
    for (const auto& [layer, wanted] : alone.items()) {
      if (!is_asked_for(c.at("file").get<std::string>(), {layer})) continue;
      auto without = layers_taken_away(c);
      without.erase(layer);
      groups[without].push_back({c, wanted.get<std::string>()});
    }
  }
  return groups;
}

void judge_all(const case_groups& groups) {
  for (const auto& [without, cases] : groups) {
    const auto names = fmt::format("{}", fmt::join(without, " "));
    weakened evaluator(without);
    twin_claims twins(evaluator);
    for (const auto& [c, wanted] : cases) {
      const auto file = c.at("file").get<std::string>();
      const auto twin_e2 = wanted == "pays" || wanted == "unpaid" ? twins.of(c) : 0;
      const base::steady_clock clock;
      const auto start = clock.now_ns();
      const auto v = evaluator.judge(file, c.at("task").get<std::string>(), as_host_code(c),
                                     c.at("control").value("verified", false), wanted);
      const auto seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
      const bool right = gets(v, wanted, twin_e2, c.value("pays_at_most_e2", std::int64_t{0}));
      const auto claim = static_cast<double>(v.speedup_e2.value_or(0)) / 100;
      std::printf("%s %-40s without %-40s wanted %s: %s x%.2f (twin x%.2f), %.1f s\n",
                  right ? "  " : "**", file.c_str(), names.c_str(), wanted.c_str(),
                  words_of(v).c_str(), claim, static_cast<double>(twin_e2) / 100, seconds);
      if (!right) std::printf("     %s\n", account_of(v).c_str());
      std::fflush(stdout);
      CHECK_MESSAGE(right, file, " without ", names, ": wanted ", wanted, ", got ", account_of(v));
    }
  }
}

/// Whether QUERN_CONTROLS names neither.
bool asks_for_nothing() {
  return without_all_layers().empty() && with_one_layer().empty();
}

}  // namespace

TEST_CASE("a hostile candidate gets through without the layer that convicts it") {
  if (!test::go_on_with_gpu(env::has_nvidia_driver(), "no NVIDIA driver is loaded")) return;
  REQUIRE_FALSE(asks_for_nothing());
  judge_all(without_all_layers());
}

TEST_CASE("one of several layers convicts a hostile candidate without the others") {
  if (!test::go_on_with_gpu(env::has_nvidia_driver(), "no NVIDIA driver is loaded")) return;
  REQUIRE_FALSE(asks_for_nothing());
  judge_all(with_one_layer());
}
