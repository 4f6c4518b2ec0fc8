// What models of tasks are called with.
#include "env/lanes/pytorch/task_sheets.hpp"

#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

constexpr question_limits of_sheets{60, 120};

base::error error_of(const runner_failure& why) {
  return {base::errc::unavailable, "a reference on tensors without memory: " + why.text};
}

}  // namespace

std::shared_ptr<task_sheets::entry> task_sheets::entry_of(const task& subject) {
  const std::lock_guard lock(guard_);
  const std::string id = task_id(subject);
  if (const auto* there = entries_.find(id)) return *there;
  return entries_.add(id, std::make_shared<entry>());
}

base::expected<module_sheet> task_sheets::of(const task& subject) {
  const auto one = entry_of(subject);
  const std::lock_guard lock(one->guard);
  if (!one->sheet) one->sheet = describe(subject);
  return *one->sheet;
}

std::optional<module_sheet> task_sheets::known(const task& subject) {
  const auto one = entry_of(subject);
  const std::unique_lock lock(one->guard, std::try_to_lock);
  if (!lock || !one->sheet || !*one->sheet) return std::nullopt;
  return **one->sheet;
}

base::expected<module_sheet> task_sheets::describe(const task& subject) {
  QUERN_TRY(const auto file, write_module("reference.py", subject.reference));
  python_start how;
  how.read_only = {file.path.string()};
  QUERN_TRY(auto child, python_.fork(how));
  if (const auto loaded = child.load(file.path.string(), of_sheets); !loaded)
    return tl::make_unexpected(error_of(loaded.error()));
  const module_making making{std::string(name_of(pytorch_of(subject).precision)), 1};
  const auto text = child.describe_without_values(making, of_sheets);
  if (!text) return tl::make_unexpected(error_of(text.error()));
  return parse_module_sheet(*text);
}

}  // namespace quern::env
