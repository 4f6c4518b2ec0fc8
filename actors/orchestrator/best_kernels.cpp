#include "actors/orchestrator/best_kernels.hpp"

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/measured_as.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "env/task/task_codec.hpp"

namespace quern::actors {
namespace {

namespace fs = std::filesystem;

base::status write_suite(const fs::path& folder, const std::vector<const book_task*>& tasks) {
  std::string held_out;
  for (const book_task* task : tasks) {
    const std::string& name = task->task->name;
    QUERN_CHECK(base::write_file_atomic(folder / (name + ".task.yaml"), env::to_yaml(*task->task)));
    if (task->held_out) held_out += (held_out.empty() ? "" : ", ") + name;
  }
  return base::write_file_atomic(
      folder / "suite.yaml",
      fmt::format("quern_suite: 1\nsplit: {{by: task, held_out: [{}]}}\n", held_out));
}

/// The fastest kernel of a task that a sample of the run was, with its verdict.
base::expected<std::optional<evaluation_set::kernel>> best_sample(const kernel_sources& from,
                                                                  const storage::variant_key& key) {
  QUERN_TRY(const auto best, from.archive->best(key, INT64_MAX, storage::variants_of::the_policy));
  if (!best) return std::optional<evaluation_set::kernel>();
  evaluation_set::kernel found;
  found.speedup_e2 = best->speedup_e2.value_or(0);
  auto text = from.archive->text(*best);
  if (!text) {
    // The run's end does not hang on one file; an answer of the closing comparison may stand in.
    base::log_warn("kernels", "the best kernel of {} cannot be read and is left out: {}", key.task,
                   text.error().message);
    return std::optional<evaluation_set::kernel>();
  }
  found.source = std::move(*text);
  if (best->verdict_id) {
    QUERN_TRY(const auto verdict, from.ledger->verdict(*best->verdict_id));
    found.verdict = verdict.row.json;
  }
  return std::optional(std::move(found));
}

}  // namespace

base::expected<std::vector<kept_kernel>> write_best_kernels(const fs::path& folder,
                                                            const run_config& config,
                                                            const task_book& tasks,
                                                            const kernel_sources& from) {
  QUERN_CHECK(base::make_folders(folder));
  const std::string_view ending = lane_of(config).file_ending;
  std::vector<kept_kernel> written;
  std::vector<const book_task*> generated;
  for (const book_task& task : tasks.tasks()) {
    QUERN_TRY(auto best, best_sample(from, {task.id, from.device_class, measured_as(config)}));
    const auto answer = from.measured ? from.measured->best(task.id) : std::nullopt;
    if (answer && (!best || answer->speedup_e2 > best->speedup_e2)) best = answer;
    if (!best) continue;
    const fs::path file = folder / task.task->name;
    QUERN_CHECK(base::write_file_atomic(file.string() + std::string(ending), best->source));
    if (!best->verdict.empty()) {
      QUERN_CHECK(base::write_file_atomic(file.string() + ".verdict.json", best->verdict + "\n"));
    }
    written.push_back({task.task->name, task.held_out, best->speedup_e2, best->verdict});
    if (config.tasks.source == "generated") generated.push_back(&task);
  }
  if (!generated.empty()) QUERN_CHECK(write_suite(folder, generated));
  return written;
}

}  // namespace quern::actors
