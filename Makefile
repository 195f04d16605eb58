# `make help` lists the targets. Go is all that must be there; the rest is installed by what needs it (as root, on Debian).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

FUZZTIME ?= 100000x
ALSO     ?=
ROUNDS   ?= 5
NODES    ?= 16
REPEAT   ?= 20
SEED     ?= 1
KILLS    ?= 100
STOPS    ?= 6
CUTS     ?= 60
INPUTS   ?= 400
SCHEDULES ?= 100000
CASES    ?= ssh tuned rsh latency own own-ssh

RUN_PACKAGES  := openssh-server openssh-client iproute2 procps zstd
TEST_PACKAGES := $(RUN_PACKAGES) nftables gcc g++ libc6-dev rsh-redone-server rsh-redone-client openbsd-inetd mpich libmpich-dev libpmi2-0-dev openmpi-bin libopenmpi-dev libpmix-dev netpipe-mpich2 scalapack-mpi-test libcoarrays-mpich-dev python3-mpi4py tcsh fish hwloc-nox libibverbs-dev chromium chromium-driver fonts-dejavu-core gdb
MANAGER_PACKAGES := slurmctld slurmd slurm-client slurm-wlm-basic-plugins libpam-slurm-adopt munge gridengine-master gridengine-exec gridengine-client msmtp-mta
IB_PACKAGES   := qemu-system-x86 iproute2 xz-utils ibverbs-providers ibverbs-utils gcc libc6-dev libibverbs-dev

# Tests that boot a machine; the race detector would only make it slow.
BOOTING := ibrun/(test/(rdmavm|ib)|fabric/ib/pathrecord)

# Tests that compute, or wait for what comes whoever else is busy. They take what those below leave of
# the CPUs. All others watch a clock now and then, and run one package at a time.
COMPUTING := ibrun/(cgo/verbs|examples/.*|fabric(/(ib|mem))?|internal/(build|libpmi|netiface|options|report|seeded|skip|turns)|lazy|test/(bench.*|messages|rota))

# So do these, whose packages begin no goroutine (TestPolicySequential): the race detector finds nothing
# in them and takes several times as long.
SEQUENTIAL := ibrun/(bootstrap/(charmserver|core(/.*)?|frame|pmiserver|pmixserver|rankwire|timing(/views)?|tree|wire)|charm|internal/(alloc|cmdline|costfile|cpuset|environ|exit|fields|hostlist|limits|mpir(/.*)?|plain|plan|plural|pseudo|rankfile|sshconfig)|job|lazy/(peer|upgrade)|pmix?|topo.*|doctor(/findings)?)

# Tests that do nothing for most of their time, or do not mind who is busy: beside those that watch a clock.
WAITING := ibrun/test/(attack|faults|fleet|jobcontrol|login|page|managers|mender|pmix|restarter|ssh|survivor)

# A program with the race detector sleeps for a second when it ends, by default; tests run many.
export GORACE ?= atexit_sleep_ms=10

# The simulation has one goroutine too, and sizes.
SIMULATED := ibrun/test/sim

# How tests run here: vetted before, as a whole, and linked without what only debuggers read.
TESTS := go test -count=1 -vet=off -ldflags=-w

# Without the header of libibverbs all is built without InfiniBand. Asked when a recipe begins, as packages may come before.
TAGS = $(shell echo '\#include <infiniband/verbs.h>' | gcc -E - >/dev/null 2>&1 || echo -tags=noib)

.PHONY: help build fleet libpmi run test test-all test-packages test-beside test-clocks test-computing test-ib ib-packages check messages bench bench-before restarts bench-exec bench-ib bench-launch bench-lazy bench-mpi \
	bench-spawn bench-spread bench-ssh bench-topo bench-tree faults faults-rivals faults-smoke fuzz long-output numbers repeat short-jobs repair sim sim-faults sim-launch sim-sizes soak survive clean resize bench-resize picture stuck \
	test-managers bench-charm bench-apps bench-sweep curve curve-ib bench-managers bench-all bench-planner kills spared tool-tree bench-data \
	bin/bench bin/fleet bin/pmi bin/rdmavm bin/vcluster

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

# No word about paths or time may get into these: the same compiler makes the same bytes anywhere.
CFLAGS_OF_OURS := -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -ffile-prefix-map=$(CURDIR)=.
LDFLAGS_OF_OURS := -shared -s -Wl,--build-id=none -Wl,-z,relro -Wl,-z,noseparate-code

