# What tries to break out of a confined program.
build/tests/cli/probe.so: tests/cli/probe.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -std=c11 -O1 -fPIC -shared $< -ldl -o $@
