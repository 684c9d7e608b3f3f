# The targets of daily work. Each works in a fresh clone and again after that.
#
#   make demo                 an MPI program on 4 ranks under pmixrun, with this project's libpmix.so.2
#   make test                 all tests, against Debian's own Open MPI, Slurm and libpmix too; lists in the end what this machine did not
#                             allow, which PMIX_TEST_STRICT=1 makes fail (tests/src/left_out.rs)
#   make test-mpirun          of these the ones under Open MPI's mpirun; PMIX_TEST_LARGE=1 makes them larger
#   make test-slurm           of these the ones under Slurm, likewise
#   make test-slurm-fence     hundreds of MPI jobs on four nodes with Slurm's default fences; PMIX_TEST_JOBS=100 of each pair of libraries
#   make test-former FORMER=COMMIT   builds the library of another commit of this repository and runs ranks of each under a server of the other,
#                             servers of both in one job, and the replacement of one by the other under a running job
#   make test-apps            LAMMPS, HPCC and other programs of Debian's under mpirun, for which it installs 85 MB of packages; with ROOT=DIR
#                             inside the root of Debian 13, with Open MPI 5
#   make test-openmpi5 ROOT=DIR   ranks and daemons of Open MPI 5 in another Debian release, whose root DIR is or becomes; RELEASE=sid has 6
#   make test-in-root ROOT=DIR    the tests under Slurm, or TESTS="slurm slurm_fence", inside the root of another Debian release
#   make dist                 the source archive of the last commit in target/dist, with the sources of all crates: builds without network.
#                             make test-dist makes it twice and builds from it
#   make test-reproducible    builds that archive twice, in other directories and surroundings: each installed file is the same. 20 minutes
#   make sbom                 what the library and each program are made of, as lists in CycloneDX's form in target/dist
#   make release KEY=NAME     archive and lists of the last commit, which has a signed tag, with a signature; test-release does it with a key of
#                             its own. packaging/release --verify DIR is for those who get the files
#   make deb                  the Debian package libpmix2-dstore in target/deb
#   make test-packages ROOT=DIR   the package installed in a clean Debian 12, or RELEASE=trixie 13, whose root DIR is or becomes: MPI jobs on
#                             this library and on the stock one, the switch, upgrades, removal. As root; docs/install.md has the output
#   make rpm, make test-rpm ROOT=DIR   the same as rpm, with rpmbuild; installed in that root by rpm, used and removed
#   make test-container ROOT=DIR   the image of packaging/container, built by buildah on a minimal Debian 13, which DIR holds or becomes; jobs
#                             of 4 ranks in it. As root
#   make test-aarch64 ROOT=DIR   compiles and links for 64-bit ARM in a root with Debian sid, and starts the program there under qemu
#   make bench                what calls, wire-up, fences and large jobs cost beside the stock library, and the targets, as text, JSON and a
#                             plot in target/bench; BENCH_ARGS="--rounds 9 --full"; with ROOT=DIR, and RELEASE=sid, beside the stock library
#                             of another Debian release
#   make bench-engine         what the store costs without the C interface: building, attaching, looking up, maps (criterion)
#   make bench-latency        a small Get over TCP while the server stores and publishes a fence of 256 MiB
#   make bench-wireup         whole MPI jobs beside the stock library, pmixrun and a floor: start, memory, processor time;
#                             BENCH_ARGS="--rounds 30", or "--ranks memory@256:3 --pairs 2" for memory instead of times; with
#                             --root DIR under Open MPI 5 or 6, with --nodes 4 under Slurm, both as root; JSON in target/bench-wireup
#   make bench-serve          whole MPI jobs in a persistent pmixrun, in a pmixrun of their own and under mpirun; BENCH_ARGS="--rounds 31 --ranks 4"
#   make bench-modex          a fence without data and direct modex beside a collecting fence, 4 to 1,008 ranks on 1 to 16 servers; JSON in
#                             target/bench-modex; BENCH_ARGS="--rounds 9 --jobs 4x64,16x256"
#   make modex                records what Open MPI publishes and reads, here and in the roots ROOTS, into tests/modex
#   make generate             the Rust files and the page that are written from the tables of ffi/abi
#   make check                formatting, lints, dependencies (deny.toml), documentation, whether the documents agree with the tree, and the house:
#                             imports downward, no circles of modules, no names that were given up, no long functions, an owner of each unsafe file (tests/house)
#   make fuzz                 each fuzz target for FUZZ_SECONDS (60); needs a nightly compiler and cargo-fuzz
#   make soak                 lists the parts of long runs under faults; make soak PART=storms runs one for at most an hour, or goes on with it
#                             where it was stopped; SOAK_ARGS="--fresh", "--library stock"; figures in target/soak, of simulation and serve on the screen. PART=simulation: whole
#                             jobs in one process, SOAK_STEPS (1,000,000) steps from SOAK_SEED (the date). PART=serve: SOAK_JOBS (1000) jobs in turn in a
#                             persistent pmixrun, and 50 at once: memory, descriptors and files stay flat
#   make soak-short           ten minutes of all parts but serve; make soak-faults: planted faults, which they must find
#   make simulate-coverage    which of the engine's lines the simulation runs, by file; make simulate-faults: planted faults, which it must find
#   make oom                  make soak PART=oom: each allocation of a scripted job fails
#   make loom                 the publication protocol in every order of the memory model
#   make keys                 each key of docs/coverage.md taken out of the library: its tests must fail
#   make asan tsan valgrind miri   the tests under checkers of memory and threads; asan, tsan and miri want nightly Rust
#   make install PREFIX=DIR   lib/, include/, bin/, pkg-config, CMake, man pages, completions, module files, licences, and the names of the
#                             stock tools in libexec/pmix-dstore/bin; a running job keeps its library. DESTDIR=DIR for packages
#   make uninstall PREFIX=DIR removes all of it
#   make deps                 installs missing Debian packages, upgrades none, or names them (.ci/deps); so do the targets that run tests.
#                             `make build` and `make install` change no package: they name what is missing
#   make clean

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

