// Tasks of lane pytorch for a test's run, and completions for them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quern::test {

/// A task whose module does a step of a loop again and again. After the first round a step changes
/// nothing, so that a candidate is right with any number of rounds, and as fast as it has few.
struct looped_module {
  std::string name;
  std::string step;  ///< of the loop: the next y from y and x
  int width = 0, times = 0;
  double pause_ms = 0;  ///< of each round, slept at once before the loop

  /// A module of class `as`: `rounds` of the loop, then `result`.
  [[nodiscard]] std::string model(const std::string& as, int rounds,
                                  const std::string& result) const;
  /// The task as a module, and as a task file with this reference.
  [[nodiscard]] std::string reference() const;
  [[nodiscard]] std::string task_file() const;
};

/// Two of them, with `times` rounds.
std::vector<looped_module> looped_modules(int times = 12);
/// Two whose calls sleep for `call_ms` and compute little. Who sleeps is woken at once, but who
/// computes waits for whole turns of other processes: so these are measured on a busy machine, too.
std::vector<looped_module> sleeping_modules(int times, double call_ms);

/// A folder of the tasks for tasks.suite.
void write_suite(const std::filesystem::path& folder, const std::vector<looped_module>& modules);

/// What a policy would have written around `code`.
std::string module_completion(const std::string& code, const std::string& analysis = "One loop.",
                              const std::string& design = "Fewer rounds.");

/// Settings of a run of lane pytorch with the tasks in `suite`. It measures coarsely, so that a
/// busy machine gives a verdict, too.
std::vector<std::string> module_settings(const std::filesystem::path& suite);

/// Whether there is a Python with torch; the case is skipped where there is none.
bool has_module_python();

}  // namespace quern::test
