// One candidate, task or injected fault for every verdict that lane cpp can give, through the real
// pipeline: compiler, sandbox, reference and clock are the real ones. Nothing here depends on how
// fast the machine is.
#include "env/judge/cost_model.hpp"
#include "env/judge/explain.hpp"
#include "pipeline_fixture.hpp"

using namespace quern::test::pipeline;

TEST_CASE("ok: checked, measured, with all evidence") {
  auto v = measure(patient(), kernel(loop));
  CAPTURE(v.detail);
  REQUIRE(v.kind == verdict_kind::ok);
  CHECK(v.speedup_e2.value() > 100);
  REQUIRE(v.time.has_value());
  CHECK(v.time->ref_ns.size() == 7);
  CHECK(v.time->cand_ns.size() == 7);
  CHECK(v.time->log_ratio_e9.size() == 3);
  CHECK(v.checks.size() >= 10);
  CHECK_FALSE(v.sandbox.empty());
  CHECK(v.compiler.has_value());
  CHECK(v.task.find("twice@") == 0);
  CHECK(v.source.size() == 32);
  CHECK(verdict_from_json(to_json(v)).value() == v);
}

TEST_CASE("ok against ATen") {
  const auto v =
      measure(patient(), kernel(loop), replaced(twice, "baseline: plain", "baseline: reference"));
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::ok);
}

TEST_CASE("workspace: asked for, aligned, poisoned, and bounded") {
  const std::string uses = kernel(
      "float* w = (float*)workspace; for (int64_t i = 0; i < n; ++i) w[i] = x[i]; "
      "for (int64_t i = 0; i < n; ++i) y[i] = w[i] + w[i];",
      "extern \"C\" int64_t workspace_bytes(int64_t n) { return 4 * n; }");
  CHECK(verify(judge(), uses).kind == verdict_kind::ok);
  CHECK(verify(judge(), replaced(uses, "w[i] = x[i]", "w[i] += x[i]")).kind ==
        verdict_kind::wrong_value);
  const auto beyond = verify(judge(), replaced(uses, "return 4 * n", "return 4 * n - 4"));
  CHECK(beyond.kind == verdict_kind::hack);
  CHECK(beyond.reason == "overrun");
}

TEST_CASE("rejected_static and compile_error carry what a person needs") {
  auto v = verify(judge(), "#include <vector>\n" + kernel(loop));
  CHECK(v.kind == verdict_kind::rejected_static);
  CHECK(v.reason == "include");
  v = verify(judge(), kernel("for (int64_t i = 0; i < n; ++i) y[i] = x[i] * undefined_name;"));
  CHECK(v.kind == verdict_kind::compile_error);
  CHECK(v.compiler->text.find("undefined_name") != std::string::npos);
}

TEST_CASE("runtime_error, timeout and oom") {
  auto v = verify(judge(), kernel("*(volatile float*)nullptr = x[0];"));
  CHECK(v.kind == verdict_kind::runtime_error);
  CHECK(v.detail.find("SEGV") != std::string::npos);
  v = verify(judge(), kernel("y[0] = ((float (*)(float))(n - n))(x[0]);"));
  CHECK(v.kind == verdict_kind::runtime_error);
  CHECK(v.detail.find("calling a function that kernels do not have") != std::string::npos);
  v = verify(judge(), kernel("if (n > 0) __builtin_trap(); y[0] = x[0];"));
  CHECK(v.kind == verdict_kind::runtime_error);
  CHECK(v.detail.find("ILL") != std::string::npos);
  v = verify(judge(), kernel("for (volatile int64_t i = 0;; i = i + 1) y[0] = x[0];"));
  CHECK(v.kind == verdict_kind::timeout);
  CHECK(v.reason == "verify");
  v = verify(judge(),
             kernel(loop, "extern \"C\" int64_t workspace_bytes(int64_t) { return 1ll << 40; }"));
  CHECK(v.kind == verdict_kind::oom);
  honest_one_passes(judge());
}

