// `quern bench` and `quern eval` of lane cuda through their command lines: a kill in the middle,
// the report, and what limits a kernel.
#include <algorithm>
#include <csignal>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "env/device/gpu_probe.hpp"
#include "support/gpu.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

constexpr std::size_t most_kernels = 16;
const fs::path suite_folder = source_dir() / "env/suites/cuda_quick";

bool go_on() {
  return go_on_with_gpu(env::has_nvidia_driver(), "no NVIDIA driver is loaded");
}

/// Honest kernels of the suite and one that is wrong, into `folder`; how many.
std::size_t write_kernels(const fs::path& folder) {
  REQUIRE(base::make_folders(folder));
  const fs::path honest = source_dir() / "tests/honest/cuda";
  const auto manifest =
      base::parse_json(base::read_file(honest / "manifest.json", 1U << 20U).value_or(""));
  REQUIRE(manifest);
  std::size_t written = 0;
  for (const auto& one : manifest->at("candidates")) {
    const bool wanted = one.at("suite") == "cuda_quick" && one.at("form") == "device_only" &&
                        !one.contains("needs") && written + 1 < most_kernels;
    if (!wanted) continue;
    const auto name = one.at("file").get<std::string>();
    fs::copy_file(honest / name, folder / name);
    ++written;
  }
  REQUIRE(written + 1 == most_kernels);
  auto text = base::read_file(honest / "softmax_rows.naive.cu");
  REQUIRE(text);
  const std::string_view sum = "/ sum";
  text->replace(text->find(sum), sum.size(), "/ (1.1f * sum)");
  REQUIRE(base::write_file_atomic(folder / "softmax_rows.wrong.cu", *text));
  return written + 1;
}

}  // namespace

TEST_CASE("quern bench on a GPU survives a kill in the middle, and reports") {
  if (!go_on()) return;
  const auto made = base::temp_folder::make();
  REQUIRE(made);
  const fs::path folder = made->path(), results = folder / "out/results.jsonl";
  const std::size_t kernels = write_kernels(folder / "candidates");
  const std::vector<std::string> command = {program("quern"),
                                            "bench",
                                            suite_folder.string(),
                                            "--candidates",
                                            (folder / "candidates").string(),
                                            "--out",
                                            results.string(),
                                            "--budget-s",
                                            "0.15",
                                            "--gpus",
                                            std::to_string(the_gpu())};
  {
    auto child = base::subprocess::start({.argv = command, .log = folder / "killed"});
    REQUIRE(child);
    REQUIRE(wait_until(200_s, [&] { return whole_lines_of(results).size() >= 4; }));
    child->send_signal(SIGKILL);
    REQUIRE(child->wait(60_s));
  }
  const auto before = whole_lines_of(results);
  REQUIRE(before.size() < kernels + 1);
  const finished end = run_to_end(command, folder / "log");
  CAPTURE(end.output);
  CHECK(end.code == 0);
  const auto after = whole_lines_of(results);
  REQUIRE(after.size() == kernels + 1);
  CHECK(std::equal(before.begin(), before.end(), after.begin()));

  const auto report =
      base::parse_json(base::read_file(results.parent_path() / "report.json").value_or(""));
  REQUIRE(report.has_value());
  CHECK((*report)["candidates"] == kernels);
  CHECK((*report)["without_verdict"] == 0);
  CHECK((*report)["verdicts"].value("wrong_value", 0) == 1);
  CHECK((*report)["verdicts"].value("ok", 0) >= kernels - 2);  // one may be noisy three times
  CHECK(contains(base::read_file(results.parent_path() / "report.html").value_or(""), "</html>"));
}

TEST_CASE("quern eval --explain on a GPU says where the kernel stands and what limits it") {
  if (!go_on()) return;
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  finished end;
  // It may be noisy now and then.
  for (int tries = 0; tries < 3 && !end.output.starts_with("ok"); ++tries)
    end = run_to_end({program("quern"), "eval", (suite_folder / "softmax_rows.task.yaml").string(),
                      (source_dir() / "tests/honest/cuda/softmax_rows.naive.cu").string(),
                      "--explain", "--gpu", std::to_string(the_gpu())},
                     folder->path() / "log");
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(end.output.starts_with("ok"));
  for (const char* part : {"\nroofline\n", "  arithmetic ", "  limited by ", "sm ", "to do "})
    CHECK(contains(end.output, part));
}
