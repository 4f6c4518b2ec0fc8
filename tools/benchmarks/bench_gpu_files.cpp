// Lists of candidates from their manifests, and evaluators for them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "env/task/task_codec.hpp"
#include "tools/benchmarks/bench_gpu.hpp"

namespace quern::tools {
namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench_gpu: %s\n", why.c_str());
  std::exit(2);
}

std::shared_ptr<const env::task> task_at(const std::string& path) {
  static std::map<std::string, std::shared_ptr<const env::task>> known;
  auto& found = known[path];
  if (!found) {
    auto loaded = env::load_task(path);
    if (!loaded) give_up(loaded.error().message);
    found = std::make_shared<const env::task>(std::move(*loaded));
  }
  return found;
}

std::string read_source(const std::string& path) {
  auto text = base::read_file(path, 1U << 20U);
  if (!text) give_up(text.error().message);
  return *text;
}

base::json read_manifest(const std::string& path) {
  auto value = base::parse_json(read_source(path));
  if (!value) give_up(path + ": " + value.error().message);
  return *value;
}

std::vector<std::string> texts_of(const base::json& list) {
  std::vector<std::string> texts;
  for (const auto& one : list)
    texts.push_back(one.get<std::string>());
  return texts;
}

/// The verdicts of a setting that are right: the wanted one, or those of a race.
std::vector<std::string> right_in(const base::json& candidate, const char* setting) {
  const auto& want = candidate.at("want");
  if (want.contains(setting)) return {want.at(setting).get<std::string>()};
  const auto race = candidate.value("race", base::json::object());
  return race.contains(setting) ? texts_of(race.at(setting)) : std::vector<std::string>();
}

bool is_in_list(const gpu_bench_options& o, const candidate_file& f) {
  return (o.form.empty() || f.form == o.form) && is_asked_for(o, f.file);
}

}  // namespace

