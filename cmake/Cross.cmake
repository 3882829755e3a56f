# For the agent of another architecture: Debian's cross compiler, and the libraries that tools/cross_libraries.sh
# fetched. All else that the agent includes is headers, the same for every architecture.
#
#   cmake --preset aarch64    (or x86_64)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SKYWARD_CROSS SKYWARD_CROSS_LIBRARIES)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${SKYWARD_CROSS})
set(CMAKE_LIBRARY_ARCHITECTURE ${SKYWARD_CROSS}-linux-gnu)
string(REPLACE _ - compiler ${CMAKE_LIBRARY_ARCHITECTURE})  # x86-64-linux-gnu-g++
set(CMAKE_C_COMPILER ${compiler}-gcc)
set(CMAKE_CXX_COMPILER ${compiler}-g++)
set(OPENSSL_ROOT_DIR ${SKYWARD_CROSS_LIBRARIES})
set(ZLIB_ROOT ${SKYWARD_CROSS_LIBRARIES})
set(CMAKE_EXE_LINKER_FLAGS_INIT -L${SKYWARD_CROSS_LIBRARIES}/lib)
# Some header-only libraries are described beside this system's compiled ones.
file(GLOB CMAKE_PREFIX_PATH /usr/lib/*-linux-gnu/cmake)
file(GLOB CMAKE_INCLUDE_PATH /usr/include/*-linux-gnu)
