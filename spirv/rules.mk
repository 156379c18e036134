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
