// Writes a gigabyte to stdout and stderr and computes nothing.
extern "C" long write(int, const void*, unsigned long);
static char block[1 << 20];
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int i = 0; i < 1024; ++i) {
    write(1, block, sizeof block);
    write(2, block, sizeof block);
  }
}
