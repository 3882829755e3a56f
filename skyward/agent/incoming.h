#pragma once

// What arrives from workers, scripts and the driver: descriptors as blobs, and the moment at which
// bytes were read.

#include <memory>
#include <utility>
#include <vector>

#include "skyward/agent/output.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/wire/payload.h"

namespace skyward::agent {

// Each descriptor is closed when the last copy of its blob goes.
inline std::vector<wire::Blob> received_blobs(std::vector<io::FileDescriptor> descriptors) {
  std::vector<wire::Blob> blobs;
  for (io::FileDescriptor& descriptor : descriptors) {
    auto storage = std::make_shared<io::FileDescriptor>(std::move(descriptor));
    const int number = storage->get();
    blobs.push_back({.descriptor = number, .storage = std::move(storage)});
  }
  return blobs;
}

inline OutputSplitter::Stamp read_now() {
  return {.now = io::EventLoop::now(), .wall_us = io::EventLoop::wall_us()};
}

}  // namespace skyward::agent
