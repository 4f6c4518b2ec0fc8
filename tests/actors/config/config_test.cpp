// The configuration is strict, complete and says what is wrong.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/config/key_words.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "actors/measured_as.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

std::string problem(std::string_view yaml) {
  run_config config;
  const auto result = apply_yaml(config, yaml);
  return result ? "" : result.error().message;
}

}  // namespace

TEST_CASE("configs/reference.yaml is what the table writes, and parses to the defaults") {
  const auto file = base::read_file(test::source_dir() / "configs/reference.yaml");
  REQUIRE(file);
  CHECK(*file == reference_yaml());
  run_config config;
  config.learner.steps = 77;
  REQUIRE(apply_yaml(config, *file));
  CHECK(differences(run_config{}, config).empty());
}

TEST_CASE("what is written parses to the same configuration") {
  run_config config;
  REQUIRE(apply_setting(config, "learner.learning_rate=0.000123"));
  REQUIRE(apply_setting(config, "run.name=a \"quoted\" # name"));
  REQUIRE(apply_setting(config, "observe.evaluation_set=false"));
  run_config again;
  REQUIRE(apply_yaml(again, to_yaml(config)));
  CHECK(differences(config, again).empty());
  const auto changed = differences(run_config{}, again);
  REQUIRE(changed.size() == 3);
  CHECK(changed[0].path == "run.name");
  CHECK(changed[1].path == "learner.learning_rate");
  CHECK(changed[1].after == "0.000123");
  CHECK(changed[1].changes == key_class::resume);
}

TEST_CASE("what samples that wait were made with is fixed for a run") {
  // Their log-probs are at this temperature, and the learner divides by it.
  run_config before, after;
  REQUIRE(apply_setting(after, "policy.temperature=0.7"));
  const auto changed = differences(before, after);
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].changes == key_class::fixed);
}

TEST_CASE("paths that are there become absolute, names and what is not there stay") {
  const auto folder = base::temp_folder::make().value();
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directories("suite");
  REQUIRE(base::write_file_atomic("own.key", "x"));
  run_config config;
  config.policy.model = "demo";
  config.tasks.suite = "./suite";
  config.env.keys = "own.key";
  config.env.hosts = "missing.keys";
  make_paths_absolute(config);
  const run_config once = config;
  std::filesystem::current_path(here);
  make_paths_absolute(config);
  CHECK(config.policy.model == "demo");
  CHECK(config.tasks.suite == (folder.path() / "suite").string());
  CHECK(config.env.keys == (folder.path() / "own.key").string());
  CHECK(config.env.hosts == "missing.keys");
  CHECK(differences(once, config).empty());
}

TEST_CASE("a recorded file and the engine that plays it go together") {
  run_config config;
  const auto said = [&] {
    const auto checked = check_config(config);
    return checked ? "" : checked.error().message;
  };
  CHECK(said() == "");
  config.policy.recorded = "some.jsonl";
  CHECK(contains(said(),
                 "policy.recorded is 'some.jsonl', but nothing reads it where "
                 "policy.engine is 'own': set policy.engine to recorded"));
  config.policy.engine = "recorded";
  CHECK(said() == "");
  config.policy.recorded = "";
  CHECK(contains(said(), "policy.engine is recorded, but policy.recorded names no file: name one"));
  CHECK(
      contains(problem("quern_config: 2\npolicy: {engine: record}\n"), "did you mean 'recorded'"));
}

TEST_CASE("how many exemplars a prompt shows has a range and is fixed for a run") {
  CHECK(usual_config("", "").replay.exemplars_shown == 2);
  for (const char* bad : {"0", "17"})
    CHECK(contains(problem(fmt::format("quern_config: 2\nreplay: {{exemplars_shown: {}}}\n", bad)),
                   fmt::format("replay.exemplars_shown: {} is outside 1 .. 16", bad)));
  run_config changed;
  changed.replay.exemplars_shown = 3;
  CHECK(check_config(changed));
  const auto found = differences({}, changed);
  REQUIRE(found.size() == 1);
  CHECK(found[0].path == "replay.exemplars_shown");
  CHECK(found[0].changes == key_class::fixed);
}

