# The few commands that people type. CMake does the work; see CMakePresets.json for the other ways to build.
#
#   make              build/bin/convoy and the library
#   make demo         the four reference problems, checked against FP64 and timed on this machine's best device
#   make test         everything this machine can test
#   make check-style  format, include law, static analysis
#   make install      into PREFIX (default /usr/local)
#   make package      a Debian package in build/
#   make reference    the header's reference in build/reference/html (needs doxygen)

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# CUDA code takes minutes to compile, so it is left out where no NVIDIA driver is loaded: CUDA=ON builds it all the same.
CUDA ?= $(if $(wildcard /dev/nvidiactl),AUTO,OFF)
# The vendor's direct sum takes minutes on small machines: DEMO= times it too.
DEMO ?= --exclude=onednn
CONFIGURE = cmake --preset release -DCONVOY_CUDA=$(CUDA) -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING

.PHONY: all demo test check-style format install package reference clean

all:
	@tools/setup.sh build
	$(CONFIGURE)
	cmake --build build -j $(JOBS)

demo:
	@tools/setup.sh build
	$(CONFIGURE)
	cmake --build build -j $(JOBS) --target convoy_cli
	build/bin/convoy verify A B C D $(DEMO)
	build/bin/convoy bench A B C D --time=0.3 $(DEMO)

test:
	@tools/setup.sh test
	$(CONFIGURE)
	cmake --build build -j $(JOBS)
	ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS)

check-style:
	@tools/setup.sh ci
	tools/check_style.sh

format:
	tools/format.sh

install: all
	cmake --install build

package: all
	cd build && cpack

reference:
	$(CONFIGURE)
	cmake --build build --target reference

clean:
	rm -rf build build-*
