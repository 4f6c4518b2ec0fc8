// An entry of another shape.
extern "C" void kernel(const double* x, double* y) {
  y[0] = x[0];
}
