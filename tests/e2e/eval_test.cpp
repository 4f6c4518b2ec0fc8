// quern eval: names of shipped tasks, exit codes, and what it says. Verdicts of no clock.
#include "base/file.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;

namespace {

struct evaluating {
  base::temp_folder folder = std::move(base::temp_folder::make("eval").value());
  int logs = 0;

  finished eval(const std::string& task, const std::string& source,
                std::vector<std::string> options = {}) {
    const std::filesystem::path kernel = folder.path() / "kernel.cpp";
    REQUIRE(base::write_file_atomic(kernel, source));
    std::vector<std::string> words = {program("quern"), "eval",          task,
                                      kernel.string(),  "--best-effort", "--verify-only"};
    words.insert(words.end(), options.begin(), options.end());
    return run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
  }
};

const char* const right = R"(
extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      float left = j > 0 ? fabsf(x[i * m + j - 1]) : 0, right = j + 1 < m ? fabsf(x[i * m + j + 1]) : 0;
      y[i * m + j] = fabsf(x[i * m + j]) + left + right + 0.25f;
    }
})";
const char* const wrong = R"(
extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, void* stream) {
  for (int64_t i = 0; i < n * m; i++) y[i] = x[i];
})";

}  // namespace

TEST_CASE("quern eval takes the name of a shipped task, with its suite where several have it") {
  evaluating f;
  for (const char* name : {"abs_smooth_shift", "cpu_quick/abs_smooth_shift"}) {
    const finished end = f.eval(name, right);
    CAPTURE(end.output);
    CHECK(end.code == 0);
    CHECK(contains(end.output, "ok   abs_smooth_shift\n"));
  }
  const finished several = f.eval("softmax_rows", right);
  CHECK(several.code == 2);
  CHECK(contains(several.output, "suites have a task 'softmax_rows': say which: cpu/softmax_rows"));
  const finished slip = f.eval("abs_smoth_shift", right);
  CHECK(slip.code == 2);
  CHECK(contains(slip.output, "did you mean 'abs_smooth_shift'?"));
  const finished with_suite = f.eval("cpu_quick/abs_smoth_shift", right);
  CAPTURE(with_suite.output);
  CHECK(contains(with_suite.output, "did you mean 'cpu_quick/abs_smooth_shift'?"));
  const finished far = f.eval("my_own_task", right);
  CHECK(far.code == 2);
  CHECK(contains(far.output, "there is no task file 'my_own_task'"));
  CHECK_FALSE(contains(far.output, "did you mean"));
}

TEST_CASE("--strict ends with 1 unless the verdict is ok; without it any verdict is an answer") {
  evaluating f;
  CHECK(f.eval("abs_smooth_shift", right, {"--strict"}).code == 0);
  CHECK(f.eval("abs_smooth_shift", wrong).code == 0);
  const finished strict = f.eval("abs_smooth_shift", wrong, {"--strict"});
  CAPTURE(strict.output);
  CHECK(strict.code == 1);
  CHECK(contains(strict.output, "wrong_value"));
  CHECK(f.eval("abs_smooth_shift", wrong, {"--strict", "--json"}).code == 1);
}

TEST_CASE("a wrong value is said once") {
  evaluating f;
  const finished end = f.eval("abs_smooth_shift", wrong);
  CAPTURE(end.output);
  CHECK(end.output.find("should be") == end.output.rfind("should be"));
}
