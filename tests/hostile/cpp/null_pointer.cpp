// Simply wrong.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  volatile float* nowhere = nullptr;
  nowhere[0] = x[0];
}
