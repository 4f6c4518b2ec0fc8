// quern sample and quern export: the same words to quern-torch, which can load a policy.
#include <cerrno>
#include <cstring>
#include <vector>

#include <unistd.h>

#include "base/program.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/policy_options.hpp"

namespace quern::tools {
namespace {

int become_torch(int argc, char** argv) {
  const auto program = base::sibling_program("quern-torch");
  if (!program) return report(argv[0], program.error());
  std::string path = program->string();
  std::vector<char*> arguments{path.data()};
  for (int i = 0; i < argc; ++i)
    arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  std::fprintf(stderr, "quern %s: cannot start %s: %s\n", argv[0], path.c_str(),
               std::strerror(errno));
  return failed;
}

}  // namespace

int cmd_sample(int argc, char** argv) {
  sample_options options;
  if (const auto code = parse_sample(argc, argv, options)) return *code;
  return become_torch(argc, argv);
}
int cmd_export(int argc, char** argv) {
  export_options options;
  if (const auto code = parse_export(argc, argv, options)) return *code;
  return become_torch(argc, argv);
}

}  // namespace quern::tools
