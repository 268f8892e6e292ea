// A network of the process's own, whose loopback can be cut: the next best thing to a black hole between two machines.
#pragma once

namespace scalewatch::bench {

// Before the first thread and the first socket. False where the system does not allow it (no root): nothing changed then.
bool enter_own_network();
// Packets over the loopback arrive, or vanish. In a network of one's own only.
void set_loopback(bool up);

}  // namespace scalewatch::bench
