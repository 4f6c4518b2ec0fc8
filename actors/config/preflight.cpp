#include "actors/config/preflight.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include <unistd.h>

#include "actors/config/cluster_check.hpp"
#include "actors/config/device_class.hpp"
#include "actors/config/disk_check.hpp"
#include "actors/config/fresh_model.hpp"
#include "actors/config/gpus.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/length_check.hpp"
#include "actors/config/memory_check.hpp"
#include "actors/config/placement.hpp"
#include "actors/config/prometheus_check.hpp"
#include "actors/config/prompt_check.hpp"
#include "actors/config/reference_check.hpp"
#include "actors/orchestrator/prompter.hpp"
#include "base/endpoint.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/judge/core_lock.hpp"
#include "env/plugin/key_file.hpp"
#include "env/sandbox/probe.hpp"
#include "env/verdict/reward.hpp"
#include "policy/text/model_config.hpp"
#include "policy/weights/model_dir.hpp"
#include "storage/disk_room.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

bool is_sft(const run_config& config) {
  return config.stage == "sft";
}

/// `result` of a check of `key`: an error names both.
template <class Value>
base::status of_key(std::string_view key, std::string_view value,
                    const base::expected<Value>& result) {
  if (result) return {};
  return fail(errc::invalid_argument, "{} is '{}': {}", key, value, result.error().message);
}

base::status check_files_of_model(const fs::path& folder, const run_config& config,
                                  const machine_memory& machine) {
  QUERN_TRY(const policy::model_config model, policy::load_model_config(folder));
  QUERN_TRY(const auto layout, policy::make_catalogue(model, policy::weight_dtype::f32));
  QUERN_TRY(const auto weights, policy::safetensors_reader::open_dir(folder));
  QUERN_CHECK(policy::check_weights(weights, layout));
  QUERN_TRY(const policy::tokenizer text, policy::tokenizer::load(folder));
  if (text.vocab_size() > model.vocab_size) {
    return fail(errc::invalid_argument,
                "its tokenizer has {} tokens, its embedding {} rows, which must be as many or "
                "more: they are of different models",
                text.vocab_size(), model.vocab_size);
  }
  QUERN_CHECK(check_positions(config, model));
  return check_memory(config, model, machine);
}

base::status check_model(const run_config& config, const machine_memory& machine) {
  if (config.policy.model.empty())
    return fail(
        errc::invalid_argument,
        "policy.model is empty: a stage that is run alone, without the one before it, needs "
        "the policy that it begins with; name its folder: --set "
        "policy.model=RUN/checkpoints/vN/model (RUN: the run of the stage before, such as "
        "runs/NAME/1-sft; N: the last that is there), or one that quern export RUN FOLDER "
        "writes");
  QUERN_TRY(const fs::path folder, model_folder(config));
  return of_key("policy.model", config.policy.model, [&]() -> base::expected<bool> {
    QUERN_CHECK(check_files_of_model(folder, config, machine));
    return true;
  }());
}

/// Weights, their gradient and AdamW's two moments, in float32.
constexpr double training_bytes_per_parameter = 16;

base::status check_fresh_model(const run_config& config, const machine_memory& machine) {
  const policy::model_config model = fresh_model(config, config.policy.vocabulary, 0);
  if (auto valid = policy::validate(model); !valid) {
    return fail(errc::invalid_argument,
                "the keys policy.* make no model: {} (policy.width is its hidden_size, "
                "policy.head_width its head_dim)",
                valid.error().message);
  }
  QUERN_TRY(const auto layout, policy::make_catalogue(model, policy::weight_dtype::f32));
  const double needed = training_bytes_per_parameter * static_cast<double>(layout.elements);
  const auto there = static_cast<double>(machine.host);
  if (needed <= there) return check_memory(config, model, machine);
  return fail(errc::invalid_argument,
              "the keys policy.* make a model of {} parameters: to train it takes {}, this machine "
              "has {}; lower policy.layers, policy.width or policy.mlp_width",
              layout.elements, base::human_bytes(static_cast<std::uint64_t>(needed)),
              show_host(machine));
}

base::status check_schedule(const run_config& config) {
  const auto& learner = config.learner;
  if (learner.schedule == "constant" || learner.steps > learner.warmup_steps) return {};
  return fail(errc::invalid_argument,
              "learner.steps is {}, but with learner.schedule = {} it must be above "
              "learner.warmup_steps = {}: take more steps, fewer to warm up, or say constant",
              learner.steps, learner.schedule, learner.warmup_steps);
}

