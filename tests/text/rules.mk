# The programs of tests/text/compare.
$(B)/tests/text/%: $(B)/tests/text/%.o $(LIB)
	$(call say,LD)$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(filter %.o,$^) $(LIB) $(LIBS) -o $@
