// check_config: rules between keys.
#include <fmt/ranges.h>

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "actors/config/prometheus_check.hpp"
#include "actors/decide/exemplar_schedule.hpp"
#include "actors/measured_as.hpp"
#include "base/endpoint.hpp"
#include "env/measure/measure_name.hpp"
#include "env/verdict/reward.hpp"

namespace quern::actors {

namespace {

using base::errc;
using base::fail;

/// Whether lane, protocol, baseline and reward go together.
base::status check_measuring(const run_config& config) {
  const auto refuse = [](const char* key, const std::string& why) {
    return fail(errc::invalid_argument, "{}: {}", key, why);
  };
  if (auto name = env::parse_measure_name(measured_as(config)); !name)
    return refuse("env.protocol", name.error().message);
  const env::lane& lane = lane_of(config);
  if (auto fits = env::check_protocol(lane, on_gpus(config), config.env.protocol); !fits)
    return refuse("env.protocol", fits.error().message);
  const auto baseline = env::parse_baseline(config.env.baseline);
  if (auto fits = env::check_baseline(lane, on_gpus(config), *baseline); !fits)
    return refuse("env.baseline", fits.error().message);
  if (lane.grammar == nullptr && config.stage == "sft")
    return refuse("stage",
                  fmt::format("sft makes its corpus of generated tasks, and lane {} has no "
                              "grammar of tasks: begin with another stage",
                              lane.name));
  if (config.tasks.corpus_comparing_share > 0 && config.tasks.corpus_exemplars_share == 0)
    return refuse("tasks.corpus_comparing_share",
                  fmt::format("{}, but tasks.corpus_exemplars_share is 0: no record shows what is "
                              "to be compared",
                              config.tasks.corpus_comparing_share));
  if (lane.grammar == nullptr && config.tasks.source == "generated")
    return refuse("tasks.source",
                  fmt::format("'{}', but lane {} has no grammar of tasks: say suite",
                              config.tasks.source, lane.name));
  if (lane.baselines.empty() && config.tasks.source == "generated" &&
      *baseline == env::baseline_choice::eager)
    return refuse("env.baseline", fmt::format("'{}', but generated tasks of lane {} have the "
                                              "baseline plain: task or plain",
                                              config.env.baseline, lane.name));
  const auto reward = env::find_reward(config.algorithm.reward);
  if (!reward || reward->baseline == env::baseline_choice::of_task) return {};
  if (env::name_of(reward->baseline) == config.env.baseline) return {};
  return refuse(
      "algorithm.reward",
      fmt::format("{} is over '{}', but env.baseline is '{}': make them equal, or name "
                  "the reward without a baseline",
                  config.algorithm.reward, env::name_of(reward->baseline), config.env.baseline));
}

/// Whether generator and learner can agree to the bit.
base::status check_exact(const run_config& config) {
  if (!config.actors.exact || config.stage == "sft" || is_search(config)) return {};
  const std::string learner = config.learner.device == "cuda" ? "cuda" : "cpu";
  if (learner != config.actors.generator_device)
    return fail(errc::invalid_argument,
                "actors.exact is set, but learner.device is {} and actors.generator_device {}: "
                "different devices round differently; make them equal",
                learner, config.actors.generator_device);
  if (learner == "cpu" && config.actors.generator_threads != 1)
    return fail(errc::invalid_argument,
                "actors.exact is set, but actors.generator_threads is {}: how threads share out "
                "the rows decides last bits on a CPU; set it to 1",
                config.actors.generator_threads);
  return {};
}

base::status check_generators(const run_config& config) {
  if (config.actors.generators == 1 || config.actors.generator_device == "cpu") return {};
  return fail(errc::invalid_argument,
              "actors.generators is {}, but actors.generator_device is {}: several generators "
              "compute on the CPU only; set actors.generators to 1",
              config.actors.generators, config.actors.generator_device);
}

/// Keys that are set, but that another one keeps without effect.
base::status check_effect(const run_config& config) {
  struct rule {
    const char* key;
    const std::string& value;
    bool read;
    const char* other;
    const std::string& other_value;
    const char* needed;
  };
  const bool elsewhere = !config.env.bind.empty();
  const rule rules[] = {
      {"policy.recorded", config.policy.recorded, config.policy.engine == "recorded",
       "policy.engine", config.policy.engine, "set policy.engine to recorded"},
      {"tasks.suite", config.tasks.suite, config.tasks.source == "suite", "tasks.source",
       config.tasks.source, "set tasks.source to suite"},
      {"tasks.kernelbench", config.tasks.kernelbench, config.tasks.source == "suite",
       "tasks.source", config.tasks.source, "set tasks.source to suite"},
      {"env.keys", config.env.keys, elsewhere, "env.bind", config.env.bind,
       "set env.bind to the address where hosts connect"},
      {"env.hosts", config.env.hosts, elsewhere, "env.bind", config.env.bind,
       "set env.bind to the address where hosts connect"},
      {"env.device_class", config.env.device_class, on_gpus(config), "env.lane", config.env.lane,
       "set env.lane to a lane of GPUs, or env.device to gpu"},
  };
  for (const rule& one : rules)
    if (!one.value.empty() && !one.read)
      return fail(
          errc::invalid_argument,
          "{} is '{}', but nothing reads it where {} is '{}': {}, or leave {} out, for which "
          "--set {}= stands where it comes from elsewhere",
          one.key, one.value, one.other, one.other_value, one.needed, one.key, one.key);
  return {};
}

/// What only a run without a learner is asked.
base::status check_search(const run_config& config) {
  if (!is_search(config)) return {};
  if (config.run.budget_evaluations < config.algorithm.group_size)
    return fail(errc::invalid_argument,
                "run.budget_evaluations is {}, but algorithm.group_size is {}: a search needs one "
                "group at least; raise the budget or lower the size",
                config.run.budget_evaluations, config.algorithm.group_size);
  if (config.observe.evaluation_set)
    return fail(
        errc::invalid_argument,
        "observe.evaluation_set is true, but stage search has one set of weights and nothing to "
        "compare them with: set it to false, or leave it out");
  return {};
}

}  // namespace

base::status check_config(const run_config& config) {
  if (env::find_lane(config.env.lane) == nullptr)
    return fail(errc::invalid_argument, "env.lane is '{}', which this program lacks; it has {}",
                config.env.lane, fmt::join(env::lane_names(), ", "));
  QUERN_CHECK(check_device_of_lane(config));
  QUERN_CHECK(check_effect(config));
  if (const auto read = exemplar_schedule::parse(config.replay.exemplar_schedule); !read)
    return tl::make_unexpected(read.error());
  if (config.tasks.source == "suite" && config.tasks.suite.empty()) {
    return fail(errc::invalid_argument,
                "tasks.source is suite, but tasks.suite names no folder: name one");
  }
  if (config.policy.engine == "recorded" && config.policy.recorded.empty()) {
    return fail(errc::invalid_argument,
                "policy.engine is recorded, but policy.recorded names no file: name one");
  }
  if (config.policy.heads % config.policy.kv_heads != 0) {
    return fail(errc::invalid_argument,
                "policy.heads ({}) is no multiple of policy.kv_heads ({}): change one",
                config.policy.heads, config.policy.kv_heads);
  }
  if (config.env.evaluators == 0 && config.env.bind.empty() && config.stage != "sft") {
    return fail(
        errc::invalid_argument,
        "env.evaluators is 0 and env.bind is empty: nobody could evaluate; start one or name "
        "an address where hosts connect");
  }
  if (config.env.noise_limit < config.env.precision) {
    return fail(errc::invalid_argument,
                "env.noise_limit ({}) is below env.precision ({}): every measurement that may stop "
                "would be noisy",
                config.env.noise_limit, config.env.precision);
  }
  QUERN_CHECK(check_measuring(config));
  QUERN_CHECK(prometheus_address(config.observe.prometheus));
  QUERN_CHECK(placement_of(config));
  if (!config.env.bind.empty()) {
    const auto valid = base::check_tcp_endpoint(config.env.bind, base::endpoint_use::listen);
    if (!valid) return base::in_context("env.bind", valid.error());
  }
  if (!config.env.bind.empty() && (config.env.keys.empty() || config.env.hosts.empty())) {
    return fail(errc::invalid_argument,
                "env.bind is {}, but env.keys or env.hosts names no file: without keys anybody "
                "could connect; quern keys FILE makes a pair",
                config.env.bind);
  }
  if (config.algorithm.preset != "group_smoothed" && config.algorithm.kl_weight != 0) {
    return fail(
        errc::invalid_argument,
        "algorithm.kl_weight is {} but preset {} has no KL term: use group_smoothed or set it to 0",
        config.algorithm.kl_weight, config.algorithm.preset);
  }
  QUERN_CHECK(check_search(config));
  QUERN_CHECK(check_exact(config));
  QUERN_CHECK(check_generators(config));
  return check_loss(config);
}

base::status check_lengths(const run_config& before, const run_config& after) {
  const auto room = [](const run_config& c) {
    return c.policy.max_prompt_tokens + c.policy.max_new_tokens;
  };
  if (!after.actors.exact || after.stage == "sft" || room(after) >= room(before)) return {};
  return fail(errc::invalid_argument,
              "policy.max_prompt_tokens and policy.max_new_tokens are {} and {} and cannot become "
              "{} and {}, which is less together: actors.exact is set, and samples of the run may "
              "be as long as before; keep their sum",
              before.policy.max_prompt_tokens, before.policy.max_new_tokens,
              after.policy.max_prompt_tokens, after.policy.max_new_tokens);
}

}  // namespace quern::actors
