// What does not depend on the candidate.
#include "env/lanes/pytorch/module_task.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "env/lanes/pytorch/module_expectations.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr question_limits load_limits{60, 240};
constexpr question_limits describe_limits{120, 480};

/// Before memory is taken: sizes by tensors without values, where the module can be described by
/// them.
base::status check_size_ahead(python_child& reference, const module_making& making) {
  const auto text = reference.describe_without_values(making, describe_limits);
  if (!text) return {};
  const auto sheet = parse_module_sheet(*text);
  if (!sheet) return {};
  const auto at = instance_of(*sheet);
  return at ? check_size_of(*sheet, *at) : base::status();
}

}  // namespace

base::status check_needs_of(const task& subject) {
  for (const torch_need& need : pytorch_of(subject).needs)
    if (need.need_kind == torch_need::kind::weights)
      return base::fail(base::errc::exhausted, "needs {}, which no host of this device class has",
                        to_text(need));
  return {};
}

base::status check_use_of(const module_sheet& sheet, bool degenerate) {
  const bool has_tensors = std::any_of(sheet.arguments.begin(), sheet.arguments.end(),
                                       [](const auto& one) { return one.value.empty(); });
  if (!sheet.repeats)
    return base::fail(
        base::errc::invalid_argument,
        "the reference gives two results for one input: what a call leaves behind may be in "
        "buffers, and in tensors, numbers and texts that its modules have as attributes, and "
        "random "
        "numbers may be those of torch, random and numpy. Keep to these, so that it can be judged");
  if (sheet.draws && !has_tensors)
    return base::fail(base::errc::invalid_argument,
                      "the reference draws random numbers in forward and takes no tensor: numbers "
                      "are seeded by the inputs of a call. Give get_inputs a tensor");
  // Numbers and texts are the same in every call. Results of one that keeps state are others.
  if (!has_tensors && !sheet.keeps_state && !degenerate)
    return base::fail(base::errc::invalid_argument,
                      "get_inputs gives no tensor, so that every call has the same result and a "
                      "stored result would be right. Give it a tensor that is drawn by torch's "
                      "generator, or mark the task degenerate");
  return {};
}

base::expected<module_weights> weights_of(python_child& reference, const module_sheet& sheet) {
  QUERN_TRY(const auto written, make_weights(sheet, memory_use::outputs));
  if (const auto answered = reference.write_weights(written, reference_limits); !answered)
    return tl::make_unexpected(reference_error(answered.error()));
  QUERN_TRY(auto kept, make_weights(sheet, memory_use::inputs));
  std::ranges::copy(written.file.bytes(), kept.file.bytes().begin());
  return kept;
}

base::status check_size_of(const module_sheet& sheet, const task_instance& at) {
  QUERN_TRY(const auto weights, weight_layouts(sheet));
  std::int64_t bytes = 0;
  for (const auto* list : {&at.inputs, &at.outputs, &weights})
    for (const tensor_layout& one : *list)
      bytes += one.bytes;
  if (bytes <= most_call_bytes) return {};
  return base::fail(
      base::errc::exhausted,
      "inputs, results and weights have {} MiB, on a core at most {}: no core can judge it",
      bytes >> 20, most_call_bytes >> 20);
}

base::expected<text_file> write_module(std::string_view name, const std::string& text) {
  QUERN_TRY(auto folder, base::temp_folder::make_held("quern-module"));
  const fs::path path = folder.path() / name;
  QUERN_CHECK(base::write_file_atomic(path, text));
  // Children are other users.
  std::error_code failed;
  fs::permissions(folder.path(),
                  fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec, failed);
  if (!failed)
    fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read,
                    failed);
  if (failed)
    return base::fail(base::errc::io, "making {} readable: {}", path.string(), failed.message());
  return text_file{std::move(folder), path};
}

base::expected<python_child> loaded_reference(python_zygote& zygote, const std::string& path,
                                              int core) {
  python_start how;
  how.core = core;
  how.read_only = {path};
  QUERN_TRY(auto child, zygote.fork(how));
  if (const auto loaded = child.load(path, load_limits); !loaded)
    return tl::make_unexpected(reference_error(loaded.error()));
  return child;
}

base::expected<described_module> describe_module(std::shared_ptr<const task> subject,
                                                 python_zygote& zygote, std::uint64_t input_seed) {
  QUERN_CHECK(validate(*subject));
  QUERN_CHECK(check_needs_of(*subject));
  QUERN_TRY(auto file, write_module("reference.py", subject->reference));
  QUERN_TRY(auto child, loaded_reference(zygote, file.path.string(), -1));
  base::random_stream numbers(input_seed, "weights of a module");
  const module_making making{std::string(name_of(pytorch_of(*subject).precision)),
                             numbers.next_u64() >> 2};
  QUERN_CHECK(check_size_ahead(child, making));
  const auto text = child.describe(making, describe_limits);
  if (!text) return tl::make_unexpected(reference_error(text.error()));
  QUERN_TRY(auto sheet, parse_module_sheet(*text));
  QUERN_TRY(auto at, instance_of(sheet));
  QUERN_CHECK(check_size_of(sheet, at));
  QUERN_TRY(auto weights, weights_of(child, sheet));

  auto made = std::make_unique<module_task>(std::move(file.folder), std::move(weights));
  made->subject = std::move(subject);
  made->id = task_id(*made->subject);
  made->reference = file.path;
  made->sheet = std::move(sheet);
  made->making = making;
  made->timed.instance = std::move(at);
  return described_module{std::move(made), std::move(child)};
}

std::unique_ptr<module_content> content_of(const module_task& of, python_child process,
                                           std::uint64_t input_seed) {
  return std::make_unique<module_content>(std::move(process), of.timed.instance,
                                          base::hasher().add(input_seed).add(of.id).digest().low);
}

base::expected<std::unique_ptr<module_task>> prepare_module(std::shared_ptr<const task> subject,
                                                            python_zygote& zygote,
                                                            std::uint64_t input_seed,
                                                            core_peak& peak) {
  QUERN_TRY(auto described, describe_module(std::move(subject), zygote, input_seed));
  auto& [made, child] = described;
  QUERN_CHECK(check_use_of(made->sheet, made->subject->degenerate));
  made->floor_ns =
      roofline_floor_ns(made->timed.instance, peak.at(made->timed.instance.cost_bytes, false));

  QUERN_TRY(auto source, loaded_reference(zygote, made->reference.string(), -1));
  if (const auto again = source.describe(made->making, describe_limits); !again)
    return tl::make_unexpected(reference_error(again.error()));
  made->content = content_of(*made, std::move(source), input_seed);
  QUERN_CHECK(draw_contents(*made));
  QUERN_CHECK(expect(*made, child));
  made->bytes = bytes_of(made->timed) + made->weights.file.bytes().size();
  return std::move(made);
}

base::expected<std::unique_ptr<module_process>> fresh_reference(const module_task& of,
                                                                python_zygote& zygote, int core) {
  QUERN_TRY(auto child, loaded_reference(zygote, of.reference.string(), core));
  auto process = std::make_unique<module_process>(zygote, std::move(child));
  const auto made = process->child().construct(of.making, of.sheet, of.weights, describe_limits);
  if (!made) return tl::make_unexpected(reference_error(made.error()));
  return process;
}

}  // namespace quern::env
