// A Triton kernel that a candidate launches, as a value, and what its build is kept as.
#include "env/lanes/pytorch/build/triton_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/json.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

using base::errc;
using base::fail;

constexpr std::string_view artefact_mark = "quern_triton_kernel 1\ncontent ";
constexpr std::size_t hash_digits = 32;
constexpr std::size_t launch_key_digits = 64;
constexpr std::size_t most_triton_name = 512;
constexpr std::size_t most_note_bytes = 512;

struct reason_word {
  triton_reason reason;
  std::string_view name;
  std::string_view word;  ///< triton_recorder.py's
};
constexpr std::array<reason_word, 7> reason_words{
    {{triton_reason::none, "learnt", ""},
     {triton_reason::no_launch, "it launches no kernel", "no_launch"},
     {triton_reason::data_dependent, "the value of a tensor decides", "data_dependent"},
     {triton_reason::kernel_refused, "Triton refuses a kernel", "kernel_refused"},
     {triton_reason::limit, "too many or too large kernels", "limit"},
     {triton_reason::raised, "it raises", "raised"},
     {triton_reason::lost, "the process ended without a word", "lost"}}};

base::expected<triton_reason> triton_reason_of(std::string_view word) {
  for (const auto& one : reason_words)
    if (one.word == word && one.reason != triton_reason::lost) return one.reason;
  return fail(errc::invalid_argument, "a recording of Triton ends with the reason '{}'",
              word.substr(0, 80));
}

base::expected<triton_kernel> parse_triton_kernel(const base::json& object) {
  triton_kernel kernel;
  QUERN_TRY(kernel.name, base::get<std::string>(object, "name"));
  QUERN_TRY(kernel.launch_key, base::get<std::string>(object, "key"));
  QUERN_TRY(kernel.ttir, base::get<std::string>(object, "ttir"));
  const bool is_key = kernel.launch_key.size() == launch_key_digits &&
                      kernel.launch_key.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (kernel.name.size() > most_triton_name || !is_key)
    return fail(errc::invalid_argument,
                "'{}' is no kernel: a name of at most {} bytes and a key of {} hexadecimal digits",
                kernel.name.substr(0, 80), most_triton_name, launch_key_digits);
  if (kernel.ttir.size() > most_ttir_bytes)
    return fail(errc::invalid_argument, "kernel '{}' has {} bytes of TTIR, the limit is {}",
                kernel.name, kernel.ttir.size(), most_ttir_bytes);
  const auto signature = object.find("signature");
  const auto options = object.find("options");
  if (signature == object.end() || !signature->is_array() || options == object.end() ||
      !options->is_object())
    return fail(errc::invalid_argument,
                "kernel '{}' needs a list 'signature' and an object 'options'", kernel.name);
  kernel.signature = base::dump(*signature);
  kernel.options = base::dump(*options);
  return kernel;
}

base::status parse_triton_end(const base::json& object, triton_recording& recording) {
  QUERN_TRY(const auto word, base::get<std::string>(object, "reason"));
  QUERN_TRY(recording.reason, triton_reason_of(word));
  QUERN_TRY(recording.text, base::get<std::string>(object, "text"));
  recording.text.resize(std::min(recording.text.size(), most_triton_text));
  const auto notes = object.find("notes");
  if (notes == object.end() || !notes->is_array() || notes->size() > most_triton_notes)
    return fail(errc::invalid_argument, "'notes' must be a list of at most {} texts",
                most_triton_notes);
  for (const auto& note : *notes) {
    if (!note.is_string()) return fail(errc::invalid_argument, "'notes' must hold texts");
    recording.notes.push_back(note.get<std::string>().substr(0, most_note_bytes));
  }
  return {};
}

}  // namespace

std::string_view name_of(triton_reason reason) {
  for (const auto& one : reason_words)
    if (one.reason == reason) return one.name;
  return {};
}

