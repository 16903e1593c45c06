# What we build on. `./stampede setup` installs the packages and fills STAMPEDE_DEPS.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
set(STAMPEDE_DEPS "${CMAKE_SOURCE_DIR}/.deps" CACHE PATH "google/api protos, and hiredis where the system's is too old")

foreach(package grpc libuv libprotobuf-c rdkafka libmicrohttpd jansson sqlite3 openssl)
	pkg_check_modules(${package} REQUIRED IMPORTED_TARGET ${package})
endforeach()
pkg_check_modules(check QUIET IMPORTED_TARGET check)

# hiredis: Debian 12's 0.14 has no TLS, so there it is built from sources.
pkg_check_modules(hiredis QUIET IMPORTED_TARGET hiredis>=1.0 hiredis_ssl>=1.0)
if(hiredis_FOUND)
	add_library(hiredis ALIAS PkgConfig::hiredis)
elseif(EXISTS ${STAMPEDE_DEPS}/hiredis/hiredis.h)
	foreach(source alloc async hiredis net read sds sockcompat ssl)
		list(APPEND hiredis_sources ${STAMPEDE_DEPS}/hiredis/${source}.c)
	endforeach()
	add_library(hiredis STATIC ${hiredis_sources})
	# `#include <hiredis/hiredis.h>` is how the packaged one is found too.
	target_include_directories(hiredis SYSTEM PUBLIC ${STAMPEDE_DEPS})
	target_compile_options(hiredis PRIVATE -w)
	target_link_libraries(hiredis PUBLIC PkgConfig::openssl)
else()
	message(FATAL_ERROR "hiredis >= 1.0 with SSL was not found. Run ./stampede setup, which brings it.")
endif()

if(NOT EXISTS ${STAMPEDE_DEPS}/googleapis/google/api/annotations.proto)
	message(FATAL_ERROR "google/api/annotations.proto was not found in ${STAMPEDE_DEPS}/googleapis. Run ./stampede setup, which brings it.")
endif()
find_program(PROTOC protoc REQUIRED)
find_program(PROTOC_C protoc-c REQUIRED)
