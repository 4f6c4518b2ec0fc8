// In the place of env/sandbox/in_process.cpp, for a libquern_python.so of tests: processes that do
// not lock themselves in.
#include "env/sandbox/in_process.hpp"

namespace quern::env {

base::expected<sandbox_entry> sandbox_entry::begin(const child_spec& /*spec*/,
                                                   const host_facts& /*facts*/,
                                                   sandbox_mode /*mode*/,
                                                   const cgroup_leaf* /*group*/) {
  return sandbox_entry(setup_plan());
}

base::expected<layer_set> sandbox_entry::complete(const late_spec& /*late*/) {
  return layer_set();
}

}  // namespace quern::env
