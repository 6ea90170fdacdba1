# A shell that keeps its variables: runs inside, as the program of a context. Cells are sourced at the
# top, not in a function, so that declare makes what lives on; all of the driver's own is in
# functions, whose redirection hides them from set -x. Frames (sandbox_cell.h) go over descriptor 10,
# which cells do not see under that number. An interrupt makes each level of the cell return.
trap __cofferdam_interrupt INT
__cofferdam_open=
__cofferdam_flags=
__cofferdam_hit=

# Status, name, value and traceback of the end, each behind its number of bytes.
__cofferdam_end() {
	builtin local flags=$- words
	builtin set +eExuvT
	if [[ -n $__cofferdam_hit ]]; then
		builtin trap - DEBUG
		builtin shopt -u extdebug
		flags=$__cofferdam_hit
		__cofferdam_hit=
		words=0000000011interrupted000000000000000000000000000000
	elif [[ $1 == 0 ]]; then
		words=0000000002ok000000000000000000000000000000
	else
		builtin printf -v words '0000000005error0000000004exit%010d%s0000000000' "${#1}" "$1"
	fi
	__cofferdam_flags=${flags//[^eExuvT]/}
	__cofferdam_open=
	builtin printf 'E%010d\n%s' "${#words}" "$words" >&10
}

# The end of the cell before, whose status $1 is (0: it broke out of our loop); the next one into
# __cofferdam_code. Numbers are of bytes, so the cell's locale is left alone: each change costs.
__cofferdam_take() {
	builtin local LC_ALL=C head IFS=
	[[ -z $__cofferdam_open ]] || __cofferdam_end "$1"
	until builtin read -r -u 10 -N 12 head; do
		# An interrupt between cells is nobody's; an end is the end.
		(($? > 128)) || builtin exit 0
	done
	__cofferdam_code=
	head=$((10#${head:1:10}))
	while ((head > 0)); do
		builtin read -r -u 10 -N "$head" REPLY || builtin exit 0
		__cofferdam_code+=$REPLY
		head=0
	done
	if [[ -n $__cofferdam_flags ]]; then
		__cofferdam_code="builtin set -$__cofferdam_flags; $__cofferdam_code"
	fi
	__cofferdam_open=1
}

__cofferdam_interrupt() {
	[[ -n $__cofferdam_open && -z $__cofferdam_hit ]] || builtin return 0
	__cofferdam_hit=c$- # the options as they were: extdebug brings some of its own
	builtin shopt -s extdebug
	builtin set -T
	builtin trap __cofferdam_skip DEBUG
}

__cofferdam_skip() {
	[[ $BASH_COMMAND != __cofferdam_* && ${FUNCNAME[1]-} != __cofferdam_* ]] || builtin return 0
	builtin return 2
}

# shellcheck disable=SC2016 # it is expanded later
__cofferdam_loop='while { __cofferdam_take "$?"; } 2>/dev/null; do
. /dev/fd/211 211<<<"$__cofferdam_code" 10>&-
done
builtin eval "$__cofferdam_loop"'
builtin printf 'H%010d\n%s' 19 'cofferdam-context 1' >&10
builtin eval "$__cofferdam_loop"
