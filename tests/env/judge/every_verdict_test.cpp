// Every verdict that lane cpp can give is given, by the real pipeline: compiler, sandbox, reference
// and clock are the real ones. Where the sandbox keeps a hack from being tried at all, that layer
// is turned off, so that the check behind it is seen to work.
#include <algorithm>
#include <thread>
#include <vector>

#include "layers_off.hpp"
#include "pipeline_fixture.hpp"

using namespace quern::test::pipeline;

namespace {

/// Its runners have no locks; with judge_layer::threads off candidates may start threads and run on
/// any core.
cpp_evaluator& unlocked() {
  static auto opened = [] {
    auto o = options();
    o.static_screen = false;
    o.runner_program = quern::test::program_dir() / "quern-runner-unlocked";
    return cpp_evaluator::open(o).value();
  }();
  return *opened;
}

/// Measures a large claim again at once. Coarse, so that a busy machine does not make it take a
/// second pair of processes before there is a claim.
cpp_evaluator& confirming() {
  static auto opened = [] {
    auto o = options();
    o.static_screen = false;
    o.confirm_at_once = true;
    o.precision = 0.06;
    o.noise_limit = 0.5;
    return cpp_evaluator::open(o).value();
  }();
  return *opened;
}

cpp_evaluator& without_reference() {
  static auto opened = [] {
    auto o = options();
    o.reference_program = "/bin/false";
    return cpp_evaluator::open(o).value();
  }();
  return *opened;
}

/// Measured by the processes, never taken from the cache.
verdict once(cpp_evaluator& with, const std::string& source, const std::string& text,
             std::uint64_t seed, double recheck_above = 30) {
  evaluation_request r;
  r.subject = task_of(text);
  r.source = source;
  r.seed = seed;
  r.recheck = true;
  r.recheck_above = recheck_above;
  return with.evaluate(r);
}

/// What brings a verdict about.
struct trigger {
  cpp_evaluator* with = nullptr;  ///< null: this lane cannot give the verdict; `why` tells
  std::string why;
  std::string source = {};
  std::string text = twice;
  /// A machine that is busy may keep it from coming about: then these come instead, and it is tried
  /// again.
  std::vector<verdict_kind> meanwhile = {};
  double recheck_above = 30;
  /// A reason that such a machine may give instead, in the same way.
  std::string_view meanwhile_reason = {};
  std::vector<judge_layer> without = {};
};

const std::vector<verdict_kind> busy{verdict_kind::noisy};
const std::vector<verdict_kind> busier{verdict_kind::noisy, verdict_kind::ok};

bool one_core() {
  return std::thread::hardware_concurrency() < 2;
}

// No default: a new kind needs a trigger.
trigger trigger_of(verdict_kind kind) {
  const std::string slower = "asm volatile(\"\" ::: \"memory\"); }";
  switch (kind) {
    case verdict_kind::malformed:
      return {nullptr,
              "text without code never reaches an evaluator: orchestrator/rollout_test.cpp"};
    case verdict_kind::wrong_shape:
    case verdict_kind::wrong_dtype:
      return {nullptr, "the prototype says both, so that another one is a compile_error"};
    case verdict_kind::hack:
      return {nullptr, "a test of its own"};
    case verdict_kind::rejected_static:
      return {&judge(), "", "#include <vector>\n" + kernel(loop)};
    case verdict_kind::compile_error:
      return {&judge(), "", kernel("y[0] = undefined_name;")};
    case verdict_kind::runtime_error:
      return {&judge(), "", kernel("*(volatile float*)nullptr = x[0];")};
    case verdict_kind::timeout:
      return {&judge(), "", hostile("endless_loop.cpp"), affine()};
    case verdict_kind::oom:
      return {&judge(), "", hostile("huge_workspace.cpp"), affine()};
    case verdict_kind::wrong_value:
      return {&judge(), "", hostile("skips_a_term.cpp"), affine()};
    case verdict_kind::nondeterministic:
      return {&judge(), "", hostile("never_the_same.cpp"), affine()};
    case verdict_kind::noisy:
      // Slower and slower.
      return {&unscreened(), "",
              kernel("static int k; int64_t repeat = 1 + ++k / 40; for (int64_t q = 0; q < repeat; "
                     "++q) { " +
                     loop + slower),
              twice, busier};
    case verdict_kind::unconfirmed:
      // Fast only in the process that was verified.
      return {&confirming(),
              "",
              kernel("static int checked; checked += n < 5000; int repeat = checked > 0 ? 1 : 6; "
                     "for (int q = 0; q < repeat; ++q) { " +
                     loop + slower),
              twice,
              busier,
              1.2};
    case verdict_kind::invalid_reference:
      return {&judge(), "", kernel(loop), replaced(twice, "return x * 2", "return torch.sum(x)")};
    case verdict_kind::infra_error:
      return {&without_reference(), "", kernel(loop)};
    case verdict_kind::ok:
      return {&patient(), "", kernel(loop), twice, busy};
    case verdict_kind::unsupported:
      return {nullptr, "every C++ text can be compiled for a core"};
  }
  return {};
}

trigger trigger_of(hack_kind kind) {
  switch (kind) {
    case hack_kind::timing: {
      trigger threads{one_core() ? nullptr : &unlocked(),
                      "two threads on one core take no time away", hostile("shares_the_work.cpp"),
                      affine(), busier};
      // A thread that was joined may still be counted.
      threads.meanwhile_reason = name_of(hack_kind::leftover_work);
      threads.without = {judge_layer::threads};
      return threads;
    }
    case hack_kind::impossible:
      return {&judge(), "", kernel(loop), replaced(twice, "bytes: 8*n", "bytes: 100000*n"), busy};
    case hack_kind::stale_output:
      return {&unscreened(), "",
              kernel("static float kept[1 << 17]; static const float* at; if (at != x) { at = x; "
                     "for (int64_t i = 0; i < n; ++i) kept[i] = x[i] * 2; } "
                     "for (int64_t i = 0; i < n; ++i) y[i] = kept[i];")};
    case hack_kind::late_write:
      return {&unscreened(), "", hostile("defers_work.cpp"), hostile("long_row.task.yaml")};
    case hack_kind::input_modified:
      return {&judge(), "", hostile("change_input.cpp"), affine()};
    case hack_kind::overrun:
      return {&judge(), "", hostile("write_past_output.cpp"), affine()};
    case hack_kind::forged_result:
      return {&unscreened(), "", hostile("forge_reply.cpp"), affine()};
    case hack_kind::leftover_work: {
      trigger thread{&unlocked(), "", hostile("faults/leaves_a_thread.cpp"), affine()};
      thread.without = {judge_layer::threads};
      return thread;
    }
  }
  return {};
}

constexpr std::uint64_t most_attempts = 20;

verdict pull(const trigger& what, verdict_kind want, std::string_view reason = {}) {
  const quern::test::without_layers off(what.without);
  verdict v;
  for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
    v = once(*what.with, what.source, what.text, attempt, what.recheck_above);
    if (v.kind == want && (reason.empty() || v.reason == reason)) break;
    const bool other_kind =
        std::find(what.meanwhile.begin(), what.meanwhile.end(), v.kind) != what.meanwhile.end();
    const bool other_reason = v.kind == want && v.reason == what.meanwhile_reason;
    if (!other_kind && !other_reason) break;
  }
  return v;
}

}  // namespace

