// Requests for tests: with every field set, so that a change of each can be seen.
#pragma once

#include "env/lanes/pytorch/build/extension_request.hpp"

namespace quern::test {

inline env::extension_request full_request() {
  env::extension_request request;
  request.name = "fused_add";
  request.cpp_sources = {"torch::Tensor add(torch::Tensor a, torch::Tensor b);"};
  request.cuda_sources = {"#include <torch/extension.h>\n__global__ void k() {}\n"};
  request.functions.emplace();
  request.functions->push_back({"add", "adds"});
  request.headers = {{"own.h", "int own();"}};
  request.cflags = {"-O2", "-O3"};
  request.cuda_cflags = {"--use_fast_math"};
  request.ldflags = {"-lcublas"};
  request.include_paths = {"/usr/local/cuda/include"};
  request.with_cuda = true;
  return request;
}

inline env::extension_request cpp_request(std::string source, std::vector<std::string> functions) {
  env::extension_request request;
  request.name = "cpp_module";
  request.cpp_sources = {std::move(source)};
  request.functions.emplace();
  for (auto& name : functions)
    request.functions->push_back({name, name});
  return request;
}

}  // namespace quern::test
