# `make` alone says what it can do. BUILD=dir and BOLE_HOME=dir choose other places.
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
GENERATE = cmake -S . -B $(1) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo $(CMAKE_FLAGS) $(2)

.PHONY: help run build test quick lint clang-tidy format bench bench-placement sanitize fuzz power systemd install clean

help:
	@echo 'make run       build, start the cloud on this machine and train the first job to its end'
	@echo 'make test      build and pass the tests'
	@echo 'make quick     the tests that need no container and no minute'
	@echo 'make lint      the rules of the source: rooms, clocks, heavy headers, layout'
	@echo 'make clang-tidy  what clang-tidy holds the source to (about ten minutes)'
	@echo 'make format    lay the source out with clang-format'
	@echo 'make bench     benchmarks against peers, as ratios'
	@echo 'make bench-placement  GPUs left free by each placement policy (about two minutes)'
	@echo 'make sanitize  unit and simulation tests under ASan+UBSan and TSan'
	@echo 'make fuzz      the fuzzers and the simulation, longer (FUZZ_SECONDS=60)'
	@echo 'make power     the server in a VM that loses power (LOSSES=20), about a minute each'
	@echo 'make systemd   the service in a VM: restarts, boot, limits, a clock that is set'
	@echo 'make install   bole to /usr/local (PREFIX=..., DESTDIR=...)'
	@echo 'make clean     away with $(BUILD)/'

run:
	@tools/bootstrap build run
	@$(MAKE) --no-print-directory $(BUILD)/.run-configured
	@echo 'building (the first time takes a few minutes) ...'
	@cmake --build $(BUILD) --target bole-all digits
	@tools/first-run $(BUILD)

# What a run needs and no more: the tests are configured in by `make test`.
$(BUILD)/.run-configured:
	@test -f $(BUILD)/build.ninja || $(call GENERATE,$(BUILD),-DBOLE_TESTS=OFF) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log; touch $@

build:
	@tools/bootstrap build run test
	@$(call GENERATE,$(BUILD),-DBOLE_TESTS=ON) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	cmake --build $(BUILD) -j $(JOBS)

test: build
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error $(CTEST_FLAGS)

quick: build
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error -LE 'slow|container|e2e'

lint:
	@tools/bootstrap build test
	tools/tidy
	tools/format-check

clang-tidy:
	@tools/bootstrap build run test
	@$(call GENERATE,$(BUILD),-DBOLE_TESTS=ON) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	tools/clang-tidy-check $(BUILD)

format:
	@tools/bootstrap test
	git ls-files '*.h' '*.cc' '*.c' | xargs clang-format-14 -i

bench:
	@tools/bootstrap build run test bench
	$(call GENERATE,$(BUILD),-DBOLE_BENCH=ON) > /dev/null
	cmake --build $(BUILD)
	bench/run $(BUILD)

# The paper's fragmentation experiment, its policies and Bole's, on the trace beside the tree.
bench-placement:
	@tools/bootstrap build run test bench
	@test -d ../shared/traces/openb || { echo 'bench-placement: ../shared/traces/openb is not here'; exit 1; }
	$(call GENERATE,$(BUILD),-DBOLE_BENCH=ON) > /dev/null
	cmake --build $(BUILD) --target bench_placement
	$(BUILD)/bench/bench_placement --traces ../shared/traces/openb --references bench/placement/reference.csv

sanitize:
	@tools/bootstrap build run test
	tools/sanitize $(BUILD)

fuzz:
	@tools/bootstrap build run test
	tools/fuzz $(BUILD)

LOSSES ?= 20
power systemd:
	@tools/bootstrap build run
	@tests/vm/vm.sh deps
	@$(MAKE) --no-print-directory $(BUILD)/.run-configured
	@cmake --build $(BUILD) --target bole-all
	$(if $(filter power,$@),tests/power/power_loss_test.py $(BUILD) --losses $(LOSSES),tests/vm/systemd_test.py $(BUILD))

PREFIX ?= /usr/local
install:
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD)