TEST_CASE("errors name the value, the limit and what to do") {
  CHECK(contains(problem("quern_config: 2\nlerner: {steps: 1}\n"), "did you mean 'learner"));
  CHECK(contains(problem("quern_config: 2\nlearner: {step: 1}\n"), "did you mean 'learner.steps'"));
  CHECK(contains(problem("quern_config: 2\nlearner: {steps: -1}\n"), "-1 is outside 0 .. "));
  CHECK(contains(problem("quern_config: 2\nlearner: {steps: 1.5}\n"), "'1.5' is not an integer"));
  CHECK(contains(problem("quern_config: 2\nlearner: {steps: 1.5}\n"), "0 .. 1000000000"));
  CHECK(contains(problem("quern_config: 2\nlearner: {steps: 99999999999999999999}\n"),
                 "99999999999999999999 is outside 0 .. "));
  CHECK(
      contains(problem("quern_config: 2\nlearner: {learning_rate: 1e999}\n"), "is outside 0 .. 1"));
  CHECK(contains(problem("quern_config: 2\nlearner: {learning_rate: .nan}\n"), "finite"));
  CHECK(contains(problem("quern_config: 2\nlearner: {steps: null}\n"), "single value"));
  CHECK(contains(problem("quern_config: 2\nstage: contrastiv\n"), "did you mean 'contrastive'"));
  CHECK(contains(problem("quern_config: 2\nstage: sft\nstage: sft\n"), "stands twice"));
  CHECK(contains(problem("stage: sft\n"), "quern_config: 2"));
  CHECK(contains(problem("quern_config: 3\n"), "line 1: quern_config is 3, this build knows 2"));
  CHECK(contains(problem("[1, 2"), "configuration"));
  CHECK(contains(problem("x\n"), "`quern_config: 2` and lines KEY: VALUE"));
  CHECK(contains(problem("quern_config: 2\n? [a]\n: b\n"), "a key at the top is no text"));
  CHECK(contains(problem("quern_config: 2\nrun:\n  ? [a]\n  : b\n"), "a key of 'run' is no text"));
  CHECK(contains(problem("quern_config: 2\nlearner: 3\n"), "keys are needed below"));
}

TEST_CASE("--set of the version and of a group of keys says what they are") {
  run_config config;
  const auto said = [&](std::string_view assignment) {
    const auto result = apply_setting(config, assignment);
    return result ? "" : result.error().message;
  };
  CHECK(contains(said(""), "--set '': KEY=VALUE"));
  CHECK(contains(said("=1"), "--set '=1': KEY=VALUE"));
  CHECK(contains(said("quern_config=2"), "version of the file's format"));
  CHECK(contains(said("learner=3"), "'learner' is a group of keys"));
  CHECK(contains(said("learner=3"), "learner.steps"));
  CHECK_FALSE(contains(said("learner=3"), "did you mean"));
  CHECK(contains(said("learn=3"), "unknown key 'learn'"));
  CHECK(contains(said("stages=sft"), "did you mean 'stage'"));
}

namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Whether `source` reads `path` of a configuration: config.PATH, config_->PATH and the like; not a
/// message or a comment that names it.
bool reads(const std::string& source, const std::string& path) {
  for (std::size_t at = source.find(path); at != std::string::npos;
       at = source.find(path, at + 1)) {
    const std::size_t end = at + path.size();
    const bool member =
        at > 1 && (source[at - 1] == '.' || (source[at - 1] == '>' && source[at - 2] == '-'));
    if (member && is_name(source[at - 2 + (source[at - 1] == '>' ? -1 : 0)]) &&
        (end == source.size() || !is_name(source[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("every key is read by something other than the configuration itself") {
  std::string sources;
  for (const char* folder : {"actors", "tools/cli", "tools/torch"}) {
    const auto root = test::source_dir() / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const std::string path = entry.path().string();
      // In that folder these alone say what keys mean to others.
      const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
        return std::any_of(names.begin(), names.end(),
                           [&](std::string_view name) { return path.ends_with(name); });
      };
      if (path.find("actors/config/") != std::string::npos &&
          !is_one_of({"fresh_model.cpp", "device_class.cpp", "learner_setup.cpp", "placement.cpp"}))
        continue;
      if (!path.ends_with(".cpp") && !path.ends_with(".hpp")) continue;
      sources += base::read_file(entry.path()).value();
    }
  }
  for (const config_key& key : config_keys()) {
    CAPTURE(key.path);
    CHECK(reads(sources, key.path));
  }
  CHECK_FALSE(reads(sources, "learner.no_such_key"));
}

TEST_CASE("rules between keys") {
  run_config config;
  CHECK(check_config(config));
  config.tasks.source = "suite";
  CHECK_FALSE(check_config(config));
  config = {};
  config.env.evaluators = 0;
  CHECK_FALSE(check_config(config));
  config = {};
  config.env.noise_limit = 0.01;
  CHECK(check_config(config).error().message.find("env.precision (0.02)") != std::string::npos);
  config = {};
  config.env.bind = "tcp://127.0.0.1:99999";
  CHECK(contains(check_config(config).error().message, "env.bind: 'tcp://127.0.0.1:99999'"));
  CHECK(contains(check_config(config).error().message, "1 to 65535"));
  config.env.bind = "tcp://127.0.0.1:1";
  CHECK(check_config(config).error().message.find("quern keys") != std::string::npos);
  config = {};
  config.algorithm.kl_weight = 0.1;
  CHECK_FALSE(check_config(config));
  config = {};
  config.tasks.corpus_comparing_share = 0.5;
  CHECK(check_config(config));
  config.tasks.corpus_exemplars_share = 0;
  CHECK(contains(check_config(config).error().message, "tasks.corpus_comparing_share: 0.5"));
}

TEST_CASE("a search has a budget of one group at least, no evaluation set and no learner") {
  const std::string text = "quern_config: 2\nstage: search\n";
  const auto loaded = [&](const std::vector<std::string>& settings) {
    return load_config_text(text, "c", settings);
  };
  const auto config = loaded({});
  REQUIRE(config);
  CHECK(is_search(*config));
  CHECK_FALSE(config->observe.evaluation_set);
  CHECK(loaded({"run.budget_evaluations=8"}));
  const auto small = loaded({"run.budget_evaluations=7"});
  REQUIRE_FALSE(small);
  CHECK(contains(small.error().message,
                 "run.budget_evaluations is 7, but algorithm.group_size is 8"));
  CHECK(contains(loaded({"observe.evaluation_set=true"}).error().message,
                 "observe.evaluation_set is true"));
  // Whatever the file says of a learner: it is for nobody.
  const auto ranks = loaded({"learner.ranks=4", "learner.device=cuda", "learner.devices=1,2"});
  REQUIRE(ranks);
  CHECK(placement_of(*ranks)->ranks.empty());
  CHECK(learner_devices(*ranks)->empty());
  CHECK(weights_by_link(*ranks) == false);
  run_config learns = *ranks;
  learns.stage = "contrastive";
  CHECK(placement_of(learns)->ranks.size() == 4);
  CHECK_FALSE(learner_devices(learns));
  // The budget is nothing to a run that learns.
  CHECK(load_config_text("quern_config: 2\n", "c", {"run.budget_evaluations=1"}));
}

TEST_CASE("exact mode wants what can agree to the bit") {
  run_config config;
  config.actors.exact = true;
  CHECK(check_config(config));
  config.actors.generator_threads = 2;
  CHECK(contains(check_config(config).error().message, "actors.generator_threads is 2"));
  config.actors.exact = false;
  CHECK(check_config(config));
  config = {};
  config.actors.exact = true;
  config.learner.device = "cuda";
  const auto mixed = check_config(config);
  REQUIRE_FALSE(mixed);
  CHECK(contains(mixed.error().message, "learner.device is cuda"));
  CHECK(contains(mixed.error().message, "actors.generator_device cpu"));
  config.actors.generator_device = "cuda";
  CHECK(check_config(config));
}

TEST_CASE("several generators compute on the CPU, and their number may change") {
  run_config config;
  config.actors.generators = 4;
  CHECK(check_config(config));
  config.actors.generator_device = "cuda";
  const auto on_gpu = check_config(config);
  REQUIRE_FALSE(on_gpu);
  CHECK(contains(on_gpu.error().message, "actors.generators is 4"));
  CHECK(contains(on_gpu.error().message, "set actors.generators to 1"));
  config.actors.generators = 1;
  CHECK(check_config(config));
  CHECK_FALSE(load_config_text("quern_config: 2\n", "c", {"actors.generators=0"}));
}

TEST_CASE("exact mode keeps room for what was sampled before") {
  run_config before;
  before.policy.max_prompt_tokens = 900;
  before.policy.max_new_tokens = 640;
  run_config after = before;
  after.policy.max_new_tokens = 300;
  CHECK(check_lengths(before, after));
  after.actors.exact = true;
  const auto refused = check_lengths(before, after);
  REQUIRE_FALSE(refused);
  CHECK(contains(refused.error().message, "640 and cannot become 900 and 300"));
  after.policy.max_prompt_tokens = 1240;
  CHECK(check_lengths(before, after));
}

TEST_CASE("earlier names of presets and keys are refused with what to say") {
  run_config config;
  const auto said = [&](const char* setting) {
    const auto taken = apply_setting(config, setting);
    return taken ? std::string() : taken.error().message;
  };
  CHECK(contains(said("algorithm.preset=grpo"),
                 "algorithm.preset: loss preset 'grpo' is called "
                 "group_normalised"));
  CHECK(contains(said("algorithm.preset=dr_grpo"), "is called group_centred"));
  CHECK(contains(said("algorithm.preset=cuda_l1"), "is called group_smoothed"));
  CHECK(contains(said("algorithm.preset=group_normalized"), "did you mean 'group_normalised'?"));
  CHECK(contains(said("algorithm.anchor=proximal"), "algorithm.anchor is no key"));
  const auto old = apply_yaml(config, "quern_config: 2\nalgorithm: {anchor: behaviour}\n");
  REQUIRE_FALSE(old);
  CHECK(contains(old.error().message, "take it out"));
  for (const std::string& preset : policy::preset_names()) {
    config.algorithm.preset = preset;
    CHECK(loss_parameters_of(config).anchor == policy::ratio_anchor::behaviour);
  }
}

TEST_CASE("a key that another one keeps without effect is refused with both names") {
  const auto said = [](const char* setting, const char* other) {
    run_config config;
    REQUIRE(apply_setting(config, setting));
    const auto checked = check_config(config);
    REQUIRE_FALSE(checked);
    CAPTURE(checked.error().message);
    CHECK(contains(checked.error().message, std::string(setting).substr(0, 6)));
    CHECK(contains(checked.error().message, other));
  };
  said("tasks.suite=env/suites/cpu", "tasks.source is 'generated'");
  said("env.keys=run.key", "env.bind is ''");
  said("env.hosts=hosts.txt", "env.bind is ''");
  said("env.device_class=H200-SXM", "env.lane is 'cpp'");
}

TEST_CASE("what the formula would refuse is refused with its key, and ranges are the formula's") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const char* path : {"algorithm.clip_low", "algorithm.clip_high", "algorithm.importance_cap",
                           "algorithm.negative_scale", "algorithm.kl_weight"}) {
    CAPTURE(path);
    const auto& keys = config_keys();
    const auto key = std::find_if(keys.begin(), keys.end(),
                                  [&](const config_key& one) { return one.path == path; });
    REQUIRE(key != keys.end());
    const auto checked = [&](double value) {
      run_config config;
      config.algorithm.preset = "group_smoothed";
      *std::get<double*>(key->at(config)) = value;
      return check_config(config);
    };
    CHECK(checked(key->low));
    CHECK(checked(key->high));
    for (const double beyond :
         {std::nextafter(key->low, -infinity), std::nextafter(key->high, infinity), std::nan("")}) {
      const auto refused = checked(beyond);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().message.starts_with(path));
    }
  }
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "c.yaml";
  REQUIRE(base::write_file_atomic(file, "quern_config: 2\n"));
  const auto said = [&](const char* setting) {
    const auto loaded = load_config(file, {setting});
    return loaded ? "" : loaded.error().message;
  };
  CHECK(contains(said("algorithm.negative_scale=2"),
                 "algorithm.negative_scale: 2 is outside 0 .. 1"));
  CHECK(contains(said("algorithm.clip_high=3"), "algorithm.clip_high: 3 is outside 0 .. 2"));
  CHECK(said("algorithm.clip_high=2").empty());
  run_config wide;
  wide.algorithm.clip_high = 3;
  CHECK(contains(check_config(wide).error().message, "must lie in [0, 2]"));
  for (const std::string& preset : policy::preset_names()) {
    run_config config;
    config.algorithm.preset = preset;
    config.policy.max_new_tokens = 1;
    CAPTURE(preset);
    CHECK(check_config(config));
    CHECK(policy::check(loss_parameters_of(config)));
  }
}

TEST_CASE("some defaults follow from stage and preset; what is said stands") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "c.yaml";
  REQUIRE(base::write_file_atomic(file, "quern_config: 2\nstage: self_train\n"));
  auto config = load_config(file, {}).value();
  CHECK(config.algorithm.preset == "reinforce");
  CHECK(config.algorithm.reward == "correct/1");
  CHECK(config.algorithm.kl_weight == 0);
  config = load_config(file, {"algorithm.reward=speedup/1"}).value();
  CHECK(config.algorithm.reward == "speedup/1");
  config = load_config(file, {"stage=contrastive", "algorithm.preset=group_smoothed"}).value();
  CHECK(config.algorithm.reward == "speedup_capped/1");
  CHECK(config.algorithm.kl_weight == 0.01);
  config = load_config(file, {"algorithm.preset=group_smoothed", "algorithm.kl_weight=0"}).value();
  CHECK(config.algorithm.kl_weight == 0);
}