/// Of the paged engine (policy/engine/paged_engine.cpp).
constexpr std::int64_t most_sequences_on_gpu = 4096;

base::status check_device(const run_config& config) {
  QUERN_CHECK(learner_devices(config));
  if (is_sft(config) && config.learner.ranks > 1 && !config.learner.hosts.empty()) {
    return fail(errc::invalid_argument,
                "learner.hosts is '{}', but stage sft learns on this machine: give the stage an "
                "empty one, and as many learner.ranks as there are GPUs here",
                config.learner.hosts);
  }
  if (is_sft(config) && config.learner.ranks > 1 && config.learner.device == "auto") {
    return fail(errc::invalid_argument,
                "learner.ranks is {} and learner.device is auto: several ranks need to be told, "
                "say cuda or cpu",
                config.learner.ranks);
  }
  if (is_sft(config)) return {};
  const std::int64_t together = 2 * config.algorithm.groups_per_step * config.algorithm.group_size;
  if (config.actors.generator_device == "cuda" && together > most_sequences_on_gpu) {
    return fail(errc::invalid_argument,
                "algorithm.groups_per_step is {} and algorithm.group_size {}: the samples of two "
                "steps, {}, are generated together, and a generator on a GPU takes {}: lower one",
                config.algorithm.groups_per_step, config.algorithm.group_size, together,
                most_sequences_on_gpu);
  }
  QUERN_CHECK(weights_by_link(config));
  return {};
}

/// GPUs of this machine that the policy is to compute on.
base::status check_policy_gpus(const run_config& config) {
  if (::access("/dev/nvidiactl", F_OK) == 0) {
    const std::int64_t shown = gpus_shown();
    return shown == 0 ? base::status{} : check_gpu_numbers(config, shown);
  }
  QUERN_TRY(const placement where, placement_of(config));
  const bool learns = std::count(where.ranks.begin(), where.ranks.end(), "") > 0;
  const bool generates = !is_sft(config) && where.generator.empty();
  for (const auto& [key, value, here] :
       {std::tuple("learner.device", config.learner.device, learns),
        std::tuple("actors.generator_device", config.actors.generator_device, generates)}) {
    if (value != "cuda" || !here) continue;
    return fail(errc::invalid_argument,
                "{} is cuda, but no NVIDIA driver is loaded here (no /dev/nvidiactl): say cpu, or "
                "use a machine with a GPU",
                key);
  }
  return {};
}

base::expected<bool> evaluates_here(const run_config& config) {
  QUERN_TRY(const placement where, placement_of(config));
  return std::count(where.evaluators.begin(), where.evaluators.end(), "") > 0;
}

base::status check_programs(const run_config& config) {
  QUERN_CHECK(base::sibling_program("quern"));
  QUERN_CHECK(base::sibling_program("quern-torch"));
  QUERN_TRY(const bool evaluates, evaluates_here(config));
  if (!evaluates) return {};
  if (const auto check = lane_of(config).check_programs; check != nullptr)
    QUERN_CHECK(of_key("env.lane", config.env.lane, check()));
  if (auto core = env::check_core(config.env.core); !core)
    return fail(errc::invalid_argument, "env.core: {}", core.error().message);
  const auto mode = config.env.sandbox == "required" ? env::sandbox_mode::required
                                                     : env::sandbox_mode::best_effort;
  const auto code = sandboxed_code_of(config);
  if (auto admitted = env::admit(env::probe_host(), mode, code); !admitted)
    return fail(errc::invalid_argument, "env.sandbox is {}: {}", config.env.sandbox,
                admitted.error().message);
  return {};
}

/// Binds for a moment: what is wrong with the address, or who has it, shows now.
base::status can_bind(const std::string& endpoint) {
  QUERN_CHECK(base::check_tcp_endpoint(endpoint, base::endpoint_use::listen));
  env::zmq_context context;
  QUERN_TRY(auto socket, env::zmq_socket::open(context, env::socket_kind::router));
  return socket.bind(endpoint);
}

base::status check_listening(const run_config& config) {
  QUERN_CHECK(check_prometheus(config));
  if (config.env.bind.empty()) return {};
  QUERN_CHECK(of_key("env.keys", config.env.keys, env::read_key_file(config.env.keys)));
  QUERN_CHECK(of_key("env.hosts", config.env.hosts, env::read_public_keys(config.env.hosts)));
  return of_key("env.bind", config.env.bind, can_bind(config.env.bind));
}

