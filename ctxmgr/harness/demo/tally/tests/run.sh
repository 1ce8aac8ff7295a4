#!/bin/sh
# Compare the total of every receipt with what it should be; --verbose lists the items.
cd "$(dirname "$0")/.." || exit 1
failed=0
for receipt in receipts/*.txt; do
  name=$(basename "$receipt")
  expected=$(cat "tests/expected/$name")
  got=$(sh bin/tally.sh "$receipt")
  if [ "$got" = "$expected" ]; then
    echo "ok    $name: $got"
  else
    echo "WRONG $name: $got, and not $expected"
    failed=1
  fi
  if [ "$1" = --verbose ]; then sed "s/^/      /" "$receipt"; fi
done
exit $failed
