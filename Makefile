# Every target is a few ordinary commands; nothing here is needed to use the
# module from another one. Override GO to choose a toolchain.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    ?= golang.org/x/tools/cmd/deadcode@v0.52.0
BENCHTIME   ?= 0.1s
BENCHSECS   ?= 5
PYTHON      ?= python3
COMPARED    ?= docs/explain/performance.json
CLANG       ?= clang++-19
PTXDIR      ?= internal/cuda/kernels/ptx
EMULATOR    ?= qemu-aarch64-static
MPICC       ?= mpicc
MPIRUN      ?= mpirun --oversubscribe

.DEFAULT_GOAL := help
.PHONY: help build wheel test-python demo test golden test-long race cuda arm64 audit lint bench compare tables ptx ptx-check sass gpu-check gpu-check-bundle h200-bundle protectors features recipes accuracy figures mpi mpi-check mpi-faults mpi-speed cover clean

found = command -v $(1) >/dev/null 2>&1

# gorgonia.org/cu is compiled against the reduced cuda.h of cudrv, in place of a
# toolkit's; only the environment reaches the compilation of another module.
CUDRV = $(CURDIR)/internal/cuda/driver/cudrv
CUDA  = CGO_CFLAGS='-O2 -g -I$(CUDRV)' CGO_LDFLAGS='-O2 -g -L$(CUDRV)/stub'

help: ## this list, and what was found on this machine
	@echo 'Targets:'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "%-23s %s\n", $$1, $$2 }'
	@echo
	@echo 'Found on this machine:'
	@printf '  Go             '; if $(call found,$(GO)); then $(GO) env GOVERSION GOOS GOARCH | paste -s -d ' '; else echo 'no: Go 1.26 or newer is needed'; fi
	@printf '  C compiler     '; if $(call found,$$($(GO) env CC)); then $$($(GO) env CC) --version | head -n 1; else echo 'no (make build leaves CUDA out; CC chooses another)'; fi
	@printf '  cores          '; getconf _NPROCESSORS_ONLN
	@printf '  GPU driver     '; if $(call found,nvidia-smi) || ls /dev/nvidia0 >/dev/null 2>&1; then echo 'yes (privgrad info says what can be used)'; else echo no; fi
	@printf '  CUDA compiler  '; if $(call found,$(CLANG)); then $(CLANG) --version | head -n 1; else echo 'no: only make ptx needs clang $(clangversion)'; fi
	@printf '  staticcheck    '; if $(call found,staticcheck); then staticcheck -version; else echo 'no (make lint downloads and runs $(STATICCHECK))'; fi
	@printf '  golangci-lint  '; if $(call found,golangci-lint); then golangci-lint version --short 2>/dev/null || echo yes; else echo 'no (make lint leaves it out)'; fi

build: ## compile the command to bin/privgrad, with CUDA where there is a C compiler
	@cc=$$($(GO) env CC); if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && $(call found,$$cc); then \
		echo "with support for GPUs (it also runs without one), by $$cc: $(GO) build -tags gocuda -o bin/privgrad ./cmd/privgrad"; \
		$(CUDA) $(GO) build -tags gocuda -o bin/privgrad ./cmd/privgrad; \
	else \
		echo "without support for GPUs, as there is no C compiler $$cc or CGO_ENABLED is 0: $(GO) build -o bin/privgrad ./cmd/privgrad"; \
		CGO_ENABLED=0 $(GO) build -o bin/privgrad ./cmd/privgrad; \
	fi && echo built bin/privgrad

