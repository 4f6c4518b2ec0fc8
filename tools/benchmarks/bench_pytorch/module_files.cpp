#include "tools/benchmarks/bench_pytorch/module_files.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t least_reason = 20;  ///< characters of a sentence
constexpr std::size_t longest_module = std::size_t{1} << 20;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& one : words)
    text += (text.empty() ? "" : ", ") + one;
  return text;
}

/// "a, b" as its words.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string_view part : base::split(text, ','))
    if (const auto word = base::trim(part); !word.empty()) words.emplace_back(word);
  return words;
}

base::expected<std::vector<fs::path>> python_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error))
    if (item.path().extension() == ".py") files.push_back(item.path());
  if (error || files.empty())
    return base::fail(base::errc::not_found, "{} has no *.py: name the source tree by --source",
                      folder.string());
  std::sort(files.begin(), files.end());
  return files;
}

base::expected<headed_text> read_headed(const fs::path& file, const std::vector<std::string>& keys,
                                        const std::vector<std::string>& needed) {
  QUERN_TRY(const auto text, base::read_file(file, longest_module));
  return parse_headed(file.string(), text, keys, needed);
}

/// The value of a key that is one of `allowed`; `usual` where the head does not have it.
base::expected<std::string> choice(const fs::path& file, const headed_text& of,
                                   const std::string& key, const std::vector<std::string>& allowed,
                                   const std::string& usual) {
  const auto found = of.head.find(key);
  const std::string value = found == of.head.end() ? usual : found->second;
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  return base::fail(base::errc::invalid_argument, "{}: {}: {} is none of {}", file.string(), key,
                    value, joined(allowed));
}

std::string value_of(const headed_text& of, const std::string& key) {
  const auto found = of.head.find(key);
  return found == of.head.end() ? std::string() : found->second;
}

std::string with_places(std::string text, const hostile_places& places) {
  const auto put = [&](std::string_view place, const std::string& value) {
    for (auto at = text.find(place); at != std::string::npos; at = text.find(place, at))
      text.replace(at, place.size(), value);
  };
  put("{folder}", places.folder);
  put("{port}", std::to_string(places.port));
  return text;
}

base::expected<honest_module> honest_of(
    const fs::path& file, std::map<std::string, std::shared_ptr<const env::task>>& tasks) {
  QUERN_TRY(const auto read,
            read_headed(file, {"task", "style", "device", "verdict"}, {"task", "style", "device"}));
  QUERN_TRY(const auto device, choice(file, read, "device", {"core", "gpu"}, ""));
  QUERN_TRY(const auto right, choice(file, read, "verdict", {"ok", "unsupported"}, "ok"));
  honest_module one;
  one.name = file.stem().string();
  one.style = value_of(read, "style");
  one.on_cores = device == "core";
  one.is_supported = right == "ok";
  one.source = read.text;
  const std::string name = value_of(read, "task");
  auto& subject = tasks[name];
  if (!subject) {
    const fs::path reference = file.parent_path() / "tasks" / (name + ".py");
    QUERN_TRY(const auto text, base::read_file(reference, longest_module));
    QUERN_TRY(subject, module_task_of(name, text));
  }
  one.subject = subject;
  return one;
}

/// What is hostile says what holds it, or why nothing can show that.
base::status check_proof(const fs::path& file, const hostile_module& one) {
  const bool has_control = !one.without.empty() || !one.without_on_gpu.empty();
  const bool needs_proof = one.kind == "hostile" && !one.is_known_gap;
  if (has_control && !one.exempt.empty())
    return base::fail(base::errc::invalid_argument,
                      "{}: exempt: it has a control: leave one of them out", file.string());
  if (needs_proof && !has_control && one.exempt.size() < least_reason)
    return base::fail(base::errc::invalid_argument,
                      "{}: exempt: {} characters, where a hostile module without \"without\" and "
                      "\"on a GPU without\" says in at least {} why it has no control",
                      file.string(), one.exempt.size(), least_reason);
  return {};
}

