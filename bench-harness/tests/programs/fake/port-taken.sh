#!/bin/sh
# A server whose port is always taken by somebody else.
echo "fake: error: bind 0.0.0.0:$3: Address already in use" >&2
exit 1