# Where there is an entry for it, a reaper forks before Go's runtime begins (bootstrap/reaper).
REAPER_FIRST = $(if $(filter amd64,$(shell go env GOARCH)),-E ibrun/bootstrap/reaper.entry)

# The program of most nodes' agents lies in the same file, linked to be mapped beside it (internal/build/leaf.go).
LEAF_BASE := 0x10001000
LEAF = $(if $(REAPER_FIRST),$(if $(filter amd64,$(shell go env GOHOSTARCH)),CGO_ENABLED=0 go build -trimpath -tags leaf -gcflags 'ibrun/...=-l' -ldflags '-s -w -T $(LEAF_BASE) -funcalign 16' -o bin/leaf ./cmd/leaf))

build: libpmi ## bin/ibrun, static, with libpmi inside where there is a C compiler
	CGO_ENABLED=0 go build -trimpath -ldflags '-w $(REAPER_FIRST)' -o bin/ibrun ./cmd/ibrun
	@go run ./internal/mpir/symbols/keep bin/ibrun
	$(LEAF)
	@go run ./internal/build/pack/into bin/ibrun bin/ibrun.zst $(if $(LEAF),bin/leaf)

TOOL_SOURCES = $(wildcard cgo/tool/*.c) cgo/pmgr/frame.c

libpmi: ## the C libraries: libpmi, which travels inside ibrun, libpmgr and libibruntool, in bin with their headers
	@command -v $(CC) >/dev/null || { echo "no C compiler: programs of Open MPI will not run under this ibrun" >&2; exit 0; }; \
	mkdir -p bin; \
	$(CC) $(CFLAGS_OF_OURS) $(LDFLAGS_OF_OURS) -Wl,-soname,libpmi.so.0 -o bin/libpmi.so cgo/libpmi/*.c; \
	cmp -s bin/libpmi.so internal/libpmi/built/libpmi.so || cp bin/libpmi.so internal/libpmi/built/; \
	$(CC) $(CFLAGS_OF_OURS) $(LDFLAGS_OF_OURS) -Wl,-soname,libpmgr.so.0 -o bin/libpmgr.so cgo/pmgr/*.c; \
	for part in pmgr frame; do $(CC) $(CFLAGS_OF_OURS) -c -o bin/pmgr-$$part.o cgo/pmgr/$$part.c; done; \
	rm -f bin/libpmgr.a; ar rcD bin/libpmgr.a bin/pmgr-*.o; rm bin/pmgr-*.o; \
	$(CC) $(CFLAGS_OF_OURS) -D_GNU_SOURCE $(LDFLAGS_OF_OURS) -Wl,-soname,libibruntool.so.0 -o bin/libibruntool.so $(TOOL_SOURCES); \
	for source in $(TOOL_SOURCES); do $(CC) $(CFLAGS_OF_OURS) -D_GNU_SOURCE -c -o bin/tool-$$(basename $$source .c).o $$source; done; \
	rm -f bin/libibruntool.a; ar rcD bin/libibruntool.a bin/tool-*.o; rm bin/tool-*.o; \
	cp cgo/libpmi/pmi.h cgo/pmgr/pmgr.h cgo/tool/ibrun_tool.h bin/

# Static programs of tests.
bin/bench bin/fleet bin/pmi bin/rdmavm bin/vcluster:
	@CGO_ENABLED=0 go build -o $@ ./test/$(@F)

tool-tree: ## the worked example of cgo/tool/example under AddressSanitizer on NODES virtual nodes, 16 by default (as root)
	@test/packages $(RUN_PACKAGES) gcc libc6-dev
	@$(MAKE) --no-print-directory build bin/vcluster
	@for part in front node; do $(CC) -std=c11 -g -D_GNU_SOURCE -fsanitize=address,undefined -Icgo/tool -o bin/tree-$$part cgo/tool/example/$$part.c cgo/tool/example/net.c $(TOOL_SOURCES); done
	@folder=$$(mktemp -d); half=$$(($(NODES) / 2)); hosts() { seq -s, -f 'node%04g' $$1 $$2; }; \
	bin/vcluster up $(NODES) -- env XDG_RUNTIME_DIR=$$folder IBRUN=$(CURDIR)/bin/ibrun bin/tree-front 2 $(CURDIR)/bin/tree-node $$(hosts 1 $$half) $$(hosts $$((half + 1)) $(NODES)) true; \
	code=$$?; rm -r $$folder; exit $$code

run: ## 64 ranks of an example over ssh on four virtual nodes (as root; otherwise four local agents)
	@if [ "$$(id -u)" = 0 ]; then test/packages $(RUN_PACKAGES); fi
	@$(MAKE) --no-print-directory build bin/vcluster
	@CGO_ENABLED=0 go build -o bin/hello ./examples/hello
	@examples/run

# What tests leave out on this machine is told last, whatever failed (internal/skip).
test: export IBRUN_TEST_SKIPPED := $(CURDIR)/out/skipped

test: test-packages ## vet, then all tests and fuzz seeds with the race detector (as root also the virtual cluster)
	@mkdir -p out; rm -f $(IBRUN_TEST_SKIPPED)
	@[ -z "$(TAGS)" ] || printf 'no header of libibverbs\t.\tInfiniBand\n' >>$(IBRUN_TEST_SKIPPED)
	@failed=0; $(MAKE) --no-print-directory test-all || failed=$$?; test/leftout $(IBRUN_TEST_SKIPPED); exit $$failed

test-all:
	@$(MAKE) --no-print-directory libpmi
	go vet $(TAGS) ./...
	go build $(TAGS) -race $$(go list $(TAGS) -f '{{if ne .Name "main"}}{{if or .GoFiles .CgoFiles}}{{.ImportPath}}{{end}}{{end}}' ./...) # before anything watches a clock
	CGO_ENABLED=0 go vet ./cgo/verbs && CGO_ENABLED=0 go test -count=1 ./cgo/verbs
	@$(MAKE) --no-print-directory -j4 --keep-going --output-sync=target test-clocks test-beside test-computing $(ALSO)

test-clocks: fleet # what watches a clock
	$(TESTS) $(TAGS) -race -p 1 -timeout 30m $$(go list ./... | grep -vxE '$(BOOTING)|$(COMPUTING)|$(SEQUENTIAL)|$(SIMULATED)|$(WAITING)')

test-computing:
	nice -n 15 $(TESTS) $(TAGS) -race -p 2 -timeout 45m $$(go list ./... | grep -xE '$(COMPUTING)')
	nice -n 15 $(TESTS) $(TAGS) -p 2 -timeout 45m $$(go list ./... | grep -xE '$(SEQUENTIAL)')
	nice -n 15 $(TESTS) -short -timeout 45m $(SIMULATED)
	nice -n 15 go tool staticcheck $(TAGS) ./...

test-beside: test-ib fleet # the machine, then what waits; test/ssh, which takes longest, with the first
	$(TESTS) $(TAGS) -race -p 2 -timeout 30m $$(go list ./... | grep -xE '$(WAITING)' | sort -r)

test-packages:
	@test/packages $(TEST_PACKAGES) $(MANAGER_PACKAGES)

test-managers: ## ibrun in jobs of a real Slurm and a real Grid Engine of four virtual nodes (as root): starts, ends, signals, what is left; LARGE=64 also a Slurm of so many nodes
	@test/packages $(TEST_PACKAGES) $(MANAGER_PACKAGES)
	go test -count=1 -v -timeout 20m ./test/managers $(if $(LARGE),-large $(LARGE))

# Where it cannot be made, its tests tell why.
fleet: ## Open MPI 5 of Debian 13, unpacked in ~/.cache/ibrun-fleet for tests (as root, on Debian)
	@[ "$$(id -u)" != 0 ] || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] || test/fleet/build >/dev/null || true

# As root nothing is skipped here, nor left out of the build: IBRUN_TEST_ALL.
test-ib: ib-packages ## tests on real verbs devices: Soft-RoCE in a virtual machine, and a made-up HCA (as root)
	@[ "$$(id -u)" != 0 ] || [ -z "$(TAGS)" ] || { echo "no header of libibverbs, though it was installed" >&2; exit 1; }
	[ "$$(id -u)" != 0 ] || export IBRUN_TEST_ALL=1; go test $(TAGS) -count=1 -p 1 -v -timeout 25m $$(go list ./... | grep -xE '$(BOOTING)')
	IBRUN_TEST_VERBS_REAL=vm go test $(TAGS) -count=1 ./cgo/verbs
	IBRUN_TEST_VERBS_REAL=vm go test $(TAGS) -count=1 -v -timeout 25m -run 'SchedulesOver|PortFails' ./lazy -schedules=6

ib-packages:
	@test/packages $(IB_PACKAGES)

check: ## formatting, vet, staticcheck and the rules of the house: seconds, but the first time
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "not formatted: gofmt -w ." >&2; exit 1; }
	go vet $(TAGS) ./...
	go tool staticcheck $(TAGS) ./...
	go test -count=1 -run Policy .

messages: ## all texts that users can see, with their places in the source
	@go run ./test/messages

bench: ## Go benchmarks
	go test $(TAGS) -run '^$$' -bench . -benchmem ./...

bench-launch: ## ibrun, installed and not, beside mpiexec.hydra, mpirun and bare sessions on 4 to 128 virtual nodes, over ssh and the rsh stand-in; ROUNDS=5 CASES="ssh tuned rsh latency half second here own own-ssh", or rsh:64x16
	@test/packages $(RUN_PACKAGES) mpich openmpi-bin
	@$(MAKE) --no-print-directory build bin/bench
	@kept=0; test/installed sh -c 'bin/bench launch turns $$INSTALLED bin/ibrun $(ROUNDS) docs/launch-figures.json $(CASES)' || kept=$$?; bin/bench launch plot docs/launch-figures.json docs/launch-figures.svg; exit $$kept

bench-sweep: ## launches over sessions that take 0 to 2 s more, on 16 to 256 nodes: predicted, measured, mpiexec.hydra, bare sessions; a picture in docs (as root); ROUNDS=5
	@test/packages $(RUN_PACKAGES) mpich
	@$(MAKE) --no-print-directory build bin/bench
	@bin/bench launch sweep bin/ibrun $(ROUNDS) docs/sweep.json docs/sweep.svg

bench-before: ## the same launches by bin/ibrun and by an older build, turn by turn: OLDER=path ROUNDS=20 CASES=rsh:64x16
	@test/packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build bin/bench
	@cp bin/ibrun bin/ibrun-after; cp $(OLDER) bin/ibrun-before # where a file lies decides a third of a start
	@bin/bench launch before bin/ibrun-after bin/ibrun-before $(ROUNDS) $(CASES)

bench-spread: ## 20 launches of 64 nodes, over ssh and the rsh stand-in: slowest beside fastest
	@test/packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build bin/bench
	@bin/bench launch spread bin/ibrun

bench-lazy: ## round trips, bulk, first messages and look-ups, each beside its floor; dense and sparse programs lazily, eagerly and as auto chooses, on 4 to 64 nodes, autogroups off (as root); ROUNDS=5, times 5 on 4 nodes and 3 on 16; sparse times 15, 3 and 3
	@$(MAKE) --no-print-directory build bin/bench bin/vcluster
	@for p in alltoall stencil3d; do CGO_ENABLED=0 go build -o bin/$$p ./examples/$$p; done
	@missed=0; bin/bench lazy bin/ibrun || missed=1; \
	if [ "$$(id -u)" = 0 ]; then test/packages $(RUN_PACKAGES); for size in "4 5 15" "16 3 3" "64 1 3"; do set -- $$size; for p in 1 4 16; do \
		test/ungrouped bin/vcluster up $$1 -- bin/bench lazy all $$1 $$p $$(($(ROUNDS) * $$2)) $$(($(ROUNDS) * $$3)) bin/ibrun $(CURDIR)/bin/alltoall $(CURDIR)/bin/stencil3d || missed=1; done; done; fi; \
	go test -run '^$$' -bench 'CachedLookup|Seal|Step' -benchmem ./lazy/... ./fabric || missed=1; exit $$missed

bench-data: ## messages between the nodes of a virtual cluster beside plain UDP and TCP, held against bounds, autogroups off; the memory of a peer; also in docs/figures.md (as root); ROUNDS=5
	@test/packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build bin/bench bin/vcluster
	@missed=0; test/ungrouped bin/vcluster up 10 -- bin/bench data bin/ibrun $(ROUNDS) docs/figures.md || missed=$$?; go test -run '^$$' -bench LivePeer -benchtime 1x ./lazy || missed=1; exit $$missed

EXCHANGE_NODES ?= 16 64 128
EXCHANGE_RANKS ?= 1 16

bench-mpi: ## a local put and get; a PMI exchange beside mpiexec.hydra on 16, 64 and 128 nodes; MPICH and Open MPI, 4 and 5, beside their own launchers on 4 and 16, and on busy CPUs; ROUNDS=5 EXCHANGE_NODES="16 64 128" EXCHANGE_RANKS="1 16"
	@test/packages $(RUN_PACKAGES) gcc libc6-dev mpich libmpich-dev openmpi-bin libopenmpi-dev libpmix-dev
	@$(MAKE) --no-print-directory build bin/bench bin/fleet bin/pmi bin/vcluster
	@go test -run '^$$' -bench Local ./bootstrap/pmiserver
	@for how in --eager --lazy; do echo "$$how, two local agents:"; bin/ibrun --launcher local --hosts a,b $$how -n 2 bin/pmi -time 20000 | grep put; done
	@$(CC) -std=c11 -O2 -Wall -static -Icgo/libpmi -o bin/exchange test/bench/mpi/c/exchange.c cgo/libpmi/*.c
	@mpicc.mpich -o bin/mpi.mpich test/e2e/testdata/mpi.c; mpicc.openmpi -o bin/mpi.openmpi test/e2e/testdata/mpi.c
	@missed=0; test/installed sh -c 'missed=0; for n in $(EXCHANGE_NODES); do for p in $(EXCHANGE_RANKS); do bin/vcluster up $$n -- bin/bench mpi exchange $$INSTALLED $$n $$p $(ROUNDS) $(CURDIR)/bin/pmi $(CURDIR)/bin/exchange || missed=1; done; done; exit $$missed' || missed=1; \
	test/installed sh -c 'missed=0; for n in 4 16; do bin/vcluster up $$n -- bin/bench mpi hello $$INSTALLED $$n 1 $(ROUNDS) $(CURDIR)/bin/mpi.mpich $(CURDIR)/bin/mpi.openmpi || missed=1; done; exit $$missed' || missed=1; \
	bin/bench mpi busy $(ROUNDS) $(CURDIR)/bin/mpi.openmpi || missed=1; \
	lib=$$(echo /usr/lib/*-linux-gnu/pmix2) && gcc -o bin/pmixclient test/e2e/testdata/pmixclient.c -I$$lib/include -L$$lib/lib -lpmix; bin/bench mpi agent $(ROUNDS) $(CURDIR)/bin/pmixclient || missed=1; \
	root=$$(test/fleet/build) test/installed sh -c 'missed=0; for size in "4 1" "16 1" "16 4"; do bin/vcluster up -share $$root $${size% *} -- bin/bench mpi newer $$INSTALLED $$size $(ROUNDS) $$root $(CURDIR)/bin/mpi.openmpi || missed=1; done; exit $$missed' || missed=1; exit $$missed

PATTERN_PACKAGES := $(RUN_PACKAGES) mpich libmpich-dev openmpi-bin libopenmpi-dev
define patterns
@test/packages $(PATTERN_PACKAGES)
@$(MAKE) --no-print-directory build bin/bench bin/vcluster
@mpicc.mpich -O2 -Wno-stringop-overflow -o bin/pattern.mpich test/bench/mpi/c/pattern.c
@mpicc.openmpi -O2 -o bin/pattern.openmpi test/bench/mpi/c/pattern.c
endef

bench-apps: ## a step of stencil3d and of alltoall, package ibrun beside MPICH and Open MPI in C, 64 ranks on 16 nodes, autogroups off; also in docs/figures.md (as root); ROUNDS=5
	$(patterns)
	@test/ungrouped bin/vcluster up 16 -- bin/bench mpi apps 16 4 $(ROUNDS) $(CURDIR)/bin/bench $(CURDIR)/bin/pattern.mpich $(CURDIR)/bin/pattern.openmpi docs/figures.md

curve: ## round trips of 1 byte to 16 MiB between two nodes: package ibrun, plain TCP, MPICH, Open MPI; docs/curve.json and a picture (as root); ROUNDS=5
	$(patterns)
	@bin/vcluster up 2 -- bin/bench mpi curve $(ROUNDS) $(CURDIR)/bin/bench $(CURDIR)/bin/pattern.mpich $(CURDIR)/bin/pattern.openmpi docs/curve.json docs/curve.svg

bench-exec: ## ibrun ctl exec true on a running job beside a launch of its own, over ssh, turn by turn (as root); NODES=16 ROUNDS=5
	@test/packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build bin/bench bin/vcluster
	@bin/vcluster up $(NODES) -- bin/bench exec bin/ibrun $(NODES) $(ROUNDS)

bench-resize: ## a running job grows by 4 of 16 nodes and shrinks back, beside a restart of the whole, over ssh (as root); NODES=16 ROUNDS=5
	@test/packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build bin/bench bin/vcluster
	go build -o bin/resize ./examples/resize
	@bin/vcluster up $(NODES) -- bin/bench resize bin/ibrun bin/resize $(NODES) $(ROUNDS)

# CHARM is built outside the repository (docs/dev/hacking.md). PROCESS is any program of netlrts that ends by itself; without it
# one of ours that speaks the protocol.
bench-charm: ## 64 processes of Charm++'s layer netlrts on 16 nodes beside charmrun over ssh, turn by turn (as root); CHARM=dir, a build of Charm++ (its bin/charmrun is run); NODES=16 PROCESSES=64 ROUNDS=5 PROCESS=program
	@[ -x "$(CHARM)/bin/charmrun" ] || { echo "bench-charm: CHARM=DIR is wanted, a build of Charm++ of layer netlrts: DIR/bin/charmrun is run; docs/dev/hacking.md says how to build it" >&2; exit 1; }
	@test/packages $(RUN_PACKAGES) gcc libc6-dev
	@$(MAKE) --no-print-directory build bin/bench bin/vcluster
	@$(CC) $(filter-out -fPIC,$(CFLAGS_OF_OURS)) -D_GNU_SOURCE -static -o bin/charm-process test/bench/charm/c/process.c
	@bin/vcluster up $(NODES) -- bin/bench charm bin/ibrun $(CHARM)/bin/charmrun $(or $(PROCESS),$(CURDIR)/bin/charm-process) $(NODES) $(or $(PROCESSES),64) $(ROUNDS)

bench-managers: ## a launch in a job of Slurm, over steps of srun, a shared one and ssh, beside plain srun, turn by turn (as root); NODES=64 ROUNDS=5
	@test/packages $(RUN_PACKAGES) $(MANAGER_PACKAGES)
	@$(MAKE) --no-print-directory build bin/bench
	@test/installed sh -c 'bin/bench managers $$INSTALLED $(if $(filter file,$(origin NODES)),64,$(NODES)) 2 $(ROUNDS)'

bench-ssh: ## one ssh hop: native ssh, ssh, and ssh with curve25519, turn by turn; ROUNDS=5, times 8
	@test/packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory bin/bench bin/vcluster
	@bin/vcluster up 1 -- bin/bench ssh $$(($(ROUNDS) * 8)) node0001

bench-ib: ## the software cost of a datagram over a library that does nothing; InfiniBand beside ibv_rc_pingpong, in a machine with Soft-RoCE (as root)
	@test/packages $(IB_PACKAGES)
	@$(MAKE) --no-print-directory bin/rdmavm
	@go build -o bin/bench ./test/bench # with verbs
	@missed=0; go test -run '^$$' -bench 'Send|Receive' -count 3 ./fabric/ib || missed=1; for how in "-counted:events:counted in instructions" "-cpus 1:events:1 CPU" "-cpus 2:events:2 CPUs" "-cpus 2:polling:2 CPUs"; do \
	machine=$${how##*:}; mode=$${how#*:}; echo "$$machine, $${mode%:*}:"; bin/rdmavm run $${how%%:*} -timeout 5m -- bin/bench ib rxe0 $${mode%:*} "$$machine" || missed=1; done; exit $$missed

curve-ib: ## round trips of 1 byte to 1 MiB over InfiniBand beside ibv_rc_pingpong, in a machine with Soft-RoCE; docs/curve-ib.json and a picture (as root); ROUNDS=5
	@test/packages $(IB_PACKAGES)
	@$(MAKE) --no-print-directory bin/rdmavm
	@go build -o bin/bench ./test/bench # with verbs
	@mkdir -p out; bin/rdmavm run -cpus 2 -timeout 10m -- bin/bench ib curve rxe0 $(ROUNDS) | tee out/curve-ib
	@bin/bench ib plot out/curve-ib $(ROUNDS) docs/curve-ib.json docs/curve-ib.svg

# What bench-all runs: each holds ratios against bounds. Turns are fewer and launches of fewer sizes, so that all take less than 40 minutes.
ALL_BENCHES ?= bench-launch bench-spread bench-tree bench-planner bench-spawn bench-ssh bench-exec bench-resize bench-lazy bench-data bench-mpi bench-topo bench-ib bench-managers

ALL_CASES := ssh:64x1 ssh:64x16 ssh:256x16 rsh:64x1 rsh:64x16 rsh:256x1 half second here own

bench-all: ## all benchmarks that have bounds, in turn: docs/figures.json and the page docs/figures.md, and what has changed since the run before by more than the noise (as root); ROUNDS=3 ALL_BENCHES="bench-topo bench-spawn"
	@$(MAKE) --no-print-directory bin/bench
	@cp bin/bench bin/bench-all # targets make bin/bench anew
	@ROUNDS=$(if $(filter file,$(origin ROUNDS)),3,$(ROUNDS)) CASES="$(if $(filter file,$(origin CASES)),$(ALL_CASES),$(CASES))" \
		EXCHANGE_NODES="$(if $(filter file,$(origin EXCHANGE_NODES)),64,$(EXCHANGE_NODES))" \
		EXCHANGE_RANKS="$(if $(filter file,$(origin EXCHANGE_RANKS)),16,$(EXCHANGE_RANKS))" \
		bin/bench-all all docs/figures.json docs/figures.md $(ALL_BENCHES)

bench-planner: ## planning for 100,000 and 1,000,000 nodes
	@go test -count=1 -run '^$$' -bench 'Plan|WholeTree' ./bootstrap/tree

bench-topo: ## reading 256 CPUs beside lstopo, and what binding adds to a start
	@test/packages hwloc-nox
	@$(MAKE) --no-print-directory build bin/bench
	@bin/bench topo bin/ibrun

bench-spawn: ## the start of a rank beside posix_spawn of the same binary; ROUNDS=5, times 8
	@test/packages gcc libc6-dev
	@$(MAKE) --no-print-directory bin/bench
	@gcc $(filter-out -fPIC,$(CFLAGS_OF_OURS)) -o bin/bench-posix test/bench/spawn/c/posix.c
	@gcc -O2 -static -o bin/bench-rank test/bench/spawn/c/rank.c
	@bin/bench spawn $$(($(ROUNDS) * 8)) bin/bench-posix bin/bench-rank

bench-tree: ## launches of 15 to 511 agents over a remote shell with latency, beside the best tree for the same costs; ROUNDS=5
	@$(MAKE) --no-print-directory build bin/bench
	@bin/bench tree bin/ibrun $(ROUNDS)

faults: ## the catalogue of faults on virtual clusters, five checks each, then the tests that other packages have for it: a table, also in out/faults.md (as root)
	@test/packages $(TEST_PACKAGES)
	@$(MAKE) --no-print-directory libpmi
	go test -count=1 -timeout 60m ./test/faults -run 'TestCases$$' -whole

faults-rivals: ## twelve faults under ibrun, mpiexec.hydra and mpirun, side by side: ten minutes; also in out/rivals.md (as root)
	@test/packages $(TEST_PACKAGES)
	@$(MAKE) --no-print-directory libpmi
	go test -count=1 -timeout 60m ./test/faults -run 'TestRivals$$' -rivals

short-jobs: ## jobs in a row by one root, which keeps no descriptor, goroutine, file or process of them: ten minutes; JOBS=10000
	go test -count=1 -timeout 60m ./test/e2e -run TestShortJobs -jobs $(or $(JOBS),10000)

faults-smoke: ## random kills, cuts and malformed inputs on virtual clusters of 16 nodes, held against docs/faults.md: ten minutes (as root); SEED=1 KILLS=100 STOPS=6 CUTS=60 INPUTS=400
	@test/packages $(RUN_PACKAGES) nftables mpich libmpich-dev gcc libc6-dev
	@$(MAKE) --no-print-directory libpmi
	go test -count=1 -timeout 30m -v ./test/faults -seed $(SEED) -kills $(KILLS) -stops $(STOPS) -cuts $(CUTS) -inputs $(INPUTS)

kills: ## random kills of one process of a job, after which nothing is left: an hour; SEED=1 KILLS=2000 (as root)
	@test/packages $(RUN_PACKAGES) nftables mpich libmpich-dev gcc libc6-dev
	@$(MAKE) --no-print-directory libpmi
	go test -count=1 -timeout 5h -v ./test/faults -run 'TestFaults$$' -seed $(SEED) -stops 0 -cuts 0 \
		-kills $(if $(filter command environment,$(firstword $(origin KILLS))),$(KILLS),2000)

spared: ## two jobs that cuts and pauses of less than five seconds cost nothing: SPARED=2h EVERY=30s SEED=1 (as root)
	@test/packages $(RUN_PACKAGES) mpich libmpich-dev gcc libc6-dev
	go test -count=1 -timeout 5h -v ./test/faults -run 'TestSpared$$' -seed $(SEED) -spared $(or $(SPARED),2h) -spared-every $(or $(EVERY),30s)

fuzz: ## each fuzz target with FUZZTIME=100000x inputs, or as many as take about FUZZTIME=60s, by coverage; WIDE=wide: without, many times as fast; out/fuzzed adds up all runs
	@nice -n 19 test/fuzz $(FUZZTIME) $(WIDE)

soak: ## a job of ten minutes with key exchanges, keepalives, Ctrl-Z for 90 s and an agent that is stopped for 50 s (as root)
	go test -count=1 -v -timeout 20m -run Soak ./test/jobcontrol -soak 10m

long-output: ## a gigabyte of output through a deep tree, to a fast and a slow reader, and with labels, where make test has a quarter
	go test -count=1 -v -timeout 20m -run 'TestOutput$$|SlowReader|TestLabels' ./test/e2e -output $$((1 << 30))

numbers: ## jobs of every number of local agents from 1 to 200, where make test has a choice: four minutes
	go test -count=1 -v -timeout 20m -run NumbersOfAgents ./test/e2e -every-number

repeat: ## the reproductions of docs/dev/findings.md, list 21, each 20 times (as root; half an hour); REPEAT=20
	@$(MAKE) --no-print-directory libpmi
	@test/repeat $(REPEAT)

sim: ## the production cores in one process, in all cases and at scale
	nice -n 19 go test -count=1 -v -timeout 20m -skip '$(SIZED)' ./test/sim
	nice -n 19 go test -count=1 -v -timeout 20m -run '(Network|Test)Schedules$$' ./lazy -schedules 300
	nice -n 19 go test -count=1 -v -timeout 20m -run Schedules ./lazy/peer
	@$(MAKE) --no-print-directory sim-sizes

# Tests of test/sim that are much smaller with -short (test/sim/size_test.go).
SIZED := AtScale|Million

sim-sizes: ## what of make sim is smaller in make test: the tests at scale, and the schedules; SCHEDULES=100000
	nice -n 19 go test -count=1 -v -timeout 20m -run '$(SIZED)' ./test/sim
	nice -n 19 go test -count=1 -v -timeout 20m -run Schedules ./lazy/upgrade -schedules $(SCHEDULES)

sim-faults: ## random faults over production cores, in virtual time: 15 to 25 minutes; SEEDS=10000 SEED=1
	nice -n 19 go test -count=1 -timeout 5h ./test/sim -run 'TestRandomFaults$$' -seeds $(or $(SEEDS),10000) -seed $(or $(SEED),1)

resize: ## 64 ranks of a stencil grow from 8 to 12 nodes and shrink to 8 while they compute, over ssh (as root)
	@test/packages $(RUN_PACKAGES)
	go test -count=1 -timeout 20m -v ./test/ssh -run TestResizeOverNodes -wide

picture: ## docs/control-top.svg: what ibrun ctl top shows in a pseudo terminal
	go test -count=1 ./test/e2e -run 'TestControlTop$$' -args -picture $(CURDIR)/docs/control-top.svg

stuck: ## rank 17 of 256 on 16 nodes does not come to a barrier: ibrun ctl names it; package ibrun, MPICH and Open MPI (as root)
	@test/packages $(RUN_PACKAGES) mpich openmpi-bin
	test/ungrouped go test -count=1 -timeout 20m -v ./test/ssh -run TestControlOverNodes -wide

restart: ## 100 restarts of a rank under traffic on a virtual cluster, by datagrams and by streams (as root); RESTARTS=100
	@test/packages $(RUN_PACKAGES)
	go test -count=1 -timeout 20m -v ./test/restarter -restarts $(or $(RESTARTS),100)

restarts: restart ## the same, and the ranks of a node that is cut off, on a spare within 15 s (as root)
	go test -count=1 -timeout 20m -v ./test/restarter -run TestSpareInTime -cut

repair: ## an agent with a third of 64 nodes below it is killed: output and collectives go on (as root)
	@test/packages $(RUN_PACKAGES)
	go test -count=1 -timeout 20m -v ./test/mender -run Large -nodes 64

survive: ## a stencil over InfiniBand that loses a port, a rank and an inner node in one run, and ends with the right result (as root)
	@test/packages $(RUN_PACKAGES) gcc libc6-dev libibverbs-dev
	go test $(TAGS) -count=1 -timeout 20m -v ./test/survivor

sim-launch: bench-planner ## planning for 100,000 and 1,000,000 nodes; simulated launches beside the model: 1,048,576 ranks on 16,384 nodes, and nodes that are slow and dead
	@go test -count=1 -v -run 'MillionRanks|SlowAndDead' ./test/sim

clean: ## what the other targets built
	rm -rf bin out internal/libpmi/built/*.so
