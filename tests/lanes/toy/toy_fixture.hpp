// Copies of Quern's programs that have the toy lanes, and what tests ask of them.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

namespace quern::test {

inline std::filesystem::path toy_programs() {
  return program_dir() / "with_toy";
}

inline std::string toy_suite() {
  return (source_dir() / "tests/lanes/toy/suite").string();
}

/// The copies with a quern-runner beside them, as lane cpp needs them, for as long as this lives.
/// They lie in the build folder: a sandbox shows no temporary one.
class whole_programs {
 public:
  /// `name`: of the folder; tests in other processes have others.
  explicit whole_programs(const std::string& name) : folder_(program_dir() / name) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const std::filesystem::path& one :
         {toy_programs() / "quern", toy_programs() / "quern-torch", program_dir() / "quern-runner"})
      std::filesystem::create_hard_link(one, folder_ / one.filename());
  }
  whole_programs(const whole_programs&) = delete;
  whole_programs& operator=(const whole_programs&) = delete;
  ~whole_programs() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::filesystem::path quern() const { return folder_ / "quern"; }

 private:
  std::filesystem::path folder_;
};

struct toy_fixture {
  base::temp_folder folder = base::temp_folder::make().value();
  int commands = 0;
  /// The command's end; its words begin behind the program. `lacks`: what lane toy is to miss.
  finished quern(std::vector<std::string> words, const std::string& lacks = "",
                 const std::filesystem::path& of = toy_programs() / "quern") {
    words.insert(words.begin(), of.string());
    if (!lacks.empty()) words.insert(words.begin(), {"/usr/bin/env", "QUERN_TOY_LACKS=" + lacks});
    return run_to_end(std::move(words), folder.path() / ("log" + std::to_string(++commands)));
  }
};

}  // namespace quern::test
