# Canonical JSON of a file, for comparison with ECMAScript's.
build/tests/sign/canonical: $(B)/tests/sign/canonical.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(filter %.o,$^) $(LIB) $(LIBS) -o $@
