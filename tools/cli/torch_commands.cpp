// quern export: the same words to quern-torch, which can load a policy.
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/program.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/policy_options.hpp"

namespace quern::tools {
namespace {

int become_torch(const std::string& command, std::vector<std::string> words) {
  const auto program = base::sibling_program("quern-torch");
  if (!program) return report(command, program.error());
  std::string path = program->string();
  words.insert(words.begin(), {path, command});
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  std::fprintf(stderr, "quern %s: cannot start %s: %s\n", command.c_str(), path.c_str(),
               std::strerror(errno));
  return failed;
}

}  // namespace

int cmd_export(int argc, char** argv) {
  export_options options;
  if (const auto code = parse_export(argc, argv, options)) return *code;
  const auto from = find_model(options.from);
  if (!from) return report("export", from.error());
  std::vector<std::string> words = {"--shard-mb", std::to_string(options.shard_mb)};
  if (options.older) words.emplace_back("--older");
  words.insert(words.end(), {"--", from->string(), options.to});
  return become_torch("export", std::move(words));
}

}  // namespace quern::tools
