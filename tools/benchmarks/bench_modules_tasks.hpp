// Tasks of benchmarks that measure how well modules are timed, their references as candidates, and
// the same with the work of more rows.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace quern::tools {

/// `rows` stands where a task has its first size: a GPU wants more of them. `more`: what forward()
/// does `passes` times with each row, on its first MORE rows alone. Empty for products, which take
/// far more than their share of the time on few rows. Whatever it is, its launch takes some 15 us.
struct self_module {
  const char* name;
  const char* text;
  const char* more;
  int passes;
  const char* rows;
  const char* rows_on_gpu;
};

inline constexpr self_module self_modules[] = {
    {"mlp", R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def get_inputs():
    return [torch.rand(ROWS, 256)]

def get_init_inputs():
    return [256, 512]
)",
     "", 1, "64", "65536"},
    {"softmax", R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)

def get_inputs():
    return [torch.rand(ROWS, 1024)]
)",
     "", 1, "256", "65536"},
    {"matmul", R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(ROWS, 384), torch.rand(384, 384)]
)",
     "", 1, "384", "131072"},
    {"reduction", R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)

def get_inputs():
    return [torch.rand(ROWS, 1024)]
)",
     "x[:MORE].sum(dim=1)", 1, "1024", "131072"},
    {"layer_norms", R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        for _ in range(5):
            x = nn.functional.layer_norm(x, (1024,))
        return x

def get_inputs():
    return [torch.rand(ROWS, 1024)]
)",
     "nn.functional.layer_norm(x[:MORE], (1024,))", 5, "256", "196608"}};

inline std::string text_of(const self_module& of, bool on_gpu) {
  std::string text = of.text;
  const std::string_view place = "ROWS";
  return text.replace(text.find(place), place.size(), on_gpu ? of.rows_on_gpu : of.rows);
}

inline std::string self_task(const self_module& of, bool on_gpu) {
  const std::string reference = text_of(of, on_gpu);
  std::string text = fmt::format(
      "quern_task: 1\nname: {}\nlane: pytorch\nfamily: bench\ntolerance: {{atol: 1.0e-4, rtol: "
      "1.0e-4}}\nbaseline: reference\nreference: |\n",
      of.name);
  for (const char letter : reference) {
    text += letter;
    if (letter == '\n') text += "  ";
  }
  return text + "\n";
}

/// The reference with the class that candidates have. The number makes it a source of its own.
inline std::string self_candidate(const self_module& of, int trial, bool on_gpu) {
  std::string text = text_of(of, on_gpu);
  const std::string head = "class Model(nn.Module):\n";
  text.replace(text.find(head), head.size(),
               fmt::format("class ModelNew(nn.Module):\n    trial = {}\n\n", trial));
  return text;
}

/// The same, and behind it `more` on so many rows that it is so many percent of the work, rounded
/// down, but at least on one. Its result is not used. 0: nothing more. Else `of` has `more`.
inline std::string slower_candidate(const self_module& of, int trial, int percent, bool on_gpu) {
  std::string text = self_candidate(of, trial, on_gpu);
  if (percent == 0) return text;
  const int all_rows = std::stoi(on_gpu ? of.rows_on_gpu : of.rows);
  const int rows = std::max(1, all_rows * of.passes * percent / 100);
  std::string more = of.more;
  const std::string_view place = "MORE";
  more.replace(more.find(place), place.size(), std::to_string(rows));
  const std::string body = "        return ";
  return text.insert(text.find(body), "        " + more + "\n");
}

}  // namespace quern::tools
