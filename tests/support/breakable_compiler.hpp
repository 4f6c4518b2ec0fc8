// A compiler that a test can break and mend (breakable_compiler.cpp).
#pragma once

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "env/build/tool.hpp"
#include "support/test.hpp"

namespace quern::test {

class breakable_compiler {
 public:
  breakable_compiler() {
    namespace fs = std::filesystem;
    fs::create_directory(root_.path() / "bin");
    fs::copy_file(program_dir() / "quern_breakable_compiler", program());
    fs::create_symlink(env::find_compiler().value(), root_.path() / "real");
    // A candidate's compiler is another user.
    fs::permissions(root_.path(), fs::perms{0755});
    fs::permissions(root_.path() / "bin", fs::perms{0755});
  }

  [[nodiscard]] std::filesystem::path program() const { return root_.path() / "bin" / "g++"; }
  void break_it() const { std::ofstream(root_.path() / "broken") << "by a test\n"; }
  void make_greedy() const { std::ofstream(root_.path() / "greedy") << "by a test\n"; }
  void mend() const { std::filesystem::remove(root_.path() / "broken"); }

 private:
  base::temp_folder root_ = base::temp_folder::make("quern-tool").value();
};

}  // namespace quern::test
