// `quern eval TASK CANDIDATE`.
#include "tools/cmd_eval.hpp"

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/file.hpp"
#include "env/gpu/open_judge.hpp"
#include "env/judge/explain.hpp"
#include "env/task/task_codec.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

constexpr std::size_t max_candidate_bytes = 1U << 20U;

base::expected<std::string> read_candidate(const std::string& path) {
  if (path != "-") return base::read_file(path, max_candidate_bytes);
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (text.size() > max_candidate_bytes)
    return base::fail(base::errc::invalid_argument, "standard input has {} bytes, the limit is {}",
                      text.size(), max_candidate_bytes);
  return text;
}

int complain(const base::error& e, int code) {
  std::fprintf(stderr, "quern eval: %s\n", e.message.c_str());
  return code;
}

}  // namespace

int cmd_eval(const eval_arguments& arguments) {
  auto loaded = env::load_task(arguments.task);
  if (!loaded) return complain(loaded.error(), usage);
  auto source = read_candidate(arguments.candidate);
  if (!source) return complain(source.error(), usage);

  env::evaluator_options options;
  options.static_screen = arguments.screen;
  options.sandbox_required = !arguments.best_effort;
  options.time_budget_s = arguments.budget_s;
  options.core = arguments.core;
  // A person waits for the answer: a large claim is settled now, not by a later job.
  options.confirm_at_once = true;
  options.gpu = arguments.gpu;
  auto evaluator = env::open_judge(loaded->lane, std::move(options));
  if (!evaluator) {
    const bool asked_wrongly = evaluator.error().code == base::errc::invalid_argument;
    return complain(evaluator.error(), asked_wrongly ? usage : failed);
  }

  env::evaluation_request request;
  request.subject = std::make_shared<const env::task>(std::move(*loaded));
  request.source = std::move(*source);
  request.verify_only = arguments.verify_only;
  const env::verdict v = (*evaluator)->evaluate(request);
  if (arguments.json)
    std::printf("%s\n", base::dump(env::to_json(v)).c_str());
  else
    std::fputs(
        (arguments.explain ? env::explain_verdict : env::describe_verdict)(v, *request.subject)
            .c_str(),
        stdout);
  return v.kind == env::verdict_kind::infra_error || v.kind == env::verdict_kind::invalid_reference
             ? failed
             : done;
}

int cmd_eval(int argc, const char* const* argv) {
  CLI::App app{"Judges one candidate kernel: is it right, how fast is it, and what to do about it.",
               "quern eval"};
  eval_arguments a;
  bool no_screen = false;
  app.add_option("task", a.task, "NAME.task.yaml")->required();
  app.add_option("candidate", a.candidate,
                 "C++ or CUDA C++ file that defines the task's kernel; - reads standard input")
      ->required();
  app.add_flag("--explain", a.explain,
               "show every check, the buckets, the compiler's command and text");
  app.add_flag("--json", a.json, "print the verdict as JSON")->excludes("--explain");
  app.add_flag("--verify-only", a.verify_only, "check, but do not measure");
  app.add_flag("--no-screen", no_screen, "skip the static screen; the sandbox alone decides");
  app.add_flag("--best-effort", a.best_effort,
               "run although sandbox layers are missing (see quern doctor)");
  app.add_option("--budget-s", a.budget_s, "seconds of measuring")
      ->check(number_within(0.05, 3600))
      ->capture_default_str();
  app.add_option("--core", a.core, "core to measure on; -1 chooses one")
      ->check(whole_within(-1, 4095))
      ->capture_default_str();
  app.add_option("--gpu", a.gpu, "lane cuda: GPU to measure on, by the driver's number")
      ->check(whole_within(0, 63))
      ->capture_default_str();
  std::vector<std::string> words(argv, argv + argc);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? done : usage;
  }
  a.screen = !no_screen;
  return cmd_eval(a);
}

}  // namespace quern::tools
