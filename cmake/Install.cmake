# `cmake --install BUILD --component cpp --prefix PLACE`: what find_package(skyward) needs. Headers, the static
# libraries behind skyward::skyward, skyward-agent, which is the target skyward::skyward-agent, and beside it the program
# skyward, which pools start as their reaper.

include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/skyward)
set(libraries skyward_flags)
foreach(room base spec wire io http provider engine call worker display pool face)
  list(APPEND libraries skyward_${room})
  set_target_properties(skyward_${room} PROPERTIES EXPORT_NAME ${room})
endforeach()
set_target_properties(skyward_flags PROPERTIES EXPORT_NAME flags)
set_target_properties(skyward_face PROPERTIES EXPORT_NAME skyward)

install(TARGETS ${libraries} skyward-agent EXPORT skyward
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp
  RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR} COMPONENT cpp)
if(TARGET skyward-cli)
  install(TARGETS skyward-cli RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR} COMPONENT cpp)
endif()
foreach(folder "" /base /spec /wire /call /worker /display /pool /pool/clouds)  # what skyward.h and testing.h lead to
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/skyward${folder}/*.h)
  list(FILTER headers EXCLUDE REGEX "_fixture\\.h$")
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/skyward${folder} COMPONENT cpp)
endforeach()

install(EXPORT skyward NAMESPACE skyward:: FILE skywardTargets.cmake DESTINATION ${package} COMPONENT cpp)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/skywardConfig.cmake.in
  ${PROJECT_BINARY_DIR}/skywardConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/skywardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/skywardConfig.cmake ${PROJECT_BINARY_DIR}/skywardConfigVersion.cmake
  DESTINATION ${package} COMPONENT cpp)
