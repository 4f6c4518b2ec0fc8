// What a candidate's process recorded of its Triton kernels, and the artefacts that processes of
// compilers leave: a file of the cache, and machine code.
#include <vector>

#include "base/json.hpp"
#include "env/lanes/pytorch/build/triton_kernel.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

namespace {

void judge_kernel(const env::triton_kernel& kernel) {
  require(kernel.ttir.size() <= env::most_ttir_bytes, "a kernel is bounded");
  require(kernel.launch_key.size() == 64 &&
              kernel.launch_key.find_first_not_of("0123456789abcdef") == std::string::npos,
          "a key names no folder");
  // The job of the compiler has what was recorded, in the same form.
  const auto job = base::parse_json(env::triton_job(kernel));
  require(job && job->at("name") == kernel.name && job->at("ttir") == kernel.ttir,
          "a job has the kernel's text");
  require(base::dump(job->at("signature")) == kernel.signature &&
              base::dump(job->at("options")) == kernel.options,
          "a job has the kernel's types and options");
}

void judge_recording(std::string_view text) {
  const auto recording = env::parse_triton_recording(text);
  if (!recording) {
    require(recording.error().code == base::errc::invalid_argument, "what is wrong is the answer");
    require(!recording.error().message.empty(), "an error has a message");
    return;
  }
  require(recording->kernels.size() <= env::most_triton_kernels, "kernels are bounded");
  require(recording->notes.size() <= env::most_triton_notes, "notes are bounded");
  require(recording->text.size() <= env::most_triton_text, "the text is bounded");
  require(!env::name_of(recording->reason).empty(), "a reason has a name");
  const base::hash128 tools;
  std::vector<base::hash128> keys;
  for (const env::triton_kernel& one : recording->kernels) {
    judge_kernel(one);
    keys.push_back(env::triton_kernel_key(one, tools));
  }
  for (std::size_t i = 1; i < keys.size(); ++i) {
    auto named = recording->kernels[i];
    named.name = recording->kernels[0].name;
    named.launch_key = recording->kernels[0].launch_key;
    require((keys[i] == keys[0]) == (named == recording->kernels[0]),
            "what is compiled alone decides the key");
  }
}

void judge_artefact(std::string_view file) {
  const auto artefact = env::read_triton_artefact(file);
  if (!artefact) return;
  const std::string written = env::write_triton_artefact(*artefact);
  const auto again = env::read_triton_artefact(written);
  require(again && again->launcher == artefact->launcher &&
              again->launcher_content == artefact->launcher_content &&
              again->metadata == artefact->metadata && again->cubin == artefact->cubin,
          "what was written is read the same");
}

}  // namespace

QUERN_FUZZ(text) {
  judge_recording(text);
  judge_artefact(text);
  // No mutation finds a hash: the same bytes behind their own.
  judge_artefact("quern_triton_kernel 1\ncontent " + base::to_hex(base::xxh128(text)) + "\n" +
                 std::string(text));
  if (const auto checked = env::check_cubin(text); !checked)
    require(checked.error().code == base::errc::corrupt, "what is wrong is the file");
}
