# `make help` lists the targets. git, make and Go must be installed. A target that needs more packages
# installs them (as root, on Debian).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

RUN_PACKAGES := openssh-server openssh-client iproute2 procps
COMPILER     := gcc g++ libc6-dev
CLUSTER_PACKAGES := $(RUN_PACKAGES) $(COMPILER) nftables rsh-redone-server rsh-redone-client \
	openbsd-inetd tcsh fish hwloc-nox chromium chromium-driver fonts-dejavu-core gdb
MPI_PACKAGES := $(RUN_PACKAGES) $(COMPILER) mpich libmpich-dev libpmi2-0-dev openmpi-bin \
	libopenmpi-dev libpmix-dev netpipe-mpich2 scalapack-mpi-test libcoarrays-mpich-dev \
	python3-mpi4py gdb
IB_PACKAGES := $(RUN_PACKAGES) $(COMPILER) qemu-system-x86 xz-utils ibverbs-providers \
	ibverbs-utils libibverbs-dev
MANAGER_PACKAGES := $(RUN_PACKAGES) $(COMPILER) mpich libmpich-dev openmpi-bin libopenmpi-dev \
	slurmctld slurmd slurm-client slurm-wlm-basic-plugins libpam-slurm-adopt munge \
	gridengine-master gridengine-exec gridengine-client msmtp-mta

SUITES := CGO_ENABLED=0 go run ./test/suites
LINTER := bin/golangci-lint

.PHONY: help build libpmi run lint hooks test test-race test-cluster test-mpi test-ib \
	test-managers test-all soak coverage fuzz messages measure bench clean \
	cluster-setup mpi-setup ib-setup managers-setup

help: ## list the targets
	@grep -hE '^[a-zA-Z_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15
	@echo "bench-NAME     run one benchmark; make bench lists them"

# --- build

# With these flags the shared libraries contain no path of the build and no time, so that the same compiler
# builds identical files on any machine.
CFLAGS_OF_OURS := -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden \
	-ffile-prefix-map=$(CURDIR)=.
LDFLAGS_OF_OURS := -shared -s -Wl,--build-id=none -Wl,-z,relro -Wl,-z,noseparate-code

# On amd64 the entry point of ibrun is a function of bootstrap/reaper, because the reaper process forks before
# the Go runtime starts.
REAPER_FIRST = $(if $(filter amd64,$(shell go env GOARCH)),-E ibrun/bootstrap/reaper.entry)

build: libpmi ## build bin/ibrun, static, with libpmi inside if there is a C compiler
	CGO_ENABLED=0 go build -trimpath -ldflags '-w $(REAPER_FIRST)' -o bin/ibrun ./cmd/ibrun

TOOL_SOURCES = $(wildcard cgo/tool/*.c) cgo/pmgr/frame.c

libpmi: ## build the C libraries libpmi, libpmgr and libibruntool in bin
	@CC=$(CC) CFLAGS='$(CFLAGS_OF_OURS)' LDFLAGS='$(LDFLAGS_OF_OURS)' cgo/build $(TOOL_SOURCES)

run: ## run 64 ranks over ssh on four virtual nodes (as root; otherwise on four local agents)
	@if [ "$$(id -u)" = 0 ]; then test/packages $(RUN_PACKAGES); fi
	@$(MAKE) build
	@CGO_ENABLED=0 go build -o bin/vcluster ./test/vcluster
	@CGO_ENABLED=0 go build -o bin/hello ./examples/hello
	@examples/run

# --- check

$(LINTER): tools/go.mod tools/go.sum
	@echo "building golangci-lint, which takes minutes"
	@CGO_ENABLED=0 go build -ldflags=-w -modfile=tools/go.mod -o $@ \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint

lint: $(LINTER) ## check the format, the rules of .golangci.yml and those of test/policy
	@CGO_ENABLED=0 $(LINTER) run
	@CGO_ENABLED=0 go test -count=1 ./test/policy

hooks: ## install the commit hook that checks subjects
	@git config core.hooksPath test/hooks

# --- test

test: ## run all tests that need only Go, then list what was skipped and why
	@$(SUITES) test

test-race: ## run the packages that start goroutines under the race detector (needs gcc)
	@$(SUITES) race

test-cluster: cluster-setup ## test over real sshd on virtual nodes, with faults (as root)
	@$(SUITES) cluster

test-mpi: mpi-setup ## test MPICH, Open MPI, clients of PMIx and Charm++ (as root)
	@$(SUITES) mpi

test-ib: ib-setup ## test Soft-RoCE in a virtual machine, and a simulated HCA (as root)
	@$(SUITES) ib

test-managers: managers-setup ## test under real Slurm and Grid Engine (as root)
	@$(SUITES) managers

test-all: cluster-setup mpi-setup ib-setup managers-setup ## run all suites but race and soak, print one table
	@$(SUITES) test cluster mpi ib managers

soak: cluster-setup mpi-setup ib-setup managers-setup ## run the long tests; RUN=PATTERN selects some
	@CGO_ENABLED=0 go run ./test/suites -run '$(RUN)' soak
	@$(if $(RUN),,nice -n 19 test/fuzz 1000x)

fuzz: ## fuzz each target with FUZZTIME=100000x inputs, or for about FUZZTIME=60s
	@nice -n 19 test/fuzz $(or $(FUZZTIME),100000x)

coverage: cluster-setup mpi-setup ib-setup managers-setup ## print the coverage of make test-all
	@test/coverage

cluster-setup:
	@test/packages $(CLUSTER_PACKAGES)
	@$(MAKE) libpmi

mpi-setup:
	@test/packages $(MPI_PACKAGES)
	@$(MAKE) libpmi
	@[ "$$(id -u)" != 0 ] || test/fleet/build >/dev/null || \
		echo "no Debian 13 root: its tests are skipped" >&2

ib-setup:
	@test/packages $(IB_PACKAGES)
	@[ "$$(id -u)" != 0 ] || CGO_ENABLED=0 go run ./test/rdmavm image >/dev/null

managers-setup:
	@test/packages $(MANAGER_PACKAGES)
	@$(MAKE) libpmi

messages: ## list all texts that users can see, with their places in the source
	@go run ./test/messages

measure: ## count the packages, files and lines of the product
	@test/measure

# --- measure

bench: ## list the benchmarks
	@test/bench/run

bench-%:
	@test/bench/run $*

clean: ## remove what the other targets built
	rm -rf bin out internal/libpmi/built/*.so
