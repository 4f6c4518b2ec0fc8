// Task files: golden files, round trips, refusals.
#include "env/task/task_codec.hpp"

#include <string>

#include "base/file.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;
using test::contains;

namespace {

std::filesystem::path golden(std::string_view name) {
  return test::source_dir() / "tests/golden/task" / name;
}

std::string text_of(std::string_view name) {
  return base::read_file(golden(name)).value();
}

/// The canonical softmax task with one stretch of text replaced; the error that it gives.
std::string error_with(std::string_view from, std::string_view to) {
  std::string text = text_of("softmax_rows.canonical.yaml");
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const auto parsed = env::parse_task(text);
  return parsed ? "accepted" : parsed.error().message;
}

}  // namespace

TEST_CASE("a task file of the contract reads, and its canonical form and id stay what they are") {
  const auto parsed = env::load_task(golden("softmax_rows.task.yaml"));
  REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
  CHECK(env::to_yaml(*parsed) == text_of("softmax_rows.canonical.yaml"));
  CHECK(env::task_id(*parsed) == "softmax_rows@092a32d95d8aaa09a62c18f5376c2dfb");
  CHECK(env::tensors_of(*parsed).hidden_sizes ==
        std::vector<std::vector<std::int64_t>>{{7, 33}, {64, 1000}});
  CHECK(parsed->tolerance.atol == 1e-5);
  CHECK(parsed->baseline == env::baseline_kind::reference);
  CHECK_FALSE(parsed->degenerate);
}

TEST_CASE("canonical files read back to the same value and text") {
  for (const auto* name : {"softmax_rows.canonical.yaml", "gather_scale.canonical.yaml"}) {
    const auto parsed = env::parse_task(text_of(name));
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
    CHECK(env::to_yaml(*parsed) == text_of(name));
    CHECK(env::parse_task(env::to_yaml(*parsed)).value() == *parsed);
  }
  const auto gather = env::parse_task(text_of("gather_scale.canonical.yaml")).value();
  CHECK(env::task_id(gather) == "gather_scale@622e20c9c1bf4fd21b28fe8aceed58e5");
  CHECK(env::tensors_of(gather).plain.starts_with("  // the first line"));
  CHECK(env::tensors_of(gather).inputs[2].shape.empty());
  CHECK(gather.degenerate);
}

TEST_CASE("blocks of text have one form") {
  CHECK(env::canonical_block("") == "");
  CHECK(env::canonical_block("\n \n") == "");
  CHECK(env::canonical_block("a") == "a\n");
  CHECK(env::canonical_block("\n\n  a \t\r\n\nb\n\n\n") == "  a\n\nb\n");
}

TEST_CASE("what a file must not say is refused with the reason") {
  CHECK(contains(error_with("quern_task: 1", "quern_task: 2"),
                 "quern_task 2, this program reads version 1: use a newer"));
  CHECK(contains(error_with("quern_task: 1", "quern_task: 0"), "convert the file"));
  CHECK(contains(error_with("quern_task: 1\n", ""), "lacks the key 'quern_task'"));
  CHECK(contains(error_with("family:", "famly:"), "did you mean 'family'"));
  CHECK(contains(error_with("family: softmax", "family: softmax\nfamily: softmax"), "twice"));
  CHECK(contains(error_with("lane: cuda", "lane: cud"), "did you mean 'cuda'"));
  CHECK(contains(error_with("dtype: f32", "dtype: fp32"), "did you mean 'f32'"));
  CHECK(contains(error_with("large", "larg"), "did you mean 'large'"));
  CHECK(contains(error_with("dist:", "dists:"),
                 "input 1 has the unknown key 'dists' (did you mean 'dist'?)"));
  CHECK(contains(error_with("{atol: 1e-05,", "{atol: tiny,"), "must be a finite number"));
  CHECK(contains(error_with("{atol: 1e-05,", "{atol: .inf,"), "must be a finite number"));
  CHECK(contains(error_with("n: 4096", "n: 4096.5"), "must be an integer"));
  CHECK(contains(error_with("n: 4096", "n: 99999999999999999999"), "must be an integer"));
  CHECK(contains(error_with("{n: 7, m: 33}", "{n: 7}"), "lacks the key 'm'"));
  CHECK(contains(error_with("{n: 7, m: 33}", "{n: 7, k: 33}"), "unknown key 'k'"));
  CHECK(contains(error_with("shape: [n, m], dist", "shape: [n, q], dist"),
                 "'q', which is not a size"));
  CHECK(contains(error_with("shape: [n, m], dist", "shape: n, dist"), "must be a list"));
  CHECK(contains(error_with("8*n*m", "8*n*"), "found the end"));
  CHECK(contains(error_with("baseline: reference", "baseline: refrence"),
                 "did you mean 'reference'"));
  CHECK(contains(error_with("sizes: {n: 4096, m: 8192}", "sizes: [4096]"), "must be a map"));
  CHECK(contains(error_with("name: softmax_rows", "name: [a]"), "must be a word"));
  CHECK(contains(error_with("reference: |", "--- \nreference: |"), "more than one YAML document"));
  CHECK(contains(error_with("outputs:", "outputs: ]"), "not valid YAML: line"));
  CHECK(error_with("normal", "normal") == "accepted");
}

TEST_CASE("a missing file and a huge one are errors with the path and the limit") {
  const auto missing = env::load_task(golden("nowhere.task.yaml"));
  REQUIRE_FALSE(missing.has_value());
  CHECK(contains(missing.error().message, "nowhere.task.yaml"));
  const auto huge = env::parse_task(std::string(env::max_task_file_bytes + 1, ' '));
  REQUIRE_FALSE(huge.has_value());
  CHECK(contains(huge.error().message, "262144"));
  CHECK_FALSE(env::parse_task("").has_value());
}