base::expected<hostile_module> hostile_of(const fs::path& file, const hostile_places& places) {
  QUERN_TRY(const auto read,
            read_headed(file,
                        {"attempt", "kind", "device", "caught", "said", "reason", "without",
                         "on a GPU without", "exempt", "timed", "gap", "size"},
                        {"attempt", "kind", "caught"}));
  QUERN_TRY(const auto device, choice(file, read, "device", {"core", "gpu", "both"}, "both"));
  QUERN_TRY(const auto timed, choice(file, read, "timed", {"yes", "no"}, "no"));
  QUERN_TRY(const auto size, choice(file, read, "size", {"small", "usual"}, "usual"));
  QUERN_TRY(const auto gap, choice(file, read, "gap", {"yes", "no"}, "no"));
  hostile_module one;
  QUERN_TRY(one.kind,
            choice(file, read, "kind", {"wrong", "malformed", "hostile", "reaching"}, ""));
  one.name = file.stem().string();
  one.attempt = value_of(read, "attempt");
  one.on_cores = device != "gpu";
  one.on_gpus = device != "core";
  one.only_timed = timed == "yes";
  one.is_small = size == "small";
  one.is_known_gap = gap == "yes";
  for (const std::string& word : words_of(value_of(read, "caught"))) {
    const auto kind = env::parse_verdict_kind(word);
    if (!kind)
      return base::fail(base::errc::invalid_argument, "{}: caught: {} is no kind of a verdict",
                        file.string(), word);
    one.caught.push_back(*kind);
  }
  one.said = value_of(read, "said");
  one.reason = value_of(read, "reason");
  one.without = words_of(value_of(read, "without"));
  one.without_on_gpu = words_of(value_of(read, "on a GPU without"));
  one.exempt = value_of(read, "exempt");
  QUERN_CHECK(check_proof(file, one));
  one.source = with_places(read.text, places);
  return one;
}

}  // namespace

base::expected<headed_text> parse_headed(std::string_view name, std::string_view text,
                                         const std::vector<std::string>& keys,
                                         const std::vector<std::string>& needed) {
  headed_text found;
  while (text.starts_with("# ")) {
    const std::string_view line = text.substr(2, text.find('\n') - 2);
    const auto colon = line.find(": ");
    const std::string key(line.substr(0, colon));
    if (colon == std::string_view::npos || std::find(keys.begin(), keys.end(), key) == keys.end())
      break;
    if (!found.head.emplace(key, base::trim(line.substr(colon + 2))).second)
      return base::fail(base::errc::invalid_argument, "{}: {} is given twice: leave one out", name,
                        key);
    const auto end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  for (const std::string& key : needed)
    if (!found.head.contains(key))
      return base::fail(base::errc::invalid_argument,
                        "{}: its head has no {}; it is comments \"# key: value\" in the first "
                        "lines, with {}",
                        name, key, joined(keys));
  found.text = std::string(text);
  return found;
}

base::expected<std::shared_ptr<const env::task>> module_task_of(std::string_view name,
                                                                std::string_view text) {
  QUERN_TRY(auto read, parse_headed(name, text, {"precision"}, {}));
  auto body = std::make_shared<env::pytorch_body>();
  if (const auto given = read.head.find("precision"); given != read.head.end()) {
    const auto precision = env::parse_precision(given->second);
    if (!precision)
      return base::fail(base::errc::invalid_argument,
                        "{}: precision: {} is none of fp32, fp16, bf16", name, given->second);
    body->precision = *precision;
  }
  auto made = std::make_shared<env::task>();
  made->name = name;
  made->lane = &env::pytorch_lane;
  made->family = "bench";
  made->tolerance = env::usual_tolerance(body->precision);
  made->reference = std::move(read.text);
  made->body = std::move(body);
  if (auto fine = env::validate(*made); !fine)
    return base::in_context(name, std::move(fine.error()));
  return std::shared_ptr<const env::task>(std::move(made));
}

base::expected<std::vector<honest_module>> read_honest_modules(const fs::path& tree) {
  QUERN_TRY(const auto files, python_files(tree / "tests/honest/pytorch"));
  std::map<std::string, std::shared_ptr<const env::task>> tasks;
  std::vector<honest_module> all;
  for (const fs::path& file : files) {
    QUERN_TRY(auto one, honest_of(file, tasks));
    all.push_back(std::move(one));
  }
  return all;
}

base::expected<std::vector<hostile_module>> read_hostile_modules(const fs::path& tree,
                                                                 const hostile_places& places) {
  QUERN_TRY(const auto files, python_files(tree / "tests/hostile/pytorch"));
  std::vector<hostile_module> all;
  for (const fs::path& file : files) {
    QUERN_TRY(auto one, hostile_of(file, places));
    all.push_back(std::move(one));
  }
  return all;
}

bool is_own_fault(env::verdict_kind kind) {
  using enum env::verdict_kind;
  static constexpr std::array own{compile_error, runtime_error, timeout,
                                  oom,           wrong_shape,   wrong_dtype,
                                  wrong_value,   hack,          nondeterministic};
  return std::find(own.begin(), own.end(), kind) != own.end();
}

}  // namespace quern::tools
