#pragma once

// Lines that people read on standard error, from programs and threads that must not end because
// nobody reads them.

#include <string>

namespace skyward {

// Writes the text and a line break to standard error, in one piece. What cannot be written (a full
// disk, a reader that has gone) is dropped: fmt::print would throw, and end the program.
void write_stderr_line(std::string text);

}  // namespace skyward
