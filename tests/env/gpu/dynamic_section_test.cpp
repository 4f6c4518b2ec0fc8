// What an ELF file asks of the loader, read from files made by hand and from this program.
#include "env/gpu/dynamic_section.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <elf.h>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using strings = std::vector<std::string>;

namespace {

/// A file of one loaded part, whose dynamic section has these entries; a name's value is its place
/// in the table of strings.
class made_up_elf {
 public:
  void add(std::int64_t tag, const std::string& text) {
    entries_.push_back({tag, {strings_.size()}});
    strings_ += text + '\0';
  }
  void add_raw(std::int64_t tag, std::uint64_t value) { entries_.push_back({tag, {value}}); }
  std::string data;  ///< bytes that stand in the file and in no table

  [[nodiscard]] std::string bytes() const {
    constexpr std::uint64_t loaded_at = 0x10000;
    const std::uint64_t dynamic_at = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
    const std::uint64_t strings_at = dynamic_at + (entries_.size() + 2) * sizeof(Elf64_Dyn);
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_phoff = sizeof head;
    head.e_phnum = 2;
    Elf64_Phdr load{}, dynamic{};
    load.p_type = PT_LOAD;
    load.p_vaddr = loaded_at;
    load.p_filesz = strings_at + strings_.size() + data.size();
    dynamic.p_type = PT_DYNAMIC;
    dynamic.p_offset = dynamic_at;
    dynamic.p_filesz = (entries_.size() + 2) * sizeof(Elf64_Dyn);
    std::string file;
    const auto put = [&](const auto& part) {
      file.append(reinterpret_cast<const char*>(&part), sizeof part);
    };
    put(head);
    put(load);
    put(dynamic);
    for (const auto& [tag, value] : entries_)
      put(Elf64_Dyn{tag, {value[0]}});
    put(Elf64_Dyn{DT_STRTAB, {loaded_at + strings_at}});
    put(Elf64_Dyn{DT_NULL, {0}});
    return file + strings_ + data;
  }

 private:
  std::vector<std::pair<std::int64_t, std::vector<std::uint64_t>>> entries_;
  std::string strings_ = std::string(1, '\0');
};

strings needed_by(const std::string& file) {
  const auto read = env::read_dynamic_section(file);
  return {read.needed.begin(), read.needed.end()};
}

}  // namespace

TEST_CASE("what a file needs is what its dynamic section says, not what stands in its data") {
  made_up_elf file;
  file.add(DT_NEEDED, "libc.so.6");
  file.data = "libcublas.so.13";
  CHECK(needed_by(file.bytes()) == strings{"libc.so.6"});
  file.add(DT_NEEDED, "libcublas.so.13");
  file.add(DT_SONAME, "libcudnn.so.9");
  file.add(DT_RUNPATH, "/somewhere");
  CHECK(needed_by(file.bytes()) == strings{"libc.so.6", "libcublas.so.13"});
  const std::string bytes = file.bytes();
  CHECK(env::read_dynamic_section(bytes).run_path == "/somewhere");
}

TEST_CASE("this program needs libc") {
  const auto bytes = base::read_file("/proc/self/exe", std::size_t{1} << 30).value();
  bool libc = false;
  for (const auto name : env::read_dynamic_section(bytes).needed)
    libc = libc || name.starts_with("libc.so");
  CHECK(libc);
}

TEST_CASE("a file that is cut short or leads outside of itself is read no further") {
  made_up_elf file;
  file.add(DT_NEEDED, "libcublas.so.13");
  file.add_raw(DT_NEEDED, ~std::uint64_t{0});
  file.add_raw(DT_NEEDED, 1 << 20);
  const std::string whole = file.bytes();
  CHECK(needed_by(whole) == strings{"libcublas.so.13"});
  for (std::size_t length = 0; length < whole.size(); ++length)
    (void)env::read_dynamic_section(std::string(whole.data(), length));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(wrong[at] ^ 0xFF);
    (void)env::read_dynamic_section(wrong);
  }
  CHECK(needed_by("").empty());
  CHECK(needed_by("#!/bin/sh\n").empty());
}

TEST_CASE("a file that needs thousands of libraries tells 256") {
  made_up_elf file;
  for (int i = 0; i < 5000; ++i)
    file.add(DT_NEEDED, "x");
  CHECK(needed_by(file.bytes()).size() == 256);
}

TEST_CASE("no more than 65,536 entries are read, however many a file has") {
  made_up_elf file;
  for (int i = 0; i < 65'535; ++i)
    file.add_raw(DT_DEBUG, 0);
  file.add(DT_RUNPATH, "/last");
  file.add(DT_RPATH, "/more");
  // Both entries behind them, the table of strings among them, are not read.
  CHECK(env::read_dynamic_section(file.bytes()).run_path.empty());
}

TEST_CASE("some thousand entries are read to their end") {
  made_up_elf file;
  for (int i = 0; i < 60'000; ++i)
    file.add_raw(DT_DEBUG, 0);
  file.add(DT_RUNPATH, "/last");
  const std::string bytes = file.bytes();
  CHECK(env::read_dynamic_section(bytes).run_path == "/last");
}
