// Python modules of others as tasks: names, bodies, and suites of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_source.hpp"

namespace quern::env {

/// Largest file that is read as one module; what is left without comments' trailing blanks must fit
/// max_block_bytes.
inline constexpr std::size_t max_module_bytes = 256 * 1024;
/// Most modules that one word may name.
inline constexpr std::size_t max_modules = 20'000;

struct python_module {
  std::string text;    ///< as it was found
  std::string origin;  ///< for messages: a path, a path and a line
  std::string title;   ///< what the file or the record calls it, without number and ending
  std::string family;
  std::optional<benchmark_place> place;
};

/// A text as a part of a task's name: small letters and digits with single _ between, at most
/// `longest`; empty where it has none of these.
std::string word_of(std::string_view title, std::size_t longest);

/// "level1_3_TITLE" where a benchmark has it, else "TITLE", in small letters and cut to what a
/// task's name may have.
std::string module_name(const python_module& from);

/// The number and the title of "3_Some_name", with the ending .py or without; nothing where no
/// number and _ stand first.
struct numbered_title {
  int number = 0;
  std::string title;
};
std::optional<numbered_title> numbered_title_of(std::string_view file_name);

/// A valid task. Errors begin with the origin.
base::expected<task> import_module(const lane& of, const python_module& from,
                                   torch_precision precision);

/// fp32 where the options do not say. Error: a name that is no precision.
base::expected<torch_precision> precision_of(const source_options& options);

/// What to do with a second module of a name.
enum class same_name { refuse, take_equal };

/// Collects tasks of one lane into a suite.
class module_suite {
 public:
  module_suite(const lane& of, torch_precision precision) : lane_(of), precision_(precision) {}

  /// Errors: those of import_module(); two modules of one name, or more than max_modules.
  base::status add(const python_module& from, same_name rule);

  /// The suite `name`, sorted, with nothing held out and the defaults of the lane. Error: there is
  /// no task; `where` is what was read.
  base::expected<suite> finish(std::string name, std::string_view where);

 private:
  struct added {
    env::task task;
    std::string origin;
  };
  const lane& lane_;
  torch_precision precision_;
  std::map<std::string, added> all_;
};

}  // namespace quern::env
