// What bench_pytorch makes of its command line, of files of candidates and of verdicts on hostile
// ones. Nothing is judged here.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/test.hpp"
#include "tools/benchmarks/bench_modules_tasks.hpp"
#include "tools/benchmarks/bench_pytorch/hostile_list.hpp"
#include "tools/benchmarks/bench_pytorch/kernelbench_beside.hpp"
#include "tools/benchmarks/bench_pytorch/rate_list.hpp"
#include "tools/benchmarks/bench_pytorch/self_figures.hpp"

using namespace quern;
using env::verdict_kind;
using tools::trial_end;
namespace fs = std::filesystem;

namespace {

env::verdict verdict_of(verdict_kind kind, std::int64_t speedup_e2 = 0) {
  env::verdict v;
  v.kind = kind;
  if (speedup_e2 > 0) v.speedup_e2 = speedup_e2;
  return v;
}

struct program_end {
  int code = -1;
  std::string said;
};

program_end run_bench(const std::string& program, std::vector<std::string> arguments) {
  const auto folder = base::temp_folder::make("quern-bench-pytorch");
  REQUIRE(folder);
  base::subprocess_spec spec;
  spec.argv = {(test::program_dir() / program).string()};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.log = folder->path() / "log";
  auto child = base::subprocess::start(spec);
  REQUIRE(child);
  const auto end = child->wait(60'000'000'000);
  REQUIRE(end);
  return {end->code, base::read_file(spec.log, 1U << 20U).value_or("")};
}

const char* const task_text =
    "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x "
    "+ "
    "1\n\n\ndef get_inputs():\n    return [torch.rand(8)]\n";
const char* const candidate_text =
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return "
    "1 + x\n";

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  REQUIRE(base::write_file_atomic(file, text));
}

}  // namespace

TEST_CASE(
    "a hostile candidate is accepted where it is ok and may not be, and told where it claims a "
    "gain") {
  tools::hostile_module one;
  one.caught = {verdict_kind::wrong_value};
  CHECK(end_of_trial(one, verdict_of(verdict_kind::wrong_value), false) == trial_end::caught);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::runtime_error), false) ==
        trial_end::other_catch);
  // Files name the verdicts of a core.
  CHECK(end_of_trial(one, verdict_of(verdict_kind::runtime_error), true) == trial_end::caught);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::ok), true) == trial_end::accepted);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::ok, 100), true) == trial_end::accepted);
  for (const auto kind : {verdict_kind::noisy, verdict_kind::infra_error, verdict_kind::unsupported,
                          verdict_kind::invalid_reference, verdict_kind::unconfirmed})
    CHECK(end_of_trial(one, verdict_of(kind), true) == trial_end::undecided);
  one.caught.push_back(verdict_kind::ok);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::ok, 100), true) == trial_end::no_gain);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::ok, 101), true) == trial_end::claims);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::noisy), true) == trial_end::no_gain);
  one.is_known_gap = true;
  CHECK(end_of_trial(one, verdict_of(verdict_kind::ok, 101), true) == trial_end::gap);
  CHECK(end_of_trial(one, verdict_of(verdict_kind::ok, 100), true) == trial_end::no_gain);
}

TEST_CASE("parts share the places of a list, and together have all of them once") {
  std::multiset<std::size_t> seen;
  for (int part = 1; part <= 3; ++part) {
    tools::pytorch_bench_options o;
    o.part = part;
    o.parts = 3;
    const auto places = tools::bench_part(o).places(10);
    seen.insert(places.begin(), places.end());
    CHECK(places.size() >= 3);
  }
  CHECK(seen.size() == 10);
  CHECK(std::set<std::size_t>(seen.begin(), seen.end()).size() == 10);
  tools::pytorch_bench_options last;
  last.part = last.parts = 5;
  CHECK(tools::bench_part(last).places(3).empty());
}

