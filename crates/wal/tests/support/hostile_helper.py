"""Stands between a program and its helper and spoils what the helper answers, once, somewhere.

    hostile_helper.py SEED HELPER

Standard input and output are the program's socket. Requests, and the files sent beside them, go to the helper as
they are, so what it acknowledges is done. After a number of answers that the seed picks, one is spoiled in a way that
the seed picks: a flipped bit, bytes too few, too many or twice, none at all, or the end of everything. From then on
nothing is done any more, so whatever the program still takes for an answer acknowledges what is not there.
"""

import random
import select
import socket
import subprocess
import sys

choose = random.Random(int(sys.argv[1]))
answers_left = choose.choice([1, 2, 3, 5, 10, 25])
how = choose.choice(["flip", "cut", "more", "twice", "swallow", "end"])

program = socket.socket(fileno=0)
ours, theirs = socket.socketpair(socket.AF_UNIX)
helper = subprocess.Popen([sys.argv[2]], stdin=theirs.fileno(), stdout=theirs.fileno())
theirs.close()


def spoil(answer):
    at = choose.randrange(len(answer))
    if how == "flip":
        # In the header as often as in the body.
        at = choose.randrange(min(20, len(answer))) if choose.random() < 0.5 else at
        return answer[:at] + bytes([answer[at] ^ 1 << choose.randrange(8)]) + answer[at + 1 :]
    return {
        "cut": answer[:at],
        "more": answer[:at] + choose.randbytes(choose.randrange(1, 5000)) + answer[at:],
        "twice": answer + answer,
        "swallow": b"",
    }[how]


while True:
    ready, _, _ = select.select([program, ours], [], [])
    if program in ready:
        request, files, _, _ = socket.recv_fds(program, 1 << 16, 8)
        if not request:
            break
        if answers_left > 0:
            # Files go with the first byte, as they came; all of the bytes may not fit at once.
            sent = socket.send_fds(ours, [request], files)
            ours.sendall(request[sent:])
        for file in files:
            socket.close(file)
    if ours in ready:
        answer = ours.recv(1 << 16)
        if not answer:
            break
        answers_left -= 1
        if answers_left == 0:
            if how == "end":
                break
            answer = spoil(answer)
        program.sendall(answer)
ours.close()
helper.wait()
