#pragma once

// Lines that people read on standard error, from programs and threads that must not end because
// nobody reads them.

#include <string>

namespace skyward {

// Writes the text and a line break to standard error. What cannot be written (on a full disk, say)
// is dropped: fmt::print would throw, and end the program. A reader that has gone ends it all the
// same unless it ignores SIGPIPE.
void write_stderr_line(std::string text);

}  // namespace skyward