TEST_CASE("hostile candidates are enough, are told apart, and gaps are two") {
  tools::pytorch_bench_options o;
  o.source = test::source_dir().string();
  const auto on_cores = read_hostile_of_device(o);
  o.gpu = 0;
  const auto on_gpus = read_hostile_of_device(o);
  REQUIRE(on_cores);
  REQUIRE(on_gpus);
  // Three trials of each are what bench_pytorch hostile makes.
  CHECK(3 * on_gpus->size() >= 300);
  CHECK(3 * on_cores->size() >= 300);
  std::set<std::string> texts;
  for (const tools::hostile_module& one : *on_gpus)
    texts.insert(one.source);
  CHECK(texts.size() == on_gpus->size());
  CHECK(std::count_if(on_gpus->begin(), on_gpus->end(),
                      [](const tools::hostile_module& one) { return one.is_known_gap; }) == 2);
  const auto of_gpus = read_hostile_subjects(o);
  o.gpu.reset();
  const auto of_cores = read_hostile_subjects(o);
  REQUIRE(of_gpus);
  REQUIRE(of_cores);
  CHECK(of_cores->usual->name == "layered");
  CHECK(of_gpus->usual->name == "layered_wide");
  const auto one = hostile_request(on_cores->front(), *of_gpus, 7);
  CHECK(one.subject == of_gpus->usual);
  CHECK(one.source != hostile_request(on_cores->front(), *of_gpus, 8).source);
  CHECK_FALSE(one.verify_only);
  tools::hostile_module small = on_cores->front();
  small.is_small = true;
  CHECK(hostile_request(small, *of_gpus, 7).subject == of_gpus->small);
}

TEST_CASE("the head of a hostile candidate is checked") {
  const auto folder = base::temp_folder::make("quern-hostile-files");
  REQUIRE(folder);
  const fs::path file = folder->path() / "tests/hostile/pytorch/one.py";
  const auto error_of = [&](const std::string& head) {
    write(file, head + candidate_text);
    const auto read = tools::read_hostile_modules(folder->path(), {"/tmp", 1});
    return read ? std::string() : read.error().message;
  };
  const std::string unproved = "# attempt: a\n# kind: hostile\n# caught: hack\n";
  const std::string head = unproved + "# without: values\n";
  CHECK(error_of(head).empty());
  CHECK(error_of(unproved + "# on a GPU without: values\n").empty());
  CHECK(error_of(unproved + "# exempt: twenty characters, or more\n").empty());
  CHECK(error_of(unproved + "# gap: yes\n").empty());
  CHECK(error_of("# attempt: a\n# kind: wrong\n# caught: hack\n").empty());
  CHECK(test::contains(error_of(unproved), "exempt: 0 characters"));
  CHECK(test::contains(error_of(unproved + "# exempt: so\n"), "at least 20"));
  CHECK(test::contains(error_of(head + "# exempt: twenty characters, or more\n"), "has a control"));
  CHECK(test::contains(error_of("# attempt: a\n# kind: hostile\n"), "has no caught"));
  CHECK(
      test::contains(error_of("# attempt: a\n# kind: evil\n# caught: hack\n"), "evil is none of"));
  CHECK(test::contains(error_of("# attempt: a\n# kind: wrong\n# caught: hacked\n"),
                       "hacked is no kind"));
  CHECK(test::contains(error_of(head + "# device: tpu\n"), "tpu is none of core, gpu, both"));
  write(file, head + "place = '{folder}:{port}'\n");
  const auto read = tools::read_hostile_modules(folder->path(), {"/tmp", 12});
  REQUIRE(read);
  CHECK(read->front().source == "place = '/tmp:12'\n");
}

