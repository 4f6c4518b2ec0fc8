// `quern eval --serve`, and tools/kernelbench_shim over a package of ours that has KernelBench's
// names. The cases are in Python, beside this file.
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;

namespace {

const std::string cases_folder = (test::source_dir() / "tests/tools").string();

void check_cases(std::vector<std::string> argv) {
  const auto folder = base::temp_folder::make("shim");
  REQUIRE(folder);
  const auto log = folder->path() / "log";
  auto child = base::subprocess::start({.argv = std::move(argv), .log = log});
  REQUIRE(child);
  const auto end = child->wait(800_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
  CHECK(test::contains(base::read_file(log).value_or(""), "all passed"));
}

}  // namespace

TEST_CASE("an evaluator that stays up answers lines, and ends with its client") {
  const auto python = env::find_module_python();
  std::vector<std::string> argv{"/usr/bin/env", "python3", cases_folder + "/eval_service_cases.py",
                                (test::program_dir() / "quern").string()};
  if (python) argv.emplace_back("endless");
  check_cases(std::move(argv));
  if (!python) test::skip(python.error().message);
}

TEST_CASE("KernelBench's callers run over Quern, with its flags and Quern's verdict beside them") {
  const auto python = env::find_module_python();
  if (!python) {
    test::skip(python.error().message);
    return;
  }
  check_cases({"/usr/bin/env",
               "PYTHONPATH=" + (test::source_dir() / "tools/kernelbench_shim").string() + ":" +
                   cases_folder + "/kernelbench_standin",
               "QUERN_PROGRAM=" + (test::program_dir() / "quern").string(),
               "QUERN_EVAL_OPTIONS=--best-effort --budget-s 0.1", "PYTHONDONTWRITEBYTECODE=1",
               python->string(), cases_folder + "/kernelbench_shim_cases.py"});
}

TEST_CASE("hostile kernels of KernelBench's test are judged over the shim, and a table says how") {
  const auto python = env::find_module_python();
  if (!python) {
    test::skip(python.error().message);
    return;
  }
  check_cases({"/usr/bin/env", "QUERN_PROGRAM=" + (test::program_dir() / "quern").string(),
               "QUERN_EVAL_OPTIONS=--best-effort --budget-s 0.1", "PYTHONDONTWRITEBYTECODE=1",
               python->string(), cases_folder + "/kernelbench_adversarial_cases.py"});
}