/// The part of `folder` that is there must be a folder in which one can write.
base::status check_writable(std::string_view key, const fs::path& folder) {
  std::error_code code;
  fs::path there = fs::absolute(folder, code);
  while (!fs::exists(there, code) && there.has_relative_path())
    there = there.parent_path();
  if (!fs::is_directory(there, code)) {
    return fail(errc::invalid_argument, "{}: {} cannot be made: {} is no folder; name another one",
                key, folder.string(), there.string());
  }
  // Tried, since permissions do not tell all: /proc, a full disk, a file system that is read-only.
  std::string trial = (there / ".quern-XXXXXX").string();
  const bool made = ::mkdtemp(trial.data()) != nullptr;
  const int why = errno;
  if (made) ::rmdir(trial.c_str());
  if (!made) {
    return fail(errc::invalid_argument,
                "{}: {} cannot be written: no folder can be made in {} ({}); name another one", key,
                folder.string(), there.string(), std::strerror(why));
  }
  const long longest = ::pathconf(there.c_str(), _PC_NAME_MAX);
  for (const fs::path& name : fs::absolute(folder, code)) {
    if (longest <= 0 || std::ssize(name.native()) <= longest) continue;
    return fail(errc::invalid_argument,
                "{}: a folder's name of {} characters, {} takes {}: choose a shorter one", key,
                name.native().size(), there.string(), longest);
  }
  return {};
}

base::status check_sockets() {
  QUERN_TRY(const auto folder, base::temp_folder::make("quern"));
  const std::string longest = (folder.path() / "console").string();
  if (longest.size() <= storage::max_socket_name) return {};
  return fail(errc::invalid_argument,
              "the run's sockets would have names such as '{}' of {} bytes, the limit is {}: set "
              "TMPDIR to a shorter folder",
              longest, longest.size(), storage::max_socket_name);
}

