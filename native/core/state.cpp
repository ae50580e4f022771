#include "state.h"

namespace flambeau {

constinit ProcessState process;
FLAMBEAU_TLS ThreadState tls;

}  // namespace flambeau
