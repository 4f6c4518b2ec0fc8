// `quern eval TASK CANDIDATE`.
#include "tools/cmd_eval.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/printable.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/explain.hpp"
#include "env/judge/judge.hpp"
#include "env/measure/measure_name.hpp"
#include "env/task/find_tasks.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/eval_service.hpp"
#include "tools/cli/input.hpp"
#include "tools/cli/lane_words.hpp"
#include "tools/cli/measure_options.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/shipped_tasks.hpp"
#include "tools/cli/source_options.hpp"

namespace quern::tools {
namespace {

int complain(const base::error& e, int code) {
  std::fprintf(stderr, "quern eval: %s\n", e.message.c_str());
  return code;
}

}  // namespace

int cmd_eval(const eval_arguments& asked) {
  const auto word = resolve_task(asked.task, asked.tasks);
  if (!word) return complain(word.error(), usage);
  eval_arguments arguments = asked;
  arguments.task = *word;
  auto loaded = env::find_task(arguments.task, arguments.tasks);
  if (!loaded) return complain(loaded.error(), usage);
  auto source = read_input(arguments.candidate, max_candidate_bytes, "a candidate");
  if (!source) return complain(source.error(), usage);

  const auto terms = terms_of(arguments, *loaded);
  if (!terms) return complain(terms.error(), usage);

  auto evaluator = loaded->task.lane->open_judge(judge_options(arguments, terms->measured));
  if (!evaluator) {
    const bool asked_wrongly = evaluator.error().code == base::errc::invalid_argument;
    return complain(evaluator.error(), asked_wrongly ? usage : failed);
  }

  env::evaluation_request request;
  request.subject = std::make_shared<const env::task>(std::move(loaded->task));
  request.source = std::move(*source);
  request.verify_only = arguments.verify_only;
  request.protocol = env::to_text(terms->measured);
  request.policy = terms->policy;
  request.recheck_above = terms->recheck_above;
  request.time_limit_s = arguments.timeout_s;
  const env::verdict v = (*evaluator)->evaluate(request);
  if (arguments.json)
    std::printf("%s\n", base::dump(env::to_json(v)).c_str());
  else
    std::fputs(base::printable((arguments.explain ? env::explain_verdict : env::describe_verdict)(
                                   v, *request.subject))
                   .c_str(),
               stdout);
  const bool not_judged =
      v.kind == env::verdict_kind::infra_error || v.kind == env::verdict_kind::invalid_reference;
  return not_judged || (arguments.strict && v.kind != env::verdict_kind::ok) ? failed : done;
}

int cmd_eval(int argc, char** argv) {
  CLI::App app{"Judges one candidate kernel: is it right, how fast is it, and what to do about it.",
               "quern eval"};
  eval_arguments a;
  bool no_screen = false, serve = false;
  const bool one_kernel = std::find(argv, argv + argc, std::string_view("--serve")) == argv + argc;
  app.add_option("task", a.task,
                 "NAME.task.yaml, the name of a shipped task" + env::foreign_forms())
      ->required(one_kernel);
  app.add_option(
         "candidate", a.candidate,
         "file that defines the task's kernel: " + file_endings() + "; - reads standard input")
      ->required(one_kernel);
  app.add_flag("--explain", a.explain,
               "show every check, the buckets, the compiler's command and text");
  app.add_flag("--json", a.json, "print the verdict as JSON")->excludes("--explain");
  app.add_flag("--serve", serve,
               "stay up: a request is a line of JSON on standard input, its answer a line on "
               "standard output; in place of task and candidate")
      ->excludes("task")
      ->excludes("candidate")
      ->excludes("--explain")
      ->excludes("--json");
  app.add_flag("--strict", a.strict, "end with 1 unless the verdict is ok")->excludes("--serve");
  app.add_flag("--verify-only", a.verify_only, "check, but do not measure");
  app.add_flag("--no-screen", no_screen, "skip the static screen; the sandbox alone decides");
  app.add_flag("--best-effort", a.best_effort,
               "run although sandbox layers are missing (see quern doctor)");
  app.add_option("--budget-s", a.budget_s, "seconds of measuring")
      ->check(number_within(0.05, 3600))
      ->default_str("the protocol's, else 0.5");
  add_timeout_option(app, a.timeout_s);
  app.add_option("--suite", a.suite,
                 "folder whose suite.yaml says what is allowed; default: the task's own folder");
  add_source_options(app, a.tasks);
  add_measure_options(app, a.measuring);
  add_policy_options(app, a.measuring);
  app.add_option("--core", a.core, "core to measure on; -1 chooses one")
      ->check(whole_within(-1, 4095))
      ->capture_default_str();
  app.add_option("--gpu", a.gpu,
                 lanes_on(env::device_kind::gpu) +
                     ": GPU to measure on, by the driver's number; a lane that can judge on either "
                     "judges on a GPU where this is given")
      ->check(whole_within(0, 63))
      ->default_str(lanes_on(env::device_kind::gpu) + ": 0");
  if (const auto code = parse(app, argc, argv)) return *code;
  a.screen = !no_screen;
  return serve ? serve_evaluations(a) : cmd_eval(a);
}

}  // namespace quern::tools