CARGO ?= cargo
PREFIX ?= /usr/local
# Where files are put before they are packed; usual in packaging.
DESTDIR ?=

target := $(or $(CARGO_TARGET_DIR),target)
release := $(target)/release
export PMIX_BUILT = $(release)

# The source archive, which has a file COMMIT, gives the same library and programs in whatever directory it is built (make test-reproducible):
# the directory's name is not in them. In a clone it is, for debuggers.
ifneq ($(wildcard COMMIT),)
# Options apart by the character 31: the directory's name may have blanks.
unit := $(shell printf '\037')
export CARGO_ENCODED_RUSTFLAGS := $(if $(strip $(RUSTFLAGS)),$(subst $() ,$(unit),$(strip $(RUSTFLAGS)))$(unit))--remap-path-prefix=$(CURDIR)=/usr/src/pmix-dstore
endif

# The library as that alone: what is a Rust library as well, for the tests, is not optimised as a whole.
.PHONY: build
build: deps-build
	$(CARGO) rustc --release -p pmix-ffi --lib --crate-type cdylib
	$(CARGO) build --release -p pmix-tools -p pmix-pmi
	ln -sfn libpmix.so $(release)/libpmix.so.2

.PHONY: demo
demo: deps-run build
	.ci/demo $(release)

# The variable that names the program by which cargo starts test programs.
runner = CARGO_TARGET_$(shell rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)_RUNNER
# The setting with which test programs that are built here run inside the root directory ROOT.
inside = $(runner)='$(abspath tests/openmpi5/inside.sh) $(abspath $(ROOT))'

