#!/bin/sh
# A server that does not stop when it is asked to.
trap '' TERM
echo "fake: naive listening on 0.0.0.0:$3" >&2
exec sleep 60
