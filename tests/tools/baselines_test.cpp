// quern baselines: when a reference has been called often enough, tables in KernelBench's form,
// and how a command goes on with them.
#include <functional>
#include <map>

#include "base/file.hpp"
#include "kernelbench_support.hpp"
#include "tools/bench/baselines_run.hpp"
#include "tools/bench/kernelbench_baselines.hpp"
#include "tools/bench/score_tables.hpp"

using namespace quern;
namespace fs = std::filesystem;
using doctest::Approx;
using env::reference_mode;
using next = env::trial_book::next;
using test::contains;

namespace {

/// Answers as it is told, by the name of the task.
class scripted_timer final : public env::reference_timer {
 public:
  [[nodiscard]] base::status check_mode(reference_mode mode) const override {
    if (mode == reference_mode::eager) return {};
    return base::fail(base::errc::unavailable, "it needs a GPU");
  }
  [[nodiscard]] std::string device() const override { return "cpu"; }
  [[nodiscard]] std::string device_class() const override { return "cpu-torch-x"; }
  [[nodiscard]] std::string settings() const override { return "torch 0"; }
  base::expected<std::vector<std::int64_t>> time(const env::task& what, reference_mode,
                                                 const env::reference_trials&) override {
    asked.push_back(what.name);
    if (asked_one) asked_one();
    if (const auto found = errors.find(what.name); found != errors.end())
      return tl::make_unexpected(found->second);
    return std::vector<std::int64_t>{2'000'000, 3'000'000, 4'000'000, 3'005'000};
  }

  std::vector<std::string> asked;
  std::map<std::string, base::error> errors;
  std::function<void()> asked_one;
};

struct baselines_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path path = folder.path() / "tables/baseline_time_torch.json";
  env::suite suite = test::placed_suite();
  tools::baseline_terms terms{"eager",   "fp32", "Box", "cpu", "cpu-torch-x",
                              "torch 0", 5,      100,   60000};
  scripted_timer timer;
  std::atomic<bool> stop = false;
  std::vector<std::string> told;

  [[nodiscard]] base::expected<tools::baseline_file> open() const {
    return tools::baseline_file::open(path, terms);
  }
  tools::baselines_end run() {
    auto file = open();
    REQUIRE_MESSAGE(file.has_value(), file.error().message);
    auto end = tools::measure_baselines(timer, reference_mode::eager, suite, {}, *file, stop,
                                        [&](std::string line) { told.push_back(std::move(line)); });
    REQUIRE_MESSAGE(end.has_value(), end.error().message);
    return *end;
  }
  void refused(std::initializer_list<std::string_view> parts) const {
    const auto file = open();
    REQUIRE_FALSE(file.has_value());
    for (const std::string_view part : parts)
      CHECK_MESSAGE(contains(file.error().message, part), file.error().message);
  }
  [[nodiscard]] std::string text() const { return base::read_file(path).value(); }
};

}  // namespace

TEST_CASE("calls of a reference: warm-ups, then trials within the budget, the least in any case") {
  env::trial_book book({2, 4, 2, 10});
  CHECK(book.after(0) == next::warm_up);
  CHECK(book.after(99) == next::warm_up);  // one is made always
  book.warmed_up();
  CHECK(book.after(4) == next::warm_up);
  CHECK(book.after(6) == next::trial);  // beyond half of the budget one is enough
  book.add(7, false);
  CHECK(book.after(99) == next::trial);  // one trial is too few, however slow
  book.add(8, true);
  CHECK(book.after(39) == next::trial);
  CHECK(book.after(41) == next::too_busy);
  book.add(9, false);
  CHECK(book.after(9) == next::trial);
  CHECK(book.after(11) == next::done);
  book.add(10, false);
  book.add(11, false);
  CHECK(book.after(6) == next::done);
  CHECK(book.times_ns() == std::vector<std::int64_t>{7, 9, 10, 11});
}

TEST_CASE("a table has KernelBench's form, and rows over it are computed from its means") {
  baselines_fixture f;
  const auto end = f.run();
  CHECK(end.measured == 4);
  CHECK(f.timer.asked.front() == "t_ten");
  // Mean 3.00125 of 2, 3, 4 and 3.005; the deviation over four is 0.7071; three digits each.
  const std::string row = R"({
            "mean": 3.0,
            "std": 0.707,
            "min": 2.0,
            "max": 4.0,
            "num_trials": 4,
            "hardware": "Box",
            "device": "cpu"
        })";
  std::string want = "{\n    \"level1\": {\n";
  for (const char* file : {"2_Made.py", "3_Made.py", "4_Made.py", "10_Made.py"})
    want += fmt::format("        \"{}\": {}{}\n", file, row,
                        std::string_view(file) == "10_Made.py" ? "" : ",");
  CHECK(f.text() == want + "    }\n}");

  const auto read = tools::read_kernelbench_baselines(f.path, f.suite);
  REQUIRE_MESSAGE(read.has_value(), read.error().message);
  CHECK(read->mean_ms.size() == 4);
  CHECK(read->hardware_text() == "Box");
  const test::placed_run run;
  const std::vector<std::int64_t> k = {1};
  const auto scores =
      tools::make_scores(run.suite, run.attempts(), test::made_header(), k, std::span(&*read, 1));
  // The candidates of problems 2 and 10 take 2.1 ms and 12 ns.
  CHECK(scores.tables.back().rows.front().speed.p25 ==
        Approx(3 / 2.1 + 0.25 * (3 / 1.2e-5 - 3 / 2.1)));
}