TEST_CASE("every key has a reason, a range that its default lies in, and a unique name") {
  std::set<std::string> seen;
  for (const config_key& key : config_keys()) {
    CAPTURE(key.path);
    CHECK(seen.insert(key.path).second);
    CHECK(key.why.size() > 5);
    run_config config;
    CHECK(apply_yaml(config, to_yaml(config)));
  }
}

TEST_CASE("no bytes make the parser throw") {
  const std::string valid = to_yaml(run_config{});
  base::random_stream random(1, "config fuzz");
  for (int round = 0; round < 2000; ++round) {
    std::string text = valid.substr(0, random.below(400) + 20);
    for (int i = 0; i < 4; ++i) {
      constexpr std::string_view bytes = "{}[]:,-#&*!|>'\"%@` \n\t0a\xff";
      text[random.below(text.size())] = bytes[random.below(bytes.size())];
    }
    run_config config;
    const auto result = apply_yaml(config, text);
    if (!result) CHECK_FALSE(result.error().message.empty());
  }
}

TEST_CASE("a lane of cores is measured on GPUs where that is asked for and it can be") {
  run_config config;
  config.tasks.source = "suite";
  config.tasks.suite = "env/suites/cpu";
  config.env.device = "gpu";
  const auto refused = check_config(config);
  REQUIRE_FALSE(refused);
  CAPTURE(refused.error().message);
  CHECK(contains(refused.error().message, "env.device is gpu, but lane cpp is measured on a core"));
  CHECK(contains(refused.error().message, "on GPUs are cuda, pytorch"));
  CHECK(contains(refused.error().message, "leave env.device out"));
  config.env.lane = "pytorch";
  CHECK(check_config(config));
  CHECK(on_gpus(config));
  CHECK(measuring_gpus(config, "").value() == std::vector<int>{0});
  config.env.device_class = "H200-SXM-torch";
  CHECK(check_config(config));
  CHECK(device_class_of(config).value() == "H200-SXM-torch");
  // The controls: on a core the same lane has another class, and no use for that of a GPU.
  config.env.device = "lane";
  CHECK_FALSE(on_gpus(config));
  CHECK(measuring_gpus(config, "").value().empty());
  CHECK(device_class_of(config).value().starts_with("cpu-torch-"));
  const auto useless = check_config(config);
  REQUIRE_FALSE(useless);
  CHECK(contains(useless.error().message, "or env.device to gpu"));
  // A lane of GPUs needs no word.
  config.env.lane = "cuda";
  for (const char* device : {"lane", "gpu"}) {
    config.env.device = device;
    CHECK(check_config(config));
    CHECK(on_gpus(config));
    CHECK(usual_device_class(config) == "H200-SXM-torch");
  }
  config.env.device_class = "";
  CHECK(usual_device_class(config) == "H200-SXM");
  config.env.lane = "pytorch";
  CHECK(usual_device_class(config) == "H200-SXM-torch");
}

