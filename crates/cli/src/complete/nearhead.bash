# Completion of nearhead in bash: the program says what can stand where the cursor is.
_nearhead() {
    COMPREPLY=()
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(
        VARIABLE=bash COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
            PROGRAM -- 2>/dev/null
    )
    # A value, a folder's content or the rest of a target follows.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:,] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    # Variables are the shell's own.
    if [[ ${#COMPREPLY[@]} -eq 0 && $2 == *\$* ]]; then
        compopt -o default 2>/dev/null
    fi
}
complete -o nosort -F _nearhead nearhead 2>/dev/null || complete -F _nearhead nearhead
