# The kernel tool chain, included by the Makefile.
#
#   make spirv         spirv/wgsl/*.wgsl -> spirv/*.spv and spirv/kernels.json (needs glslang and SPIRV-Cross)
#   make spirv-check   do the checked-in files follow from the sources?
#
# A plain build needs neither: it turns the checked-in files into build/gen/kernel_table.c, part of libreploid.a.

# ---- the built-in kernel table ----
SPIRV_FILES := $(sort $(wildcard spirv/*.spv))

build/tools/spirv-table: spirv/table.c $(wildcard common/base/*.c common/base/*.h)
	@mkdir -p $(@D)
	$(call say,HOST)$(CC) $(CPPFLAGS_ALL) $(LIB_CFLAGS) -std=c11 $(WARN) -O1 -pthread $(filter %.c,$^) $(LIBS) -o $@
build/gen/kernel_table.c: build/tools/spirv-table spirv/kernels.json $(SPIRV_FILES)
	@mkdir -p $(@D)
	$(call say,GEN)build/tools/spirv-table spirv/kernels.json $@

# ---- the translator ----
# Its library part (no glslang in it) is tested and fuzzed on its own; spirv.c, reflect.c and main.c make the program.
WGSLC_TOOL := spirv/wgslc/main.c spirv/wgslc/matrices.c spirv/wgslc/reflect.c spirv/wgslc/spirv.c
WGSLC_SRC := $(filter-out $(WGSLC_TOOL),$(sort $(wildcard spirv/wgslc/*.c)))
WGSLC_LIB := $(B)/libwgslc.a
WGSLC := $(B)/tools/wgslc

# The pinned glslang of scripts/get-glslang when it is there, else the system's.
PINNED := build/glslang
ifneq ($(wildcard $(PINNED)/lib/libglslang.a),)
GLSLANG_CFLAGS := -I$(PINNED)/include
GLSLANG_LIBDIR := -L$(PINNED)/lib
GLSLANG_NAMES := $(patsubst $(PINNED)/lib/lib%.a,%,$(wildcard $(PINNED)/lib/lib*.a))
else
GLSLANG_NAMES := $(foreach n,glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler SPIRV glslang-default-resource-limits \
	SPIRV-Tools-opt SPIRV-Tools,$(if $(wildcard /usr/lib/*/lib$(n).a /usr/lib/lib$(n).a /usr/local/lib/lib$(n).a),$(n)))
endif
GLSLANG_LIBS := $(GLSLANG_LIBDIR) -Wl,--start-group $(GLSLANG_NAMES:%=-l%) -Wl,--end-group
CROSS_LIBS := $(call libs_of,spirv-cross-c-shared)
CAN_TRANSLATE := $(and $(filter glslang,$(GLSLANG_NAMES)),$(CROSS_LIBS))

$(WGSLC_LIB): $(WGSLC_SRC:%.c=$(B)/%.o)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^
$(B)/spirv/wgslc/spirv.o: CPPFLAGS_ALL := $(GLSLANG_CFLAGS) $(CPPFLAGS_ALL)
$(B)/spirv/wgslc/spirv.o: $(wildcard $(PINNED)/version)
$(B)/spirv/wgslc/spirv.o: CFLAGS_ALL += -Wno-strict-prototypes
$(WGSLC): $(WGSLC_TOOL:%.c=$(B)/%.o) $(WGSLC_LIB) $(LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(filter %.o,$^) $(WGSLC_LIB) $(LIB) $(GLSLANG_LIBS) $(CROSS_LIBS) -lstdc++ $(LIBS) -o $@

.PHONY: wgslc spirv spirv-check
ifeq ($(CAN_TRANSLATE),)
wgslc spirv:
	@echo "wgslc needs glslang and SPIRV-Cross: scripts/setup --tests installs them, scripts/get-glslang builds the pinned glslang" >&2; exit 1
spirv-check:
	$(Q)spirv/check none
else
wgslc: $(WGSLC)
spirv: $(WGSLC)
	$(if $(wildcard $(PINNED)/version),,@echo "note: this is not the pinned glslang: to make what can be checked in, run scripts/get-glslang first")
	$(Q)spirv/wgsl/weave
	$(Q)$(WGSLC) --kernels spirv/wgsl -o spirv --push --no-workgroup-init
spirv-check: $(WGSLC)
	$(Q)spirv/check $(WGSLC)
endif

# ---- its tests ----
WGSL_TESTS := $(filter test_wgsl%,$(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c)))
$(foreach t,$(WGSL_TESTS),$(eval $(B)/tests/unit/$(t): $(WGSLC_LIB)))
$(foreach t,$(WGSL_TESTS),$(eval EXTRA_LIBS_$(t) := $(WGSLC_LIB) $(LIB)))
build/fuzz/fuzz_wgsl: $(WGSLC_SRC:%.c=build/fuzz/%.o)
# test_wgsl_run skips itself when there is no translator, so one that does not build must not stop the other tests.
# The libraries come first: this make and the one below must not write them at the same time.
.PHONY: try-wgslc
try-wgslc: $(if $(CAN_TRANSLATE),$(LIB) $(WGSLC_LIB))
	@$(if $(CAN_TRANSLATE),$(MAKE) $(WGSLC) || echo "note: wgslc does not build with this glslang")
$(B)/tests/unit/test_wgsl_run: | try-wgslc