TEST_CASE("how a run measures: lane, protocol, baseline and reward go together") {
  run_config config;
  CHECK(measured_as(config) == "paired/1");
  const auto said = [](std::vector<std::string> settings) -> std::string {
    run_config c;
    for (const auto& setting : settings)
      if (auto set = apply_setting(c, setting); !set) return set.error().message;
    const auto checked = check_config(c);
    return checked ? "" : checked.error().message;
  };
  CHECK(contains(said({"env.protocol=cuda_l1_trian/1"}), "did you mean 'cuda_l1_train/1'"));
  CHECK(contains(said({"env.baseline=grpah"}), "did you mean 'graph'"));
  CHECK(contains(said({"env.protocol=cuda_l1_train/1"}),
                 "no protocol of lane cpp, which has paired/1, cost_model/1; lane cuda, "
                 "lane pytorch on a GPU has it"));
  CHECK(contains(said({"env.baseline=graph"}),
                 "no baseline of lane cpp, which has task, eager, plain; lane cuda, lane "
                 "pytorch on a GPU has it"));
  // Modules have on a GPU what they do not have on a core.
  const auto of_modules = [&](const char* device) {
    return said({"env.lane=pytorch", device, "env.protocol=cuda_l1_train/1",
                 "env.baseline=reduce-overhead", "tasks.source=suite", "tasks.suite=my_suite"});
  };
  CAPTURE(of_modules("env.device=lane"));
  CAPTURE(of_modules("env.device=gpu"));
  CHECK(contains(of_modules("env.device=lane"), "no protocol of lane pytorch on a core"));
  CHECK(of_modules("env.device=gpu").empty());
  CHECK(contains(said({"env.baseline=eager"}), "generated tasks of lane cpp"));
  CHECK(said({"env.baseline=eager", "tasks.source=suite", "tasks.suite=env/suites/cpu"}).empty());
  CHECK(contains(said({"env.protocol=cost_model/1", "env.baseline=plain"}), "measures nothing"));
  CHECK(contains(said({"algorithm.reward=speedup/1@plain"}), "env.baseline is 'task'"));
  CHECK(said({"algorithm.reward=speedup/1@plain", "env.baseline=plain"}).empty());
  CHECK(said({"env.protocol=cost_model/1"}).empty());
  config.env.baseline = "plain";
  CHECK(measured_as(config) == "paired/1@plain");
}