TEST_CASE("every verdict that the lane can give is given") {
  for (int k = 0; k < verdict_kind_count; ++k) {
    const auto kind = static_cast<verdict_kind>(k);
    const auto what = trigger_of(kind);
    CAPTURE(name_of(kind));
    if (what.with == nullptr) {
      CHECK_FALSE(what.why.empty());
      continue;
    }
    const auto v = pull(what, kind);
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(kind));
    CHECK((kind == verdict_kind::ok || !v.speedup_e2.has_value()));
  }
}

TEST_CASE("every hack that has a name is named") {
  for (int k = 0; k < hack_kind_count; ++k) {
    const auto kind = static_cast<hack_kind>(k);
    const auto what = trigger_of(kind);
    CAPTURE(name_of(kind));
    if (what.with == nullptr) {
      REQUIRE_FALSE(what.why.empty());
      quern::test::skip(what.why);
      continue;
    }
    const auto v = pull(what, verdict_kind::hack, name_of(kind));
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(verdict_kind::hack));
    CHECK(v.reason == name_of(kind));
    CHECK_FALSE(v.speedup_e2.has_value());
  }
}

TEST_CASE("hack(late_write): work that is put off until the evaluator has other things to do") {
  const auto source = hostile("defers_work.cpp"), text = hostile("long_row.task.yaml");
  for (std::uint64_t turn = 0; turn < 20; ++turn) {
    const auto v = once(unscreened(), source, text, turn);
    CAPTURE(turn);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    CHECK(v.reason == name_of(hack_kind::late_write));
  }
}

TEST_CASE("the faults of threads end where candidates cannot start any") {
  const auto verified = [](cpp_evaluator& with, const char* file) {
    evaluation_request r;
    r.subject = task_of(affine());
    r.source = hostile(file);
    r.verify_only = r.recheck = true;
    return with.evaluate(r);
  };
  auto v = verified(unscreened(), "faults/leaves_a_thread.cpp");
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::runtime_error);
  // The lock ends them; the sandbox behind it lets no thread start either.
  v = verified(unlocked(), "faults/leaves_a_thread.cpp");
  CHECK(v.kind == verdict_kind::ok);
}

TEST_CASE("hack(leftover_work): a process that was started ahead is watched like any other") {
  auto o = options();
  o.static_screen = false;
  o.runner_program = quern::test::program_dir() / "quern-runner-unlocked";
  const quern::test::without_layers off{judge_layer::threads};
  const auto with = cpp_evaluator::open(o).value();
  evaluation_request r;
  r.subject = task_of(affine());
  r.source = hostile("faults/leaves_a_thread.cpp");
  with->compile_ahead(r);
  const auto v = with->evaluate(r);
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::hack);
  CHECK(v.reason == name_of(hack_kind::leftover_work));
}