TEST_CASE("candidates of a rate are pairs, or files of KernelBench") {
  const auto folder = base::temp_folder::make("quern-rated");
  REQUIRE(folder);
  tools::pytorch_bench_options o;
  o.folders = {(folder->path() / "pairs").string()};
  write(folder->path() / "pairs/b/reference.py", task_text);
  write(folder->path() / "pairs/b/candidate.py", candidate_text);
  write(folder->path() / "pairs/deep/a-1/reference.py",
        "# precision: fp16\n" + std::string(task_text));
  write(folder->path() / "pairs/deep/a-1/candidate.py",
        "from torch.utils.cpp_extension import load_inline\nimport triton\next = "
        "load_inline(name='x', cuda_sources='__global__ void f() {}')\n");
  write(folder->path() / "pairs/alone/candidate.py", candidate_text);
  const auto pairs = read_rated_modules(o);
  CAPTURE(pairs ? "" : pairs.error().message);
  REQUIRE(pairs);
  REQUIRE(pairs->size() == 2);
  CHECK(pairs->at(0).name == "a-1");
  CHECK(pairs->at(0).has_cuda);
  CHECK_FALSE(pairs->at(0).has_triton);
  CHECK(pairs->at(1).source == candidate_text);
  CHECK_FALSE(pairs->at(1).has_cuda);
  CHECK(pairs->at(1).subject->reference == task_text);

  write(folder->path() / "pairs/again/b/reference.py", task_text);
  write(folder->path() / "pairs/again/b/candidate.py", candidate_text);
  const auto twice = read_rated_modules(o);
  REQUIRE_FALSE(twice);
  CHECK(test::contains(twice.error().message, "two candidates are called b"));

  write(folder->path() / "runs/level_1_problem_2_sample_0_kernel.py", candidate_text);
  o.folders = {(folder->path() / "runs").string()};
  const auto without_tree = read_rated_modules(o);
  REQUIRE_FALSE(without_tree);
  CHECK(test::contains(without_tree.error().message, "--kernelbench TREE"));
  for (const char* level : {"level1", "level2", "level3"})
    write(folder->path() / "KernelBench/KernelBench" / level / "2_Add_one.py", task_text);
  o.kernelbench = (folder->path() / "KernelBench").string();
  const auto with_tree = read_rated_modules(o);
  CAPTURE(with_tree ? "" : with_tree.error().message);
  REQUIRE(with_tree);
  REQUIRE(with_tree->size() == 1);
  CHECK(with_tree->front().name == "level_1_problem_2_sample_0_kernel");

  // Which ones are right is known of those of the tree alone.
  CHECK_FALSE(with_tree->front().is_honest);
  o.honest = true;
  o.source = test::source_dir().string();
  const auto honest = read_rated_modules(o);
  REQUIRE(honest);
  CHECK(honest->size() > 60);
  CHECK(std::ranges::count_if(*honest, &tools::rated_module::is_honest) ==
        static_cast<std::ptrdiff_t>(honest->size()) - 1);
  o.honest = false;

  o.folders = {(folder->path() / "nowhere").string()};
  CHECK_FALSE(read_rated_modules(o));
  o.folders.clear();
  const auto none = read_rated_modules(o);
  REQUIRE_FALSE(none);
  CHECK(test::contains(none.error().message, "name a folder, or --honest"));
}

