// What the forked processes of lane `pytorch` answer: the sheet of a module, and the extensions
// that a candidate asked for. They ran a text of somebody else.
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/runner/protocol.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

namespace {

void judge_layouts(std::span<const env::tensor_layout> layouts, bool may_be_empty) {
  for (const env::tensor_layout& one : layouts) {
    require(one.elements >= (may_be_empty ? 0 : 1), "a tensor has elements");
    require(one.bytes == one.elements * static_cast<std::int64_t>(env::size_of(one.type)),
            "bytes are those of its elements");
    require(one.bytes <= env::max_tensor_bytes, "a tensor is bounded");
    require(one.shape.size() <= 8, "a shape is bounded");
  }
}

void judge_sheet(std::string_view text) {
  const auto sheet = env::parse_module_sheet(text);
  if (!sheet) {
    require(!sheet.error().message.empty(), "an error has a message");
    return;
  }
  require(sheet->arguments.size() + sheet->outputs.size() <= env::runner::max_tensors,
          "arguments and results are bounded");
  require(!sheet->outputs.empty(), "a module gives something");
  require(sheet->weights.size() <= env::max_module_weights, "weights are bounded");
  if (const auto at = env::instance_of(*sheet)) {
    judge_layouts(at->inputs, false);
    judge_layouts(at->outputs, false);
    require(at->outputs.size() == sheet->outputs.size(), "each result has a layout");
  }
  if (const auto weights = env::weight_layouts(*sheet)) {
    judge_layouts(*weights, true);
    require(weights->size() == sheet->weights.size(), "each weight has a layout");
  }
  require(env::arguments_json(*sheet).size() == sheet->arguments.size(), "no argument is lost");
  require(env::weights_json(*sheet).size() == sheet->weights.size(), "no weight is lost");
}

void judge_recorded(std::string_view text) {
  if (const auto recording = env::parse_extension_recording(text)) {
    require(recording->requests.size() <= 16, "extensions are bounded");
    require(std::ssize(recording->text) <= env::most_recording_text, "the text is bounded");
  }
  if (const auto recording = env::parse_recorded_extensions(text)) {
    require(recording->requests.size() <= 16, "extensions are bounded");
    require(recording->ending != env::extension_recording::end::lost, "an answer has an end");
    require(std::ssize(recording->text) <= env::most_recording_text, "the text is bounded");
  }
}

}  // namespace

QUERN_FUZZ(text) {
  judge_sheet(text);
  judge_recorded(text);
}