base::expected<triton_recording> parse_triton_recording(std::string_view lines) {
  triton_recording recording;
  bool ended = false;
  for (const std::string_view line : base::split(lines, '\n')) {
    if (line.empty()) continue;
    if (ended) return fail(errc::invalid_argument, "a recording of Triton goes on behind its end");
    QUERN_TRY(const auto object, base::parse_json(line, 12));
    if (object.is_object() && object.size() == 1 && object.contains("kernel")) {
      if (recording.kernels.size() == most_triton_kernels)
        return fail(errc::invalid_argument, "more than {} kernels", most_triton_kernels);
      QUERN_TRY(recording.kernels.emplace_back(), parse_triton_kernel(object.at("kernel")));
      continue;
    }
    QUERN_CHECK(parse_triton_end(object, recording));
    ended = true;
  }
  return recording;
}

std::string triton_job(const triton_kernel& kernel) {
  base::json job{{"name", kernel.name}, {"ttir", kernel.ttir}};
  // Both were written by dump(), so they parse.
  job["signature"] = base::parse_json(kernel.signature).value_or(base::json::array());
  job["options"] = base::parse_json(kernel.options).value_or(base::json::object());
  return base::dump(job);
}

base::hash128 triton_kernel_key(const triton_kernel& kernel, const base::hash128& toolchain) {
  return base::hasher()
      .add("triton")
      .add(base::to_hex(toolchain))
      .add(kernel.ttir)
      .add(kernel.signature)
      .add(kernel.options)
      .digest();
}

std::string write_triton_artefact(const triton_artefact& artefact) {
  base::json head{{"launcher", base::to_hex(artefact.launcher)},
                  {"launcher_content", base::to_hex(artefact.launcher_content)}};
  head["triton"] = base::parse_json(artefact.metadata).value_or(base::json::object());
  std::string rest = base::dump(head) + "\n";
  rest += artefact.cubin;
  return fmt::format("{}{}\n{}", artefact_mark, base::to_hex(base::xxh128(rest)), rest);
}

base::expected<triton_artefact> read_triton_artefact(std::string_view file) {
  const std::size_t begin = artefact_mark.size() + hash_digits + 1;
  if (!file.starts_with(artefact_mark) || file.size() < begin || file[begin - 1] != '\n')
    return fail(errc::corrupt, "no artefact of a Triton kernel: {} bytes that begin otherwise",
                file.size());
  const std::string_view rest = file.substr(begin);
  const std::string found = base::to_hex(base::xxh128(rest));
  if (file.substr(artefact_mark.size(), hash_digits) != found)
    return fail(errc::corrupt,
                "the content of a Triton kernel has the hash {}, which is not its own", found);
  const std::size_t line = rest.find('\n');
  QUERN_TRY(const auto head, base::parse_json(rest.substr(0, line), 8));
  triton_artefact artefact;
  QUERN_TRY(const auto launcher, base::get<std::string>(head, "launcher"));
  QUERN_TRY(const auto content, base::get<std::string>(head, "launcher_content"));
  QUERN_TRY(artefact.launcher, base::parse_hash(launcher));
  QUERN_TRY(artefact.launcher_content, base::parse_hash(content));
  artefact.metadata = base::dump(head.value("triton", base::json::object()));
  artefact.cubin = line == rest.npos ? std::string_view() : rest.substr(line + 1);
  return artefact;
}

base::status check_cubin(std::string_view bytes) {
  // ELF64, little endian: machine at 18, flags at 48; the lowest byte of the flags is the number of
  // the architecture.
  constexpr std::size_t header_bytes = 64;
  constexpr std::uint16_t cuda_machine = 190;
  constexpr std::uint32_t wanted_architecture = 90;
  if (bytes.size() < header_bytes || !bytes.starts_with("\x7f"
                                                        "ELF\x02\x01"))
    return fail(errc::corrupt, "no cubin: {} bytes without the head of an ELF", bytes.size());
  std::uint16_t machine = 0;
  std::uint32_t flags = 0;
  std::memcpy(&machine, bytes.data() + 18, sizeof machine);
  std::memcpy(&flags, bytes.data() + 48, sizeof flags);
  if (machine != cuda_machine || (flags & 0xff) != wanted_architecture)
    return fail(errc::corrupt, "an ELF of machine {} with flags {:#x}: {} and sm_{} are needed",
                machine, flags, cuda_machine, wanted_architecture);
  return {};
}

}  // namespace quern::env