TEST_CASE("weights go over links between GPUs that are not shared, and where links are asked for") {
  run_config config;
  const auto by_link = [&](const char* how) {
    config.actors.weights = how;
    return weights_by_link(config);
  };
  const auto refused = [&](std::string_view part) {
    const auto result = by_link("link");
    REQUIRE_FALSE(result);
    CAPTURE(result.error().message);
    CHECK(contains(result.error().message, part));
    CHECK(contains(result.error().message, "actors.weights to memory"));
  };
  CHECK_FALSE(by_link("auto").value());
  CHECK_FALSE(by_link("memory").value());
  CHECK(by_link("link").value());
  config.learner.device = "cuda";
  CHECK_FALSE(by_link("auto").value());
  refused("learner.device is cuda and actors.generator_device is cpu");
  config.actors.generator_device = "cuda";
  CHECK_FALSE(by_link("auto").value());
  CHECK_FALSE(by_link("memory").value());
  refused("actors.generator_gpu is 0");
  config.actors.generator_gpu = 2;
  config.learner.ranks = 2;
  CHECK(by_link("auto").value());
  CHECK(by_link("link").value());
  CHECK_FALSE(by_link("memory").value());
  config.learner.devices = "4,2";
  CHECK(by_link("auto").value());
  config.env.lane = "cuda";
  CHECK_FALSE(by_link("auto").value());
  refused("which a rank of the learner has, too");
  config.env.evaluators = 0;
  CHECK(by_link("auto").value());
  config.env.lane = "cpp";
  config.learner.devices = "2,4";
  CHECK_FALSE(by_link("auto").value());
  refused("actors.generator_gpu is 2");
  config.learner.devices = "4";
  CHECK_FALSE(by_link("auto"));
  config.learner.device = "cpu";
  CHECK_FALSE(by_link("auto").value());
}