TEST_CASE("a limit of the whole evaluation ends its compiler and its candidate") {
  const auto limited = [](const std::string& source, double seconds) {
    evaluation_request r;
    r.subject = task_of(twice);
    r.source = source;
    r.verify_only = true;
    r.time_limit_s = seconds;
    return judge().evaluate(r);
  };
  // Neither ends by itself before its stage's own limit, which the verdict would name.
  const auto unbuilt = limited(hostile("template_bomb.cpp"), 0.1);
  CHECK(unbuilt.kind == verdict_kind::timeout);
  CHECK(unbuilt.reason == "compile");
  CHECK(quern::test::contains(unbuilt.detail, "its limit of 0.1 s"));
  const auto endless = kernel("for (volatile int64_t i = 0;; i = i + 1) y[0] = x[0];");
  const auto cut = limited(endless, 0.05);
  CHECK(cut.kind == verdict_kind::timeout);
  CHECK(quern::test::contains(cut.detail, "its limit of 0.05 s"));
  // The same judge goes on, with a limit that is wide enough, too.
  CHECK(limited(kernel(loop), 3600).kind == verdict_kind::ok);
  CHECK(limited(endless, 3600).reason == "verify");
}

TEST_CASE("a candidate that ends its process is told how it did, and what to do about that") {
  const auto file = [](const char* name) {
    return quern::base::read_file(quern::test::source_dir() / "tests/hostile/cpp" / name).value();
  };
  // Fit the task of the hostile candidates; none of these comes to an answer.
  const auto said = [&](const std::string& source, std::string_view reason) {
    const auto v = verify(unscreened(), source);
    CAPTURE(v.detail);
    CHECK(v.kind == verdict_kind::runtime_error);
    CHECK(v.reason == reason);
    const std::string advice = advice_for(v, *task_of(twice));
    CHECK(advice.find("indices") == std::string::npos);
    return v.detail + "\n" + advice;
  };
  CHECK(quern::test::contains(
      said(file("closes_descriptors.cpp"), "closed_channel"),
      "it closed the descriptor over which its process answers\nclose no file"));
  const std::string alive = replaced(file("closes_descriptors.cpp"), "close(descriptor);",
                                     "close(descriptor);\n  for (volatile int i = 0;; i = 1) {}");
  CHECK(quern::test::contains(said(alive, "closed_channel"), "went on\nclose no file"));
  CHECK(quern::test::contains(said(file("exit_zero.cpp"), "ended"),
                              "exit status 0\nreturn from the"));
  CHECK(quern::test::contains(said(file("open_socket.cpp"), "forbidden_call"),
                              "\nmake no system calls"));
}

TEST_CASE("wrong_value: first wrong element, in exact numbers, and which inputs") {
  const auto v =
      verify(judge(), kernel("for (int64_t i = 0; i < n / 4 * 4; ++i) y[i] = x[i] * 2;"));
  CHECK(v.kind == verdict_kind::wrong_value);
  REQUIRE(v.first_diff.has_value());
  CHECK(v.first_diff->output == "y");
  CHECK(v.first_diff->index == std::vector<std::int64_t>{4});
  CHECK(v.first_diff->got == "nan");
  CHECK(v.detail.find("n=7") != std::string::npos);
}

TEST_CASE("wrong only for the timed sizes is still wrong") {
  const auto v = verify(
      judge(),
      kernel("int64_t m = n > 5000 ? n - 1 : n; for (int64_t i = 0; i < m; ++i) y[i] = x[i] * 2;"));
  CHECK(v.kind == verdict_kind::wrong_value);
  CHECK(v.detail.find("n=65536") != std::string::npos);
}

