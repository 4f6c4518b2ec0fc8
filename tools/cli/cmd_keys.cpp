// quern keys: key pairs for evaluator hosts and gateways that meet over tcp://.
#include <fmt/format.h>

#include "env/plugin/key_file.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {

int cmd_keys(int argc, char** argv) {
  CLI::App app(
      "quern keys: make a key pair in FILE, its public key in FILE.pub, and print that. A run that "
      "binds tcp:// names its own FILE in env.keys and the hosts' FILE.pub in env.hosts; a host "
      "names its FILE with --keys and the run's FILE.pub with --gateway-key.");
  std::string file;
  app.add_option("file", file,
                 "file to make, of mode 0600; FILE.pub beside it is for the other side")
      ->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto keys = env::make_key_file(file);
  if (!keys) return report("keys", keys.error());
  fmt::print("{}\n", keys->public_key);
  return done;
}

}  // namespace quern::tools
