# The program of tests/smollm2/run.
$(B)/tests/smollm2/compare: $(B)/tests/smollm2/compare.o $(LIB)
	$(call say,LD)$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(filter %.o,$^) $(LIB) $(LIBS) -o $@
