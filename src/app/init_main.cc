// bole-init. See engine/local/init/init.h.
#include <cstring>

#include "engine/local/init/init.h"
#include "engine/local/init/init_protocol.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], bole::init::kHold) == 0) return bole::init::hold();
  return bole::init::run();
}