# The static program of Linux runs everywhere; the one with CUDA runs where glibc is as new as here, and is preferred there.
WHEELS = linux/amd64 linux/arm64 darwin/arm64 darwin/amd64 windows/amd64
STRIPPED = -trimpath -ldflags='-s -w'
wheel: ## write the Python module with the program in it to bin/privgrad-*.whl, for Linux, macOS and Windows; needs no Python
	rm -rf bin/wheel bin/privgrad-*.whl && mkdir -p bin/wheel
	for p in $(WHEELS); do CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build $(STRIPPED) -o bin/wheel/$${p%/*}-$${p#*/}/ ./cmd/privgrad || exit 1; done
	@if [ "$$($(GO) env GOOS)/$$($(GO) env GOARCH)" = linux/amd64 ] && $(call found,$$($(GO) env CC)); then \
		$(CUDA) $(GO) build -tags gocuda $(STRIPPED) -o bin/wheel/linux-amd64-cuda/ ./cmd/privgrad; \
	else echo 'without the wheel that has CUDA, which is built on Linux on amd64 with a C compiler'; fi
	$(GO) run ./cmd/wheel -out bin bin/wheel/*/privgrad*
	@if $(PYTHON) -c 'import auditwheel' 2>/dev/null; then for w in bin/privgrad-*manylinux_2_*.whl; do \
		needs=$$($(PYTHON) -m auditwheel show $$w 2>/dev/null | tr '\n' ' ' | sed -n 's/.*platform tag: *"manylinux_2_\([0-9]*\)_.*/\1/p'); \
		claims=$$(echo $$w | sed 's/.*manylinux_2_\([0-9]*\)_.*/\1/'); \
		echo "$$w: glibc 2.$$needs by auditwheel"; test "$$needs" -le "$$claims" || exit 1; done; \
	else echo 'the tag of Linux was not compared with auditwheel, which $(PYTHON) does not have'; fi

