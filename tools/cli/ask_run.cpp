#include "tools/cli/ask_run.hpp"

#include "actors/console.hpp"
#include "storage/run_lock.hpp"

namespace quern::tools {

base::expected<base::json> ask_run(const storage::run_paths& paths, const std::string& command) {
  QUERN_TRY(const base::json meta, storage::read_meta(paths));
  // A copy of a run names the sockets of the original.
  QUERN_TRY(const bool locked, storage::is_locked(paths.lock()));
  if (!locked) return base::fail(base::errc::unavailable, "the run is not going on");
  QUERN_TRY(const std::string sockets, base::get<std::string>(meta, "sockets"));
  return actors::ask_console(sockets + "/console", {{"command", command}});
}

}  // namespace quern::tools