TEST_CASE(
    "wrong only for a hidden distribution at the timed sizes, whether or not all fit memory") {
  const std::string wrong =
      "float most = 0; for (int64_t i = 0; i < 64; ++i) most = x[i] > most ? x[i] : most; "
      "const float by = n > 5000 && most > 12 ? 3 : 2; for (int64_t i = 0; i < n; ++i) y[i] = "
      "x[i] * by;";
  const auto v = verify(judge(), kernel(wrong));
  CHECK(v.kind == verdict_kind::wrong_value);
  CHECK(v.detail.find("n=65536, large") != std::string::npos);
  // 32 MiB a case: two of three hidden rounds are kept, and any may be drawn.
  evaluation_request r;
  r.subject = task_of(replaced(twice, "n: 65536", "n: 4194304"));
  r.source = kernel(wrong);
  r.verify_only = true;
  bool found = false;
  for (int attempt = 0; attempt < 40 && !found; ++attempt) {
    r.recheck = true;  // never from the cache
    const auto big = judge().evaluate(r);
    found = big.kind == verdict_kind::wrong_value;
    CHECK((found || big.kind == verdict_kind::ok));
  }
  CHECK(found);
  r.source = kernel(loop);
  CHECK(judge().evaluate(r).kind == verdict_kind::ok);
}

TEST_CASE("nondeterministic: right both times, but not the same") {
  const auto v = verify(unscreened(), kernel("static int k; ++k; for (int64_t i = 0; i < n; ++i) "
                                             "y[i] = x[i] * 2 * (1 + 3e-7f * (k & 1));"));
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::nondeterministic);
}

TEST_CASE(
    "hack(stale_output): a result kept by address, by a fingerprint, or from the first call") {
  const std::string keep =
      "static float kept[1 << 17]; static const float* at; static float mark; ";
  for (const char* same : {"at == x", "mark == x[0] && at"}) {
    const auto v =
        verify(unscreened(), kernel(keep + "if (!(" + same +
                                    ")) { at = x; mark = x[0]; "
                                    "for (int64_t i = 0; i < n; ++i) kept[i] = x[i] * 2; } "
                                    "for (int64_t i = 0; i < n; ++i) y[i] = kept[i];"));
    CAPTURE(v.detail);
    // A fingerprint of one element may be fooled only by the case in which another one was changed.
    const bool seen = v.kind == verdict_kind::hack || v.kind == verdict_kind::wrong_value;
    CHECK(seen);
    if (std::string(same) == "at == x") CHECK(v.reason == "stale_output");
  }
}

TEST_CASE("hack(input_modified), hack(overrun) and hack(forged_result)") {
  auto v = verify(unscreened(), kernel("((float*)x)[0] = 1; " + loop));
  CHECK(v.kind == verdict_kind::hack);
  CHECK(v.reason == "input_modified");
  v = verify(unscreened(), kernel(loop + " y[n] = 1;"));
  CHECK(v.kind == verdict_kind::hack);
  CHECK(v.reason == "overrun");
  v = verify(unscreened(), kernel(loop + " y[n + 1500] = 1;"));
  CHECK(v.kind == verdict_kind::hack);
  CHECK(v.reason == "overrun");
  v = verify(unscreened(), kernel(loop + " static char junk[528]; write(3, junk, sizeof junk);",
                                  "extern \"C\" long write(int, const void*, unsigned long);"));
  CHECK(v.kind == verdict_kind::hack);
  CHECK(v.reason == "forged_result");
  honest_one_passes(unscreened());
}

