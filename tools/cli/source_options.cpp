#include "tools/cli/source_options.hpp"

namespace quern::tools {

void add_source_options(CLI::App& app, env::source_options& options) {
  app.add_option("--kernelbench", options.kernelbench,
                 "folder of KernelBench's tree; default: the variable KERNELBENCH");
  app.add_option("--precision", options.precision,
                 "what tasks of others cast floating inputs to: fp32 | fp16 | bf16; default fp32");
}

}  // namespace quern::tools