# $(call tested,COMMAND): runs tests, and lists in the end what was left out and what had more than one try.
tested = .ci/tested $(abspath $(target))/left-out env PMIX_TEST_RELEASE=$(abspath $(release)) $(1)

# Most tests wait for processes and time limits: so many at a time use the processors.
threads := $(shell echo $$((3 * $$(nproc))))

.PHONY: test
test: deps-test build
	$(CARGO) build -p pmix-ffi -p pmix-tools -p pmix-pmi
	$(call tested,RUST_TEST_THREADS=$(threads) $(CARGO) test --workspace --no-fail-fast)

# Tools of proof: docs/reliability.md tells what they do. Each says what it needs where that is missing.
.PHONY: loom
loom: deps-build
	tests/proof/loom.sh

.PHONY: keys
keys: deps-test
	tests/proof/keys.sh

.PHONY: asan tsan
asan: deps-test
	tests/proof/sanitizer.sh address
tsan: deps-test
	tests/proof/sanitizer.sh thread

.PHONY: help
help:
	@awk '!/^#/ { exit } { sub(/^# ?/, ""); print }' Makefile

.PHONY: valgrind miri
valgrind: deps-test
	tests/proof/valgrind.sh
miri: deps-build
	tests/proof/miri.sh

.PHONY: test-mpirun test-slurm
test-mpirun test-slurm: deps-test build
	$(CARGO) build -p pmix-ffi -p pmix-tools -p pmix-pmi
	$(call tested,$(CARGO) test -p pmix-tests --test '$(@:test-%=%)*')

.PHONY: test-slurm-fence
test-slurm-fence: deps-test build
	$(call tested,$(CARGO) test -p pmix-tests --test slurm_fence -- --ignored --nocapture)

# The library of the commit is built once in target/former, in the development profile; today's, too. 5 minutes, later one.
.PHONY: test-former
test-former: deps-test
	$(if $(FORMER),,$(error FORMER names the commit))
	$(CARGO) build -p pmix-ffi -p pmix-tools -p pmix-pmi
	former=$$(.ci/former $(FORMER)) && \
	    .ci/tested $(abspath $(target))/left-out env PMIX_TEST_FORMER="$$former" $(CARGO) test -p pmix-tests --test former -- --ignored

# One job at a time, which tells how it went.
.PHONY: test-apps
test-apps: $(if $(ROOT),deps-test,deps-apps) build
	$(if $(ROOT),tests/openmpi5/root.sh $(ROOT) $(or $(RELEASE),trixie) pkg-config libpmix-dev $(shell .ci/deps names apps))
	$(call tested,$(if $(ROOT),$(inside)) $(CARGO) test -p pmix-tests --test apps -- --test-threads=1 --nocapture)

# The directory is made by debootstrap where it is not there; RELEASE is Debian 13 where it is not named.
.PHONY: test-openmpi5
test-openmpi5: deps-test build
	tests/openmpi5/root.sh $(or $(ROOT),$(error ROOT names the directory)) $(or $(RELEASE),trixie) libpmix-bin iproute2
	$(call tested,PMIX_TEST_OPENMPI$(if $(filter sid,$(RELEASE)),6,5)=$(abspath $(ROOT)) $(CARGO) test -p pmix-tests --no-fail-fast --test 'openmpi5*')

# Test programs are built here and run there: cargo starts each by the runner. Slurm's plugin of Debian 13 is a part of slurm-wlm.
.PHONY: test-in-root
test-in-root: deps-test build
	tests/openmpi5/root.sh $(or $(ROOT),$(error ROOT names the directory)) $(or $(RELEASE),trixie) \
	    slurm-wlm munge iproute2 strace procps pkg-config libpmix-dev g++
	$(CARGO) build -p pmix-ffi -p pmix-tools -p pmix-pmi
	$(call tested,$(inside) $(CARGO) test -p pmix-tests --no-fail-fast \
	    $(foreach test,$(or $(TESTS),slurm slurm_sites slurm_fence),--test $(test)) -- --test-threads=2)