TEST_CASE(
    "a generator leaves a rank of the learner that shares its GPU what that one plans to take") {
  run_config config;
  policy::model_config model;
  model.vocab_size = 1000;
  model.hidden_size = 64;
  model.intermediate_size = 128;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.max_positions = 2048;
  const auto left = [&] { return learner_bytes_beside_generator(config, model).value(); };
  CHECK(left() == 0);  // both on the CPU
  config.learner.device = config.actors.generator_device = "cuda";
  CHECK(left() == policy::plan_learner(model, learner_demand_of(config)).total());
  CHECK(left() > 0);
  config.actors.generator_gpu = 1;
  CHECK(left() == 0);
  config.learner.ranks = 2;
  CHECK(left() > 0);  // rank 1 has GPU 1
  config.learner.devices = "0,2";
  CHECK(left() == 0);
  config.learner.devices = "0,1";
  config.actors.generator_host = "node1";
  config.cluster.launch = "ssh {host}";
  config.cluster.address = "node0";
  CHECK(left() == 0);  // another host's GPU 1
}

TEST_CASE("a key is explained with its default, what is possible, what it is and when it changes") {
  const std::string steps = key_words("learner.steps").value();
  CAPTURE(steps);
  CHECK(contains(steps, "learner.steps: "));
  CHECK(contains(steps, "\n  default   " + std::to_string(run_config{}.learner.steps) + "\n"));
  CHECK(contains(steps, "\n  possible  0 .. 1000000000\n"));
  CHECK(contains(steps, "\n  changes   with quern resume RUN --set learner.steps=VALUE\n"));
  const std::string engine = key_words("policy.engine").value();
  CHECK(contains(engine, "\n  default   \"own\"\n  possible  own | recorded\n"));
  CHECK(contains(engine, "\n  changes   never after the run has begun\n"));
  // Defaults that follow from other keys.
  CHECK(contains(key_words("algorithm.reward").value(),
                 "; with stage: self_train it is \"correct/1\""));
  CHECK(contains(key_words("algorithm.kl_weight").value(),
                 "; with algorithm.preset: group_smoothed it is 0.01\n"));
  CHECK(contains(key_words("observe.evaluation_set").value(),
                 "true; with stage: search it is false\n"));
  CHECK_FALSE(contains(key_words("stage").value(), "with stage"));
}

TEST_CASE(
    "every key is explained, also as one of its group; a slip is an error with the key meant") {
  for (const config_key& key : config_keys()) {
    const auto words = key_words(key.path);
    REQUIRE(words);
    CHECK(contains(*words, std::string(key.why)));
    CHECK(contains(*words, "\n  default   " + value_text(key, run_config{})));
    const std::string group = key.path.substr(0, key.path.find('.'));
    CHECK(contains(key_words(group).value(), "\n  possible  " + range_text(key) + "\n"));
  }
  const auto slip = key_words("actors.stalenes");
  REQUIRE_FALSE(slip);
  CHECK(contains(slip.error().message, "did you mean 'actors.staleness'"));
  CHECK_FALSE(key_words("learn"));
  CHECK_FALSE(key_words("quern_config"));
  CHECK_FALSE(key_words(""));
}
