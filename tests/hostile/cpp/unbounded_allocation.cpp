// Takes memory until there is none.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (;;) {
    char* block = new char[16 << 20];
    std::memset(block, 1, 16 << 20);
    __builtin_prefetch(block);
    volatile char keep = block[12345];
    (void)keep;
  }
}
