#pragma once

// How a program must start before it opens pools. A pool's workers are processes of the program's
// own executable: one that does not begin with sky::init would open its pool again in each of them.

namespace skyward {

// For sky::init.
void note_init();

// For pools. Throws ConfigurationError when init() has not been called; in a process that was
// started as a worker, exits with the same text.
void require_init();

}  // namespace skyward