TEST_CASE("a candidate that answers for its runner does not make it this host's failure") {
  int refused = 0;
  // Whichever of the questions it answers; the others are seen as answers to none.
  for (int ticket = 1; ticket <= 10; ++ticket) {
    const std::string reply =
        "struct { uint64_t ticket; uint32_t how, signal, write, none; uint64_t value; char t[480]; "
        "} r = {" +
        std::to_string(ticket) + ", 1, 0, 0, 0, 0, {}}; write(3, &r, sizeof r); ";
    const auto v = verify(unscreened(), kernel(reply + loop,
                                               "extern \"C\" long write(int, const void*, unsigned "
                                               "long);"));
    CAPTURE(ticket);
    CAPTURE(v.detail);
    CHECK(v.kind != verdict_kind::infra_error);
    CHECK(v.kind != verdict_kind::ok);
    refused += v.kind == verdict_kind::runtime_error &&
               v.detail.find("refused to go on") != std::string::npos;
  }
  CHECK(refused > 0);
  honest_one_passes(unscreened());
}

TEST_CASE("invalid_reference: the plain kernel computes something else, the candidate does not") {
  const auto v =
      measure(judge(), kernel(loop), replaced(twice, "y[i] = x[i] * 2", "y[i] = x[i] * 2.002f"));
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::invalid_reference);
  CHECK(v.detail.find("the plain kernel does not compute") != std::string::npos);
}

TEST_CASE("hack(impossible): faster than the traffic that the task says must happen") {
  const auto v = measure(judge(), kernel(loop), replaced(twice, "bytes: 8*n", "bytes: 100000*n"));
  CHECK(v.kind == verdict_kind::hack);
  CHECK(v.reason == "impossible");
}

TEST_CASE("hack while timing: right while it is checked, lazy later") {
  const auto v =
      measure(unscreened(), kernel("static int k; if (n > 5000 && ++k > 40) return; " + loop));
  CAPTURE(v.detail);
  const bool seen = v.kind == verdict_kind::wrong_value || v.kind == verdict_kind::hack;
  CHECK(seen);
  CHECK_FALSE(v.speedup_e2.has_value());
}

TEST_CASE("noisy: a speed that changes while it is measured is not a speed") {
  evaluation_request r;
  r.subject = task_of(twice);
  r.source = kernel(
      "static int k; int64_t repeat = 1 + ++k / 40; for (int64_t q = 0; q < repeat; ++q) { " +
      loop + " asm volatile(\"\" ::: \"memory\"); }");
  const auto v = unscreened().evaluate(r);
  CHECK(v.kind == verdict_kind::noisy);
  CHECK_FALSE(v.speedup_e2.has_value());
}

TEST_CASE("large claims: capped at first, confirmed by a recheck, or unconfirmed") {
  const auto low_bar = [](evaluation_request& r) { r.recheck_above = 1.2; };
  const std::string sum = kernel("for (int64_t i = 0; i < n; ++i) y[i] = x[i] + x[i];");
  auto v = measure(patient(), sum, twice, low_bar);
  CAPTURE(v.detail);
  REQUIRE(v.kind == verdict_kind::ok);
  CHECK(v.confirmed == false);
  CHECK(v.speedup_e2 == 120);
  v = measure(patient(), sum, twice, [&](evaluation_request& r) {
    low_bar(r);
    r.recheck = true;
  });
  // On a busy machine the second measurement may disagree or fail; it never leaves the full claim
  // standing alone.
  if (v.kind == verdict_kind::ok && v.confirmed.value())
    CHECK(v.speedup_e2.value() > 120);
  else if (v.kind == verdict_kind::ok)
    CHECK(v.speedup_e2.value() == 120);
}

