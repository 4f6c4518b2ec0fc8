// quern-torch: the processes that need LibTorch. The first argument is the role.
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/descriptors.hpp"
#include "base/write_signals.hpp"
#include "env/reference/device_role.hpp"
#include "env/reference/reference_role.hpp"
#include "env/sandbox/layout.hpp"
#include "policy/engine/device.hpp"
#include "tools/cli/last_words.hpp"
#include "tools/torch/roles.hpp"

namespace {

using namespace quern::tools;

struct role {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr std::array roles = {
    role{"generator", role_generator}, role{"learner", role_learner}, role{"sft", role_sft},
    role{"sample", role_sample},       role{"export", role_export},
};

}  // namespace

int main(int argc, char** argv) {
  quern::base::fill_standard_descriptors();
  quern::base::raise_descriptor_limit();
  quern::base::ignore_file_size_signal();
  const std::string_view name = argc > 1 ? argv[1] : "";
  // References are timed on the CPU in forked children: this process must stay single-threaded.
  if (name == "reference") {
    quern::env::start_over_in_fixed_layout(argv);
    return quern::env::reference_main();
  }
  // Loads LibTorch's CUDA part itself, when it is asked to, and says why it cannot.
  if (name == "reference-gpu") return quern::env::reference_gpu_main(argc - 1, argv + 1);
  for (const role& known : roles) {
    if (known.name != name) continue;
    const std::string program = std::string("quern-torch ") + argv[1];
    end_with_last_words(program.c_str());
    quern::policy::load_cuda();
    return known.run(argc - 1, argv + 1);
  }
  std::fprintf(stderr,
               "quern-torch: unknown role '%s'; it is started by quern, with one of: reference, "
               "reference-gpu, generator, learner, sft, sample, export\n",
               argc > 1 ? argv[1] : "");
  return 2;
}
