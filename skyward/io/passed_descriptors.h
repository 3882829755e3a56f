#pragma once

// Descriptors beside a message on a Unix socket (SCM_RIGHTS).

#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace skyward::io {

// Puts them beside a message that is to be sent. `control` has room for them, CMSG_SPACE() of their
// bytes, and is aligned for a cmsghdr. Both are borrowed until then.
inline void attach_descriptors(msghdr& message, std::span<const int> descriptors, char* control) {
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  std::memset(control, 0, message.msg_controllen);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

// Adds those beside a message that was received to a container of FileDescriptor.
template <typename Container>
void claim_descriptors(msghdr& message, Container& container) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      container.emplace_back(descriptor);
    }
  }
}

}  // namespace skyward::io
