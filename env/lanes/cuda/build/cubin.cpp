// Registers, shared and local memory of kernels, from their ELF file.
#include "env/lanes/cuda/build/cubin.hpp"

#include <cstring>
#include <map>
#include <optional>

namespace quern::env {
namespace {

constexpr std::uint16_t machine_cuda = 190;
constexpr std::size_t header_bytes = 64, section_bytes = 64, symbol_bytes = 24;
constexpr std::size_t most_sections = 1 << 16, most_symbols = 1 << 16;
/// Attributes of .nv.info: a byte of format, a byte of kind, two of size or value.
constexpr std::uint8_t format_with_size = 4, kind_registers = 0x2f, kind_frame = 0x11;
/// Flags of a symbol: a kernel's entry.
constexpr std::uint8_t entry_flag = 0x10;
constexpr std::uint8_t symbol_of_function = 2;
constexpr std::string_view shared_prefix = ".nv.shared.";

/// Little-endian numbers at places that need not be there.
class elf_bytes {
 public:
  explicit elf_bytes(std::string_view whole) : whole_(whole) {}

  template <class Number>
  [[nodiscard]] std::optional<Number> at(std::uint64_t offset) const {
    if (offset > whole_.size() || whole_.size() - offset < sizeof(Number)) return std::nullopt;
    Number value{};
    std::memcpy(&value, whole_.data() + offset, sizeof value);
    return value;
  }
  [[nodiscard]] std::optional<std::string_view> range(std::uint64_t offset,
                                                      std::uint64_t bytes) const {
    if (offset > whole_.size() || bytes > whole_.size() - offset) return std::nullopt;
    return whole_.substr(offset, bytes);
  }

 private:
  std::string_view whole_;
};

struct elf_section {
  std::uint32_t name = 0, link = 0;
  std::uint64_t offset = 0, bytes = 0;
};

std::string_view text_at(std::string_view table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto rest = table.substr(offset);
  const auto end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

tl::unexpected<base::error> corrupt(const char* what) {
  return base::fail(base::errc::corrupt, "device code: {}", what);
}

base::expected<std::vector<elf_section>> read_sections(const elf_bytes& file,
                                                       std::string_view& names) {
  const auto table = file.at<std::uint64_t>(40);
  const auto entry = file.at<std::uint16_t>(58), count = file.at<std::uint16_t>(60),
             of_names = file.at<std::uint16_t>(62);
  if (!table || !entry || !count || !of_names || *entry != section_bytes || *count > most_sections)
    return corrupt("no table of sections");
  std::vector<elf_section> sections;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto bytes = file.range(*table + i * section_bytes, section_bytes);
    if (*table > (std::uint64_t{1} << 40) || !bytes) return corrupt("a table that ends too early");
    const elf_bytes one(*bytes);
    sections.push_back({*one.at<std::uint32_t>(0), *one.at<std::uint32_t>(40),
                        *one.at<std::uint64_t>(24), *one.at<std::uint64_t>(32)});
  }
  if (*of_names >= sections.size()) return corrupt("no names of sections");
  const auto& text = sections[*of_names];
  const auto found = file.range(text.offset, text.bytes);
  if (!found) return corrupt("names outside of the file");
  names = *found;
  return sections;
}

/// Kernels by the number of their symbol.
base::expected<std::map<std::uint32_t, kernel_resources>> read_kernels(
    const elf_bytes& file, const std::vector<elf_section>& sections, const elf_section& symbols) {
  const auto table = file.range(symbols.offset, symbols.bytes);
  if (!table || symbols.link >= sections.size()) return corrupt("symbols outside of the file");
  const auto& text = sections[symbols.link];
  const auto names = file.range(text.offset, text.bytes);
  if (!names || table->size() / symbol_bytes > most_symbols) return corrupt("too many symbols");
  std::map<std::uint32_t, kernel_resources> kernels;
  const elf_bytes entries(*table);
  for (std::uint32_t i = 0; (i + std::uint64_t{1}) * symbol_bytes <= table->size(); ++i) {
    const std::uint64_t at = i * std::uint64_t{symbol_bytes};
    const auto kind = *entries.at<std::uint8_t>(at + 4), other = *entries.at<std::uint8_t>(at + 5);
    if ((kind & 0xF) != symbol_of_function || (other & entry_flag) == 0) continue;
    kernels[i].symbol = std::string(text_at(*names, *entries.at<std::uint32_t>(at)));
  }
  return kernels;
}

void read_attributes(std::string_view info, std::map<std::uint32_t, kernel_resources>& kernels) {
  const elf_bytes bytes(info);
  for (std::uint64_t at = 0;;) {
    const auto format = bytes.at<std::uint8_t>(at), kind = bytes.at<std::uint8_t>(at + 1);
    const auto size = bytes.at<std::uint16_t>(at + 2);
    if (!format || !kind || !size) return;
    at += 4;
    if (*format != format_with_size) continue;
    const auto symbol = bytes.at<std::uint32_t>(at), value = bytes.at<std::uint32_t>(at + 4);
    at += *size;
    if (*size < 8 || !symbol || !value) continue;
    const auto found = kernels.find(*symbol);
    if (found == kernels.end()) continue;
    if (*kind == kind_registers) found->second.registers = *value;
    if (*kind == kind_frame) found->second.local_bytes = *value;
  }
}

}  // namespace

base::expected<std::vector<kernel_resources>> read_cubin(std::string_view elf) {
  const elf_bytes file(elf);
  if (elf.size() < header_bytes ||
      !elf.starts_with("\x7f"
                       "ELF\x02\x01") ||
      file.at<std::uint16_t>(18) != machine_cuda)
    return corrupt("no ELF file for a GPU");
  std::string_view names;
  QUERN_TRY(const auto sections, read_sections(file, names));
  std::map<std::uint32_t, kernel_resources> kernels;
  for (const auto& section : sections)
    if (text_at(names, section.name) == ".symtab") {
      QUERN_TRY(kernels, read_kernels(file, sections, section));
    }
  std::map<std::string, std::int64_t, std::less<>> shared;
  for (const auto& section : sections) {
    const auto name = text_at(names, section.name);
    if (name == ".nv.info")
      if (const auto info = file.range(section.offset, section.bytes))
        read_attributes(*info, kernels);
    // It takes no room in the file: its size is what the kernel asks for.
    if (name.starts_with(shared_prefix) && section.bytes < (std::uint64_t{1} << 32))
      shared[std::string(name.substr(shared_prefix.size()))] =
          static_cast<std::int64_t>(section.bytes);
  }
  std::vector<kernel_resources> result;
  for (auto& [number, kernel] : kernels) {
    if (const auto found = shared.find(kernel.symbol); found != shared.end())
      kernel.shared_bytes = found->second;
    result.push_back(std::move(kernel));
  }
  return result;
}

}  // namespace quern::env
