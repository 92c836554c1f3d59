# Copyright (C) by the mpich-topo authors. See LICENSE.
#
# The work is done by the programs in maint/, which say more with --help.

PREFIX ?= /usr/local
MPICH_SRC ?=
MPICH_DEVICE ?=
MPICH_CONFIGURE ?=
VERSIONS ?=
TESTS ?= test
OUTSIDE ?=
SUITES ?= *
MODES ?= *
MINUTES ?= 30
export MPICH_SRC MPICH_DEVICE MPICH_CONFIGURE OUTSIDE

PYTHON_ENV = build/venv/bin/python

.PHONY: help setup fetch apply build demo check check-all check-outside fuzz bench judge refresh patches-check upstream-check install dist clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r verb what; do \
	    printf 'make %-14s %s\n' "$$verb" "$$what"; done
	@echo
	@echo 'MPICH_SRC=PATH        source of MPICH, a tree or tarball (default: Debian'"'"'s package of 4.0.2);'
	@echo '                      several, with colons between them, for check and patches-check'
	@echo 'VERSIONS=4.0,5.0      versions of MPICH for fetch, check and check-all; all'
	@echo 'MPICH_DEVICE=...      ch4:ofi, ch4:ucx or ch3:sock (default: ch4:ofi; of the tests ch3:sock)'
	@echo 'MPICH_CONFIGURE=...   all options for its configure, in the place of ours'
	@echo 'OUTSIDE=DIR           sources of suites for check-outside; SUITES=imb,osu MODES=none,topo_auto: only these'
	@echo 'MPICH_TOPO_CACHE=DIR  downloads and builds (default: ~/.cache/mpich-topo)'

# System packages and build/venv; silent when all is there.
setup:
	@maint/setup

fetch: setup ## download the source of MPICH, or VERSIONS=4.3,5.0 of it
	@$(PYTHON_ENV) maint/fetch $(if $(VERSIONS),--versions $(VERSIONS))

# Runs on a user's machine: needs python3 and patch, nothing else.
apply: ## patch the tree MPICH_SRC=PATH in place; REVERSE=1 takes it back
	@command -v python3 patch >/dev/null || maint/setup --packages
	@python3 maint/apply $(if $(REVERSE),--reverse)

build: setup ## build the patched MPICH and the tools: build/bin
	@$(PYTHON_ENV) maint/build

demo: build ## see the gain on a virtual cluster: measure, tune, compare; ends with a page
	@$(PYTHON_ENV) maint/demo

check: setup ## run the tests, or TESTS=test/tools/test_tune.py, or on VERSIONS=4.0,5.0
	@$(PYTHON_ENV) maint/check $(if $(RECORD),--record) --versions=$(or $(VERSIONS),default) $(TESTS)

check-all: setup ## run the long tests too, and those that need rare parts, on all versions: see README.md
	@maint/setup --all
	@$(PYTHON_ENV) maint/check $(if $(RECORD),--record) --versions=$(or $(VERSIONS),all) --slow test

check-outside: build ## run suites of others in all settings, against stock: maint/check-outside --help
	@$(PYTHON_ENV) maint/build --stock
	@$(PYTHON_ENV) maint/check-outside --suites '$(SUITES)' --modes '$(MODES)'

fuzz: build ## fuzz the reader of tuning files, MINUTES=30; keeps what it finds in test/corpus/fuzz
	@$(PYTHON_ENV) maint/fuzz --minutes $(MINUTES)

bench: build ## measure all cases against their targets, and against the stock MPICH
	@$(PYTHON_ENV) maint/build --stock
	@mkdir -p build/bench
	@build/bin/topo-bench suite -o build/bench/result.json

judge: build ## compare predictions with topo-sim on random sites, and with times of real machines in DATA=DIR
	@$(PYTHON_ENV) maint/judge $(if $(DATA),real $(DATA),sim)

refresh: setup ## write what follows from cvars/ and results: patches, topo_algos.h, README's table
	@$(PYTHON_ENV) maint/refresh

patches-check: setup ## prove that the patches are right
	@$(PYTHON_ENV) maint/patches-check

upstream-check: setup ## prove that each patch in patches/upstream mends MPICH's main, or ONLY=a,b of them
	@$(PYTHON_ENV) maint/upstream-check $(if $(ONLY),--only $(ONLY))

install: setup ## install MPICH and the tools in PREFIX=/usr/local
	@$(PYTHON_ENV) maint/build --install '$(PREFIX)'

dist: setup ## make build/dist: tarballs of this, and of a patched MPICH; DEBIAN=1: a source package of it, too
	@$(PYTHON_ENV) maint/dist $(if $(DEBIAN),--debian)

clean: ## remove build/; with CACHE=1 the downloads and builds in the cache too
	rm -rf build
	$(if $(CACHE),rm -rf "$${MPICH_TOPO_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/mpich-topo}")
