// quern config: files of configurations of an earlier version of the format.
#include "actors/config/config_upgrade.hpp"
#include "base/file.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

constexpr std::size_t largest_file = 1U << 20U;

int upgrade(const std::string& file) {
  const auto text = base::read_file(file, largest_file);
  if (!text) return report("config upgrade", text.error());
  auto upgraded = actors::upgrade_config(*text);
  if (!upgraded) {
    upgraded.error().message = file + ": " + upgraded.error().message;
    return report("config upgrade", upgraded.error());
  }
  if (upgraded->changes.empty()) {
    tell(stdout, "{} has the names of this build: nothing was changed\n", file);
    return nothing;
  }
  if (const auto written = base::write_file_atomic(file, upgraded->text); !written)
    return report("config upgrade", written.error());
  for (const std::string& change : upgraded->changes)
    tell(stdout, "{}: {}\n", file, change);
  return done;
}

}  // namespace

int cmd_config(int argc, char** argv) {
  CLI::App app("quern config: what a new build asks of a configuration");
  app.require_subcommand(1);
  std::string file;
  CLI::App* const one = app.add_subcommand(
      "upgrade",
      "write the version and the names of keys of this build into FILE, and nothing else; a key "
      "that belongs into another group now is named, and the file left as it is");
  one->add_option("file", file, "YAML file of a configuration")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  return upgrade(file);
}

}  // namespace quern::tools
