# Completion of maxsim-jit for bash. It asks the command itself: --help lists the commands and options, those of the
# ops included, so this file never falls behind.
_maxsim_jit() {
  local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} command=() choices i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || break
  done
  # `warm`, or `cache verify`: the words before the first option name the command whose help is read.
  for (( ; i < COMP_CWORD && ${#command[@]} < 2; ++i)); do
    [[ ${COMP_WORDS[i]} == [a-z]* ]] || break
    command+=("${COMP_WORDS[i]}")
  done
  if [[ $word == -* ]]; then
    choices=$("$tool" "${command[@]}" --help 2>/dev/null | grep -oE '^ +-[^ ]+' | grep -oE -e '--[A-Za-z-]+')
  elif [[ $COMP_CWORD -eq $i ]]; then  # no option yet: a command may follow
    choices=$("$tool" "${command[@]}" --help 2>/dev/null | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\) .*/\1/p')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -o bashdefault -o default -F _maxsim_jit maxsim-jit