TEST_CASE("KernelBench's evaluator is asked as its scripts ask it, in a process of its own") {
  if (const auto python = env::find_module_python(); !python) {
    test::skip(python.error().message);
    return;
  }
  const auto folder = base::temp_folder::make("quern-made-up-kernelbench");
  REQUIRE(folder);
  tools::pytorch_bench_options o;
  o.source = test::source_dir().string();
  o.kernelbench = folder->path().string();
  const auto subject =
      tools::module_task_of("task", "# precision: bf16\n" + std::string(task_text));
  REQUIRE(subject);
  const auto ask = [&](const std::string& evaluator, double limit_s) {
    write(folder->path() / "src/kernelbench/eval.py", evaluator);
    return tools::evaluate_by_kernelbench(o, **subject, candidate_text, limit_s);
  };
  const std::string imports = "import os, time, types, requests, torch\n";
  const std::string head =
      imports + "def eval_kernel_against_ref(reference, candidate, **asked):\n";
  const auto ran =
      ask(head +
              "    assert 'class Model(' in reference and 'class ModelNew(' in candidate\n"
              "    assert asked['num_correct_trials'] == 5 and asked['num_perf_trials'] == 100\n"
              "    assert asked['measure_performance'] and asked['backend'] == 'cuda'\n"
              "    assert asked['precision'] == torch.bfloat16 and asked['device'].index == 0\n"
              "    assert os.listdir(asked['build_dir']) == []\n"
              "    time.sleep(0.2)\n"
              "    return types.SimpleNamespace(compiled=True, correctness=False, runtime=-1.0)\n",
          60);
  CAPTURE(ran ? ran->outcome : ran.error().message);
  REQUIRE(ran);
  CHECK(ran->outcome == "compiled True, correct False, -1.0 ms");
  CHECK(ran->seconds > 0.1);
  const auto raised = ask(head + "    raise KeyError('no luck')\n", 60);
  REQUIRE(raised);
  CHECK(test::contains(raised->outcome, "raised KeyError"));
  const auto late = ask(head + "    time.sleep(600)\n", 0.5);
  REQUIRE(late);
  CHECK(late->outcome == "out of time");
  CHECK(late->seconds == 0.5);
  const auto broken = ask("import no_such_module\n", 60);
  REQUIRE_FALSE(broken);
  CHECK(test::contains(broken.error().message, "no_such_module"));
}

TEST_CASE("a reference with more work does what it did, and that again on some of its rows") {
  for (const tools::self_module& one : tools::self_modules) {
    CAPTURE(one.name);
    const std::string itself = tools::slower_candidate(one, 7, 0, false);
    CHECK(itself == tools::self_candidate(one, 7, false));
    CHECK(test::contains(itself, "trial = 7"));
    if (std::string(one.more).empty()) continue;
    const std::string slower = tools::slower_candidate(one, 7, 20, false);
    const int rows = std::stoi(one.rows) * one.passes / 5;
    const std::string line = fmt::format("[:{}]", rows);
    CHECK(test::contains(slower, line));
    CHECK_FALSE(test::contains(itself, line));
    CHECK_FALSE(test::contains(slower, "MORE"));
    // Before what is returned, and nothing of that is gone.
    CHECK(slower.find(line) < slower.find("        return "));
    CHECK(test::contains(slower, itself.substr(itself.find("        return "))));
  }
}

