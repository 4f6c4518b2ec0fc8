#include "support/test.hpp"
