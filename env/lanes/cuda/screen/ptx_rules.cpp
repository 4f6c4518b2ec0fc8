// What a kernel may write in assembler: an allow-list of PTX, read statement by statement.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "env/lanes/cuda/screen/cuda_rules.hpp"

namespace quern::env::cuda_rules {
namespace {

using word_set = std::unordered_set<std::string_view>;

// PTX ISA 9.0, chapter 9, without what ends, stops, delays, calls, traces, jumps through tables or
// takes stack.
const word_set mnemonics{
    // Integers and bits.
    "add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max",
    "popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "bmsk", "szext", "dp4a", "dp2a", "addc",
    "subc", "madc", "and", "or", "xor", "not", "cnot", "lop3", "shf", "shl", "shr", "prmt",
    // Floating numbers.
    "testp", "copysign", "fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh",
    // Comparison and selection.
    "set", "setp", "selp", "slct",
    // Data.
    "mov", "shfl", "ld", "ldu", "st", "prefetch", "prefetchu", "isspacep", "cvta", "cvt", "mapa",
    "getctarank", "applypriority", "discard", "createpolicy", "cp", "tensormap", "multimem", "tex",
    "tld4", "txq", "suld", "sust", "sured", "suq",
    // Control inside the statement.
    "bra",
    // Threads among themselves.
    "bar", "barrier", "membar", "fence", "atom", "red", "vote", "match", "activemask", "redux",
    "griddepcontrol", "elect", "mbarrier", "clusterlaunchcontrol",
    // Matrices.
    "wmma", "mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "tcgen05", "setmaxnreg",
    // Video.
    "vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vadd2", "vsub2",
    "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vset2", "vadd4", "vsub4", "vavrg4", "vabsdiff4",
    "vmin4", "vmax4", "vset4"};

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// Comments become blanks, as they do for the assembler.
std::string without_comments(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string_view end;
    if (text.substr(i, 2) == "//") end = "\n";
    if (text.substr(i, 2) == "/*") end = "*/";
    if (end.empty()) {
      result += text[i];
      continue;
    }
    const std::size_t at = text.find(end, i + 2);
    result += end == "\n" ? '\n' : ' ';
    if (at == std::string_view::npos) break;
    i = at + end.size() - 1;
  }
  return result;
}

class ptx_reader {
 public:
  explicit ptx_reader(std::string text) : text_(std::move(text)) {}

  /// The first thing that is not for a kernel; empty: there is none.
  std::string find() {
    for (;;) {
      skip_blanks();
      if (at_ >= text_.size()) return {};
      const char c = text_[at_];
      if (c == ';' || c == '{' || c == '}') {
        ++at_;
      } else if (c == '@') {
        if (auto bad = guard()) return *bad;
      } else if (auto bad = statement()) {
        return *bad;
      }
    }
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
      ++at_;
  }

  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_word(text_[at_]))
      ++at_;
    return std::string_view(text_).substr(begin, at_ - begin);
  }

  // "@p", "@!%p1", "@%3": a register.
  std::optional<std::string> guard() {
    ++at_;
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '!') ++at_;
    skip_blanks();
    while (at_ < text_.size() && text_[at_] == '%')
      ++at_;
    return word().empty() ? std::optional<std::string>("@") : std::nullopt;
  }

  std::optional<std::string> statement() {
    if (text_[at_] == '.') {
      ++at_;
      const std::string directive = "." + std::string(word());
      // Registers of this statement: all else would last, or be placed, or be text.
      if (directive != ".reg") return directive;
      return operands();
    }
    const std::string name(word());
    if (name.empty()) return std::string(1, text_[at_]);
    if (!next_is('.')) {
      const std::size_t behind = at_;
      skip_blanks();
      if (next_is(':')) {
        ++at_;  // a label
        return next_is(':') ? std::optional<std::string>(name) : std::nullopt;
      }
      at_ = behind;
      // All others say on what they work; no instruction of a host does it so.
      if (name != "bra") return name;
    }
    if (!mnemonics.contains(name)) return name;
    return operands();
  }

  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  // To the end of the statement. Words are registers, labels and types; those of the device that
  // tell the time are refused.
  std::optional<std::string> operands() {
    bool line_begins = false;
    char before = '\0';
    int open = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ';') return std::nullopt;
      if (c == '}' && open == 0) return std::nullopt;
      if (c == '\n') line_begins = true;
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
        continue;
      }
      if (c == '{') ++open;
      if (c == '}') --open;
      if (c == '%') {
        std::size_t end = at_ + 1;
        while (end < text_.size() && (in_word(text_[end]) || text_[end] == '%'))
          ++end;
        std::string_view special = std::string_view(text_).substr(at_, end - at_);
        while (special.starts_with("%%"))
          special.remove_prefix(1);
        for (const std::string_view clock : {"%clock", "%globaltimer", "%pm", "%current_graph"})
          if (special.starts_with(clock)) return std::string(special);
        at_ = end;
      } else if (in_word(c)) {
        const std::string name(word());
        // An assembler to which a line is a statement would read another one here.
        if (line_begins && before != ',' && before != '{' && before != '[' && before != '|' &&
            !std::isdigit(static_cast<unsigned char>(name[0])))
          return name;
      } else if (c == '"' || c == '\\' || c == '#' || c == '@' || c == '`' || c == '\'') {
        return std::string(1, c);
      } else {
        ++at_;
      }
      before = c;
      line_begins = false;
    }
    return std::nullopt;
  }

  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string forbidden_in_ptx(std::string_view text) {
  return ptx_reader(without_comments(text)).find();
}

}  // namespace quern::env::cuda_rules
