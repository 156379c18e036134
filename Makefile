# Reploid: one hand-written Makefile. Everything built lands in $(B) and, for the programs of a plain build, in bin/.
#
#   make              the library and the programs
#   make check-unit   unit tests        make check    all tests (scripts/check also installs what they need)
#   make bench        timings           make spirv    kernels: WGSL to SPIR-V (checked in, so users need not)
#   make fuzz         fuzz targets (clang)
#   make install      DESTDIR and PREFIX are honoured; make uninstall takes it back
#   make man          refresh the generated sections of the manual pages
#   make SAN=address,undefined ...      a sanitizer build in a folder of its own
#   V=1 shows commands
MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:

empty :=
comma := ,
SAN ?=
B ?= build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
BIN := $(if $(SAN),$(B)/bin,bin)
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$@';)

CC ?= cc
ifeq ($(origin CC),default)
CC := cc
endif
AR ?= ar
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
OPT ?= -O2
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CFLAGS ?= $(OPT) -g
CPPFLAGS_ALL := -Icommon -I. -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 $(CPPFLAGS)
CFLAGS_ALL = -std=c11 $(WARN) $(CFLAGS) $(HOT) $(SANFLAGS) -pthread -fno-math-errno

# Libraries of the programs, of the kernel tool chain, of the tests.
# Of Vulkan only the headers: its loader is opened at run time, so that machines without one run on the CPU.
LIB_PKGS := libcjson libpcre2-8 libutf8proc libcrypto libsodium libcurl
HEADER_PKGS := vulkan
TEST_PKGS := cmocka
libs_of = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null)
cflags_of = $(shell $(PKG_CONFIG) --cflags $(1) 2>/dev/null)
LIB_CFLAGS := $(call cflags_of,$(LIB_PKGS) $(HEADER_PKGS))
# A program loads only what it calls: the network library costs the others nothing.
LIBS := -Wl,--as-needed $(call libs_of,$(LIB_PKGS)) -lm -ldl -pthread

LIB := $(B)/libreploid.a
# The second is generated from the checked-in kernels (spirv/rules.mk).
LIB_SRC := $(sort $(wildcard common/*/*.c)) build/gen/kernel_table.c
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
PROGRAMS := $(patsubst cmd/%/main.c,%,$(sort $(wildcard cmd/*/main.c)))
PROGRAM_BINS := $(PROGRAMS:%=$(BIN)/reploid-%)

.PHONY: all
all: $(LIB) $(PROGRAM_BINS)

# ---- objects and the library ----
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) $(LIB_CFLAGS) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# Bulk hashing gains a third from full unrolling.
$(B)/common/hash/%.o: HOT := $(if $(SAN),,-O3)
# Loops that are left to the compiler to vectorise.
$(B)/common/model/dequant%.o $(B)/common/infer/dots%.o $(B)/common/infer/ops%.o: HOT := $(if $(SAN),,-O3)

$(LIB): $(LIB_OBJ)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $(LIB_OBJ)

# ---- programs: cmd/NAME/*.c ----
define program
$(BIN)/reploid-$(1): $$(patsubst %.c,$$(B)/%.o,$$(sort $$(wildcard cmd/$(1)/*.c))) $$(LIB)
	@mkdir -p $$(@D)
	$$(call say,LD)$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS) $$(filter %.o,$$^) $$(LIB) $$(LIBS) -o $$@
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(p))))

# ---- the kernel tool chain: spirv/wgslc (see spirv/rules.mk) ----
-include spirv/rules.mk

# ---- programs of slow tests: tests/NAME/rules.mk ----
-include $(wildcard tests/*/rules.mk)

# ---- unit tests: tests/unit/test_*.c, one program each; tests/unit/*.c without test_ are shared helpers ----
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
UNIT_HELPERS := $(patsubst %.c,$(B)/%.o,$(filter-out $(UNIT_SRC),$(sort $(wildcard tests/unit/*.c))))
UNIT_BINS := $(UNIT_SRC:%.c=$(B)/%)

# a test that makes allocations fail
EXTRA_LIBS_test_model_memory := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
# a test that cuts a file short while it is read
EXTRA_LIBS_test_scan := -Wl,--wrap=pread64

$(B)/tests/unit/test_%: $(B)/tests/unit/test_%.o $(UNIT_HELPERS) $(LIB)
	$(call say,LD)$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(filter %.o,$^) $(LIB) $(EXTRA_LIBS_test_$*) $(call libs_of,$(TEST_PKGS)) $(LIBS) -o $@

.PHONY: unit check-unit check
unit: $(UNIT_BINS)
check-unit: unit
	$(Q)B=$(B) BIN=$(BIN) scripts/run-unit $(UNIT_BINS)
check: all
	$(Q)scripts/check

# ---- fuzz targets: tests/fuzz/fuzz_*.c with clang; the library is built once more for them ----
FB := build/fuzz
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BINS := $(FUZZ_SRC:tests/fuzz/%.c=$(FB)/%)
CLANG ?= clang
FUZZ_FLAGS := -std=c11 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -pthread
FUZZ_OBJ := $(LIB_SRC:%.c=$(FB)/%.o)

$(FB)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CLANG)$(CLANG) $(CPPFLAGS_ALL) $(LIB_CFLAGS) $(FUZZ_FLAGS) -MMD -MP -c $< -o $@
$(FB)/libreploid.a: $(FUZZ_OBJ)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $(FUZZ_OBJ)
$(FB)/fuzz_%: $(FB)/tests/fuzz/fuzz_%.o $(FB)/libreploid.a
	$(call say,LD)$(CLANG) -fsanitize=fuzzer,address,undefined $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -o $@
.PHONY: fuzz
fuzz: $(FUZZ_BINS)

# ---- clean, install ----
# One program a tests/bench/NAME.c that links the library; peer_bench.c links another's and is built by tests/bench/run.
$(B)/bench/%: tests/bench/%.c $(LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS_ALL) $(LIB_CFLAGS) $(CFLAGS_ALL) $(LDFLAGS) $< $(LIB) $(LIBS) -o $@

.PHONY: clean install uninstall bench
clean:
	$(Q)rm -rf build bin
bench: all
	$(Q)status=0; for b in run verify fetch; do echo "== tests/bench/$$b"; tests/bench/$$b || status=1; done; exit $$status

install: all
	$(Q)scripts/install-files "$(DESTDIR)" "$(PREFIX)" $(PROGRAM_BINS)
uninstall: all
	$(Q)scripts/install-files --remove "$(DESTDIR)" "$(PREFIX)" $(PROGRAM_BINS)

# ---- manual pages: the sections that come from the option tables ----
.PHONY: man
man: all
	$(Q)BIN=$(BIN) scripts/man

.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
