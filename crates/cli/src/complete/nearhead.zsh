#compdef nearhead
# Completion of nearhead in zsh: the program says what can stand where the cursor is.
_nearhead() {
    local -a lines closed open
    local line value about home
    lines=("${(@f)$(VARIABLE=zsh PROGRAM -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    # A home folder is not to be quoted.
    if [[ $PREFIX == \~*/* ]]; then
        home=${PREFIX%%/*}/
        IPREFIX+=$home
        PREFIX=${PREFIX#$home}
    fi
    for line in $lines; do
        value=${${line%%$'\t'*}#$home}
        about=${line#*$'\t'}
        value=${${value//\\/\\\\}//:/\\:}
        [[ -z $about ]] || value+=:$about
        # A value, a folder's content or the rest of a target follows.
        case ${line%%$'\t'*} in
            *[=/:,]) open+=("$value") ;;
            *) closed+=("$value") ;;
        esac
    done
    [[ -z $closed ]] || _describe -V nearhead closed
    [[ -z $open ]] || _describe -V nearhead open -S ''
}
# Read by a script, it makes itself known; found by zsh, it is called at once.
if [[ ${funcstack[1]} == _nearhead ]]; then
    _nearhead "$@"
else
    compdef _nearhead nearhead
fi