# Beside the stock library of the Debian release in the directory ROOT, where it is named.
.PHONY: bench
bench: deps-test build
	$(if $(ROOT),tests/openmpi5/root.sh $(ROOT) $(or $(RELEASE),trixie) pkg-config libpmix-dev g++)
	PMIX_TEST_RELEASE=$(abspath $(release)) $(if $(ROOT),$(inside)) $(CARGO) bench -p pmix-benches --bench pmix -- \
	    --out $(abspath $(target))/bench$(if $(ROOT),-$(notdir $(ROOT))) $(BENCH_ARGS)

.PHONY: bench-engine
bench-engine:
	$(CARGO) bench -p pmix-benches --bench engine -- $(BENCH_ARGS)

.PHONY: bench-latency
bench-latency: deps-build
	$(CARGO) bench -p pmix-benches --bench latency -- $(BENCH_ARGS)

.PHONY: bench-wireup
bench-wireup: deps-test build
	PMIX_TEST_RELEASE=$(abspath $(release)) $(CARGO) bench -p pmix-benches --bench wireup -- \
	    --out $(abspath $(target))/bench-wireup $(BENCH_ARGS)

.PHONY: bench-serve
bench-serve: deps-test build
	PMIX_TEST_RELEASE=$(abspath $(release)) $(CARGO) bench -p pmix-benches --bench serve -- $(BENCH_ARGS)

.PHONY: bench-modex
bench-modex: deps-test build
	PMIX_TEST_RELEASE=$(abspath $(release)) $(CARGO) bench -p pmix-benches --bench modex -- --out $(abspath $(target))/bench-modex $(BENCH_ARGS)

.PHONY: check
check: deps-check
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p pmix-tests --test apps -- -D warnings
	.ci/dependencies
	packaging/notices --check
	.ci/docs
	tests/house/modules.py
	tests/house/names.py
	tests/house/functions.py
	tests/house/unsafe.py
	benches/results.py --check
	tests/proof/keys.sh --check
	tests/proof/simulate.sh --check
	tests/proof/soak.sh --check
	$(CARGO) fmt --manifest-path tests/fuzz/Cargo.toml --check
	$(CARGO) clippy --manifest-path tests/fuzz/Cargo.toml --target-dir $(target)/fuzz --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) rustdoc -p pmix-ffi --lib
	rm -rf $(target)/doc/pmix
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# Needs root, Open MPI, and in each root openmpi-bin and iproute2.
.PHONY: modex
modex: deps-test
	tests/modex/record.sh published tests/modex/published $(ROOTS)
	tests/modex/record.sh reads tests/modex/reads.tsv $(ROOTS)

.PHONY: generate
generate: deps-build
	PMIX_ABI_TABLE=write $(CARGO) test -p pmix-ffi --test generated --test symbols

.PHONY: fuzz
fuzz:
	.ci/fuzz $(or $(FUZZ_SECONDS),60)

# Long runs, by part; each ends with a line of figures, which are kept in target/soak (not those of simulation and serve). A part that was stopped goes on where it was;
# SOAK_ARGS="--fresh", "--library stock", "--seconds 600" and others are in `pmix-soak run --help`.
soak = PMIX_TEST_RELEASE=$(abspath $(release)) $(target)/debug/pmix-soak --out $(target)/soak
# Parts that are programs of their own.
own_parts = simulation serve
.PHONY: soak soak-build soak-short soak-simulation soak-serve
soak: $(if $(filter $(own_parts),$(PART)),soak-$(PART),soak-build)
ifeq ($(filter $(own_parts),$(PART)),)
	$(soak) $(if $(PART),run $(PART) $(if $(SOAK_SEED),--seed $(SOAK_SEED)) $(SOAK_ARGS),list)
endif
.PHONY: oom
oom:
	$(MAKE) soak PART=oom