TEST_CASE("unconfirmed: fast in some processes only") {
  auto o = options();
  o.static_screen = false;
  o.confirm_at_once = true;
  // Long enough for a claim without a second pair of processes, of which one may be slow.
  o.time_budget_s = 3;
  const auto with = cpp_evaluator::open(o).value();
  // Where the data lie decides, which is drawn for each measurement.
  const std::string moody = kernel(
      "int repeat = ((uint64_t)x >> 30) & 1 ? 1 : 5; for (int q = 0; q < repeat; "
      "++q) { " +
      loop + " asm volatile(\"\" ::: \"memory\"); }");
  int settled = 0;
  for (int attempt = 0; attempt < 60 && settled < 10; ++attempt) {
    evaluation_request r;
    r.subject = task_of(twice);
    r.source = moody;
    r.recheck_above = 1.2;
    r.recheck = true;
    r.seed = static_cast<std::uint64_t>(attempt);
    const auto v = with->evaluate(r);
    if (v.kind == verdict_kind::unconfirmed) {
      CHECK(v.detail.find("fresh processes") != std::string::npos);
      CHECK_FALSE(v.speedup_e2.has_value());
      return;
    }
    settled += v.kind == verdict_kind::ok && v.confirmed == true;
  }
  // Ten claims that were measured twice and always agreed, where half should not have.
  CHECK(settled < 10);
  quern::test::skip("this machine is too busy to measure anything twice");
}

TEST_CASE("invalid_reference says what is wrong with the task") {
  auto v = verify(judge(), kernel(loop), replaced(twice, "return x * 2", "return torch.sum(x)"));
  CHECK(v.kind == verdict_kind::invalid_reference);
  CHECK(v.detail.find("shape") != std::string::npos);
  v = verify(judge(), kernel(loop), replaced(twice, "return x * 2", "return x.double()"));
  CHECK(v.kind == verdict_kind::invalid_reference);
  v = verify(judge(), kernel(loop), replaced(twice, "return x * 2", "return torch.nothing(x)"));
  CHECK(v.kind == verdict_kind::invalid_reference);
  v = measure(judge(), kernel(loop),
              replaced(twice, "asm volatile(\"\" ::: \"memory\");", "not C++"));
  CHECK(v.kind == verdict_kind::invalid_reference);
  honest_one_passes(judge());
}

TEST_CASE("infra_error: a host that cannot do its part says so") {
  auto o = options();
  o.reference_program = "/bin/false";
  const auto broken = cpp_evaluator::open(o).value();
  auto v = verify(*broken, kernel(loop));
  CHECK(v.kind == verdict_kind::infra_error);
  v = measure(judge(), kernel(loop), twice, [](evaluation_request& r) { r.protocol = "paired/9"; });
  CHECK(v.kind == verdict_kind::infra_error);
  CHECK(v.detail.find("paired/9") != std::string::npos);
}

TEST_CASE("the same source in other words comes from the cache, and failures stay") {
  const std::string wrong = kernel("y[0] = x[0];");
  CHECK_FALSE(verify(judge(), wrong).cached);
  const auto again = verify(judge(), "// other words\n" + wrong);
  CHECK(again.cached);
  CHECK(again.kind == verdict_kind::wrong_value);
}

TEST_CASE("an ok that is in the cache is measured again") {
  auto o = options();
  o.remeasure_probability = 1;
  o.time_budget_s = 3;
  const auto eager = cpp_evaluator::open(o).value();
  const auto first = measure(*eager, kernel(loop));
  if (first.kind == verdict_kind::noisy) return quern::test::skip("this machine is too busy");
  CHECK(first.kind == verdict_kind::ok);
  // Whatever comes of the second measurement, it was made.
  evaluation_request again_asked;
  again_asked.subject = task_of(twice);
  again_asked.source = kernel(loop);
  const auto second = eager->evaluate(again_asked);
  CHECK_FALSE(second.cached);
  CHECK(second.time.has_value());
}

TEST_CASE("cost_model/1 replaces the time and nothing else") {
  const auto costed = [](evaluation_request& r) { r.protocol = "cost_model/1"; };
  auto v = measure(judge(), kernel(loop), twice, costed);
  REQUIRE(v.kind == verdict_kind::ok);
  CHECK(v.speedup_e2 == cost_model_e2(v.task, kernel(loop)));
  CHECK_FALSE(v.time.has_value());
  v = measure(judge(), kernel("y[0] = x[0];"), twice, costed);
  CHECK(v.kind == verdict_kind::wrong_value);
}
