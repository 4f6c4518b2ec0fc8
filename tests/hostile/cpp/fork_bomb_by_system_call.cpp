// The same without any declared function.
static long call(long number) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
  return result;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int i = 0; i < 100000; ++i)
    call(57);
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
}
