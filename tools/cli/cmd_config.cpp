// quern config: files of configurations of an earlier version of the format.
#include <filesystem>
#include <fstream>

#include "actors/config/config_upgrade.hpp"
#include "base/file.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

constexpr std::size_t largest_file = 1U << 20U;

/// In place: the file keeps its owner, its mode and its other names. A copy of what it was lies
/// beside it until all is written. None is made of a file that cannot be written.
base::status write_in_place(const std::string& file, const std::string& before,
                            const std::string& text) {
  const std::string copy = file + ".before-upgrade";
  if (!std::ofstream(file, std::ios::binary | std::ios::in | std::ios::out))
    return base::fail_errno(file + " cannot be written, and nothing was changed; opening it");
  std::error_code unknown;
  // One that is what the file still is was left by an upgrade that changed nothing.
  if (std::filesystem::exists(copy, unknown) &&
      base::read_file(copy, largest_file).value_or("") != before)
    return base::fail(
        base::errc::conflict,
        "{0} is there: what {1} was before an upgrade that failed. Put it back in the "
        "place of {1}, or remove it, then type this again",
        copy, file);
  QUERN_CHECK(base::write_file_atomic(copy, before));
  std::ofstream out(file, std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc);
  out << text << std::flush;
  if (!out) return base::fail(base::errc::io, "writing {} failed; {} has what it was", file, copy);
  std::error_code gone;
  std::filesystem::remove(copy, gone);
  return {};
}

int upgrade(const std::string& file) {
  std::error_code unknown;
  const auto kind = std::filesystem::status(file, unknown).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    return report("config upgrade",
                  base::error{base::errc::invalid_argument,
                              file + " is no regular file: name the file of a configuration"});
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
  if (const auto written = write_in_place(file, *text, upgraded->text); !written)
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
