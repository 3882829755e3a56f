#pragma once

// Package indexes that serve only some of an image's packages, and how uv is told.

#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/spec/image.h"

namespace skyward {

// Refuses an index without a URL or packages, a name with a version, a package that two indexes
// claim, and one that `image.pip` does not install.
Status validate_pip_indexes(const Image& image);

// A pyproject.toml that lists the packages with an index of their own; empty if there are none. It
// may hold a password, so it travels in the environment as kIndexProject, not in a script, except
// in the one of Image::bootstrap(), which the user keeps.
std::string index_project(const Image& image);

// The text without the names and passwords in its addresses: "https://me:word@host/" →
// "https://host/". "git@" is neither.
std::string without_logins(std::string_view text);

constexpr std::string_view kIndexProject = "SKYWARD_INDEX_PROJECT";

// Before the names of an image's variables in the environment of a bootstrap: only what installs
// its packages gets them, under their own names.
constexpr std::string_view kImageVariable = "SKYWARD_IMAGE_ENV_";

// A bash function, `install_requirements UV ENVIRONMENT [OPTION…]`. It installs what the array
// `requirements` names, each package from the index that $SKYWARD_INDEX_PROJECT gives it.
extern const std::string_view kInstallRequirements;

}  // namespace skyward