base::status check_folders(const run_config& config, const fs::path& folder, run_beginning how,
                           const storage::file_system_probe& disks) {
  if (how != run_beginning::resuming) QUERN_CHECK(storage::may_become_run(folder));
  // Where no run.folder is given, its folder is called after it.
  const std::string& name = config.run.name;
  // A run that has such a name already goes on.
  const auto breaks_names = [&](char c) {
    const bool controls = c == '\x7f' || static_cast<unsigned char>(c) < ' ';
    return c == '/' || (controls && how != run_beginning::resuming);
  };
  if (name.empty() || name == "." || name == ".." || std::ranges::any_of(name, breaks_names)) {
    return fail(errc::invalid_argument,
                "run.name is '{}': a name without / and in one line is needed; run.folder says "
                "where the run is kept",
                name);
  }
  QUERN_CHECK(check_writable("run.folder", folder));
  // Stage sft has no ledger.
  if (!is_sft(config))
    QUERN_CHECK(of_key("run.folder", folder.string(), storage::check_file_system(folder, disks)));
  QUERN_CHECK(check_sockets());
  if (!is_sft(config)) return {};
  // A run of another stage draws its tasks with it; here only the makers of the corpus would.
  QUERN_CHECK(held_out_of(config));
  if (!config.tasks.corpus_folder.empty())
    QUERN_CHECK(check_writable("tasks.corpus_folder", config.tasks.corpus_folder));
  if (config.env.evaluators > 0) return {};
  const fs::path corpus =
      config.tasks.corpus_folder.empty() ? folder / "corpus" : fs::path(config.tasks.corpus_folder);
  std::error_code code;
  for (auto at = fs::directory_iterator(corpus, code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    if (at->path().extension() == ".jsonl") return {};
  }
  return fail(errc::invalid_argument,
              "env.evaluators is 0 and {} has no corpus: nobody would make one; start one "
              "evaluator, or name a finished corpus in tasks.corpus_folder",
              corpus.string());
}

base::status check_temporary_files() {
  QUERN_TRY(const auto folder, base::temp_folder::make("quern"));
  const fs::path where = folder.path().parent_path();
  return check_temporary_room(where, storage::free_bytes(where));
}

/// The tasks, with a name for what is wrong with a suite.
base::expected<task_book> check_tasks(const run_config& config) {
  auto book = task_book::make(config);
  if (!book && config.tasks.source == "suite")
    QUERN_CHECK(of_key("tasks.suite", config.tasks.suite, book));
  if (!book) return book;
  QUERN_CHECK(check_lane(config, *book));
  return book;
}

/// What is wrong with this machine and not with the configuration: told, where the caller takes it.
base::status of_machine(missing_hardware* missing, base::status checked) {
  if (checked || missing == nullptr) return checked;
  missing->push_back(checked.error().message);
  return {};
}

/// The class that prompts name. GPUs that are not here are `missing`.
base::expected<std::string> check_device_class(const run_config& config,
                                               missing_hardware* missing) {
  QUERN_CHECK(gpus_of(config));
  auto found = device_class_of(config);
  QUERN_TRY(const bool evaluates, evaluates_here(config));
  if (evaluates && found)
    if (auto there = check_gpus_here(config); !there) found = tl::make_unexpected(there.error());
  if (found || missing == nullptr) return found;
  missing->push_back(found.error().message);
  return usual_device_class(config);
}

base::expected<task_book> check_all(const run_config& config, const fs::path& folder,
                                    run_beginning how, missing_hardware* missing,
                                    const policy::model_config* begins_with,
                                    const storage::file_system_probe& disks) {
  QUERN_CHECK(check_device(config));
  QUERN_CHECK(of_machine(missing, check_policy_gpus(config)));
  // Before the class of GPUs, for which CUDA may be asked: then no child can ask it any more.
  const machine_memory machine = memory_here(config);
  if (const std::string warning = warning_of_threads(config, machine); !warning.empty())
    base::log_warn("config", "{}", warning);
  QUERN_TRY(const std::string device_class, check_device_class(config, missing));
  QUERN_CHECK(check_schedule(config));
  if (auto reward = env::find_reward(config.algorithm.reward); !reward) {
    return fail(errc::invalid_argument, "algorithm.reward: {}", reward.error().message);
  }
  QUERN_CHECK(check_folders(config, folder, how, disks));
  QUERN_CHECK(of_machine(missing, check_temporary_files()));
  QUERN_CHECK(check_programs(config));
  QUERN_CHECK(of_machine(missing, check_listening(config)));
  QUERN_CHECK(of_machine(missing, check_cluster(config)));
  QUERN_CHECK(prompter::load_template(config.policy.template_name));
  if (is_sft(config)) {
    QUERN_CHECK(check_fresh_model(config, machine));
    QUERN_CHECK(
        of_machine(missing, check_disk(config, fresh_model(config, config.policy.vocabulary, 0),
                                       folder, storage::free_bytes(folder))));
    return check_tasks(config);
  }
  if (how == run_beginning::later) {
    if (begins_with != nullptr) {
      QUERN_CHECK(check_positions(config, *begins_with));
      QUERN_CHECK(check_memory(config, *begins_with, machine));
      QUERN_CHECK(of_machine(
          missing, check_disk(config, *begins_with, folder, storage::free_bytes(folder))));
    }
    QUERN_TRY(task_book tasks, check_tasks(config));
    QUERN_CHECK(check_recorded(config, tasks.tasks(), folder));
    return tasks;
  }
  QUERN_CHECK(check_model(config, machine));
  QUERN_TRY(const policy::model_config model, policy_shape(config));
  QUERN_CHECK(of_machine(missing, check_disk(config, model, folder, storage::free_bytes(folder))));
  QUERN_TRY(task_book tasks, check_tasks(config));
  QUERN_CHECK(check_prompts(config, device_class, tasks.tasks(), folder));
  return tasks;
}

}  // namespace

base::expected<policy::model_config> policy_shape(const run_config& config) {
  if (is_sft(config)) return fresh_model(config, config.policy.vocabulary, 0);
  QUERN_TRY(const fs::path folder, model_folder(config));
  return policy::load_model_config(folder);
}

env::sandboxed_code sandboxed_code_of(const run_config& config) {
  const env::lane& lane = lane_of(config);
  if (!on_gpus(config)) return env::sandboxed_code::on_core;
  const bool any_host_code = config.env.host_entry || !lane.host_code_is_optional;
  return any_host_code ? env::sandboxed_code::host_code_on_gpu : env::sandboxed_code::on_gpu;
}

base::expected<task_book> preflight(const run_config& config, const fs::path& folder,
                                    run_beginning how, missing_hardware* missing,
                                    const policy::model_config* begins_with,
                                    const storage::file_system_probe& disks) {
  auto checked = check_all(config, folder, how, missing, begins_with, disks);
  if (checked) return checked;
  // Whatever the cause: it is the configuration, or the machine that it names, that must change.
  return fail(errc::invalid_argument, "{}", checked.error().message);
}

}  // namespace quern::actors