TEST_CASE("references as candidates: what was not measured is no figure that is met") {
  using tools::self_case;
  using tools::self_seen;
  const std::vector<self_case> cases = {{"softmax.itself", 1, 0, 20}, {"softmax.plus_2", 1, 2, 4}};
  const auto timed = [](std::int64_t speedup_e2, double log_speedup, std::int64_t call_ns) {
    env::verdict v = verdict_of(verdict_kind::ok, speedup_e2);
    v.time.emplace();
    const std::int64_t log_e9 = std::llround(log_speedup * 1e9);
    v.time->log_ratio_e9 = {log_e9, log_e9, log_e9};
    v.time->ref_ns = {call_ns};
    return v;
  };
  const auto of = [](const self_case& one, const env::verdict& v) {
    self_seen seen;
    for (int i = 0; i < one.trials; ++i)
      CHECK(seen.take(one, v));
    return seen;
  };
  const auto missed = [&](const self_seen& itself, const self_seen& slower) {
    return tools::self_figures(tools::pool(cases, std::vector{itself, slower})).print();
  };
  const env::verdict noisy = verdict_of(verdict_kind::noisy);
  const auto equal = of(cases[0], timed(100, 0.003, 420'000));
  const auto told = of(cases[1], timed(97, -0.03, 420'000));
  CHECK(missed(equal, told) == 0);
  // P99, and claims.
  CHECK(missed(of(cases[0], timed(100, -0.006, 420'000)), told) == 1);
  CHECK(missed(of(cases[0], timed(100, -0.006, 150'000)),
               of(cases[1], timed(97, -0.03, 150'000))) == 0);
  CHECK(missed(of(cases[0], timed(101, 0.004, 420'000)), told) == 1);
  CHECK(missed(equal, of(cases[1], timed(100, -0.01, 420'000))) == 1);
  // Nothing measured: told of nothing, too noisy, and a case of its own.
  CHECK(missed(equal, of(cases[1], noisy)) == 3);
  // Its side is known by its other candidates: P99 and claims of nothing, and a case.
  CHECK(missed(of(cases[0], noisy), told) == 3);
  self_seen wrong;
  CHECK_FALSE(wrong.take(cases[0], verdict_of(verdict_kind::wrong_value)));
  CHECK(missed(wrong, told) == 4);
}

TEST_CASE("a wrong command line is told and ends with 2") {
  const auto refused = [](std::vector<std::string> arguments, const char* words) {
    const program_end end = run_bench("bench_pytorch", std::move(arguments));
    CAPTURE(end.said);
    CHECK(end.code == 2);
    CHECK(test::contains(end.said, words));
  };
  refused({"honest"}, "say --gpu N, or --core");
  refused({"honest", "--gpu", "0", "--core"}, "--core");
  refused({"honest", "--core", "--part", "3/2"}, "'3/2' is not K/N with K from 1 to N");
  refused({"honest", "--core", "--part", "1/2x"}, "is not K/N");
  refused({"dance", "--core"}, "dance");
  refused({"honest", "--core", "folder"}, "honest takes no folder");
  refused({"rate", "--core", "--kernelbench-beside", "8"}, "--kernelbench");
  refused({"rate", "--core", "--beside-only"}, "say how many");
  refused({"honest", "--core", "--source", "/no/such/tree"}, "--source");
  refused({"rate", "--core"}, "name a folder, or --honest");
  refused({"self", "--core"}, "self is for a GPU");
  refused({"self", "--gpu", "0", "--only", "nothing"}, "--only nothing");
  refused({"self", "--gpu", "0", "--precision", "0.5"},
          "--precision: 0.5 is outside 0.001 .. 0.06");
  refused({"honest", "--core", "--limit-s", "nan"}, "--limit-s: nan is outside 60 .. 86400");
  refused({"honest", "--core", "--budget-s", "inf"}, "--budget-s: inf is outside 0.05 .. 60");
  const char* const seeds = " is outside 0 .. 9000000000000000";
  for (const char* seed : {"-1", "99999999999999999999999", "9000000000000001"})
    refused({"honest", "--core", "--seed", seed}, (std::string(seed) + seeds).c_str());
  refused({"honest", "--core", "--seed", "1x"}, "--seed: '1x' is not a whole number");
  const std::string source = test::source_dir().string();
  for (const char* kind : {"honest", "hostile"})
    refused({kind, "--core", "--source", source, "--only", "zzz"},
            "--only zzz: no candidate's name contains 'zzz'");
  refused({"rate", "--core", "--honest", "--source", source, "--only", "relu,zzz"},
          "no candidate's name contains 'zzz'");
  refused({"mixed", "--core", "--only", "zzz"}, "mixed draws from all candidates");
}

TEST_CASE("bench_modules refuses numbers that it cannot measure by") {
  const auto refused = [](std::vector<std::string> arguments, const char* words) {
    const program_end end = run_bench("bench_modules", std::move(arguments));
    CAPTURE(end.said);
    CHECK(end.code == 2);
    CHECK(test::contains(end.said, words));
  };
  refused({"--forks", "-1"}, "--forks: -1 is outside 0 .. 100000");
  refused({"--trials", "-5"}, "--trials: -5 is outside 0 .. 1000000");
  refused({"--checks", "-3"}, "--checks: -3 is outside 0 .. 1000000");
  for (const char* budget : {"inf", "1e300", "nan", "-1"})
    refused({"--budget-s", budget},
            fmt::format("--budget-s: {} is outside 0.05 .. 60", budget).c_str());
  refused({"--ahead", "17"}, "--ahead: 17 is outside 0 .. 16");
  if (!env::has_nvidia_driver()) refused({"--gpu", "0"}, "GPU 0: no NVIDIA driver is loaded here");
}
