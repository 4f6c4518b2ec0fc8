// Tasks of others: JSON records that people download, and the Python texts in them.
#include "env/lanes/pytorch/tasks/module_records.hpp"
#include "env/lanes/pytorch/tasks/python_outline.hpp"
#include "env/task/task_codec.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

namespace {

const env::lane& lane_of_modules() {
  for (const env::lane* one : env::all_lanes())
    if (one->body == &env::pytorch_format) return *one;
  std::abort();
}

void check_import(const env::python_module& module) {
  const auto task = env::import_module(lane_of_modules(), module, env::torch_precision::bf16);
  if (!task) {
    require(task.error().message.starts_with(module.origin), "an error begins with its origin");
    return;
  }
  require(env::validate(*task).has_value(), "an imported task is valid");
  const auto again = env::parse_task(env::to_yaml(*task));
  require(again.has_value() && *again == *task, "an imported task is read the same from its file");
  (void)task->body->words(*task);
  (void)task->body->check_texts(*task);
}

}  // namespace

QUERN_FUZZ(text) {
  const env::python_outline outline = env::outline_of(text);
  for (const auto& [name, value] : outline.sizes)
    require(text.find(value) != std::string_view::npos && outline.defines(name),
            "a size stands in the text, and its name is defined");
  check_import({std::string(text), "a text", "A title", "family", std::nullopt});

  const auto records = env::parse_module_records(text, "x.json");
  if (!records) {
    require(!records.error().message.empty(), "an error has a message");
    return;
  }
  for (const env::module_record& one : *records) {
    require(one.module.origin.starts_with("x.json"), "a record names its file");
    check_import(one.module);
  }
}
