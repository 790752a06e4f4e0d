# Completion of nearhead in fish: the program says what can stand where the cursor is.
function __nearhead_candidates
    set -lx VARIABLE fish
    PROGRAM -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor) 2>/dev/null
end
complete --command nearhead --no-files --keep-order --arguments '(__nearhead_candidates)'