TEST_CASE("a command that was stopped goes on, and what is there is not measured again") {
  baselines_fixture f;
  f.timer.asked_one = [&] { f.stop = f.timer.asked.size() == 2; };
  auto end = f.run();
  CHECK(end.stopped);
  CHECK(end.measured == 2);
  CHECK(contains(tools::summary_of(end, f.open().value()), "is measured in part"));
  // The table was whole after each row, as a kill would have left it.
  const auto before = tools::baseline_table::parse(f.text(), "t").value();
  CHECK(before.has(1, "10_Made.py"));
  CHECK(before.has(1, "3_Made.py"));
  CHECK(before.size() == 2);
  f.timer.asked_one = nullptr;
  // Ended by the signal as well: it is no failure of the reference.
  f.stop = false;
  f.timer.asked_one = [&] { f.stop = true; };
  f.timer.errors["t_two"] = {base::errc::unavailable, "the runner ended"};
  end = f.run();
  CHECK(end.stopped);
  CHECK(end.failed.empty());
  f.timer.errors.clear();
  f.timer.asked.pop_back();
  f.timer.asked_one = nullptr;
  f.stop = false;
  end = f.run();
  CHECK_FALSE(end.stopped);
  CHECK(end.kept == 2);
  CHECK(end.measured == 2);
  CHECK(f.timer.asked == std::vector<std::string>{"t_ten", "t_three", "t_two", "t_four"});
  const std::string whole = f.text();
  CHECK(f.run().kept == 4);
  CHECK(f.text() == whole);
}

TEST_CASE("what cannot run here is left out with its reason, what fails is told and asked again") {
  baselines_fixture f;
  f.timer.errors["t_two"] = {base::errc::exhausted, "it has 2048 MiB"};
  f.timer.errors["t_four"] = {base::errc::invalid_argument, "forward raised"};
  const auto end = f.run();
  CHECK(end.measured == 2);
  CHECK(end.left_out == std::vector<tools::left_out_task>{{1, "2_Made.py", "it has 2048 MiB"}});
  REQUIRE(end.failed.size() == 1);
  CHECK(end.failed[0].why == "forward raised");
  CHECK_FALSE(contains(f.text(), "2_Made.py"));
  const std::string said = tools::summary_of(end, f.open().value());
  CHECK(contains(said, "2 of 4 tasks, 2 of them measured now"));
  CHECK(contains(said, "level1 2_Made.py: it has 2048 MiB"));
  CHECK(contains(said, "level1 4_Made.py: forward raised"));
  REQUIRE(f.told.size() == 4);
  CHECK(f.told[0] == "1/4 level1 10_Made.py: 3 ms (4 calls)");
  CHECK(contains(f.told[2], "left out: it has 2048 MiB"));
  const auto about = base::read_file(f.folder.path() / "tables/baseline_time_torch.about.json");
  CHECK(contains(about.value(), "it has 2048 MiB"));
  f.timer.errors.clear();
  CHECK(f.run().measured == 2);
}

TEST_CASE("times of other terms, and tables of others, are refused and not written over") {
  baselines_fixture f;
  f.timer.errors["t_four"] = {base::errc::invalid_argument, "no"};
  f.run();
  const std::string before = f.text();
  const auto good = f.terms;
  f.terms.precision = "bf16";
  f.refused({"precision", "'fp32'", "'bf16'", "--out"});
  f.terms = good;
  f.terms.hardware = "Other";
  f.refused({"--hardware", "'Box'", "'Other'"});
  f.terms = good;
  f.terms.settings = "torch 1";
  f.refused({"PyTorch", "'torch 0'"});
  f.terms = good;
  f.terms.trials = 7;
  f.refused({"--trials", "'100'", "'7'"});
  f.terms = good;
  REQUIRE(f.open().has_value());
  REQUIRE(base::write_file_atomic(f.path, "{\"level1\": {\"1_x.py\": {\"mean\": 1}}}"));
  f.refused({"level1", "'1_x.py'", "std"});
  REQUIRE(base::write_file_atomic(f.path, before));
  fs::remove(f.folder.path() / "tables/baseline_time_torch.about.json");
  f.refused({"not from quern baselines", "about.json is missing", "--out"});
  CHECK(f.text() == before);
}

TEST_CASE("modes and places of tables: bad ones are refused by name") {
  const scripted_timer timer;
  const auto modes = tools::parse_modes("eager,compile,cudagraphs");
  REQUIRE(modes.has_value());
  const auto can = tools::check_modes(timer, *modes);
  REQUIRE_FALSE(can.has_value());
  CHECK(contains(can.error().message, "compile: it needs a GPU; cudagraphs: it needs a GPU"));
  CHECK(contains(can.error().message, "nothing was measured"));
  CHECK(tools::check_modes(timer, {reference_mode::eager}).has_value());
  CHECK(contains(tools::parse_modes("egaer").error().message, "'egaer' (did you mean 'eager'?)"));
  CHECK(contains(tools::parse_modes("eager,eager").error().message, "twice"));
  CHECK_FALSE(tools::parse_modes("").has_value());

  CHECK(tools::baseline_path("out", reference_mode::compile, 2).value() ==
        "out/baseline_time_torch_compile_inductor_default.json");
  CHECK(tools::baseline_path("out", reference_mode::max_autotune_no_cudagraphs, 1).value() ==
        "out/baseline_time_torch_compile_inductor_max-autotune-no-cudagraphs.json");
  CHECK(tools::baseline_path("a/b.json", reference_mode::eager, 1).value() == "a/b.json");
  CHECK(contains(tools::baseline_path("b.json", reference_mode::eager, 2).error().message,
                 "names 2 modes: name a folder"));
  CHECK_FALSE(tools::baseline_path("b.about.json", reference_mode::eager, 1).has_value());
}
