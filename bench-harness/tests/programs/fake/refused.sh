#!/bin/sh
# A server that may not have a socket.
echo "fake: error: socket: Permission denied" >&2
exit 1