test-python: build ## test the Python module; PYTHON has numpy, and pandas and scikit-learn for all of it (minutes)
	PRIVGRAD_COMMAND='$(CURDIR)/bin/privgrad' PYTHONPATH=python$${PYTHONPATH:+:$$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -W ignore -m unittest discover -s python/tests

demo: build ## train on Fashion-MNIST at epsilon 3, delta 1e-5, by the best known recipe
	bin/privgrad train --epsilon 3 --delta 1e-5 --out runs/demo-$$(date -u +%Y%m%dT%H%M%SZ)

# A test that takes long has a name that begins with TestLong. It belongs to test-long,
# and all others to test. The limits are far off, for slow machines that do much else.
#
# The generator is a module of its own. The packages with assembly are tested
# once more without it, as on a processor that has none: of the slow ones what
# could differ. That lint vets all of it is enough.
#
# Tests leave much garbage. Collecting it less often saves a tenth of their time. The slowest
# packages begin first: at the end no processor waits for one of them. Scratch files lie in
# memory, where there is room.
SLOW = ./cuda ./train ./cmd ./internal/cuda/kernels ./internal/cpu ./audit ./accountant/... ./internal/plan ./internal/device/reference ./features
TEST = GOGC=400 GOMEMLIMIT=2GiB '$(CURDIR)/scripts/scratch.sh' $(GO) test -vet=off -timeout 40m
test: ## run the tests, but for the long ones (minutes)
	$(TEST) -skip '^TestLong' $(SLOW) ./...
	cd internal/cpu/gen && $(TEST) -skip '^TestLong' ./...
	$(TEST) -skip '^TestLong' -tags noasm ./internal/cpu/gemm ./internal/cpu/peak ./internal/cpu/vec ./internal/stream
	$(TEST) -skip '^TestLong' -tags noasm -run 'FirstPath|Table|Fixed|Release|Draws|Layout|Golden|Kernels' ./internal/exact
	$(TEST) -tags noasm -run Golden ./features

golden: ## write help, messages, recorded results and the documentation of settings anew; look at the diff
	$(GO) test ./cmd -run Golden -update
	$(GO) test ./train -run TestSettingsAreDocumented -update

RUN =
LONG = $(sort $(dir $(shell grep -rl '^func TestLong' --include='*_test.go' .)))
test-long: ## run the long tests (a quarter of an hour); LONG=./audit only those of a package
	$(TEST) -run '^TestLong($(RUN))' $(LONG)

# Packages with goroutines of their own; of the slow ones the tests of these.
race: ## run concurrent code with the race detector; needs a C compiler
	$(TEST) -race -skip '^TestLong' ./accountant/ledger ./internal/cuda/driver/fake ./internal/stream
	$(TEST) -race -skip '^TestLong' -run 'Release|Reals' ./internal/exact
	$(TEST) -race -run 'Threads|Bits' ./internal/cpu
	$(TEST) -race -run 'Alone|Progress|Own' ./features
	$(TEST) -race -run 'TestRunsDoNotWait|TestClosing|TestTableFreedUnderRuns' ./cuda

# The tag changes little: what it does not is tested by test.
cuda: ## build, vet and test with the CUDA driver; needs a C compiler, no GPU
	$(CUDA) $(GO) build -tags gocuda ./...
	$(CUDA) $(GO) vet -tags gocuda ./...
	$(CUDA) GO=$(GO) scripts/deadcode.sh $(DEADCODE) gocuda
	$(CUDA) $(TEST) -tags gocuda ./internal/cuda/driver/... ./internal/cuda/gputest ./internal/collective/nccl ./internal/collective/launch
	$(CUDA) $(TEST) -tags gocuda -run 'Info|GPU|TestErrorsSay|TestRunsDoNotWait' ./cmd ./cuda

# Nothing but the kernels of that processor is run: that the rest compiles is seen sooner without optimisation.
# What make lint vets is the same there, but for assembly.
ARM64 = CGO_ENABLED=0 GOARCH=arm64
arm64: ## build and vet for arm64, and test its kernels where EMULATOR runs programs of it
	$(ARM64) $(GO) build -gcflags='all=-N -l' ./...
	$(ARM64) $(GO) vet -gcflags='all=-N -l' ./internal/cpu/... ./internal/stream
	@if $(call found,$(EMULATOR)); then echo testing by $(EMULATOR); \
		$(ARM64) $(TEST) -exec $(EMULATOR) -skip '^TestLong' ./internal/cpu/peak ./internal/cpu/vec && \
		$(ARM64) $(TEST) -exec $(EMULATOR) -skip 'Long|Winograd' ./internal/cpu/gemm; \
	else echo 'no $(EMULATOR): the kernels for NEON are not tested'; fi

# A bundle holds all that a machine with a GPU needs: neither Go nor the sources
# are there. It is packed, since the command alone has 60 MB, with Fashion-MNIST.
BUNDLE = bin/gpu-check
mostbundle = 25165824
gpu-check-bundle: ## build one program, of at most 24 MiB, that checks a machine with a GPU, in bin/gpu-check
	rm -rf $(BUNDLE) bin/_gathered && mkdir -p $(BUNDLE)
	$(GO) run ./cmd/gpucheck/gather -out bin/_gathered
	$(CUDA) GOFLAGS=-buildvcs=true $(GO) build -overlay bin/_gathered/overlay.json -tags gocuda -trimpath -ldflags='-s -w' -o $(BUNDLE)/ ./cmd/gpucheck
	gzip -n -9 $(BUNDLE)/gpucheck
	cp scripts/gpu-check.sh $(BUNDLE)/
	@size=$$(cat $(BUNDLE)/* | wc -c); echo "$(BUNDLE): $$size bytes of at most $(mostbundle)"; test "$$size" -le $(mostbundle)

gpu-check: ## test and measure on this machine's NVIDIA GPU; where there is none, build the bundle for one
	@if $(call found,$(GO)); then $(MAKE) gpu-check-bundle; fi
	@if $(call found,nvidia-smi) || ls /dev/nvidia0 >/dev/null 2>&1; then $(BUNDLE)/gpu-check.sh $(OUTDIR); else \
		echo 'no GPU here: copy $(BUNDLE) to a machine that has one, and run gpu-check.sh there'; fi

# What scripts/h200.sh needs on a lent machine, to which 60 MiB can be taken: the bundle, and the tracked files but for data and pictures.
mosttaken = 62914560
h200-bundle: gpu-check-bundle ## the same for a machine that is lent for minutes (scripts/h200.sh), with a check of what is to be taken there
	@scripts/h200.sh --list first && scripts/h200.sh --list second
	@size=$$({ git ls-files -z -- . ':!datasets/mnist/fashion/*.gz' ':!features/constants' ':!docs/figures'; printf '%s\0' $(BUNDLE)/*; } | xargs -0 cat | wc -c); \
		echo "$(BUNDLE) and the tracked files without datasets/mnist/fashion/*.gz, features/constants and docs/figures: $$size bytes of at most $(mosttaken)"; \
		test "$$size" -le $(mosttaken)

audit: ## plant every fault that audits must find, and audit what is correct (minutes)
	$(TEST) -v -run 'PlantedFaults|CorrectConfigurations|Heard' ./audit

# The commands are those in the cards; mnist needs its four files.
PROTECTORS = dpoptim/l2p/protectors
protectors: build ## meta-train the shipped protectors anew (a quarter of an hour); MNISTDIR has the files of MNIST
	@test -n "$(MNISTDIR)" || { echo 'make protectors needs MNISTDIR, a directory with the files of MNIST: privgrad data fetch mnist' >&2; exit 1; }
	mkdir -p bin/protectors
	PRIVGRAD_DATA="$(MNISTDIR)"; export PRIVGRAD_DATA; for name in quadratic mnist; do \
		recipe=$$(sed -n 's/.*"recipe": "privgrad \([^"]*\)".*/\1/p' $(PROTECTORS)/$$name.json); \
		rm -f bin/protectors/$$name.json bin/protectors/$$name.csv bin/protectors/$$name.png bin/protectors/$$name.safetensors; \
		bin/privgrad $$recipe --out bin/protectors/$$name.safetensors || exit 1; done
	cp bin/protectors/quadratic.* bin/protectors/mnist.* $(PROTECTORS)/ && rm -f $(PROTECTORS)/*.csv $(PROTECTORS)/*.png

# Both need the files of MNIST and CIFAR-10, in folders mnist and cifar10 of DATADIR.
ACCURACY = PRIVGRAD_DATA="$(DATADIR)" $(GO) run ./cmd/accuracy
recipes: ## choose the settings of --recipe best anew, on held-out training images (hours); DATADIR has mnist and cifar10
	@test -n "$(DATADIR)" || { echo 'make recipes needs DATADIR, a directory with the folders mnist and cifar10: privgrad data fetch fills them' >&2; exit 1; }
	rm -f internal/recipes/tried.csv
	$(ACCURACY) tune --seeds 2
	$(ACCURACY) table

accuracy: build ## measure what --recipe best reaches (an hour), and document that; DATADIR as for recipes
	@test -n "$(DATADIR)" || { echo 'make accuracy needs DATADIR, a directory with the folders mnist and cifar10: privgrad data fetch fills them' >&2; exit 1; }
	$(ACCURACY) measure
	$(ACCURACY) measure --sets fmnist --recipe-of mnist
	$(ACCURACY) measure --sets cifar10 --recipe-of fmnist
	$(ACCURACY) page

# Networks take hours, or want a GPU: FIGURES="fig5 rates" reruns those.
NETWORKS = fig5|fig5-cifar10|rates|l2p-mnist35|l2p-fig4|l2p-images|l2p-table1
mpi: ## build bin/privgrad-mpi, which trains by mpirun; MPICC names another MPI's compiler
	CC=$(MPICC) $(GO) build -tags mpi -o bin/privgrad-mpi ./cmd/privgrad

mpi-check: mpi ## run the tests of MPI, training runs and faults, by mpirun with up to four processes
	CC=$(MPICC) $(GO) test -tags mpi -c -o bin/mpi.test ./internal/collective/mpi
	$(MPIRUN) -n 4 bin/mpi.test
	CC=$(MPICC) $(GO) test -tags mpi -c -o bin/ranks.test ./train
	$(MPIRUN) -n 4 bin/ranks.test -test.run '^TestProcessesAreOneRun$$' -test.v
	scripts/mpi-check.sh '$(MPIRUN)'
	scripts/mpi-faults.sh '$(MPIRUN)' quick

mpi-faults: mpi ## break runs of several processes in every way, and look at what is left (minutes); as root a network, too
	scripts/mpi-faults.sh '$(MPIRUN)'

mpi-speed: mpi ## time two ranks of one thread beside one process of two threads, by turns (minutes)
	scripts/mpi-speed.sh '$(MPIRUN)' 2 5

figures: ## rerun the papers' figures, but for networks, into docs/figures (seven hours of processor time, on all cores); DATADIR as for recipes, with tabular
	@test -n "$(DATADIR)" || { echo 'make figures needs DATADIR, a directory with the folders mnist, cifar10 and tabular: docs/guides/reproduce.md' >&2; exit 1; }
	GOFLAGS=-buildvcs=true $(MAKE) build # a page names the commit
	for name in $(or $(FIGURES),$$(bin/privgrad reproduce list | sed -n '/^$$/q; s/^  \([^ ]*\) .*/\1/p' | grep -vxE '$(NETWORKS)')); do \
		bin/privgrad reproduce $$name --data-dir "$(DATADIR)" --out bin/figures || exit 1; \
		cp bin/figures/$$name.md bin/figures/$$name.png docs/figures/ || exit 1; done

features: ## make the constants of front ends anew, in features/constants (a minute)
	$(TEST) ./features -run '^TestLongConstants$$' -update
	$(TEST) ./features -run '^TestGoldenWhitened$$' -update

lint: ## gofmt, go vet, staticcheck, deadcode, and golangci-lint where it is installed
	@unformatted=$$(find . -path ./bin -prune -o -name "*.go" -print0 | xargs -0 gofmt -l); if [ -n "$$unformatted" ]; then echo "gofmt is needed for:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	cd internal/cpu/gen && $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	GO=$(GO) scripts/deadcode.sh $(DEADCODE)
	@if $(call found,golangci-lint); then echo golangci-lint run; golangci-lint run; fi

bench: build ## time the kernels, products, noise, sampling, then steps of cnn-mnist
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./internal/... ./datasets/... ./accountant/...
	bin/privgrad bench gemm
	bin/privgrad bench noise
	bin/privgrad bench sampler
	bin/privgrad bench step --model cnn-mnist --batch 300 --mode private --seconds $(BENCHSECS)
	bin/privgrad bench step --model cnn-mnist --batch 300 --mode plain --seconds $(BENCHSECS)

compare: build ## time steps beside Opacus, torch.func and JAX, where PYTHON has them, and document that
	bin/privgrad bench compare --python $(PYTHON) --out $(COMPARED)
	$(MAKE) tables

tables: build ## write the tables of docs/explain/performance.md and its picture anew
	bin/privgrad bench compare docs/explain/performance.json --out docs/explain/performance.svg >/dev/null
	awk '/^<!-- end/ { skip = 0 } !skip { print } \
		/^<!-- printed by: / { skip = 1; sub(/.*: /, "bin/"); sub(/ -->/, " >/dev/null \\&\\& cat bin/tables.md"); while (($$0 | getline line) > 0) print line; if (close($$0)) exit 1 }' \
		docs/explain/performance.md >bin/performance.md
	mv bin/performance.md docs/explain/performance.md

# The compiler's version is exact, since the files are compared. It needs no part
# of CUDA. PTX of compute capability 8.0 runs on every later GPU.
clangversion = 19.1.7
ptxflags = -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 --cuda-feature=+ptx74 \
	-O3 -std=c++17 -ffp-contract=off -Wall -Wextra -Werror
ptx: ## compile internal/cuda/kernels/*.cu to the PTX that is committed, in internal/cuda/kernels/ptx
	@$(CLANG) --version 2>/dev/null | grep -q ' $(clangversion)\>' || { echo 'make ptx needs $(CLANG) $(clangversion):' \
		'apt-get install clang-19 on Debian 12 or 13, or set CLANG to one of that version' >&2; exit 1; }
	for f in internal/cuda/kernels/*.cu; do $(CLANG) $(ptxflags) -S -o $(PTXDIR)/$$(basename $$f .cu).ptx $$f || exit 1; done

ptx-check: ## assemble the committed PTX for every architecture: nothing spills, no figure of internal/cuda/kernels/sass is worse, cubins are the same
	@PYTHON=$(PYTHON) $(GO) run ./cmd/sass
	@PTX_CHECK=1 $(GO) test -count=1 -run '^TestPlanted$$' ./cmd/sass

sass: ## write these tables and internal/cuda/kernels/cubin anew, and say what got worse
	@PYTHON=$(PYTHON) $(GO) run ./cmd/sass -write

# A block that several test binaries ran counts once.
cover: ## statement coverage of every package by make test's; profile in cover.out
	$(TEST) -skip '^TestLong' -coverpkg=./... -coverprofile=cover.out ./...
	@echo; awk 'NR > 1 { p = $$1; sub("/[^/]*$$", "", p); of[$$1] = p; size[$$1] = $$2; if ($$3) hit[$$1] = 1 } \
		END { for (b in of) { all[of[b]] += size[b]; if (b in hit) ran[of[b]] += size[b] } \
		for (p in all) printf "%6.1f %%  %s\n", 100*ran[p]/all[p], p }' cover.out | sort -k3
	@$(GO) tool cover -func=cover.out | awk 'END { print " " $$3 " of all statements" }'

clean: ## remove bin and cover.out; runs stay
	rm -rf bin cover.out
