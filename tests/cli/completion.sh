# The generated completions load in each shell and offer what they should.
. tests/cli/lib.sh
for shell in bash zsh fish; do
	"$run" --completion "$shell" >"$tmp/$shell"
	if ! command -v "$shell" >/dev/null; then
		skip "$shell completion" "$shell is not installed"
		continue
	fi
	case $shell in
	bash)
		: >"$tmp/offered"
		capture bash -uc '. "$1"; COMP_WORDS=(reploid-run --te) COMP_CWORD=1; _reploid_run; echo "${COMPREPLY[@]}"
			COMP_WORDS=(reploid-run --think o) COMP_CWORD=2; _reploid_run; echo "${COMPREPLY[@]}"
			COMP_WORDS=(reploid-run --bench --pp) COMP_CWORD=2; _reploid_run; echo "bench ${COMPREPLY[@]}"
			COMP_WORDS=(reploid-run --bench -o j) COMP_CWORD=3; _reploid_run; echo "formats ${COMPREPLY[@]}"
			COMP_WORDS=(reploid-run -f "$2/offe") COMP_CWORD=2; _reploid_run; echo "${COMPREPLY[@]}"' - "$tmp/bash" "$tmp"
		ok 'bash offers options' has_line '--template --temp'
		ok 'bash offers options of --bench' has_line 'bench --pp-tg'
		ok 'bash offers formats of --bench' has_line 'formats json jsonl'
		ok 'bash offers values' has_line 'on off'
		ok 'bash offers files' has_line "$tmp/offered"
		ok 'bash loads cleanly' quiet
		;;
	zsh)
		capture zsh -fc 'autoload -Uz compinit && compinit -u -D && source "$1" && print -r -- "$_comps[reploid-run]" && zmodload zsh/zpty' - "$tmp/zsh"
		ok 'zsh registers the function' has_line '_reploid_run'
		ok 'zsh loads cleanly' quiet
		capture zsh -n "$tmp/zsh"
		ok 'zsh syntax' code_is 0
		;;
	fish)
		capture fish --no-config -c 'source $argv[1]; complete -C "reploid-run --te"; complete -C "reploid-run --think "; echo bench; complete -C "reploid-run --bench --pp"' "$tmp/fish"
		ok 'fish offers options' has_line '--temp'
		ok 'fish offers options of --bench' has_line '--pp-tg'
		ok 'fish offers values' has_line 'off'
		ok 'fish loads cleanly' quiet
		;;
	esac
done
