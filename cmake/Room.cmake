# skyward_room(NAME DEPS room… LIBS target…): the static library skyward_NAME from every *.cc of the folder,
# and the test program NAME_test from every *_test.cc and *_fixture.cc beside it. ONE_THREAD: its tests run one, so
# that the thread sanitizer has nothing to look at.

# What everybody needs who includes our headers.
add_library(skyward_flags INTERFACE)
target_compile_features(skyward_flags INTERFACE cxx_std_23)
target_include_directories(skyward_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_definitions(skyward_flags INTERFACE $<BUILD_INTERFACE:SKYWARD_VERSION="${PROJECT_VERSION}">)
target_link_libraries(skyward_flags INTERFACE Threads::Threads)

# What only we hold ourselves to.
set(SKYWARD_TEST_TIMEOUT 300)  # seconds, for a whole test program
if(PROJECT_IS_TOP_LEVEL)
  include(CTest)
  add_library(skyward_development INTERFACE)
  target_link_libraries(skyward_flags INTERFACE $<BUILD_INTERFACE:skyward_development>)
  target_compile_options(skyward_development INTERFACE
    -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers -Wno-psabi $<$<NOT:$<BOOL:${SKYWARD_NO_WERROR}>>:-Werror>)
  # g++ 12 warns of overlaps inside its own std::string when it inlines "text" + string (GCC bug 105651).
  target_compile_options(skyward_development INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  # clang takes what its std::stable_sort does inside for a use of something deprecated.
  target_compile_options(skyward_development INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
  # Threads that ask clouds may still run while exit() destroys what is static: nothing of ours is.
  target_compile_options(skyward_development INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wexit-time-destructors>)
  # g++ 13 and 14 take an empty std::map inside an aggregate for one that was never made.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(skyward_development INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(SKYWARD_SANITIZE)
    set(SKYWARD_TEST_TIMEOUT 900)
    target_compile_options(skyward_development INTERFACE
      -fsanitize=${SKYWARD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    # With -Og, g++ loses sight of what constructors set; the release build, which sees it, does warn.
    target_compile_options(skyward_development INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(skyward_development INTERFACE -fsanitize=${SKYWARD_SANITIZE})
  else()
    # Ubuntu's compiler does this unasked: so the calls that it checks are checked, and warned of, everywhere.
    target_compile_options(skyward_development INTERFACE
      "$<$<CONFIG:Release>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
  endif()
  find_program(SKYWARD_MOLD mold)
  if(SKYWARD_MOLD AND NOT CMAKE_CROSSCOMPILING)  # a cross compiler has a linker of its own
    target_link_options(skyward_development INTERFACE -fuse-ld=mold)
  endif()
  find_program(SKYWARD_CCACHE ccache)
  if(SKYWARD_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${SKYWARD_CCACHE})
  endif()
endif()

if(SKYWARD_TESTS)
  find_package(GTest REQUIRED)
  add_custom_target(skyward_tests)  # all test programs, and what they start
endif()

# A first build takes half as long when the files of a room share what they include. Each file still includes all that
# it needs: the preset `alone` compiles them one by one. Unlike CMake's own unity builds, these files name what they
# include relative to the project: checkouts in different folders share what they compile.
set(SKYWARD_UNITE 8 CACHE STRING "compile so many files of a room at once; 0 compiles each on its own")
function(skyward_unite target)
  if(SKYWARD_UNITE GREATER 1)
    # When the folder's CMakeLists.txt has said all that it says of its files.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL skyward_unite_now ${target})")
  endif()
endfunction()
function(skyward_unite_now target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(alone "")
  set(together "")
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} OUTPUT_VARIABLE file)
    get_property(own SOURCE ${file} DIRECTORY ${folder} PROPERTY SKYWARD_ALONE)
    get_property(defines SOURCE ${file} DIRECTORY ${folder} PROPERTY COMPILE_DEFINITIONS)
    if(own OR defines)
      list(APPEND alone ${file})
    else()
      list(APPEND together ${file})
    endif()
  endforeach()
  set(number 0)
  while(together)
    list(SUBLIST together 0 ${SKYWARD_UNITE} batch)
    list(REMOVE_ITEM together ${batch})
    set(text "")
    foreach(file ${batch})
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(APPEND text "#include \"${file}\"\n")
    endforeach()
    set(united ${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.cc)
    file(CONFIGURE OUTPUT ${united} CONTENT "${text}" @ONLY)
    list(APPEND alone ${united})
    math(EXPR number "${number} + 1")
  endwhile()
  set_target_properties(${target} PROPERTIES SOURCES "${alone}")
endfunction()

# Files that cannot share: what they name would meet what another file of the room names.
function(skyward_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKYWARD_ALONE ON)
endfunction()

function(skyward_test name)
  cmake_parse_arguments(ARG "" "SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT SKYWARD_TESTS OR NOT ARG_SOURCES)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  skyward_unite(${name})
  add_dependencies(skyward_tests ${name})
  # The rooms are tried as they ship; what tries them need not be fast, and compiles in half the time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${SKYWARD_TEST_TIMEOUT})
    return()
  endif()
  # Each shard runs its part of the tests, with a result file of its own; the longest programs begin first.
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(part ${name}_${shard})
    add_test(NAME ${part} COMMAND ${name})
    set_tests_properties(${part} PROPERTIES TIMEOUT ${SKYWARD_TEST_TIMEOUT} COST 100 ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard};GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/results/${part}.xml")
  endforeach()
endfunction()

function(skyward_room name)
  cmake_parse_arguments(ARG "ONE_THREAD" "TEST_SHARDS" "DEPS;LIBS;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_fixture|_fuzz|main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_(test|fixture)\\.cc$")
  foreach(pattern ${ARG_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  set(deps ${ARG_DEPS})
  list(TRANSFORM deps PREPEND skyward_)
  if(sources)
    add_library(skyward_${name} STATIC ${sources})
    skyward_unite(skyward_${name})
    # A program may leave out what it does not call (the agent does, agent/CMakeLists.txt).
    target_compile_options(skyward_${name} PRIVATE $<$<CONFIG:Release>:-ffunction-sections;-fdata-sections>)
    target_link_libraries(skyward_${name} PUBLIC skyward_flags ${deps} ${ARG_LIBS})
  else()
    add_library(skyward_${name} INTERFACE)
    target_link_libraries(skyward_${name} INTERFACE skyward_flags ${deps} ${ARG_LIBS})
  endif()
  if(NOT (ARG_ONE_THREAD AND SKYWARD_SANITIZE STREQUAL thread))
    skyward_test(${name}_test SHARDS ${ARG_TEST_SHARDS} SOURCES ${tests} DEPS skyward_${name})
  endif()
endfunction()

# cereal includes <iostream>, which no header of it needs. Where that is included, the streams and all locales are
# linked: half a megabyte of the agent. The standard library's own guard keeps it out of a room's files.
function(skyward_without_streams target)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_IOSTREAM)
endfunction()
