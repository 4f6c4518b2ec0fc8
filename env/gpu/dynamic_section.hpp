// What an ELF file asks of the loader.
#pragma once

#include <string_view>
#include <vector>

namespace quern::env {

/// Views into the file that was read; they are good as long as its bytes are.
struct dynamic_section {
  std::vector<std::string_view> needed;  ///< DT_NEEDED, in its order: "libcublas.so.13"
  std::string_view run_path;             ///< DT_RUNPATH, else DT_RPATH; empty where there is none
};

/// Reads the dynamic section of a 64-bit ELF file. What is not one, is cut short or leads outside
/// of the file counts as absent. The file may be hostile: at most 65,536 entries are read and 256
/// needed names told, and no byte outside of `file` is read.
dynamic_section read_dynamic_section(std::string_view file);

}  // namespace quern::env
