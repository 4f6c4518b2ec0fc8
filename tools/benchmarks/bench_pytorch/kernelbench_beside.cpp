#include "tools/benchmarks/bench_pytorch/kernelbench_beside.hpp"

#include <cmath>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_answer = std::size_t{1} << 20;

base::expected<kernelbench_ran> read_answer(const fs::path& file, const fs::path& log) {
  const auto text = base::read_file(file, longest_answer);
  if (!text) {
    const auto said = base::read_file(log, longest_answer);
    const std::string end =
        said ? said->substr(said->size() - std::min<std::size_t>(said->size(), 1500)) : "";
    return base::fail(base::errc::unavailable, "KernelBench's evaluator gave no result: {}", end);
  }
  QUERN_TRY(const auto answer, base::parse_json(*text));
  kernelbench_ran ran;
  ran.seconds = answer.at("seconds").get<double>();
  ran.outcome = answer.at("outcome").get<std::string>();
  return ran;
}

}  // namespace

base::expected<kernelbench_ran> evaluate_by_kernelbench(const pytorch_bench_options& o,
                                                        const env::task& subject,
                                                        const std::string& source, double limit_s) {
  QUERN_TRY(const auto folder, base::temp_folder::make("quern-kernelbench"));
  const fs::path at = folder.path();
  QUERN_CHECK(base::write_file_atomic(at / "reference.py", subject.reference));
  QUERN_CHECK(base::write_file_atomic(at / "candidate.py", source));
  base::subprocess_spec spec;
  if (o.python.empty()) {
    QUERN_TRY(const auto python, env::find_module_python());
    spec.argv = {python.string()};
  } else {
    spec.argv = {o.python};
  }
  for (const std::string& word :
       {(fs::path(o.source) / "tools/benchmarks/bench_pytorch/kernelbench_beside.py").string(),
        o.kernelbench, at.string(), std::to_string(o.gpu.value_or(0)),
        std::string(env::name_of(env::pytorch_of(subject).precision))})
    spec.argv.push_back(word);
  spec.log = at / "log";
  QUERN_TRY(auto child, base::subprocess::start(spec));
  if (!child.wait(std::llround(limit_s * 1e9))) {
    child.send_signal(9);
    (void)child.wait(base::nanoseconds_t{10'000'000'000});
    return kernelbench_ran{limit_s, "out of time"};
  }
  return read_answer(at / "answer.json", spec.log);
}

}  // namespace quern::tools
