# What the command-line tests share; sourced by each of them. A test is one call of `ok`, `skip`, or of something that calls them.
# Set by run: $run (the program under test), $models (made by make_models.py), $tmp (a folder of the file's own), $counts.

ok() { # ok NAME COMMAND...: the command must succeed
	local name=$1
	shift
	if "$@"; then
		echo "passed $name" >>"$counts"
	else
		echo "failed $name" >>"$counts"
		echo "FAIL ${0##*/}: $name"
		sed 's/^/    out: /' "$tmp/out" 2>/dev/null | head -n 10
		sed 's/^/    err: /' "$tmp/err" 2>/dev/null | head -n 10
		[ -z "${status:-}" ] || echo "    status: $status"
	fi
}

skip() { # skip NAME WHY
	echo "skipped $1" >>"$counts"
	echo "SKIP: ${0##*/}: $1: $2"
}

# Run a command; its output goes to $tmp/out and $tmp/err, its code to $status. Standard input is empty unless redirected.
capture() {
	status=0
	if declare -F "$1" >/dev/null; then # a function of the test; timeout knows programs only
		"$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	else
		timeout 120 "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	fi
}

code_is() { [ "$status" -eq "$1" ]; }
says() { grep -qF -- "$1" "$tmp/err"; }
quiet() { [ ! -s "$tmp/err" ]; }
prints() { [ "$(cat "$tmp/out"; echo x)" = "$1x" ]; }
has_line() { grep -qF -- "$1" "$tmp/out"; }

# One line that begins with the program's name, and no sign of a crash.
one_message() {
	[ "$(grep -c '^reploid-[a-z]*: error: ' "$tmp/err")" -eq 1 ] && ! grep -qi 'sanitizer\|assert\|abort\|segmentation' "$tmp/err"
}

fails() { # fails NAME CODE TEXT COMMAND...: ends with CODE and a message that holds TEXT
	local name=$1 code=$2 text=$3
	shift 3
	capture "$@" </dev/null
	check_failure() { code_is "$code" && says "$text" && one_message; }
	ok "$name" check_failure
}

# Every line of $tmp/out is one JSON object; print the expression of Python over o, the list of them.
json() {
	python3 -c 'import json, sys
o = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert all(isinstance(x, dict) for x in o)
r = '"$1"'
sys.exit(0 if r is True else "not true: " + repr(r))' "$tmp/out"
}
