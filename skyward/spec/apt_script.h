#pragma once

// How a machine installs the system packages of an image.

#include <string_view>

namespace skyward {

// A bash function, `install_packages PACKAGE…`. Packages are named as apt-get reads them: NAME,
// NAME=VERSION or NAME/RELEASE. If all are installed, it needs neither root nor a network.
extern const std::string_view kInstallPackages;

}  // namespace skyward
