# Where it is computed when a GPU is there and does not work (broken_vulkan.c stands in for it).
. tests/cli/lib.sh
ask=("$run" -m "$models/tiny.gguf" --prompt-ids 5,6,7 -n 4 --ignore-eos)
capture "${ask[@]}" -q --device cpu
cp "$tmp/out" "$tmp/cpu"
same() { cmp -s "$tmp/out" "$tmp/cpu"; }
broken() { # CALL RESULT COMMAND...
	env LD_LIBRARY_PATH="$PWD/build/tests/cli" BROKEN_CALL="$1" BROKEN_RESULT="$2" "${@:3}"
}
silent() { ! grep -v '^reploid-run: loading ' "$tmp/err"; }
warns() { [ "$(grep -c '^reploid-run: warning: ' "$tmp/err")" -eq 1 ] && says "$1" && says 'on the CPU instead'; }

if ! make -s build/tests/cli/libvulkan.so.1 >"$tmp/log" 2>&1; then
	ok "the loader that fails builds: $(tail -n 1 "$tmp/log")" false
	exit
fi
capture broken none 0 "$run" --list-devices
ok 'the stand-in is used' has_line 'Broken GPU'
while read -r call result code name; do
	capture broken "$call" "$result" "${ask[@]}"
	ok "$call, $name: the CPU answers" code_is 0
	ok "$call, $name: the same answer" same
	ok "$call, $name: a warning" warns "$name"
	capture broken "$call" "$result" "${ask[@]}" -q
	ok "$call, $name: quiet" quiet
	fails "$call, $name: with --device gpu" "$code" "$name" broken "$call" "$result" "${ask[@]}" --device gpu
	fails "$call, $name: with --device 0" "$code" "$name" broken "$call" "$result" "${ask[@]}" --device 0
done <<-'END'
	CreateDevice -1 41 out of host memory (-1)
	CreateDevice -2 41 out of device memory (-2)
	CreateDevice -3 44 initialization failed (-3)
	CreateDevice -4 42 device lost
	CreateDevice -8 11 feature not present (-8)
	CreateDevice -13 44 unknown error (-13)
	CreateInstance -6 44 layer not present (-6)
	EnumeratePhysicalDevices -1 44 out of host memory (-1)
END
capture broken CreateDevice -2 env REPLOID_DEVICE=gpu "${ask[@]}"
ok 'REPLOID_DEVICE names one too' code_is 41
capture broken CreateDevice -13 "${ask[@]}" --json
ok 'json: why' json 'o[-1]["device"]["backend"] == "cpu" and "unknown error (-13)" in o[-1]["device"]["instead"]'
capture "${ask[@]}" --device cpu --json
ok 'json: nothing to explain' json '"instead" not in o[-1]["device"]'

# A machine without a GPU is nothing to warn of.
capture broken EnumeratePhysicalDevices -3 "${ask[@]}"
ok 'no device: the CPU answers' same
ok 'no device: no warning' silent
capture broken CreateInstance -9 "${ask[@]}"
ok 'no driver: the CPU answers' same
ok 'no driver: no warning' silent
fails 'no driver: with --device gpu' 40 'driver' broken CreateInstance -9 "${ask[@]}" --device gpu

# What the user asked for by name is an error, not a reason to go elsewhere; so is what lies with the model.
fails 'kernels asked for' 11 'feature not present (-8)' broken CreateDevice -8 "${ask[@]}" --variant portable
