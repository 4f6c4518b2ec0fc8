// In the place of env/sandbox/in_process.cpp, for a libquern_python.so of tests: processes that do
// not lock themselves in.
#include "env/sandbox/in_process.hpp"

namespace quern::env {

base::expected<layer_set> apply_sandbox_in_this_process(const child_spec& /*spec*/,
                                                        const host_facts& /*facts*/,
                                                        sandbox_mode /*mode*/,
                                                        const cgroup_leaf* /*group*/) {
  return layer_set();
}

}  // namespace quern::env