soak-build: $(if $(PART),deps-test build,deps-build)
	$(CARGO) build -p pmix-soak
soak-short: deps-test build
	$(CARGO) build -p pmix-soak
	$(MAKE) soak-simulation SOAK_STEPS=$(or $(SOAK_STEPS),3000000)
	$(soak) short --seconds $(or $(SOAK_SECONDS),560)
soak-simulation: deps-build
	$(CARGO) build --profile simulate -p pmix-simulate
	$(target)/simulate/pmix-simulate $(or $(SOAK_STEPS),1000000) $(or $(SOAK_SEED),$(shell date +%y%m%d)0000)

soak-serve: deps-test build
	PMIX_TEST_RELEASE=$(abspath $(release)) $(CARGO) bench -p pmix-benches --bench serve -- --soak $(or $(SOAK_JOBS),1000)

# The planted faults, which the simulation must find.
.PHONY: simulate-faults soak-faults
simulate-faults: deps-build
	tests/proof/simulate.sh
# The engine's lines that it runs, in percent; more with SOAK_STEPS, SOAK_SEED.
.PHONY: simulate-coverage
simulate-coverage: deps-build
	tests/proof/coverage.sh $(or $(SOAK_STEPS),1000000) $(or $(SOAK_SEED),1)
# And those that long runs must find.
soak-faults: deps-test
	tests/proof/soak.sh

# The names go through the environment, where no character is special (packaging/install).
.PHONY: install uninstall
install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install: build
	packaging/install "$$PMIX_BUILT"
uninstall: export PREFIX := $(PREFIX)
uninstall: export DESTDIR := $(DESTDIR)
uninstall:
	packaging/install --remove

.PHONY: dist test-dist
dist:
	packaging/dist $(target)/dist
test-dist:
	tests/packages/dist.sh $(target)/dist

.PHONY: sbom release test-release
sbom:
	packaging/sbom $(target)/dist
release:
	packaging/release $(target)/dist $(if $(KEY),'$(KEY)')
test-release:
	tests/packages/release.sh $(target)/dist

.PHONY: test-reproducible
test-reproducible:
	tests/packages/reproducible.sh $(target)/dist

.PHONY: deb
deb: build
	packaging/deb $(release) $(target)/deb

.PHONY: rpm test-rpm
rpm: build
	packaging/rpm/build $(release) $(target)/rpm
test-rpm: rpm
	tests/openmpi5/root.sh $(or $(ROOT),$(error ROOT names the directory)) $(or $(RELEASE),bookworm) libpmix-dev pkg-config
	tests/packages/rpm.sh $(ROOT) "$$(ls -t $(target)/rpm/*.rpm | head -n 1)"

.PHONY: test-container
test-container: deb
	tests/packages/container.sh $(or $(ROOT),$(error ROOT names the directory)) "$$(ls -t $(target)/deb/*.deb | head -n 1)"

.PHONY: test-aarch64
test-aarch64:
	tests/aarch64/build.sh $(or $(ROOT),$(error ROOT names the directory))

# The root is one of its own: the package is installed and removed there.
.PHONY: test-packages
test-packages: deb
	tests/openmpi5/root.sh $(or $(ROOT),$(error ROOT names the directory)) $(or $(RELEASE),bookworm) libpmix-dev pkg-config
	tests/packages/run.sh $(ROOT) "$$(ls -t $(target)/deb/*.deb | head -n 1)"

# What is needed to build, to check, to run MPI programs, for the tests, and for those of test-apps. The first is only looked for: whoever
# builds and installs a library does not expect changes to the system's packages.
.PHONY: deps deps-build deps-check deps-run deps-test deps-apps
deps: deps-test
deps-build:
	.ci/deps --check build
deps-check deps-run deps-test deps-apps:
	.ci/deps $(@:deps-%=%)

.PHONY: clean
clean:
	$(CARGO) clean
