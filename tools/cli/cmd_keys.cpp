// quern keys: key pairs for evaluator hosts and gateways that meet over tcp://.
#include <fmt/format.h>

#include "env/plugin/key_file.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {

int cmd_keys(int argc, char** argv) {
  CLI::App app(
      "quern keys: make a key pair in a new file and print its public key. A run that binds tcp:// "
      "names its own file in env.keys and lists the hosts' public keys in env.hosts; a host names "
      "its file with --keys and the run's public key with --gateway-key.");
  std::string file;
  app.add_option("file", file, "file to make, of mode 0600")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto keys = env::make_key_file(file);
  if (!keys) return report("keys", keys.error());
  fmt::print("{}\n", keys->public_key);
  return done;
}

}  // namespace quern::tools