bool is_asked_for(const gpu_bench_options& o, const std::string& name) {
  if (o.only.empty()) return true;
  const auto parts = base::split(o.only, ',');
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

std::vector<candidate_file> honest_files(const gpu_bench_options& o) {
  const std::string folder = o.source + "/tests/honest/cuda/";
  std::vector<candidate_file> list;
  const auto manifest = read_manifest(folder + "manifest.json");
  for (const auto& c : manifest.at("candidates")) {
    candidate_file f;
    f.file = c.at("file").get<std::string>();
    f.form = c.at("form").get<std::string>();
    const auto suite = c.at("suite").get<std::string>();
    if ((!o.suite.empty() && suite != o.suite) || !is_in_list(o, f)) continue;
    f.right = {c.at("expected").get<std::string>()};
    f.also_as_host_entry = f.form == "device_only";
    f.request.subject = task_at(o.source + "/env/suites/" + suite + "/" +
                                c.at("task").get<std::string>() + ".task.yaml");
    f.request.source = read_source(folder + f.file);
    f.request.recheck_above = 3;
    const auto needs = c.value("needs", std::vector<std::string>());
    if (std::find(needs.begin(), needs.end(), "library_calls") != needs.end())
      f.request.policy = env::suite_policy{.library_calls = true, .graphs = true};
    list.push_back(std::move(f));
  }
  return list;
}

std::vector<candidate_file> hostile_files(const gpu_bench_options& o) {
  const std::string folder = o.source + "/tests/hostile/cuda/";
  std::vector<candidate_file> list;
  const auto manifest = read_manifest(folder + "manifest.json");
  for (const auto& c : manifest.at("candidates")) {
    // Clocks, power limits, modes: never on a device that others use, too.
    if (c.contains("touches_device_settings")) continue;
#if !defined(__x86_64__)
    if (c.value("only", "") == "x86_64") continue;
#endif
    candidate_file f;
    f.file = c.at("file").get<std::string>();
    f.form = c.at("form").get<std::string>();
    if (!is_in_list(o, f)) continue;
    f.hostile = true;
    f.legal = c.value("legal", false);
    f.compiles = c.value("compiles", true);
    f.also_as_host_entry = c.value("also_as_host_entry", false);
    f.right_as_host = right_in(c, "as_host");
    f.right = right_in(c, o.screen ? "screen" : "no_screen");
    f.twin = c.value("twin", "");
    f.pays_at_most_e2 = c.value("pays_at_most_e2", std::int64_t{0});
    f.request.subject = task_at(folder + c.at("task").get<std::string>());
    f.request.source = read_source(folder + f.file);
    f.request.recheck_above = 3;
    list.push_back(std::move(f));
  }
  return list;
}

std::vector<candidate_file> as_host_entry(std::vector<candidate_file> list) {
  std::vector<candidate_file> taken;
  for (auto& f : list) {
    if (!f.also_as_host_entry) continue;
    f.form = "as_host";
    f.request.as_host_entry = true;
    if (f.hostile) f.right = f.right_as_host;
    taken.push_back(std::move(f));
  }
  return taken;
}

std::string short_verdict(const env::verdict& v) {
  std::string text(env::name_of(v.kind));
  if (!v.reason.empty()) text += ":" + v.reason;
  return text;
}

bool is_right(const env::verdict& v, const std::vector<std::string>& right) {
  const std::string whole = short_verdict(v), kind(env::name_of(v.kind));
  return std::any_of(right.begin(), right.end(),
                     [&](const std::string& r) { return r == whole || r == kind; });
}

std::string marked_source(const std::string& source, const std::string& mark) {
  // A directive needs a line of its own.
  const bool directive = source.find_first_not_of(" \t") != std::string::npos &&
                         source[source.find_first_not_of(" \t")] == '#';
  return fmt::format("constexpr int {} = 0;{}", mark, directive ? "\n" : " ") + source;
}

std::unique_ptr<env::cuda_evaluator> open_evaluator(const gpu_bench_options& o, int gpu,
                                                    double budget_s, double precision) {
  env::evaluator_options opening;
  opening.gpu = gpu;
  opening.time_budget_s = budget_s;
  if (precision >= 0) opening.precision = precision;
  opening.static_screen = o.screen;
  opening.sandbox_required = !o.best_effort;
  opening.confirm_at_once = o.what != "rate";
  opening.remeasure_probability = 0;
  if (o.no_sandbox) opening.layers = env::layer_set();
  auto with = env::cuda_evaluator::open(opening);
  if (!with) {
    std::fprintf(stderr, "bench_gpu: %s\n", with.error().message.c_str());
    std::exit(1);
  }
  std::printf("%s, environment %s\n", (*with)->device_class().c_str(),
              (*with)->environment().c_str());
  (*with)->warm_up();
  return std::move(*with);
}

std::unique_ptr<env::cuda_evaluator> open_evaluator(const gpu_bench_options& o) {
  return open_evaluator(o, o.gpus.front(), o.budget_s, -1);
}

build_ahead::build_ahead(env::cuda_evaluator& with,
                         const std::vector<env::evaluation_request>& list, int threads,
                         std::vector<std::size_t> first)
    : evaluator_(with), list_(list), taken_(list.size(), 0) {
  for (const std::size_t i : first) {
    taken_[i] = 1;
    threads_.emplace_back([this, i] { evaluator_.compile_ahead(list_[i]); });
  }
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([this] { work(); });
}

build_ahead::~build_ahead() {
  stop_ = true;
  for (auto& t : threads_)
    t.join();
}

void build_ahead::work() {
  constexpr std::size_t most_ahead = 48;
  for (std::size_t i = next_++; i < list_.size() && !stop_; i = next_++) {
    if (taken_[i] != 0) continue;
    while (i > turn_ + most_ahead && !stop_)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!stop_) evaluator_.compile_ahead(list_[i]);
  }
}

}  // namespace quern::tools
