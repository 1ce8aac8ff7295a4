#!/bin/sh
# Print the total of a receipt.
set -eu
here=$(dirname "$0")/..
. "$here/tally.conf"
. "$here/lib/discount.sh"
. "$here/lib/sum.sh"
. "$here/lib/format.sh"
format "$(sum "$1")"
